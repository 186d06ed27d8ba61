//! One member that is not well: the others do not notice, and it catches up by itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::WatchParams, core::WatchEvent};
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    audit::Mark,
    bed::Bed,
    fleet,
    process::Identity,
    proxy::{Mode, Proxy},
    wait::until,
};

use super::ground::{
    Contents, PATIENCE, condition, copies, create_namespace, hub, maps, nothing, place, put, until_says,
};

/// The member that is not well.
const BAD: &str = "member3";
/// Objects that are sent one after the other in a round.
const A_ROUND: usize = 100;
/// Rounds of each kind: all count.
const ROUNDS: usize = 3;
/// How many times as long all but the slowest hundredth of a round may take.
const ALLOWED: f64 = 1.5;
/// How often that is measured before it is believed that it takes longer: who waits for a bad member does so each time, a machine that
/// has something else to do does not.
const TAKES: usize = 3;

/// What is wrong with a member.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Hangs,
    Fails,
    IsSlow,
}

struct Ground {
    bed: Arc<Bed>,
    proxy: Proxy,
    fault: Fault,
    count: usize,
}

pub(crate) async fn a_member_that_hangs_holds_nobody_up_and_converges_when_it_returns(
    bed: Arc<Bed>,
) -> Result<()> {
    holds_nobody_up(bed, Fault::Hangs, Some(("Unknown", "unreachable"))).await
}

pub(crate) async fn a_member_that_answers_500_holds_nobody_up_and_converges_when_it_returns(
    bed: Arc<Bed>,
) -> Result<()> {
    holds_nobody_up(bed, Fault::Fails, Some(("False", "not-ready"))).await
}

pub(crate) async fn a_member_that_is_slow_holds_nobody_up_and_converges_when_it_returns(
    bed: Arc<Bed>,
) -> Result<()> {
    // Its probes take four seconds of the five that they may: it is slow, but well.
    holds_nobody_up(bed, Fault::IsSlow, None).await
}

async fn holds_nobody_up(bed: Arc<Bed>, fault: Fault, said: Option<(&str, &str)>) -> Result<()> {
    let _hub = hub(&bed, &[]).await?;
    let proxy = Proxy::start(bed.member(3))?;
    for member in &bed.members {
        let more =
            if member.name == BAD { json!({ "spec": { "apiEndpoint": proxy.url } }) } else { nothing() };
        fleet::register(&bed, member, &more).await?;
    }
    for member in &bed.members {
        fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    put(&bed.hub.client, "shop", "first", "all", "1").await?;
    for member in &bed.members {
        until_says(&member.client, "shop", "first", "1").await?;
    }
    let mut ground = Ground { bed, proxy, fault, count: 0 };
    ground.round().await?;
    let mut ratios = Vec::new();
    while !is_allowed(&ratios)? {
        ratios.push(ground.in_turn().await?);
    }
    let mut ratios = Vec::new();
    while !is_allowed(&ratios)? {
        ratios.push(ground.stays_down(said, 1 + ratios.len()).await?);
    }
    Ok(())
}

/// Whether the last of what was measured is as it is to be; fails if none was, and there are enough.
fn is_allowed(ratios: &[f64]) -> Result<bool> {
    let well = ratios.last().is_some_and(|ratio| *ratio <= ALLOWED);
    ensure!(well || ratios.len() < TAKES, "healthy members wait for a bad one: {ratios:.2?} times as long");
    Ok(well)
}

// === impl Ground ===

impl Ground {
    fn hub(&self) -> &Client {
        &self.bed.hub.client
    }

    fn spoil(&self) -> Result<()> {
        match self.fault {
            Fault::Hangs => self.server()?.signal(Signal::STOP),
            Fault::Fails => self.proxy.set(Mode::Fail),
            Fault::IsSlow => self.proxy.set(Mode::Delay(Duration::from_secs(2))),
        }
        Ok(())
    }

    fn mend(&self) -> Result<()> {
        self.server()?.signal(Signal::CONT);
        self.proxy.set(Mode::Pass);
        Ok(())
    }

    fn server(&self) -> Result<Identity> {
        let pid = self.bed.member(3).pid("kube-apiserver").context("there is an API server")?;
        Identity::of(pid).context("it does not run")
    }

    /// Compares the times that objects take to the healthy members, with and without the bad one, in turn: nobody knows yet that it is bad.
    async fn in_turn(&mut self) -> Result<f64> {
        let (mut well, mut bad) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Whatever the machine does meanwhile meets both alike.
            for is_bad in [round % 2 == 1, round % 2 == 0] {
                if !is_bad {
                    well.push(self.round().await?);
                    continue;
                }
                self.spoil()?;
                let measured = self.round().await;
                self.mend()?;
                bad.push(measured?);
                self.converges().await?;
            }
        }
        Ok(self.ratio("at first", &well, &bad))
    }

    /// How many times as long it takes with the bad member as without.
    fn ratio(&self, when: &str, well: &[Duration], bad: &[Duration]) -> f64 {
        let (without, with) = (middle(well), middle(bad));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        eprintln!(
            "{:?}, {when}: all but the slowest of {A_ROUND} took {without:.1?} without and {with:.1?} with it, {ratio:.2} times: \
             {well:.1?} and {bad:.1?}",
            self.fault
        );
        ratio
    }

    async fn rounds(&mut self) -> Result<Vec<Duration>> {
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            all.push(self.round().await?);
        }
        Ok(all)
    }

    /// Sends objects one after the other, and says how long all but the slowest hundredth took to the healthy members.
    async fn round(&mut self) -> Result<Duration> {
        let mut took = Vec::new();
        for _ in 0..A_ROUND {
            self.count += 1;
            let (hub, name) = (self.hub().clone(), format!("object-{}", self.count));
            let seen = futures::future::try_join(
                seen(&self.bed.member(1).client, &name).await?,
                seen(&self.bed.member(2).client, &name).await?,
            );
            let started = Instant::now();
            put(&hub, "shop", &name, "all", "1").await?;
            tokio::time::timeout(PATIENCE, seen).await.context("it did not arrive")??;
            took.push(started.elapsed());
        }
        took.sort_unstable();
        Ok(took[A_ROUND - 1 - A_ROUND / 100])
    }

    /// Waits until all members have all that is to be there.
    async fn converges(&self) -> Result<()> {
        let wanted = contents(self.hub()).await?;
        for member in &self.bed.members {
            until(&format!("{} has everything", member.name), PATIENCE, async || {
                let there = copies(&member.client, "shop").await?;
                ensure!(there == wanted, "it has {} of {}", there.len(), wanted.len());
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Leaves the member bad until the hub says so, and then for some rounds; then lets it return. Compares the times of these rounds to
    /// those before and after.
    async fn stays_down(&mut self, said: Option<(&str, &str)>, take: usize) -> Result<f64> {
        let mut well = self.rounds().await?;
        self.converges().await?;
        let before = copies(&self.bed.member(3).client, "shop").await?;
        let marks: Vec<(String, Mark)> = super::ground::marks(&self.bed)?;
        self.spoil()?;
        if let Some((truth, taint)) = said {
            until("the hub says that it is not well", PATIENCE, async || {
                let (is, reason, taints) = condition(self.hub(), BAD).await?;
                let key = format!("cluster.karmada.io/{taint}:NoSchedule");
                ensure!(is == truth && taints.contains(&key), "it says {is} {reason}, taints {taints:?}");
                Ok(())
            })
            .await?;
        }
        let outcome = self.rounds().await;
        let doomed = format!("object-{take}");
        put(self.hub(), "shop", "first", "all", &format!("after {take}")).await?;
        maps(self.hub(), "shop").delete(&doomed, &Default::default()).await?;
        self.mend()?;
        let bad = outcome?;
        fleet::until_ready(self.hub(), BAD, "True").await?;
        self.converges().await?;
        until("its taints are gone", PATIENCE, async || {
            let (_, _, taints) = condition(self.hub(), BAD).await?;
            ensure!(taints.is_empty(), "they are {taints:?}");
            Ok(())
        })
        .await?;
        let deleted = super::ground::changes(&self.bed, &marks)?.into_iter();
        let deleted: Vec<_> = deleted.filter(|(_, request)| request.verb == "delete").collect();
        let others: Vec<_> =
            deleted.iter().filter(|(_, request)| request.object_ref.name != doomed).cloned().collect();
        ensure!(others.is_empty(), "something was deleted: {}", super::ground::told(&others));
        ensure!(!before.is_empty() && deleted.len() == 3, "each member lost one: {deleted:?}");
        well.extend(self.rounds().await?);
        Ok(self.ratio("after that was noticed", &well, &bad))
    }
}

/// A future that ends when a member's watch shows an object; the watch is open before it is given back.
async fn seen(member: &Client, name: &str) -> Result<impl Future<Output = Result<()>> + use<>> {
    let (api, name): (Api<ConfigMap>, _) = (maps(member, "shop"), name.to_owned());
    let since =
        api.list_metadata(&kube::api::ListParams::default().limit(1)).await?.metadata.resource_version;
    let watch = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(60);
    let events = api.watch_metadata(&watch, &since.unwrap_or_default()).await?.boxed();
    Ok(async move {
        pin_mut!(events);
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(_) = event? {
                return Ok(());
            }
        }
        anyhow::bail!("the watch of {name} ended")
    })
}

async fn contents(hub: &Client) -> Result<Contents> {
    let all = maps(hub, "shop").list(&kube::api::ListParams::default().labels("group")).await?;
    Ok(all
        .into_iter()
        .map(|map| (map.metadata.name.unwrap_or_default(), map.data.unwrap_or_default()))
        .collect())
}

fn middle(all: &[Duration]) -> Duration {
    let mut all = all.to_vec();
    all.sort_unstable();
    all[all.len() / 2]
}
