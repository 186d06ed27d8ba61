//! What is to be done in one member for one service.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::Value;

use super::{
    Exchange, Service,
    import::{Wanted, Wants, is_readable, kept_for, kept_ports, may_write, unknown_of, waits_for},
    seen::{ImportSeen, SliceSeen, Whose, export_kind, object_key, origin},
};
use crate::{
    api::names::{condition, mcs, reason},
    decide::{
        condition::Verdict,
        copy::Origin,
        definition::Dialect,
        freshness::{Grade, Mark},
        ids::{ClusterName, ServiceKey},
        merge::{Merged, PortMap, ServiceSpec, ServiceType},
        view::View,
        world::{Absence, Desired, World},
    },
};

/// What is to be done in one member for one service, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Silent clusters whose exports the hub does not want any more: once that is certain they are withdrawn, and the plan is another.
    pub abandoned: Vec<(ClusterName, Origin, Absence)>,
    /// The ServiceImport on the hub that it has it of and that seems to be gone: once that is certain it is released, and the plan is
    /// another.
    pub doubted: Option<Origin>,
    /// For its ServiceExport: its UID and the conditions to write.
    pub export: Option<(Box<str>, Vec<Verdict>)>,
    /// For its ServiceImport.
    pub import: ImportStep,
    /// Whether a Namespace is made for its ServiceImport where there is none: a policy asks for that, an automatic import comes only where
    /// the Namespace is (KEP-1645 A7).
    pub makes_namespace: bool,
    /// The clusters that its ServiceImport is made of, where it says otherwise; with its UID.
    pub clusters: Option<(Box<str>, BTreeSet<ClusterName>)>,
    /// What its ServiceImport is to say where that is a user's own: with its UID; none takes back what was said.
    pub users: Option<(Box<str>, Option<Verdict>)>,
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
        /// What it was made of, to make certain.
        origin: Origin,
        /// Why it is to go: whether its template is thought to be there decides what is looked for.
        why: Absence,
    },
}

/// What is to be done for an imported slice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceStep {
    /// It is to be made.
    Create(Box<EndpointSlice>),
    /// It is to be changed; it carries the version that it replaces.
    Update(Box<EndpointSlice>),
    /// It is to say that its cluster is silent; nothing else is known of it.
    Mark {
        /// Its name.
        name: Box<str>,
        /// What was seen of it.
        seen: SliceSeen,
        /// What it is to say.
        mark: Mark,
    },
    /// A watch no longer shows it: it is to be looked at, and the plan is another then.
    Look {
        /// Its name.
        name: Box<str>,
        /// What was seen of it.
        seen: SliceSeen,
    },
    /// It is to go.
    Delete {
        /// Its name.
        name: Box<str>,
        /// What was seen of it.
        seen: SliceSeen,
    },
}

/// What is imported, from where.
pub(super) struct Flow {
    pub(super) service: ServiceSpec,
    /// For each cluster what becomes of its ports.
    pub(super) clusters: BTreeMap<ClusterName, PortMap>,
    /// Clusters of which nothing is known: what is there of them stays.
    pub(super) unknown: BTreeSet<ClusterName>,
    /// Whether the derived Service may still have names that ports had before.
    pub(super) renamed: bool,
}

// === impl SliceStep ===

impl SliceStep {
    /// The name of the slice, and the cluster that it is from.
    pub fn of(&self) -> Option<(&str, ClusterName)> {
        match self {
            Self::Create(slice) | Self::Update(slice) => {
                let from = slice.metadata.labels.as_ref()?.get(mcs::SOURCE_CLUSTER)?;
                Some((slice.metadata.name.as_deref()?, from.parse().ok()?))
            }
            Self::Mark { name, seen, .. } | Self::Look { name, seen } | Self::Delete { name, seen } => {
                Some((name, seen.cluster.clone()))
            }
        }
    }
}

// === impl Exchange ===

impl Exchange {
    /// What is to be done in a member for a service; its ServiceImports are written in those words.
    pub fn plan(
        &self,
        view: &View,
        world: &World,
        cluster: &ClusterName,
        key: &ServiceKey,
        dialect: Dialect,
    ) -> Plan {
        let service = self.services.get(key);
        let merged = self.merged(view, key);
        let mut plan = Plan::default();
        if view.is_synced() && view.members().get(cluster).is_some_and(|member| !member.leaving) {
            plan.export = self.conditions(view, cluster, key, merged.as_ref());
        }
        if !is_readable(self, cluster) {
            return plan;
        }
        plan.abandoned = self.abandoned(view, world, key);
        let wants = self.wants(view, world, cluster, key);
        let seen = service.and_then(|service| service.imports.get(cluster));
        if view.is_synced() {
            plan.users = seen.and_then(|seen| users_own(seen, &wants, merged.as_ref()));
        }
        match &wants {
            Wants::Unknown(_) => {}
            Wants::AsIs(_) => self.plan_as_is(view, cluster, key, &mut plan),
            Wants::Doubtful(origin) => {
                plan.doubted = Some(*origin.clone());
                self.plan_as_is(view, cluster, key, &mut plan);
            }
            Wants::No => {
                let mut unknown = unknown_of(self, view, key, seen);
                unknown.extend(waits_for(self, view, key, seen));
                let leaving = view.members().get(cluster).is_some_and(|member| member.leaving);
                // Where its ServiceImport is on the hub, policies say who imports it, whoever exports it.
                let there = view.imports().contains_key(key);
                if unknown.is_empty() || leaving || there {
                    let why = if there { Absence::Elsewhere } else { Absence::NoTemplate };
                    plan.import = seen.map(|seen| self.removal(key, seen, why)).unwrap_or_default();
                    plan.slices = match seen.filter(|seen| seen.is_ours() && !leaving) {
                        // While it is there its slices follow the exports; they go with it.
                        Some(seen) => self.flowing(view, cluster, key, seen, unknown),
                        None => service.map(|service| all_gone(service, cluster)).unwrap_or_default(),
                    };
                } else {
                    self.plan_as_is(view, cluster, key, &mut plan);
                }
            }
            Wants::Automatic | Wants::ByPolicy(_) if may_write(service, cluster) => {
                self.plan_import(view, world, cluster, key, dialect, (&wants, merged.as_ref()), &mut plan);
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
        dialect: Dialect,
        (wants, merged): (&Wants, Option<&Merged>),
        plan: &mut Plan,
    ) {
        let service = self.services.get(key);
        let seen = service.and_then(|service| service.imports.get(cluster));
        let unknown = unknown_of(self, view, key, seen);
        let import = Self::import(merged, wants);
        let kept_for = kept_for(self, view, key, seen, import.is_some());
        let mut renames = false;
        let flow = match (import, seen) {
            (Some(import), _) if unknown.is_empty() => {
                let wanted = self.wanted(world, key, &import, merged, wants, &kept_for).in_words_of(dialect);
                renames = seen.is_some_and(|seen| wanted.renames(seen));
                let renamed = renames || seen.is_some_and(|seen| !seen.settled);
                if !seen.is_some_and(|seen| wanted.is_met_by(seen)) {
                    let uid = seen.map(|seen| &*seen.uid);
                    plan.import = ImportStep::Apply(wanted.object(key, dialect.version, uid));
                    plan.makes_namespace = matches!(wants, Wants::ByPolicy(_));
                }
                Flow { service: import.service, clusters: import.clusters, unknown, renamed }
            }
            (_, Some(seen)) => {
                if seen.kept_for() != kept_for {
                    let found = Wanted::as_found(seen, &kept_for);
                    plan.import = ImportStep::Apply(found.object(key, dialect.version, Some(&seen.uid)));
                }
                self.frozen(view, key, seen, unknown)
            }
            (_, None) => return,
        };
        let Some(seen) = seen else { return };
        self.plan_flow(cluster, key, seen, &flow, plan);
        if renames && !plan.slices.is_empty() {
            // Slices have both names first, then the Service changes.
            plan.import = ImportStep::Nothing;
        }
    }

    /// The deletion of a ServiceImport, if it is ours.
    fn removal(&self, key: &ServiceKey, seen: &ImportSeen, why: Absence) -> ImportStep {
        let delete = |origin| ImportStep::Delete { uid: seen.uid.clone(), origin, why };
        seen.origin(&self.hub, key).map(delete).unwrap_or_default()
    }

    /// Lets endpoints follow where a ServiceImport of ours stays as it is.
    fn plan_as_is(&self, view: &View, cluster: &ClusterName, key: &ServiceKey, plan: &mut Plan) {
        let seen = self.services.get(key).and_then(|service| service.imports.get(cluster));
        if let Some(seen) = seen.filter(|seen| seen.is_ours()) {
            let unknown = unknown_of(self, view, key, Some(seen));
            self.plan_flow(cluster, key, seen, &self.frozen(view, key, seen, unknown), plan);
        }
    }

    /// The steps to the slices of a ServiceImport of ours that is about to go.
    fn flowing(
        &self,
        view: &View,
        cluster: &ClusterName,
        key: &ServiceKey,
        seen: &ImportSeen,
        unknown: BTreeSet<ClusterName>,
    ) -> Vec<SliceStep> {
        let Some(derived) = &seen.derived else { return Vec::new() };
        self.slices(cluster, key, derived, &self.frozen(view, key, seen, unknown))
    }

    /// Makes the slices of a ServiceImport, and the clusters that it names, what flows into it.
    fn plan_flow(
        &self,
        cluster: &ClusterName,
        key: &ServiceKey,
        seen: &ImportSeen,
        flow: &Flow,
        plan: &mut Plan,
    ) {
        let clusters: BTreeSet<_> = flow.clusters.keys().chain(&flow.unknown).cloned().collect();
        if seen.clusters != clusters {
            plan.clusters = Some((seen.uid.clone(), clusters));
        }
        if let Some(derived) = &seen.derived {
            plan.slices = self.slices(cluster, key, derived, flow);
        }
    }

    /// The silent clusters whose exports of a service the hub does not want any more.
    fn abandoned(&self, view: &View, world: &World, key: &ServiceKey) -> Vec<(ClusterName, Origin, Absence)> {
        let Some(service) = self.services.get(key) else { return Vec::new() };
        // Nothing is looked at while all clusters answer, which is nearly always.
        let silent = |name: &ClusterName| self.grade(name) != Grade::Fresh;
        if !self.grades.keys().any(silent) {
            return Vec::new();
        }
        let exports = service.exports.iter().filter(|(name, _)| silent(name));
        let exports = exports.filter_map(|(name, export)| Some((name, export.template.as_deref()?)));
        // Of an export that was not seen its slices tell, if those of all importers tell the same: one of them may be hostile.
        let mut told: BTreeMap<&ClusterName, BTreeSet<Option<&str>>> = BTreeMap::new();
        for seen in service.imported.values().flat_map(BTreeMap::values).filter(|seen| silent(&seen.cluster))
        {
            told.entry(&seen.cluster).or_default().insert(seen.template.as_deref());
        }
        told.retain(|name, _| !service.exports.contains_key(*name));
        let slices = told.into_iter().filter(|(_, told)| told.len() == 1);
        let slices = slices.filter_map(|(name, told)| Some((name, told.into_iter().next()??)));
        let origins: BTreeMap<_, _> = slices.chain(exports).collect();
        let object = object_key(export_kind(), key);
        let unwanted = |cluster: &ClusterName| match world.desired(view, cluster, &object, None) {
            Desired::Absent(Absence::NoTemplate) => Some(Absence::NoTemplate),
            // A copy that was never read is unknown to placement, which may only keep new ones away.
            Desired::Absent(Absence::Elsewhere) if !world.would_keep(view, cluster, &object) => world
                .assignment(&object)
                .is_some_and(|placed| placed.policy.is_some() && !placed.frozen)
                .then_some(Absence::Elsewhere),
            _ => None,
        };
        let abandoned = origins.into_iter().filter(|(name, _)| self.takes_part_in(view, name, key));
        let abandoned = abandoned.filter_map(|(name, text)| {
            let why = unwanted(name)?;
            Some((name.clone(), origin(text, key, &self.hub)?, why))
        });
        abandoned.collect()
    }

    /// What flows while a ServiceImport stays as it is: since a cluster that it is made of is unknown, nobody exports anything, or nobody
    /// says any more how it is to be.
    fn frozen(
        &self,
        view: &View,
        key: &ServiceKey,
        seen: &ImportSeen,
        unknown: BTreeSet<ClusterName>,
    ) -> Flow {
        let exports = self.exports(view, key).into_iter();
        let known = exports.filter(|export| !unknown.contains(&export.cluster));
        let clusters = known.map(|export| (export.cluster.clone(), kept_ports(seen, &export))).collect();
        let headless = seen.spec.type_ == crate::api::mcs::ServiceImportType::Headless;
        let service = ServiceSpec {
            service_type: if headless { ServiceType::Headless } else { ServiceType::ClusterSetIp },
            traffic_distribution: seen.spec.traffic_distribution.as_deref().map(Into::into),
            ..ServiceSpec::default()
        };
        Flow { service, clusters, unknown, renamed: !seen.settled }
    }
}

/// The deletion of all slices that we wrote to a member for a service.
fn all_gone(service: &Service, cluster: &ClusterName) -> Vec<SliceStep> {
    let slices = service.imported.get(cluster).into_iter().flatten();
    slices.map(|(name, seen)| SliceStep::Delete { name: name.clone(), seen: seen.clone() }).collect()
}

/// What is said on a user's own ServiceImport of a service that would be imported: that it stays as it is, and why that matters.
fn users_own(
    seen: &ImportSeen,
    wants: &Wants,
    merged: Option<&Merged>,
) -> Option<(Box<str>, Option<Verdict>)> {
    let wanted = matches!(wants, Wants::Automatic | Wants::ByPolicy(_)) && seen.whose == Whose::Users;
    let said = merged.filter(|_| wanted).map(|merged| {
        let clusters: Vec<_> = merged.clusters.keys().map(ClusterName::as_str).collect();
        Verdict {
            condition: condition::EXCHANGED,
            met: false,
            reason: reason::USERS_OWN.into(),
            message: format!(
                "{} would be imported here, but this ServiceImport was not made by Tombolo: it stays as it is and gets none of their \
                 endpoints; delete it to have the service imported",
                clusters.join(", ")
            ),
        }
    });
    let there = seen.exchanged.as_slice();
    let met = said.as_ref().map_or(there.is_empty(), |said| said.is_among(there));
    (!met).then(|| (seen.uid.clone(), said))
}
