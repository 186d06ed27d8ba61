//! What is to be where, on small worlds.

#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

mod choices;
mod dependencies;
mod outcome;
mod properties;
mod rescheduling;

use serde_json::json;

use super::*;
use crate::api::{Cluster, PropagationPolicy, names::annotation};

/// A world with a view that is synced, of which one may say what is to be where.
pub(super) struct Stage {
    pub(super) view: View,
    pub(super) world: World,
}

pub(super) fn cluster_name(name: &str) -> ClusterName {
    name.parse().unwrap()
}

pub(super) fn kind_of(kind: &str) -> GroupKind {
    GroupKind { group: if kind == "Deployment" { "apps" } else { "" }.into(), kind: kind.into() }
}

pub(super) fn key_of(kind: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: kind_of(kind), namespace: "shop".into(), name: name.into() }
}

pub(super) fn cluster(name: &str, more: Value) -> Cluster {
    let mut object = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } });
    json_patch::merge(&mut object, &more);
    serde_json::from_value(object).unwrap()
}

/// A cluster that was given ConfigMaps and Deployments before.
pub(super) fn given(name: &str, more: Value) -> Cluster {
    let mut object =
        json!({ "metadata": { "annotations": { annotation::KINDS: "ConfigMap,Deployment.apps" } } });
    json_patch::merge(&mut object, &more);
    cluster(name, object)
}

pub(super) fn policy(name: &str, selectors: Value, placement: Value, more: Value) -> PropagationPolicy {
    let mut object = json!({
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "resourceSelectors": selectors, "placement": placement },
    });
    json_patch::merge(&mut object, &more);
    serde_json::from_value(object).unwrap()
}

pub(super) fn all_of(kind: &str) -> Value {
    let version = if kind == "Deployment" { "apps/v1" } else { "v1" };
    json!([{ "apiVersion": version, "kind": kind, "namespace": "shop" }])
}

pub(super) fn on(clusters: &[&str]) -> Value {
    json!({ "clusterAffinity": { "clusterNames": clusters } })
}

impl Stage {
    pub(super) fn new() -> Self {
        let mut view = View::new("tombolo-system");
        let none = BTreeSet::new();
        view.retain_clusters(&BTreeSet::new());
        view.retain_namespaces(&BTreeSet::new());
        view.retain_propagation_policies(&none);
        view.retain_cluster_propagation_policies(&none);
        view.retain_override_policies(&none);
        view.retain_cluster_override_policies(&none);
        view.retain_services(&BTreeSet::new());
        view.retain_exports(&BTreeSet::new());
        view.retain_imports(&BTreeSet::new());
        view.take_changes();
        let mut stage = Self { view, world: World::new("hub".into()) };
        stage.world.set_policy_kinds("p".into());
        for kind in ["ConfigMap", "Deployment"] {
            let version = if kind == "Deployment" { "apps/v1" } else { "v1" };
            stage.world.open_kind(kind_of(kind), version.into(), None);
            stage.world.retain_templates(&stage.view, &kind_of(kind), &BTreeSet::new());
        }
        stage
    }

    fn members(names: &[&str]) -> Self {
        let mut stage = Self::new();
        for name in names {
            stage.view.apply_cluster(cluster(name, json!({})));
            stage.world.set_known(&stage.view, &cluster_name(name));
        }
        stage.changed();
        stage
    }

    /// Carries changes of the view into the world.
    pub(super) fn changed(&mut self) -> Dirty {
        let changes = self.view.take_changes();
        self.world.reconsider(&self.view, &changes)
    }

    fn policy(&mut self, policy: PropagationPolicy) -> Dirty {
        self.view.apply_propagation_policy(policy);
        self.changed()
    }

    fn no_policy(&mut self, name: &str) -> Dirty {
        self.view.delete_propagation_policy(&PolicyKey { namespace: Some("shop".into()), name: name.into() });
        self.changed()
    }

    pub(super) fn template(&mut self, kind: &str, name: &str, more: Value) -> Dirty {
        let mut object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": { "namespace": "shop", "name": name, "uid": "1" },
        });
        json_patch::merge(&mut object, &more);
        self.world.apply_template(&self.view, &key_of(kind, name), &object)
    }

    fn hold(&mut self, cluster: &str, kind: &str, name: &str, held: Held) -> Dirty {
        self.world.hold(&self.view, &cluster_name(cluster), &key_of(kind, name), Some(held))
    }

    /// What is to be in a cluster, in a word.
    pub(super) fn says(&self, cluster: &str, kind: &str, name: &str) -> String {
        match self.world.desired(&self.view, &cluster_name(cluster), &key_of(kind, name), None) {
            Desired::Unknown(why) => format!("unknown: {why}"),
            Desired::HeldBack(why) => format!("held back: {why}"),
            Desired::Faulty(why) => format!("faulty: {why}"),
            Desired::Present(wanted) => {
                let body = wanted.render("v1", None).body;
                match body.pointer("/spec/replicas") {
                    Some(replicas) => format!("present with {replicas}"),
                    None => "present".to_owned(),
                }
            }
            Desired::Absent(why) => format!("absent: {why:?}"),
        }
    }

    fn everywhere(&self, kind: &str, name: &str) -> Vec<String> {
        self.view.members().keys().map(|cluster| self.says(cluster.as_str(), kind, name)).collect()
    }
}

#[test]
fn a_template_is_placed_where_its_policy_says_and_every_such_cluster_is_told() {
    let mut stage = Stage::members(&["a", "b", "c"]);
    assert!(stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), json!({}))).is_empty());
    let dirty = stage.template("ConfigMap", "x", json!({}));
    assert_eq!(dirty.iter().map(|(cluster, _)| cluster.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", "present", "absent: Elsewhere"]);
    assert!(stage.template("ConfigMap", "x", json!({})).is_empty(), "the same again is no news");
}

#[test]
fn a_templates_own_word_on_conflicts_counts_for_more_than_its_policys() {
    use crate::api::propagation::ConflictResolution::{Abort, Overwrite};
    let mut stage = Stage::members(&["a"]);
    let resolution = |stage: &Stage| match stage.world.desired(
        &stage.view,
        &cluster_name("a"),
        &key_of("ConfigMap", "x"),
        None,
    ) {
        Desired::Present(wanted) => wanted.conflict_resolution,
        other => panic!("{other:?}"),
    };
    for (policys, own, then) in [
        ("Abort", "overwrite", Overwrite),
        ("Overwrite", "abort", Abort),
        ("Overwrite", "perhaps", Overwrite),
        ("Abort", "perhaps", Abort),
    ] {
        let says = json!({ "spec": { "conflictResolution": policys } });
        stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), says));
        let own_word = json!({ "work.karmada.io/conflict-resolution": own });
        stage.template("ConfigMap", "x", json!({ "metadata": { "annotations": own_word } }));
        assert_eq!(resolution(&stage), then, "{policys} {own}");
    }
}

#[test]
fn a_placement_that_moves_tells_the_old_and_the_new_clusters() {
    let mut stage = Stage::members(&["a", "b", "c"]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    let dirty = stage.policy(policy("p", all_of("ConfigMap"), on(&["b"]), json!({})));
    assert_eq!(dirty.iter().map(|(cluster, _)| cluster.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["absent: Elsewhere", "present", "absent: Elsewhere"]);
}

#[test]
fn without_its_policy_a_copy_stays_and_follows_its_template_and_no_cluster_is_added() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    stage.no_policy("p");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", "absent: Elsewhere"]);
    let dirty = stage.template("ConfigMap", "x", json!({ "data": { "k": "v" } }));
    assert_eq!(dirty.len(), 1, "who has it is told: {dirty:?}");
}

#[test]
fn a_copy_whose_policy_asked_for_it_goes_with_the_policy() {
    let mut stage = Stage::members(&["a"]);
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held { delete_with_policy: true, ..Held::default() });
    assert_eq!(stage.says("a", "ConfigMap", "x"), "absent: NoPolicy");
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), json!({})));
    assert_eq!(stage.says("a", "ConfigMap", "x"), "present");
}

#[test]
fn nothing_is_said_of_what_is_not_known() {
    let mut stage = Stage::members(&["a"]);
    let strange = ObjectKey { kind: kind_of("Secret"), namespace: "shop".into(), name: "x".into() };
    let desired = stage.world.desired(&stage.view, &cluster_name("a"), &strange, None);
    assert!(matches!(desired, Desired::Unknown(_)), "its kind is not watched: {desired:?}");
    stage.world.open_kind(kind_of("Secret"), "v1".into(), None);
    let desired = stage.world.desired(&stage.view, &cluster_name("a"), &strange, None);
    assert!(matches!(desired, Desired::Unknown(_)), "its kind is not synced: {desired:?}");
    let blank = World::new("hub".into());
    let unsynced = View::new("tombolo-system");
    let desired = blank.desired(&unsynced, &cluster_name("a"), &key_of("ConfigMap", "x"), None);
    assert!(matches!(desired, Desired::Unknown(_)), "policies are not synced: {desired:?}");
}

#[test]
fn copies_without_a_template_are_looked_at_once_the_templates_are_known() {
    let mut stage = Stage::members(&["a"]);
    stage.world.open_kind(kind_of("Secret"), "v1".into(), None);
    let key = ObjectKey { kind: kind_of("Secret"), namespace: "shop".into(), name: "left".into() };
    stage.world.hold(&stage.view, &cluster_name("a"), &key, Some(Held::default()));
    let dirty = stage.world.retain_templates(&stage.view, &kind_of("Secret"), &BTreeSet::new());
    assert_eq!(dirty, Dirty::from([(cluster_name("a"), key)]));
}

#[test]
fn replicas_are_divided_and_stay_divided_without_the_policy() {
    let mut stage = Stage::members(&["a", "b"]);
    let placement = json!({
        "clusterAffinity": { "clusterNames": ["a", "b"] },
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": { "staticWeightList": [
                { "targetCluster": { "clusterNames": ["a"] }, "weight": 2 },
                { "targetCluster": { "clusterNames": ["b"] }, "weight": 1 },
            ] },
        },
    });
    stage.policy(policy("p", all_of("Deployment"), placement, json!({})));
    stage.template("Deployment", "d", json!({ "apiVersion": "apps/v1", "spec": { "replicas": 9 } }));
    assert_eq!(stage.everywhere("Deployment", "d"), ["present with 6", "present with 3"]);
    stage.hold("a", "Deployment", "d", Held { replicas: Some(6), ..Held::default() });
    stage.no_policy("p");
    assert_eq!(stage.says("a", "Deployment", "d"), "present with 6");
}

#[test]
fn what_a_workload_names_goes_along_and_goes_when_nothing_names_it() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), json!({ "spec": { "propagateDeps": true } })));
    stage.template("ConfigMap", "settings", json!({}));
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: Elsewhere");
    let naming = json!({ "apiVersion": "apps/v1", "spec": { "template": { "spec": {
        "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": "settings" } }] }],
    } } } });
    let dirty = stage.template("Deployment", "d", naming);
    assert!(dirty.contains(&(cluster_name("a"), key_of("ConfigMap", "settings"))), "{dirty:?}");
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["present", "absent: Elsewhere"]);
    stage.hold("a", "Deployment", "d", Held::default());
    stage.hold("a", "ConfigMap", "settings", Held { dependency: true, ..Held::default() });

    // Without the policy both stay.
    stage.no_policy("p");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "present");

    // It moves along.
    let moved = policy("p", all_of("Deployment"), on(&["b"]), json!({ "spec": { "propagateDeps": true } }));
    let dirty = stage.policy(moved);
    assert!(dirty.contains(&(cluster_name("a"), key_of("ConfigMap", "settings"))), "{dirty:?}");
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["absent: NotNamed", "present"]);
}

#[test]
fn a_secret_that_leads_into_a_member_goes_nowhere_not_even_along_with_what_names_it() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), json!({ "spec": { "propagateDeps": true } })));
    stage.policy(policy("q", all_of("Secret"), on(&["b"]), json!({})));
    stage.world.open_kind(kind_of("Secret"), "v1".into(), None);
    stage.world.retain_templates(&stage.view, &kind_of("Secret"), &BTreeSet::new());
    let naming = json!({ "apiVersion": "apps/v1", "spec": { "template": { "spec": {
        "containers": [{ "name": "c", "envFrom": [{ "secretRef": { "name": "way" } }] }],
    } } } });
    stage.template("Deployment", "d", naming);
    stage.template("Secret", "way", json!({}));
    assert_eq!(stage.everywhere("Secret", "way"), ["present", "present"]);
    for field in ["secretRef", "impersonatorSecretRef"] {
        let names = json!({ "spec": { field: { "namespace": "shop", "name": "way" } } });
        stage.view.apply_cluster(cluster("b", names));
        stage.changed();
        let says = stage.everywhere("Secret", "way");
        assert!(says.iter().all(|says| says.starts_with("absent")), "{field}: {says:?}");
        stage.view.apply_cluster(cluster("b", json!({})));
        stage.changed();
        assert_eq!(stage.everywhere("Secret", "way"), ["present", "present"]);
    }
}

#[test]
fn suspension_and_missing_overrides_hold_everything_back() {
    let mut stage = Stage::members(&["a", "b"]);
    let suspended =
        json!({ "spec": { "suspension": { "dispatchingOnClusters": { "clusterNames": ["a"] } } } });
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), suspended));
    stage.template("ConfigMap", "x", json!({}));
    assert_eq!(
        stage.everywhere("ConfigMap", "x"),
        ["held back: its policy is suspended for this cluster", "present"]
    );
    let waiting = json!({ "spec": { "dependentOverrides": ["o"] } });
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), waiting));
    assert!(stage.says("a", "ConfigMap", "x").starts_with("held back: it waits for"));
    let over = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "o" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Secret", "namespace": "shop" }],
                  "overrideRules": [{ "overriders": { "labelsOverrider": [{ "operator": "add", "value": { "k": "v" } }] } }] },
    }));
    stage.view.apply_override_policy(over.unwrap());
    let dirty = stage.changed();
    assert!(dirty.contains(&(cluster_name("a"), key_of("ConfigMap", "x"))), "it waited for that: {dirty:?}");
    assert_eq!(stage.says("a", "ConfigMap", "x"), "present");
}

#[test]
fn a_choice_of_clusters_waits_until_it_is_known_who_has_it() {
    let mut stage = Stage::new();
    for name in ["a", "b"] {
        stage.view.apply_cluster(given(name, json!({})));
    }
    stage.changed();
    let placement =
        json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] });
    stage.policy(policy("p", all_of("ConfigMap"), placement, json!({})));
    stage.template("ConfigMap", "x", json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["absent: Elsewhere"; 2], "nobody knows who has it");
    stage.world.set_known(&stage.view, &cluster_name("a"));
    stage.hold("b", "ConfigMap", "x", Held::default());
    stage.world.set_known(&stage.view, &cluster_name("b"));
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["absent: Elsewhere", "present"], "who has it keeps it");
}

#[test]
fn in_a_cluster_that_leaves_copies_are_let_go_or_deleted_as_asked() {
    let mut stage = Stage::members(&["a"]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    let leaving = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    stage.view.apply_cluster(cluster("a", leaving.clone()));
    assert!(!stage.changed().is_empty());
    assert_eq!(stage.says("a", "ConfigMap", "x"), "absent: Leaving");
    let mut behind_nothing = leaving;
    behind_nothing["metadata"]["annotations"] = json!({ annotation::DELETE_COPIES: "true" });
    stage.view.apply_cluster(cluster("a", behind_nothing));
    stage.changed();
    assert_eq!(stage.says("a", "ConfigMap", "x"), "absent: LeavingBehindNothing");
}
