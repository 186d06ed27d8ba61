//! Where there is a choice among clusters and it is not known what all of them have, as after a restart.

use super::*;

const ELSEWHERE: &str = "absent: Elsewhere";

/// A world after a restart: clusters that were given objects, of which nothing was read yet.
fn restarted(names: &[&str]) -> Stage {
    let mut stage = Stage::new();
    names.iter().for_each(|name| stage.view.apply_cluster(given(name, json!({}))));
    stage.changed();
    stage
}

impl Stage {
    fn read(&mut self, cluster: &str) -> Dirty {
        self.world.set_known(&self.view, &cluster_name(cluster))
    }

    /// A cluster does not answer, and so has Karmada's taint.
    fn is_lost(&mut self, name: &str) {
        let taint = json!([{ "key": "cluster.karmada.io/unreachable", "effect": "NoSchedule" }]);
        self.view.apply_cluster(given(name, json!({ "spec": { "taints": taint } })));
        self.changed();
    }

    fn awaited(&self, kind: &str, name: &str) -> Option<&str> {
        self.world.assignment(&key_of(kind, name)).and_then(|assignment| assignment.unplaced.as_deref())
    }
}

fn two() -> Value {
    json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 2, "maxGroups": 2 }] })
}

fn divided() -> Value {
    json!({ "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted" } })
}

#[test]
fn a_choice_stays_as_it_was_while_one_of_its_clusters_was_not_read_yet() {
    let mut stage = restarted(&["a", "b", "c"]);
    stage.policy(policy("p", all_of("ConfigMap"), two(), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    stage.read("a");
    stage.read("b");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE, ELSEWHERE], "b is not taken for c");
    assert!(stage.awaited("ConfigMap", "x").is_some_and(|why| why.contains("whether c has")));
    stage.is_lost("c");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE, ELSEWHERE], "nor if it is lost");
    stage.hold("c", "ConfigMap", "x", Held::default());
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE, "present"]);
    assert_eq!(stage.awaited("ConfigMap", "x"), None);
}

#[test]
fn a_choice_that_is_met_waits_for_nobody() {
    let mut stage = restarted(&["a", "b", "c"]);
    stage.policy(policy("p", all_of("ConfigMap"), two(), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    for cluster in ["a", "b"] {
        stage.hold(cluster, "ConfigMap", "x", Held::default());
        stage.read(cluster);
    }
    stage.is_lost("c");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", "present", ELSEWHERE]);
    assert_eq!(stage.awaited("ConfigMap", "x"), None);
}

#[test]
fn replicas_are_not_shared_out_anew_while_a_lost_cluster_may_have_some() {
    let mut stage = restarted(&["a", "b", "c"]);
    stage.policy(policy("p", all_of("Deployment"), divided(), json!({})));
    stage.template("Deployment", "d", json!({ "apiVersion": "apps/v1", "spec": { "replicas": 9 } }));
    stage.is_lost("c");
    for cluster in ["a", "b"] {
        stage.hold(cluster, "Deployment", "d", Held { replicas: Some(3), ..Held::default() });
        stage.read(cluster);
    }
    assert_eq!(stage.everywhere("Deployment", "d"), ["present with 3", "present with 3", ELSEWHERE]);
    let told = stage.read("c");
    assert_eq!(
        stage.everywhere("Deployment", "d"),
        ["present with 5", "present with 4", ELSEWHERE],
        "it has none"
    );
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_second_group_is_not_taken_while_a_lost_cluster_of_the_first_may_have_it() {
    let mut stage = restarted(&["a", "b"]);
    let groups = json!({ "clusterAffinities": [
        { "affinityName": "first", "clusterNames": ["a"] }, { "affinityName": "second", "clusterNames": ["b"] },
    ] });
    stage.policy(policy("p", all_of("ConfigMap"), groups, json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.is_lost("a");
    stage.read("b");
    assert_eq!(stage.everywhere("ConfigMap", "x"), [ELSEWHERE; 2]);
    stage.read("a");
    assert_eq!(stage.everywhere("ConfigMap", "x"), [ELSEWHERE, "present"], "it has none");
}

#[test]
fn where_all_clusters_get_all_of_it_a_lost_one_holds_up_nobody() {
    let mut stage = restarted(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), json!({}), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.is_lost("b");
    stage.read("a");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE]);
}

#[test]
fn a_template_that_no_lost_cluster_can_have_is_placed_at_once() {
    let mut stage = restarted(&["a", "b", "c"]);
    stage.world.set_leads(&stage.view, true);
    stage.policy(policy("p", all_of("ConfigMap"), two(), json!({})));
    stage.is_lost("c");
    stage.read("a");
    stage.read("b");
    stage.template("ConfigMap", "new", json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "new"), ["present", "present", ELSEWHERE]);
    // Under another leader it may have come to any.
    stage.world.set_leads(&stage.view, false);
    stage.template("ConfigMap", "other", json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "other"), [ELSEWHERE; 3]);
    assert_eq!(stage.everywhere("ConfigMap", "new"), [ELSEWHERE; 3]);
}

#[test]
fn who_begins_to_lead_chooses_only_among_what_it_has_read_since() {
    let mut stage = restarted(&["a", "b", "c"]);
    let one =
        json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] });
    // It followed, and read what was on record when it began; ConfigMaps came to be under another leader.
    let read = |stage: &mut Stage| ["a", "b", "c"].map(|cluster| stage.read(cluster));
    read(&mut stage);
    stage.policy(policy("p", all_of("ConfigMap"), one, json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.world.set_leads(&stage.view, true);
    assert_eq!(stage.everywhere("ConfigMap", "x"), [ELSEWHERE; 3]);
    assert!(stage.awaited("ConfigMap", "x").is_some_and(|why| why.contains("whether a or b or c has")));
    stage.hold("c", "ConfigMap", "x", Held::default());
    assert_eq!(stage.everywhere("ConfigMap", "x"), [ELSEWHERE, ELSEWHERE, "present"]);
    read(&mut stage);
    assert_eq!(stage.everywhere("ConfigMap", "x"), [ELSEWHERE, ELSEWHERE, "present"], "it does not move");
}

#[test]
fn a_cluster_that_was_never_given_anything_of_a_kind_holds_up_nothing_of_it() {
    let mut stage = restarted(&["a", "b"]);
    stage.view.apply_cluster(cluster("mistyped", json!({})));
    stage.changed();
    let one =
        json!({ "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] });
    stage.policy(policy("p", all_of("ConfigMap"), one, json!({})));
    stage.template("ConfigMap", "x", json!({}));
    stage.read("a");
    stage.read("b");
    assert_eq!(stage.everywhere("ConfigMap", "x"), ["present", ELSEWHERE, ELSEWHERE]);
}
