//! What no policy may select.

use crate::decide::select::{GroupKind, Object};

/// Kinds that belong to one cluster: (group, kind).
const KINDS: [(&str, &str); 6] = [
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Node"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
];
/// Objects that every cluster makes by itself: (group, kind, namespace or any, name).
const OBJECTS: [(&str, &str, Option<&str>, &str); 3] = [
    ("", "ConfigMap", None, "kube-root-ca.crt"),
    ("", "ServiceAccount", None, "default"),
    ("", "Service", Some("default"), "kubernetes"),
];
/// Groups of what rules over others: who may do what, what is admitted, which kinds there are.
const RULING: [&str; 3] =
    ["admissionregistration.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io"];
/// Groups that are about clusters and policies, not for clusters; their subgroups too.
const OURS: [&str; 2] = ["karmada.io", "tombolo.dev"];
/// What the names of Kubernetes' own namespaces begin with.
const SYSTEM_PREFIX: &str = "kube-";
/// Karmada's own namespaces: what it runs as, and the Secrets that lead into its members.
const KARMADA: [&str; 2] = ["karmada-cluster", "karmada-system"];
/// What the names of those begin with that it has for each of its members.
const KARMADA_PREFIX: &str = "karmada-es-";

const ITS_KARMADAS: &str = "it is Karmada's own";

/// Whether an object's kind rules over other objects: a namespaced policy may neither select nor change such.
pub fn rules_over_others(kind: &GroupKind) -> bool {
    RULING.contains(&&*kind.group)
}

/// Why objects of a kind are never templates, if they are not.
pub fn kind(kind: &GroupKind) -> Option<&'static str> {
    let within = |group: &&str| {
        kind.group.strip_suffix(group).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if OURS.iter().any(within) {
        Some("it is about clusters and policies and stays on the hub")
    } else if KINDS.contains(&(&*kind.group, &*kind.kind)) {
        Some("each cluster makes its own")
    } else {
        None
    }
}

/// Why objects of a namespace are never templates, if they are not. `system` is Tombolo's own.
pub fn namespace(namespace: &str, system: &str) -> Option<&'static str> {
    let own = !namespace.is_empty() && namespace == system;
    let karmadas = KARMADA.contains(&namespace).then_some(ITS_KARMADAS);
    all_namespaces(namespace).or(karmadas).or(own.then_some("it is Tombolo's own"))
}

/// Why objects of all namespaces that begin so are never templates, if they are not.
pub(super) fn all_namespaces(prefix: &str) -> Option<&'static str> {
    let kubernetes = prefix.starts_with(SYSTEM_PREFIX).then_some("it is Kubernetes' own");
    kubernetes.or(prefix.starts_with(KARMADA_PREFIX).then_some(ITS_KARMADAS))
}

/// Why an object is never a template, by its kind, namespace and name, if it is not.
///
/// Its owner and the type of a Secret say more, which selectors do not see.
pub fn object(object: &Object<'_>, system: &str) -> Option<&'static str> {
    kind(object.kind)
        .or_else(|| namespace(object.namespace, system))
        .or_else(|| named(object.kind, Some(object.namespace), object.name, system))
}

/// Why an object of that name is never a template, if it is not.
pub(super) fn named(
    kind: &GroupKind,
    in_namespace: Option<&str>,
    name: &str,
    system: &str,
) -> Option<&'static str> {
    if kind.group.is_empty() && &*kind.kind == "Namespace" {
        return namespace(name, system);
    }
    let own = OBJECTS.iter().any(|(group, its_kind, its_namespace, its_name)| {
        *group == &*kind.group
            && *its_kind == &*kind.kind
            && *its_name == name
            && its_namespace.is_none_or(|its| in_namespace == Some(its))
    });
    own.then_some("each cluster makes its own")
}
