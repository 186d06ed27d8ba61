//! What admission knows of the hub: Clusters, policies, the objects that services are made of, and Namespaces.
//!
//! Feed it by `apply_…`, `delete_…` and `retain_…`, a kind each; ask it by [`super::admit`]. It keeps of each object what a
//! verdict needs and no more. The same objects make the same view, in whatever order they came.

mod departures;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use kube::core::ObjectMeta;
use serde::Serialize;

use self::departures::Departures;
pub use self::{
    departures::{ClusterKind, Departure},
    template::{Offer, PORTS, Template, resolves},
};
use super::{
    admit::cidr::{self, Cidr},
    freshness::Silence,
    ids::{ClusterName, ServiceKey},
    merge::Export,
    overrides::Overrides,
    policies::{PolicyKey, Propagations, Reach},
    select::{GroupKind, Member},
};
use crate::api::{
    Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
    ServiceExport, ServiceImport,
    cluster::SecretReference,
    names::{annotation, condition, karmada},
    propagation::PolicyStatus,
};

/// What the members' own agents say of an exported Service.
pub type ExportRecord = Export;

/// What admission knows of the hub.
#[derive(Debug)]
pub struct View {
    members: BTreeMap<ClusterName, Member>,
    /// Members whose Clusters are being deleted, or gone.
    departures: Departures,
    ids: BTreeMap<ClusterName, Box<str>>,
    /// The API servers that Clusters have on record.
    servers: BTreeMap<ClusterName, Box<str>>,
    pods: BTreeMap<ClusterName, Box<[Cidr]>>,
    /// The kinds that members were ever given.
    given: BTreeMap<ClusterName, BTreeSet<GroupKind>>,
    propagations: Propagations,
    overrides: Overrides,
    services: BTreeMap<ServiceKey, Template>,
    exports: BTreeMap<ServiceKey, Template>,
    imports: BTreeMap<ServiceKey, Template>,
    namespaces: BTreeMap<Box<str>, NamespaceEntry>,
    silence: BTreeMap<ClusterName, Silence>,
    /// What Clusters say of copies that could not be removed or written there.
    copies_amiss: BTreeMap<ClusterName, Box<str>>,
    records: BTreeMap<ServiceKey, BTreeMap<ClusterName, ExportRecord>>,
    unknown: BTreeSet<ClusterName>,
    synced: BTreeSet<Source>,
    changes: Changes,
}

/// What changed in a view since somebody asked: what may have to be placed anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Objects that a change of a policy may concern.
    pub reach: BTreeSet<Reach>,
    /// Propagation policies that came or changed, or whose status speaks of an older one.
    pub policies: BTreeSet<PolicyKey>,
    /// Whether any override came or went: some policies wait for them.
    pub overrides: bool,
    /// Members that came, went or changed in what decides over them.
    pub members: BTreeSet<ClusterName>,
    /// Whether any Cluster was written at all: its annotations and its status matter too.
    pub clusters: bool,
    /// Services of which an export or import came or went: that decides who imports them.
    pub services: BTreeSet<ServiceKey>,
    /// Whether a kind was read as a whole for the first time.
    pub synced: bool,
}

/// A kind that the view is fed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Clusters.
    Clusters,
    /// PropagationPolicies.
    PropagationPolicies,
    /// ClusterPropagationPolicies.
    ClusterPropagationPolicies,
    /// OverridePolicies.
    OverridePolicies,
    /// ClusterOverridePolicies.
    ClusterOverridePolicies,
    /// Services.
    Services,
    /// ServiceExports.
    ServiceExports,
    /// ServiceImports.
    ServiceImports,
    /// Namespaces.
    Namespaces,
}

/// What is kept of a Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceEntry {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether port conflicts in it are merged instead of refused.
    pub resolves: bool,
}

// === impl NamespaceEntry ===

impl NamespaceEntry {
    /// Whether it is not to be made in members, by Karmada's own label.
    pub fn is_not_propagated(&self) -> bool {
        self.labels.get(karmada::SKIP_AUTO_PROPAGATION).is_some_and(|value| value == "true")
    }
}

// === impl View ===

impl View {
    /// A view of a hub that nothing is known of yet. Tombolo's own namespace is given since nothing in it is propagated.
    pub fn new(system_namespace: &str) -> Self {
        Self {
            members: BTreeMap::new(),
            departures: Departures::default(),
            ids: BTreeMap::new(),
            pods: BTreeMap::new(),
            servers: BTreeMap::new(),
            given: BTreeMap::new(),
            propagations: Propagations::new(system_namespace),
            overrides: Overrides::new(system_namespace),
            services: BTreeMap::new(),
            exports: BTreeMap::new(),
            imports: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            silence: BTreeMap::new(),
            copies_amiss: BTreeMap::new(),
            records: BTreeMap::new(),
            unknown: BTreeSet::new(),
            synced: BTreeSet::new(),
            changes: Changes::default(),
        }
    }

    /// What changed since this was asked last.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    fn set_synced(&mut self, source: Source) {
        self.changes.synced |= self.synced.insert(source);
    }

    /// The kinds that have not been read as a whole.
    pub fn unsynced(&self) -> impl Iterator<Item = Source> {
        Source::ALL.into_iter().filter(|source| !self.synced.contains(source))
    }

    /// Whether every kind has been read as a whole.
    pub fn is_synced(&self) -> bool {
        self.synced.len() == Source::ALL.len()
    }

    /// The member clusters.
    pub fn members(&self) -> &BTreeMap<ClusterName, Member> {
        &self.members
    }

    /// Since when members are silent.
    pub fn silence(&self) -> &BTreeMap<ClusterName, Silence> {
        &self.silence
    }

    /// What a Cluster says of copies that could not be removed or written there, and of which no policy tells.
    pub fn copies_amiss(&self, cluster: &ClusterName) -> Option<&str> {
        self.copies_amiss.get(cluster).map(|why| &**why)
    }

    /// The clusters that say they are the one of that id.
    pub fn clusters_of_id(&self, id: &str) -> impl Iterator<Item = &ClusterName> {
        self.ids.iter().filter(move |(_, other)| ***other == *id).map(|(cluster, _)| cluster)
    }

    /// The member that an object leads into: it is the Secret that its Cluster names, and so never a template.
    pub fn leads_into(&self, kind: &GroupKind, namespace: &str, name: &str) -> Option<&ClusterName> {
        let secret = kind.group.is_empty() && &*kind.kind == "Secret";
        let is = |of: &SecretReference| of.namespace == namespace && of.name == name;
        let mut members = self.members.values().filter(|_| secret);
        members.find(|member| member.secrets.iter().any(is)).map(|member| &member.name)
    }

    /// The id that a cluster says it has.
    pub fn id_of(&self, cluster: &ClusterName) -> Option<&str> {
        self.ids.get(cluster).map(|id| &**id)
    }

    /// The API server that a Cluster led to when this hub used it last, if that was recorded.
    pub fn server_of(&self, cluster: &ClusterName) -> Option<&str> {
        self.servers.get(cluster).map(|server| &**server)
    }

    /// Whether a member was ever given an object of any kind.
    pub fn was_given_any(&self, cluster: &ClusterName) -> bool {
        self.given.get(cluster).is_some_and(|kinds| !kinds.is_empty())
    }

    /// The ranges that pods of clusters have their addresses from, as far as they are known.
    pub fn pod_ranges(&self) -> impl Iterator<Item = (&str, &[Cidr])> {
        self.pods.iter().map(|(cluster, ranges)| (cluster.as_str(), &**ranges))
    }

    /// Whether a member was ever given an object of a kind: its Cluster says so before the first is written.
    pub fn was_given(&self, cluster: &ClusterName, kind: &GroupKind) -> bool {
        self.given.get(cluster).is_some_and(|kinds| kinds.contains(kind))
    }

    /// The policies that place objects.
    pub fn propagations(&self) -> &Propagations {
        &self.propagations
    }

    /// The policies that change objects.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Services on the hub.
    pub fn services(&self) -> &BTreeMap<ServiceKey, Template> {
        &self.services
    }

    /// ServiceExports on the hub.
    pub fn exports(&self) -> &BTreeMap<ServiceKey, Template> {
        &self.exports
    }

    /// ServiceImports on the hub.
    pub fn imports(&self) -> &BTreeMap<ServiceKey, Template> {
        &self.imports
    }

    /// A Namespace of the hub.
    pub fn namespace(&self, name: &str) -> Option<&NamespaceEntry> {
        self.namespaces.get(name)
    }

    /// The Namespaces of the hub.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &NamespaceEntry)> {
        self.namespaces.iter().map(|(name, namespace)| (&**name, namespace))
    }

    /// Whether a Namespace asks for port conflicts to be merged instead of refused.
    pub fn resolves_in(&self, namespace: &str) -> bool {
        self.namespace(namespace).is_some_and(|namespace| namespace.resolves)
    }

    /// What members say of the exports of a service.
    pub fn records(&self, key: &ServiceKey) -> Option<&BTreeMap<ClusterName, ExportRecord>> {
        self.records.get(key)
    }

    /// What members say of their exports, by service.
    pub fn all_records(&self) -> &BTreeMap<ServiceKey, BTreeMap<ClusterName, ExportRecord>> {
        &self.records
    }

    /// The clusters whose exports are not known at the moment.
    pub fn unknown(&self) -> &BTreeSet<ClusterName> {
        &self.unknown
    }

    /// Takes note of what a member exports; none if it no longer does.
    pub fn record(&mut self, key: ServiceKey, cluster: ClusterName, record: Option<ExportRecord>) {
        match record {
            Some(record) => {
                self.records.entry(key).or_default().insert(cluster, record);
            }
            None => {
                let Some(clusters) = self.records.get_mut(&key) else { return };
                clusters.remove(&cluster);
                if clusters.is_empty() {
                    self.records.remove(&key);
                }
            }
        }
    }

    /// Takes note of the clusters whose exports are not known at the moment.
    pub fn set_unknown(&mut self, clusters: BTreeSet<ClusterName>) {
        self.unknown = clusters;
    }

    /// Takes note of a Cluster. One whose name is none is no member.
    pub fn apply_cluster(&mut self, cluster: Cluster) {
        let Ok(member) = Member::of(&cluster) else { return };
        self.changes.clusters = true;
        let name = member.name.clone();
        self.silence.insert(name.clone(), Silence::of(&cluster));
        self.given.insert(name.clone(), recorded(&cluster));
        match copies_amiss(&cluster) {
            Some(why) => self.copies_amiss.insert(name.clone(), why.into()),
            None => self.copies_amiss.remove(&name),
        };
        let annotations = cluster.metadata.annotations.as_ref();
        match annotations.and_then(|all| all.get(annotation::API_SERVER)) {
            Some(server) => self.servers.insert(name.clone(), server.as_str().into()),
            None => self.servers.remove(&name),
        };
        match cluster.spec.id {
            Some(id) => self.ids.insert(name.clone(), id.into()),
            None => self.ids.remove(&name),
        };
        let pods = cluster.metadata.annotations.as_ref().and_then(|all| all.get(annotation::POD_CIDRS));
        match pods.and_then(|ranges| cidr::list(ranges).ok()) {
            Some(ranges) => self.pods.insert(name.clone(), ranges.into()),
            None => self.pods.remove(&name),
        };
        if self.members.get(&name) != Some(&member) {
            self.changes.members.insert(name.clone());
            self.members.insert(name, member);
        }
    }

    /// Takes note that a Cluster is gone.
    pub fn delete_cluster(&mut self, name: &str) {
        self.changes.clusters = true;
        if let Some(member) = self.members.remove(name) {
            self.changes.members.insert(member.name);
        }
        self.silence.remove(name);
        self.copies_amiss.remove(name);
        self.ids.remove(name);
        self.servers.remove(name);
        self.pods.remove(name);
        self.given.remove(name);
    }

    /// Takes note that these are all Clusters.
    pub fn retain_clusters(&mut self, all: &BTreeSet<String>) {
        let gone: Vec<_> = self.members.keys().filter(|name| !all.contains(name.as_str())).cloned().collect();
        gone.iter().for_each(|name| self.delete_cluster(name.as_str()));
        self.set_synced(Source::Clusters);
    }

    /// Takes note of a Namespace.
    pub fn apply_namespace(&mut self, namespace: core::Namespace) {
        let ObjectMeta { name: Some(name), labels, annotations, .. } = namespace.metadata else { return };
        let rule = annotations.and_then(|mut annotations| annotations.remove(annotation::PORT_CONFLICTS));
        let resolves = rule.is_some_and(|rule| rule == annotation::PORT_CONFLICTS_RESOLVE);
        self.namespaces.insert(name.into(), NamespaceEntry { labels: labels.unwrap_or_default(), resolves });
    }

    /// Takes note that a Namespace is gone.
    pub fn delete_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Takes note that these are all Namespaces.
    pub fn retain_namespaces(&mut self, all: &BTreeSet<String>) {
        self.namespaces.retain(|name, _| all.contains(&**name));
        self.set_synced(Source::Namespaces);
    }
}

macro_rules! policies {
    ($($Kind:ident: $apply:ident, $delete:ident, $retain:ident, $index:ident, $namespaced:literal, $Source:ident, $over:literal, $told:expr;)+) => {
        impl View {$(
            #[doc = concat!("Takes note of a ", stringify!($Kind), ".")]
            pub fn $apply(&mut self, policy: $Kind) {
                let reach = self.$index.apply(&policy.metadata, &policy.spec);
                self.changes.overrides |= $over && !reach.is_empty();
                let told: fn(&$Kind) -> bool = $told;
                if !$over && !(reach.is_empty() && told(&policy)) {
                    self.changes.policies.insert(PolicyKey::of(&policy.metadata));
                }
                self.changes.reach.extend(reach);
            }

            #[doc = concat!("Takes note that a ", stringify!($Kind), " is gone.")]
            pub fn $delete(&mut self, key: &PolicyKey) {
                self.changes.overrides |= $over;
                self.changes.reach.extend(self.$index.delete(key));
            }

            #[doc = concat!("Takes note that these are all objects of the kind ", stringify!($Kind), ".")]
            pub fn $retain(&mut self, all: &BTreeSet<PolicyKey>) {
                let kept = self.$index.keys().filter(|key| key.namespace.is_some() == $namespaced);
                let gone: Vec<_> = kept.filter(|key| !all.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.$delete(key));
                self.set_synced(Source::$Source);
            }
        )+}
    };
}

policies! {
    PropagationPolicy: apply_propagation_policy, delete_propagation_policy, retain_propagation_policies, propagations, true,
        PropagationPolicies, false, |policy| is_told(&policy.metadata, policy.status.as_ref());
    ClusterPropagationPolicy: apply_cluster_propagation_policy, delete_cluster_propagation_policy,
        retain_cluster_propagation_policies, propagations, false, ClusterPropagationPolicies, false,
        |policy| is_told(&policy.metadata, policy.status.as_ref());
    OverridePolicy: apply_override_policy, delete_override_policy, retain_override_policies, overrides, true,
        OverridePolicies, true, |_| true;
    ClusterOverridePolicy: apply_cluster_override_policy, delete_cluster_override_policy,
        retain_cluster_override_policies, overrides, false, ClusterOverridePolicies, true, |_| true;
}

/// The kinds that a Cluster has on record.
pub fn recorded(cluster: &Cluster) -> BTreeSet<GroupKind> {
    let annotations = cluster.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(annotation::KINDS)).map(String::as_str).unwrap_or_default();
    let kinds = text.split(',').filter(|text| !text.is_empty()).map(|text| {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        GroupKind { group: group.into(), kind: kind.into() }
    });
    kinds.collect()
}

fn copies_amiss(cluster: &Cluster) -> Option<&str> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let kinds = [condition::COPIES_REMOVED, condition::COPIES_CURRENT];
    let mut unmet = conditions.iter().filter(|it| kinds.contains(&&*it.type_) && it.status != "True");
    unmet.next().map(|it| &*it.message)
}

/// Whether a policy's status speaks of the policy as it is.
fn is_told(metadata: &ObjectMeta, status: Option<&PolicyStatus>) -> bool {
    status.and_then(|status| status.observed_generation) == metadata.generation
}

macro_rules! templates {
    ($($Kind:ty: $apply:ident, $delete:ident, $retain:ident, $map:ident, $Source:ident, $exchanged:literal;)+) => {
        impl View {$(
            #[doc = concat!("Takes note of a ", stringify!($Kind), ". One whose name is none is left out.")]
            pub fn $apply(&mut self, object: $Kind) {
                if let Some((key, template)) = keyed(&object.metadata, &object) {
                    let new = self.$map.insert(key.clone(), template).is_none();
                    self.changes.services.extend((new && $exchanged).then_some(key));
                }
            }

            #[doc = concat!("Takes note that a ", stringify!($Kind), " is gone.")]
            pub fn $delete(&mut self, key: &ServiceKey) {
                let gone = self.$map.remove(key).is_some();
                self.changes.services.extend((gone && $exchanged).then(|| key.clone()));
            }

            #[doc = concat!("Takes note that these are all objects of the kind ", stringify!($Kind), ".")]
            pub fn $retain(&mut self, all: &BTreeSet<ServiceKey>) {
                let gone: Vec<_> = self.$map.keys().filter(|key| !all.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| self.$delete(key));
                self.set_synced(Source::$Source);
            }
        )+}
    };
}

templates! {
    core::Service: apply_service, delete_service, retain_services, services, Services, false;
    ServiceExport: apply_export, delete_export, retain_exports, exports, ServiceExports, true;
    ServiceImport: apply_import, delete_import, retain_imports, imports, ServiceImports, true;
}

fn keyed(metadata: &ObjectMeta, object: &impl Serialize) -> Option<(ServiceKey, Template)> {
    let (namespace, name) = (metadata.namespace.as_deref()?, metadata.name.as_deref()?);
    let key = ServiceKey::parse(namespace, name).ok()?;
    Some((key, Template::of(&serde_json::to_value(object).ok()?)))
}

// === impl Source ===

impl Source {
    const ALL: [Self; 9] = [
        Self::Clusters,
        Self::PropagationPolicies,
        Self::ClusterPropagationPolicies,
        Self::OverridePolicies,
        Self::ClusterOverridePolicies,
        Self::Services,
        Self::ServiceExports,
        Self::ServiceImports,
        Self::Namespaces,
    ];
}
