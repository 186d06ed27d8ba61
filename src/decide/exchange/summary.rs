//! What the hub's own ServiceExport and ServiceImport say of a service: the sum of what its clusters say. It does not change with
//! endpoints, so that those cost the hub no write.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Exchange, Offered, Part,
    import::{is_readable, unknown_of},
    seen::{ExportSeen, ImportSeen, export_kind, import_kind, object_key},
    words::ready,
};
use crate::{
    api::names::{condition, reason},
    decide::{
        condition::Verdict,
        ids::{ClusterName, ServiceKey},
        merge::{self, Merged, TypeConflict},
        view::{Offer, View},
        world::World,
    },
};

/// As many clusters are named.
const NAMED: usize = 20;
/// Before the clusters that export a service.
const EXPORTED: &str = "exported by ";
/// Before the time at which the export of a cluster was made.
const SINCE: &str = " since ";

/// What is said of a service on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// On its ServiceExport.
    pub export: Vec<Said>,
    /// On its ServiceImport: the clusters that it comes from.
    pub clusters: BTreeSet<ClusterName>,
    /// Clusters that stay there if they are: what they export is not known.
    pub unknown: BTreeSet<ClusterName>,
    /// On its ServiceImport: who reaches whom.
    pub import: Said,
    /// On its ServiceImport: whether its type is that of the exports.
    pub typed: Option<Said>,
}

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// That.
    pub verdict: Verdict,
    /// How much is known of what it is made of.
    pub known: Known,
}

/// How much is known of what a condition is made of. A restart of the hub takes back nothing only because a cluster was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// All: it is said.
    All,
    /// That something is amiss, though maybe not all of it, or all but what silent clusters would say: it is said where the contrary was
    /// said before.
    Most,
    /// Not enough: it is said where nothing was said before.
    Part,
    /// That what may have been said before is over: it is said where it was.
    Over,
}

// === impl Known ===

impl Known {
    fn of(certain: bool, most: bool) -> Self {
        match (certain, most) {
            (true, _) => Self::All,
            (false, true) => Self::Most,
            (false, false) => Self::Part,
        }
    }
}

// === impl Said ===

impl Said {
    /// Whether it is said in place of the status that a condition has.
    pub fn is_news(&self, before: Option<bool>) -> bool {
        match self.known {
            Known::All => true,
            Known::Most => before != Some(self.verdict.met),
            Known::Part => before.is_none(),
            Known::Over => before == Some(!self.verdict.met),
        }
    }
}

// === impl Exchange ===

impl Exchange {
    /// What is said of a service on the hub.
    pub fn summary(&self, view: &View, world: &World, key: &ServiceKey) -> Summary {
        let service = self.services.get(key);
        let exports = service.iter().flat_map(|service| &service.exports);
        let exports: Vec<_> = exports.filter(|(name, _)| self.takes_part_in(view, name, key)).collect();
        let merged = self.merged(view, key);
        let certain = !self.is_frozen(view, key);
        let placed = world.assignment(&object_key(export_kind(), key));
        let placed = placed.iter().flat_map(|placed| placed.targets.keys());
        // Who never was in use exports nothing.
        let unread = placed.filter(|name| self.is_unread(view, name, key) && view.server_of(name).is_some());
        let unread: Vec<_> = unread.collect();
        let only_silent = unread.iter().all(|name| self.is_silent(name));
        // That one of them is not as it should be was seen; that all are was not. Who is silent may stay so for good.
        let of_each = |verdict: Verdict| {
            let most = !exports.is_empty() && (!verdict.met || (certain && only_silent));
            Said { known: Known::of(certain && unread.is_empty(), most), verdict }
        };
        let mut told = vec![of_each(exported(&exports))];
        told.extend(valid(&exports).map(of_each));
        if let Some(merged) = &merged {
            let merge::Condition { status, reason, message } = merge::Condition::of(&merged.conflicts);
            let verdict =
                Verdict { condition: condition::CONFLICT, met: status, reason: reason.into(), message };
            told.push(Said { known: Known::of(certain, status), verdict });
        }
        let clusters: BTreeSet<_> =
            merged.iter().flat_map(|merged| merged.clusters.keys()).cloned().collect();
        let imports = service.into_iter().flat_map(|service| service.imports.values());
        let mut from: BTreeSet<_> =
            imports.flat_map(|seen| unknown_of(self, view, key, Some(seen))).collect();
        from.extend(clusters.iter().cloned());
        let unknown = view.members().keys().filter(|cluster| {
            self.is_unread(view, cluster, key) || from.contains(*cluster) && !clusters.contains(*cluster)
        });
        let unknown = unknown.cloned().collect();
        let import = self.reached(world, key, &from, !from.is_empty() || certain);
        let typed = typed(view, key, merged.as_ref(), certain);
        Summary { export: told, clusters, unknown, import, typed }
    }

    /// Whether a member has the ServiceImport of a service that the hub wrote.
    pub fn is_imported(&self, cluster: &ClusterName, key: &ServiceKey) -> bool {
        let seen = self.services.get(key).and_then(|service| service.imports.get(cluster));
        seen.is_some_and(ImportSeen::is_ours)
    }

    /// Who reaches whom.
    fn reached(&self, world: &World, key: &ServiceKey, from: &BTreeSet<ClusterName>, certain: bool) -> Said {
        let placed = world.assignment(&object_key(import_kind(), key));
        let importers: Vec<_> = placed.iter().flat_map(|placed| placed.targets.keys()).collect();
        let found: Vec<_> =
            importers.iter().map(|importer| (*importer, self.reached_in(importer, key))).collect();
        let met = !from.is_empty() && !found.is_empty() && found.iter().all(|(_, found)| found.is_ok());
        let mut words: Vec<_> = found
            .iter()
            .map(|(importer, found)| match found {
                Ok(reached) => format!("{importer} reaches {}", listed(reached.iter())),
                Err(why) => format!("{importer}: {why}"),
            })
            .collect();
        if importers.is_empty() {
            words.push("no policy places it".to_owned());
        }
        if from.is_empty() {
            words.insert(0, "no cluster exports it yet".to_owned());
        }
        let more = words.len().saturating_sub(NAMED);
        words.truncate(NAMED);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        words.extend(self.silences(key, from));
        let message = words.join("; ");
        let reason = if met { reason::READY } else { reason::PENDING };
        let verdict = Verdict { condition: condition::READY, met, reason: reason.into(), message };
        let (read, unread): (Vec<_>, Vec<_>) =
            found.iter().partition(|(importer, _)| is_readable(self, importer));
        let certain = certain && unread.is_empty() && !self.may_withhold(key);
        Said { known: Known::of(certain, read.iter().any(|(_, found)| found.is_err())), verdict }
    }

    /// Whether an importer has a slice without ports of a cluster that was not read: it may have no endpoints, or all of its ports are withheld.
    fn may_withhold(&self, key: &ServiceKey) -> bool {
        let imported = self.services.get(key).into_iter().flat_map(|service| service.imported.values());
        let mut bare = imported.flat_map(|slices| slices.values()).filter(|slice| slice.ports.is_empty());
        bare.any(|slice| !self.knows(&slice.cluster, Part::Sources))
    }

    /// The clusters that an importer reaches, or why it reaches none.
    pub(super) fn reached_in(
        &self,
        importer: &ClusterName,
        key: &ServiceKey,
    ) -> Result<BTreeSet<ClusterName>, &'static str> {
        let Some(service) = self.services.get(key) else { return Err("on its way") };
        let Some(seen) = service.imports.get(importer) else { return Err("on its way") };
        if !ImportSeen::is_ours(seen) {
            return Err("there is a ServiceImport of that name which is not Tombolo's: it stays as it is");
        }
        if seen.derived.is_none() {
            return Err("its agent has not made the Service yet");
        }
        let slices = service.imported.get(importer).into_iter().flat_map(|slices| slices.values());
        // All ports of a slice may be withheld; without endpoints it may have none either, and that does not count here.
        let offers = |from: &ClusterName| {
            let mut sources = service.sources.get(from).into_iter().flat_map(|sources| sources.values());
            sources.any(|source| source.ports.as_ref().is_some_and(|ports| !ports.is_empty()))
        };
        let served = slices.filter(|slice| !slice.ports.is_empty() || !offers(&slice.cluster));
        let mut reached: BTreeSet<_> = served.map(|slice| slice.cluster.clone()).collect();
        // Its own endpoints are its agent's.
        reached.extend(Some(importer.clone()).filter(|own| seen.clusters.contains(own)));
        if reached.is_empty() { Err("it has no endpoints yet") } else { Ok(reached) }
    }
}

/// Whether a ServiceImport of the hub's has the type that the exports have, which holds; nothing where nobody has to be told.
fn typed(view: &View, key: &ServiceKey, merged: Option<&Merged>, certain: bool) -> Option<Said> {
    let import = view.imports().get(key)?;
    let conflict = merged.and_then(|merged| TypeConflict::of(Offer::of(&import.body()).service_type, merged));
    let met = conflict.is_some();
    let known = match (certain, met) {
        (true, true) => Known::All,
        (true, false) => Known::Over,
        (false, true) => Known::Part,
        (false, false) => return None,
    };
    let reason = if met { reason::TYPE_CONFLICT } else { reason::NO_CONFLICTS };
    let message = conflict.map_or_else(String::new, |conflict| conflict.to_string());
    let verdict = Verdict { condition: condition::CONFLICT, met, reason: reason.into(), message };
    Some(Said { verdict, known })
}

/// Whether the exports are offered, in all clusters together.
fn exported(exports: &[(&ClusterName, &ExportSeen)]) -> Verdict {
    let told: Vec<_> = exports.iter().map(|(name, export)| (name, ready(export))).collect();
    let (reason, message) = match told.iter().find(|(_, ready)| !ready.met) {
        None if told.is_empty() => (reason::PENDING.into(), "no cluster has it yet".to_owned()),
        None => {
            let since = exports.iter().map(|(name, export)| format!("{name}{SINCE}{}", export.created));
            (reason::EXPORTED.into(), format!("{EXPORTED}{}", listed(since)))
        }
        Some((_, first)) => {
            let unmet = told.iter().filter(|(_, ready)| !ready.met).take(NAMED);
            let words: Vec<_> = unmet.map(|(name, ready)| format!("{name}: {}", ready.message)).collect();
            (first.reason.clone(), words.join("; "))
        }
    };
    let met = !told.is_empty() && told.iter().all(|(_, ready)| ready.met);
    Verdict { condition: condition::READY, met, reason, message }
}

/// Since when which cluster exports a service, by what the hub's ServiceExport says of it.
pub fn exported_since(message: &str) -> BTreeMap<&str, &str> {
    let told = message.strip_prefix(EXPORTED).unwrap_or_default().split(", ");
    // Of many the last is followed by how many more there are.
    let told =
        told.filter_map(|one| one.split_once(SINCE)).map(|(name, since)| (name, since.split(' ').next()));
    told.filter_map(|(name, since)| Some((name, since?))).collect()
}

/// Whether there is a Service that can be exported, in all clusters together; nothing while no agent has looked.
fn valid(exports: &[(&ClusterName, &ExportSeen)]) -> Option<Verdict> {
    let unlooked = |offered: &Offered| matches!(offered, Offered::Pending | Offered::Excluded);
    let looked = exports.iter().filter(|(_, export)| !unlooked(&export.offered));
    let looked: Vec<_> = looked.collect();
    let invalid = looked.iter().filter(|(_, export)| matches!(export.offered, Offered::Nothing));
    let words = invalid.map(|(name, export)| {
        let told = export.conditions.iter().find(|told| told.type_ == condition::VALID);
        let reason = told.map_or(reason::NO_SERVICE, |told| told.reason.as_str());
        (
            reason.to_owned(),
            format!("{name}: {}", told.map_or("there is no Service", |told| told.message.as_str())),
        )
    });
    let words: Vec<_> = words.take(NAMED).collect();
    let met = words.is_empty();
    let (reason, message) = match words.first() {
        None => (reason::VALID.into(), format!("in {}", listed(looked.iter().map(|(name, _)| *name)))),
        Some((reason, _)) => {
            let all: Vec<_> = words.iter().map(|(_, words)| words.as_str()).collect();
            (reason.clone().into(), all.join("; "))
        }
    };
    (!looked.is_empty()).then_some(Verdict { condition: condition::VALID, met, reason, message })
}

pub(super) fn listed(names: impl Iterator<Item = impl ToString>) -> String {
    let names: Vec<_> = names.map(|name| name.to_string()).collect();
    match names.split_at_checked(NAMED) {
        Some((named, rest)) if !rest.is_empty() => format!("{} and {} more", named.join(", "), rest.len()),
        _ => names.join(", "),
    }
}
