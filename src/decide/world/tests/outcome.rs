//! What a policy says of what became of it.

use super::*;
use crate::api::propagation::{ClusterOutcome, Failure, PolicyStatus};

#[test]
fn a_policys_outcome_counts_what_is_there_and_names_the_first_failure() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), json!({})));
    stage.template("ConfigMap", "x", json!({}));
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let outcome = |stage: &Stage, failures: &Failures| {
        stage.world.outcome(&stage.view, &key, failures, &Unseen::new(), |_, _| false)
    };
    let mut failures = Failures::new();
    assert_eq!(outcome(&stage, &failures).message, "0 of 2 are where they should be");
    for cluster in ["a", "b"] {
        stage.hold(cluster, "ConfigMap", "x", Held::default());
    }
    let all = outcome(&stage, &failures);
    assert!(all.propagated && all.matched == 1 && all.message == "all 2 are where they should be", "{all:?}");
    failures.entry(cluster_name("b")).or_default().insert(key_of("ConfigMap", "x"), "no right".to_owned());
    let one = outcome(&stage, &failures);
    assert_eq!((one.propagated, one.reason), (false, "Failed"));
    assert_eq!(one.clusters[1].message.as_deref(), Some("ConfigMap shop/x: no right"));
}

#[test]
fn each_object_that_could_not_be_written_is_told_of_with_the_reason_up_to_a_hundred() {
    let mut stage = Stage::members(&["a", "b"]);
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), json!({})));
    let mut failures = Failures::new();
    for name in 0..70 {
        stage.template("ConfigMap", &format!("x{name:02}"), json!({}));
        for cluster in ["a", "b"] {
            let failed = failures.entry(cluster_name(cluster)).or_default();
            failed.insert(key_of("ConfigMap", &format!("x{name:02}")), format!("no {name}"));
        }
    }
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let found = stage.world.outcome(&stage.view, &key, &failures, &Unseen::new(), |_, _| false);
    let [a, b] = found.clusters.as_slice() else { panic!("{found:?}") };
    assert_eq!((a.wanted, a.failed, a.failures.len()), (Some(70), 70, 50));
    assert_eq!(b.failures.len(), 50);
    let Failure { object, message } = &b.failures[49];
    assert_eq!((object.as_str(), message.as_str()), ("ConfigMap shop/x49", "no 49"));
}

#[test]
fn a_cluster_is_to_have_only_what_is_placed_on_it_of_a_policy_that_spreads() {
    let mut stage = Stage::members(&["a", "b"]);
    let spread = json!({ "spec": { "placement": {
        "clusterAffinity": null, "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }],
    } } });
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), spread));
    for (name, at) in [("x", "a"), ("y", "b")] {
        stage.template("ConfigMap", name, json!({}));
        stage.hold(at, "ConfigMap", name, Held::default());
    }
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let found = stage.world.outcome(&stage.view, &key, &Failures::new(), &Unseen::new(), |_, _| false);
    assert!(found.propagated && found.matched == 2, "{found:?}");
    let there = |of: &ClusterOutcome| (of.name.clone(), of.wanted, of.applied);
    let there: Vec<_> = found.clusters.iter().map(there).collect();
    assert_eq!(there, [("a".to_owned(), Some(1), 1), ("b".to_owned(), Some(1), 1)]);
    let status = PolicyStatus { matched: Some(2), ..PolicyStatus::default() };
    assert_eq!(on_its_way(&status, &found.clusters[0]), 0);
}

#[test]
fn a_policy_says_of_which_kind_the_hub_sees_nothing_and_of_dependencies_only_where_it_takes_them_along() {
    let unseen = |kind: &str, why| Unseen::from([(key_of(kind, "x").kind, why)]);
    let outcome = |stage: &Stage, unseen: &Unseen| {
        let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
        stage.world.outcome(&stage.view, &key, &Failures::new(), unseen, |_, _| false)
    };
    let mut stage = Stage::members(&["a"]);
    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), json!({})));
    assert_eq!(outcome(&stage, &unseen("Deployment", Reason::NotServed)).reason, "KindNotServed");
    let forbidden = outcome(&stage, &unseen("Deployment", Reason::Forbidden));
    assert_eq!((forbidden.propagated, forbidden.reason), (false, "KindForbidden"));
    assert!(forbidden.message.contains("rbac.extraRules"), "{}", forbidden.message);
    assert_eq!(outcome(&stage, &unseen("Secret", Reason::Forbidden)).reason, "NothingSelected");
    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), json!({ "spec": { "propagateDeps": true } })));
    assert_eq!(outcome(&stage, &unseen("Secret", Reason::Forbidden)).reason, "KindForbidden");
}

#[test]
fn a_service_import_counts_on_its_policy_where_the_exchange_has_it() {
    let mut stage = Stage::members(&["a", "b"]);
    let selectors = json!([{ "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport" }]);
    stage.policy(policy("p", selectors, on(&["a", "b"]), json!({})));
    let kind = GroupKind::new("multicluster.x-k8s.io/v1beta1", "ServiceImport");
    let import = ObjectKey { kind, namespace: "shop".into(), name: "serve".into() };
    let object = json!({ "metadata": { "namespace": "shop", "name": "serve", "uid": "1" } });
    stage.world.apply_template(&stage.view, &import, &object);
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let outcome = |there: &[&str]| {
        let imported =
            |cluster: &ClusterName, key: &ObjectKey| *key == import && there.contains(&cluster.as_str());
        stage.world.outcome(&stage.view, &key, &Failures::new(), &Unseen::new(), imported)
    };
    assert_eq!(outcome(&["a"]).message, "1 of 2 are where they should be");
    assert!(outcome(&["a", "b"]).propagated);
}

#[test]
fn what_cannot_be_removed_or_go_along_is_told_by_the_policy_that_wants_it() {
    let mut stage = Stage::members(&["a", "b"]);
    let along = json!({ "spec": { "propagateDeps": true } });
    stage.policy(policy("p", all_of("Deployment"), on(&["a", "b"]), along.clone()));
    stage.template("ConfigMap", "settings", json!({}));
    let naming = json!({ "apiVersion": "apps/v1", "spec": { "template": { "spec": {
        "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": "settings" } }] }],
    } } } });
    stage.template("Deployment", "d", naming);
    for cluster in ["a", "b"] {
        stage.hold(cluster, "Deployment", "d", Held::default());
    }
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let outcome = |stage: &Stage, cluster: &str, kind: &str, name: &str| {
        let failure = BTreeMap::from([(key_of(kind, name), "no".to_owned())]);
        let failures = Failures::from([(cluster_name(cluster), failure)]);
        let outcome = stage.world.outcome(&stage.view, &key, &failures, &Unseen::new(), |_, _| false);
        let failed = outcome.clusters.iter().find(|of| of.message.is_some());
        let failed = failed.map(|of| format!("{}: {}", of.name, of.message.as_deref().unwrap_or_default()));
        (outcome.reason, outcome.message, failed.unwrap_or_default())
    };
    let named = outcome(&stage, "b", "ConfigMap", "settings");
    assert_eq!(named.0, "Failed", "{named:?}");
    assert_eq!(
        (&*named.1, &*named.2),
        ("1 that they name could not be written", "b: ConfigMap shop/settings: no")
    );
    assert_eq!(stage.world.policies_of(&key_of("ConfigMap", "settings")), [key.clone()].into());

    stage.policy(policy("p", all_of("Deployment"), on(&["a"]), along));
    let stuck = outcome(&stage, "b", "Deployment", "d");
    assert_eq!(stuck.0, "Failed", "{stuck:?}");
    assert_eq!(
        (&*stuck.1, &*stuck.2),
        ("1 could not be removed where they should not be", "b: Deployment.apps shop/d: no")
    );
    let failures =
        Failures::from([(cluster_name("b"), BTreeMap::from([(key_of("Deployment", "d"), "no".to_owned())]))]);
    let found = stage.world.outcome(&stage.view, &key, &failures, &Unseen::new(), |_, _| false);
    let b = found.clusters.iter().find(|of| of.name == "b").unwrap();
    assert_eq!(
        (b.wanted, b.applied, b.failed, b.failures.len()),
        (Some(0), 0, 0, 1),
        "nothing is to be there"
    );
    stage.world.hold(&stage.view, &cluster_name("b"), &key_of("Deployment", "d"), None);
    assert_eq!(outcome(&stage, "b", "Deployment", "d").0, "Propagated", "there is nothing to remove");

    let kind = GroupKind::new("multicluster.x-k8s.io/v1beta1", "ServiceImport");
    let import = ObjectKey { kind, namespace: "shop".into(), name: "automatic".into() };
    let failures = BTreeMap::from([
        (key_of("Deployment", "d"), "no".to_owned()),
        (key_of("ConfigMap", "gone"), "no right".to_owned()),
        (import, "its slice is refused".to_owned()),
    ]);
    let told = Some((1, "ConfigMap shop/gone: no right".to_owned()));
    assert_eq!(stage.world.orphans(&failures), told);
}

#[test]
fn what_is_to_be_there_is_on_its_way_though_something_else_cannot_be_removed() {
    let mut stage = Stage::members(&["a", "b"]);
    let spread = json!({ "spec": { "placement": {
        "clusterAffinity": null, "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }],
    } } });
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), spread));
    let taint = json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } });
    stage.view.apply_cluster(cluster("a", taint));
    stage.changed();
    for name in ["x", "y"] {
        stage.template("ConfigMap", name, json!({}));
    }
    for cluster in ["a", "b"] {
        stage.hold(cluster, "ConfigMap", "x", Held::default());
    }
    let failure = BTreeMap::from([(key_of("ConfigMap", "x"), "no".to_owned())]);
    let failures = Failures::from([(cluster_name("b"), failure)]);
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let found = stage.world.outcome(&stage.view, &key, &failures, &Unseen::new(), |_, _| false);
    assert_eq!((found.reason, found.clusters.len()), ("Failed", 2), "{found:?}");
    let (status, b) = (PolicyStatus { matched: Some(2), ..PolicyStatus::default() }, &found.clusters[1]);
    assert_eq!((b.name.as_str(), b.wanted, b.applied), ("b", Some(1), 0));
    assert_eq!(b.message.as_deref(), Some("ConfigMap shop/x: no"));
    assert_eq!(on_its_way(&status, b), 1);
}

#[test]
fn what_is_frozen_where_it_is_is_none_that_should_not_be_there() {
    let mut stage = Stage::members(&["a", "b"]);
    let spread = |least: i32| {
        json!({ "spec": { "placement": {
            "clusterAffinity": null, "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": least }],
        } } })
    };
    stage.policy(policy("p", all_of("ConfigMap"), on(&["a", "b"]), spread(3)));
    stage.template("ConfigMap", "x", json!({}));
    stage.hold("a", "ConfigMap", "x", Held::default());
    let key = PolicyKey { namespace: Some("shop".into()), name: "p".into() };
    let failure = BTreeMap::from([(key_of("ConfigMap", "x"), "no".to_owned())]);
    let failures = Failures::from([(cluster_name("a"), failure)]);
    let found = stage.world.outcome(&stage.view, &key, &failures, &Unseen::new(), |_, _| false);
    assert_eq!(found.reason, "Unplaced", "{found:?}");
}
