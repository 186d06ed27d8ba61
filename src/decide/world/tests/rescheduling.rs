//! What moves when clusters join, leave, fail or are given taints, and what does not.

use super::*;

const ELSEWHERE: &str = "absent: Elsewhere";

fn one_of_them() -> Value {
    json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] })
}

fn deployment() -> Value {
    json!({ "apiVersion": "apps/v1", "spec": { "replicas": 10 } })
}

impl Stage {
    /// A cluster comes, or is another than before, and has been read.
    fn is_now(&mut self, name: &str, more: Value) -> Vec<String> {
        self.view.apply_cluster(cluster(name, more));
        let mut told = self.changed();
        told.extend(self.world.set_known(&self.view, &cluster_name(name)));
        told.into_iter().map(|(cluster, _)| cluster.to_string()).collect()
    }

    fn leaves(&mut self, name: &str) -> Vec<String> {
        self.is_now(name, json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
    }

    fn is_tainted(&mut self, name: &str, key: &str, effect: &str) -> Vec<String> {
        self.is_now(name, json!({ "spec": { "taints": [{ "key": key, "effect": effect }] } }))
    }
}

#[test]
fn a_cluster_that_joins_gets_what_is_placed_on_all_and_one_that_leaves_takes_nothing_from_the_others() {
    for placement in [json!({}), json!({ "replicaScheduling": { "replicaSchedulingType": "Duplicated" } })] {
        let mut stage = Stage::members(&["a", "b"]);
        stage.policy(policy("p", all_of("Deployment"), placement, json!({})));
        stage.template("Deployment", "d", deployment());
        assert!(stage.is_now("c", json!({})).contains(&"c".to_owned()));
        assert_eq!(stage.everywhere("Deployment", "d"), ["present with 10"; 3]);
        for name in ["a", "b", "c"] {
            stage.hold(name, "Deployment", "d", Held::default());
        }
        assert!(stage.leaves("c").contains(&"c".to_owned()));
        let said = stage.everywhere("Deployment", "d");
        assert_eq!(said, ["present with 10", "present with 10", "absent: Leaving"]);
    }
}

#[test]
fn replicas_are_divided_anew_when_a_cluster_joins_and_when_it_leaves() {
    let mut stage = Stage::members(&["a", "b"]);
    let divided = json!({ "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted" } });
    stage.policy(policy("p", all_of("Deployment"), divided, json!({})));
    stage.template("Deployment", "d", deployment());
    assert_eq!(stage.everywhere("Deployment", "d"), ["present with 5"; 2]);
    assert_eq!(stage.is_now("c", json!({})), ["a", "b", "c"]);
    assert_eq!(stage.everywhere("Deployment", "d"), ["present with 4", "present with 3", "present with 3"]);
    for (name, replicas) in [("a", 4), ("b", 3), ("c", 3)] {
        stage.hold(name, "Deployment", "d", Held { replicas: Some(replicas), ..Held::default() });
    }
    assert_eq!(stage.leaves("c"), ["a", "b", "c"]);
    assert_eq!(stage.everywhere("Deployment", "d"), ["present with 5", "present with 5", "absent: Leaving"]);
}

#[test]
fn where_a_chosen_cluster_leaves_another_takes_its_place() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), one_of_them(), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE]);
    assert_eq!(stage.leaves("a"), ["a", "b"]);
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["absent: Leaving", "present"]);
}

#[test]
fn nothing_moves_away_from_a_cluster_that_fails() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), one_of_them(), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    for key in ["cluster.karmada.io/not-ready", "cluster.karmada.io/unreachable"] {
        stage.is_tainted("a", key, "NoSchedule");
        assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE], "{key}");
    }
    stage.template("ConfigMap", "new", json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "new"), [ELSEWHERE, "present"], "what is new goes elsewhere");
}

#[test]
fn a_taint_that_drives_out_moves_what_does_not_tolerate_it_to_another_cluster() {
    for tolerates in [false, true] {
        let mut stage = Stage::members(&["a", "b"]);
        let mut placement = one_of_them();
        if tolerates {
            placement["clusterTolerations"] = json!([{ "key": "repair", "operator": "Exists" }]);
        }
        stage.policy(policy("p", all_of("ConfigMap"), placement, json!({})));
        stage.template("ConfigMap", "x", json!({}));
        stage.hold("a", "ConfigMap", "x", Held::default());
        let told = stage.is_tainted("a", "repair", "NoExecute");
        let expected = if tolerates { ["present", ELSEWHERE] } else { [ELSEWHERE, "present"] };
        assert_eq!(stage.everywhere("ConfigMap", "x"), expected, "{told:?}");
    }
}
