use proptest::{
    collection::{btree_map, btree_set, vec},
    prelude::*,
    sample::select,
};

use super::*;

fn a_member() -> impl Strategy<Value = Value> {
    let some = |values: &[&'static str]| proptest::option::weighted(0.9, select(values.to_vec()));
    let zones = btree_set(select(vec!["a", "b", "c", "d"]), 0..3);
    let effect = proptest::option::weighted(0.2, select(vec!["NoSchedule", "NoExecute"]));
    (some(&["p", "q"]), some(&["r", "s", "t"]), zones, effect).prop_map(
        |(provider, region, zones, effect)| {
            let taints: Vec<_> =
                effect.iter().map(|effect| json!({ "key": "k", "effect": effect })).collect();
            json!({ "provider": provider, "region": region, "zones": zones, "taints": taints })
        },
    )
}

fn a_fleet() -> impl Strategy<Value = BTreeMap<ClusterName, Member>> {
    btree_map("[ab][0-4]", a_member(), 0..8)
        .prop_map(|specs| members(specs.into_iter().map(|(name, spec)| member(&name, spec))))
}

fn a_holding() -> impl Strategy<Value = BTreeSet<ClusterName>> {
    btree_set("[ab][0-4]".prop_map(|name| name.parse().unwrap()), 0..4)
}

fn an_affinity() -> impl Strategy<Value = Value> {
    let names = select(vec![json!([]), json!(["a*"]), json!(["b0", "b1", "a?"])]);
    let exclude = select(vec![json!([]), json!(["*3"]), json!(["a0"])]);
    (names, exclude).prop_map(|(names, exclude)| json!({ "clusterNames": names, "exclude": exclude }))
}

fn constraints() -> impl Strategy<Value = Vec<(&'static str, i64, i64)>> {
    let topologies = vec!["region", "zone", "provider"];
    let bounds = (1..4i64, 0..3i64).prop_map(|(min, more)| (min, if more == 2 { 0 } else { min + more }));
    (btree_map(select(topologies), bounds.clone(), 0..3), bounds).prop_map(|(topologies, (min, max))| {
        let mut all: Vec<_> = topologies.into_iter().map(|(field, (min, max))| (field, min, max)).collect();
        all.push(("cluster", min, max));
        all
    })
}

/// A placement, with what its spread constraints are if it has any.
fn a_placement() -> impl Strategy<Value = (Value, Vec<(&'static str, i64, i64)>)> {
    let constraints = prop_oneof![1 => Just(Vec::new()), 3 => constraints()];
    (vec(an_affinity(), 0..3), any::<bool>(), constraints).prop_map(|(affinities, tolerant, constraints)| {
        let mut placement = if constraints.is_empty() { json!({}) } else { spread(&constraints) };
        match &affinities[..] {
            [] => {}
            [one] => placement["clusterAffinity"] = one.clone(),
            several => {
                let named = several.iter().cloned().enumerate().map(|(index, mut group)| {
                    group["affinityName"] = format!("g{index}").into();
                    group
                });
                placement["clusterAffinities"] = named.collect();
            }
        }
        if tolerant {
            placement["clusterTolerations"] = json!([{ "key": "k", "operator": "Exists" }]);
        }
        (placement, constraints)
    })
}

fn groups(field: &str, targets: &[&Member]) -> usize {
    let values = targets.iter().flat_map(|member| match field {
        "cluster" => vec![member.name.as_str()],
        "region" => member.region.iter().map(String::as_str).collect(),
        "provider" => member.provider.iter().map(String::as_str).collect(),
        _ => member.zones.iter().map(String::as_str).collect(),
    });
    values.collect::<BTreeSet<_>>().len()
}

/// Whether any choice of clusters meets the constraints, by trying all.
fn any_choice(constraints: &[(&str, i64, i64)], pool: &[&Member]) -> bool {
    (1..1u32 << pool.len()).any(|choice| {
        let chosen: Vec<&Member> = pool
            .iter()
            .enumerate()
            .filter(|(bit, _)| choice >> bit & 1 == 1)
            .map(|(_, member)| *member)
            .collect();
        meets(constraints, &chosen)
    })
}

fn meets(constraints: &[(&str, i64, i64)], chosen: &[&Member]) -> bool {
    constraints.iter().all(|(field, min, max)| {
        let groups = i64::try_from(groups(field, chosen)).unwrap();
        groups >= *min && (*max == 0 || groups <= *max)
    })
}

proptest! {
    #[test]
    fn every_target_may_have_it_and_every_other_cluster_has_a_reason(
        fleet in a_fleet(), holding in a_holding(), (wire, _) in a_placement(),
    ) {
        let placement = compile(wire);
        let placed = placement.place(&fleet, &holding);
        let everywhere = Group::default();
        let group = placement.groups.iter().find(|group| group.name == placed.group).unwrap_or(&everywhere);
        for name in &placed.targets {
            prop_assert_eq!(placement.exclusion(group, &fleet[name], holding.contains(name)), None);
        }
        let (targets, excluded): (BTreeSet<_>, BTreeSet<_>) = (placed.targets.iter().collect(), placed.excluded.keys().collect());
        prop_assert!(targets.is_disjoint(&excluded));
        prop_assert!(targets.union(&excluded).copied().eq(fleet.keys()));
    }

    #[test]
    fn spread_constraints_hold_or_the_result_says_that_they_do_not(
        fleet in a_fleet(), holding in a_holding(), (wire, constraints) in a_placement(),
    ) {
        let placed = compile(wire).place(&fleet, &holding);
        let targets: Vec<&Member> = placed.targets.iter().map(|name| &fleet[name]).collect();
        prop_assert!(targets.is_empty() || meets(&constraints, &targets), "{:?}", placed);
        prop_assert!(targets.is_empty() || placed.unsatisfied.is_none());
    }

    #[test]
    fn one_topology_constraint_is_met_if_it_can_be(
        fleet in a_fleet(), holding in a_holding(), field in select(vec!["region", "provider"]),
        (min, more) in (1..4i64, 0..3i64), clusters in (1..4i64, 0..3i64),
    ) {
        let constraints = [("cluster", clusters.0, clusters.0 + clusters.1), (field, min, min + more)];
        let placement = compile(spread(&constraints));
        let placed = placement.place(&fleet, &holding);
        let (pool, _) = placement.pool(&Group::default(), &fleet, &holding);
        prop_assert_eq!(!placed.targets.is_empty(), any_choice(&constraints, &pool), "{:?}", placed);
    }

    #[test]
    fn a_placement_that_was_made_stays(fleet in a_fleet(), holding in a_holding(), (wire, _) in a_placement()) {
        let placement = compile(wire);
        let placed = placement.place(&fleet, &holding);
        if placed.unsatisfied.is_none() {
            let again = placement.place(&fleet, &placed.targets);
            prop_assert_eq!(placed.targets, again.targets);
        }
    }

    #[test]
    fn a_cluster_that_does_not_match_changes_nothing(
        fleet in a_fleet(), holding in a_holding(), (mut wire, _) in a_placement(), newcomer in a_member(),
    ) {
        for affinity in wire["clusterAffinities"].as_array_mut().into_iter().flatten() {
            affinity["exclude"] = json!(["new"]);
        }
        if wire.get("clusterAffinities").is_none_or(Value::is_null) {
            wire["clusterAffinity"]["exclude"] = json!(["new"]);
        }
        wire.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let placement = compile(wire);
        let before = placement.place(&fleet, &holding);
        let mut larger = fleet;
        larger.insert("new".parse().unwrap(), member("new", newcomer));
        let mut after = placement.place(&larger, &holding);
        after.excluded.remove("new");
        prop_assert_eq!(before, after);
    }

    #[test]
    fn what_may_change_is_what_a_choice_in_full_knowledge_changes(
        fleet in a_fleet(), holding in a_holding(), unread in a_holding(), (wire, _) in a_placement(),
        weighted in any::<bool>(),
    ) {
        let mut placement = compile(wire);
        placement.weights = weighted.then(Vec::new);
        let placed = placement.place(&fleet, &holding);
        let then = placement.place(&fleet, &holding.union(&unread).cloned().collect());
        let stays = !holding.is_empty() && placed.targets == holding;
        let moves = !stays && (placement.chooses() || then.group != placed.group);
        let may = !unread.is_empty() && (moves || (weighted && then.targets != placed.targets));
        prop_assert_eq!(placement.may_change(&fleet, &holding, &unread, &placed), may);
    }
}
