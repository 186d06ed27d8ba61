//! One writer among replicas, and clients that do not wait for ever: on real API servers, with processes that freeze and stop.

use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::{StreamExt, pin_mut};
use http::Version;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams, WatchParams},
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
    core::ObjectMeta,
};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tombolo::shell::{
    client::{Fenced, client, is_fenced},
    lease::{Args, Claim, elect},
    trouble::{Trouble, trouble},
};
use tombolo_e2e::{
    bed::{Bed, Spec},
    process::Identity,
    suite, tests,
    tombolo::{Component, binary},
    wait::until,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take from when a leader is told to stop until another has the Lease, by what that says itself.
const HANDOVER: Duration = Duration::from_secs(1);
/// How often one is told to.
const HANDOVERS: usize = 5;
/// How long a leader is frozen: twice what its Lease is good for.
const FROZEN: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    suite::run(
        Spec::api(1).audited(),
        tests![
            a_leader_that_freezes_is_replaced_and_does_not_lead_when_it_wakes_up,
            a_leader_that_is_told_to_stop_hands_over_at_once,
            a_replica_waits_for_its_namespace_and_writes_nothing_once_it_gave_the_lead_away,
            an_api_server_that_hangs_fails_requests_and_ends_the_lead,
            what_a_real_api_server_answers_is_told_apart,
        ],
    )
}

/// A hub beside the bed's own, in an election of its own.
async fn hub(bed: &Bed, name: &str, lease: &str) -> Result<Component> {
    let binary = tokio::task::spawn_blocking(binary).await??;
    let flags = [format!("--lease-name={lease}"), format!("--lease-identity={name}")];
    bed.start_hub(&binary, name, &flags).await
}

async fn leads(hub: &Component) -> Result<bool> {
    let metrics = hub.says("/metrics").await?;
    let line = metrics.lines().find_map(|line| line.strip_prefix("tombolo_leader{role=\"hub\"} "));
    match line.context("no such metric")? {
        "1" => Ok(true),
        "0" => Ok(false),
        other => bail!("tombolo_leader is {other}"),
    }
}

/// Waits until a hub leads, and says how long that took.
async fn lead(hub: &Component, patience: Duration) -> Result<Duration> {
    let started = Instant::now();
    until("it leads", patience, async || {
        ensure!(leads(hub).await?, "it does not lead");
        Ok(())
    })
    .await?;
    Ok(started.elapsed())
}

fn identity(hub: &Component) -> Result<Identity> {
    Identity::of(hub.pid()).context("the hub runs")
}

async fn a_leader_that_freezes_is_replaced_and_does_not_lead_when_it_wakes_up(bed: Arc<Bed>) -> Result<()> {
    let first = hub(&bed, "freezing", "to-freeze").await?;
    lead(&first, PATIENCE).await?;
    let second = hub(&bed, "waiting", "to-freeze").await?;
    ensure!(!leads(&second).await? && leads(&first).await?, "the first leads, and only that");

    let frozen = Instant::now();
    identity(&first)?.signal(Signal::STOP);
    let took = lead(&second, Duration::from_secs(15)).await.context("nobody took over")?;
    eprintln!("a frozen leader was replaced after {took:.1?}");
    tokio::time::sleep(FROZEN.saturating_sub(frozen.elapsed())).await;
    identity(&first)?.signal(Signal::CONT);
    ensure!(!leads(&first).await?, "the first thing it says after it woke up is that it leads");
    let awake = Instant::now();
    while awake.elapsed() < Duration::from_secs(3) {
        ensure!(!leads(&first).await?, "it leads again after {:?}", awake.elapsed());
        ensure!(leads(&second).await?, "the second lost the lead after {:?}", awake.elapsed());
    }
    let leases: Api<Lease> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    let spec = leases.get("to-freeze").await?.spec.context("it says something")?;
    ensure!(spec.holder_identity.as_deref() == Some("waiting"), "the Lease says {spec:?}");
    ensure!(spec.lease_transitions == Some(1), "it changed hands more than once: {spec:?}");
    Ok(())
}

async fn a_leader_that_is_told_to_stop_hands_over_at_once(bed: Arc<Bed>) -> Result<()> {
    let mut leader = hub(&bed, "stopping-0", "to-stop").await?;
    lead(&leader, PATIENCE).await?;
    let leases: Api<Lease> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    let mut all = Vec::new();
    for round in 1..=HANDOVERS {
        let next = hub(&bed, &format!("stopping-{round}"), "to-stop").await?;
        ensure!(!leads(&next).await?, "it leads beside another");
        let (process, told) = (identity(&leader)?, Timestamp::now());
        process.signal(Signal::TERM);
        lead(&next, Duration::from_secs(5)).await.context("the lead was not handed over")?;
        let spec = leases.get("to-stop").await?.spec.context("it says something")?;
        let taken = spec.acquire_time.context("it does not say since when")?.0;
        let took = Duration::try_from(taken.duration_since(told)).context("it was taken before")?;
        let alone = bed.audit("hub").handover("to-stop")?;
        eprintln!(
            "a leader that was told to stop was replaced after {took:.2?}, {alone:.2?} after it let go"
        );
        ensure!(alone <= HANDOVER, "it took {alone:.2?} after it let go");
        all.push(took);
        leader = next;
    }
    // All but the slowest: a machine may stand still once.
    all.sort_unstable();
    ensure!(all[HANDOVERS - 2] <= HANDOVER, "it took {all:.2?}");
    Ok(())
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Takes part in an election from within this process.
fn compete(
    config: &Config,
    namespace: &str,
    lease: &str,
    claim: &Claim,
    stop: &CancellationToken,
) -> JoinHandle<Result<()>> {
    let (config, namespace) = (config.clone(), namespace.to_owned());
    let (claim, stop) = (claim.clone(), stop.clone());
    let args = Args { leader_elect: true, lease_name: lease.to_owned(), lease_identity: None };
    tokio::spawn(async move { elect(&config, &namespace, &args, &claim, stop).await })
}

async fn holds(claim: &Claim) -> Result<()> {
    let mut changes = claim.changes();
    tokio::time::timeout(PATIENCE, changes.wait_for(|holds| *holds)).await.context("it does not lead")??;
    Ok(())
}

fn map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

async fn a_replica_waits_for_its_namespace_and_writes_nothing_once_it_gave_the_lead_away(
    bed: Arc<Bed>,
) -> Result<()> {
    let config = config(&bed.kubeconfig("hub")).await?;
    let (claim, stop) = (Claim::default(), CancellationToken::new());
    let fenced: Api<ConfigMap> = Api::namespaced(client(&config, Some(claim.clone()))?, "default");
    let election = compete(&config, "late", "late", &claim, &stop);
    let refused = fenced.create(&PostParams::default(), &map("early")).await;
    ensure!(refused.as_ref().is_err_and(is_fenced), "who does not lead wrote: {refused:?}");

    let namespace = Namespace { metadata: map("late").metadata, ..Namespace::default() };
    let namespaces: Api<Namespace> = Api::all(bed.hub.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await?;
    holds(&claim).await.context("it has its namespace now")?;
    fenced.create(&PostParams::default(), &map("led")).await.context("who leads may write")?;

    stop.cancel();
    election.await??;
    let refused = fenced.create(&PostParams::default(), &map("after")).await;
    ensure!(refused.as_ref().is_err_and(is_fenced), "who gave the lead away wrote: {refused:?}");
    let text = format!("{:#}", anyhow::Error::from(refused.err().context("it was refused")?));
    ensure!(text.contains(&Fenced::Refused.to_string()), "{text}");
    fenced.get("led").await.context("who does not lead may read")?;
    for name in ["early", "after"] {
        ensure!(fenced.get_opt(name).await?.is_none(), "{name} was written");
    }
    let leases: Api<Lease> = Api::namespaced(bed.hub.client.clone(), "late");
    let spec = leases.get("late").await?.spec.context("it says something")?;
    ensure!(spec.holder_identity.as_deref() == Some(""), "it was not released: {spec:?}");
    Ok(())
}

/// Fails unless something fails, and soon enough.
async fn fails_soon<T>(what: &str, call: impl Future<Output = Result<T>>) -> Result<()> {
    let started = Instant::now();
    let Ok(ended) = tokio::time::timeout(Duration::from_secs(12), call).await else {
        bail!("{what} hangs");
    };
    let error = ended.err().with_context(|| format!("{what} succeeded on an API server that is frozen"))?;
    eprintln!("{what} on a frozen API server failed after {:.1?}: {error:#}", started.elapsed());
    let link = error.downcast_ref::<kube::Error>().is_some_and(|error| trouble(error) == Trouble::Link);
    ensure!(link, "not taken for trouble of the link: {error:?}");
    Ok(())
}

async fn an_api_server_that_hangs_fails_requests_and_ends_the_lead(bed: Arc<Bed>) -> Result<()> {
    let config = config(&bed.kubeconfig("member1")).await?;
    let (used, watching, fresh) = (client(&config, None)?, client(&config, None)?, client(&config, None)?);
    let version = used.send(http::Request::get("/version").body(Body::empty())?).await?.version();
    ensure!(version == Version::HTTP_2, "it speaks {version:?}");
    let maps = |client: &Client| -> Api<ConfigMap> { Api::namespaced(client.clone(), "default") };
    let watched = maps(&watching);
    let events = watched.watch(&WatchParams::default().timeout(290), "0").await?;
    pin_mut!(events);
    events.next().await.context("the watch has an event")??;

    let (claim, stop) = (Claim::default(), CancellationToken::new());
    let election = compete(&config, "default", "hanging", &claim, &stop);
    holds(&claim).await?;

    let pid = bed.member(1).pid("kube-apiserver").context("there is an API server")?;
    let server = Identity::of(pid).context("it runs")?;
    server.signal(Signal::STOP);
    let (used_maps, fresh_maps) = (maps(&used), maps(&fresh));
    let drained = async {
        while let Some(event) = events.next().await {
            event?;
        }
        Err::<(), _>(anyhow!("the watch ended as if nothing were wrong"))
    };
    let outcome = tokio::try_join!(
        fails_soon("a GET on a connection that was used before", async { Ok(used_maps.get("a").await?) }),
        fails_soon("a GET on a new connection", async { Ok(fresh_maps.get("a").await?) }),
        fails_soon("an open watch", drained),
    );
    let leads = claim.holds();
    server.signal(Signal::CONT);
    outcome?;
    ensure!(!leads, "it leads although it could not renew its Lease for longer than that is good for");
    holds(&claim).await.context("the API server answers again")?;
    stop.cancel();
    election.await??;
    until("the same client works again", PATIENCE, async || Ok(maps(&used).get("kube-root-ca.crt").await?))
        .await
        .map(drop)
}

async fn what_a_real_api_server_answers_is_told_apart(bed: Arc<Bed>) -> Result<()> {
    let config = config(&bed.kubeconfig("hub")).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client(&config, None)?, "default");
    let sorted = |what: &str, error: Option<kube::Error>, expected: Trouble| -> Result<()> {
        let error = error.with_context(|| format!("{what} succeeded"))?;
        ensure!(trouble(&error) == expected, "{what}: {:?}: {error:?}", trouble(&error));
        Ok(())
    };
    let unknown = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "new" }, "field": { "of": "1.99" },
    });
    let apply = PatchParams::apply("somebody").force();
    let answer = maps.patch("new", &apply, &Patch::Apply(&unknown)).await.err();
    eprintln!("a field that the schema lacks: {answer:?}");
    sorted("an apply with an unknown field", answer, Trouble::Object)?;
    let create = PostParams::default();
    maps.create(&create, &map("twice")).await?;
    sorted("a second create", maps.create(&create, &map("twice")).await.err(), Trouble::Conflict)?;
    sorted("a get of nothing", maps.get("nothing").await.err(), Trouble::NotFound)?;
    sorted("an invalid name", maps.create(&create, &map("Ä")).await.err(), Trouble::Object)?;

    let mut nobody = config.clone();
    nobody.auth_info = AuthInfo::default();
    let maps: Api<ConfigMap> = Api::namespaced(client(&nobody, None)?, "default");
    sorted("a get by nobody", maps.get("twice").await.err(), Trouble::Forbidden)?;
    nobody.auth_info.token = Some("made up".to_owned().into());
    let maps: Api<ConfigMap> = Api::namespaced(client(&nobody, None)?, "default");
    sorted("a get with a made-up token", maps.get("twice").await.err(), Trouble::Credentials)?;
    nobody.cluster_url = "https://127.0.0.1:1".parse()?;
    let maps: Api<ConfigMap> = Api::namespaced(client(&nobody, None)?, "default");
    sorted("a get where nobody listens", maps.get("twice").await.err(), Trouble::Link)
}
