//! What became of everything: failures by cluster and object, told in policies' status and in events.
//!
//! Whoever reconciles calls [`Report::fail`] and [`Report::settle`]; [`run`] writes what changed, a little later and together.
//! Nothing is written that says what was said before.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::Notify;

use super::{engine::Engine, link::Reachability};
use crate::{
    api::{
        ClusterPropagationPolicy, PropagationPolicy, ServiceExport, mcs, names::condition,
        propagation::PolicyStatus,
    },
    decide::{
        copy::ObjectKey,
        ids::ClusterName,
        policies::PolicyKey,
        select::GroupKind,
        world::{Failures, Outcome},
    },
    shell::clock,
};

/// What changes within this time is told together.
const TOGETHER: Duration = Duration::from_millis(500);
/// As many events wait at most; what comes then is dropped, status says it all the same.
const WAITING: usize = 256;
/// As many are told at once.
const AT_ONCE: usize = 8;
/// What one write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of everything.
#[derive(Default)]
pub struct Report {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// Shared with whoever writes a report; changed in place otherwise.
    failures: Arc<Failures>,
    dirty: BTreeSet<PolicyKey>,
    /// ServiceExports whose own status may have changed.
    exports: BTreeSet<ObjectKey>,
    /// Policies of which nothing can be told yet.
    postponed: BTreeSet<PolicyKey>,
    all: bool,
    missing: BTreeSet<GroupKind>,
    events: VecDeque<(ObjectReference, Event)>,
}

// === impl Report ===

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("failures", &self.state.lock().failures).finish_non_exhaustive()
    }
}

impl Report {
    /// Takes note that an object could not be written to a cluster.
    pub fn fail(&self, engine: &Engine, cluster: &ClusterName, key: &ObjectKey, why: &str) {
        let (policy, reference) = engine.look(|world, _| {
            let policy = world.assignment(key).and_then(|assignment| assignment.policy.clone());
            let template = world.template(key).zip(world.kind(&key.kind));
            let reference = template.map(|(template, kind)| reference(key, &kind.api_version, &template.uid));
            (policy, reference)
        });
        let mut state = self.state.lock();
        let failures = Arc::make_mut(&mut state.failures).entry(cluster.clone()).or_default();
        if failures.insert(key.clone(), why.to_owned()).as_deref() == Some(why) {
            return;
        }
        tracing::warn!(member = %cluster, object = %key, "{why}");
        if let Some(reference) = reference.filter(|_| state.events.len() < WAITING) {
            let event = Event {
                type_: EventType::Warning,
                reason: "PropagationFailed".to_owned(),
                note: Some(format!("{cluster}: {why}").chars().take(1000).collect()),
                action: "Propagate".to_owned(),
                secondary: None,
            };
            state.events.push_back((reference, event));
        }
        state.dirty.extend(policy);
        if is_export(key) {
            state.exports.insert(key.clone());
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Takes note that an object is as it should be in a cluster, or is left alone there for a reason.
    pub fn settle(&self, engine: &Engine, cluster: &ClusterName, key: &ObjectKey, why: Option<String>) {
        let failed = {
            let mut state = self.state.lock();
            let known = state.failures.get(cluster).is_some_and(|failures| failures.contains_key(key));
            let failures = known.then(|| Arc::make_mut(&mut state.failures).get_mut(cluster)).flatten();
            let failed = failures.is_some_and(|failures| failures.remove(key).is_some());
            if is_export(key) && state.exports.insert(key.clone()) {
                self.wake.notify_one();
            }
            failed
        };
        if failed {
            tracing::info!(member = %cluster, object = %key, "it is well again{}", why.map(|why| format!(": {why}")).unwrap_or_default());
            self.touch(engine.look(|world, _| world.assignment(key)?.policy.clone()));
        }
    }

    /// What could not be written to a cluster.
    pub fn failures(&self, cluster: &ClusterName) -> usize {
        self.state.lock().failures.get(cluster).map_or(0, |failures| failures.len())
    }

    /// Forgets a cluster.
    pub fn forget(&self, cluster: &ClusterName) {
        Arc::make_mut(&mut self.state.lock().failures).remove(cluster);
    }

    /// Takes note that the status of policies may have changed.
    pub fn touch(&self, policies: impl IntoIterator<Item = PolicyKey>) {
        let mut state = self.state.lock();
        let before = state.dirty.len();
        state.dirty.extend(policies);
        if state.dirty.len() > before {
            self.wake.notify_one();
        }
    }

    /// Takes note that the status of any policy may have changed.
    pub fn touch_all(&self) {
        self.state.lock().all = true;
        self.wake.notify_one();
    }

    /// Takes note that more may be known: what could not be told before is looked at again.
    pub fn look_again(&self) {
        let postponed = std::mem::take(&mut self.state.lock().postponed);
        self.touch(postponed);
    }

    /// Takes note of the kinds that policies speak of and the hub does not serve.
    pub fn set_missing_kinds(&self, missing: &BTreeSet<GroupKind>) {
        let changed = {
            let mut state = self.state.lock();
            let changed = state.missing != *missing;
            state.missing.clone_from(missing);
            changed
        };
        if changed {
            self.touch_all();
        }
    }

    /// Takes what has to be told. Nobody holds this lock and asks for the world's.
    fn take(&self, engine: &Engine) -> Due {
        let policies: Vec<_> = engine.view.read().propagations().keys().cloned().collect();
        let mut state = self.state.lock();
        let mut dirty = std::mem::take(&mut state.dirty);
        if std::mem::take(&mut state.all) {
            dirty.extend(policies);
        }
        Due {
            dirty,
            exports: std::mem::take(&mut state.exports),
            events: std::mem::take(&mut state.events),
            failures: state.failures.clone(),
            missing: state.missing.clone(),
        }
    }
}

/// What has to be told.
struct Due {
    dirty: BTreeSet<PolicyKey>,
    exports: BTreeSet<ObjectKey>,
    events: VecDeque<(ObjectReference, Event)>,
    failures: Arc<Failures>,
    missing: BTreeSet<GroupKind>,
}

/// Writes what changed, while this replica leads.
pub async fn run(engine: Arc<Engine>) {
    let reporter = Reporter { controller: "tombolo-hub".to_owned(), instance: None };
    let recorder = Recorder::new(engine.writer.clone(), reporter);
    loop {
        engine.report.wake.notified().await;
        tokio::time::sleep(TOGETHER).await;
        if !engine.claim.holds() || !engine.view.read().is_synced() {
            // Whoever comes to lead looks at everything.
            continue;
        }
        let Due { dirty, exports, events, failures, missing } = engine.report.take(&engine);
        let gone = unwell(&engine);
        let known = &Known { engine: &engine, failures, missing, gone };
        stream::iter(dirty).for_each_concurrent(AT_ONCE, |policy| known.tell(policy)).await;
        stream::iter(exports).for_each_concurrent(AT_ONCE, |export| known.tell_export(export)).await;
        for (reference, event) in events {
            let published = tokio::time::timeout(PATIENCE, recorder.publish(&event, &reference)).await;
            if let Ok(Err(_)) | Err(_) = &published {
                tracing::debug!("failed to publish an event, dropped: {published:?}");
            }
        }
    }
}

/// What is known while a round of reports is written.
struct Known<'a> {
    engine: &'a Arc<Engine>,
    failures: Arc<Failures>,
    missing: BTreeSet<GroupKind>,
    /// Members that are not well.
    gone: BTreeSet<ClusterName>,
}

// === impl Known ===

impl Known<'_> {
    /// Says on a policy what became of it.
    async fn tell(&self, policy: PolicyKey) {
        let Self { engine, failures, missing, gone } = self;
        let outcome = engine.look(|world, view| {
            let known = world.can_tell(view, &policy, missing, gone);
            known.then(|| world.outcome(view, &policy, failures, missing))
        });
        let Some(outcome) = outcome else {
            engine.report.state.lock().postponed.insert(policy);
            return;
        };
        let written = tokio::time::timeout(PATIENCE, write(engine, &policy, &outcome)).await;
        if let Ok(Err(_)) | Err(_) = &written {
            tracing::debug!(%policy, "failed to write a policy's status, trying again: {written:?}");
            engine.report.touch([policy]);
        }
    }

    /// Says on a ServiceExport what became of its copies.
    async fn tell_export(&self, export: ObjectKey) {
        let Self { engine, failures, missing, gone } = self;
        let (known, outcome) = engine.look(|world, view| {
            let policy = world.assignment(&export).and_then(|assignment| assignment.policy.as_ref());
            let known = policy.is_none_or(|policy| world.can_tell(view, policy, missing, gone));
            (known, world.outcome_of(view, &export, failures))
        });
        if !known {
            engine.report.state.lock().exports.insert(export);
            return;
        }
        let written = tokio::time::timeout(PATIENCE, write_export(engine, &export, outcome.as_ref())).await;
        if let Ok(Err(_)) | Err(_) = &written {
            tracing::debug!(%export, "failed to write a ServiceExport's status, trying again: {written:?}");
            engine.report.state.lock().exports.insert(export);
            engine.report.wake.notify_one();
        }
    }
}

/// The members that are known not to be well: nothing is to be expected of them.
fn unwell(engine: &Engine) -> BTreeSet<ClusterName> {
    let unwell = |health: Reachability| !matches!(health, Reachability::Ready(_));
    let links = engine.links().into_iter();
    links.filter(|(_, link)| link.health.confirmed().is_some_and(unwell)).map(|(name, _)| name).collect()
}

async fn write(engine: &Engine, policy: &PolicyKey, outcome: &Outcome) -> kube::Result<()> {
    match &policy.namespace {
        Some(namespace) => {
            let api: Api<PropagationPolicy> = Api::namespaced(engine.writer.clone(), namespace);
            write_to(&api, &policy.name, outcome, |policy| policy.status.clone()).await
        }
        None => {
            let api: Api<ClusterPropagationPolicy> = Api::all(engine.writer.clone());
            write_to(&api, &policy.name, outcome, |policy| policy.status.clone()).await
        }
    }
}

async fn write_to<K>(
    api: &Api<K>,
    name: &str,
    outcome: &Outcome,
    status: impl Fn(&K) -> Option<PolicyStatus>,
) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let Some(policy) = api.get_opt(name).await? else { return Ok(()) };
    let before = status(&policy).unwrap_or_default();
    let generation = policy.meta().generation;
    let now = condition(&before.conditions, outcome, generation);
    let after = PolicyStatus {
        observed_generation: generation,
        matched: Some(outcome.matched),
        clusters: outcome.clusters.clone(),
        conditions: vec![now],
    };
    if after == before {
        return Ok(());
    }
    let patch = json!({ "status": after, "metadata": { "uid": policy.meta().uid } });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// What a condition says of an outcome; since when, if that is no news.
fn condition(before: &[Condition], outcome: &Outcome, generation: Option<i64>) -> Condition {
    let status = if outcome.propagated { "True" } else { "False" };
    let old = before.iter().find(|old| old.type_ == condition::PROPAGATED && old.status == status);
    let now = || Time(Timestamp::from_second(clock::seconds()).unwrap_or_default());
    Condition {
        type_: condition::PROPAGATED.to_owned(),
        status: status.to_owned(),
        reason: outcome.reason.to_owned(),
        message: outcome.message.clone(),
        observed_generation: generation,
        last_transition_time: old.map_or_else(now, |old| old.last_transition_time.clone()),
    }
}

/// Says on a ServiceExport what became of its copies. Conditions of others stay.
async fn write_export(engine: &Engine, key: &ObjectKey, outcome: Option<&Outcome>) -> kube::Result<()> {
    let Some(outcome) = outcome else { return Ok(()) };
    let api: Api<ServiceExport> =
        Api::namespaced_with(engine.writer.clone(), &key.namespace, &mcs::Version::default());
    let Some(export) = api.get_opt(&key.name).await? else { return Ok(()) };
    let before = export.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let mut after = before.clone();
    after.retain(|other| other.type_ != condition::PROPAGATED);
    after.push(condition(&before, outcome, export.metadata.generation));
    after.sort_by(|a, b| a.type_.cmp(&b.type_));
    if after == before {
        return Ok(());
    }
    let metadata = json!({ "resourceVersion": export.metadata.resource_version });
    let patch = json!({ "status": { "conditions": after }, "metadata": metadata });
    api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn is_export(key: &ObjectKey) -> bool {
    &*key.kind.group == mcs::GROUP && &*key.kind.kind == "ServiceExport"
}

fn reference(key: &ObjectKey, api_version: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(key.kind.kind.to_string()),
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
