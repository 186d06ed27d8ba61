//! The exchange of services: what members export, and what is to be in each member that imports it.
//!
//! Feed it with what is seen in the members; every call gives back the members that have to look at a service ([`Dirty`]). Then ask
//! [`Exchange::plan`] what is to be done in a member for a service. What was seen of a member is kept while its link is down: an
//! absence counts only after a complete list.

mod bridge;
mod feed;
mod import;
mod plan;
mod refusals;
mod seen;
mod silent;
mod slices;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod trust;
mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use globset::GlobSet;
use k8s_openapi::{api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::Condition};

use self::refusals::Refusals;
pub use self::{
    bridge::{Bridge, Exporter, Footing, Importer},
    plan::{ImportStep, Plan, SliceStep},
    refusals::{Id, News, Trust, id},
    seen::{
        ExportSeen, ImportSeen, Offered, PortSeen, SliceSeen, Whose, export_kind, import_kind, object_key,
        service_key, source_key,
    },
    silent::withdrawn,
    summary::{Known, Said, Summary, exported_since},
    tally::Tally,
    trust::{Reason, Refused},
};
use super::{
    admit::cidr::Cidr,
    change::Change,
    dead::Dead,
    freshness::Grade,
    ids::{ClusterName, ServiceKey},
    merge::{AcceptedNames, Export, Merged, merge},
    view::View,
    world::{self, World},
};

/// Members that have to look at a service.
pub type Dirty = BTreeSet<(ClusterName, ServiceKey)>;

/// What is read of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Its ServiceExports.
    Exports,
    /// Its ServiceImports.
    Imports,
    /// The slices that its agent offers.
    Sources,
    /// The slices that we wrote there.
    Imported,
    /// Its Namespaces.
    Namespaces,
}

/// Which services are imported without being asked for.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether any are.
    pub automatic: bool,
    /// The namespaces that are not, whatever else.
    pub denied: GlobSet,
    /// The namespaces that are.
    pub allowed: GlobSet,
}

/// What members export and import.
#[derive(Debug)]
pub struct Exchange {
    hub: Arc<str>,
    rules: Rules,
    members: BTreeMap<ClusterName, Member>,
    services: BTreeMap<ServiceKey, Service>,
    grades: BTreeMap<ClusterName, Grade>,
    /// Exports of silent clusters whose templates are gone from the hub for certain.
    withdrawn: BTreeSet<(ServiceKey, ClusterName)>,
    /// Services whose ServiceImport is gone from the hub for certain, and whose importers import by themselves.
    released: BTreeSet<ServiceKey>,
    /// What nobody was told yet of what is not believed.
    news: Vec<News>,
}

#[derive(Debug, Default)]
struct Member {
    known: BTreeSet<Part>,
    /// What it has no kind of.
    lacks: BTreeSet<Part>,
    /// What is being read as a whole at the moment.
    listing: BTreeSet<Part>,
    /// The UIDs of the definitions that custom kinds were read under: one that was made anew lists nothing.
    definitions: BTreeMap<Part, Box<str>>,
    namespaces: BTreeSet<Box<str>>,
    /// Ranges that its endpoints must be in, where it has any.
    ranges: Option<Box<[Cidr]>>,
    /// What was deleted there: the answer to an own write that is read later brings nothing back.
    dead: Dead,
    /// What of it is not believed.
    refusals: Refusals,
}

#[derive(Debug, Default)]
struct Service {
    exports: BTreeMap<ClusterName, ExportSeen>,
    imports: BTreeMap<ClusterName, ImportSeen>,
    sources: BTreeMap<ClusterName, BTreeMap<Box<str>, Arc<EndpointSlice>>>,
    imported: BTreeMap<ClusterName, BTreeMap<Box<str>, SliceSeen>>,
    /// Changes of endpoints on their way to an importer, by the slice that they become there.
    underway: BTreeMap<(ClusterName, Box<str>), Change>,
}

// === impl Part ===

impl Part {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Exports, Self::Imports, Self::Sources, Self::Imported, Self::Namespaces];
}

// === impl Exchange ===

impl Exchange {
    /// An exchange that knows of nothing.
    pub fn new(hub: Arc<str>, rules: Rules) -> Self {
        Self {
            hub,
            rules,
            members: BTreeMap::new(),
            services: BTreeMap::new(),
            grades: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            released: BTreeSet::new(),
            news: Vec::new(),
        }
    }

    /// Whether a part of a member was ever read as a whole.
    pub fn knows(&self, cluster: &ClusterName, part: Part) -> bool {
        self.members.get(cluster).is_some_and(|member| member.known.contains(&part))
    }

    /// The conditions that the hub wrote on a ServiceExport of a member.
    pub fn conditions_of(&self, cluster: &ClusterName, key: &ServiceKey) -> Vec<Condition> {
        let export = self.services.get(key).and_then(|service| service.exports.get(cluster));
        export.map(|export| export.conditions.clone()).unwrap_or_default()
    }

    /// What the hub says on a user's own ServiceImport in a member.
    pub fn said_on(&self, cluster: &ClusterName, key: &ServiceKey) -> Option<Condition> {
        self.services.get(key)?.imports.get(cluster)?.exchanged.clone()
    }

    /// What a member exports of a service.
    pub fn export(&self, cluster: &ClusterName, key: &ServiceKey) -> Option<Export> {
        let export = self.services.get(key)?.exports.get(cluster)?;
        let service = export.service()?.clone();
        Some(Export { created: export.created, cluster: cluster.clone(), service })
    }

    /// Whether a member has a ServiceImport of a service, whosever it is.
    pub fn has_import(&self, cluster: &ClusterName, key: &ServiceKey) -> bool {
        self.services.get(key).is_some_and(|service| service.imports.contains_key(cluster))
    }

    /// Tells the world which ServiceImports of ours a member has, of those that changed, and whether these are all.
    pub fn tell_importer(
        &self,
        world: &mut World,
        view: &View,
        cluster: &ClusterName,
        changed: &Dirty,
    ) -> world::Dirty {
        let concerned = changed.iter().filter(|(at, _)| at == cluster).map(|(_, key)| key);
        let mut dirty = world::Dirty::new();
        for key in concerned {
            let import = object_key(import_kind(), key);
            dirty.extend(world.hold_import(view, cluster, &import, self.is_imported(cluster, key)));
        }
        if self.lacks(cluster, Part::Imports) || self.knows(cluster, Part::Imports) {
            dirty.extend(world.set_imports_known(view, cluster));
        }
        dirty
    }

    /// Whether nothing that we wrote for services is left in a member, which may have no kind of imports: that nothing was read says nothing.
    pub fn is_clear(&self, cluster: &ClusterName, has_imports: bool) -> bool {
        let unread = |part| !self.knows(cluster, part);
        if unread(Part::Imported) || (has_imports && unread(Part::Imports)) {
            return false;
        }
        let ours = |service: &Service| {
            service.imports.get(cluster).is_some_and(ImportSeen::is_ours)
                || service.imported.get(cluster).is_some_and(|slices| !slices.is_empty())
        };
        !self.services.values().any(ours)
    }

    /// Every member has to look at every service.
    pub fn everything(&self) -> Dirty {
        self.services.keys().flat_map(|key| self.everywhere(key)).collect()
    }

    /// The services that concern a member.
    pub fn all_of(&self, cluster: &ClusterName) -> Dirty {
        // Any service may have to be imported there.
        self.services.keys().map(|key| (cluster.clone(), key.clone())).collect()
    }

    /// What members export of a service: those exports that hold.
    pub fn exports<'a>(&'a self, view: &'a View, key: &ServiceKey) -> Vec<Export> {
        let Some(service) = self.services.get(key) else { return Vec::new() };
        let exports = service.exports.iter().filter(|(cluster, _)| self.takes_part_in(view, cluster, key));
        let exports = exports.filter_map(|(cluster, export)| {
            let service = export.service()?.clone();
            Some(Export { created: export.created, cluster: cluster.clone(), service })
        });
        exports.collect()
    }

    /// A service merged out of its exports.
    pub fn merged(&self, view: &View, key: &ServiceKey) -> Option<Merged> {
        merge(&self.exports(view, key), &self.accepted(key))
    }

    /// The names that most of the service's importers know its ports by, so that one member alone renames nobody's.
    fn accepted(&self, key: &ServiceKey) -> AcceptedNames {
        let Some(service) = self.services.get(key) else { return AcceptedNames::new() };
        let ours = service.imports.values().filter(|import| import.is_ours());
        // By their text: it is read once, however many importers there are.
        let mut known: BTreeMap<&str, (usize, &ImportSeen)> = BTreeMap::new();
        for (text, import) in ours.filter_map(|import| Some((import.port_names()?, import))) {
            known.entry(text).or_insert((0, import)).0 += 1;
        }
        let mut known: Vec<_> = known.into_values().collect();
        known.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        known
            .into_iter()
            .map(|(_, import)| import.accepted())
            .find(|names| !names.is_empty())
            .unwrap_or_default()
    }

    /// Whether it is not known at the moment what a cluster exports of a service.
    fn is_unknown(&self, view: &View, cluster: &ClusterName, key: &ServiceKey) -> bool {
        if !self.takes_part_in(view, cluster, key) {
            return false;
        }
        if !self.knows(cluster, Part::Exports) || !self.knows(cluster, Part::Sources) {
            return true;
        }
        let export = self.services.get(key).and_then(|service| service.exports.get(cluster));
        // What is not believed takes nothing away either.
        export.is_some_and(|export| matches!(export.offered, Offered::Unreadable(_) | Offered::Refused(_)))
    }

    /// Whether it was never read what a cluster exports of a service, though it may export it.
    fn is_unread(&self, view: &View, cluster: &ClusterName, key: &ServiceKey) -> bool {
        let may_export = !self.knows(cluster, Part::Exports) && !self.lacks(cluster, Part::Exports);
        self.takes_part_in(view, cluster, key) && may_export
    }

    /// Whether a member has no kind of a part.
    fn lacks(&self, cluster: &ClusterName, part: Part) -> bool {
        self.members.get(cluster).is_some_and(|member| member.lacks.contains(&part))
    }

    /// Whether what a cluster exports of a service counts.
    fn takes_part_in(&self, view: &View, cluster: &ClusterName, key: &ServiceKey) -> bool {
        is_member(view, cluster) && !self.withdrawn.contains(&(key.clone(), cluster.clone()))
    }

    /// How fresh what is known of a cluster is.
    pub fn grade(&self, cluster: &ClusterName) -> Grade {
        self.grades.get(cluster).copied().unwrap_or_default()
    }

    /// Whether nothing is to be learnt from these grades.
    pub fn is_graded(&self, grades: &BTreeMap<ClusterName, Grade>) -> bool {
        self.grades == *grades
    }

    /// Whether a member offers anything.
    pub fn offers(&self, cluster: &ClusterName) -> bool {
        self.services.values().any(|service| service.sources.contains_key(cluster))
    }

    /// Whether a namespace takes part at all.
    fn takes_part(&self, namespace: &str) -> bool {
        !self.rules.denied.is_match(namespace)
    }

    /// The members that have to look at a service when its exports, or who imports it, changed.
    pub fn everywhere(&self, key: &ServiceKey) -> Dirty {
        self.members.keys().map(|cluster| (cluster.clone(), key.clone())).collect()
    }

    /// The members that have to look at a service when endpoints changed.
    fn importers(&self, key: &ServiceKey) -> Dirty {
        let imports = self.services.get(key).into_iter().flat_map(|service| service.imports.keys());
        imports.map(|cluster| (cluster.clone(), key.clone())).collect()
    }
}

/// Whether a cluster is a member that stays.
fn is_member(view: &View, cluster: &ClusterName) -> bool {
    view.members().get(cluster).is_some_and(|member| !member.leaving)
}
