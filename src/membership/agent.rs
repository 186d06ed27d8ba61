//! The agent's manifests: what `tombolo join` deploys in a member, or prints.
//!
//! [`manifests`] is the only entry. The agent talks to its own API server only and needs nothing of the hub.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::account::{binding, manifest, namespace, role_of};
use crate::{api::names::object, decide::property};

/// The image of this release.
pub const IMAGE: &str = concat!("tombolo.dev/tombolo:", env!("CARGO_PKG_VERSION"));
/// Where the agent serves its health.
const HEALTH: u16 = 8081;

/// What runs the agent in a member, in the order in which it can be applied.
pub fn manifests(image: &str) -> Vec<DynamicObject> {
    let (name, named) = (object::AGENT, json!({ "name": object::AGENT }));
    let here = json!({ "name": name, "namespace": object::NAMESPACE });
    vec![
        namespace(object::NAMESPACE),
        manifest(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": here })),
        role_of("ClusterRole", &named, &cluster_rules()),
        binding("ClusterRoleBinding", "ClusterRole", named, name, None),
        role_of("Role", &here, &own_rules()),
        binding("RoleBinding", "Role", here.clone(), name, None),
        deployment(&here, image),
    ]
}

/// What the agent writes: records and conditions of exports, addresses and conditions of imports, derived Services
/// and slices.
pub fn cluster_rules() -> Vec<PolicyRule> {
    let mcs = "multicluster.x-k8s.io";
    rules(json!([
        { "apiGroups": [mcs], "resources": ["serviceexports", "serviceimports"],
          "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": [mcs], "resources": ["serviceexports/status", "serviceimports/status"], "verbs": ["patch"] },
        { "apiGroups": [""], "resources": ["services"],
          "verbs": ["list", "watch", "create", "update", "delete"] },
        { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
          "verbs": ["list", "watch", "create", "update", "patch", "delete"] },
        // It waits for the API's definitions where they come later.
        { "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
          "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] },
        // Where the kind is known: who this cluster is, and that it is a member. What is created has no name that a rule could name, and
        // some clusters ask for the right to delete from who says to whom an object belongs.
        { "apiGroups": [property::GROUP], "resources": [property::PLURAL], "verbs": ["list", "watch", "create"] },
        { "apiGroups": [property::GROUP], "resources": [property::PLURAL],
          "resourceNames": [property::ID, property::SET], "verbs": ["get", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"] },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": [object::HUB],
          "verbs": ["get"] },
    ]))
}

/// The Lease: leader election and heartbeat. What is created has no name yet that a rule could name.
pub fn own_rules() -> Vec<PolicyRule> {
    rules(json!([
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [object::AGENT],
          "verbs": ["get", "update"] },
        // What this cluster is called on its hub.
        { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [object::MARKER],
          "verbs": ["list", "watch"] },
    ]))
}

fn rules(value: Value) -> Vec<PolicyRule> {
    serde_json::from_value(value).expect("rules are written as rules")
}

fn deployment(metadata: &Value, image: &str) -> DynamicObject {
    let labels = json!({ "app.kubernetes.io/name": object::AGENT });
    let probe = |path| json!({ "httpGet": { "path": path, "port": HEALTH }, "periodSeconds": 5 });
    let container = json!({
        "name": "agent",
        "image": image,
        "args": ["agent"],
        "ports": [{ "name": "health", "containerPort": HEALTH }],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": { "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "512Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        },
    });
    let pod = json!({
        "serviceAccountName": object::AGENT,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [container],
    });
    manifest(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    }))
}

/// Manifests as a stream of YAML documents, for `kubectl apply`.
pub fn yaml(manifests: &[DynamicObject]) -> anyhow::Result<String> {
    manifests
        .iter()
        .map(|object| Ok(format!("---\n{}", serde_saphyr::to_string(&serde_json::to_value(object)?)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_has_no_wildcard_and_cannot_read_secrets() {
        let rules: Vec<_> = cluster_rules().into_iter().chain(own_rules()).collect();
        let shown = serde_json::to_string(&rules).unwrap();
        assert!(!shown.contains('*') && !shown.contains("secrets"), "{shown}");
        let roles = rules.iter().filter(|rule| rule.resources.iter().flatten().any(|it| it.contains("role")));
        assert!(
            roles.into_iter().all(|rule| rule.verbs == ["get"] && rule.resource_names.is_some()),
            "{shown}"
        );
    }

    #[test]
    fn b9_nobody_exports_in_a_users_name_so_that_rights_on_service_exports_restrict_it() {
        let of_exports = |rule: &PolicyRule| rule.resources.iter().flatten().any(|it| it == "serviceexports");
        let verbs: Vec<_> =
            cluster_rules().into_iter().filter(of_exports).flat_map(|rule| rule.verbs).collect();
        assert!(verbs.contains(&"patch".to_owned()) && !verbs.contains(&"create".to_owned()), "{verbs:?}");
    }

    #[test]
    fn what_is_printed_reads_as_what_is_deployed() {
        let manifests = manifests("an.example/tombolo:1");
        let read: Vec<DynamicObject> = serde_saphyr::from_multiple(&yaml(&manifests).unwrap()).unwrap();
        assert_eq!(read, manifests);
        let kinds: Vec<_> = read.iter().map(|object| object.types.clone().unwrap().kind).collect();
        assert_eq!(kinds.first().map(String::as_str), Some("Namespace"));
        assert_eq!(kinds.last().map(String::as_str), Some("Deployment"));
        assert!(yaml(&manifests).unwrap().contains("image: an.example/tombolo:1"));
    }

    #[test]
    fn the_agent_runs_without_root_and_writes_no_file() {
        let deployment = manifests(IMAGE).pop().unwrap().data;
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["runAsGroup"], 65532, "by default it would be that of root");
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["allowPrivilegeEscalation"], false);
    }
}
