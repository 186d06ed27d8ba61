//! The webhook configurations: what the API server sends to us, and what happens when we do not answer.
//!
//! They are generated here and written only when they differ. Our own kinds fail closed: an object that nobody checked would be
//! acted on. Services fail open: they are everybody's, and the same check is made again when they are propagated. So do deletions,
//! which are only warned about; that of a Cluster is refused while it exports, so it fails closed too.
//!
//! What Tombolo writes itself does not come here. Of policies that is their status alone, a subresource that no rule names, so
//! they need no condition on who writes: for any condition the API server converts the whole object, at each webhook and again
//! after a patch, which is a sixth of what a webhook costs a user. As conditions hold for a webhook, not for a rule, and a
//! webhook's name stands in every denial, policies have configurations of their own with webhooks of the same names.

use anyhow::{Context, Result};
use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::authority::Names;

/// The name of the configurations of both kinds for everything but policies.
pub const NAME: &str = "tombolo";
/// The name of those for policies.
pub const POLICIES: &str = "tombolo-policies";
const WRITES: &[&str] = &["CREATE", "UPDATE"];
const DELETION: &[&str] = &["DELETE"];
/// The field manager of everything that the hub writes to its own API server; it never changes between releases.
const MANAGER: &str = "tombolo-hub";

/// How API servers reach the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// By a URL, where the hub runs outside the cluster.
    Url(String),
    /// By a Service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

// === impl Address ===

impl Address {
    /// The names that the serving certificate must have.
    pub fn names(&self) -> Result<Names> {
        match self {
            Self::Url(url) => {
                let uri: http::Uri =
                    url.parse().with_context(|| format!("--webhook-url: {url:?} is no URL"))?;
                Names::of_host(uri.host().with_context(|| format!("--webhook-url: {url:?} has no host"))?)
            }
            Self::Service { namespace, name, .. } => Names::of_service(namespace, name),
        }
    }

    fn client(&self, path: &str, authorities: &str) -> Value {
        let bundle = ByteString(authorities.as_bytes().to_vec());
        match self {
            Self::Url(url) => {
                json!({ "url": format!("{}{path}", url.trim_end_matches('/')), "caBundle": bundle })
            }
            Self::Service { namespace, name, port } => json!({
                "service": { "namespace": namespace, "name": name, "port": port, "path": path },
                "caBundle": bundle,
            }),
        }
    }
}

/// What is sent to us of policies. Tombolo writes their status, which is not among these.
fn policy_rules(operations: &[&str]) -> Value {
    json!([
        { "apiGroups": ["policy.karmada.io"], "apiVersions": ["v1alpha1"],
          "resources": ["propagationpolicies", "clusterpropagationpolicies", "overridepolicies", "clusteroverridepolicies"],
          "operations": operations, "scope": "*" },
    ])
}

/// What is sent to us of services.
fn service_rules(operations: &[&str]) -> Value {
    json!({ "apiGroups": ["multicluster.x-k8s.io"], "apiVersions": ["v1alpha1", "v1beta1"],
            "resources": ["serviceexports", "serviceimports"], "operations": operations, "scope": "Namespaced" })
}

/// What is sent to us of Clusters.
fn cluster_rules(operations: &[&str]) -> Value {
    json!({ "apiGroups": ["cluster.karmada.io"], "apiVersions": ["v1alpha1"], "resources": ["clusters"],
            "operations": operations, "scope": "Cluster" })
}

/// Nobody needs to check what Tombolo itself writes; and it must be able to write when the webhook is down.
fn not_ourselves(user: &str) -> Value {
    // As a JSON string a name is a CEL string too, whatever is in it.
    json!({ "name": "not-tombolo-itself", "expression": format!("request.userInfo.username != {}", json!(user)) })
}

/// The webhook of deletions that are only warned about.
fn deletions(client: &Value, rules: &Value, conditions: &[Value]) -> Value {
    let mut webhook = own("deletions.tombolo.dev", client, rules, conditions);
    webhook["failurePolicy"] = json!("Ignore");
    webhook["timeoutSeconds"] = json!(2);
    webhook
}

/// A webhook of our own kinds.
fn own(name: &str, client: &Value, rules: &Value, conditions: &[Value]) -> Value {
    json!({
        "name": name, "clientConfig": client, "rules": rules, "matchConditions": conditions,
        "failurePolicy": "Fail", "timeoutSeconds": 5, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
    })
}

fn configuration(kind: &str, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": name }, "webhooks": webhooks,
    })
}

fn validating(address: &Address, authorities: &str, user: &str) -> [Value; 2] {
    let client = address.client("/validate", authorities);
    let webhook =
        |rules: &Value, conditions: &[Value]| own("validate.tombolo.dev", &client, rules, conditions);
    let configuration =
        |name, webhooks: &[Value]| configuration("ValidatingWebhookConfiguration", name, webhooks);
    let others = json!([service_rules(WRITES), cluster_rules(&["CREATE", "UPDATE", "DELETE"])]);
    let unless_ourselves = [not_ourselves(user)];
    [
        configuration(
            POLICIES,
            &[webhook(&policy_rules(WRITES), &[]), deletions(&client, &policy_rules(DELETION), &[])],
        ),
        configuration(
            NAME,
            &[
                webhook(&others, &unless_ourselves),
                deletions(&client, &json!([service_rules(DELETION)]), &unless_ourselves),
                services(&client, user),
            ],
        ),
    ]
}

/// The webhook of everybody's Services.
fn services(client: &Value, user: &str) -> Value {
    let changed = "request.operation != 'UPDATE' || object.spec.ports != oldObject.spec.ports || \
                   object.spec.type != oldObject.spec.type || \
                   (has(object.spec.clusterIP) ? object.spec.clusterIP : '') != \
                   (has(oldObject.spec.clusterIP) ? oldObject.spec.clusterIP : '')";
    json!({
        "name": "services.tombolo.dev",
        "clientConfig": client,
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"],
                    "operations": ["CREATE", "UPDATE"], "scope": "Namespaced" }],
        "namespaceSelector": { "matchExpressions": [
            { "key": "kubernetes.io/metadata.name", "operator": "NotIn",
              "values": ["kube-system", "kube-public", "kube-node-lease"] },
        ] },
        "matchConditions": [not_ourselves(user), { "name": "what-matters-changed", "expression": changed }],
        "failurePolicy": "Ignore", "timeoutSeconds": 2, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
    })
}

fn mutating(address: &Address, authorities: &str, user: &str) -> [Value; 2] {
    let client = address.client("/mutate", authorities);
    let webhook = |name, rules: &Value, conditions: &[Value]| {
        let mut webhook = own("mutate.tombolo.dev", &client, rules, conditions);
        webhook["reinvocationPolicy"] = json!("Never");
        configuration("MutatingWebhookConfiguration", name, &[webhook])
    };
    [
        webhook(POLICIES, &policy_rules(WRITES), &[]),
        webhook(NAME, &json!([service_rules(WRITES), cluster_rules(WRITES)]), &[not_ourselves(user)]),
    ]
}

/// Makes sure that all configurations are as they should be; writes only what differs.
pub async fn ensure(client: &Client, address: &Address, authorities: &str, user: &str) -> Result<()> {
    for desired in validating(address, authorities, user) {
        ensure_one::<ValidatingWebhookConfiguration>(client, &desired).await?;
    }
    for desired in mutating(address, authorities, user) {
        ensure_one::<MutatingWebhookConfiguration>(client, &desired).await?;
    }
    Ok(())
}

/// The authorities that API servers trust the webhook by, as PEM; none where there is no configuration.
pub async fn trusted(client: &Client) -> Result<Vec<u8>> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let found = api.get_opt(NAME).await.context("failed to read the ValidatingWebhookConfiguration")?;
    let webhook = found.and_then(|found| found.webhooks?.into_iter().next());
    Ok(webhook.and_then(|webhook| webhook.client_config.ca_bundle).unwrap_or_default().0)
}

async fn ensure_one<K>(client: &Client, desired: &Value) -> Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let kind = K::kind(&());
    let name = desired["metadata"]["name"].as_str().context("a configuration has a name")?;
    let found = api.get_opt(name).await.with_context(|| format!("failed to read the {kind}"))?;
    let found = found.map(serde_json::to_value).transpose().context("an object is JSON")?;
    if found.is_some_and(|found| contains(&found, desired)) {
        return Ok(());
    }
    let apply = PatchParams::apply(MANAGER).force();
    api.patch(name, &apply, &Patch::Apply(desired))
        .await
        .with_context(|| format!("failed to write the {kind}"))?;
    tracing::info!(kind = %kind, name, "webhook configuration written");
    Ok(())
}

/// Whether an object has all that is desired of it; the API server adds defaults.
fn contains(found: &Value, desired: &Value) -> bool {
    match (found, desired) {
        (Value::Object(found), Value::Object(desired)) => desired.iter().all(|(key, value)| {
            // An empty list and none are one to an API server.
            found.get(key).map_or_else(|| *value == json!([]), |found| contains(found, value))
        }),
        (Value::Array(found), Value::Array(desired)) => {
            found.len() == desired.len()
                && found.iter().zip(desired).all(|(found, desired)| contains(found, desired))
        }
        _ => found == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(authorities: &str, user: &str) -> Vec<Value> {
        let address = Address::Url("https://127.0.0.1:9443".to_owned());
        let validating = validating(&address, authorities, user);
        validating.into_iter().chain(mutating(&address, authorities, user)).collect()
    }

    fn items<'a>(list: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
        list[key].as_array().into_iter().flatten()
    }

    #[test]
    fn a_configuration_with_defaults_is_as_desired_and_one_with_another_bundle_is_not() {
        for (at, desired) in all("one", "tombolo").iter().enumerate() {
            let mut found = desired.clone();
            found["webhooks"][0]["objectSelector"] = json!({});
            found["metadata"]["uid"] = json!("u");
            // An empty list is left out of what an API server gives back.
            let webhook = found["webhooks"][0].as_object_mut().unwrap();
            webhook.retain(|_, value| value != &json!([]));
            assert!(contains(&found, desired));
            assert!(!contains(&found, &all("two", "tombolo")[at]));
            let conditional = desired["metadata"]["name"] == NAME;
            assert_eq!(contains(&found, &all("one", "somebody")[at]), !conditional);
        }
    }

    #[test]
    fn what_tombolo_writes_does_not_come_to_it() {
        for configuration in all("one", "tombolo") {
            for webhook in items(&configuration, "webhooks") {
                let others_only = items(webhook, "matchConditions")
                    .any(|condition| condition["expression"] == "request.userInfo.username != \"tombolo\"");
                for resource in items(webhook, "rules").flat_map(|rule| items(rule, "resources")) {
                    let resource = resource.as_str().unwrap();
                    // Of policies it writes the status only.
                    assert_eq!(others_only, !resource.ends_with("policies"), "{resource}");
                    assert!(!resource.contains(['/', '*']), "{resource}");
                }
            }
        }
    }

    #[test]
    fn own_kinds_fail_closed_services_and_deletions_fail_open_and_nobody_waits_for_more_than_five_seconds() {
        for configuration in all("one", "tombolo") {
            for webhook in items(&configuration, "webhooks") {
                for rule in items(webhook, "rules") {
                    let services = rule["resources"] == json!(["services"]);
                    let clusters = rule["resources"] == json!(["clusters"]);
                    let deletion = items(rule, "operations").any(|operation| operation == "DELETE");
                    let policy = if services || (deletion && !clusters) { "Ignore" } else { "Fail" };
                    assert_eq!(webhook["failurePolicy"], policy, "{webhook}");
                }
                assert!(webhook["timeoutSeconds"].as_u64().is_some_and(|seconds| seconds <= 5), "{webhook}");
                assert_eq!(webhook["sideEffects"], "None", "{webhook}");
            }
        }
    }

    #[test]
    fn the_certificates_names_are_those_that_api_servers_call() {
        let url = Address::Url("https://[fd00::1]:9443".to_owned()).names().unwrap();
        assert!(format!("{url:?}").contains("fd00::1"));
        assert!(Address::Url("not a url".to_owned()).names().is_err());
        let service = Address::Service { namespace: "a".to_owned(), name: "b".to_owned(), port: 443 };
        assert!(format!("{:?}", service.names().unwrap()).contains("b.a.svc"));
    }
}
