//! Overviews of small fleets.

use serde_json::{Value, json};

use super::*;
use crate::api::PropagationPolicy;

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": "Why", "message": message, "lastTransitionTime": "2026-11-16T12:00:00Z" })
}

fn now() -> Timestamp {
    "2026-11-16T12:01:00Z".parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn lease(renewed: &str) -> Lease {
    read(json!({ "spec": { "holderIdentity": "hub-0", "leaseDurationSeconds": 10, "renewTime": renewed } }))
}

fn well() -> Listed {
    let cluster = json!({
        "metadata": { "name": "member1" }, "spec": { "syncMode": "Push" },
        "status": { "kubernetesVersion": "v1.36.4", "conditions": [
            condition("Ready", "True", "it answers"), condition("AgentReady", "True", "at work"),
            condition("DataTrusted", "True", "all"),
        ] },
    });
    let policy: PropagationPolicy = read(json!({
        "metadata": { "namespace": "shop", "name": "p", "generation": 2 }, "spec": { "resourceSelectors": [] },
        "status": {
            "observedGeneration": 2, "matched": 2, "clusters": [{ "name": "member1", "applied": 2, "failed": 0 }],
            "conditions": [condition("Propagated", "True", "all 2 are where they should be")],
        },
    }));
    let export = json!({
        "metadata": { "namespace": "shop", "name": "serve" },
        "status": { "conditions": [
            condition("Valid", "True", "in member1"), condition("Ready", "True", "exported by member1"),
            condition("Conflict", "False", "none"),
        ] },
    });
    let import = json!({
        "metadata": { "namespace": "shop", "name": "serve" },
        "spec": { "type": "ClusterSetIP", "ports": [{ "port": 80 }] },
        "status": { "clusters": [{ "cluster": "member1" }], "conditions": [condition("Ready", "True", "reached")] },
    });
    Listed {
        lease: Some(lease("2026-11-16T12:00:55.000000Z")),
        clusters: vec![read(cluster)],
        policies: vec![policy.into()],
        exports: vec![read(export)],
        imports: vec![read(import)],
        members: None,
    }
}

#[test]
fn a_fleet_of_which_all_is_well_has_no_problems() {
    let found = overview(&well(), now());
    assert_eq!(found.problems, [""; 0]);
    assert!(found.hub.at_work);
    let member = &found.members[0];
    assert_eq!((member.applied, member.failed, member.version.as_str()), (2, 0, "v1.36.4"));
    assert_eq!(found.imports[0].ports, ["80/TCP"]);
    assert_eq!(found.imports[0].clusters, ["member1"]);
}

#[test]
fn it_is_the_same_from_one_second_to_the_next() {
    let mut later = well();
    later.lease = Some(lease("2026-11-16T12:00:56.000000Z"));
    let after: Timestamp = "2026-11-16T12:01:01Z".parse().unwrap();
    assert_eq!(overview(&well(), now()), overview(&later, after));
}

#[test]
fn each_thing_that_is_not_well_is_a_problem() {
    let mut listed = well();
    listed.lease = Some(lease("2026-11-16T11:00:00.000000Z"));
    let conditions = &mut listed.clusters[0].status.as_mut().unwrap().conditions;
    *conditions = vec![read(condition("Ready", "Unknown", "no answer"))];
    let policy = &mut listed.policies[0];
    policy.status.clusters =
        vec![read(json!({ "name": "member1", "applied": 1, "failed": 1, "message": "no" }))];
    policy.status.conditions = vec![read(condition("Propagated", "False", "1 of 2 could not be written"))];
    let conflict = read(condition("Conflict", "True", "ports differ"));
    listed.exports[0].status.as_mut().unwrap().conditions.push(conflict);
    listed.exports[0].status.as_mut().unwrap().conditions.remove(2);
    listed.imports[0].status = None;
    let found = overview(&listed, now());
    assert_eq!(
        found.problems,
        [
            "hub: nobody renews its Lease, the last one at 2026-11-16T11:00:00Z: is `tombolo hub` running?",
            "cluster/member1: no answer",
            "pp/p -n shop: 1 of 2 could not be written: member1: no",
            "serviceexport/serve -n shop: ports differ",
            "serviceimport/serve -n shop: the hub has not looked at it yet",
        ]
    );
    assert_eq!(found.conflicts.len(), 1);
    assert_eq!(found.members[0].failed, 1);
}

#[test]
fn an_import_of_another_type_than_its_exports_is_not_well_though_it_is_served() {
    let mut listed = well();
    let conflict = read(condition("Conflict", "True", "types differ"));
    listed.imports[0].status.as_mut().unwrap().conditions.push(conflict);
    assert_eq!(overview(&listed, now()).problems, ["serviceimport/serve -n shop: types differ"]);
}

#[test]
fn a_member_with_a_copy_that_could_not_be_removed_or_written_is_not_well() {
    for kind in ["CopiesRemoved", "CopiesCurrent"] {
        let mut listed = well();
        let conditions =
            |status| vec![read(condition("Ready", "True", "")), read(condition(kind, status, "no right"))];
        listed.clusters[0].status.as_mut().unwrap().conditions = conditions("False");
        let found = overview(&listed, now());
        assert_eq!(found.problems, ["cluster/member1: no right"], "{kind}");
        listed.clusters[0].status.as_mut().unwrap().conditions = conditions("True");
        assert_eq!(overview(&listed, now()).problems, [""; 0], "{kind}");
    }
}

#[test]
fn a_policy_that_changed_since_it_was_judged_is_behind() {
    let mut listed = well();
    listed.policies[0].metadata.generation = Some(3);
    let found = overview(&listed, now());
    assert!(found.policies[0].behind && !found.policies[0].is_well());
    assert_eq!(found.policies[0].reason, "Behind");
}

#[test]
fn a_policy_that_names_a_cluster_that_there_is_not_is_not_well_though_all_else_is_where_it_should_be() {
    let mut listed = well();
    let affinity = json!({ "clusterNames": ["member1", "member9"] });
    listed.policies[0].spec =
        read(json!({ "resourceSelectors": [], "placement": { "clusterAffinity": affinity } }));
    let found = overview(&listed, now());
    assert!(found.policies[0].propagated && !found.policies[0].is_well());
    let missing = "spec.placement.clusterAffinity.clusterNames[1]: there is no cluster \"member9\" yet";
    assert_eq!(found.problems, [format!("pp/p -n shop: {missing}")]);
}

#[test]
fn what_is_on_its_way_to_a_member_is_its_lag() {
    let mut listed = well();
    listed.policies[0].status.clusters[0].applied = 0;
    listed.policies[0].status.clusters[0].failed = 1;
    listed.policies[0].metadata.generation = Some(3);
    let member = &overview(&listed, now()).members[0];
    assert_eq!((member.applied, member.failed, member.pending, member.behind), (0, 1, 1, 1));
}

#[test]
fn what_a_policy_places_elsewhere_is_not_on_its_way_to_a_member() {
    let mut listed = well();
    let spread = |name: &str| json!({ "name": name, "wanted": 1, "applied": 1, "failed": 0 });
    listed.policies[0].status.clusters = vec![read(spread("member1")), read(spread("member2"))];
    let member = &overview(&listed, now()).members[0];
    assert_eq!((member.applied, member.pending), (1, 0));
}

#[test]
fn services_that_only_members_have_show_where_members_were_asked() {
    let mut listed = well();
    assert_eq!(overview(&listed, now()).services, None);
    let export = |name: &str, valid: &str| {
        let conditions = [condition("Valid", valid, "there is no Service"), condition("Ready", "True", "")];
        read(
            json!({ "metadata": { "namespace": "shop", "name": name }, "status": { "conditions": conditions } }),
        )
    };
    let import = || {
        read(
            json!({ "metadata": { "namespace": "shop", "name": "own" }, "spec": { "type": "ClusterSetIP", "ports": [] } }),
        )
    };
    let member = |name: &str, exports: Vec<ServiceExport>| MemberRead {
        name: name.to_owned(),
        found: Ok(Found { exports, imports: vec![import()] }),
    };
    listed.members = Some(vec![
        member("member1", vec![export("own", "True"), export("serve", "True")]),
        member("member2", vec![export("own", "False")]),
        MemberRead { name: "member3".to_owned(), found: Err("refused".to_owned()) },
    ]);
    let found = overview(&listed, now());
    let [service] = found.services.as_deref().unwrap() else { panic!("{:?}", found.services) };
    assert_eq!(service.name, "own", "the hub has the other one itself");
    assert_eq!(service.exported_by, ["member1", "member2"]);
    assert_eq!(service.imported_by, ["member1", "member2"]);
    assert_eq!((service.valid.as_str(), service.ready.as_str()), ("False", "True"));
    assert_eq!(
        found.problems,
        [
            "shop/own, which members share: member2: there is no Service",
            "cluster/member3: it could not be asked: refused",
        ]
    );
}

#[test]
fn a_members_export_that_nobody_has_looked_at_yet_is_not_well_yet() {
    let export = |name: &str, conditions: Value| {
        read(
            json!({ "metadata": { "namespace": "shop", "name": name }, "status": { "conditions": conditions } }),
        )
    };
    let ready = || json!([condition("Valid", "True", ""), condition("Ready", "True", "")]);
    let half = || json!([condition("Valid", "True", "")]);
    let member = |name: &str, exports| MemberRead {
        name: name.to_owned(),
        found: Ok(Found { exports, imports: Vec::new() }),
    };
    let mut listed = well();
    // Whichever of the members comes first.
    listed.members = Some(vec![
        member("member1", vec![export("early", ready()), export("late", json!([]))]),
        member("member2", vec![export("early", half()), export("late", ready())]),
    ]);
    let found = overview(&listed, now());
    let services = found.services.as_deref().unwrap();
    let said: Vec<_> = services.iter().map(|of| (of.valid.as_str(), of.ready.as_str())).collect();
    assert_eq!(said, [("True", ""), ("", "")]);
    assert_eq!(
        found.problems,
        [
            "shop/early, which members share: member2: the hub has said nothing of it yet",
            "shop/late, which members share: member1: its agent has said nothing of it yet",
        ]
    );
}
