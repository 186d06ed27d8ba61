//! What is to be done in one member for one service.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::Condition};
use serde_json::Value;

use super::{
    Exchange, Service,
    import::{Wants, is_readable, kept_ports, may_write, unknown_of},
    seen::{ImportSeen, SliceSeen, Whose, fixed, sum},
};
use crate::{
    api::{
        mcs::Version,
        names::{annotation, kubernetes::MANAGED_BY_HUB, label},
    },
    decide::{
        ids::{ClusterName, ServiceKey},
        imported::{Place, render, served},
        merge::{Merged, PortMap, ServiceSpec, ServiceType},
        view::View,
        world::World,
    },
};

/// What is to be done in one member for one service, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// For its ServiceExport: its UID and the conditions to write.
    pub export: Option<(Box<str>, Vec<ConditionWanted>)>,
    /// For its ServiceImport.
    pub import: ImportStep,
    /// The clusters that its ServiceImport is made of, where it says otherwise; with its UID.
    pub clusters: Option<(Box<str>, BTreeSet<ClusterName>)>,
    /// For the slices that belong to it.
    pub slices: Vec<SliceStep>,
}

/// What is to be done for a ServiceImport.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ImportStep {
    /// It is as it should be, or is left alone.
    #[default]
    Nothing,
    /// It is to be so.
    Apply(Value),
    /// It is to go.
    Delete {
        /// Its UID.
        uid: Box<str>,
        /// Whose it is, to make certain.
        whose: Whose,
    },
}

/// What is to be done for an imported slice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceStep {
    /// It is to be made.
    Create(Box<EndpointSlice>),
    /// It is to be changed; it carries the version that it replaces.
    Update(Box<EndpointSlice>),
    /// It is to go.
    Delete {
        /// Its name.
        name: Box<str>,
        /// What was seen of it.
        seen: SliceSeen,
    },
}

/// A condition as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionWanted {
    /// Its type.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// Why, in a word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

/// What is imported, from where.
struct Flow {
    service: ServiceSpec,
    /// For each cluster what becomes of its ports.
    clusters: BTreeMap<ClusterName, PortMap>,
    /// Clusters of which nothing is known: what is there of them stays.
    unknown: BTreeSet<ClusterName>,
}

// === impl ConditionWanted ===

impl ConditionWanted {
    /// As a condition has it.
    pub fn status(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }

    /// Whether a condition says so already.
    pub fn is_met_by(&self, found: &Condition) -> bool {
        found.type_ == self.type_
            && found.status == self.status()
            && found.reason == self.reason
            && found.message == self.message
    }
}

// === impl Exchange ===

impl Exchange {
    /// What is to be done in a member for a service; its ServiceImports are written in that version.
    pub fn plan(
        &self,
        view: &View,
        world: &World,
        cluster: &ClusterName,
        key: &ServiceKey,
        version: Version,
    ) -> Plan {
        let service = self.services.get(key);
        let merged = self.merged(view, key);
        let mut plan = Plan::default();
        if view.is_synced() && view.members().get(cluster).is_some_and(|member| !member.leaving) {
            plan.export = self.conditions(cluster, key, merged.as_ref());
        }
        if !is_readable(self, cluster) {
            return plan;
        }
        let wants = self.wants(view, world, cluster, key);
        let seen = service.and_then(|service| service.imports.get(cluster));
        match &wants {
            Wants::AsIs(_) => {}
            Wants::No => {
                let unknown = unknown_of(self, view, key, seen);
                let leaving = view.members().get(cluster).is_some_and(|member| member.leaving);
                if unknown.is_empty() || leaving {
                    plan.import = seen.map(ImportSeen::removal).unwrap_or_default();
                    plan.slices = service.map(|service| all_gone(service, cluster)).unwrap_or_default();
                }
            }
            Wants::Automatic | Wants::ByPolicy(_) if may_write(service, cluster) => {
                self.plan_import(view, world, cluster, key, version, (&wants, merged.as_ref()), &mut plan);
            }
            // The user's own stays; what we had written for it goes.
            Wants::Automatic | Wants::ByPolicy(_) => {
                plan.slices = service.map(|service| all_gone(service, cluster)).unwrap_or_default();
            }
        }
        plan
    }

    #[expect(clippy::too_many_arguments, reason = "it is one thought of `plan`")]
    fn plan_import(
        &self,
        view: &View,
        world: &World,
        cluster: &ClusterName,
        key: &ServiceKey,
        version: Version,
        (wants, merged): (&Wants, Option<&Merged>),
        plan: &mut Plan,
    ) {
        let service = self.services.get(key);
        let seen = service.and_then(|service| service.imports.get(cluster));
        let unknown = unknown_of(self, view, key, seen);
        let import = Self::import(merged, wants);
        let flow = match (import, seen) {
            (Some(import), _) if unknown.is_empty() => {
                let wanted = self.wanted(world, key, &import, merged, wants);
                if !seen.is_some_and(|seen| wanted.is_met_by(seen)) {
                    let uid = seen.map(|seen| &*seen.uid);
                    plan.import = ImportStep::Apply(wanted.object(key, version, uid));
                }
                Flow { service: import.service, clusters: import.clusters, unknown }
            }
            (_, Some(seen)) => self.frozen(view, key, seen, unknown),
            (_, None) => return,
        };
        let Some(seen) = seen else { return };
        let clusters: BTreeSet<_> = flow.clusters.keys().chain(&flow.unknown).cloned().collect();
        if seen.clusters != clusters {
            plan.clusters = Some((seen.uid.clone(), clusters));
        }
        if let Some(derived) = &seen.derived {
            plan.slices = self.slices(cluster, key, derived, &flow);
        }
    }

    /// What flows while a ServiceImport stays as it is: since a cluster that it is made of is unknown, or nobody exports anything.
    fn frozen(
        &self,
        view: &View,
        key: &ServiceKey,
        seen: &ImportSeen,
        unknown: BTreeSet<ClusterName>,
    ) -> Flow {
        let exports = self.exports(view, key).into_iter();
        let known = exports.filter(|export| !unknown.contains(&export.cluster));
        let clusters =
            known.map(|export| (export.cluster, kept_ports(&seen.spec, &export.service))).collect();
        let headless = seen.spec.type_ == crate::api::mcs::ServiceImportType::Headless;
        let service = ServiceSpec {
            service_type: if headless { ServiceType::Headless } else { ServiceType::ClusterSetIp },
            traffic_distribution: seen.spec.traffic_distribution.as_deref().map(Into::into),
            ..ServiceSpec::default()
        };
        Flow { service, clusters, unknown }
    }

    /// The steps from the slices that are there to those that are to be there.
    fn slices(&self, cluster: &ClusterName, key: &ServiceKey, derived: &str, flow: &Flow) -> Vec<SliceStep> {
        let Some(service) = self.services.get(key) else { return Vec::new() };
        let mut wanted = BTreeMap::new();
        // A member's own endpoints are its agent's.
        for (from, ports) in flow.clusters.iter().filter(|(from, _)| *from != cluster) {
            let served = served(ports);
            let place = Place {
                key,
                cluster: from,
                derived,
                writer: MANAGED_BY_HUB,
                own: false,
                service: &flow.service,
                served: &served,
            };
            for source in service.sources.get(from).into_iter().flat_map(BTreeMap::values) {
                let slice = self.marked(render(source, &place), service, from);
                wanted.insert(slice.metadata.name.clone().unwrap_or_default(), slice);
            }
        }
        let nothing = BTreeMap::new();
        let found = service.imported.get(cluster).unwrap_or(&nothing);
        let mut steps = Vec::new();
        for (name, seen) in found {
            let stays = flow.unknown.contains(&seen.cluster);
            if !stays && wanted.get(&**name).is_none_or(|slice| fixed(slice) != seen.fixed) {
                steps.push(SliceStep::Delete { name: name.clone(), seen: seen.clone() });
            }
        }
        for (name, mut slice) in wanted {
            match found.get(&*name) {
                Some(seen) if seen.sum == sum(&slice) => {}
                Some(seen) if seen.fixed == fixed(&slice) => {
                    slice.metadata.uid = Some(seen.uid.to_string());
                    slice.metadata.resource_version = Some(seen.resource_version.to_string());
                    steps.push(SliceStep::Update(Box::new(slice)));
                }
                Some(_) | None => steps.push(SliceStep::Create(Box::new(slice))),
            }
        }
        steps
    }

    /// A slice with our label, and with the template of the export that it is made by.
    fn marked(&self, mut slice: EndpointSlice, service: &Service, from: &ClusterName) -> EndpointSlice {
        let labels = slice.metadata.labels.get_or_insert_default();
        labels.insert(label::HUB.to_owned(), self.hub.to_string());
        if let Some(template) = service.exports.get(from).and_then(|export| export.template.as_deref()) {
            let annotations = slice.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation::EXPORT_TEMPLATE.to_owned(), template.to_owned());
        }
        slice
    }
}

// === impl ImportSeen ===

impl ImportSeen {
    fn removal(&self) -> ImportStep {
        match self.whose {
            Whose::Ours { .. } => ImportStep::Delete { uid: self.uid.clone(), whose: self.whose.clone() },
            Whose::Users | Whose::Others => ImportStep::Nothing,
        }
    }
}

/// The deletion of all slices that we wrote to a member for a service.
fn all_gone(service: &Service, cluster: &ClusterName) -> Vec<SliceStep> {
    let slices = service.imported.get(cluster).into_iter().flatten();
    slices.map(|(name, seen)| SliceStep::Delete { name: name.clone(), seen: seen.clone() }).collect()
}
