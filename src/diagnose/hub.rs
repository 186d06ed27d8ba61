//! A hub: does it run, does its webhook refuse, and how are its members?

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use serde_json::json;

use super::{Finding, Look, common, rights::Account};
use crate::{
    api::{
        Cluster, ClusterPropagationPolicy, PropagationPolicy,
        crds::Role,
        names::{annotation, condition, object},
    },
    decide::{
        admit::{cidr, overlaps},
        policies::PolicyKey,
        select::GroupKind,
    },
    hub::{rights, served::discover},
    membership::report,
};

const DEFINITIONS: &str = "`tombolo crds | kubectl apply --server-side --force-conflicts -f -`";
const RIGHTS: &str = "an upgrade of the hub's chart renews its rights";
const TEMPLATES: &str = "rbac.templates and rbac.extraRules of the hub's chart say what it may read; until then such objects go nowhere";

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
        let mut own = [rights::own(), rights::member_secrets()].concat();
        if self.keeps_certificates().await? {
            own.extend(rights::certificates());
        }
        let mut lacking: Vec<_> = self.lacks(account, &rights::cluster(), None).await?.into_iter().collect();
        lacking.extend(self.lacks(account, &own, Some(self.namespace)).await?);
        let sick = |says| Finding::sick("rights", says, RIGHTS);
        let mut found: Vec<_> = lacking.into_iter().map(sick).collect();
        found.extend(self.templates(account).await?);
        if found.is_empty() {
            found.push(Finding::well("rights", "the hub's account has its own"));
        }
        Ok(found)
    }

    /// Whether the hub's account may read what policies select. What else it may read is for its administrator to choose.
    async fn templates(&self, account: Account<'_>) -> Result<Vec<Finding>> {
        let served = discover(self.client).await.context("failed to ask the API server for its kinds")?;
        let mut found = Vec::new();
        for (kind, policy) in self.selected().await? {
            // One that is not served yet the policy itself tells of.
            let Some(version) = served.preferred(&kind) else { continue };
            let rule = rights::template(&version.resource);
            let lacking = self.lacks(account, &[rule], None).await?;
            let says = lacking.map(|lacking| format!("{lacking}, which {policy} selects"));
            found.extend(says.map(|says| Finding::sick("rights", says, TEMPLATES)));
        }
        Ok(found)
    }

    /// The kinds that policies select, each with a policy that does.
    async fn selected(&self) -> Result<BTreeMap<GroupKind, String>> {
        let own = Api::<PropagationPolicy>::all(self.client.clone());
        let wide = Api::<ClusterPropagationPolicy>::all(self.client.clone());
        let all = ListParams::default();
        let (own, wide) =
            tokio::try_join!(own.list(&all), wide.list(&all)).context("failed to list the policies")?;
        let policies = own.items.iter().map(|it| (&it.metadata, &it.spec));
        let policies = policies.chain(wide.items.iter().map(|it| (&it.metadata, &it.spec)));
        let mut kinds = BTreeMap::new();
        for (metadata, spec) in policies {
            for selector in &spec.resource_selectors {
                let kind = GroupKind::new(&selector.api_version, &selector.kind);
                kinds.entry(kind).or_insert_with(|| {
                    let key = PolicyKey::of(metadata);
                    let of = if key.namespace.is_some() { "" } else { "Cluster" };
                    format!("{of}PropagationPolicy {key}")
                });
            }
        }
        Ok(kinds)
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
    use http::{Request, Response};
    use k8s_openapi::ByteString;
    use kube::client::Body;
    use serde_json::Value;

    use super::*;
    use crate::webhook::{authority::Authority, configuration, rotation};

    /// An authority of its own, as PEM.
    fn authority(number: u64) -> Value {
        json!(ByteString(Authority::new(number, 0, 1_000_000).unwrap().certificate.into_bytes()))
    }

    /// A hub with a policy for Deployments, whose account may do all but what is refused; the API server knows its webhook by these.
    fn hub(refused: fn(&str, &str) -> bool, own: &Value, known: &Value) -> Client {
        let kind = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
        let deployments = json!({ "resource": "deployments", "responseKind": kind, "scope": "Namespaced",
            "singularResource": "deployment", "verbs": ["get", "list", "watch"] });
        let apps = json!({ "metadata": { "name": "apps" }, "versions": [{ "version": "v1", "resources": [deployments] }] });
        let selectors = json!([{ "apiVersion": "apps/v1", "kind": "Deployment" }]);
        let policy = json!({ "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": { "namespace": "shop", "name": "p" }, "spec": { "resourceSelectors": selectors } });
        let webhook = json!({ "name": "a.b.c", "clientConfig": { "caBundle": known }, "sideEffects": "None",
            "admissionReviewVersions": ["v1"] });
        let secret = json!({ "metadata": { "name": rotation::SECRET }, "data": { "ca.crt": own } });
        let answers = move |path: &str, body: &Value| match path.rsplit('/').next().unwrap_or_default() {
            "api" | "clusterpropagationpolicies" => json!({ "metadata": {}, "items": [] }),
            "apis" => json!({ "metadata": {}, "items": [apps] }),
            "propagationpolicies" => json!({ "metadata": {}, "items": [policy] }),
            "subjectaccessreviews" => {
                let text =
                    |of: &str| body["spec"]["resourceAttributes"][of].as_str().unwrap_or_default().to_owned();
                let allowed = !refused(&text("verb"), &text("resource"));
                json!({ "metadata": {}, "spec": {}, "status": { "allowed": allowed } })
            }
            configuration::NAME => json!({ "metadata": {}, "webhooks": [webhook] }),
            rotation::SECRET => secret.clone(),
            _ => json!({ "metadata": { "name": object::HUB } }),
        };
        let answer = move |request: Request<Body>| {
            let answers = answers.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
                let answer = answers(head.uri.path(), &body).to_string();
                Ok::<_, kube::Error>(Response::new(Body::from(answer.into_bytes())))
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    async fn rights_of(client: &Client) -> Vec<String> {
        let found = Look::new(client, "tombolo-system").own_rights().await.unwrap();
        found.into_iter().map(|finding| finding.says).collect()
    }

    #[tokio::test]
    async fn a_right_to_its_own_certificates_is_missed_only_where_it_keeps_them() {
        let (one, two) = (authority(1), authority(2));
        let no_update = |verb: &str, resource: &str| verb == "update" && resource == "secrets";
        let lacks =
            "ServiceAccount tombolo-system/tombolo-hub may not update secrets in namespace tombolo-system";
        assert_eq!(rights_of(&hub(no_update, &one, &one)).await, [lacks]);
        // Before the first is published.
        assert_eq!(rights_of(&hub(no_update, &one, &Value::Null)).await, [lacks]);
        // Others are brought since.
        assert_eq!(rights_of(&hub(no_update, &one, &two)).await, ["the hub's account has its own"]);
    }

    #[tokio::test]
    async fn a_right_to_read_what_a_policy_selects_is_missed() {
        let one = authority(1);
        let found =
            rights_of(&hub(|verb, resource| (verb, resource) == ("watch", "deployments"), &one, &one)).await;
        let lacks = "ServiceAccount tombolo-system/tombolo-hub may not watch deployments of apps, which PropagationPolicy shop/p selects";
        assert_eq!(found, [lacks]);
        let found = rights_of(&hub(|_, resource| resource == "daemonsets", &one, &one)).await;
        assert_eq!(found, ["the hub's account has its own"], "nobody selects these");
    }

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
