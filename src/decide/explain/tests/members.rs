//! Explanations of services that members share without the hub's objects.

use super::*;
use crate::decide::overview::{Found, MemberRead};

fn asked(name: &str, exports: &[Value], imports: &[Value]) -> MemberRead {
    let found = Found {
        exports: exports.iter().map(|export| serde_json::from_value(export.clone()).unwrap()).collect(),
        imports: imports.iter().map(|import| serde_json::from_value(import.clone()).unwrap()).collect(),
    };
    MemberRead { name: name.to_owned(), found: Ok(found) }
}

fn export(name: &str, conditions: Value) -> Value {
    json!({ "metadata": { "namespace": "shop", "name": name }, "status": { "conditions": conditions } })
}

fn exported() -> Value {
    export(
        "serve",
        json!([condition("Valid", "True", "Valid", ""), condition("Ready", "True", "Exported", "offered")]),
    )
}

fn import(ready: &str, message: &str) -> Value {
    json!({
        "metadata": { "namespace": "shop", "name": "serve" },
        "spec": { "type": "ClusterSetIP", "ports": [] },
        "status": {
            "conditions": [condition("Ready", ready, "Ready", message)], "clusters": [{ "cluster": "member1" }],
        },
    })
}

/// What is said of each object of the service, which is the same.
fn said(members: Vec<MemberRead>) -> Explanation {
    let mut read = read(&["member1", "member2"]);
    members.into_iter().for_each(|member| read.add_asked(member));
    let mcs = "multicluster.x-k8s.io/v1beta1";
    let of = |(version, kind): (&str, &str)| {
        let key = ObjectKey { kind: GroupKind::new(version, kind), ..key(kind, "serve") };
        explain(&read, &Subject::Object(key))
    };
    let [first, others @ ..] = [(mcs, "ServiceExport"), (mcs, "ServiceImport"), ("v1", "Service")].map(of);
    for other in others {
        assert_eq!((other.state, &other.parts), (first.state, &first.parts));
    }
    first
}

fn headline(members: Vec<MemberRead>) -> String {
    let headline = said(members).headline();
    headline.strip_prefix("ServiceExport shop/serve ").unwrap_or(&headline).to_owned()
}

#[test]
fn what_members_share_without_the_hub_is_told_with_who_exports_and_who_imports_it() {
    let members = || {
        let other = export("other", json!([]));
        vec![
            asked("member1", &[other, exported()], &[import("True", "")]),
            asked("member2", &[], &[import("True", "")]),
        ]
    };
    assert_eq!(
        headline(members()),
        "is well: members share it without any policy of the hub (exported by member1, imported by member1 and member2)"
    );
    let found = said(members());
    assert_eq!(found.parts[0].rows, [Row::new(State::Well, "member1", "offered")]);
    assert_eq!(found.parts[1].rows[1], Row::new(State::Well, "member2", "from member1"));
}

#[test]
fn what_is_amiss_in_a_member_is_the_cause() {
    let shared = "members share it without any policy of the hub";
    let none = export("serve", json!([condition("Valid", "False", "NoService", "there is no Service")]));
    let found = vec![asked("member1", &[exported()], &[import("True", "")]), asked("member2", &[none], &[])];
    assert_eq!(
        headline(found),
        format!(
            "is not well: {shared} (exported by member1 and member2, imported by member1): in member2: there is no Service"
        )
    );
    let found = vec![asked("member1", &[exported()], &[import("False", "no address is free")])];
    assert_eq!(
        headline(found),
        format!(
            "is not well: {shared} (exported by member1, imported by member1): in member1: no address is free"
        )
    );
    let found = vec![asked("member1", &[export("serve", json!([]))], &[])];
    assert_eq!(
        headline(found),
        format!(
            "is on its way: {shared} (exported by member1, imported by none): in member1: its agent has said nothing of it yet"
        )
    );
}

#[test]
fn a_member_that_could_not_be_asked_is_named_with_the_reason() {
    let silent = || MemberRead { name: "member2".to_owned(), found: Err("refused".to_owned()) };
    let found = vec![asked("member1", &[exported()], &[import("True", "")]), silent()];
    assert_eq!(
        headline(found),
        "is not well: members share it without any policy of the hub (exported by member1, imported by member1): member2 \
         could not be asked: refused"
    );
    assert_eq!(
        headline(vec![asked("member1", &[], &[]), silent()]),
        "is not on the hub: there is no ServiceExport serve in namespace shop, and no member exports or imports it that \
         could be asked; member2 could not be asked: refused; create it there, or see with `tombolo status --members -n \
         shop` whether members share it without the hub"
    );
}

#[test]
fn that_no_member_has_it_either_is_said() {
    assert_eq!(
        headline(vec![asked("member1", &[], &[]), asked("member2", &[], &[])]),
        "is not on the hub: there is no ServiceExport serve in namespace shop, and no member exports or imports it; create \
         it there, or export it in a member"
    );
}

#[test]
fn a_service_that_the_hub_only_propagates_is_told_with_what_members_share_of_it() {
    let mut read = read(&["member1"]);
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": "serve" } });
    read.add_service(serde_json::from_value(service).unwrap());
    read.add_asked(asked("member1", &[exported()], &[import("True", "")]));
    let found = explain(&read, &Subject::Object(key("Service", "serve")));
    assert!(found.headline().contains("no policy selects it"), "{}", found.headline());
    assert_eq!(found.parts[0].title, "In members: Exports");
}

#[test]
fn members_are_asked_only_for_what_the_hub_does_not_share() {
    let service = crate::decide::ids::ServiceKey::parse("shop", "serve").unwrap();
    let mut read = read(&["member1", "member2"]);
    assert_eq!(read.to_ask(&service).count(), 2);
    read.add_export(serde_json::from_value(exported()).unwrap());
    assert_eq!(read.to_ask(&service).count(), 0);
}
