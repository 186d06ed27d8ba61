#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "tables and values made on the spot read best so"
)]

use std::collections::BTreeMap;

use globset::GlobBuilder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{Cluster, placement::ClusterAffinity, propagation::ResourceSelector},
    decide::fault::{Fault, Path},
};

fn resources(selector: Value, own: Option<&str>) -> Result<Resources, Vec<String>> {
    let selector: ResourceSelector = serde_json::from_value(selector).unwrap();
    let mut faults = Vec::new();
    let compiled = Resources::compile(&selector, own, &Path::root("selector"), &mut faults);
    assert_eq!(compiled.is_none(), !faults.is_empty(), "{faults:?}");
    compiled.ok_or(faults.iter().map(Fault::to_string).collect())
}

fn clusters(affinity: Value) -> Result<Clusters, Vec<String>> {
    let affinity: ClusterAffinity = serde_json::from_value(affinity).unwrap();
    let mut faults = Vec::new();
    let compiled = Clusters::compile(&affinity, &Path::root("affinity"), &mut faults);
    assert_eq!(compiled.is_none(), !faults.is_empty(), "{faults:?}");
    compiled.ok_or(faults.iter().map(Fault::to_string).collect())
}

fn member(name: &str, labels: Value, spec: Value) -> Member {
    let mut spec = spec;
    spec["syncMode"] = "Push".into();
    let cluster: Cluster =
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": spec }))
            .unwrap();
    Member::of(&cluster).unwrap()
}

#[test]
fn a_glob_matches_names_of_its_form_and_a_plain_name_itself() {
    let table = [
        ("web", "web", true),
        ("web", "web-1", false),
        ("web-*", "web-1", true),
        ("web-*", "web-", true),
        ("web-*", "web", false),
        ("*-prod", "shop-prod", true),
        ("*-prod", "shop-prod-1", false),
        ("*", "anything.at.all", true),
        ("w?b", "wib", true),
        ("w?b", "wb", false),
        ("web-[0-9]", "web-7", true),
        ("web-[!0-9]", "web-7", false),
        ("{web,api}-*", "api-1", true),
        ("{web,api}-*", "db-1", false),
        ("web{,-canary}", "web", true),
        ("web{,-canary}", "web-canary", true),
        ("*.x-k8s.io", "serviceexports.multicluster.x-k8s.io", true),
        ("system:*", "system:node", true),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        (r"a\*b*", "a*bc", true),
        ("WEB-*", "web-1", false),
    ];
    for (pattern, name, matches) in table {
        assert_eq!(Pattern::parse(pattern).unwrap().matches(name), matches, "{pattern} {name}");
    }
}

#[test]
fn a_glob_that_cannot_be_read_is_a_fault_that_says_how_to_write_it() {
    let table = [
        ("web-[", "it has a [ without a ]; close it with ]"),
        ("{a,b", "it has a { without a }; close it with }"),
        ("a}{", "it has a } without a {; put the { before it"),
        ("[z-a]*", "z-a runs backwards; write a-z"),
        ("*\\", "it ends with a \\ that stands before nothing; leave it out"),
    ];
    for (bad, why) in table {
        assert_eq!(Pattern::parse(bad).unwrap_err(), format!("{bad:?} is not a glob: {why}"));
    }
    assert!(Pattern::parse(&"*".repeat(513)).unwrap_err().ends_with("has 513 bytes, 512 are allowed"));
    let deep = format!("{}a{}", "{".repeat(255), "}".repeat(255));
    assert!(Pattern::parse(&deep).map_or(true, |pattern| pattern.matches("a")), "neither panics nor lies");
}

#[test]
fn a_selector_names_objects_by_name_then_glob_then_labels_then_kind() {
    let labels = json!({ "matchLabels": { "app": "web" } });
    let table = [
        (json!({ "name": "web" }), Some(Rank::Name)),
        (json!({ "name": "we*" }), Some(Rank::Glob)),
        (json!({ "labelSelector": labels }), Some(Rank::Labels)),
        (json!({ "labelSelector": {} }), Some(Rank::Labels)),
        (json!({}), Some(Rank::All)),
        (json!({ "name": "web", "labelSelector": { "matchLabels": { "app": "other" } } }), Some(Rank::Name)),
        (json!({ "name": "api", "labelSelector": labels }), None),
        (json!({ "labelSelector": { "matchLabels": { "app": "other" } } }), None),
        (json!({ "namespace": "shop" }), Some(Rank::All)),
        (json!({ "namespace": "sh*" }), Some(Rank::All)),
        (json!({ "namespace": "bank" }), None),
    ];
    let (kind, labels) =
        (GroupKind::new("apps/v1", "Deployment"), BTreeMap::from([("app".into(), "web".into())]));
    let object = Object { kind: &kind, namespace: "shop", name: "web", labels: &labels };
    for (mut selector, rank) in table {
        selector["apiVersion"] = "apps/v1".into();
        selector["kind"] = "Deployment".into();
        assert_eq!(resources(selector.clone(), None).unwrap().rank(&object), rank, "{selector}");
    }
    assert!(Rank::Name > Rank::Glob && Rank::Glob > Rank::Labels && Rank::Labels > Rank::All);
}

#[test]
fn a_selector_goes_by_group_and_kind_whatever_the_version() {
    let (labels, kind) = (BTreeMap::new(), GroupKind::new("multicluster.x-k8s.io/v1beta1", "ServiceImport"));
    let object = Object { kind: &kind, namespace: "shop", name: "web", labels: &labels };
    let rank = |api_version: &str, kind: &str| {
        resources(json!({ "apiVersion": api_version, "kind": kind }), None).unwrap().rank(&object)
    };
    assert_eq!(rank("multicluster.x-k8s.io/v1alpha1", "ServiceImport"), Some(Rank::All));
    assert_eq!(rank("multicluster.x-k8s.io/v1beta1", "ServiceExport"), None);
    assert_eq!(rank("v1", "ServiceImport"), None);
    assert_eq!(kind.to_string(), "ServiceImport.multicluster.x-k8s.io");
}

#[test]
fn every_fault_of_a_resource_selector_is_reported_at_its_field() {
    let faults = resources(
        json!({
            "apiVersion": "apps/v1/x", "kind": "", "namespace": "Shop", "name": "web-[",
            "labelSelector": {
                "matchLabels": { "a b": "x", "ok": "no good" },
                "matchExpressions": [
                    { "key": "app", "operator": "Is" },
                    { "key": "app", "operator": "In", "values": [] },
                    { "key": "app", "operator": "Exists", "values": ["x"] },
                    { "key": "-", "operator": "NotIn", "values": ["fine", "not/fine"] },
                ],
            },
        }),
        None,
    )
    .unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.split_once(": ").unwrap().0).collect();
    assert_eq!(
        paths,
        [
            "selector.apiVersion",
            "selector.kind",
            "selector.namespace",
            "selector.labelSelector.matchLabels[a b]",
            "selector.labelSelector.matchLabels[ok]",
            "selector.labelSelector.matchExpressions[0].operator",
            "selector.labelSelector.matchExpressions[1].values",
            "selector.labelSelector.matchExpressions[2].values",
            "selector.labelSelector.matchExpressions[3].key",
            "selector.labelSelector.matchExpressions[3].values[1]",
            "selector.name",
        ],
        "{faults:#?}"
    );
    assert_eq!(
        faults[5],
        "selector.labelSelector.matchExpressions[0].operator: \"Is\" is not an operator; use In, NotIn, Exists or DoesNotExist"
    );
}

#[test]
fn a_namespaced_policy_selects_in_its_own_namespace_only() {
    let selector = |namespace: &str| json!({ "apiVersion": "v1", "kind": "Service", "namespace": namespace });
    for own in ["", "shop"] {
        assert!(resources(selector(own), Some("shop")).is_ok());
    }
    for other in ["bank", "sh*"] {
        let faults = resources(selector(other), Some("shop")).unwrap_err();
        assert_eq!(
            faults,
            [format!(
                "selector.namespace: a policy of namespace shop cannot select in {other:?}; \
                 leave the namespace out, or use a cluster-wide policy"
            )]
        );
    }
}

#[test]
fn clusters_are_selected_by_all_that_is_given() {
    let west = member(
        "west-1",
        json!({ "tier": "gold" }),
        json!({ "provider": "acme", "region": "us", "zones": ["us-a", "us-b"] }),
    );
    let field = |key: &str, operator: &str, values: Value| json!({ "fieldSelector": { "matchExpressions": [{ "key": key, "operator": operator, "values": values }] } });
    let table = [
        (json!({}), None),
        (json!({ "clusterNames": ["west-1", "east-1"] }), None),
        (json!({ "clusterNames": ["w*"] }), None),
        (json!({ "clusterNames": ["east-*"] }), Some(Mismatch::Name)),
        (json!({ "clusterNames": ["w*"], "exclude": ["*-1"] }), Some(Mismatch::Excluded)),
        (json!({ "exclude": ["west-1"] }), Some(Mismatch::Excluded)),
        (json!({ "labelSelector": { "matchLabels": { "tier": "gold" } } }), None),
        (json!({ "labelSelector": { "matchLabels": { "tier": "iron" } } }), Some(Mismatch::Labels)),
        (
            json!({ "clusterNames": ["w*"], "labelSelector": { "matchLabels": { "tier": "iron" } } }),
            Some(Mismatch::Labels),
        ),
        (field("provider", "In", json!(["acme"])), None),
        (field("provider", "NotIn", json!(["acme"])), Some(Mismatch::Field("provider"))),
        (field("region", "In", json!(["eu"])), Some(Mismatch::Field("region"))),
        (field("region", "NotIn", json!(["eu"])), None),
        (field("zone", "In", json!(["us-b", "us-c"])), None),
        (field("zone", "In", json!(["us-c"])), Some(Mismatch::Field("zone"))),
        (field("zone", "NotIn", json!(["us-b", "us-c"])), Some(Mismatch::Field("zone"))),
        (field("zone", "NotIn", json!(["us-c"])), None),
    ];
    for (affinity, mismatch) in table {
        assert_eq!(clusters(affinity.clone()).unwrap().mismatch(&west), mismatch, "{affinity}");
    }
}

#[test]
fn a_cluster_that_says_nothing_of_a_field_is_in_none_of_its_values() {
    let plain = member("plain", json!({}), json!({}));
    for key in ["provider", "region", "zone"] {
        let rule = |operator: &str| {
            clusters(json!({ "fieldSelector": { "matchExpressions": [{ "key": key, "operator": operator, "values": ["x"] }] } }))
                .unwrap()
        };
        assert!(!rule("In").matches(&plain), "{key}");
        assert!(rule("NotIn").matches(&plain), "{key}");
    }
}

#[test]
fn the_older_zone_counts_where_there_are_no_zones() {
    assert!(member("a", json!({}), json!({ "zone": "us-a" })).zones.contains("us-a"));
    let both = member("a", json!({}), json!({ "zone": "us-a", "zones": ["us-b"] }));
    assert!(both.zones.iter().eq(["us-b"]));
}

#[test]
fn every_fault_of_a_cluster_selector_is_reported_at_its_field() {
    let faults = clusters(json!({
        "clusterNames": ["west-1", "Member1", "{a"],
        "exclude": [""],
        "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] },
        "fieldSelector": { "matchExpressions": [
            { "key": "country", "operator": "In", "values": ["x"] },
            { "key": "zone", "operator": "Exists" },
        ] },
    }))
    .unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.split_once(": ").unwrap().0).collect();
    assert_eq!(
        paths,
        [
            "affinity.clusterNames[1]",
            "affinity.clusterNames[2]",
            "affinity.exclude[0]",
            "affinity.labelSelector.matchExpressions[0].operator",
            "affinity.fieldSelector.matchExpressions[0].key",
            "affinity.fieldSelector.matchExpressions[1].operator",
            "affinity.fieldSelector.matchExpressions[1].values",
        ],
        "{faults:#?}"
    );
}

proptest! {
    /// What a pattern matches is what its glob matches: neither the literal prefix nor the set changes the answer.
    #[test]
    fn a_pattern_matches_what_globset_says(pattern in r"[a-c*?\[\]{},\\!.-]{0,10}", name in "[a-c.-]{0,8}[a-c]") {
        if let Ok(compiled) = Pattern::parse(&pattern) {
            let expected = match &compiled {
                Pattern::Plain(_) => pattern == name,
                Pattern::Glob(_) => GlobBuilder::new(&pattern)
                    .backslash_escape(true)
                    .empty_alternates(true)
                    .build()
                    .unwrap()
                    .compile_matcher()
                    .is_match(&name),
            };
            prop_assert_eq!(compiled.matches(&name), expected);
            prop_assert!(!expected || name.starts_with(compiled.literal_prefix()));
        }
    }

    #[test]
    fn an_escaped_text_matches_itself_and_nothing_else(text in r"[a-z*?\[\]{},!.-]{1,10}", other in "[a-z.-]{1,10}") {
        // Without a special character there is no glob, and so no escape.
        prop_assume!(text.contains(['*', '?', '[', '{']));
        let escaped: String = text.chars().flat_map(|c| ['\\', c]).collect();
        let pattern = Pattern::parse(&escaped).unwrap();
        prop_assert!(pattern.matches(&text));
        prop_assert_eq!(pattern.matches(&other), other == text);
    }

    #[test]
    fn an_exclusion_wins_over_every_name(names in prop::collection::vec("[a-b*?]{1,3}", 0..4), exclude in "[a-b*?]{1,3}", name in "[a-b]{1,3}") {
        let excluded = Pattern::parse(&exclude).unwrap().matches(&name);
        let compiled = clusters(json!({ "clusterNames": names, "exclude": [exclude] })).unwrap();
        let selected = compiled.matches(&member(&name, json!({}), json!({})));
        prop_assert!(!(excluded && selected));
    }
}
