//! What a member is given so that the hub can work there: a namespace, the mark of whose member it is, and an account with
//! rights. Manifests only; [`super::join`] writes them.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::grant::{Grant, housekeeping};
use crate::api::names::{annotation, object};

/// On everything that join writes in a member but its namespace and CRDs.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "tombolo");

/// What an object belongs to: it goes when its owner goes.
#[derive(Clone, Debug)]
pub struct Owner {
    api_version: &'static str,
    kind: &'static str,
    uid: String,
}

/// Tombolo's own namespace. One that is there is left as it is.
pub fn namespace(name: &str) -> DynamicObject {
    typed(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
}

/// The hub's account.
pub fn account(hub_id: &str) -> DynamicObject {
    let annotations = json!({ annotation::JOINED_BY: hub_id });
    let metadata = json!({ "name": object::HUB, "namespace": object::NAMESPACE, "annotations": annotations });
    manifest(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }))
}

/// Whose member it is, and by which id. Without it another hub could take the cluster for free.
pub fn marker(hub_id: &str, cluster: &str, id: &str) -> DynamicObject {
    manifest(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": object::MARKER, "namespace": object::NAMESPACE },
        "data": { object::MARKER_HUB: hub_id, object::MARKER_CLUSTER: cluster, object::MARKER_ID: id },
    }))
}

/// The account's token: of a Secret, since a requested token expires. The member's own controller fills it in, and removes it
/// with the account.
pub fn token() -> DynamicObject {
    let annotations = json!({ "kubernetes.io/service-account.name": object::HUB });
    manifest(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": object::HUB, "namespace": object::NAMESPACE, "annotations": annotations },
        "type": "kubernetes.io/service-account-token",
    }))
}

/// The account's rights in the whole cluster.
pub fn cluster_role(grant: &Grant) -> anyhow::Result<DynamicObject> {
    let mut annotations = json!({ annotation::GRANT: grant.preset.name() });
    if !grant.extra.is_empty() {
        annotations[annotation::GRANT_RULES] = serde_json::to_string(&grant.extra)?.into();
    }
    Ok(manifest(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": object::HUB, "annotations": annotations },
        "rules": grant.rules(),
    })))
}

/// Gives the account its rights in the whole cluster. It belongs to the ClusterRole: who removes the one could not remove the
/// other any more.
pub fn cluster_binding(role: &Owner) -> DynamicObject {
    binding("ClusterRoleBinding", "ClusterRole", json!({ "name": object::HUB }), object::HUB, role.clone())
}

/// The account's rights in Tombolo's own namespace, for as long as there is the account.
pub fn role(account: &Owner) -> DynamicObject {
    manifest(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": { "name": object::HUB, "namespace": object::NAMESPACE, "ownerReferences": [account.reference()] },
        "rules": housekeeping(),
    }))
}

/// Gives the account its rights in Tombolo's own namespace, for as long as there is the account.
pub fn role_binding(account: &Owner) -> DynamicObject {
    let metadata = json!({ "name": object::HUB, "namespace": object::NAMESPACE });
    binding("RoleBinding", "Role", metadata, object::HUB, account.clone())
}

/// A role of Tombolo's own.
pub(super) fn role_of(kind: &str, metadata: &Value, rules: &[PolicyRule]) -> DynamicObject {
    manifest(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules,
    }))
}

/// Gives the account of a name the role of that name.
pub(super) fn binding(
    kind: &str,
    role: &str,
    mut metadata: Value,
    name: &str,
    owner: impl Into<Option<Owner>>,
) -> DynamicObject {
    if let Some(owner) = owner.into() {
        metadata["ownerReferences"] = json!([owner.reference()]);
    }
    manifest(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": object::NAMESPACE }],
    }))
}

/// A manifest as an object, with the label that all of ours have.
pub(super) fn manifest(mut value: Value) -> DynamicObject {
    value["metadata"]["labels"][MANAGED_BY.0] = MANAGED_BY.1.into();
    typed(value)
}

fn typed(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("a manifest has apiVersion, kind and metadata")
}

// === impl Owner ===

impl Owner {
    /// The hub's account as owner.
    pub fn account(uid: String) -> Self {
        Self { api_version: "v1", kind: "ServiceAccount", uid }
    }

    /// The hub's ClusterRole as owner.
    pub fn cluster_role(uid: String) -> Self {
        Self { api_version: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", uid }
    }

    fn reference(&self) -> Value {
        json!({ "apiVersion": self.api_version, "kind": self.kind, "name": object::HUB, "uid": self.uid })
    }
}
