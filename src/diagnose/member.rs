//! A member: does its agent run, may the hub work there, who else serves the API, and does its DNS know the zone?

use anyhow::{Context, Result};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, Client};

use super::{Finding, Look, common, rights::Account};
use crate::{
    api::{crds::Role, names::object},
    membership::{
        agent, check,
        grant::{Right, housekeeping, rule},
        report,
    },
    shell::clock,
};

const DEFINITIONS: &str = "`tombolo join` again installs them, or `tombolo crds --for member | kubectl apply --server-side --force-conflicts -f -`";
/// The zone of the names of multi-cluster Services.
const ZONE: &str = "clusterset.local";
/// What CoreDNS reads to answer it; without one of these the whole zone is SERVFAIL.
const READ_BY_DNS: &[Right] = &[
    ("multicluster.x-k8s.io", &["serviceimports"], &["list", "watch"]),
    ("discovery.k8s.io", &["endpointslices"], &["list", "watch"]),
    ("", &["namespaces"], &["list", "watch"]),
];
const RIGHTS: &str = "`tombolo join` again renews the rights, and so does an upgrade of the chart";
const DNS: &str = "docs/dns.md has the lines for its Corefile and its rights";

/// Looks at a member.
pub async fn member(client: &Client, namespace: &str) -> Vec<Finding> {
    let mut look = Look::new(client, namespace);
    look.found.push(common::api_server(client).await);
    look.note("clock", common::clock(client).await);
    look.note("definitions", common::definitions_of(client, Role::Member, DEFINITIONS).await);
    let membership = look.membership().await;
    look.note("membership", membership);
    let agent = look.agent().await;
    look.note("agent", agent);
    let rights = look.rights().await;
    look.note("rights", rights);
    let others = look.others().await;
    look.note("controllers", others);
    let dns = look.dns().await;
    look.note("DNS", dns);
    look.found
}

// === impl Look ===

impl Look<'_> {
    async fn membership(&self) -> Result<Vec<Finding>> {
        let marker = check::marker(self.client).await?;
        Ok(vec![match marker {
            Some(marker) => {
                Finding::well("membership", format!("it is {} of hub {}", marker.cluster, marker.hub))
            }
            None => Finding::doubtful(
                "membership",
                "it is no hub's member",
                "`tombolo join` makes it one; without a hub, imports by hand work all the same",
            ),
        }])
    }

    async fn agent(&self) -> Result<Vec<Finding>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), self.namespace);
        let lease = leases.get_opt(object::AGENT).await.context("failed to read the agent's Lease")?;
        Ok(vec![match report::fresh(lease.as_ref(), clock::seconds()) {
            Ok(()) => Finding::well("agent", "it runs"),
            Err(why) => Finding::sick(
                "agent",
                format!("it does not run: Lease {}/{} {why}", self.namespace, object::AGENT),
                format!(
                    "look at its Deployment and its log: `kubectl -n {} describe deployment {}`",
                    self.namespace,
                    object::AGENT
                ),
            ),
        }])
    }

    /// Whether the hub's account may do what it was granted, and the agent's what it needs.
    async fn rights(&self) -> Result<Vec<Finding>> {
        let mut lacking = Vec::new();
        let hub = Account { namespace: self.namespace, name: object::HUB };
        if let Some(grant) = check::granted(self.client).await? {
            lacking.extend(self.lacks(hub, &grant.rules(), None).await?);
            lacking.extend(self.lacks(hub, &housekeeping(), Some(self.namespace)).await?);
        }
        // Where it runs by another account, that is not known here.
        let agent = Account { namespace: self.namespace, name: object::AGENT };
        if self.has(agent).await? {
            lacking.extend(self.lacks(agent, &agent::cluster_rules(), None).await?);
            lacking.extend(self.lacks(agent, &agent::own_rules(), Some(self.namespace)).await?);
        }
        let sick = |says| Finding::sick("rights", says, RIGHTS);
        let mut found: Vec<_> = lacking.into_iter().map(sick).collect();
        if found.is_empty() {
            found.push(Finding::well("rights", "the accounts of hub and agent have theirs"));
        }
        Ok(found)
    }

    async fn others(&self) -> Result<Vec<Finding>> {
        let others = check::controllers(self.client).await?;
        if others.is_empty() {
            return Ok(vec![Finding::well(
                "controllers",
                "nobody else serves the Multi-Cluster Services API",
            )]);
        }
        let sick = |(what, way_out)| {
            Finding::sick(
                "controllers",
                format!("{what} serves the Multi-Cluster Services API too: two undo each other's work"),
                way_out,
            )
        };
        Ok(others.into_iter().map(sick).collect())
    }

    async fn dns(&self) -> Result<Vec<Finding>> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "kube-system");
        let map = maps.get_opt("coredns").await.context("failed to read ConfigMap kube-system/coredns")?;
        let Some(map) = map else {
            let says = "there is no ConfigMap kube-system/coredns, so it is not known who answers names";
            let way_out = format!(
                "whoever does must answer {ZONE} from ServiceImports; by address they work all the same"
            );
            return Ok(vec![Finding::doubtful("DNS", says, way_out)]);
        };
        if !answers(&map) {
            return Ok(vec![Finding::doubtful("DNS", format!("CoreDNS does not answer {ZONE}"), DNS)]);
        }
        // Where it runs by another account, that is not known here.
        let account = Account { namespace: "kube-system", name: "coredns" };
        let rules: Vec<_> = READ_BY_DNS.iter().map(|right| rule(right, &[])).collect();
        if self.has(account).await?
            && let Some(lacks) = self.lacks(account, &rules, None).await?
        {
            let says = format!("CoreDNS is told to answer {ZONE} and cannot (SERVFAIL): {lacks}");
            return Ok(vec![Finding::sick("DNS", says, DNS)]);
        }
        Ok(vec![Finding::well("DNS", format!("CoreDNS answers {ZONE}"))])
    }
}

/// Whether a Corefile has the zone.
fn answers(map: &ConfigMap) -> bool {
    let mut lines = map.data.iter().flatten().flat_map(|(_, text)| text.lines()).map(str::trim);
    lines.any(|line| line.starts_with("multicluster ") && line.contains(ZONE))
}
