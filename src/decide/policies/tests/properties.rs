//! The index is asked what a plain list of policies is asked, after any events in any order.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// What happens to a policy.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few of them, for a moment")]
enum Event {
    Applied(&'static str, bool, PropagationSpec),
    Deleted(&'static str),
}

/// The policies as they are after some events.
type State = BTreeMap<&'static str, (bool, PropagationSpec)>;

const POLICIES: [&str; 6] = ["shop/a", "shop/b", "bank/a", "a", "b", "c"];
const KINDS: [(&str, &str); 3] =
    [("apps/v1", "Deployment"), ("v1", "Service"), ("multicluster.x-k8s.io/v1beta1", "ServiceImport")];

fn selector() -> impl Strategy<Value = Value> {
    let by = prop_oneof![
        3 => select(vec!["web", "api", "db"]).prop_map(|name| json!({ "name": name })),
        1 => select(vec!["w*", "we?", "web*", "wa*", "a*", "*b", "{web,api}", "*", "we["]).prop_map(|name| json!({ "name": name })),
        1 => select(vec!["web", "api"]).prop_map(|app| json!({ "labelSelector": { "matchLabels": { "app": app } } })),
        1 => Just(json!({ "labelSelector": { "matchLabels": { "app": "web", "tier": "front" } } })),
        1 => Just(json!({ "labelSelector": { "matchExpressions": [{ "key": "tier", "operator": "Exists" }] } })),
        1 => Just(json!({})),
    ];
    let namespace = select(vec![None, None, Some("shop"), Some("b*")]);
    (select(KINDS.to_vec()), by, namespace).prop_map(|((api_version, kind), mut selector, namespace)| {
        selector["apiVersion"] = api_version.into();
        selector["kind"] = kind.into();
        if let Some(namespace) = namespace {
            selector["namespace"] = namespace.into();
        }
        selector
    })
}

fn event() -> impl Strategy<Value = Event> {
    let spec = (-1..2, vec(selector(), 1..4), any::<bool>()).prop_map(|(priority, selectors, deps)| {
        let mut spec = spec(priority, selectors.into());
        spec.propagate_deps = deps;
        spec
    });
    let applied = (select(POLICIES.to_vec()), prop::bool::weighted(0.1), spec);
    prop_oneof![
        4 => applied.prop_map(|(name, deleting, spec)| Event::Applied(name, deleting, spec)),
        1 => select(POLICIES.to_vec()).prop_map(Event::Deleted),
    ]
}

fn metadata_of(name: &str, deleting: bool) -> ObjectMeta {
    let deletion = deleting.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    ObjectMeta { deletion_timestamp: deletion, ..metadata(name) }
}

/// An object, owned.
type Owned = (GroupKind, &'static str, &'static str, BTreeMap<String, String>);

/// Every object of a small world.
fn objects() -> Vec<Owned> {
    let labels = [
        json!({}),
        json!({ "app": "web" }),
        json!({ "app": "web", "tier": "front" }),
        json!({ "tier": "back" }),
    ];
    let mut objects = Vec::new();
    for (api_version, kind) in KINDS {
        for namespace in ["shop", "bank", ""] {
            for name in ["web", "api", "other"] {
                for labels in &labels {
                    let labels = serde_json::from_value(labels.clone()).unwrap();
                    objects.push((GroupKind::new(api_version, kind), namespace, name, labels));
                }
            }
        }
    }
    objects
}

fn views(objects: &[Owned]) -> Vec<Object<'_>> {
    objects.iter().map(|(kind, namespace, name, labels)| Object { kind, namespace, name, labels }).collect()
}

fn replay(events: &[Event]) -> (Propagations, State) {
    let (mut index, mut state) = (Propagations::new(SYSTEM), State::new());
    for event in events {
        match event {
            Event::Applied(name, deleting, spec) => {
                index.apply(&metadata_of(name, *deleting), spec);
                state.insert(name, (*deleting, spec.clone()));
            }
            Event::Deleted(name) => {
                index.delete(&key(name));
                state.remove(name);
            }
        }
    }
    (index, state)
}

fn rebuilt<'a>(state: impl Iterator<Item = (&'a &'static str, &'a (bool, PropagationSpec))>) -> Propagations {
    let mut index = Propagations::new(SYSTEM);
    for (name, (deleting, spec)) in state {
        index.apply(&metadata_of(name, *deleting), spec);
    }
    index
}

/// A policy as a scan sees it.
struct Plain {
    key: PolicyKey,
    deleting: bool,
    priority: i32,
    selectors: Vec<Resources>,
}

/// The policies that are without faults.
fn plain(state: &State) -> Vec<Plain> {
    let mut policies = Vec::new();
    for (name, (deleting, spec)) in state {
        let (key, path) = (key(name), crate::decide::fault::Path::root("spec"));
        let own = key.namespace.as_deref();
        let compile = |selector| Resources::compile(selector, own, &path, &mut Vec::new());
        let Some(selectors) = spec.resource_selectors.iter().map(compile).collect() else { continue };
        policies.push(Plain { key, deleting: *deleting, priority: spec.priority, selectors });
    }
    policies
}

impl Plain {
    fn rank(&self, object: &Object<'_>) -> Option<Rank> {
        let own = self.key.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace);
        self.selectors.iter().filter(|_| own).filter_map(|selector| selector.rank(object)).max()
    }
}

/// The winner by going through all policies, as Karmada does.
fn scanned(policies: &[Plain], object: &Object<'_>) -> Option<PolicyKey> {
    let mut best: Option<((bool, i32, Rank), &PolicyKey)> = None;
    for policy in policies.iter().filter(|policy| !policy.deleting) {
        let Some(rank) = policy.rank(object) else { continue };
        let strength = (policy.key.namespace.is_some(), policy.priority, rank);
        let stronger = best.is_none_or(|(other, holder)| {
            strength > other || (strength == other && policy.key.name < holder.name)
        });
        if stronger {
            best = Some((strength, &policy.key));
        }
    }
    best.map(|(_, key)| key.clone())
}

fn winner_of(index: &Propagations, object: &Object<'_>) -> Option<PolicyKey> {
    index.winner(object).map(|matched| matched.policy.key.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_index_after_any_events_is_the_index_of_what_they_left(events in vec(event(), 0..24)) {
        let (index, state) = replay(&events);
        prop_assert_eq!(format!("{index:?}"), format!("{:?}", rebuilt(state.iter())));
        prop_assert_eq!(format!("{index:?}"), format!("{:?}", rebuilt(state.iter().rev())));
    }

    #[test]
    fn the_winner_is_the_one_that_a_scan_of_all_policies_finds(events in vec(event(), 0..24)) {
        let (index, state) = replay(&events);
        let policies = plain(&state);
        for object in views(&objects()) {
            prop_assert_eq!(winner_of(&index, &object), scanned(&policies, &object), "{:?}", object);
        }
    }

    #[test]
    fn an_explanation_names_the_winner_and_exactly_the_policies_that_match(events in vec(event(), 0..24)) {
        let (index, state) = replay(&events);
        let policies = plain(&state);
        for object in views(&objects()) {
            let candidates = index.explain(&object);
            let holders = candidates.iter().filter(|candidate| candidate.verdict == Verdict::Holds);
            let holders: Vec<_> = holders.map(|candidate| candidate.matched.policy.key.clone()).collect();
            prop_assert_eq!(holders, Vec::from_iter(winner_of(&index, &object)));
            for policy in &policies {
                let named = candidates.iter().any(|candidate| candidate.matched.policy.key == policy.key);
                prop_assert_eq!(named, policy.rank(&object).is_some(), "{} {:?}", policy.key, object);
            }
        }
    }

    #[test]
    fn a_change_concerns_every_object_whose_winner_it_changes(events in vec(event(), 0..16), last in event()) {
        let (mut index, _) = replay(&events);
        let objects = objects();
        let views = views(&objects);
        let before: Vec<_> = views.iter().map(|object| winner_of(&index, object)).collect();
        let reach = match &last {
            Event::Applied(name, deleting, spec) => index.apply(&metadata_of(name, *deleting), spec),
            Event::Deleted(name) => index.delete(&key(name)),
        };
        for (object, before) in views.iter().zip(before) {
            let covered = reach.iter().any(|reach| reach.covers(object));
            prop_assert!(covered || winner_of(&index, object) == before, "{:?}", object);
        }
    }

    #[test]
    fn what_would_hold_after_a_change_holds_after_it(events in vec(event(), 0..16), last in event()) {
        let (index, _) = replay(&events);
        let edit = match &last {
            Event::Applied(name, deleting, spec) => index.edited(&metadata_of(name, *deleting), spec).ok(),
            Event::Deleted(name) => Some(Edit::deletion(key(name))),
        };
        let Some(edit) = edit else { return Ok(()) };
        let (after, _) = replay(&[events, vec![last]].concat());
        for object in views(&objects()) {
            let foreseen = index.winner_after(&edit, &object).map(|matched| matched.policy.key.clone());
            prop_assert_eq!(foreseen, winner_of(&after, &object), "{:?}", object);
        }
    }
}
