//! Explanations of small hubs: the headline is what a user sees first, so it is compared as a whole.

#![allow(clippy::needless_pass_by_value, reason = "what is made on the spot is given away")]

mod members;
mod overriding;
mod services;
mod shared;

use serde_json::{Value, json};

use super::*;
use crate::decide::select::GroupKind;

/// A time at which conditions changed.
const SINCE: &str = "2026-11-16T12:00:00Z";

fn read(members: &[&str]) -> Read {
    let mut read = Read::new("tombolo-system");
    for name in members {
        read.add_cluster(cluster(name, json!([condition("Ready", "True", "ClusterReady", "it answers")])));
    }
    read
}

fn cluster(name: &str, conditions: Value) -> crate::api::Cluster {
    serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "syncMode": "Push" }, "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE })
}

/// A policy of namespace `shop` that places ConfigMaps of a name, with a status that all is there.
fn policy(name: &str, selects: &str, on: &[&str]) -> Value {
    let outcomes: Vec<_> = on.iter().map(|name| json!({ "name": name, "applied": 1, "failed": 0 })).collect();
    json!({
        "metadata": { "namespace": "shop", "name": name, "generation": 1 },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": selects }],
            "placement": { "clusterAffinity": { "clusterNames": on } },
        },
        "status": {
            "observedGeneration": 1, "matched": 1, "clusters": outcomes,
            "conditions": [condition("Propagated", "True", "Propagated", "all are where they should be")],
        },
    })
}

fn with(mut object: Value, more: Value) -> Value {
    json_patch::merge(&mut object, &more);
    object
}

fn add(read: &mut Read, policies: impl IntoIterator<Item = Value>) {
    for policy in policies {
        read.add_policy(serde_json::from_value(policy).unwrap());
    }
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "shop", "name": name, "uid": "1" } })
}

fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: GroupKind::new("v1", kind), namespace: "shop".into(), name: name.into() }
}

fn of_config_map(read: &Read) -> Explanation {
    explain(read, &Subject::Object(key("ConfigMap", "one")))
}

fn of_policy(read: &Read, name: &str) -> Explanation {
    explain(read, &Subject::Policy(PolicyKey { namespace: Some("shop".into()), name: name.into() }))
}

fn failed(policy: Value, member: &str, why: &str) -> Value {
    let said = condition("Propagated", "False", "Failed", "1 of 1 could not be written");
    with(
        policy,
        json!({ "status": {
            "clusters": [{ "name": member, "applied": 0, "failed": 1, "message": why }], "conditions": [said],
        } }),
    )
}

#[test]
fn what_is_where_it_should_be_is_said_to_be() {
    let mut read = read(&["member1", "member2"]);
    read.add_template(config_map("one"));
    add(&mut read, [policy("p", "one", &["member1"])]);
    let found = of_config_map(&read);
    assert_eq!(found.headline(), "ConfigMap shop/one is well: it is in member1 by PropagationPolicy shop/p");
    let clusters = &found.parts[1].rows;
    assert_eq!((clusters[0].of.as_str(), clusters[0].text.as_str()), ("member1", "it is there"));
    assert!(clusters[1].text.starts_with("not placed there: "), "{clusters:?}");
}

#[test]
fn of_a_service_that_the_hub_does_not_hold_members_may_know_more() {
    let read = read(&[]);
    let mcs = "multicluster.x-k8s.io/v1beta1";
    for (version, kind) in [("v1", "Service"), (mcs, "ServiceExport"), (mcs, "ServiceImport")] {
        let key = ObjectKey { kind: GroupKind::new(version, kind), ..key(kind, "serve") };
        let found = explain(&read, &Subject::Object(key));
        assert_eq!(found.state, State::Absent);
        let way_out = "create it there, or see with `tombolo status --members -n shop` whether members share it without the hub";
        assert!(found.headline().ends_with(way_out), "{}", found.headline());
    }
}

#[test]
fn an_object_that_is_not_there_is_looked_for_in_other_namespaces() {
    let mut read = read(&[]);
    assert_eq!(
        of_config_map(&read).headline(),
        "ConfigMap shop/one is not on the hub: there is no ConfigMap one in namespace shop; create it there, or see what \
         there is with `kubectl get`"
    );
    read.add_namesake(key("ConfigMap", "one"), "other".to_owned());
    let found = of_config_map(&read);
    assert_eq!(found.state, State::Absent);
    assert!(found.headline().ends_with("; there is one in namespace other: ask with -n other"));
}

#[test]
fn without_a_policy_the_one_that_nearly_selects_it_is_named() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    let begins = "ConfigMap shop/one is not well: no policy selects it";
    let way_out = "; name it in spec.resourceSelectors of a PropagationPolicy in namespace shop (kind: ConfigMap, name: one)";
    assert_eq!(of_config_map(&read).headline(), format!("{begins}{way_out}"));
    add(&mut read, [policy("p", "two", &["member1"])]);
    assert_eq!(
        of_config_map(&read).headline(),
        format!("{begins}: PropagationPolicy shop/p selects the kind by the name two{way_out}")
    );
    let elsewhere = with(policy("p", "one", &["member1"]), json!({ "metadata": { "namespace": "default" } }));
    add(&mut read, [elsewhere.clone()]);
    assert!(of_config_map(&read).headline().contains("shop/p"), "the other has an object of its own");
    add(&mut read, [with(elsewhere, json!({ "status": { "matched": 0 } }))]);
    let nearest = of_config_map(&read);
    read.add_namesake(key("ConfigMap", "one"), "default".to_owned());
    assert!(
        of_config_map(&read).headline().contains("shop/p"),
        "it has such an object, and loses it to another"
    );
    read.namesakes.clear();
    assert_eq!(of_config_map(&read), nearest);
    assert_eq!(
        of_config_map(&read).headline(),
        format!(
            "{begins}: PropagationPolicy default/p selects such an object, but only in its own namespace default; move the \
             policy to namespace shop, or write a ClusterPropagationPolicy"
        )
    );
}

#[test]
fn a_losing_policy_is_named_with_what_it_loses_by() {
    let mut read = read(&["member1", "member2"]);
    read.add_template(config_map("one"));
    let strong = with(policy("strong", "one", &["member1"]), json!({ "spec": { "priority": 5 } }));
    add(&mut read, [strong, policy("weak", "one", &["member2"])]);
    let why = "PropagationPolicy shop/strong has a higher spec.priority (5 against 0)";
    assert_eq!(
        of_config_map(&read).headline(),
        format!(
            "ConfigMap shop/one is well: it is in member1 by PropagationPolicy shop/strong; PropagationPolicy shop/weak does \
             not hold: {why}"
        )
    );
    assert_eq!(
        of_policy(&read, "weak").headline(),
        format!(
            "PropagationPolicy shop/weak is not well: it holds for nothing: ConfigMap shop/one: {why}; raise its \
             spec.priority, select more closely, or let the other policy leave it out"
        )
    );
    assert_eq!(
        of_policy(&read, "strong").headline(),
        "PropagationPolicy shop/strong is well: all are where they should be"
    );
}

#[test]
fn a_cluster_that_a_placement_names_and_that_there_is_not_is_the_cause() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    add(&mut read, [policy("p", "one", &["member1", "member9"])]);
    let cause = "spec.placement.clusterAffinity.clusterNames[1]: there is no cluster \"member9\" yet";
    let way_out = "the hub has member1: correct the name, or `tombolo join` it";
    let found = of_config_map(&read).headline();
    assert_eq!(
        found,
        format!("ConfigMap shop/one is not well: PropagationPolicy shop/p: {cause}; {way_out}")
    );
    let found = of_policy(&read, "p").headline();
    assert_eq!(found, format!("PropagationPolicy shop/p is not well: {cause}; {way_out}"));
}

#[test]
fn what_is_held_back_says_by_what() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    add(
        &mut read,
        [with(
            policy("p", "one", &["member1"]),
            json!({ "spec": { "suspension": { "dispatching": true } } }),
        )],
    );
    assert_eq!(
        of_config_map(&read).headline(),
        "ConfigMap shop/one is not well: PropagationPolicy shop/p holds it back: its policy is suspended; take \
         spec.suspension out of it to go on"
    );
    assert!(
        of_policy(&read, "p").headline().contains("spec.suspension.dispatching is true: nothing is sent")
    );
}

#[test]
fn what_is_held_back_with_what_names_it_says_with_what() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    let pods = json!({ "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": "one" } }] }] });
    read.add_template(with(
        config_map("web"),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "template": { "spec": pods } } }),
    ));
    let selects = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" }]);
    let says = json!({ "spec": { "resourceSelectors": selects, "propagateDeps": true, "suspension": { "dispatching": true } } });
    add(&mut read, [with(policy("p", "web", &["member1"]), says)]);
    assert_eq!(
        of_config_map(&read).headline(),
        "ConfigMap shop/one is not well: Deployment.apps shop/web, which names it, is held back: its policy is \
         suspended; explain that one for the way out"
    );
}

#[test]
fn a_members_refusal_is_told_in_its_own_words() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    add(
        &mut read,
        [failed(policy("p", "one", &["member1"]), "member1", "ConfigMap shop/one: the house says no")],
    );
    assert_eq!(
        of_config_map(&read).headline(),
        "ConfigMap shop/one is not well: in member1: the house says no"
    );
    // The policy names the first of its failures only; then the object's own event tells.
    add(&mut read, [failed(policy("p", "one", &["member1"]), "member1", "ConfigMap shop/another: no")]);
    let later = Some("2026-11-16T12:00:01Z".parse().unwrap());
    read.add_failure(key("ConfigMap", "one"), later, "member2: not here".to_owned());
    read.add_failure(key("ConfigMap", "one"), later, "member1: too large".to_owned());
    assert_eq!(of_config_map(&read).headline(), "ConfigMap shop/one is not well: in member1: too large");
}

#[test]
fn an_event_of_a_failure_that_is_over_counts_for_nothing() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    add(&mut read, [policy("p", "one", &["member1"])]);
    let later = Some("2026-11-16T12:00:01Z".parse().unwrap());
    read.add_failure(key("ConfigMap", "one"), later, "member1: too large".to_owned());
    assert_eq!(of_config_map(&read).state, State::Well);
}

#[test]
fn a_member_that_does_not_answer_is_the_cause_whether_it_has_a_copy_or_not() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    let silent = cluster("member1", json!([condition("Ready", "Unknown", "ClusterNotReachable", "refused")]));
    let tainted = with(
        serde_json::to_value(&silent).unwrap(),
        json!({ "spec": { "taints": [{ "key": "cluster.karmada.io/unreachable", "effect": "NoSchedule" }] } }),
    );
    let wanted = format!(
        "ConfigMap shop/one is not well: member1 is not ready since {SINCE}: refused; what is there stays as it is; bring it \
         back, or leave it with `tombolo unjoin member1 --force`"
    );
    add(&mut read, [policy("p", "one", &["member1"])]);
    read.add_cluster(silent);
    assert_eq!(of_config_map(&read).headline(), wanted);
    read.add_cluster(serde_json::from_value(tainted).unwrap());
    assert_eq!(of_config_map(&read).headline(), wanted, "it has a copy, which stays");
    add(&mut read, [with(policy("p", "one", &["member1"]), json!({ "status": { "clusters": null } }))]);
    assert_eq!(of_config_map(&read).headline(), wanted, "nothing new is placed there");
}

#[test]
fn what_waits_waits_for_a_hub_if_there_is_none() {
    let mut read = read(&["member1"]);
    read.add_template(config_map("one"));
    add(&mut read, [with(policy("p", "one", &["member1"]), json!({ "metadata": { "generation": 2 } }))]);
    let found = of_config_map(&read);
    assert_eq!(found.state, State::Pending);
    assert_eq!(
        found.headline(),
        "ConfigMap shop/one is on its way: in member1: the hub has not looked at PropagationPolicy shop/p yet"
    );
    read.hub = Err("Lease tombolo-system/tombolo-hub is not there".to_owned());
    assert_eq!(
        of_config_map(&read).headline(),
        "ConfigMap shop/one is not well: no hub is at work: Lease tombolo-system/tombolo-hub is not there; start `tombolo \
         hub`, or look at its log"
    );
}

#[test]
fn what_is_never_propagated_says_why() {
    let mut read = read(&["member1"]);
    let owned = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "v1", "kind": "X", "name": "x", "uid": "2", "controller": true },
    ] } });
    read.add_template(with(config_map("one"), owned));
    add(&mut read, [policy("p", "one", &["member1"])]);
    assert!(
        of_config_map(&read)
            .headline()
            .starts_with("ConfigMap shop/one is not well: it is never propagated: ")
    );
}

#[test]
fn a_policy_that_selects_nothing_says_where_there_is_such_an_object() {
    let mut read = read(&["member1"]);
    let none = json!({ "status": { "matched": 0, "clusters": null } });
    add(&mut read, [with(policy("p", "one", &["member1"]), none)]);
    let nothing = "spec.resourceSelectors[0]: there is no ConfigMap one in namespace shop";
    assert_eq!(
        of_policy(&read, "p").headline(),
        format!("PropagationPolicy shop/p is on its way: {nothing}")
    );
    read.add_namesake(key("ConfigMap", "one"), "other".to_owned());
    assert_eq!(
        of_policy(&read, "p").headline(),
        format!(
            "PropagationPolicy shop/p is not well: {nothing}; there is one in namespace other; move the policy to namespace \
             other, or write a ClusterPropagationPolicy"
        )
    );
}

#[test]
fn a_cluster_says_what_is_not_well_about_it_first() {
    let of = |read: &Read| explain(read, &Subject::Cluster("member1".to_owned())).headline();
    let mut read = read(&["member1"]);
    assert_eq!(of(&read), "Cluster member1 is well: it is ready, and has all that it is to have");
    add(&mut read, [failed(policy("p", "one", &["member1"]), "member1", "ConfigMap shop/one: no")]);
    assert_eq!(
        of(&read),
        "Cluster member1 is not well: 1 of the objects of PropagationPolicy shop/p could not be written: ConfigMap shop/one: no"
    );
    let silent =
        json!([condition("AgentReady", "False", "AgentSilent", "its agent does not renew its Lease")]);
    read.add_cluster(cluster("member1", silent));
    assert!(
        of(&read).starts_with(&format!(
            "Cluster member1 is not well: AgentReady is False since {SINCE}: its agent"
        ))
    );
    assert_eq!(
        explain(&read, &Subject::Cluster("nobody".to_owned())).headline(),
        "Cluster nobody is not on the hub: there is no Cluster nobody; the hub has member1; `tombolo join nobody` makes it a \
         member"
    );
}
