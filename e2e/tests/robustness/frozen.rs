//! Copies whose policy is gone.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use tombolo::api::{Cluster, PropagationPolicy};
use tombolo_e2e::{bed::Bed, fleet, wait::until};

use super::ground::{PATIENCE, create_namespace, hub, place, put, until_says};

/// Waits until a condition of the member's Cluster has this status, and gives back its message.
async fn current(bed: &Bed, status: &str) -> Result<String> {
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    until(&format!("CopiesCurrent is {status}"), PATIENCE, async || {
        let told = clusters.get("member1").await?.status.context("it has no status")?.conditions;
        let found = told.into_iter().find(|it| it.type_ == "CopiesCurrent").context("it does not say so")?;
        ensure!(found.status == status, "it says {found:?}");
        Ok(found.message)
    })
    .await
}

pub(crate) async fn what_fails_to_follow_its_template_without_a_policy_is_told_by_its_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let _hub = hub(&bed, &[]).await?;
    fleet::register_all(&bed).await?;
    let (templates, member) = (&bed.hub.client, &bed.member(1).client);
    create_namespace(templates, "shop").await?;
    place(templates, "shop", "all", &[]).await?;
    put(templates, "shop", "object", "all", "1").await?;
    until_says(member, "shop", "object", "1").await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(templates.clone(), "shop");
    policies.delete("all", &DeleteParams::default()).await?;
    let kubectl = bed.kubectl("member1");
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"] }]);
    let refusal = json!({ "expression": "!has(object.data) || !('value' in object.data) || object.data.value != '2'",
                          "message": "two is not allowed here" });
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "two" },
        "spec": { "failurePolicy": "Fail", "matchConstraints": { "resourceRules": rules }, "validations": [refusal] },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": "two" }, "spec": { "policyName": "two", "validationActions": ["Deny"] },
    });
    kubectl.apply(&policy.to_string())?;
    kubectl.apply(&binding.to_string())?;
    kubectl.run(&["create", "configmap", "probe", "--from-literal=value=1"])?;
    let probe = ["patch", "configmap/probe", "--dry-run=server", "-p", r#"{"data":{"value":"2"}}"#];
    until("the member refuses", PATIENCE, async || {
        ensure!(kubectl.run(&probe).is_err(), "it does not");
        Ok(())
    })
    .await?;
    put(templates, "shop", "object", "all", "2").await?;
    let message = current(&bed, "False").await?;
    ensure!(message.contains("object") && message.contains("two is not allowed here"), "it says {message}");
    put(templates, "shop", "object", "all", "3").await?;
    until_says(member, "shop", "object", "3").await?;
    current(&bed, "True").await.map(drop)
}
