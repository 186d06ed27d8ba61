//! A hub that is killed again and again while things change: nothing is lost, nothing left behind, nothing of others touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use kube::{Client, ResourceExt, api::ListParams};
use tombolo_e2e::{bed::Bed, fleet, wait::until};

use super::ground::{
    Contents, PATIENCE, again, copies, create_namespace, hub, maps, place, put, until_quiet,
};

const CHANGES: usize = 1000;
const KILLS: usize = 10;
const NAMESPACES: [&str; 2] = ["shop", "store"];
const GROUPS: [&str; 3] = ["red", "green", "blue"];
/// Names that templates have, in each namespace.
const NAMES: usize = 40;
/// A name that users have in members for objects of their own, and that a template has too.
const CLASH: &str = "clash";
/// Between two changes, so that they last as long as the hub dies and lives.
const PACE: Duration = Duration::from_millis(10);
/// The hub is the only one, so it need not wait until the Lease of the one before is over.
const ALONE: &str = "--leader-elect=false";

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

/// What the user asked for.
#[derive(Default)]
struct Model {
    /// Templates by namespace and name: group and value.
    templates: BTreeMap<(usize, String), (usize, String)>,
    /// Clusters by namespace and group.
    placements: BTreeMap<(usize, usize), BTreeSet<usize>>,
}

pub(crate) async fn a_hub_that_is_killed_ten_times_during_a_thousand_changes_leaves_exactly_what_is_desired(
    bed: Arc<Bed>,
) -> Result<()> {
    let seed = match std::env::var("SEED") {
        Ok(given) => given.parse().context("SEED is no number")?,
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    eprintln!("SEED={seed}");
    let mut running = hub(&bed, &[ALONE]).await?;
    fleet::register_all(&bed).await?;
    let own = prepare(&bed).await?;

    let done = Arc::new(AtomicUsize::new(0));
    let changing = tokio::spawn(change(bed.clone(), Dice(seed), done.clone()));
    let mut dice = Dice(seed ^ 0x5bd1_e995);
    for kill in 1..=KILLS {
        // All over the changes, and at any moment of its life, the first ones included.
        let due = (kill - 1) * CHANGES / KILLS + dice.below(CHANGES / KILLS);
        while done.load(Ordering::Relaxed) < due && !changing.is_finished() {
            tokio::time::sleep(PACE).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.below(500) as u64)).await;
        // Dropped, it is killed: nothing is finished, no Lease released.
        drop(running);
        eprintln!("killed {kill} times, after {} changes", done.load(Ordering::Relaxed));
        running = again(&bed, &[ALONE]).await?;
    }
    let model = changing.await??;
    let changed = Instant::now();
    for number in 0..bed.members.len() {
        converges(&bed, &model, number).await?;
    }
    eprintln!("converged {:.1?} after the last change", changed.elapsed());
    until_quiet(&bed, Duration::from_secs(3)).await?;
    for number in 0..bed.members.len() {
        converges(&bed, &model, number).await?;
    }
    ensure!(own == users(&bed).await?, "something of the user's was touched");
    Ok(())
}

/// Namespaces, policies, and objects of users in members.
async fn prepare(bed: &Bed) -> Result<Vec<String>> {
    let clients: Vec<&Client> = bed.clusters().map(|cluster| &cluster.client).collect();
    for (namespace, client) in
        NAMESPACES.iter().flat_map(|name| clients.iter().map(move |client| (name, client)))
    {
        create_namespace(client, namespace).await?;
    }
    for member in &bed.members {
        for namespace in NAMESPACES {
            for name in ["own-1", "own-2", CLASH] {
                put(&member.client, namespace, name, "own", "mine").await?;
            }
        }
    }
    for (number, namespace) in NAMESPACES.iter().enumerate() {
        for (group, label) in GROUPS.iter().enumerate() {
            place(&bed.hub.client, namespace, label, &names(bed, &first_placement(number, group))).await?;
        }
        // Differs from what users have there: theirs stays.
        put(&bed.hub.client, namespace, CLASH, GROUPS[0], "ours").await?;
    }
    users(bed).await
}

fn first_placement(namespace: usize, group: usize) -> BTreeSet<usize> {
    BTreeSet::from([(namespace + group) % 3])
}

fn names(bed: &Bed, clusters: &BTreeSet<usize>) -> Vec<String> {
    clusters.iter().map(|number| bed.members[*number].name.clone()).collect()
}

/// The user's own objects in members, with their resourceVersions.
async fn users(bed: &Bed) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for member in &bed.members {
        for namespace in NAMESPACES {
            let own =
                maps(&member.client, namespace).list(&ListParams::default().labels("group=own")).await?;
            all.extend(own.into_iter().map(|map| {
                let (name, version) = (map.name_any(), map.resource_version());
                format!(
                    "{} {namespace}/{name} {version:?} {:?} {:?}",
                    member.name, map.data, map.metadata.labels
                )
            }));
        }
    }
    ensure!(all.len() == bed.members.len() * NAMESPACES.len() * 3, "some are gone: {all:?}");
    Ok(all)
}

/// Makes all changes, one after the other, and gives back what is wanted in the end.
async fn change(bed: Arc<Bed>, mut dice: Dice, done: Arc<AtomicUsize>) -> Result<Model> {
    let mut model = Model::default();
    for (namespace, group) in (0..NAMESPACES.len()).flat_map(|n| (0..GROUPS.len()).map(move |g| (n, g))) {
        model.placements.insert((namespace, group), first_placement(namespace, group));
    }
    let hub = &bed.hub.client;
    for number in 0..CHANGES {
        let namespace = dice.below(NAMESPACES.len());
        let key = (namespace, format!("object-{}", dice.below(NAMES)));
        let there = model.templates.get(&key).cloned();
        match (dice.below(20), there) {
            (0, _) => {
                let group = dice.below(GROUPS.len());
                let clusters: BTreeSet<usize> = (0..=dice.below(3)).map(|_| dice.below(3)).collect();
                // Without a hub nobody judges policies, so none are admitted: the user tries again.
                let names = names(&bed, &clusters);
                let asked = Instant::now();
                while let Err(e) = place(hub, NAMESPACES[namespace], GROUPS[group], &names).await {
                    ensure!(asked.elapsed() < PATIENCE, "a policy is not admitted: {e:#}");
                    tokio::time::sleep(PACE).await;
                }
                model.placements.insert((namespace, group), clusters);
            }
            (1..=5, Some(_)) => {
                maps(hub, NAMESPACES[namespace]).delete(&key.1, &Default::default()).await?;
                model.templates.remove(&key);
            }
            (_, there) => {
                let group =
                    there.filter(|_| dice.below(4) > 0).map_or_else(|| dice.below(3), |(group, _)| group);
                let value = format!("value-{number}");
                put(hub, NAMESPACES[namespace], &key.1, GROUPS[group], &value).await?;
                model.templates.insert(key, (group, value));
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PACE).await;
    }
    Ok(model)
}

async fn converges(bed: &Bed, model: &Model, number: usize) -> Result<()> {
    let member = &bed.members[number];
    for (at, namespace) in NAMESPACES.iter().enumerate() {
        let wanted = model.wanted(at, number);
        until(&format!("{} has exactly what is desired", member.name), PATIENCE, async || {
            let there = copies(&member.client, namespace).await?;
            let differ =
                there.iter().filter(|(name, data)| wanted.get(*name) != Some(data)).map(|(name, _)| name);
            let differ: Vec<_> =
                differ.chain(wanted.keys().filter(|name| !there.contains_key(*name))).collect();
            ensure!(differ.is_empty(), "in {namespace} these are not so: {differ:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

// === impl Model ===

impl Model {
    /// What is to be in a namespace of a member.
    fn wanted(&self, namespace: usize, member: usize) -> Contents {
        let here = self.templates.iter().filter(|((at, _), (group, _))| {
            *at == namespace && self.placements[&(namespace, *group)].contains(&member)
        });
        here.map(|((_, name), (_, value))| {
            (name.clone(), BTreeMap::from([("value".to_owned(), value.clone())]))
        })
        .collect()
    }
}

// === impl Dice ===

impl Dice {
    /// A number below another (splitmix64).
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}
