#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "tables and values made on the spot read best so"
)]

mod properties;

use serde_json::{Value, json};

use super::*;
use crate::{
    api::{Cluster, placement},
    decide::fault::Path,
};

fn compile(placement: Value) -> Placement {
    let wire: placement::Placement = serde_json::from_value(placement).unwrap();
    let mut faults = Vec::new();
    Placement::compile(&wire, &Path::root("placement"), &mut faults).unwrap_or_else(|| panic!("{faults:?}"))
}

fn member(name: &str, mut spec: Value) -> Member {
    spec["syncMode"] = "Push".into();
    let cluster: Cluster =
        serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    Member::of(&cluster).unwrap()
}

fn members(all: impl IntoIterator<Item = Member>) -> BTreeMap<ClusterName, Member> {
    all.into_iter().map(|member| (member.name.clone(), member)).collect()
}

fn names(names: &[&str]) -> BTreeSet<ClusterName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Two clusters in `eu`, three in `us`, one that says nothing of itself.
fn fleet() -> BTreeMap<ClusterName, Member> {
    members([
        member("eu-1", json!({ "region": "eu", "provider": "acme", "zones": ["eu-a"] })),
        member("eu-2", json!({ "region": "eu", "provider": "bolt", "zones": ["eu-a", "eu-b"] })),
        member("us-1", json!({ "region": "us", "provider": "acme", "zones": ["us-a"] })),
        member("us-2", json!({ "region": "us", "provider": "acme", "zones": ["us-b"] })),
        member("us-3", json!({ "region": "us", "provider": "bolt", "zones": ["us-b"] })),
        member("xx", json!({})),
    ])
}

fn placed(placement: Value, holding: &[&str]) -> Vec<String> {
    let placed = compile(placement).place(&fleet(), &names(holding));
    placed.targets.iter().map(ToString::to_string).collect()
}

fn spread(constraints: &[(&str, i64, i64)]) -> Value {
    let constraint = |(field, min, max): &(&str, i64, i64)| json!({ "spreadByField": field, "minGroups": min, "maxGroups": max });
    json!({ "spreadConstraints": constraints.iter().map(constraint).collect::<Vec<_>>() })
}

#[test]
fn an_empty_placement_is_all_clusters_but_those_that_leave() {
    let mut fleet = fleet();
    assert_eq!(Placement::default().place(&fleet, &names(&[])).targets.len(), 6);
    fleet.values_mut().for_each(|member| member.leaving = member.name.as_str() == "xx");
    let placed = compile(json!({})).place(&fleet, &names(&["xx"]));
    assert_eq!(placed.targets, names(&["eu-1", "eu-2", "us-1", "us-2", "us-3"]));
    assert_eq!(placed.excluded[&"xx".parse::<ClusterName>().unwrap()], Exclusion::Leaving);
}

#[test]
fn every_cluster_that_is_not_chosen_has_a_reason() {
    let mut fleet = fleet();
    fleet.get_mut("us-1").unwrap().taints = vec![
        serde_json::from_value(json!({ "key": "gpu", "value": "yes", "effect": "NoSchedule" })).unwrap(),
    ];
    let placement = compile(json!({
        "clusterAffinity": { "exclude": ["eu-2"] },
        "spreadConstraints": [{ "spreadByField": "cluster", "maxGroups": 1 }, { "spreadByField": "region" }],
    }));
    let placed = placement.place(&fleet, &names(&[]));
    let reasons: Vec<(String, String)> =
        placed.excluded.iter().map(|(name, why)| (name.to_string(), why.to_string())).collect();
    let reason = |name: &str, why: &str| (name.to_owned(), why.to_owned());
    assert_eq!(placed.targets, names(&["eu-1"]));
    assert_eq!(
        reasons,
        [
            reason("eu-2", "exclude has it"),
            reason("us-1", "its taint gpu=yes:NoSchedule is not tolerated"),
            reason("us-2", "spreadConstraints leave it out"),
            reason("us-3", "spreadConstraints leave it out"),
            reason("xx", "its Cluster says no region, which spreadConstraints go by"),
        ]
    );
}

#[test]
fn a_taint_keeps_away_what_does_not_tolerate_it() {
    let taint = |effect: &str| json!({ "key": "k", "value": "v", "effect": effect });
    // The taint, the toleration, whether the cluster has the object already, whether it gets it or keeps it.
    let table = [
        (taint("NoSchedule"), None, false, false),
        (taint("NoSchedule"), None, true, true),
        (taint("NoExecute"), None, false, false),
        (taint("NoExecute"), None, true, false),
        (taint("PreferNoSchedule"), None, false, true),
        (taint("NoSchedule"), Some(json!({ "key": "k", "value": "v" })), false, true),
        (
            taint("NoSchedule"),
            Some(json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" })),
            false,
            true,
        ),
        (taint("NoSchedule"), Some(json!({ "key": "k", "value": "other" })), false, false),
        (taint("NoSchedule"), Some(json!({ "key": "k", "value": "v", "effect": "NoExecute" })), false, false),
        (taint("NoSchedule"), Some(json!({ "key": "other", "operator": "Exists" })), false, false),
        (taint("NoSchedule"), Some(json!({ "key": "k", "operator": "Exists" })), false, true),
        (taint("NoExecute"), Some(json!({ "operator": "Exists" })), false, true),
        (
            taint("NoExecute"),
            Some(json!({ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 })),
            true,
            true,
        ),
    ];
    for (taint, toleration, holds, stays) in table {
        let tainted = members([member("a", json!({ "taints": [taint] }))]);
        let placement = compile(json!({ "clusterTolerations": Vec::from_iter(&toleration) }));
        let placed = placement.place(&tainted, &if holds { names(&["a"]) } else { names(&[]) });
        assert_eq!(placed.targets.len() == 1, stays, "{taint} {toleration:?} {holds}");
        assert_eq!(placed.unsatisfied, None);
    }
}

#[test]
fn the_first_group_that_will_do_is_taken() {
    let groups = |constraint: Value| {
        compile(json!({
            "clusterAffinities": [
                { "affinityName": "none", "clusterNames": ["mars-*"] },
                { "affinityName": "near", "clusterNames": ["eu-*"] },
                { "affinityName": "far", "clusterNames": ["us-*"] },
            ],
            "spreadConstraints": [constraint],
        }))
    };
    let near = groups(json!({ "minGroups": 1 })).place(&fleet(), &names(&["us-1"]));
    assert_eq!((near.group.as_deref(), near.targets), (Some("near"), names(&["eu-1", "eu-2"])));
    assert_eq!(near.passed_over, [("none".into(), "no cluster will do".to_owned())]);

    let far = groups(json!({ "minGroups": 3 })).place(&fleet(), &names(&[]));
    assert_eq!((far.group.as_deref(), far.targets), (Some("far"), names(&["us-1", "us-2", "us-3"])));
    assert_eq!(
        far.passed_over[1],
        ("near".into(), "at least 3 clusters are asked for, and 2 will do".to_owned())
    );
    assert_eq!(far.excluded["eu-1"], Exclusion::Affinity(Mismatch::Name));

    let none = groups(json!({ "minGroups": 4 })).place(&fleet(), &names(&[]));
    assert_eq!((none.group, none.targets.len(), none.passed_over.len()), (None, 0, 3));
    assert_eq!(none.unsatisfied.as_deref(), Some("at least 4 clusters are asked for, and 2 will do"));
}

#[test]
fn constraints_that_cannot_be_met_differ_from_no_place_at_all() {
    let nowhere =
        compile(json!({ "clusterAffinity": { "clusterNames": ["mars"] } })).place(&fleet(), &names(&[]));
    assert_eq!((nowhere.targets.len(), nowhere.unsatisfied), (0, None));
    assert_eq!(nowhere.excluded.len(), 6);
    let unmet = compile(spread(&[("cluster", 1, 9), ("region", 3, 0)])).place(&fleet(), &names(&[]));
    assert_eq!(
        unmet.unsatisfied.as_deref(),
        Some("at least 3 regions are asked for, and the clusters that will do are in 2")
    );
    assert_eq!(unmet.excluded["eu-1"], Exclusion::Spread);
}

#[test]
fn clusters_are_as_many_as_allowed_and_regions_as_few() {
    let table: [(&[(&str, i64, i64)], &[&str], &[&str]); 14] = [
        (&[("cluster", 2, 3)], &[], &["eu-1", "eu-2", "us-1"]),
        (&[("cluster", 2, 3)], &["us-3", "xx"], &["eu-1", "us-3", "xx"]),
        (&[("cluster", 0, 0)], &[], &["eu-1", "eu-2", "us-1", "us-2", "us-3", "xx"]),
        (&[("cluster", 1, 9), ("region", 1, 1)], &[], &["eu-1", "eu-2"]),
        (&[("cluster", 1, 9), ("region", 1, 2)], &[], &["eu-1", "eu-2"]),
        (&[("cluster", 1, 9), ("region", 1, 1)], &["us-2"], &["us-1", "us-2", "us-3"]),
        (&[("cluster", 3, 9), ("region", 1, 1)], &[], &["us-1", "us-2", "us-3"]),
        (&[("cluster", 3, 9), ("region", 1, 1)], &["eu-1"], &["us-1", "us-2", "us-3"]),
        (&[("cluster", 4, 9), ("region", 1, 2)], &[], &["eu-1", "eu-2", "us-1", "us-2", "us-3"]),
        (&[("cluster", 1, 2), ("region", 2, 2)], &[], &["eu-1", "us-1"]),
        (&[("cluster", 1, 3), ("region", 2, 2)], &["us-3"], &["eu-1", "us-3", "eu-2"]),
        (&[("cluster", 1, 9), ("zone", 3, 3)], &[], &["eu-1", "eu-2", "us-1"]),
        (&[("cluster", 1, 9), ("zone", 1, 1)], &[], &["eu-1"]),
        (&[("cluster", 1, 9), ("provider", 1, 1), ("region", 2, 2)], &[], &["eu-1", "us-1", "us-2"]),
    ];
    for (constraints, holding, expected) in table {
        let found = compile(spread(constraints)).place(&fleet(), &names(holding));
        assert_eq!(found.targets, names(expected), "{constraints:?} {holding:?} {:?}", found.unsatisfied);
    }
}

#[test]
fn the_preferred_groups_are_taken_that_together_have_clusters_enough() {
    let all = [("a", "r1"), ("b", "r2"), ("c1", "r3"), ("c2", "r3"), ("c3", "r3")];
    let all = members(all.map(|(name, region)| member(name, json!({ "region": region }))));
    let placement = compile(spread(&[("cluster", 4, 9), ("region", 2, 2)]));
    assert_eq!(placement.place(&all, &names(&[])).targets, names(&["a", "c1", "c2", "c3"]));
    assert_eq!(placement.place(&all, &names(&["b"])).targets, names(&["b", "c1", "c2", "c3"]));
}

#[test]
fn constraints_that_exclude_each_other_are_not_met() {
    // Two regions cannot be covered by one cluster.
    assert_eq!(placed(spread(&[("cluster", 1, 1), ("region", 2, 2)]), &[]), [""; 0]);
    // The two regions that have both providers have more than three zones between them.
    let placement = compile(spread(&[("cluster", 5, 9), ("region", 2, 2), ("zone", 1, 3)]));
    let unmet = placement.place(&fleet(), &names(&[])).unsatisfied.unwrap();
    assert_eq!(unmet, "no choice among 5 clusters meets all spreadConstraints together");
}

#[test]
fn a_search_that_takes_too_long_says_so() {
    let all = (0..40).map(|n| {
        member(&format!("c-{n:02}"), json!({ "region": format!("r{n}"), "provider": format!("p{}", n % 20) }))
    });
    let placement = compile(spread(&[("cluster", 20, 40), ("provider", 10, 10), ("region", 1, 19)]));
    let unmet = placement.place(&members(all), &names(&[])).unsatisfied.unwrap();
    assert_eq!(unmet, "no choice that meets all spreadConstraints was found in 10000 steps");
}

#[test]
fn replicas_are_duplicated_or_divided_by_the_highest_weight_that_is_given() {
    let divided = |preference: Value| {
        let mut scheduling = json!({ "replicaSchedulingType": "Divided" });
        if !preference.is_null() {
            scheduling["weightPreference"] = json!({ "staticWeightList": preference });
        }
        compile(json!({ "replicaScheduling": scheduling })).division(fleet().values())
    };
    let weight =
        |names: Value, weight: i64| json!({ "targetCluster": { "clusterNames": names }, "weight": weight });
    assert_eq!(compile(json!({})).division(fleet().values()), Division::Duplicated);
    let duplicated = compile(json!({ "replicaScheduling": { "replicaSchedulingType": "Duplicated" } }));
    assert_eq!(duplicated.division(fleet().values()), Division::Duplicated);
    assert_eq!(divided(Value::Null), Division::Weighted(BTreeMap::new()));
    let weights =
        json!([weight(json!(["eu-*"]), 1), weight(json!(["eu-2", "us-1"]), 3), weight(json!(["*-2"]), 2)]);
    let expected = [("eu-1", 1), ("eu-2", 3), ("us-1", 3), ("us-2", 2)];
    let expected = expected.map(|(name, weight)| (name.parse().unwrap(), weight)).into();
    assert_eq!(divided(weights), Division::Weighted(expected));
}
