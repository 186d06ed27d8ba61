//! A member: does its agent run, may the hub work there, who else serves the API, and does its DNS know the zone?

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    coordination::v1::Lease,
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};

use super::{Finding, Look, common};
use crate::{
    api::{crds::Role, names::object},
    membership::{agent, check, report},
    shell::clock,
};

const DEFINITIONS: &str = "`tombolo join` again installs them, or `tombolo crds --for member | kubectl apply --server-side --force-conflicts -f -`";
/// The zone of the names of multi-cluster Services.
const ZONE: &str = "clusterset.local";

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
        let mut found = Vec::new();
        if let Some(grant) = check::granted(self.client).await? {
            found.extend(self.missing(object::HUB, &grant.rules()).await?);
        }
        // Where it runs by another account, that is not known here.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace);
        let account = accounts.get_opt(object::AGENT).await.context("failed to read the agent's account")?;
        if account.is_some() {
            found.extend(self.missing(object::AGENT, &agent::cluster_rules()).await?);
        }
        if found.is_empty() {
            found.push(Finding::well("rights", "the accounts of hub and agent have theirs"));
        }
        Ok(found)
    }

    /// The first right of an account that is missing.
    async fn missing(&self, account: &str, rules: &[PolicyRule]) -> Result<Option<Finding>> {
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let user = format!("system:serviceaccount:{}:{account}", self.namespace);
        for attributes in rules.iter().flat_map(asked) {
            let shown = shown(&attributes);
            let spec = SubjectAccessReviewSpec {
                user: Some(user.clone()),
                groups: Some(vec!["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()]),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await;
            let answer = answer.context("failed to ask what an account may do")?;
            if !answer.status.is_some_and(|status| status.allowed) {
                let says = format!("ServiceAccount {}/{account} may not {shown}", self.namespace);
                let way_out = "`tombolo join` again renews the rights, and so does an upgrade of the chart";
                return Ok(Some(Finding::sick("rights", says, way_out)));
            }
        }
        Ok(None)
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
        let files = map.data.unwrap_or_default();
        let mut lines = files.values().flat_map(|text| text.lines()).map(str::trim);
        Ok(vec![if lines.any(|line| line.starts_with("multicluster ") && line.contains(ZONE)) {
            Finding::well("DNS", format!("CoreDNS answers {ZONE}"))
        } else {
            Finding::doubtful(
                "DNS",
                format!("CoreDNS does not answer {ZONE}"),
                "docs/dns.md has the lines for its Corefile and its rights",
            )
        }])
    }
}

/// What a rule allows, each as a question.
fn asked(rule: &PolicyRule) -> Vec<ResourceAttributes> {
    let (groups, resources) = (rule.api_groups.iter().flatten(), rule.resources.iter().flatten());
    let name = rule.resource_names.iter().flatten().next();
    let pairs = groups.flat_map(|group| resources.clone().map(move |resource| (group, resource)));
    pairs
        .flat_map(|(group, resource)| {
            let (resource, sub) = match resource.split_once('/') {
                Some((resource, sub)) => (resource, Some(sub.to_owned())),
                None => (resource.as_str(), None),
            };
            rule.verbs.iter().map(move |verb| ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(resource.to_owned()),
                subresource: sub.clone(),
                verb: Some(verb.clone()),
                name: name.cloned(),
                ..ResourceAttributes::default()
            })
        })
        .collect()
}

fn shown(right: &ResourceAttributes) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let sub = right.subresource.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
    let group = Some(text(&right.group)).filter(|group| !group.is_empty());
    let group = group.map(|group| format!(" of {group}")).unwrap_or_default();
    format!("{} {}{sub}{group}", text(&right.verb), text(&right.resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_asked_about_verb_by_verb() {
        let rule: PolicyRule = serde_saphyr::from_str(
            "{apiGroups: [a.example], resources: [bs, cs/status], resourceNames: [one], verbs: [get, patch]}",
        )
        .unwrap();
        let asked: Vec<_> = asked(&rule).iter().map(shown).collect();
        assert_eq!(
            asked,
            [
                "get bs of a.example",
                "patch bs of a.example",
                "get cs/status of a.example",
                "patch cs/status of a.example"
            ]
        );
    }
}
