//! Two replicas: one writes at a time, whatever happens to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tombolo::api::PropagationPolicy;
use tombolo_e2e::{audit::Request, bed::Bed, fleet, process::Identity, tombolo::Component, wait::until};

use super::ground::{
    PATIENCE, copies, create_namespace, leads, maps, place, program, put, signal, until_says,
};

const NAMES: [&str; 2] = ["replica-a", "replica-b"];
/// How long a leader is frozen: longer than its Lease is good for.
const FROZEN: Duration = Duration::from_secs(13);
/// What a takeover may take after the leader froze.
const TAKEOVER: Duration = Duration::from_secs(15);
/// How long the Lease may be nobody's after the leader let it go, by what it says itself.
const HANDOVER: Duration = Duration::from_secs(1);
/// When whoever looks sees that.
const SEEN: Duration = Duration::from_secs(5);
/// What was sent before a Lease was let go may come in as much later, on another connection.
const UNDER_WAY: Duration = Duration::from_millis(250);
/// What a Lease is good for.
const LEASE: Duration = Duration::from_secs(10);
/// How often the leader is frozen.
const ROUNDS: usize = 4;

pub(crate) async fn two_replicas_never_write_both_and_the_second_takes_over_in_time(
    bed: Arc<Bed>,
) -> Result<()> {
    bed.prepare_hub()?;
    let mut replicas = Vec::new();
    for name in NAMES {
        replicas.push(bed.start_hub(&program().await?, name, &[format!("--lease-identity={name}")]).await?);
    }
    fleet::register_all(&bed).await?;
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    let going = Arc::new(AtomicBool::new(true));
    let changing = tokio::spawn(keep_changing(bed.clone(), going.clone()));

    for round in 1..=ROUNDS {
        let leader = leader(&replicas).await?;
        signal(&replicas[leader], Signal::STOP)?;
        let frozen = Instant::now();
        let other = &replicas[1 - leader];
        until("the other takes over", TAKEOVER, async || {
            ensure!(leads(other).await?, "it does not lead");
            Ok(())
        })
        .await?;
        eprintln!("round {round}: {} took over after {:.1?}", NAMES[1 - leader], frozen.elapsed());
        tokio::time::sleep(FROZEN.saturating_sub(frozen.elapsed())).await;
        signal(&replicas[leader], Signal::CONT)?;
        ensure!(!leads(&replicas[leader]).await?, "the first thing it says is that it leads");
        tokio::time::sleep(Duration::from_secs(2)).await;
        ensure!(leads(&replicas[1 - leader]).await?, "the lead went back");
    }
    let last = leader(&replicas).await?;
    signal(&replicas[last], Signal::TERM)?;
    until("the other is handed the lead", SEEN, async || {
        ensure!(leads(&replicas[1 - last]).await?, "it does not lead");
        Ok(())
    })
    .await?;
    let took = bed.audit("hub").handover("tombolo-hub")?;
    eprintln!("a leader that was told to stop was replaced {took:.2?} after it let go");
    ensure!(took <= HANDOVER, "it took {took:.2?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    going.store(false, Ordering::Relaxed);
    let value = changing.await??;
    until_says(&bed.member(1).client, "shop", "changing", &value).await?;
    check_writers(&bed)
}

pub(crate) async fn a_replica_that_takes_over_moves_no_copy_that_it_has_not_read(
    bed: Arc<Bed>,
) -> Result<()> {
    bed.prepare_hub()?;
    let start = async |name: &str| {
        bed.start_hub(&program().await?, name, &[format!("--lease-identity={name}")]).await
    };
    let first = start(NAMES[0]).await?;
    fleet::register_all(&bed).await?;
    // It follows every member before any was given a ConfigMap.
    let second = start(NAMES[1]).await?;
    until("the second knows all members", PATIENCE, async || {
        let metrics = second.says("/metrics").await?;
        let ready = |line: &&str| line.starts_with("tombolo_member_ready{") && line.ends_with(" 1.0");
        let ready = metrics.lines().filter(ready).count();
        ensure!(ready == 3, "it knows {ready}");
        Ok(())
    })
    .await?;
    let hub = &bed.hub.client;
    create_namespace(hub, "shop").await?;
    place(hub, "shop", "one", &["member3".to_owned()]).await?;
    put(hub, "shop", "moving", "one", "1").await?;
    let third = &bed.member(3).client;
    until_says(third, "shop", "moving", "1").await?;
    let before = maps(third, "shop").get("moving").await?.metadata.uid;
    // Any would do now; it stays where it is.
    let spread = json!([{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }]);
    let placement = json!({ "clusterAffinity": null, "spreadConstraints": spread });
    let policies: Api<PropagationPolicy> = Api::namespaced(hub.clone(), "shop");
    let patch = Patch::Merge(json!({ "spec": { "placement": placement } }));
    policies.patch("one", &PatchParams::default(), &patch).await?;
    put(hub, "shop", "moving", "one", "2").await?;
    until_says(third, "shop", "moving", "2").await?;

    let pid = bed.member(3).pid("kube-apiserver").context("there is an API server")?;
    let server = Identity::of(pid).context("it runs")?;
    server.signal(Signal::STOP);
    signal(&first, Signal::TERM)?;
    let taken_over = async {
        until("the second takes over", TAKEOVER, async || {
            ensure!(leads(&second).await?, "it does not lead");
            Ok(())
        })
        .await?;
        let others = [bed.member(1).name.clone(), bed.member(2).name.clone()];
        place(hub, "shop", "two", &others).await?;
        put(hub, "shop", "beside", "two", "1").await?;
        for number in [1, 2] {
            until_says(&bed.member(number).client, "shop", "beside", "1").await?;
            let there = copies(&bed.member(number).client, "shop").await?;
            ensure!(!there.contains_key("moving"), "member{number} was given what member3 has");
        }
        Ok::<_, anyhow::Error>(())
    };
    let taken_over = taken_over.await;
    server.signal(Signal::CONT);
    taken_over?;
    put(hub, "shop", "moving", "one", "3").await?;
    until_says(third, "shop", "moving", "3").await?;
    ensure!(maps(third, "shop").get("moving").await?.metadata.uid == before, "it was made anew");
    for number in [1, 2] {
        let there = copies(&bed.member(number).client, "shop").await?;
        ensure!(!there.contains_key("moving"), "member{number} has it too");
    }
    Ok(())
}

async fn leader(replicas: &[Component]) -> Result<usize> {
    until("one leads", TAKEOVER, async || {
        let mut leading = Vec::new();
        for (number, replica) in replicas.iter().enumerate() {
            if leads(replica).await? {
                leading.push(number);
            }
        }
        ensure!(leading.len() == 1, "{leading:?} lead");
        Ok(leading[0])
    })
    .await
}

/// Changes an object until told to stop, and gives back what it says in the end.
async fn keep_changing(bed: Arc<Bed>, going: Arc<AtomicBool>) -> Result<String> {
    let mut number = 0;
    while going.load(Ordering::Relaxed) {
        number += 1;
        put(&bed.hub.client, "shop", "changing", "all", &number.to_string()).await?;
        put(&bed.hub.client, "shop", &format!("other-{}", number % 50), "all", &number.to_string()).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(number.to_string())
}

/// By the audit logs: every write of a replica came in while it held the Lease.
fn check_writers(bed: &Bed) -> Result<()> {
    let on_hub = bed.audit("hub").since(Default::default())?;
    let leases: Vec<&Request> = on_hub
        .iter()
        .filter(|request| {
            request.object_ref.resource == "leases" && request.is_by_hub() && request.succeeded()
        })
        .collect();
    // Who claimed it, and from when on it was nobody's.
    let mut claims: Vec<(Timestamp, &str, bool)> = Vec::new();
    for lease in leases {
        let holder = lease.lease().context("a Lease says something")?.holder_identity.unwrap_or_default();
        let by = replica(lease)?;
        ensure!(holder.is_empty() || holder == by, "{by} claimed it for {holder:?}");
        claims.push((lease.request_received_timestamp, by, !holder.is_empty()));
    }
    claims.sort_unstable();
    let changes_of_hand = claims.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    ensure!(claims.iter().any(|(_, _, claimed)| !claimed), "nobody ever let it go");
    let mut count = [0, 0];
    for cluster in bed.clusters() {
        for write in bed.audit(&cluster.name).by_hub(Default::default())? {
            // Certificates and webhooks are every replica's.
            let resource = &write.object_ref.resource;
            if cluster.name == "hub" && (resource == "secrets" || resource.ends_with("webhookconfigurations"))
            {
                continue;
            }
            let (by, at) = (replica(&write)?, write.request_received_timestamp);
            let held = claims.iter().rev().find(|(since, ..)| *since <= at).context("nobody led yet")?;
            let age = Duration::try_from(at.duration_since(held.0)).unwrap_or_default();
            ensure!(held.1 == by, "{}: {by} wrote when {} led since {age:?}: {write}", cluster.name, held.1);
            ensure!(
                held.2 || age <= UNDER_WAY,
                "{}: {by} wrote {age:?} after it let go: {write}",
                cluster.name
            );
            ensure!(age <= LEASE, "{}: {by} wrote {age:?} after its last claim: {write}", cluster.name);
            count[usize::from(by == NAMES[1])] += 1;
        }
    }
    eprintln!("writes by replica: {count:?}; the lead changed hands {changes_of_hand} times");
    ensure!(count.iter().all(|count| *count > 100), "both had something to write: {count:?}");
    ensure!(changes_of_hand >= ROUNDS, "the lead did not change hands");
    Ok(())
}

fn replica(request: &Request) -> Result<&'static str> {
    let found = NAMES.into_iter().find(|name| request.user_agent.contains(&format!("({name})")));
    found.with_context(|| format!("whose is {:?}?", request.user_agent))
}
