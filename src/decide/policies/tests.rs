#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "tables and values made on the spot read best so"
)]

mod properties;
mod validation;

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{names::annotation, propagation::PropagationSpec},
    decide::select::GroupKind,
};

/// Tombolo's own namespace in tests.
const SYSTEM: &str = "tombolo-system";

/// A policy as its object: `shop/web` is one of a namespace, `web` a cluster-wide one.
fn metadata(name: &str) -> ObjectMeta {
    let (namespace, name) =
        name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    ObjectMeta { namespace: namespace.map(Into::into), name: Some(name.into()), ..Default::default() }
}

fn key(name: &str) -> PolicyKey {
    PolicyKey::of(&metadata(name))
}

fn spec(priority: i32, selectors: Value) -> PropagationSpec {
    serde_json::from_value(json!({ "priority": priority, "resourceSelectors": selectors })).unwrap()
}

/// Selectors of Deployments, one for each text: `name`, `app=label` or empty for all.
fn deployments(texts: &[&str]) -> Value {
    let selector = |text: &&str| {
        let mut selector = json!({ "apiVersion": "apps/v1", "kind": "Deployment" });
        match text.split_once('=') {
            Some((label, value)) => selector["labelSelector"] = json!({ "matchLabels": { label: value } }),
            None => selector["name"] = (*text).into(),
        }
        selector
    };
    texts.iter().map(selector).collect()
}

fn index<'a>(policies: impl IntoIterator<Item = (&'a str, PropagationSpec)>) -> Propagations {
    let mut index = Propagations::new(SYSTEM);
    for (name, spec) in policies {
        index.apply(&metadata(name), &spec);
        assert_eq!(index.faults(&key(name)), []);
    }
    index
}

/// Asks about the Deployment shop/web with the label `app=web`.
fn about_web<R>(ask: impl FnOnce(&Object<'_>) -> R) -> R {
    let (kind, labels) =
        (GroupKind::new("apps/v1", "Deployment"), BTreeMap::from([("app".into(), "web".into())]));
    ask(&Object { kind: &kind, namespace: "shop", name: "web", labels: &labels })
}

fn winner<T>(index: &Index<T>) -> Option<String> {
    about_web(|object| index.winner(object).map(|matched| matched.policy.key.to_string()))
}

#[test]
fn the_winner_is_found_by_scope_then_priority_then_rank_then_name() {
    let table: [(&[(&str, i32, &[&str])], Option<&str>); 12] = [
        (&[], None),
        (&[("shop/a", 0, &["api"]), ("b", 0, &["ap*", "app=api"])], None),
        (&[("shop/a", 0, &[""]), ("b", 9, &["web"])], Some("shop/a")),
        (&[("bank/a", 0, &["web"]), ("b", 0, &[""])], Some("b")),
        (&[("shop/a", 1, &[""]), ("shop/b", 0, &["web"])], Some("shop/a")),
        (&[("shop/a", -1, &["web"]), ("shop/b", 0, &[""])], Some("shop/b")),
        (&[("shop/a", 0, &["w*"]), ("shop/b", 0, &["web"])], Some("shop/b")),
        (&[("shop/a", 0, &["app=web"]), ("shop/b", 0, &["w*"])], Some("shop/b")),
        (&[("shop/a", 0, &[""]), ("shop/b", 0, &["app=web"])], Some("shop/b")),
        (&[("shop/a", 0, &["", "api", "app=web"]), ("shop/b", 0, &["app=web"])], Some("shop/a")),
        (&[("shop/b", 0, &["web"]), ("shop/a", 0, &["web"])], Some("shop/a")),
        (&[("b", 0, &["w*"]), ("a", 0, &["w*"]), ("c", 0, &[""])], Some("a")),
    ];
    for (policies, expected) in table {
        let index = index(
            policies.iter().map(|(name, priority, texts)| (*name, spec(*priority, deployments(texts)))),
        );
        assert_eq!(winner(&index).as_deref(), expected, "{policies:?}");
    }
}

#[test]
fn a_policy_of_a_namespace_says_nothing_about_objects_of_none() {
    let namespaces = json!([{ "apiVersion": "v1", "kind": "Namespace" }]);
    let index = index([("shop/a", spec(0, namespaces.clone())), ("b", spec(0, namespaces))]);
    let kind = GroupKind::new("v1", "Namespace");
    let object = Object { kind: &kind, namespace: "", name: "shop", labels: &BTreeMap::new() };
    assert_eq!(index.winner(&object).unwrap().policy.key, key("b"));
}

#[test]
fn a_policy_that_is_being_deleted_holds_for_nothing_and_a_suspended_one_holds() {
    let mut index = index([("shop/b", spec(0, deployments(&["web"])))]);
    let mut going = metadata("shop/a");
    going.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    index.apply(&going, &spec(9, deployments(&["web"])));
    assert_eq!(winner(&index).as_deref(), Some("shop/b"));

    let mut suspended = spec(1, deployments(&["web"]));
    suspended.suspension = serde_json::from_value(json!({ "dispatching": true })).unwrap();
    index.apply(&metadata("shop/c"), &suspended);
    assert_eq!(winner(&index).as_deref(), Some("shop/c"));
}

#[test]
fn a_policy_is_looked_at_anew_when_it_or_another_changes() {
    let mut index =
        index([("shop/a", spec(0, deployments(&["web"]))), ("shop/b", spec(0, deployments(&["w*"])))]);
    assert_eq!(winner(&index).as_deref(), Some("shop/a"));
    index.apply(&metadata("shop/b"), &spec(1, deployments(&["w*"])));
    assert_eq!(winner(&index).as_deref(), Some("shop/b"));
    index.delete(&key("shop/b"));
    assert_eq!(winner(&index).as_deref(), Some("shop/a"));
    index.apply(&metadata("shop/a"), &spec(0, deployments(&["api"])));
    assert_eq!(winner(&index), None);
}

#[test]
fn a_policy_with_faults_is_as_if_it_were_not_there_until_it_is_mended() {
    let mut index = index([("shop/a", spec(0, deployments(&["web"])))]);
    let reach = index.apply(&metadata("shop/a"), &spec(0, deployments(&["we["])));
    assert_eq!(winner(&index), None);
    assert_eq!(index.faults(&key("shop/a"))[0].path, "spec.resourceSelectors[0].name");
    assert!(about_web(|object| reach.iter().any(|reach| reach.covers(object))), "{reach:?}");

    index.apply(&metadata("shop/a"), &spec(0, deployments(&["we*"])));
    assert_eq!(winner(&index).as_deref(), Some("shop/a"));
    assert_eq!(index.faults(&key("shop/a")), []);
}

#[test]
fn what_is_never_a_template_has_no_policy_however_wide_it_selects() {
    let everything = json!([
        { "apiVersion": "v1", "kind": "ConfigMap" }, { "apiVersion": "v1", "kind": "Service" },
        { "apiVersion": "v1", "kind": "ServiceAccount" }, { "apiVersion": "v1", "kind": "Namespace" },
    ]);
    let index = index([("all", spec(0, everything))]);
    let holds = |kind: &str, namespace: &str, name: &str| {
        let kind = GroupKind::new("v1", kind);
        index.winner(&Object { kind: &kind, namespace, name, labels: &BTreeMap::new() }).is_some()
    };
    assert!(holds("ConfigMap", "shop", "web"));
    assert!(!holds("ConfigMap", "kube-system", "web"));
    assert!(!holds("ConfigMap", SYSTEM, "web"));
    for namespace in ["karmada-cluster", "karmada-system", "karmada-es-member1"] {
        assert!(!holds("ConfigMap", namespace, "web"), "{namespace}");
        assert!(!holds("Namespace", "", namespace), "{namespace}");
    }
    assert!(holds("ConfigMap", "karmada-east", "web"));
    assert!(!holds("ConfigMap", "shop", "kube-root-ca.crt"));
    assert!(!holds("ServiceAccount", "shop", "default"));
    assert!(!holds("Service", "default", "kubernetes"));
    assert!(holds("Service", "shop", "kubernetes"));
    assert!(!holds("Namespace", "", "kube-public"));
    assert!(holds("Namespace", "", "shop"));
}

#[test]
fn an_explanation_lists_all_candidates_in_order_with_what_each_lost_by() {
    let mut index = index([
        ("shop/holds", spec(5, deployments(&["w*"]))),
        ("shop/later", spec(5, deployments(&["w*"]))),
        ("shop/wider", spec(5, deployments(&["app=web", ""]))),
        ("shop/lower", spec(4, deployments(&["web"]))),
        ("everywhere", spec(9, deployments(&["web"]))),
        ("shop/other", spec(9, deployments(&["api"]))),
    ]);
    let mut going = metadata("shop/going");
    going.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    index.apply(&going, &spec(9, deployments(&["web"])));
    let explained: Vec<(String, Verdict, Rank)> = about_web(|object| {
        let candidates = index.explain(object).into_iter();
        candidates.map(|c| (c.matched.policy.key.to_string(), c.verdict, c.matched.rank)).collect()
    });
    assert_eq!(
        explained,
        [
            ("shop/holds".to_owned(), Verdict::Holds, Rank::Glob),
            ("shop/later".to_owned(), Verdict::Name, Rank::Glob),
            ("shop/wider".to_owned(), Verdict::Rank, Rank::Labels),
            ("shop/lower".to_owned(), Verdict::Priority, Rank::Name),
            ("everywhere".to_owned(), Verdict::ClusterWide, Rank::Name),
            ("shop/going".to_owned(), Verdict::Deleting, Rank::Name),
        ]
    );
}

#[test]
fn a_change_names_the_objects_it_may_concern_and_no_change_none() {
    let mut index = Propagations::new(SYSTEM);
    let web = |namespace: Option<&str>, name: Option<&str>| Reach {
        kind: Some(GroupKind::new("apps/v1", "Deployment")),
        namespace: namespace.map(Into::into),
        name: name.map(Into::into),
    };
    let named = spec(0, deployments(&["web"]));
    assert!(index.apply(&metadata("shop/a"), &named).into_iter().eq([web(Some("shop"), Some("web"))]));
    assert!(index.apply(&metadata("b"), &named).into_iter().eq([web(None, Some("web"))]));
    assert!(index.apply(&metadata("shop/a"), &named).is_empty(), "nothing changed");
    let wider = spec(0, deployments(&["w*"]));
    let (before, after) = (web(Some("shop"), Some("web")), web(Some("shop"), None));
    assert!(index.apply(&metadata("shop/a"), &wider).into_iter().eq([after.clone(), before]));
    assert!(index.delete(&key("shop/a")).into_iter().eq([after]));
    assert!(index.delete(&key("shop/a")).is_empty());

    let mut marked = metadata("b");
    marked.annotations = Some([(annotation::ON_POLICY_DELETION.into(), "delete".into())].into());
    assert!(!index.apply(&marked, &named).is_empty(), "what becomes of its copies changed");
}

#[test]
fn policies_that_say_the_same_share_it() {
    let mut index =
        index([("a", spec(0, deployments(&["web"]))), ("shop/b", spec(3, deployments(&["api"])))]);
    let mut other = spec(0, deployments(&["db"]));
    other.propagate_deps = true;
    index.apply(&metadata("c"), &other);
    let body = |index: &Propagations, name| index.get(&key(name)).unwrap().body.clone();
    assert!(Arc::ptr_eq(&body(&index, "a"), &body(&index, "shop/b")));
    assert!(!Arc::ptr_eq(&body(&index, "a"), &body(&index, "c")));
    let kept = Arc::downgrade(&body(&index, "a"));
    index.delete(&key("a"));
    assert_eq!(kept.strong_count(), 2, "one policy, and the index that shares it");
    index.delete(&key("shop/b"));
    assert_eq!(kept.strong_count(), 0);
}

#[test]
fn a_policy_read_live_is_what_is_known_of_it_or_says_that_too_little_is() {
    let mut index = index([("shop/a", spec(0, deployments(&["web"])))]);
    let (a, b) = (metadata("shop/a"), metadata("shop/b"));
    let (same, other) = (spec(0, deployments(&["web"])), spec(0, deployments(&["api"])));
    assert!(index.is_as_live(&key("shop/a"), Some((&a, &same))));
    assert!(!index.is_as_live(&key("shop/a"), Some((&a, &other))), "it was changed");
    assert!(!index.is_as_live(&key("shop/a"), None), "it is gone, and that was not seen");
    assert!(!index.is_as_live(&key("shop/b"), Some((&b, &same))), "it is there, and was not listed");
    assert!(index.is_as_live(&key("shop/b"), None));
    let mut going = metadata("shop/a");
    going.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert!(!index.is_as_live(&key("shop/a"), Some((&going, &same))));
    index.apply(&going, &same);
    assert!(index.is_as_live(&key("shop/a"), Some((&going, &same))));
}

#[test]
fn a_policy_that_became_faulty_is_never_what_is_known_of_it() {
    let mut index = index([("shop/a", spec(0, deployments(&["web"])))]);
    let faulty = spec(0, deployments(&["we["]));
    index.apply(&metadata("shop/a"), &faulty);
    assert!(!index.is_as_live(&key("shop/a"), Some((&metadata("shop/a"), &faulty))));
}

#[test]
fn a_copy_names_its_policy_in_words_that_are_read_back() {
    for name in ["shop/a", "b"] {
        assert_eq!(PolicyKey::parse(&key(name).to_string()), Some(key(name)));
    }
    for strange in ["", "/", "shop/", "/a", "a/b/c", r#"{"format":2}"#] {
        assert_eq!(PolicyKey::parse(strange), None, "{strange:?}");
    }
}

#[test]
fn a_copy_stays_if_the_policy_that_placed_it_or_the_one_that_holds_says_so_by_now() {
    let mut index =
        index([("shop/a", spec(0, deployments(&["app=web"]))), ("shop/b", spec(0, deployments(&["api"])))]);
    let preserves =
        |index: &Propagations, name| about_web(|web| index.preserves(Some(&key(name)), Some(web)));
    assert!(!preserves(&index, "shop/a"));
    let mut preserving = spec(0, deployments(&["api"]));
    preserving.preserve_resources_on_deletion = Some(true);
    index.apply(&metadata("shop/b"), &preserving);
    assert!(preserves(&index, "shop/b"), "it was placed by that");
    assert!(!preserves(&index, "shop/a"));
    let mut preserving = spec(0, deployments(&["app=web"]));
    preserving.preserve_resources_on_deletion = Some(true);
    index.apply(&metadata("shop/a"), &preserving);
    assert!(preserves(&index, "shop/c"), "that holds for it");
    assert!(!index.preserves(Some(&key("shop/c")), None));
}
