//! What is done about one object in one cluster.

#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

use serde_json::json;

use super::*;
use crate::api::names::mcs;
use crate::decide::copy::MANAGER;

const HUB: &str = "hub";

fn key(kind: &str) -> ObjectKey {
    let group = if kind == "CustomResourceDefinition" { "apiextensions.k8s.io" } else { "" };
    ObjectKey {
        kind: GroupKind { group: group.into(), kind: kind.into() },
        namespace: if group.is_empty() && kind != "Namespace" { "shop" } else { "" }.into(),
        name: "x".into(),
    }
}

fn wanted(kind: &str, overwrite: bool) -> Wanted {
    let resolution = if overwrite { ConflictResolution::Overwrite } else { ConflictResolution::Abort };
    let object = json!({ "kind": kind, "metadata": { "name": "x" }, "data": { "a": "b" } });
    Wanted::for_test(HUB, key(kind), object, resolution)
}

/// What the API server says of a copy after our apply.
fn applied(wanted: &Wanted, kind: &str) -> ObjectMeta {
    let body = wanted.render("v1", None).body;
    let mut metadata = body["metadata"].clone();
    metadata["uid"] = json!("7");
    metadata["resourceVersion"] = json!("100");
    let marks = metadata["annotations"].as_object().unwrap().keys();
    let mut listed = json!({ "f:data": { "f:a": {} }, "f:metadata": { "f:labels": { "f:tombolo.dev/hub": {} }, "f:annotations": {} } });
    for mark in marks {
        listed["f:metadata"]["f:annotations"][format!("f:{mark}")] = json!({});
    }
    metadata["managedFields"] = json!([{ "manager": MANAGER, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": listed }]);
    let _ = kind;
    serde_json::from_value(metadata).unwrap()
}

fn observed(metadata: &ObjectMeta, kind: &str) -> Observed {
    Observed::of(&key(kind), metadata, HUB)
}

fn present(wanted: &Wanted) -> Desired {
    Desired::Present(Box::new(wanted.clone()))
}

fn done(kind: &str, desired: &Desired, observed: Option<&Observed>) -> Action {
    action(&key(kind), desired, observed, "v1")
}

#[test]
fn what_is_missing_is_created_and_what_is_as_applied_is_left_alone() {
    let wanted = wanted("ConfigMap", false);
    assert!(matches!(done("ConfigMap", &present(&wanted), None), Action::Create(_)));
    let there = observed(&applied(&wanted, "ConfigMap"), "ConfigMap");
    assert_eq!(done("ConfigMap", &present(&wanted), Some(&there)), Action::Nothing);
}

#[test]
fn what_the_release_before_wrote_is_left_alone_until_there_is_something_to_write() {
    let wanted = wanted("ConfigMap", false);
    let before = applied(&wanted.clone().without_policy(), "ConfigMap");
    assert!(!before.annotations.as_ref().unwrap().contains_key(annotation::POLICY));
    let there = observed(&before, "ConfigMap");
    assert_eq!(done("ConfigMap", &present(&wanted), Some(&there)), Action::Nothing);
    let mut changed = before;
    annotate(annotation::APPLIED, "other")(&mut changed);
    let there = observed(&changed, "ConfigMap");
    let Action::Apply(rendered, _) = done("ConfigMap", &present(&wanted), Some(&there)) else {
        panic!("not applied")
    };
    assert_eq!(rendered.body["metadata"]["annotations"][annotation::POLICY], "shop/p");
}

#[test]
fn a_copy_that_no_policy_places_keeps_its_stamps_of_those_that_did() {
    let wanted = wanted("ConfigMap", false);
    let there = observed(&applied(&wanted, "ConfigMap"), "ConfigMap");
    let left = wanted.left();
    assert_eq!(
        done("ConfigMap", &present(&left), Some(&there)),
        Action::Nothing,
        "made anew, they placed nothing"
    );
    assert!(
        matches!(done("ConfigMap", &present(&left.placed()), Some(&there)), Action::Apply(..)),
        "until one does"
    );
}

#[test]
fn a_field_that_somebody_took_is_applied_again_over_what_was_seen() {
    let wanted = wanted("ConfigMap", false);
    let mut metadata = applied(&wanted, "ConfigMap");
    let fields = metadata.managed_fields.as_mut().unwrap()[0].fields_v1.as_mut().unwrap();
    fields.0.as_object_mut().unwrap().remove("f:data");
    let there = observed(&metadata, "ConfigMap");
    let Action::Apply(_, version) = done("ConfigMap", &present(&wanted), Some(&there)) else {
        panic!("not applied")
    };
    assert_eq!(&*version, "100");
}

#[test]
fn a_new_status_is_no_news_and_a_new_owner_is() {
    let wanted = wanted("ConfigMap", false);
    let mut metadata = applied(&wanted, "ConfigMap");
    let mut there = observed(&metadata, "ConfigMap");
    there.settle();
    metadata.resource_version = Some("101".to_owned());
    let mut status = metadata.managed_fields.as_ref().unwrap()[0].clone();
    (status.manager, status.subresource) = (Some("kubelet".to_owned()), Some("status".to_owned()));
    metadata.managed_fields.as_mut().unwrap().push(status.clone());
    assert!(!there.renew(observed(&metadata, "ConfigMap")));
    assert_eq!(&*there.resource_version, "101");
    status.subresource = None;
    metadata.managed_fields.as_mut().unwrap().push(status);
    assert!(there.renew(observed(&metadata, "ConfigMap")));
    assert_eq!(
        done("ConfigMap", &present(&wanted), Some(&there)),
        Action::Nothing,
        "but ours are still ours"
    );
    metadata.managed_fields.as_mut().unwrap()[0].fields_v1.as_mut().unwrap().0 = json!({});
    assert!(there.renew(observed(&metadata, "ConfigMap")));
    assert!(matches!(done("ConfigMap", &present(&wanted), Some(&there)), Action::Apply(..)));
}

#[test]
fn an_older_sight_is_told_from_a_newer_one() {
    let wanted = wanted("ConfigMap", false);
    let mut metadata = applied(&wanted, "ConfigMap");
    let newer = observed(&metadata, "ConfigMap");
    metadata.resource_version = Some("99".to_owned());
    assert!(observed(&metadata, "ConfigMap").is_older_than(&newer), "99 is less than 100");
    metadata.uid = Some("8".to_owned());
    assert!(!observed(&metadata, "ConfigMap").is_older_than(&newer), "another object");
}

#[test]
fn a_clone_with_our_marks_is_looked_at_and_never_overwritten_unseen_nor_removed() {
    let wanted = wanted("ConfigMap", false);
    let mut metadata = applied(&wanted, "ConfigMap");
    let origin = metadata.annotations.as_mut().unwrap().get_mut(annotation::ORIGIN).unwrap();
    *origin = origin.replace("\"x\"", "\"y\"");
    let there = observed(&metadata, "ConfigMap");
    assert_eq!(done("ConfigMap", &present(&wanted), Some(&there)), Action::Look);
    assert_eq!(done("ConfigMap", &Desired::Absent(Absence::NoTemplate), Some(&there)), Action::Nothing);
}

fn removal(kind: &str, why: Absence, change: impl FnOnce(&mut ObjectMeta)) -> Removal {
    let mut metadata = applied(&wanted(kind, false), kind);
    change(&mut metadata);
    match done(kind, &Desired::Absent(why), Some(&observed(&metadata, kind))) {
        Action::Remove(removal) => removal,
        other => panic!("{other:?}"),
    }
}

fn annotate(key: &'static str, value: &'static str) -> impl FnOnce(&mut ObjectMeta) {
    move |metadata| {
        metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }
}

#[test]
fn removal_asks_for_what_must_be_certain_and_lets_go_what_must_stay() {
    use Absence::{Elsewhere, Leaving, LeavingBehindNothing, NamedByNone, NoPolicy, NoTemplate, NotNamed};
    for (why, let_go) in [
        (Elsewhere, false),
        (NotNamed, false),
        (NamedByNone, false),
        (LeavingBehindNothing, false),
        (Leaving, true),
        (NoTemplate, false),
        (NoPolicy, false),
    ] {
        let removal = removal("ConfigMap", why, |_| {});
        assert_eq!(removal.let_go, let_go, "{why:?}");
        assert_eq!(removal.unless_preserved, matches!(why, NoTemplate | NamedByNone), "{why:?}");
        assert_eq!(&*removal.uid, "7");
        for now in [Elsewhere, NotNamed, NamedByNone, LeavingBehindNothing, Leaving, NoTemplate, NoPolicy] {
            assert_eq!(removal.is_still_for(&Desired::Absent(now)), now == why, "{why:?}, then {now:?}");
        }
        assert!(!removal.is_still_for(&Desired::Unknown("it is read anew")));
        match why {
            NoTemplate => assert!(matches!(removal.certain, Certainty::NoTemplate(_))),
            NoPolicy | Elsewhere | NotNamed | NamedByNone => {
                let policy = Some("shop/p".into());
                assert_eq!(removal.certain, Certainty::Policies { kinds: "p".into(), policy });
            }
            Leaving | LeavingBehindNothing => assert_eq!(removal.certain, Certainty::Given),
        }
        assert!(
            self::removal("ConfigMap", why, annotate(annotation::ADOPTED, "true")).let_go,
            "adopted: {why:?}"
        );
    }
    let preserved =
        |why| removal("ConfigMap", why, annotate(annotation::PRESERVE_ON_DELETION, "true")).let_go;
    assert!(preserved(NoTemplate));
    assert!(preserved(NamedByNone), "what named it was deleted, and preserved");
    assert!(!preserved(NotNamed), "what named it moved");
    assert!(
        !removal("ConfigMap", Elsewhere, annotate(annotation::PRESERVE_ON_DELETION, "true")).let_go,
        "only with its template"
    );
}

#[test]
fn what_takes_others_along_is_let_go_unless_that_was_asked_for() {
    for kind in ["Namespace", "CustomResourceDefinition"] {
        for why in [Absence::Elsewhere, Absence::NoTemplate] {
            assert!(removal(kind, why, |_| {}).let_go, "{kind}");
            let asked = annotate(annotation::ON_POLICY_DELETION, annotation::ON_POLICY_DELETION_DELETE);
            assert!(!removal(kind, why, asked).let_go, "{kind}");
        }
    }
}

#[test]
fn what_takes_others_along_is_let_go_where_a_cluster_leaves_whatever_was_asked_for() {
    for kind in ["Namespace", "CustomResourceDefinition"] {
        for why in [Absence::Leaving, Absence::LeavingBehindNothing] {
            assert!(removal(kind, why, |_| {}).let_go, "{kind}");
            let asked = annotate(annotation::ON_POLICY_DELETION, annotation::ON_POLICY_DELETION_DELETE);
            assert!(removal(kind, why, asked).let_go, "its policy spoke of itself: {kind}, {why:?}");
        }
    }
    assert!(!removal("ConfigMap", Absence::LeavingBehindNothing, |_| {}).let_go);
}

#[test]
fn a_namespace_that_the_hub_made_for_what_is_in_it_is_taken_over_whatever_it_says_and_never_deleted() {
    let take = |kind: &str, manager: &str, operation: &str| {
        let live = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "x" } });
        let mut metadata = ObjectMeta { resource_version: Some("5".to_owned()), ..ObjectMeta::default() };
        metadata.managed_fields =
            serde_json::from_value(json!([{ "manager": manager, "operation": operation }])).unwrap();
        taking_over(&key(kind), &wanted(kind, false), &live, &observed(&metadata, kind), "v1", false)
    };
    let Ok(Action::Apply(rendered, version)) = take("Namespace", MANAGER, "Update") else {
        panic!("not taken")
    };
    assert_eq!(&*version, "5");
    assert_eq!(rendered.body["metadata"]["annotations"][annotation::ADOPTED], "true");
    for (kind, manager, operation) in [
        ("Namespace", "kubectl-create", "Update"),
        // What `tombolo` wrote at a user's request is the user's.
        ("ConfigMap", MANAGER, "Update"),
    ] {
        let refused = take(kind, manager, operation).unwrap_err();
        assert!(refused.contains("is not ours"), "{kind} by {manager}: {refused}");
    }
}

/// Judges what somebody else made, with some data.
fn take(overwrite: bool, data: Value, change: impl FnOnce(&mut ObjectMeta)) -> Result<Action, String> {
    let wanted = wanted("ConfigMap", overwrite);
    let live = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": data });
    let mut metadata = ObjectMeta {
        uid: Some("9".to_owned()),
        resource_version: Some("5".to_owned()),
        ..ObjectMeta::default()
    };
    change(&mut metadata);
    taking_over(&key("ConfigMap"), &wanted, &live, &observed(&metadata, "ConfigMap"), "v1", false)
}

#[test]
fn what_another_hub_left_in_a_member_that_was_taken_over_is_overwritten_where_the_policy_says_so() {
    let other = r#"{"format":1,"hub":"other","template":"1","group":"","kind":"ConfigMap","namespace":"shop","name":"x"}"#;
    let live = json!({ "kind": "ConfigMap", "metadata": { "name": "x" }, "data": { "a": "b" } });
    let mut metadata = ObjectMeta { resource_version: Some("5".to_owned()), ..ObjectMeta::default() };
    annotate(annotation::ORIGIN, other)(&mut metadata);
    let there = observed(&metadata, "ConfigMap");
    let take = |overwrite, taken_over| {
        taking_over(&key("ConfigMap"), &wanted("ConfigMap", overwrite), &live, &there, "v1", taken_over)
    };
    let Ok(Action::Apply(rendered, version)) = take(true, true) else { panic!("not taken") };
    assert_eq!(&*version, "5");
    let marks = &rendered.body["metadata"]["annotations"];
    assert!(marks.get(annotation::ADOPTED).is_none(), "a hub put it there, and so a hub removes it: {marks}");
    let refused = take(false, true).unwrap_err();
    assert!(refused.contains("Overwrite") && !refused.contains("--take-over"), "{refused}");
    assert!(take(true, false).unwrap_err().contains("--take-over"));
}

#[test]
fn what_was_there_and_says_all_is_adopted_and_what_differs_is_as_the_policy_says() {
    let adopted = |action: &Action| match action {
        Action::Apply(rendered, version) => {
            assert_eq!(&**version, "5");
            rendered.body["metadata"]["annotations"].get(annotation::ADOPTED).is_some()
        }
        other => panic!("{other:?}"),
    };
    assert!(adopted(&take(false, json!({ "a": "b", "more": "of theirs" }), |_| {}).unwrap()));
    assert!(adopted(&take(true, json!({ "a": "b" }), |_| {}).unwrap()), "also where it might be overwritten");
    assert!(!adopted(&take(true, json!({ "a": "theirs" }), |_| {}).unwrap()));
    let refused = take(false, json!({ "a": "theirs" }), |_| {}).unwrap_err();
    assert!(refused.contains("conflictResolution: Overwrite"), "{refused}");
}

#[test]
fn what_another_hub_or_a_newer_release_marked_stays_as_it_is_whatever_the_policy_says() {
    let origin = |text: &'static str| annotate(annotation::ORIGIN, text);
    let other = r#"{"format":1,"hub":"other","template":"1","group":"","kind":"ConfigMap","namespace":"shop","name":"x"}"#;
    assert!(take(true, json!({ "a": "b" }), origin(other)).unwrap_err().contains("another hub (other)"));
    assert!(
        take(true, json!({ "a": "b" }), origin(r#"{"format":2}"#)).unwrap_err().contains("newer release")
    );
}

#[test]
fn a_definition_is_never_written_over_a_newer_one() {
    let release = |schema: &str, release: &str| {
        Release::of(Some(&BTreeMap::from([
            (mcs::SCHEMA_REVISION.to_owned(), schema.to_owned()),
            (mcs::RELEASE_VERSION.to_owned(), release.to_owned()),
        ])))
    };
    assert!(release("9", "v0.1.0") < release("10", "v0.1.0"), "the schema's revision counts, as a number");
    assert!(release("9", "v0.4.0") < release("0", "v0.5.0"), "it begins anew with every release");
    assert!(release("1", "v0.9.0") < release("1", "v0.10.0"));
    let wanted = wanted("CustomResourceDefinition", true);
    let mut metadata = applied(&wanted, "CustomResourceDefinition");
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(mcs::SCHEMA_REVISION.to_owned(), "1".to_owned());
    let there = observed(&metadata, "CustomResourceDefinition");
    let action = done("CustomResourceDefinition", &present(&wanted), Some(&there));
    assert!(matches!(action, Action::Leave(_)), "{action:?}");
}

#[test]
fn what_is_not_known_or_held_back_is_left_alone() {
    let wanted = wanted("ConfigMap", false);
    let there = observed(&applied(&wanted, "ConfigMap"), "ConfigMap");
    assert_eq!(done("ConfigMap", &Desired::Unknown("why"), Some(&there)), Action::Nothing);
    for desired in [Desired::HeldBack("why".to_owned()), Desired::Faulty("why".to_owned())] {
        assert_eq!(done("ConfigMap", &desired, Some(&there)), Action::Leave("why".to_owned()));
    }
}
