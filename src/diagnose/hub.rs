//! A hub: does it run, does its webhook refuse, and how are its members?

use anyhow::{Context, Result};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use super::{Finding, Look, common, rights::Account};
use crate::{
    api::{
        Cluster, PropagationPolicy,
        crds::Role,
        names::{annotation, condition, object},
    },
    decide::admit::{cidr, overlaps},
    hub::rights,
    membership::report,
};

const DEFINITIONS: &str = "`tombolo crds | kubectl apply --server-side --force-conflicts -f -`";
const RIGHTS: &str = "an upgrade of the hub's chart renews its rights";

/// Looks at a hub.
pub async fn hub(client: &Client, namespace: &str) -> Vec<Finding> {
    let mut look = Look::new(client, namespace);
    look.found.push(common::api_server(client).await);
    look.note("clock", common::clock(client).await);
    look.note("definitions", common::definitions_of(client, Role::Hub, DEFINITIONS).await);
    let running = look.running().await;
    look.note("hub", running);
    let rights = look.own_rights().await;
    look.note("rights", rights);
    let configured = look.webhooks().await;
    look.note("webhook", configured);
    let served = look.certificate().await;
    look.note("webhook", served);
    let refuses = look.refuses().await;
    look.note("admission", refuses);
    let members = look.members().await;
    look.note("members", members);
    look.found
}

// === impl Look ===

impl Look<'_> {
    async fn running(&self) -> Result<Vec<Finding>> {
        Ok(vec![match report::running(self.client, self.namespace).await? {
            Ok(()) => Finding::well("hub", "it runs"),
            Err(why) => {
                Finding::sick("hub", format!("it does not run: {why}"), "look at its Deployment and its log")
            }
        }])
    }

    /// Whether the hub's account has the rights that its chart gives it.
    async fn own_rights(&self) -> Result<Vec<Finding>> {
        let account = Account { namespace: self.namespace, name: object::HUB };
        // Where it runs by another account, that is not known here.
        if !self.has(account).await? {
            return Ok(Vec::new());
        }
        let own = [rights::own(), rights::member_secrets()].concat();
        let mut lacking: Vec<_> = self.lacks(account, &rights::cluster(), None).await?.into_iter().collect();
        lacking.extend(self.lacks(account, &own, Some(self.namespace)).await?);
        let sick = |says| Finding::sick("rights", says, RIGHTS);
        let mut found: Vec<_> = lacking.into_iter().map(sick).collect();
        if found.is_empty() {
            found.push(Finding::well("rights", "the hub's account has its own"));
        }
        Ok(found)
    }

    /// Tries out whether a mistake is refused: a dry run, so nothing comes of it.
    async fn refuses(&self) -> Result<Vec<Finding>> {
        let selectors = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "[" }]);
        let mistake: PropagationPolicy = serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": { "generateName": "tombolo-check-", "namespace": "default" },
            "spec": { "resourceSelectors": selectors },
        }))?;
        let policies: Api<PropagationPolicy> = Api::namespaced(self.client.clone(), "default");
        let params = PostParams { dry_run: true, ..PostParams::default() };
        Ok(vec![match policies.create(&params, &mistake).await {
            Ok(_) => Finding::sick(
                "admission",
                "a policy with a mistake was taken: the API server does not ask the webhook",
                "see what is said of its configurations here; while the hub runs, it fills them within seconds",
            ),
            Err(kube::Error::Api(status)) if status.message.contains("denied the request") => {
                Finding::well("admission", "a policy with a mistake is refused")
            }
            Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => {
                Finding::sick(
                    "admission",
                    format!("the API server cannot ask the webhook: {}", status.message),
                    "the hub must run, and be reachable from the API server at that address",
                )
            }
            Err(e) => return Err(e).context("failed to try out a policy with a mistake"),
        }])
    }

    async fn members(&self) -> Result<Vec<Finding>> {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        let clusters =
            clusters.list(&ListParams::default()).await.context("failed to list the Clusters")?.items;
        if clusters.is_empty() {
            return Ok(vec![Finding::doubtful(
                "members",
                "there are none",
                "`tombolo join` makes a cluster a member",
            )]);
        }
        let mut found: Vec<_> = clusters.iter().flat_map(of_member).collect();
        let ranges = |cluster: &Cluster| cidr::list(cluster.annotations().get(annotation::POD_CIDRS)?).ok();
        let ranges: Vec<_> = clusters.iter().filter_map(|it| Some((it.name_any(), ranges(it)?))).collect();
        for (at, (name, own)) in ranges.iter().enumerate() {
            let later = ranges[at + 1..].iter().map(|(name, ranges)| (name.as_str(), &ranges[..]));
            for said in overlaps(name, own, later) {
                found.push(Finding::doubtful(
                    "pod networks",
                    said,
                    "pods of both cannot be told apart: give one other addresses",
                ));
            }
        }
        if found.is_empty() {
            found.push(Finding::well("members", format!("all {} are well", clusters.len())));
        }
        Ok(found)
    }
}

/// What the hub itself says to be amiss with a member.
fn of_member(cluster: &Cluster) -> Vec<Finding> {
    let name = cluster.name_any();
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut found = Vec::new();
    for (type_, way_out) in [
        (
            condition::READY,
            format!("can the hub reach its API server? `tombolo join {name}` again renews token and rights"),
        ),
        (
            condition::AGENT_READY,
            format!("is Deployment tombolo-agent well there? `tombolo check` in {name} tells more"),
        ),
        (condition::DATA_TRUSTED, format!("`kubectl describe cluster {name}` has the events")),
        (
            condition::COPIES_REMOVED,
            format!("give the hub the right by `tombolo join {name} --grant …`, or delete it there"),
        ),
        (
            condition::COPIES_CURRENT,
            format!(
                "give the hub the right by `tombolo join {name} --grant …`, put it right, or let a policy select it"
            ),
        ),
    ] {
        match conditions.iter().find(|it| it.type_ == type_) {
            Some(said) if said.status != "True" => {
                let says = format!("{name}: {type_} is {}: {}: {}", said.status, said.reason, said.message);
                found.push(Finding::sick("members", says, way_out));
            }
            None if type_ == condition::READY => {
                found.push(Finding::sick(
                    "members",
                    format!("{name}: the hub says nothing of it"),
                    "does the hub run?",
                ));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_as_well_as_the_hub_says() {
        let cluster = |conditions: &str| -> Cluster {
            let text = format!(
                "{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: blue}}, spec: {{syncMode: Push}}, status: {{conditions: [{conditions}]}}}}"
            );
            serde_saphyr::from_str(&text).unwrap()
        };
        let said = |type_: &str, status: &str| {
            format!(
                "{{type: {type_}, status: '{status}', reason: Why, message: words, lastTransitionTime: '2026-01-01T00:00:00Z'}}"
            )
        };
        assert_eq!(of_member(&cluster("")).len(), 1);
        assert_eq!(of_member(&cluster(&said("Ready", "True"))), []);
        let found = of_member(&cluster(&[said("Ready", "True"), said("AgentReady", "False")].join(", ")));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].says, "blue: AgentReady is False: Why: words");
    }
}
