//! What members' watches show, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Config, ResourceExt, core::PartialObjectMeta};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use tokio::{sync::mpsc, task::JoinSet};
use tombolo::shell::client::client;

/// What a burst may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// More than a burst has.
const ROOM: usize = 1 << 16;

/// What members' watches show.
#[derive(Debug)]
pub(in crate::bench) struct Sights {
    events: mpsc::Receiver<Sight>,
    /// What is there, by namespace and name: the members that have it, and since when the last of them.
    there: BTreeMap<(String, String), (BTreeSet<usize>, Instant)>,
    members: usize,
    _watches: JoinSet<()>,
}

/// One event.
#[derive(Debug)]
struct Sight {
    member: usize,
    key: (String, String),
    gone: bool,
    at: Instant,
}

// === impl Sights ===

impl Sights {
    pub(in crate::bench) fn start(members: &[Config]) -> Result<Self> {
        let (sender, events) = mpsc::channel(ROOM);
        let mut watches = JoinSet::new();
        for (member, config) in members.iter().enumerate() {
            let maps: Api<PartialObjectMeta<ConfigMap>> = Api::all(client(config, None)?);
            watches.spawn(follow(member, maps, sender.clone()));
        }
        Ok(Self { events, there: BTreeMap::new(), members: members.len(), _watches: watches })
    }

    /// Waits until all members have objects of these names, and says since when.
    pub(in crate::bench) async fn until_seen(
        &mut self,
        namespace: &str,
        names: impl IntoIterator<Item = String>,
    ) -> Result<Instant> {
        let mut waiting: BTreeSet<_> = names.into_iter().map(|name| (namespace.to_owned(), name)).collect();
        let mut last = None;
        let members = self.members;
        let mut settled = |there: &BTreeMap<_, (BTreeSet<usize>, Instant)>, key: &(String, String)| {
            let done = there.get(key).filter(|(holders, _)| holders.len() == members);
            last = done.map(|(_, at)| *at).max(last);
            done.is_some()
        };
        waiting.retain(|key| !settled(&self.there, key));
        while !waiting.is_empty() {
            let count = waiting.len();
            let key = self.next().await.with_context(|| format!("{count} objects did not arrive"))?;
            if waiting.contains(&key) && settled(&self.there, &key) {
                waiting.remove(&key);
            }
        }
        last.context("nothing was waited for")
    }

    /// Waits until no member has a measured object in a namespace.
    pub(in crate::bench) async fn until_none(&mut self, namespace: &str) -> Result<()> {
        while self.there.keys().any(|key| key.0 == namespace) {
            self.next().await.context("objects did not go")?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<(String, String)> {
        let next = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        let Sight { member, key, gone, at } =
            next.context("nothing more is seen")?.context("no watch is left")?;
        ensure!(member < self.members, "there is no such member");
        let (holders, since) = self.there.entry(key.clone()).or_insert_with(|| (BTreeSet::new(), at));
        if gone {
            holders.remove(&member);
            if holders.is_empty() {
                self.there.remove(&key);
            }
        } else if holders.insert(member) {
            *since = at.max(*since);
        }
        Ok(key)
    }
}

async fn follow(member: usize, maps: Api<PartialObjectMeta<ConfigMap>>, sender: mpsc::Sender<Sight>) {
    let measured = watcher::Config::default().labels("measured=true");
    let events = watcher::watcher(maps, measured).default_backoff();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let (map, gone) = match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => (map, false),
            Ok(Event::Delete(map)) => (map, true),
            Ok(_) => continue,
            Err(e) => {
                eprintln!("a watch broke: {e}");
                continue;
            }
        };
        let key = (map.namespace().unwrap_or_default(), map.name_any());
        if sender.send(Sight { member, key, gone, at: Instant::now() }).await.is_err() {
            return;
        }
    }
}
