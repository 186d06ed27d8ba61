//! What the hub may do on its own API server: the rules of its roles, as data.
//!
//! [`files`] is what the chart's roles are made of; `tombolo crds --write` keeps them in `charts/tombolo-hub/rules`. Rights in members
//! are those of [`grant`](crate::membership::grant). Invariant: no rule has a wildcard, and no configuration of a webhook can be made,
//! so that none comes back while the chart is uninstalled.

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::ApiResource;

use crate::{
    api::names::object,
    membership::grant::{Grant, Preset, READ, Right, rule},
    webhook::{configuration, rotation},
};

/// What is never a template, though the hub has rights to it in members.
const NO_TEMPLATES: &[&str] = &["endpointslices"];
/// What one asks for by name.
const SECRETS: &str = "secrets";

/// What admission, propagation and the exchange of services read and write on the hub.
const CLUSTER: &[Right] = &[
    // Conditions, taints, the finalizer, and which kinds a member was given.
    ("cluster.karmada.io", &["clusters"], &["get", "list", "watch", "patch"]),
    ("cluster.karmada.io", &["clusters/status"], &["patch"]),
    ("policy.karmada.io", &["propagationpolicies", "clusterpropagationpolicies"], READ),
    ("policy.karmada.io", &["overridepolicies", "clusteroverridepolicies"], &["list", "watch"]),
    ("policy.karmada.io", &["propagationpolicies/status", "clusterpropagationpolicies/status"], &["patch"]),
    ("multicluster.x-k8s.io", &["serviceexports", "serviceimports"], READ),
    ("multicluster.x-k8s.io", &["serviceexports/status", "serviceimports/status"], &["patch"]),
    ("", &["namespaces", "services"], READ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"], READ),
    ("events.k8s.io", &["events"], &["create", "patch"]),
];

/// What the hub may do in the whole cluster, whatever is propagated.
pub fn cluster() -> Vec<PolicyRule> {
    let configurations: Right = (
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        &["get", "patch"],
    );
    let mut rules: Vec<_> = CLUSTER.iter().map(|right| rule(right, &[])).collect();
    rules.push(rule(&configurations, &[configuration::NAME, configuration::POLICIES]));
    rules
}

/// What it may do in its own namespace. What is created has no name yet that a rule could name.
pub fn own() -> Vec<PolicyRule> {
    vec![
        rule(&("coordination.k8s.io", &["leases"], &["create"]), &[]),
        rule(&("coordination.k8s.io", &["leases"], &["get", "update"]), &[object::HUB]),
        // Its id, and its certificates where it makes them itself.
        rule(&("", &[SECRETS], &["create"]), &[]),
    ]
}

/// What it may do with its own certificates.
pub fn certificates() -> Vec<PolicyRule> {
    vec![rule(&("", &[SECRETS], &["update"]), &[rotation::SECRET])]
}

/// What it may do where the Secrets of members are.
pub fn member_secrets() -> Vec<PolicyRule> {
    vec![rule(&("", &[SECRETS], READ), &[])]
}

/// Reading objects of a kind, so that they can be propagated.
pub fn template(kind: &ApiResource) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![kind.group.clone()]),
        resources: Some(vec![kind.plural.clone()]),
        verbs: READ.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Reading what is usually propagated: all that `tombolo join --grant workloads` lets it write in members, Secrets aside.
pub fn templates() -> Vec<PolicyRule> {
    let grant = Grant { preset: Preset::Workloads, extra: Vec::new() };
    let known: Vec<_> = CLUSTER.iter().flat_map(|(_, resources, _)| *resources).copied().collect();
    let mut rules = grant.rules();
    rules.retain_mut(|rule| {
        let resources = rule.resources.get_or_insert_default();
        resources.retain(|name| {
            let name = name.as_str();
            !known.contains(&name) && !NO_TEMPLATES.contains(&name) && name != SECRETS
        });
        rule.verbs = READ.iter().map(|verb| (*verb).to_owned()).collect();
        rule.resource_names.is_none() && !resources.is_empty()
    });
    rules
}

/// What it, or an agent, may ask its API server of whoever wants to read its metrics, where that is guarded.
pub fn reviews() -> Vec<PolicyRule> {
    vec![
        rule(&("authentication.k8s.io", &["tokenreviews"], &["create"]), &[]),
        rule(&("authorization.k8s.io", &["subjectaccessreviews"], &["create"]), &[]),
    ]
}

/// The rules by the name of their file in the chart.
pub fn files() -> [(&'static str, Vec<PolicyRule>); 6] {
    [
        ("cluster", cluster()),
        ("namespace", own()),
        ("certificates", certificates()),
        ("member-secrets", member_secrets()),
        ("templates", templates()),
        ("reviews", reviews()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_has_a_wildcard_and_no_webhook_can_be_made() {
        for (name, rules) in files() {
            let shown = serde_json::to_string(&rules).unwrap();
            assert!(!shown.contains('*'), "{name}: {shown}");
        }
        let webhooks = cluster().pop().unwrap();
        assert!(!webhooks.verbs.iter().any(|verb| verb == "create"), "{webhooks:?}");
    }

    #[test]
    fn templates_are_read_only_and_secrets_are_not_among_them() {
        let rules = templates();
        let of = |rule: &PolicyRule| rule.resources.clone().unwrap_or_default();
        let all: Vec<_> = rules.iter().flat_map(of).collect();
        assert!(all.iter().any(|name| name == "deployments") && all.iter().any(|name| name == "configmaps"));
        assert!(!all.iter().any(|name| name == SECRETS || name == "endpointslices"), "{all:?}");
        assert!(rules.iter().all(|rule| rule.verbs == READ), "{rules:?}");
    }
}
