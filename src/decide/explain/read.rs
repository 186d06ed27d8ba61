//! What was read of the hub: its objects as they came, and the view that the hub's own rules are asked with.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::core::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use crate::{
    api::{
        Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
        ServiceExport, ServiceImport,
        names::condition,
        overrides::OverrideSpec,
        propagation::{PolicyStatus, PropagationSpec},
    },
    decide::{
        copy::ObjectKey,
        exchange::service_key,
        ids::{ClusterName, ServiceKey},
        overview::MemberRead,
        policies::PolicyKey,
        view::View,
    },
};

/// What was read of the hub.
#[derive(Debug)]
pub struct Read {
    /// Whether a hub is at work, and if not, how one sees that.
    pub hub: Result<(), String>,
    pub(super) view: View,
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) policies: BTreeMap<PolicyKey, PolicyRead>,
    pub(super) services: BTreeMap<ServiceKey, Service>,
    pub(super) exports: BTreeMap<ServiceKey, ServiceExport>,
    pub(super) imports: BTreeMap<ServiceKey, ServiceImport>,
    pub(super) templates: BTreeMap<ObjectKey, Value>,
    /// OverridePolicies and ClusterOverridePolicies.
    pub(super) overrides: BTreeMap<PolicyKey, (ObjectMeta, OverrideSpec)>,
    /// What events say that failed and when, by object: `member1: why`, the newest last.
    pub(super) failures: BTreeMap<ObjectKey, Vec<(Option<Timestamp>, String)>>,
    /// Objects of the same kind and name in other namespaces.
    pub(super) namesakes: BTreeMap<ObjectKey, Vec<String>>,
    /// What members themselves have; they are asked for a service of which the hub has neither export nor import.
    pub(super) asked: Vec<MemberRead>,
}

/// A policy as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRead {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What it asks for.
    pub spec: PropagationSpec,
    /// What became of it.
    pub status: PolicyStatus,
}

// === impl Read ===

impl Read {
    /// Nothing was read yet. Tombolo's own namespace is given since nothing in it is propagated.
    pub fn new(system_namespace: &str) -> Self {
        Self {
            hub: Ok(()),
            view: View::new(system_namespace),
            clusters: BTreeMap::new(),
            policies: BTreeMap::new(),
            services: BTreeMap::new(),
            exports: BTreeMap::new(),
            imports: BTreeMap::new(),
            templates: BTreeMap::new(),
            overrides: BTreeMap::new(),
            failures: BTreeMap::new(),
            namesakes: BTreeMap::new(),
            asked: Vec::new(),
        }
    }

    /// What an override policy that was read asks for.
    pub fn overriding(&self, key: &PolicyKey) -> Option<&OverrideSpec> {
        self.overrides.get(key).map(|(_, spec)| spec)
    }

    /// The policies that were read.
    pub fn policies(&self) -> impl Iterator<Item = (&PolicyKey, &PolicyRead)> {
        self.policies.iter()
    }

    /// Takes note of a Cluster.
    pub fn add_cluster(&mut self, cluster: Cluster) {
        self.view.apply_cluster(cluster.clone());
        self.clusters.insert(cluster.metadata.name.clone().unwrap_or_default(), cluster);
    }

    /// Takes note of a PropagationPolicy.
    pub fn add_policy(&mut self, policy: PropagationPolicy) {
        self.view.apply_propagation_policy(policy.clone());
        self.keep(policy.into());
    }

    /// Takes note of a ClusterPropagationPolicy.
    pub fn add_cluster_policy(&mut self, policy: ClusterPropagationPolicy) {
        self.view.apply_cluster_propagation_policy(policy.clone());
        self.keep(policy.into());
    }

    fn keep(&mut self, policy: PolicyRead) {
        self.policies.insert(PolicyKey::of(&policy.metadata), policy);
    }

    /// Takes note of an OverridePolicy.
    pub fn add_override(&mut self, policy: OverridePolicy) {
        self.keep_override(&policy.metadata, &policy.spec);
        self.view.apply_override_policy(policy);
    }

    /// Takes note of a ClusterOverridePolicy.
    pub fn add_cluster_override(&mut self, policy: ClusterOverridePolicy) {
        self.keep_override(&policy.metadata, &policy.spec);
        self.view.apply_cluster_override_policy(policy);
    }

    fn keep_override(&mut self, metadata: &ObjectMeta, spec: &OverrideSpec) {
        self.overrides.insert(PolicyKey::of(metadata), (metadata.clone(), spec.clone()));
    }

    /// Takes note of a Service.
    pub fn add_service(&mut self, service: Service) {
        let Some(key) = service_key(&service.metadata) else { return };
        self.keep_template(&service);
        self.view.apply_service(service.clone());
        self.services.insert(key, service);
    }

    /// Takes note of a ServiceExport.
    pub fn add_export(&mut self, export: ServiceExport) {
        let Some(key) = service_key(&export.metadata) else { return };
        self.keep_template(&export);
        self.view.apply_export(export.clone());
        self.exports.insert(key, export);
    }

    /// Takes note of a ServiceImport.
    pub fn add_import(&mut self, import: ServiceImport) {
        let Some(key) = service_key(&import.metadata) else { return };
        self.keep_template(&import);
        self.view.apply_import(import.clone());
        self.imports.insert(key, import);
    }

    fn keep_template(&mut self, object: &impl Serialize) {
        if let Ok(object) = serde_json::to_value(object) {
            self.add_template(object);
        }
    }

    /// Takes note of an object that policies may select.
    pub fn add_template(&mut self, object: Value) {
        if let Some(key) = ObjectKey::of(&object) {
            self.templates.insert(key, object);
        }
    }

    /// Takes note of what an event says that failed, and when it was seen last.
    pub fn add_failure(&mut self, key: ObjectKey, at: Option<Timestamp>, note: String) {
        self.failures.entry(key).or_default().push((at, note));
    }

    /// Takes note that an object of the same kind and name is in another namespace.
    pub fn add_namesake(&mut self, key: ObjectKey, namespace: String) {
        self.namesakes.entry(key).or_default().push(namespace);
    }

    /// Takes note of what a member itself has.
    pub fn add_asked(&mut self, member: MemberRead) {
        self.asked.push(member);
    }

    /// The members, if they are to be asked for a service: the hub has neither export nor import of it.
    pub fn to_ask(&self, service: &ServiceKey) -> impl Iterator<Item = &Cluster> {
        let own = self.exports.contains_key(service) || self.imports.contains_key(service);
        self.clusters.values().filter(move |_| !own)
    }

    /// The conditions of a Cluster.
    pub(super) fn conditions(&self, cluster: &str) -> &[Condition] {
        let status = self.clusters.get(cluster).and_then(|cluster| cluster.status.as_ref());
        status.map_or(&[], |status| &status.conditions)
    }

    /// The names of the members.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.view.members().keys().map(ClusterName::as_str)
    }

    /// Why a member cannot be written to, since when, if it cannot.
    pub(super) fn silence(&self, cluster: &ClusterName) -> Option<String> {
        let ready = of(self.conditions(cluster.as_str()), condition::READY)?;
        (ready.status != "True")
            .then(|| format!("since {}: {}", ready.last_transition_time.0, one_line(&ready.message)))
    }
}

// === impl PolicyRead ===

impl From<PropagationPolicy> for PolicyRead {
    fn from(PropagationPolicy { metadata, spec, status }: PropagationPolicy) -> Self {
        Self { metadata, spec, status: status.unwrap_or_default() }
    }
}

impl From<ClusterPropagationPolicy> for PolicyRead {
    fn from(ClusterPropagationPolicy { metadata, spec, status }: ClusterPropagationPolicy) -> Self {
        Self { metadata, spec, status: status.unwrap_or_default() }
    }
}

/// A condition of a type.
pub(in crate::decide) fn of<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// What is said of a conflict, while there is one.
pub(in crate::decide) fn conflict(conditions: &[Condition]) -> Option<&Condition> {
    of(conditions, condition::CONFLICT).filter(|found| found.status == "True")
}

/// A message on one line: a headline is one.
pub(in crate::decide) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Tombolo's own namespace.
pub(super) fn system(read: &Read) -> &str {
    read.view.propagations().system_namespace()
}
