//! Hub and agents are killed at random while a thousand services change: after quiet the importer has exactly what the user's wishes
//! come to, by the test's own reckoning and by the rules computed from scratch, and no address has changed.

mod model;
mod scratch;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    scene::{HUB, Scene, object},
    wait::until,
};

use self::model::{Dice, Found, Model};
use super::ground::Fleet;

/// Services, each exported by one of two members or by both.
const SERVICES: usize = 1000;
const EXPORTERS: [usize; 2] = [1, 2];
const IMPORTER: usize = 3;
/// Changes and deaths while everything runs; `CHAOS` multiplies them.
const CHANGES: usize = 600;
const DEATHS: usize = 8;
/// As much is asked of an API server at a time.
const AT_ONCE: usize = 24;
const PACE: Duration = Duration::from_millis(15);
/// What it may take until everything is so.
const LONG: Duration = Duration::from_secs(300);
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn after_random_deaths_services_are_what_the_rules_compute_and_no_address_has_changed(
    bed: Arc<Bed>,
) -> Result<()> {
    let seed = match std::env::var("SEED") {
        Ok(given) => given.parse().context("SEED is no number")?,
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let times: usize = std::env::var("CHAOS").ok().map_or(Ok(1), |times| times.parse())?;
    eprintln!("SEED={seed}");
    let mut fleet = Fleet::start(bed).await?;
    let scene = fleet.scene("shop", &[HUB, 1, 2, IMPORTER]).await?;
    let started = Instant::now();
    let mut model = Model::new(&mut Dice(seed), SERVICES);
    begin(&scene, &model).await?;
    eprintln!("{SERVICES} services are made after {:.1?}", started.elapsed());
    converges(&scene, &model).await?;
    let before = addresses(&scene).await?;
    ensure!(before.len() == SERVICES, "{} of {SERVICES} services have an address", before.len());
    eprintln!("they are served after {:.1?}", started.elapsed());

    let over = AtomicBool::new(false);
    let mut dice = Dice(seed ^ 1);
    let changing = async {
        let changed = change(&scene, &mut model, &mut dice, CHANGES * times).await;
        over.store(true, Ordering::Relaxed);
        changed
    };
    let ((), deaths) = futures::try_join!(changing, kill(&mut fleet, Dice(seed ^ 2), &over, DEATHS * times))?;
    let changed = Instant::now();
    eprintln!("killed {deaths} times, after {:.1?}", started.elapsed());
    converges(&scene, &model).await?;
    eprintln!("converged {:.1?} after the last change", changed.elapsed());
    quiet(&fleet).await?;
    model.compare(&Found::read(&scene).await?)?;
    scratch::nothing_to_do(&scene).await?;
    let after = addresses(&scene).await?;
    let moved = before.iter().filter(|(name, address)| after.get(*name) != Some(address));
    let moved: Vec<_> = moved.map(|(name, was)| format!("{name}: {was} {:?}", after.get(name))).collect();
    ensure!(moved.is_empty(), "addresses changed: {moved:?}");
    Ok(())
}

/// Kills hub and agents at random moments, as often at least, until everything has changed; says how often.
async fn kill(fleet: &mut Fleet, mut dice: Dice, over: &AtomicBool, least: usize) -> Result<usize> {
    let mut deaths = 0;
    while !over.load(Ordering::Relaxed) || deaths < least {
        tokio::time::sleep(Duration::from_millis(dice.below(1500) as u64)).await;
        match dice.below(5) {
            member @ 1..=3 => fleet.start_agent(member).await?,
            _ => fleet.start_hub().await?,
        }
        deaths += 1;
    }
    Ok(deaths)
}

/// Everything that is there at first: on the hub a ServiceImport for each, and a policy that places them.
async fn begin(scene: &Scene, model: &Model) -> Result<()> {
    let policy = json!({ "spec": {
        "resourceSelectors": [{ "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport" }],
        "placement": { "clusterAffinity": { "clusterNames": [format!("member{IMPORTER}")] } },
    } });
    scene.apply(HUB, [object("PropagationPolicy", "imports", policy)]).await?;
    let import = json!({ "spec": { "type": "ClusterSetIP", "ports": [] } });
    let wishes = (0..SERVICES).flat_map(|number| {
        let template = object("ServiceImport", &model::name(number), import.clone());
        std::iter::once((HUB, template)).chain(model.wishes(number))
    });
    let wishes: Vec<_> = wishes.collect();
    stream::iter(wishes.into_iter().map(|(place, wish)| async move { scene.apply(place, [wish]).await }))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

async fn change(scene: &Scene, model: &mut Model, dice: &mut Dice, changes: usize) -> Result<()> {
    for _ in 0..changes {
        let (place, wishes, gone) = model.change(dice);
        for what in gone {
            scene.delete(place, &[&what]).await?;
        }
        scene.apply(place, wishes).await?;
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

async fn converges(scene: &Scene, model: &Model) -> Result<()> {
    until("everything is as it should be", LONG, async || model.compare(&Found::read(scene).await?)).await
}

/// Waits until neither hub nor agents have written anything for a while.
async fn quiet(fleet: &Fleet) -> Result<()> {
    until("nobody writes", LONG, async || {
        let clusters: Vec<_> = fleet.bed.clusters().map(|cluster| cluster.name.clone()).collect();
        let marks = clusters.iter().map(|name| fleet.bed.audit(name).mark()).collect::<Result<Vec<_>>>()?;
        tokio::time::sleep(QUIET).await;
        for (name, mark) in clusters.iter().zip(marks) {
            let audit = fleet.bed.audit(name);
            let mut writes = audit.by_hub(mark)?;
            writes.extend(audit.by_agent(mark, "shop")?);
            ensure!(writes.is_empty(), "in {name} there are {} writes: {}", writes.len(), writes[0]);
        }
        Ok(())
    })
    .await
}

/// The addresses of all imports.
async fn addresses(scene: &Scene) -> Result<BTreeMap<String, String>> {
    let found = Found::read(scene).await?;
    let mut all = BTreeMap::new();
    for (name, import) in &found.imports {
        let ip = import["spec"]["ips"][0].as_str().with_context(|| format!("{name} has no address"))?;
        let derived = found.derived.get(name).with_context(|| format!("{name} is not served"))?;
        ensure!(derived["spec"]["clusterIP"] == ip, "{name}: {derived}");
        all.insert(name.clone(), ip.to_owned());
    }
    Ok(all)
}
