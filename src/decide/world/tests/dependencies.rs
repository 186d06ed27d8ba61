//! What goes along with workloads, and when it goes.

use super::*;

fn deps() -> Value {
    json!({ "spec": { "propagateDeps": true } })
}

fn naming(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "spec": { "template": { "spec": {
        "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": name } }] }],
    } } } })
}

/// A Deployment in cluster a, and the ConfigMap that it names.
fn workload(more: Value) -> Stage {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), more));
    stage.template("ConfigMap", "settings", json!({}));
    stage.template("Deployment", "d", naming("settings"));
    stage.hold("a", "Deployment", "d", Held::default());
    stage.hold("a", "ConfigMap", "settings", Held { dependency: true, ..Held::default() });
    stage
}

fn settings(cluster: &str) -> (ClusterName, ObjectKey) {
    (cluster_name(cluster), key_of("ConfigMap", "settings"))
}

#[test]
fn what_a_workload_names_stays_until_the_workload_itself_is_gone_there() {
    let mut stage = workload(deps());
    let deployment = key_of("Deployment", "d");
    stage.world.delete_template(&stage.view, &deployment);
    assert_eq!(stage.says("a", "Deployment", "d"), "absent: NoTemplate");
    assert!(stage.says("a", "ConfigMap", "settings").starts_with("unknown"), "its kind may be gone, not it");
    let told = stage.world.hold(&stage.view, &cluster_name("a"), &deployment, None);
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NamedByNone");
}

#[test]
fn a_list_of_workloads_that_comes_back_empty_takes_nothing_away_that_they_named() {
    let mut stage = workload(deps());
    stage.world.retain_templates(&stage.view, &kind_of("Deployment"), &BTreeSet::new());
    assert!(stage.says("a", "ConfigMap", "settings").starts_with("unknown"));
    let told = stage.template("Deployment", "d", naming("other"));
    assert!(told.contains(&settings("a")), "it is back, and names another: {told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NamedByNone");
}

#[test]
fn what_a_workload_names_that_moved_is_told_from_what_nothing_names() {
    let mut stage = workload(deps());
    let told = stage.policy(policy("p", all_of("Deployment"), on(&["b"]), deps()));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NotNamed");
    let told = stage.template("Deployment", "d", naming("other"));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NamedByNone");
}

#[test]
fn after_a_restart_nothing_goes_that_a_copy_may_name_which_was_not_seen_yet() {
    let mut stage = Stage::new();
    stage.view.apply_cluster(cluster("a", json!({})));
    stage.changed();
    stage.template("ConfigMap", "settings", json!({}));
    stage.hold("a", "ConfigMap", "settings", Held { dependency: true, ..Held::default() });
    assert!(stage.says("a", "ConfigMap", "settings").starts_with("unknown"));
    stage.hold("a", "Deployment", "d", Held::default());
    let told = stage.world.set_known(&stage.view, &cluster_name("a"));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert!(stage.says("a", "ConfigMap", "settings").starts_with("unknown"), "a copy has no template");
}

#[test]
fn a_mark_of_being_named_on_what_nothing_can_name_takes_nothing_away() {
    let mut stage = Stage::members(&["a"]);
    stage.template("Deployment", "d", json!({ "apiVersion": "apps/v1" }));
    stage.hold("a", "Deployment", "d", Held::default());
    let unmarked = stage.says("a", "Deployment", "d");
    stage.hold("a", "Deployment", "d", Held { dependency: true, ..Held::default() });
    assert_eq!(stage.says("a", "Deployment", "d"), unmarked);
    assert!(!unmarked.starts_with("absent"), "{unmarked}");
}

#[test]
fn a_kind_that_the_hub_does_not_serve_holds_back_only_what_its_copies_may_name() {
    let mut stage = Stage::members(&["a", "b"]);
    let gadgets = GroupKind { group: "rules.example".into(), kind: "Gadget".into() };
    let unserved = BTreeSet::from([gadgets.clone()]);
    let selectors = json!([{ "apiVersion": "rules.example/v1", "kind": "Gadget", "namespace": "shop" }]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), json!({})));
    stage.policy(policy("q", selectors, on(&["a"]), deps()));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("b", "ConfigMap", "x", Held::default());
    assert!(stage.says("b", "ConfigMap", "x").starts_with("unknown"), "the hub may just not have looked yet");
    let told = stage.world.set_unserved(unserved);
    assert!(told.contains(&(cluster_name("b"), key_of("ConfigMap", "x"))), "{told:?}");
    assert_eq!(stage.says("b", "ConfigMap", "x"), "absent: Elsewhere");

    let gadget = |namespace: &str| ObjectKey {
        kind: gadgets.clone(),
        namespace: namespace.into(),
        name: "left".into(),
    };
    for (cluster, namespace) in [("a", "shop"), ("b", "bank")] {
        stage.world.hold(&stage.view, &cluster_name(cluster), &gadget(namespace), Some(Held::default()));
        assert_eq!(stage.says("b", "ConfigMap", "x"), "absent: Elsewhere", "{cluster} {namespace}");
    }
    stage.world.hold(&stage.view, &cluster_name("b"), &gadget("shop"), Some(Held::default()));
    let said = stage.says("b", "ConfigMap", "x");
    assert!(said.starts_with("faulty") && said.contains("Gadget.rules.example"), "{said}");
    stage.template("ConfigMap", "theirs", json!({}));
    stage.policy(policy(
        "p",
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x" }]),
        on(&["a"]),
        json!({}),
    ));
    stage.hold("b", "ConfigMap", "theirs", Held { dependency: true, ..Held::default() });
    let said = stage.says("b", "ConfigMap", "theirs");
    assert!(said.starts_with("unknown"), "what is there for such copies is where it should be: {said}");
    let told = stage.world.hold(&stage.view, &cluster_name("b"), &gadget("shop"), None);
    assert!(told.contains(&(cluster_name("b"), key_of("ConfigMap", "x"))), "{told:?}");
    assert_eq!(stage.says("b", "ConfigMap", "x"), "absent: Elsewhere");
}

#[test]
fn what_may_be_named_is_looked_at_when_no_policy_takes_along_what_was_not_read() {
    let mut stage = Stage::members(&["a", "b"]);
    let x = (cluster_name("b"), key_of("ConfigMap", "x"));
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a"]), json!({})));
    // The hub serves the kind and watches it, but may not list it.
    stage.world.open_kind(kind_of("CronJob"), "v1".into(), None);
    stage.policy(policy("q", all_of("CronJob"), on(&["a"]), deps()));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("b", "ConfigMap", "x", Held::default());
    assert!(stage.says("b", "ConfigMap", "x").starts_with("unknown"));
    let told = stage.no_policy("q");
    assert_eq!(stage.says("b", "ConfigMap", "x"), "absent: Elsewhere");
    assert!(told.contains(&x), "{told:?}");

    stage.hold("b", "CronJob", "left", Held::default());
    assert!(stage.says("b", "ConfigMap", "x").starts_with("unknown"));
    let told = stage.world.hold(&stage.view, &x.0, &key_of("CronJob", "left"), None);
    assert_eq!(stage.says("b", "ConfigMap", "x"), "absent: Elsewhere");
    assert!(told.contains(&x), "{told:?}");
}
