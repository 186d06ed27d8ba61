//! Leader election: replicas compete for one Lease, and who holds it has a [`Claim`] to write.
//!
//! [`elect`] takes part until it is told to stop. The invariant: a claim is over before another replica can have one, whatever hangs,
//! stops or is late; no clock but this process's own is trusted for that. The rules are in [`decide::lease`](crate::decide::lease).

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{Api, Config, api::PostParams, core::ObjectMeta};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    client::client,
    clock,
    trouble::{Trouble, trouble},
};
use crate::decide::lease::{self, DURATION, LeaseView, RENEW_DEADLINE, RETRY, Record, Step, decide};

/// Flags of leader election.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Compete with other replicas for a Lease and write only while holding it; `false` only where there is one replica.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// The Lease that replicas compete for, in Tombolo's own namespace.
    #[arg(long, value_name = "NAME", default_value = "tombolo-hub")]
    pub lease_name: String,
    /// What this replica calls itself in the Lease, different for each start; without it the host's name with a random number.
    #[arg(long, value_name = "NAME")]
    pub lease_identity: Option<String>,
}

/// The right to write, for as long as it holds. Clones are one claim.
#[derive(Clone, Debug)]
pub struct Claim(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The end of the claim on [`clock::monotonic`], in nanoseconds.
    until: AtomicU64,
    changes: watch::Sender<bool>,
}

/// One replica that takes part.
struct Candidate<'a> {
    config: &'a Config,
    namespace: &'a str,
    name: &'a str,
    me: String,
    claim: &'a Claim,
    leases: Api<Lease>,
    /// The Lease as last read or written, if it is there.
    lease: Option<Lease>,
    /// Whether that is the newest there is, as far as we know.
    current: bool,
    view: Option<LeaseView>,
    complaint: String,
}

/// Takes part in the election until told to stop, and releases the Lease on the way out. It makes a client of its own, so that nothing
/// else stalls renewals. Whoever writes under the claim should be done before this is told to stop: another may lead
/// a moment later.
pub async fn elect(
    config: &Config,
    namespace: &str,
    args: &Args,
    claim: &Claim,
    stop: CancellationToken,
) -> Result<()> {
    if !args.leader_elect {
        claim.extend(Duration::MAX);
        stop.cancelled().await;
        claim.give_up();
        return Ok(());
    }
    let mut candidate = Candidate::new(config, namespace, args, claim)?;
    tracing::info!(lease = args.lease_name, identity = candidate.me, "taking part in the election");
    tokio::select! {
        () = candidate.take_part(&stop) => {}
        // Even while a call hangs, the end of the claim is told when it comes.
        () = claim.tell() => {}
    }
    candidate.release().await;
    Ok(())
}

// === impl Claim ===

impl Default for Claim {
    /// One that does not hold, until an election is won.
    fn default() -> Self {
        Self(Arc::new(Shared { until: AtomicU64::new(0), changes: watch::Sender::new(false) }))
    }
}

impl Claim {
    /// One that always holds, for tests and for what has no replicas.
    pub fn always() -> Self {
        let this = Self::default();
        this.extend(Duration::MAX);
        this
    }

    /// Whether we may write now.
    pub fn holds(&self) -> bool {
        self.left().is_some()
    }

    /// Tells when it begins or ends to hold. What it says may be late by a moment: whoever writes asks [`Claim::holds`].
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.changes.subscribe()
    }

    /// Waits until it does not hold.
    pub async fn lost(&self) {
        let mut changes = self.changes();
        while let Some(left) = self.left() {
            tokio::select! {
                () = tokio::time::sleep(left) => {}
                _ = changes.changed() => {}
            }
        }
    }

    /// How long it holds still.
    fn left(&self) -> Option<Duration> {
        let until = Duration::from_nanos(self.0.until.load(Ordering::Acquire));
        until.checked_sub(clock::monotonic()).filter(|left| !left.is_zero())
    }

    /// Lets it hold until then, on [`clock::monotonic`].
    fn extend(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        let before = Duration::from_nanos(self.0.until.swap(until, Ordering::AcqRel));
        if before <= clock::monotonic() {
            // It was over, and maybe nobody was told yet: what was left undone meanwhile is looked at again only if it begins anew.
            self.say(false);
        }
        self.publish();
    }

    /// Ends it, whatever is left of it.
    pub(super) fn give_up(&self) {
        self.extend(Duration::ZERO);
    }

    fn publish(&self) {
        self.say(self.holds());
    }

    fn say(&self, holds: bool) {
        self.0.changes.send_if_modified(|told| std::mem::replace(told, holds) != holds);
    }

    /// Tells its end whenever that comes; never returns.
    async fn tell(&self) {
        let mut changes = self.changes();
        loop {
            self.lost().await;
            self.publish();
            // The sender is ours, so there is always a next change to wait for.
            let _ = changes.wait_for(|holds| *holds).await;
        }
    }
}

// === impl Candidate ===

impl<'a> Candidate<'a> {
    fn new(config: &'a Config, namespace: &'a str, args: &'a Args, claim: &'a Claim) -> Result<Self> {
        Ok(Self {
            leases: Api::namespaced(client(config, None)?, namespace),
            config,
            namespace,
            name: &args.lease_name,
            me: args.lease_identity.clone().unwrap_or_else(identity),
            claim,
            lease: None,
            current: false,
            view: None,
            complaint: String::new(),
        })
    }

    /// Looks, steps and waits until told to stop. A call that is under way is finished first: cut off, it might take the Lease later.
    async fn take_part(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let pause = match self.round().await {
                Ok(Step::Wait(left)) => left.min(jittered(RETRY / 2)),
                Ok(Step::Acquire | Step::Renew) => RETRY,
                Err(e) => {
                    self.failed(&e);
                    jittered(RETRY / 2)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One look, unless our own last write is the newest, and one step.
    async fn round(&mut self) -> Result<Step, Failure> {
        if !self.current {
            let found = within(self.leases.get_opt(self.name)).await?;
            self.saw(found);
        }
        let step = decide(self.view.as_ref(), &self.me, clock::monotonic());
        if !matches!(step, Step::Wait(_)) {
            let before = self.view.as_ref().map(|view| &view.record);
            let record = Record::taken(before, &self.me, DURATION, clock::microseconds());
            self.write(&record).await?;
        }
        Ok(step)
    }

    /// Writes the Lease unless somebody else has written since we looked; a write that succeeded makes a claim, counted from before it.
    async fn write(&mut self, record: &Record) -> Result<(), Failure> {
        let sent = clock::monotonic();
        self.current = false;
        let post = PostParams::default();
        let lease = Lease { spec: Some(spec(record)), ..self.lease.clone().unwrap_or_else(|| self.blank()) };
        let written = match self.lease {
            Some(_) => within(self.leases.replace(self.name, &post, &lease)).await?,
            None => within(self.leases.create(&post, &lease)).await?,
        };
        let before = self.claim.holds();
        self.saw(Some(written));
        if record.holder == self.me {
            self.claim.extend(sent + lease::claim(record.duration));
            self.current = true;
            self.complaint.clear();
            if !before {
                tracing::info!(lease = self.name, identity = self.me, "leading");
            }
        }
        Ok(())
    }

    /// Takes note of the Lease. One that was deleted binds us as long as it would have if it were still there: its holder may not know yet.
    fn saw(&mut self, lease: Option<Lease>) {
        if let Some(lease) = &lease {
            let record = record(lease);
            if record.holder != self.me {
                self.claim.give_up();
                if self.view.as_ref().is_none_or(|view| view.record.holder != record.holder) {
                    tracing::info!(lease = self.name, holder = record.holder, "not leading");
                }
            }
            self.view = Some(LeaseView::see(self.view.take(), record, clock::monotonic()));
        }
        self.lease = lease;
    }

    fn failed(&mut self, failure: &Failure) {
        self.current = false;
        if matches!(failure, Failure::Late) {
            // The connection may be half open; another one need not be.
            match client(self.config, None) {
                Ok(client) => self.leases = Api::namespaced(client, self.namespace),
                Err(e) => tracing::warn!("failed to set up another client: {e:#}"),
            }
        }
        let complaint = failure.explain(self.namespace, self.name);
        match failure {
            Failure::Refused(e) if trouble(e) == Trouble::Conflict => tracing::debug!("{complaint}"),
            _ if complaint != self.complaint => {
                tracing::warn!(leading = self.claim.holds(), "{complaint}");
                self.complaint = complaint;
            }
            _ => {}
        }
    }

    /// Lets the Lease go if it is ours, so that others need not wait until it is over.
    async fn release(&mut self) {
        self.claim.give_up();
        for _ in 0..2 {
            let released = match &self.view {
                Some(view) if view.record.holder == self.me => view.record.released(clock::microseconds()),
                _ => return,
            };
            match self.write(&released).await {
                Ok(()) => {
                    tracing::info!(lease = self.name, "released the Lease");
                    return;
                }
                Err(e) => {
                    tracing::debug!("failed to release the Lease: {}", e.explain(self.namespace, self.name));
                }
            }
            match within(self.leases.get_opt(self.name)).await {
                Ok(Some(found)) => self.saw(Some(found)),
                _ => break,
            }
        }
        tracing::warn!(lease = self.name, "did not release the Lease: others wait until it is over");
    }

    fn blank(&self) -> Lease {
        let metadata = ObjectMeta { name: Some(self.name.to_owned()), ..ObjectMeta::default() };
        Lease { metadata, ..Lease::default() }
    }
}

/// Why a call failed.
#[derive(Debug)]
enum Failure {
    /// No answer in time.
    Late,
    /// An answer that is none, or no connection.
    Refused(Box<kube::Error>),
}

// === impl Failure ===

impl Failure {
    fn explain(&self, namespace: &str, lease: &str) -> String {
        let error = match self {
            Self::Late => {
                let allowed = RENEW_DEADLINE / 2;
                return format!(
                    "failed to compete for Lease {namespace}/{lease}: no answer within {allowed:?}"
                );
            }
            Self::Refused(error) => error,
        };
        match (trouble(error), &**error) {
            (Trouble::NotFound, kube::Error::Api(status)) if status.message.starts_with("namespaces ") => {
                format!(
                    "waiting for namespace {namespace}, which does not exist: the Lease {lease} that makes a leader belongs there; create it, or name another with --namespace"
                )
            }
            (Trouble::Forbidden, kube::Error::Api(status)) => format!(
                "failed to compete for Lease {namespace}/{lease}: {}; allow get, create and update of leases in coordination.k8s.io",
                status.message
            ),
            (_, error) => format!("failed to compete for Lease {namespace}/{lease}: {error}"),
        }
    }
}

/// One call, under its deadline.
async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(RENEW_DEADLINE / 2, call).await {
        Ok(answer) => answer.map_err(|e| Failure::Refused(Box::new(e))),
        Err(_) => Err(Failure::Late),
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let micros = |time: Option<MicroTime>| time.map_or(0, |time| time.0.as_microsecond());
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
        acquired: micros(spec.acquire_time),
        renewed: micros(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn spec(record: &Record) -> LeaseSpec {
    let time = |micros| Timestamp::from_microsecond(micros).ok().map(MicroTime);
    LeaseSpec {
        holder_identity: Some(record.holder.clone()),
        lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
        acquire_time: time(record.acquired),
        renew_time: time(record.renewed),
        lease_transitions: Some(record.transitions),
        ..LeaseSpec::default()
    }
}

/// A name that no other process has or had.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "tombolo".to_owned());
    format!("{}_{:016x}", host.trim(), chance())
}

/// Between half of it and all: replicas that started together do not stay in step.
fn jittered(pause: Duration) -> Duration {
    pause / 2 + pause / 2 * u32::from(chance() as u16) / u32::from(u16::MAX)
}

fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
