//! What goes along with workloads, and when it goes.

use super::*;
use crate::api::propagation::ConflictResolution;

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

/// Two Deployments that name the same ConfigMap, `d` in the clusters a and b and `e` in b and c, each by a policy of its own.
fn shared(of_d: Value, of_e: Value) -> Stage {
    let mut stage = Stage::members(&["a", "b", "c"]);
    for (name, clusters, more) in [("d", ["a", "b"], of_d), ("e", ["b", "c"], of_e)] {
        stage.policy(places(name, &clusters, more));
        stage.template("Deployment", name, naming("settings"));
    }
    stage.template("ConfigMap", "settings", json!({}));
    stage
}

/// A policy for one Deployment, under the name of that, which takes along what it names.
fn places(name: &str, clusters: &[&str], mut more: Value) -> PropagationPolicy {
    json_patch::merge(&mut more, &deps());
    let selects = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": name }]);
    policy(name, selects, on(clusters), more)
}

fn suspended() -> Value {
    json!({ "spec": { "suspension": { "dispatching": true } } })
}

const HELD_BACK: &str =
    "held back: Deployment.apps shop/d, which names it, is held back: its policy is suspended";

#[test]
fn what_a_suspended_and_another_workload_name_is_held_back_only_where_none_but_the_suspended_brings_it() {
    let mut stage = shared(suspended(), json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "settings"), [HELD_BACK, "present", "present"]);
    let told = stage.policy(places("d", &["a", "b"], json!({})));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["present"; 3], "resumed");
    let told = stage.policy(places("e", &["b", "c"], suspended()));
    assert!(told.contains(&settings("c")), "{told:?}");
    let said = HELD_BACK.replace("shop/d", "shop/e");
    assert_eq!(
        stage.everywhere("ConfigMap", "settings"),
        ["present", "present", &said],
        "the other way round"
    );
    stage.policy(places("d", &["a", "b"], suspended()));
    assert_eq!(stage.everywhere("ConfigMap", "settings"), [HELD_BACK, HELD_BACK, &said], "both");
}

#[test]
fn what_is_suspended_for_one_cluster_holds_back_what_it_names_in_that_one_only() {
    let in_b = json!({ "spec": { "suspension": { "dispatchingOnClusters": { "clusterNames": ["b"] } } } });
    let mut stage = shared(in_b, json!({}));
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["present"; 3], "e brings it to b");
    stage.policy(places("e", &["c"], json!({})));
    let said = format!("{HELD_BACK} for this cluster");
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["present", &said, "present"]);
}

#[test]
fn what_waits_for_an_override_holds_up_nothing_that_another_brings() {
    let stage = shared(json!({ "spec": { "dependentOverrides": ["o"] } }), json!({}));
    let [a, b, c] = &stage.everywhere("ConfigMap", "settings")[..] else { panic!("not three") };
    assert!(
        a.starts_with("held back: Deployment.apps shop/d, which names it, is held back: it waits for"),
        "{a}"
    );
    assert_eq!([b, c], ["present"; 2]);
}

#[test]
fn a_policy_of_its_own_that_is_suspended_holds_back_what_workloads_name_everywhere() {
    let mut stage = shared(json!({}), json!({}));
    stage.policy(policy("own", all_of("ConfigMap"), on(&["a"]), suspended()));
    assert_eq!(stage.everywhere("ConfigMap", "settings"), ["held back: its policy is suspended"; 3]);
    stage.policy(policy("own", all_of("ConfigMap"), on(&["a"]), json!({})));
    stage.policy(places("d", &["a", "b"], suspended()));
    stage.policy(places("e", &["c"], json!({})));
    assert_eq!(
        stage.everywhere("ConfigMap", "settings"),
        ["present", HELD_BACK, "present"],
        "where its own policy places it, that alone counts"
    );
}

#[test]
fn what_a_suspended_workload_names_stays_where_that_was_though_it_is_placed_elsewhere_by_now() {
    let mut stage = workload(deps());
    let moved = |more: Value| policy("p", all_of("Deployment"), on(&["b"]), with_deps(more));
    stage.policy(moved(suspended()));
    assert!(stage.says("a", "Deployment", "d").starts_with("held back"));
    assert_eq!(stage.says("a", "ConfigMap", "settings"), HELD_BACK);
    let told = stage.policy(moved(json!({})));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NotNamed");
}

#[test]
fn what_a_suspended_workload_named_stays_as_long_as_its_copy_may_name_it() {
    let mut stage = workload(deps());
    let with = |more: Value| policy("p", all_of("Deployment"), on(&["a"]), with_deps(more));
    stage.policy(with(suspended()));
    stage.template("Deployment", "d", naming("other"));
    assert_eq!(
        stage.says("a", "ConfigMap", "settings"),
        "held back: Deployment.apps shop/d, which may name it there, is held back: its policy is suspended"
    );
    let told = stage.policy(with(json!({})));
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NamedByNone");
    // Nor is it needed when somebody deletes the copy there.
    stage.policy(with(suspended()));
    assert!(stage.says("a", "ConfigMap", "settings").starts_with("held back"));
    let told = stage.world.hold(&stage.view, &cluster_name("a"), &key_of("Deployment", "d"), None);
    assert!(told.contains(&settings("a")), "{told:?}");
    assert_eq!(stage.says("a", "ConfigMap", "settings"), "absent: NamedByNone");
}

fn with_deps(mut more: Value) -> Value {
    json_patch::merge(&mut more, &deps());
    more
}

#[test]
fn what_several_bring_to_a_cluster_is_preserved_if_any_says_so_and_overwrites_only_if_all_do() {
    let says = |preserve: bool, conflict: &str| json!({ "spec": { "preserveResourcesOnDeletion": preserve, "conflictResolution": conflict } });
    for (of_d, of_e, expected) in [
        (says(true, "Overwrite"), says(false, "Abort"), (true, ConflictResolution::Abort)),
        (says(false, "Abort"), says(true, "Overwrite"), (true, ConflictResolution::Abort)),
        (says(false, "Overwrite"), says(false, "Abort"), (false, ConflictResolution::Abort)),
        (says(true, "Overwrite"), says(false, "Overwrite"), (true, ConflictResolution::Overwrite)),
    ] {
        let mut stage = shared(of_d.clone(), of_e.clone());
        let share = |stage: &Stage, cluster: &str| {
            let assignment = stage.world.assignment(&key_of("ConfigMap", "settings")).unwrap();
            let share = &assignment.targets[&cluster_name(cluster)];
            assert!(share.dependency);
            (share.preserve, share.conflict_resolution.clone())
        };
        assert_eq!(share(&stage, "b"), expected, "{of_d} {of_e}");
        let alone = |more: &Value| {
            let resolution = &more["spec"]["conflictResolution"];
            (
                more["spec"]["preserveResourcesOnDeletion"] == true,
                serde_json::from_value(resolution.clone()).unwrap(),
            )
        };
        assert_eq!(share(&stage, "a"), alone(&of_d), "only d brings it there");
        assert_eq!(share(&stage, "c"), alone(&of_e), "only e brings it there");
        stage.policy(places("e", &["b", "c"], of_d.clone()));
        assert_eq!(share(&stage, "b"), alone(&of_d), "they agree by now");
        stage.policy(places("e", &["b", "c"], of_e.clone()));
        stage.no_policy("e");
        assert_eq!(share(&stage, "b"), alone(&of_d), "only one is left");
    }
}
