//! The exchange of services: what members export, and what is to be in each member that imports it.
//!
//! Feed it with what is seen in the members; every call gives back the members that have to look at a service ([`Dirty`]). Then ask
//! [`Exchange::plan`] what is to be done in a member for a service. What was seen of a member is kept while its link is down: an
//! absence counts only after a complete list (DESIGN.md 9.1).

mod import;
mod plan;
mod seen;
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

pub use self::{
    plan::{ConditionWanted, ImportStep, Plan, SliceStep},
    seen::{
        ExportSeen, ImportSeen, Offered, SliceSeen, Whose, export_kind, import_kind, object_key, service_key,
        source_key,
    },
    trust::Refused,
};
use super::{
    admit::cidr::Cidr,
    ids::{ClusterName, ServiceKey},
    merge::{AcceptedNames, Export, Merged, merge},
    record::Unreadable,
    view::View,
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
}

#[derive(Debug, Default)]
struct Member {
    known: BTreeSet<Part>,
    namespaces: BTreeSet<Box<str>>,
    /// Ranges that its endpoints must be in, where it has any.
    ranges: Option<Box<[Cidr]>>,
}

#[derive(Debug, Default)]
struct Service {
    exports: BTreeMap<ClusterName, ExportSeen>,
    imports: BTreeMap<ClusterName, ImportSeen>,
    sources: BTreeMap<ClusterName, BTreeMap<Box<str>, Arc<EndpointSlice>>>,
    imported: BTreeMap<ClusterName, BTreeMap<Box<str>, SliceSeen>>,
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
        Self { hub, rules, members: BTreeMap::new(), services: BTreeMap::new() }
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

    /// What a member exports of a service.
    pub fn export(&self, cluster: &ClusterName, key: &ServiceKey) -> Option<Export> {
        let export = self.services.get(key)?.exports.get(cluster)?;
        let service = export.service()?.clone();
        Some(Export { created: export.created, cluster: cluster.clone(), service })
    }

    /// Whether nothing that we wrote for services is left in a member.
    pub fn is_clear(&self, cluster: &ClusterName) -> bool {
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
        let exports = service.exports.iter().filter(|(cluster, _)| is_member(view, cluster));
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

    /// The names that the service's importers know its ports by; where they differ, the first cluster's.
    fn accepted(&self, key: &ServiceKey) -> AcceptedNames {
        let Some(service) = self.services.get(key) else { return AcceptedNames::new() };
        let ours = service.imports.values().filter(|import| import.is_ours());
        ours.map(ImportSeen::accepted).find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// Whether it is not known at the moment what a cluster exports of a service.
    fn is_unknown(&self, view: &View, cluster: &ClusterName, key: &ServiceKey) -> bool {
        if !is_member(view, cluster) {
            return false;
        }
        if !self.knows(cluster, Part::Exports) || !self.knows(cluster, Part::Sources) {
            return true;
        }
        let export = self.services.get(key).and_then(|service| service.exports.get(cluster));
        export.is_some_and(|export| matches!(export.offered, Offered::Unreadable(Unreadable::Newer(_))))
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

    /// Takes note of the ranges that a member's endpoints must be in.
    pub fn set_ranges(&mut self, cluster: &ClusterName, ranges: Option<Box<[Cidr]>>) -> Dirty {
        self.members.entry(cluster.clone()).or_default().ranges = ranges;
        Dirty::new()
    }

    /// Takes note of a ServiceExport of a member; none if it is gone.
    pub fn see_export(&mut self, cluster: &ClusterName, key: &ServiceKey, seen: Option<ExportSeen>) -> Dirty {
        if !self.takes_part(key.namespace.as_str()) {
            return Dirty::new();
        }
        let exports = &mut self.services.entry(key.clone()).or_default().exports;
        let before = exports.get(cluster);
        if before == seen.as_ref() {
            self.tidy(key);
            return Dirty::new();
        }
        // What only concerns its own conditions is nobody else's business.
        let alone = before.zip(seen.as_ref()).is_some_and(|(before, now)| {
            before.offered == now.offered && before.created == now.created && before.template == now.template
        });
        put(exports, cluster, seen);
        let dirty = if alone { Dirty::from([(cluster.clone(), key.clone())]) } else { self.everywhere(key) };
        self.tidy(key);
        dirty
    }

    /// Takes note of a ServiceImport of a member; none if it is gone.
    pub fn see_import(&mut self, cluster: &ClusterName, key: &ServiceKey, seen: Option<ImportSeen>) -> Dirty {
        let imports = &mut self.services.entry(key.clone()).or_default().imports;
        let changed = imports.get(cluster) != seen.as_ref();
        put(imports, cluster, seen);
        self.tidy(key);
        if changed { Dirty::from([(cluster.clone(), key.clone())]) } else { Dirty::new() }
    }

    /// Takes note of a slice that a member's agent offers. One that is not believed changes nothing.
    pub fn see_source(&mut self, cluster: &ClusterName, slice: EndpointSlice) -> Result<Dirty, Refused> {
        let name: Box<str> = slice.metadata.name.as_deref().unwrap_or_default().into();
        let Some(key) = source_key(&slice) else {
            return Err(Refused("it names no service".to_owned()));
        };
        if !self.takes_part(key.namespace.as_str()) {
            return Err(Refused(format!("the namespace {} takes no part", key.namespace)));
        }
        let ranges = self.members.get(cluster).and_then(|member| member.ranges.as_deref());
        trust::check(&slice, ranges)?;
        let sources =
            self.services.entry(key.clone()).or_default().sources.entry(cluster.clone()).or_default();
        let same = |before: &Arc<EndpointSlice>| {
            (&before.address_type, &before.endpoints, &before.ports)
                == (&slice.address_type, &slice.endpoints, &slice.ports)
        };
        if sources.get(&name).is_some_and(same) {
            return Ok(Dirty::new());
        }
        sources.insert(name, Arc::new(slice));
        Ok(self.importers(&key))
    }

    /// Takes note that a slice that a member's agent offered is gone.
    pub fn lose_source(&mut self, cluster: &ClusterName, key: &ServiceKey, name: &str) -> Dirty {
        let Some(service) = self.services.get_mut(key) else { return Dirty::new() };
        let Some(slices) = service.sources.get_mut(cluster) else { return Dirty::new() };
        if slices.remove(name).is_none() {
            return Dirty::new();
        }
        if slices.is_empty() {
            service.sources.remove(cluster);
        }
        let dirty = self.importers(key);
        self.tidy(key);
        dirty
    }

    /// Takes note of a slice of ours in a member.
    pub fn see_imported(&mut self, cluster: &ClusterName, slice: &EndpointSlice) -> Dirty {
        let Some((key, seen)) = SliceSeen::of(slice) else { return Dirty::new() };
        let name: Box<str> = slice.metadata.name.as_deref().unwrap_or_default().into();
        let slices =
            self.services.entry(key.clone()).or_default().imported.entry(cluster.clone()).or_default();
        if slices.insert(name, seen.clone()).is_some_and(|before| before.sum == seen.sum) {
            return Dirty::new();
        }
        Dirty::from([(cluster.clone(), key)])
    }

    /// Takes note that a slice of ours in a member is gone.
    pub fn lose_imported(&mut self, cluster: &ClusterName, key: &ServiceKey, name: &str) -> Dirty {
        let Some(service) = self.services.get_mut(key) else { return Dirty::new() };
        let Some(slices) = service.imported.get_mut(cluster) else { return Dirty::new() };
        if slices.remove(name).is_none() {
            return Dirty::new();
        }
        if slices.is_empty() {
            service.imported.remove(cluster);
        }
        self.tidy(key);
        Dirty::from([(cluster.clone(), key.clone())])
    }

    /// Takes note of a Namespace of a member, or that it is gone.
    pub fn see_namespace(&mut self, cluster: &ClusterName, name: &str, there: bool) -> Dirty {
        let namespaces = &mut self.members.entry(cluster.clone()).or_default().namespaces;
        let changed = if there { namespaces.insert(name.into()) } else { namespaces.remove(name) };
        if !changed {
            return Dirty::new();
        }
        let services = self.services.keys().filter(|key| key.namespace.as_str() == name);
        services.map(|key| (cluster.clone(), key.clone())).collect()
    }

    /// Takes note that a part of a member was read as a whole: what was not listed is gone.
    pub fn retain(
        &mut self,
        cluster: &ClusterName,
        part: Part,
        listed: &BTreeSet<(ServiceKey, Box<str>)>,
    ) -> Dirty {
        let mut dirty = Dirty::new();
        for (key, name) in self.kept(cluster, part) {
            if listed.contains(&(key.clone(), name.clone())) {
                continue;
            }
            dirty.extend(match part {
                Part::Exports => self.see_export(cluster, &key, None),
                Part::Imports => self.see_import(cluster, &key, None),
                Part::Sources => self.lose_source(cluster, &key, &name),
                Part::Imported => self.lose_imported(cluster, &key, &name),
                Part::Namespaces => Dirty::new(),
            });
        }
        if self.members.entry(cluster.clone()).or_default().known.insert(part) {
            // Until now nobody could tell: what waited for this cluster is looked at everywhere.
            let keys: Vec<_> = self.services.keys().cloned().collect();
            dirty.extend(keys.iter().flat_map(|key| self.everywhere(key)));
        }
        dirty
    }

    /// Takes note of all Namespaces of a member.
    pub fn retain_namespaces(&mut self, cluster: &ClusterName, listed: &BTreeSet<Box<str>>) -> Dirty {
        let kept = self.members.get(cluster).map(|member| member.namespaces.clone()).unwrap_or_default();
        let gone: Vec<_> = kept.difference(listed).cloned().collect();
        let mut dirty: Dirty =
            gone.iter().flat_map(|name| self.see_namespace(cluster, name, false)).collect();
        dirty.extend(self.retain(cluster, Part::Namespaces, &BTreeSet::new()));
        dirty
    }

    /// Forgets a member that is gone.
    pub fn forget(&mut self, cluster: &ClusterName) -> Dirty {
        self.members.remove(cluster);
        let keys: Vec<_> = self.services.keys().cloned().collect();
        let mut dirty = Dirty::new();
        for key in keys {
            let Some(service) = self.services.get_mut(&key) else { continue };
            let exported = service.exports.remove(cluster).is_some();
            let offered = service.sources.remove(cluster).is_some();
            service.imports.remove(cluster);
            service.imported.remove(cluster);
            if exported || offered {
                dirty.extend(self.everywhere(&key));
            }
            self.tidy(&key);
        }
        dirty
    }

    fn kept(&self, cluster: &ClusterName, part: Part) -> Vec<(ServiceKey, Box<str>)> {
        let of = |(key, service): (&ServiceKey, &Service)| -> Vec<(ServiceKey, Box<str>)> {
            let one =
                |there: bool| there.then(|| (key.clone(), key.name.as_str().into())).into_iter().collect();
            let named = |names: Option<Vec<Box<str>>>| {
                names.into_iter().flatten().map(|name| (key.clone(), name)).collect()
            };
            match part {
                Part::Exports => one(service.exports.contains_key(cluster)),
                Part::Imports => one(service.imports.contains_key(cluster)),
                Part::Sources => named(service.sources.get(cluster).map(|all| all.keys().cloned().collect())),
                Part::Imported => {
                    named(service.imported.get(cluster).map(|all| all.keys().cloned().collect()))
                }
                Part::Namespaces => Vec::new(),
            }
        };
        self.services.iter().flat_map(of).collect()
    }

    /// Forgets a service that nobody has anything of.
    fn tidy(&mut self, key: &ServiceKey) {
        let empty = self.services.get(key).is_some_and(|service| {
            service.exports.is_empty()
                && service.imports.is_empty()
                && service.sources.is_empty()
                && service.imported.is_empty()
        });
        if empty {
            self.services.remove(key);
        }
    }
}

fn put<T>(map: &mut BTreeMap<ClusterName, T>, cluster: &ClusterName, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(cluster.clone(), value)),
        None => drop(map.remove(cluster)),
    }
}

/// Whether a cluster is a member that stays.
fn is_member(view: &View, cluster: &ClusterName) -> bool {
    view.members().get(cluster).is_some_and(|member| !member.leaving)
}
