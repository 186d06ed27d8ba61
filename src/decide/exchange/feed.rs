//! How the exchange comes to know what members have: every call says who has to look at which service.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{
    Dirty, Exchange, ExportSeen, ImportSeen, Member, Offered, Part, Refused, Service, SliceSeen, id,
    seen::{imported_by_labels, source_metadata},
};
use crate::decide::{
    change::Change,
    derived::slice_name,
    freshness::Grade,
    ids::{ClusterName, ServiceKey},
};

// === impl Member ===

impl Member {
    /// Whether an object is not news: it was deleted, or is older than what was seen. What is listed always counts, since a cluster that
    /// was restored from a backup goes back.
    fn is_late(&self, part: Part, uid: &str, older: bool) -> bool {
        !self.listing.contains(&part) && (older || self.dead.has(uid))
    }
}

// === impl Exchange ===

impl Exchange {
    /// Takes note of a ServiceExport of a member; none if it is gone.
    pub fn see_export(
        &mut self,
        cluster: &ClusterName,
        key: &ServiceKey,
        mut seen: Option<ExportSeen>,
    ) -> Dirty {
        if !self.takes_part(key.namespace.as_str()) {
            seen = seen.map(ExportSeen::excluded);
        }
        self.judge(cluster, (Part::Exports, key), seen.as_ref().and_then(ExportSeen::refused));
        let member = self.members.entry(cluster.clone()).or_default();
        let exports = &mut self.services.entry(key.clone()).or_default().exports;
        let before = exports.get(cluster);
        // One that was made again before its absence counted, as with its whole kind, offers what it did until its agent has said more.
        if let (Some(before), Some(now)) = (before, &mut seen)
            && now.offered == Offered::Pending
            && matches!(before.offered, Offered::Service(_))
        {
            now.offered = before.offered.clone();
        }
        let late = seen.as_ref().is_some_and(|seen| {
            member.is_late(Part::Exports, &seen.uid, before.is_some_and(|before| seen.is_older_than(before)))
        });
        let same = match (before, &seen) {
            (Some(before), Some(seen)) => before.says_the_same(seen),
            (before, seen) => before.is_none() && seen.is_none(),
        };
        if late || same {
            self.tidy(key);
            return Dirty::new();
        }
        if let Some(gone) = before.filter(|gone| seen.as_ref().is_none_or(|seen| seen.uid != gone.uid)) {
            member.dead.insert(&gone.uid);
        }
        // What only concerns its own conditions is nobody else's business.
        let alone = before.zip(seen.as_ref()).is_some_and(|(before, now)| {
            before.offered == now.offered && before.created == now.created && before.template == now.template
        });
        put(exports, cluster, seen);
        self.withdrawn.remove(&(key.clone(), cluster.clone()));
        let dirty = if alone { Dirty::from([(cluster.clone(), key.clone())]) } else { self.everywhere(key) };
        self.tidy(key);
        dirty
    }

    /// Takes note of how a ServiceExport of a member is after we wrote its conditions. Whether it is believed the watch alone tells: one that
    /// shows it otherwise would be answered by the next write, for ever.
    pub fn see_answer(&mut self, cluster: &ClusterName, key: &ServiceKey, seen: ExportSeen) -> Dirty {
        let before = self.services.get(key).and_then(|service| service.exports.get(cluster));
        let seen = match before.filter(|before| before.refused().is_some() && before.uid == seen.uid) {
            Some(before) => ExportSeen {
                conditions: seen.conditions,
                resource_version: seen.resource_version,
                ..before.clone()
            },
            None => seen,
        };
        self.see_export(cluster, key, Some(seen))
    }

    /// Takes note of a ServiceImport of a member; none if it is gone.
    pub fn see_import(&mut self, cluster: &ClusterName, key: &ServiceKey, seen: Option<ImportSeen>) -> Dirty {
        let refused = seen.as_ref().and_then(|seen| seen.refused.as_ref());
        self.judge(cluster, (Part::Imports, key), refused);
        let member = self.members.entry(cluster.clone()).or_default();
        let imports = &mut self.services.entry(key.clone()).or_default().imports;
        let before = imports.get(cluster);
        if refused.is_some() && before.is_some() {
            return Dirty::new();
        }
        let late = seen.as_ref().is_some_and(|seen| {
            member.is_late(Part::Imports, &seen.uid, before.is_some_and(|before| seen.is_older_than(before)))
        });
        if late {
            self.tidy(key);
            return Dirty::new();
        }
        if let Some(gone) = before.filter(|gone| seen.as_ref().is_none_or(|seen| seen.uid != gone.uid)) {
            member.dead.insert(&gone.uid);
        }
        let changed = match (before, &seen) {
            (Some(before), Some(seen)) => !before.says_the_same(seen),
            (before, seen) => before.is_some() || seen.is_some(),
        };
        put(imports, cluster, seen);
        self.tidy(key);
        if changed { Dirty::from([(cluster.clone(), key.clone())]) } else { Dirty::new() }
    }

    /// Takes note of a slice that a member's agent offers. One that is not believed changes nothing.
    pub fn see_source(&mut self, cluster: &ClusterName, mut slice: EndpointSlice) -> Result<Dirty, Refused> {
        let id = id(Part::Sources, &slice.metadata);
        let key = match self.believed(cluster, &slice) {
            Ok(key) => key,
            Err(refused) => {
                self.refuse(cluster, id, refused.clone(), Some(&slice));
                return Err(refused);
            }
        };
        self.forgive(cluster, &id);
        let name: Box<str> = slice.metadata.name.as_deref().unwrap_or_default().into();
        let change = Change::of(&slice);
        slice.metadata = source_metadata(&key, &name, change.as_ref());
        let sources =
            self.services.entry(key.clone()).or_default().sources.entry(cluster.clone()).or_default();
        let same = |before: &Arc<EndpointSlice>| {
            (&before.address_type, &before.endpoints, &before.ports)
                == (&slice.address_type, &slice.endpoints, &slice.ports)
        };
        if sources.get(&name).is_some_and(same) {
            return Ok(Dirty::new());
        }
        let becomes: Box<str> = slice_name(&key, cluster, &name).into();
        sources.insert(name, Arc::new(slice));
        let importers = self.importers(&key);
        // What is listed may have changed long ago.
        let listed = self.members.get(cluster).is_some_and(|member| member.listing.contains(&Part::Sources));
        if let (Some(change), Some(service)) = (change.filter(|_| !listed), self.services.get_mut(&key)) {
            for (importer, _) in importers.iter().filter(|(importer, _)| importer != cluster) {
                service.underway.insert((importer.clone(), becomes.clone()), change.clone());
            }
        }
        Ok(importers)
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
        let became = slice_name(key, cluster, name);
        service.underway.retain(|(_, slice), _| **slice != *became);
        let dirty = self.importers(key);
        self.tidy(key);
        dirty
    }

    /// The service that a slice of ours in a member belongs to, and the cluster that it is from. What is known of its name counts, whatever
    /// became of its labels.
    pub fn imported_of(
        &self,
        cluster: &ClusterName,
        slice: &EndpointSlice,
    ) -> Option<(ServiceKey, ClusterName)> {
        let (namespace, name) = (slice.metadata.namespace.as_deref()?, slice.metadata.name.as_deref()?);
        // Its name begins with the service's.
        let mut known = name.match_indices('-').filter_map(|(end, _)| {
            let key = ServiceKey::parse(namespace, &name[..end]).ok()?;
            let seen = self.services.get(&key)?.imported.get(cluster)?.get(name)?;
            Some((key, seen.cluster.clone()))
        });
        known.next().or_else(|| imported_by_labels(slice))
    }

    /// Takes note of a slice of ours in a member.
    pub fn see_imported(&mut self, cluster: &ClusterName, slice: &EndpointSlice) -> Dirty {
        let Some((key, from)) = self.imported_of(cluster, slice) else { return Dirty::new() };
        self.find_imported(cluster, (&key, &from), slice)
    }

    /// Takes note of what a member has under the name of a slice of ours: it is that slice, whatever became of its labels.
    pub fn find_imported(
        &mut self,
        cluster: &ClusterName,
        (key, from): (&ServiceKey, &ClusterName),
        slice: &EndpointSlice,
    ) -> Dirty {
        let Some(seen) = SliceSeen::from(slice, from) else { return Dirty::new() };
        let seen = SliceSeen { within: self.is_within(from, slice), ..seen };
        let name: Box<str> = slice.metadata.name.as_deref().unwrap_or_default().into();
        let found = self.services.get(key).and_then(|service| service.imported.get(cluster)?.get(&name));
        let older = found.is_some_and(|before| seen.is_older_than(before));
        if self.members.entry(cluster.clone()).or_default().is_late(Part::Imported, &seen.uid, older) {
            return Dirty::new();
        }
        let service = self.services.entry(key.clone()).or_default();
        let underway = (cluster.clone(), name.clone());
        if service.underway.get(&underway).is_some_and(|change| Change::of(slice).as_ref() == Some(change)) {
            service.underway.remove(&underway);
        }
        let slices = service.imported.entry(cluster.clone()).or_default();
        if slices.insert(name, seen.clone()).is_some_and(|before| before.sum == seen.sum) {
            return Dirty::new();
        }
        Dirty::from([(cluster.clone(), key.clone())])
    }

    /// The change of endpoints that a slice brings to a member, if it is not there yet.
    pub fn underway(&self, cluster: &ClusterName, slice: &EndpointSlice) -> Option<Change> {
        let (key, _) = SliceSeen::of(slice)?;
        let name = slice.metadata.name.as_deref()?.into();
        let underway = self.services.get(&key)?.underway.get(&(cluster.clone(), name))?;
        Change::of(slice).filter(|change| change == underway)
    }

    /// Takes note that a slice in a member has our label no more: whether it is gone a look will tell.
    pub fn doubt_imported(&mut self, cluster: &ClusterName, key: &ServiceKey, name: &str) -> Dirty {
        let service = self.services.get_mut(key);
        let seen = service.and_then(|service| service.imported.get_mut(cluster)?.get_mut(name));
        let Some(seen) = seen else { return Dirty::new() };
        seen.doubted = true;
        Dirty::from([(cluster.clone(), key.clone())])
    }

    /// Takes note that a slice of ours in a member is gone.
    pub fn lose_imported(&mut self, cluster: &ClusterName, key: &ServiceKey, name: &str) -> Dirty {
        let Some(service) = self.services.get_mut(key) else { return Dirty::new() };
        let Some(slices) = service.imported.get_mut(cluster) else { return Dirty::new() };
        let Some(gone) = slices.remove(name) else { return Dirty::new() };
        self.members.entry(cluster.clone()).or_default().dead.insert(&gone.uid);
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

    /// The definition that a part of a member was last read as a whole under.
    pub fn defined_by(&self, cluster: &ClusterName, part: Part) -> Option<&str> {
        self.members.get(cluster)?.definitions.get(&part).map(|uid| &**uid)
    }

    /// Takes note of the definition that a part of a member was read as a whole under.
    pub fn define(&mut self, cluster: &ClusterName, part: Part, uid: &str) {
        self.members.entry(cluster.clone()).or_default().definitions.insert(part, uid.into());
    }

    /// Takes note that a part of a member is about to be read as a whole: what it lists lives, whatever was thought.
    pub fn begin(&mut self, cluster: &ClusterName, part: Part) -> Dirty {
        let member = self.members.entry(cluster.clone()).or_default();
        member.dead.clear();
        member.listing.insert(part);
        Dirty::new()
    }

    /// Takes note of how fresh what is known of the members is.
    pub fn set_grades(&mut self, grades: BTreeMap<ClusterName, Grade>) -> Dirty {
        let changed =
            |name: &&ClusterName| self.grade(name) != grades.get(*name).copied().unwrap_or_default();
        let names: BTreeSet<_> = self.grades.keys().chain(grades.keys()).filter(changed).cloned().collect();
        self.grades = grades;
        if names.is_empty() {
            return Dirty::new();
        }
        let concerned = |service: &Service| {
            let slices = service.imported.values().flat_map(BTreeMap::values);
            let mut from =
                service.exports.keys().chain(service.sources.keys()).chain(slices.map(|seen| &seen.cluster));
            from.any(|name| names.contains(name))
        };
        let keys = self.services.iter().filter(|(_, service)| concerned(service)).map(|(key, _)| key);
        keys.flat_map(|key| self.everywhere(key)).collect()
    }

    /// Takes note that what a silent cluster exports is gone from the hub for certain.
    pub fn withdraw(&mut self, cluster: &ClusterName, key: &ServiceKey) -> Dirty {
        self.withdrawn.insert((key.clone(), cluster.clone()));
        self.everywhere(key)
    }

    /// Takes note that the ServiceImport that members have a service of is gone from the hub for certain.
    pub fn release(&mut self, key: &ServiceKey) -> Dirty {
        self.released.insert(key.clone());
        self.everywhere(key)
    }

    /// Takes note that an export or import on the hub came or went: what was certain before may be no more.
    pub fn reconsider(&mut self, key: &ServiceKey) -> Dirty {
        self.released.remove(key);
        self.withdrawn.retain(|(withdrawn, _)| withdrawn != key);
        self.everywhere(key)
    }

    /// Takes note that a part of a member was read as a whole: what was not listed is gone.
    pub fn retain(
        &mut self,
        cluster: &ClusterName,
        part: Part,
        listed: &BTreeSet<(ServiceKey, Box<str>)>,
    ) -> Dirty {
        let mut dirty = Dirty::new();
        for (key, name) in self.unlisted(cluster, part, listed) {
            dirty.extend(match part {
                Part::Exports => self.see_export(cluster, &key, None),
                Part::Imports => self.see_import(cluster, &key, None),
                Part::Sources => self.lose_source(cluster, &key, &name),
                Part::Imported => self.lose_imported(cluster, &key, &name),
                Part::Namespaces => Dirty::new(),
            });
        }
        let member = self.members.entry(cluster.clone()).or_default();
        member.listing.remove(&part);
        if part != Part::Namespaces {
            // What was made while the list was read is not on it: the watch shows that next, and it is no late word of something dead.
            member.dead.clear();
        }
        if part == Part::Exports {
            self.withdrawn.retain(|(_, withdrawn)| withdrawn != cluster);
        }
        if self.members.entry(cluster.clone()).or_default().known.insert(part) {
            // Until now nobody could tell: what waited for this cluster is looked at everywhere.
            let keys: Vec<_> = self.services.keys().cloned().collect();
            dirty.extend(keys.iter().flat_map(|key| self.everywhere(key)));
        }
        dirty
    }

    /// Takes note that the kind of ServiceImports was made anew in a member, and what it has now: those of ours that were not listed are gone
    /// and can be made again. A user's may come back, and are not ours to replace.
    pub fn retain_users_imports(
        &mut self,
        cluster: &ClusterName,
        listed: &BTreeSet<(ServiceKey, Box<str>)>,
    ) -> Dirty {
        let mut gone = self.kept(cluster, Part::Imports);
        gone.retain(|one| {
            let seen = self.services.get(&one.0).and_then(|service| service.imports.get(cluster));
            !listed.contains(one) && seen.is_some_and(ImportSeen::is_ours)
        });
        gone.iter().flat_map(|(key, _)| self.see_import(cluster, key, None)).collect()
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

    /// Takes note whether a member has a kind at all.
    pub fn see_kind(&mut self, cluster: &ClusterName, part: Part, there: bool) -> Dirty {
        let lacks = &mut self.members.entry(cluster.clone()).or_default().lacks;
        if if there { lacks.remove(&part) } else { lacks.insert(part) } {
            return self.everything();
        }
        Dirty::new()
    }

    /// Forgets a member that is gone.
    pub fn forget(&mut self, cluster: &ClusterName) -> Dirty {
        self.members.remove(cluster);
        self.withdrawn.retain(|(_, withdrawn)| withdrawn != cluster);
        let keys: Vec<_> = self.services.keys().cloned().collect();
        let mut dirty = Dirty::new();
        for key in keys {
            let Some(service) = self.services.get_mut(&key) else { continue };
            let exported = service.exports.remove(cluster).is_some();
            let offered = service.sources.remove(cluster).is_some();
            service.imports.remove(cluster);
            service.imported.remove(cluster);
            service.underway.retain(|(importer, _), _| importer != cluster);
            if exported || offered {
                dirty.extend(self.everywhere(&key));
                // Its exports are told to others too, even if no member is left to look.
                dirty.insert((cluster.clone(), key.clone()));
            }
            self.tidy(&key);
        }
        dirty
    }

    /// What is known of a part of a member and was not listed: the service, and the object's name.
    pub fn unlisted(
        &self,
        cluster: &ClusterName,
        part: Part,
        listed: &BTreeSet<(ServiceKey, Box<str>)>,
    ) -> Vec<(ServiceKey, Box<str>)> {
        let mut kept = self.kept(cluster, part);
        kept.retain(|one| !listed.contains(one));
        kept
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
            self.released.remove(key);
        }
    }
}

fn put<T>(map: &mut BTreeMap<ClusterName, T>, cluster: &ClusterName, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(cluster.clone(), value)),
        None => drop(map.remove(cluster)),
    }
}
