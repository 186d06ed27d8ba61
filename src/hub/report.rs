//! What became of everything: failures by cluster and object, told in policies' status and in events.
//!
//! Whoever reconciles calls [`Report::fail`] and [`Report::settle`]; [`run`] writes what changed, a little later and together.
//! Nothing is written that says what was said before.

mod retries;
mod services;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use kube_runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, error::Elapsed},
};

use self::{retries::Retries, services::Told};
use super::{
    engine::{Engine, exchanged},
    link::Reachability,
};
use crate::{
    api::{
        ClusterPropagationPolicy, PropagationPolicy,
        names::{condition, event},
        propagation::PolicyStatus,
    },
    decide::{
        condition::Verdict,
        copy::ObjectKey,
        exchange::export_kind,
        ids::{ClusterName, ServiceKey},
        policies::PolicyKey,
        select::GroupKind,
        view::View,
        world::{Failures, Outcome, Reason, Unseen},
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
    /// Services of which more may be told on the hub.
    services: BTreeSet<ServiceKey>,
    /// What could not be written is tried again, later each time.
    failed: Retries<PolicyKey>,
    failed_services: Retries<ServiceKey>,
    /// What was told of them last.
    told: BTreeMap<ServiceKey, Told>,
    /// Policies of which nothing can be told yet.
    postponed: BTreeSet<PolicyKey>,
    all: bool,
    /// Kinds of which the hub sees no templates.
    unseen: Unseen,
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
        let (policies, reference, untold) = engine.look(|world, _| {
            let policies = world.policies_of(key);
            let template = world.template(key).zip(world.kind(&key.kind));
            let reference = template.map(|(template, kind)| reference(key, &kind.api_version, &template.uid));
            (policies, reference, world.is_told_by_none(key))
        });
        let mut state = self.state.lock();
        let failures = Arc::make_mut(&mut state.failures).entry(cluster.clone()).or_default();
        if failures.insert(key.clone(), why.to_owned()).as_deref() == Some(why) {
            return;
        }
        tracing::warn!(member = %cluster, object = %key, "{why}");
        state.dirty.extend(policies);
        state.services.extend(exchanged(key));
        drop(state);
        if untold {
            // Its Cluster tells of it.
            engine.members_changed.notify_one();
        }
        if let Some(reference) = reference {
            self.tell(
                reference,
                Event {
                    type_: EventType::Warning,
                    reason: event::PROPAGATION_FAILED.to_owned(),
                    note: Some(format!("{cluster}: {why}").chars().take(1000).collect()),
                    action: "Propagate".to_owned(),
                    secondary: None,
                },
            );
        }
        self.wake.notify_one();
    }

    /// What has lost its template and could not be removed from a cluster, in words; none if there is no such.
    pub fn orphans(&self, engine: &Engine, cluster: &ClusterName) -> Option<String> {
        let failures = self.state.lock().failures.clone();
        let (count, first) = engine.look(|world, _| world.orphans(failures.get(cluster)?))?;
        Some(format!("{count} without a template could not be removed. The first is {first}"))
    }

    /// What follows its template though no policy selects it any more, and could not be written to a cluster, in words; none if there is no
    /// such.
    pub fn stale(&self, engine: &Engine, cluster: &ClusterName) -> Option<String> {
        let failures = self.state.lock().failures.clone();
        engine.look(|world, _| {
            let untold = |key: &ObjectKey| world.is_told_by_none(key) && !world.is_orphan(key);
            let mut stale = failures.get(cluster)?.iter().filter(|(key, _)| untold(key));
            let (key, why) = stale.next()?;
            let count = 1 + stale.count();
            Some(format!(
                "{count} that no policy selects any more could not be written. The first is {key}: {why}"
            ))
        })
    }

    /// Takes note that more may be told of services that the hub has an export or import of.
    pub fn touch_services(&self, services: impl IntoIterator<Item = ServiceKey>) {
        let mut state = self.state.lock();
        let before = state.services.len();
        state.services.extend(services);
        if state.services.len() > before {
            self.wake.notify_one();
        }
    }

    /// Forgets what was told of a service: its export or import on the hub is another.
    pub fn forget_told(&self, key: &ServiceKey) {
        self.state.lock().told.remove(key);
    }

    /// Takes note that an object is as it should be in a cluster, or is left alone there for a reason.
    pub fn settle(&self, engine: &Engine, cluster: &ClusterName, key: &ObjectKey, why: Option<String>) {
        let failed = {
            let mut state = self.state.lock();
            let known = state.failures.get(cluster).is_some_and(|failures| failures.contains_key(key));
            let failures = known.then(|| Arc::make_mut(&mut state.failures).get_mut(cluster)).flatten();
            let failed = failures.is_some_and(|failures| failures.remove(key).is_some());
            if let Some(service) = exchanged(key).filter(|_| key.kind == export_kind())
                && state.services.insert(service)
            {
                self.wake.notify_one();
            }
            failed
        };
        if failed {
            tracing::info!(member = %cluster, object = %key, "it is well again{}", why.map(|why| format!(": {why}")).unwrap_or_default());
            let (policies, untold) =
                engine.look(|world, _| (world.policies_of(key), world.is_told_by_none(key)));
            self.touch(policies);
            if untold {
                engine.members_changed.notify_one();
            }
        }
    }

    /// Has an event told; where too many wait it is dropped.
    pub fn tell(&self, about: ObjectReference, event: Event) {
        let mut state = self.state.lock();
        if state.events.len() < WAITING {
            state.events.push_back((about, event));
            self.wake.notify_one();
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
        self.change_unseen(|unseen| {
            unseen.retain(|_, why| *why != Reason::NotServed);
            unseen.extend(missing.iter().map(|kind| (kind.clone(), Reason::NotServed)));
        });
    }

    /// Takes note whether the hub may read a kind that it watches.
    pub fn set_forbidden(&self, kind: &GroupKind, forbidden: bool) {
        self.change_unseen(|unseen| {
            if forbidden {
                unseen.insert(kind.clone(), Reason::Forbidden);
            } else {
                unseen.remove(kind);
            }
        });
    }

    fn change_unseen(&self, change: impl FnOnce(&mut Unseen)) {
        let changed = {
            let mut state = self.state.lock();
            let before = state.unseen.clone();
            change(&mut state.unseen);
            state.unseen != before
        };
        if changed {
            self.touch_all();
        }
    }

    /// When something is to be tried again.
    fn due(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.failed.next().into_iter().chain(state.failed_services.next()).min()
    }

    /// Tries nothing again.
    fn give_up(&self) {
        let mut state = self.state.lock();
        state.failed.clear();
        state.failed_services.clear();
    }

    /// Takes what has to be told. Nobody holds this lock and asks for the world's.
    fn take(&self, engine: &Engine) -> Due {
        let all = std::mem::take(&mut self.state.lock().all);
        let (policies, services) = if all { everything(&engine.view.read()) } else { Default::default() };
        let mut state = self.state.lock();
        if all {
            state.told.clear();
        }
        state.services.extend(services);
        let (mut dirty, services) = (std::mem::take(&mut state.dirty), std::mem::take(&mut state.services));
        dirty.extend(policies);
        let now = Instant::now();
        Due {
            dirty: state.failed.take(dirty, now),
            services: state.failed_services.take(services, now),
            events: std::mem::take(&mut state.events),
            failures: state.failures.clone(),
            unseen: state.unseen.clone(),
        }
    }
}

/// All policies, and all services that the hub has an export or import of.
fn everything(view: &View) -> (Vec<PolicyKey>, BTreeSet<ServiceKey>) {
    let services = view.exports().keys().chain(view.imports().keys());
    (view.propagations().keys().cloned().collect(), services.cloned().collect())
}

/// What has to be told.
struct Due {
    dirty: BTreeSet<PolicyKey>,
    services: BTreeSet<ServiceKey>,
    events: VecDeque<(ObjectReference, Event)>,
    failures: Arc<Failures>,
    unseen: Unseen,
}

/// Writes what changed, while this replica leads.
pub async fn run(engine: Arc<Engine>) {
    let reporter = Reporter { controller: "tombolo-hub".to_owned(), instance: None };
    let recorder = Recorder::new(engine.writer.clone(), reporter);
    loop {
        let due = engine.report.due();
        tokio::select! {
            () = engine.report.wake.notified() => tokio::time::sleep(TOGETHER).await,
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
        if !engine.claim.holds() || !engine.view.read().is_synced() {
            // Whoever comes to lead looks at everything.
            engine.report.give_up();
            continue;
        }
        let Due { dirty, services, events, failures, unseen } = engine.report.take(&engine);
        let gone = unwell(&engine);
        let known = &Known { engine: &engine, failures, unseen, gone };
        stream::iter(dirty).for_each_concurrent(AT_ONCE, |policy| known.tell(policy)).await;
        stream::iter(services).for_each_concurrent(AT_ONCE, |service| known.tell_service(service)).await;
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
    unseen: Unseen,
    /// Members that are not well.
    gone: BTreeSet<ClusterName>,
}

// === impl Known ===

impl Known<'_> {
    /// Says on a policy what became of it.
    async fn tell(&self, policy: PolicyKey) {
        let Self { engine, failures, unseen, gone } = self;
        if !engine.look(|world, view| world.can_tell(view, &policy, unseen, gone)) {
            engine.report.state.lock().postponed.insert(policy);
            return;
        }
        let (outcome, certain) = engine.outcome(&policy, failures, unseen);
        if !certain {
            engine.report.state.lock().postponed.insert(policy.clone());
        }
        let written = tokio::time::timeout(PATIENCE, write(engine, &policy, &outcome, certain)).await;
        let mut state = engine.report.state.lock();
        match failure(written) {
            None => {
                if state.failed.settle(&policy) {
                    tracing::info!(%policy, "its status can be written again");
                }
            }
            Some(why) if state.failed.fail(policy.clone(), Instant::now()) => {
                tracing::warn!(%policy, "failed to write a policy's status, trying on ever more seldom: {why}");
            }
            Some(why) => {
                tracing::debug!(%policy, "failed to write a policy's status, trying again: {why}");
            }
        }
    }
}

/// Why a status could not be written, in words.
fn failure(written: Result<kube::Result<()>, Elapsed>) -> Option<String> {
    match written {
        Ok(Ok(())) => None,
        // It was just read.
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Some(format!(
            "{}; if it is there, its CustomResourceDefinition lacks the subresource status: install Tombolo's own, as \
             `tombolo crds` prints it",
            status.message
        )),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("it took longer than {PATIENCE:?}")),
    }
}

/// The members that are known not to be well: nothing is to be expected of them.
fn unwell(engine: &Engine) -> BTreeSet<ClusterName> {
    let unwell = |health: Reachability| !matches!(health, Reachability::Ready(_));
    let links = engine.links().into_iter();
    links.filter(|(_, link)| link.health.confirmed().is_some_and(unwell)).map(|(name, _)| name).collect()
}

/// What is not certain takes back nothing that was said before.
async fn write(engine: &Engine, policy: &PolicyKey, outcome: &Outcome, certain: bool) -> kube::Result<()> {
    match &policy.namespace {
        Some(namespace) => {
            let api: Api<PropagationPolicy> = Api::namespaced(engine.writer.clone(), namespace);
            write_to(&api, &policy.name, (outcome, certain), |policy| policy.status.clone()).await
        }
        None => {
            let api: Api<ClusterPropagationPolicy> = Api::all(engine.writer.clone());
            write_to(&api, &policy.name, (outcome, certain), |policy| policy.status.clone()).await
        }
    }
}

async fn write_to<K>(
    api: &Api<K>,
    name: &str,
    (outcome, certain): (&Outcome, bool),
    status: impl Fn(&K) -> Option<PolicyStatus>,
) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let Some(policy) = api.get_opt(name).await? else { return Ok(()) };
    let before = status(&policy).unwrap_or_default();
    let generation = policy.meta().generation;
    let propagated = Verdict {
        condition: condition::PROPAGATED,
        met: outcome.propagated,
        reason: outcome.reason.into(),
        message: outcome.message.clone(),
    };
    let now = propagated.dated(&before.conditions, generation, clock::now());
    let after = PolicyStatus {
        observed_generation: generation,
        matched: Some(outcome.matched),
        clusters: outcome.clusters.clone(),
        conditions: vec![now],
    };
    let said =
        before.observed_generation == generation && before.conditions.iter().any(|it| it.status == "True");
    if after == before || (said && !certain) {
        return Ok(());
    }
    let patch = json!({ "status": after, "metadata": { "uid": policy.meta().uid } });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
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
