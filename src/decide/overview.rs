//! How the whole fleet is at a glance: `tombolo status`.
//!
//! [`overview`] sums up what the hub has written on its own objects. Nothing is judged anew: who wants to know why asks
//! [`super::explain`].

mod members;
mod services;
#[cfg(test)]
mod tests;

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use serde::Serialize;

pub(in crate::decide) use self::members::TOLD;
use self::services::said;
pub use self::{
    members::{Found, MemberRead, MemberService},
    services::{Conflict, Export, Import},
};
use super::{
    admit::missing_clusters,
    explain::{PolicyRead, of as find, one_line},
    policies::PolicyKey,
    world::on_its_way,
};
use crate::api::{Cluster, ServiceExport, ServiceImport, names::condition};

/// What was read of the hub.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The Lease of the replica that writes.
    pub lease: Option<Lease>,
    /// The members.
    pub clusters: Vec<Cluster>,
    /// PropagationPolicies and ClusterPropagationPolicies.
    pub policies: Vec<PolicyRead>,
    /// ServiceExports.
    pub exports: Vec<ServiceExport>,
    /// ServiceImports.
    pub imports: Vec<ServiceImport>,
    /// What members themselves have; none if they were not asked.
    pub members: Option<Vec<MemberRead>>,
}

/// How the whole fleet is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The hub.
    pub hub: Hub,
    /// The members.
    pub members: Vec<Member>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// What the hub has exports of.
    pub exports: Vec<Export>,
    /// What the hub has imports of.
    pub imports: Vec<Import>,
    /// What the clusters do not agree on.
    pub conflicts: Vec<Conflict>,
    /// What members share of which the hub has neither export nor import; none if they were not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<MemberService>>,
    /// All that is not well, a sentence each.
    pub problems: Vec<String>,
}

/// The hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hub {
    /// The replica that writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// When it said so last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<String>,
    /// Whether that is short ago.
    pub at_work: bool,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Whether it answers: True, False, Unknown, or nothing as long as nobody looked.
    pub ready: String,
    /// Whether its agent is at work.
    pub agent: String,
    /// Whether all of its data is believed.
    pub trusted: String,
    /// Its version of Kubernetes.
    pub version: String,
    /// Since when it is as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How many objects policies have there.
    pub applied: i64,
    /// How many could not be written.
    pub failed: i64,
    /// How many are on their way there.
    pub pending: i64,
    /// How many policies that concern it the hub has not looked at as they are now.
    pub behind: i64,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// What is not well, in words.
    pub message: String,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Its namespace; none for a cluster-wide one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Why it is as it is, in one word.
    pub reason: String,
    /// How many objects it holds for.
    pub matched: i32,
    /// How many copies are there.
    pub applied: i64,
    /// How many could not be written.
    pub failed: i64,
    /// Whether what is said is about an older version of it.
    pub behind: bool,
    /// Whether all is where it should be.
    pub propagated: bool,
    /// Why not, in words.
    pub message: String,
    /// The clusters that it names and that there are not, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Sums up what was read, at a time.
pub fn overview(listed: &Listed, now: Timestamp) -> Overview {
    let mut overview = Overview { hub: Hub::of(listed.lease.as_ref(), now), ..Overview::default() };
    overview.members = listed.clusters.iter().map(|cluster| Member::of(cluster, &listed.policies)).collect();
    overview.policies = listed.policies.iter().map(|policy| Policy::of(policy, &listed.clusters)).collect();
    overview.exports = listed.exports.iter().map(Export::of).collect();
    overview.imports = listed.imports.iter().map(Import::of).collect();
    overview.conflicts = listed.exports.iter().filter_map(Conflict::of).collect();
    overview.members.sort_by(|a, b| a.name.cmp(&b.name));
    overview.policies.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    overview.exports.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    overview.imports.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    overview.conflicts.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    overview.services = members::services(listed);
    overview.problems = overview.problems();
    overview.problems.extend(members::unasked(listed));
    overview
}

// === impl Overview ===

impl Overview {
    fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !self.hub.at_work {
            let renewed = self.hub.renewed.as_ref().map(|at| format!(", the last one at {at}"));
            let renewed = renewed.unwrap_or_default();
            found.push(format!("hub: nobody renews its Lease{renewed}: is `tombolo hub` running?"));
        }
        let members = self.members.iter().filter(|member| !member.is_well());
        found.extend(members.map(|member| format!("cluster/{}: {}", member.name, member.message)));
        for policy in self.policies.iter().filter(|policy| !policy.is_well()) {
            let kind = if policy.namespace.is_some() { "pp" } else { "cpp" };
            let namespace = policy.namespace.as_ref().map(|own| format!(" -n {own}")).unwrap_or_default();
            let said = (!policy.propagated).then_some(&policy.message);
            let said = said.into_iter().chain(&policy.missing);
            found.extend(said.map(|said| format!("{kind}/{}{namespace}: {said}", policy.name)));
        }
        for export in self.exports.iter().filter(|export| !export.is_well()) {
            found.push(format!("serviceexport/{} -n {}: {}", export.name, export.namespace, export.message));
        }
        for import in self.imports.iter().filter(|import| !import.is_well()) {
            found.push(format!("serviceimport/{} -n {}: {}", import.name, import.namespace, import.message));
        }
        for service in self.services.iter().flatten().filter(|service| !service.is_well()) {
            found.push(format!(
                "{}/{}, which members share: {}",
                service.namespace, service.name, service.message
            ));
        }
        found
    }
}

// === impl Hub ===

impl Hub {
    fn of(lease: Option<&Lease>, now: Timestamp) -> Self {
        let Some(spec) = lease.and_then(|lease| lease.spec.as_ref()) else { return Self::default() };
        let leader = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        let age = spec.renew_time.as_ref().map(|at| now.as_second() - at.0.as_second());
        // One renewal late may be the clock's fault.
        let patience = 2 * i64::from(spec.lease_duration_seconds.unwrap_or_default());
        let at_work = leader.is_some() && age.is_some_and(|age| age <= patience);
        let renewed = spec.renew_time.as_ref();
        // Every look would differ from the one before if it told more than that all is well.
        let renewed = renewed.filter(|_| !at_work).map(|at| whole_seconds(at.0).to_string());
        Self { leader, renewed, at_work }
    }
}

fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or_default()
}

// === impl Member ===

impl Member {
    fn of(cluster: &Cluster, policies: &[PolicyRead]) -> Self {
        let status = cluster.status.clone().unwrap_or_default();
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let found = |kind| find(&status.conditions, kind);
        let kinds = [
            condition::READY,
            condition::AGENT_READY,
            condition::DATA_TRUSTED,
            condition::COPIES_REMOVED,
            condition::COPIES_CURRENT,
        ];
        let unmet = kinds.into_iter().filter_map(found).find(|found| found.status != "True");
        let worst = unmet.or_else(|| found(condition::READY));
        let leaving = cluster.metadata.deletion_timestamp.is_some();
        let message = match found(condition::LEAVING).filter(|_| leaving).or(unmet) {
            Some(found) => one_line(&found.message),
            None if worst.is_none() => "the hub has not looked at it yet".to_owned(),
            None => String::new(),
        };
        let (mut applied, mut failed, mut pending, mut behind) = (0, 0, 0, 0);
        for policy in policies {
            let Some(outcome) = policy.status.clusters.iter().find(|outcome| outcome.name == name) else {
                continue;
            };
            applied += i64::from(outcome.applied);
            failed += i64::from(outcome.failed);
            pending += i64::from(on_its_way(&policy.status, outcome));
            behind += i64::from(policy.status.observed_generation != policy.metadata.generation);
        }
        Self {
            ready: said(&status.conditions, condition::READY),
            agent: said(&status.conditions, condition::AGENT_READY),
            trusted: said(&status.conditions, condition::DATA_TRUSTED),
            version: status.kubernetes_version.clone().unwrap_or_default(),
            since: worst.map(|found| found.last_transition_time.0),
            name,
            applied,
            failed,
            pending,
            behind,
            leaving,
            message,
        }
    }

    /// Whether it is as it should be.
    pub fn is_well(&self) -> bool {
        !self.leaving && self.message.is_empty()
    }
}

// === impl Policy ===

impl Policy {
    fn of(policy: &PolicyRead, clusters: &[Cluster]) -> Self {
        let PolicyKey { namespace, name } = PolicyKey::of(&policy.metadata);
        let status = &policy.status;
        let behind = status.observed_generation != policy.metadata.generation;
        let found = find(&status.conditions, condition::PROPAGATED).filter(|_| !behind);
        let first = status
            .clusters
            .iter()
            .find_map(|outcome| Some(format!("{}: {}", outcome.name, one_line(outcome.message.as_ref()?))));
        let said = found.map(|found| one_line(&found.message));
        let said = said.unwrap_or_else(|| "the hub has not looked at it as it is now".to_owned());
        Self {
            namespace: namespace.map(|namespace| namespace.to_string()),
            name: name.to_string(),
            reason: found.map_or_else(|| "Behind".to_owned(), |found| found.reason.clone()),
            matched: status.matched.unwrap_or_default(),
            applied: status.clusters.iter().map(|outcome| i64::from(outcome.applied)).sum(),
            failed: status.clusters.iter().map(|outcome| i64::from(outcome.failed)).sum(),
            behind,
            propagated: found.is_some_and(|found| found.status == "True"),
            message: first.map_or_else(|| said.clone(), |first| format!("{said}: {first}")),
            missing: missing_clusters(
                clusters.iter().filter_map(|it| it.metadata.name.as_deref()),
                &policy.spec,
            ),
        }
    }

    /// Whether it is as it should be.
    pub fn is_well(&self) -> bool {
        self.propagated && self.missing.is_empty()
    }
}
