//! What is known of a member's kinds, look by look.

use http::Method;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::*;
use crate::{api::names::annotation, hub::link::tests::session};

fn version(group: &str, version: &str, kind: &str) -> Version {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Version { resource, namespaced: true }
}

fn kind(group: &str, kind: &str) -> GroupKind {
    GroupKind { group: group.into(), kind: kind.into() }
}

fn gadget() -> GroupKind {
    kind("rules.example", "Gadget")
}

fn imports() -> Version {
    version(crate::api::mcs::GROUP, "v1alpha1", "ServiceImport")
}

/// A member that serves Gadgets in a version, and was given some.
fn state() -> State {
    let cluster = serde_json::from_value(json!({
        "metadata": { "name": "a", "annotations": { annotation::KINDS: "Gadget.rules.example" } },
        "spec": { "syncMode": "Push" },
    }));
    let state = Kinds::new(&cluster.unwrap()).state.into_inner();
    State { asked: true, record_read: 1, ..state }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

impl State {
    fn looks(&mut self, served: &[Version], defined: &[&str], now: Instant) -> Vec<GroupKind> {
        let served: Served = served.iter().cloned().collect();
        self.close_unserved(&served);
        self.miss(served, Some(&names(defined)), now)
    }

    fn open(&mut self, synced: bool, api_version: &str) {
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        self.open.insert(gadget(), Open { synced, api_version: api_version.into(), task });
    }
}

#[tokio::test]
async fn a_kind_that_one_look_lacks_is_not_taken_for_gone() {
    let (mut state, now) = (state(), Instant::now());
    let gadgets = version("rules.example", "v1", "Gadget");
    assert_eq!(state.looks(&[imports(), gadgets.clone()], &["gadgets.rules.example"], now), []);
    state.open(true, "rules.example/v1");
    assert!(state.all_known());
    assert_eq!(state.looks(&[imports()], &["gadgets.rules.example"], now), []);
    assert!(state.open.is_empty(), "it cannot be watched");
    assert!(!state.all_known(), "it is not known what it has");
    // Its definition says that it is only not served.
    assert_eq!(state.looks(&[imports()], &["gadgets.rules.example"], now + 5 * SOON), []);
    assert_eq!(state.miss([imports()].into_iter().collect(), None, now + 10 * SOON), [], "nobody could tell");
    assert_eq!(state.looks(&[imports(), gadgets], &["gadgets.rules.example"], now + 15 * SOON), []);
    state.open(true, "rules.example/v1");
    assert!(state.all_known());
}

#[tokio::test]
async fn a_kind_is_gone_if_two_looks_lack_it_and_nothing_defines_it() {
    let (mut state, now) = (state(), Instant::now());
    assert_eq!(state.looks(&[imports()], &["others.example"], now), []);
    assert_eq!(state.looks(&[imports()], &["others.example"], now + SOON / 2), [], "too early");
    assert!(!state.all_known());
    assert_eq!(state.looks(&[imports()], &["others.example"], now + SOON), [gadget()]);
    assert!(state.all_known(), "there is nothing of it");
    assert_eq!(state.looks(&[imports()], &["others.example"], now + 2 * SOON), [], "that is said once");
    let gadgets = version("rules.example", "v1", "Gadget");
    assert_eq!(state.looks(&[imports(), gadgets], &["gadgets.rules.example"], now + 3 * SOON), []);
    assert!(!state.all_known(), "it came again, and was not read");
}

#[tokio::test]
async fn a_watch_of_a_version_that_is_no_longer_served_ends_and_what_was_seen_stays() {
    let (mut state, now) = (state(), Instant::now());
    state.open(true, "rules.example/v1");
    let both = ["v2", "v1"].map(|name| version("rules.example", name, "Gadget"));
    let defined = ["gadgets.rules.example"];
    assert_eq!(state.looks(&[imports(), both[0].clone(), both[1].clone()], &defined, now), []);
    assert!(state.open.contains_key(&gadget()), "another that is preferred changes nothing");
    assert_eq!(state.looks(&[imports(), both[0].clone()], &defined, now + 5 * SOON), []);
    assert!(state.open.is_empty() && state.wanted.contains(&gadget()), "it is watched anew");
    assert!(!state.is_gone(&gadget()));
}

#[tokio::test]
async fn a_record_that_another_may_have_written_makes_nothing_known_until_it_is_read_anew() {
    let mut state = state();
    state.looks(&[imports(), version("rules.example", "v1", "Gadget")], &[], Instant::now());
    state.open(true, "rules.example/v1");
    state.told = true;
    let kinds = Kinds { state: Mutex::new(state), changed: Notify::new() };
    assert!(kinds.all_known());
    kinds.read_record();
    assert!(!kinds.all_known() && !kinds.state.lock().told, "it is told again");
    let mut state = kinds.state.into_inner();
    let secret = kind("", "Secret");
    state.take_record([gadget(), secret.clone()].into());
    state.record_read = state.record_due;
    assert!(!state.all_known() && state.wanted.contains(&secret), "what came since has to be read");
}

#[tokio::test]
async fn a_kind_is_recorded_when_it_was_read_and_before_anything_of_it_is_written() {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "a", "resourceVersion": "7" }, "spec": { "syncMode": "Push" },
    });
    let (session, asked) = session(&json!({}), move |_| (200, cluster.clone()));
    let (session, mut tasks) = (Arc::new(session), JoinSet::new());
    {
        let mut state = session.kinds.state.lock();
        state.miss(
            [imports(), version("rules.example", "v1", "Gadget")].into_iter().collect(),
            None,
            Instant::now(),
        );
        (state.asked, state.record_read) = (true, state.record_due);
    }
    let one = ObjectKey { kind: gadget(), namespace: "shop".into(), name: "one".into() };
    let stands = || session.kinds.standing(&one);
    assert!(matches!(stands(), Standing::Opening));
    session.keep_kinds_once(&mut tasks).await;
    assert!(session.kinds.state.lock().open.contains_key(&gadget()), "it is watched");
    assert_eq!(*asked.lock(), [], "it may never be read, and would count as unknown after a restart");
    assert!(session.kinds.all_known());
    session.opened(&gadget());
    assert!(matches!(stands(), Standing::Opening), "it is not on record");
    assert!(session.queue.load().waiting == 0, "so nothing of it is written");
    session.keep_kinds_once(&mut tasks).await;
    let writes: Vec<_> =
        asked.lock().iter().filter(|(method, ..)| method == Method::PATCH).cloned().collect();
    let [(_, _, body)] = &writes[..] else { panic!("it is recorded once: {writes:?}") };
    assert_eq!(body["metadata"]["annotations"][annotation::KINDS], "Gadget.rules.example");
    assert!(matches!(stands(), Standing::Synced(_)));
    assert_eq!(session.queue.load().waiting, 1, "what waited is looked at");
}
