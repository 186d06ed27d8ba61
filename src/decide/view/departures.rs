//! Clusters that seem to leave: one that is being deleted, or is gone, leaves only if that was asked for, and not if their whole
//! kind is taken away, which deletes every Cluster.
//!
//! A watch feeds [`View::see_cluster`], [`View::miss_cluster`] and [`View::miss_clusters`]; until [`View::judge_departures`] is told of
//! a live look, such a member stays as it was.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, View};
use crate::{api::Cluster, decide::ids::ClusterName};

/// So many seconds after their kind was made anew, Clusters that were not are gone.
const PATIENCE: i64 = 60;

/// What is known of Clusters that seem to leave.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// When Clusters were made, in seconds.
    made: BTreeMap<ClusterName, i64>,
    /// Those that nobody has looked into yet.
    open: BTreeMap<ClusterName, Departure>,
    /// The UIDs of those that leave.
    asked_for: BTreeMap<ClusterName, Box<str>>,
    /// All Clusters were read, but whether some of them leave has never been looked into.
    unread: bool,
}

/// How a Cluster seems to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The Cluster of this UID is being deleted.
    Deleting(Box<str>),
    /// It is gone.
    Gone,
}

/// The definition of the kind Cluster, as a live look shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterKind {
    /// When it was made, in seconds.
    pub made: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
}

// === impl View ===

impl View {
    /// Takes note of a Cluster that a watch shows. One that is being deleted stays a member like others for now.
    pub fn see_cluster(&mut self, mut cluster: Cluster) {
        let metadata = &mut cluster.metadata;
        let Ok(name) = metadata.name.as_deref().unwrap_or_default().parse::<ClusterName>() else { return };
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let made = metadata.creation_timestamp.as_ref().map_or(0, |made| made.0.as_second());
        self.departures.made.insert(name.clone(), made);
        if metadata.deletion_timestamp.is_none() {
            self.departures.open.remove(&name);
            self.departures.asked_for.remove(&name);
        } else if self.departures.asked_for.get(&name).is_none_or(|leaving| **leaving != *uid) {
            self.departures.open.insert(name, Departure::Deleting(uid.into()));
            metadata.deletion_timestamp = None;
        }
        self.apply_cluster(cluster);
    }

    /// Takes note that a watch shows a Cluster no more. One that was leaving has left, any other stays a member for now.
    pub fn miss_cluster(&mut self, name: &str) {
        let Some((name, _)) = self.members.get_key_value(name) else { return };
        let name = name.clone();
        if self.departures.asked_for.contains_key(&name) {
            self.depart(&name);
        } else {
            self.departures.open.insert(name, Departure::Gone);
        }
    }

    /// Takes note that a watch shows these Clusters and no others.
    pub fn miss_clusters(&mut self, all: &BTreeSet<String>) {
        let gone: Vec<_> = self.members.keys().filter(|name| !all.contains(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| self.miss_cluster(name.as_str()));
        if self.departures.open.is_empty() || self.synced.contains(&Source::Clusters) {
            self.set_synced(Source::Clusters);
        } else {
            // A member that left long ago must not be given anything after a restart.
            self.departures.unread = true;
        }
    }

    /// Whether a Cluster was made before another; of two of one second the first by name was.
    pub fn is_older(&self, one: &ClusterName, other: &ClusterName) -> bool {
        let made = |name| (self.departures.made.get(name), name);
        made(one) < made(other)
    }

    /// The Clusters that seem to leave, and that nobody has looked into.
    pub fn departures(&self) -> &BTreeMap<ClusterName, Departure> {
        &self.departures.open
    }

    /// Lets those leave of whom it is certain, by a live look at the definition of Clusters that began after they seemed to; says
    /// whether anything came of it.
    pub fn judge_departures(
        &mut self,
        open: &BTreeMap<ClusterName, Departure>,
        kind: Option<ClusterKind>,
        now: i64,
    ) -> bool {
        let mut any = false;
        let kind = kind.filter(|kind| !kind.deleting);
        for (name, departure) in open {
            let Some(kind) = kind.filter(|_| self.departures.open.get(name) == Some(departure)) else {
                continue;
            };
            // Whoever is older than the kind was lost with the one before.
            let asked_for = self.departures.made.get(name).is_some_and(|made| *made >= kind.made);
            match departure {
                Departure::Deleting(uid) if asked_for => self.send_off(name.clone(), uid.clone()),
                Departure::Gone if asked_for || now - kind.made >= PATIENCE => self.depart(name),
                Departure::Deleting(_) | Departure::Gone => continue,
            }
            any = true;
        }
        if self.departures.unread && self.departures.open.keys().all(|name| open.contains_key(name)) {
            self.departures.unread = false;
            self.set_synced(Source::Clusters);
            any = true;
        }
        any
    }

    fn send_off(&mut self, name: ClusterName, uid: Box<str>) {
        self.departures.open.remove(&name);
        if let Some(member) = self.members.get_mut(&name) {
            member.leaving = true;
            self.changes.members.insert(name.clone());
            self.changes.clusters = true;
        }
        self.departures.asked_for.insert(name, uid);
    }

    fn depart(&mut self, name: &ClusterName) {
        self.departures.open.remove(name);
        self.departures.asked_for.remove(name);
        self.departures.made.remove(name);
        self.delete_cluster(name.as_str());
    }
}
