//! What a hub may do in a member: the rights that `tombolo join --grant` gives, as data.
//!
//! [`Grant::rules`] become the hub's ClusterRole, [`housekeeping`] its Role in Tombolo's own namespace. Nothing here asks an API
//! server; `docs/members.md` shows the same table. Invariant: only `all` has a wildcard.

use clap::ValueEnum;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::api::names::object;

/// What a hub may do with copies. `patch` is server-side apply.
const COPIES: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// What a hub may do with what cascades: it is never deleted unless a policy asks for it, and then one says so here too.
const CASCADING: &[&str] = &["get", "list", "watch", "create", "patch"];
pub(crate) const READ: &[&str] = &["get", "list", "watch"];
const REMOVE: &[&str] = &["get", "delete"];

/// Group, resources and verbs.
pub(crate) type Right = (&'static str, &'static [&'static str], &'static [&'static str]);

/// What services between clusters need.
const SERVICES: &[Right] = &[
    ("multicluster.x-k8s.io", &["serviceexports", "serviceimports"], COPIES),
    ("multicluster.x-k8s.io", &["serviceexports/status", "serviceimports/status"], &["patch"]),
    // Slices have one writer each and are written by PUT.
    ("discovery.k8s.io", &["endpointslices"], &["get", "list", "watch", "create", "update", "delete"]),
    ("", &["namespaces"], CASCADING),
    // Derived Services of a member that leaves and whose agent is dead.
    ("", &["services"], &["get", "list", "delete"]),
    ("apiextensions.k8s.io", &["customresourcedefinitions"], READ),
];

/// What Karmada's and our own examples propagate.
const WORKLOADS: &[Right] = &[
    (
        "",
        &[
            "configmaps",
            "limitranges",
            "persistentvolumeclaims",
            "pods",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
        ],
        COPIES,
    ),
    ("apps", &["daemonsets", "deployments", "statefulsets"], COPIES),
    ("autoscaling", &["horizontalpodautoscalers"], COPIES),
    ("batch", &["cronjobs", "jobs"], COPIES),
    ("networking.k8s.io", &["ingresses", "networkpolicies"], COPIES),
    ("policy", &["poddisruptionbudgets"], COPIES),
    ("apiextensions.k8s.io", &["customresourcedefinitions"], &["create", "patch"]),
];

const ALL: &[Right] = &[("*", &["*"], &["*"])];

/// A set of rights that has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// What services between clusters need.
    Services,
    /// That, and what is usually propagated: workloads, their configuration, and CustomResourceDefinitions.
    #[default]
    Workloads,
    /// Everything.
    All,
}

/// What a hub may do in a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    /// The rights that have a name.
    pub preset: Preset,
    /// Rules besides.
    pub extra: Vec<PolicyRule>,
}

// === impl Grant ===

impl Grant {
    /// The rules of the hub's ClusterRole.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let named = match self.preset {
            Preset::Services => vec![SERVICES],
            Preset::Workloads => vec![SERVICES, WORKLOADS],
            Preset::All => vec![SERVICES, ALL],
        };
        let mut rules: Vec<_> = named.concat().iter().map(|right| rule(right, &[])).collect();
        // To go without leaving its own roles behind.
        let roles: Right = ("rbac.authorization.k8s.io", &["clusterroles", "clusterrolebindings"], REMOVE);
        rules.push(rule(&roles, &[object::HUB, object::AGENT]));
        rules.extend(self.extra.iter().cloned());
        rules
    }
}

// === impl Preset ===

impl Preset {
    /// Its name, as one writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::Workloads => "workloads",
            Self::All => "all",
        }
    }

    /// The preset of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|preset| preset.name() == name)
    }
}

/// The rules of the hub's Role in Tombolo's own namespace of a member: it sees the agent's heartbeat, and removes what `join`
/// made there when the member leaves.
pub fn housekeeping() -> Vec<PolicyRule> {
    let (hub, agent) = (object::HUB, object::AGENT);
    let leases: Right = ("coordination.k8s.io", &["leases"], READ);
    let named: &[(Right, &[&str])] = &[
        (("coordination.k8s.io", &["leases"], &["delete"]), &[agent]),
        (("", &["configmaps"], REMOVE), &[object::MARKER]),
        (("", &["serviceaccounts"], REMOVE), &[hub, agent]),
        (("apps", &["deployments"], REMOVE), &[agent]),
        (("rbac.authorization.k8s.io", &["roles", "rolebindings"], REMOVE), &[agent]),
    ];
    std::iter::once(rule(&leases, &[])).chain(named.iter().map(|(right, names)| rule(right, names))).collect()
}

/// Reads rules that a user wrote: a list of them, or a ClusterRole. Otherwise says what is wrong, and where.
pub fn read(text: &str) -> Result<Vec<PolicyRule>, String> {
    let value: Value = serde_saphyr::from_str(text).map_err(|e| format!("is not YAML: {e}"))?;
    let rules = match &value {
        Value::Array(rules) => rules,
        Value::Object(role) => {
            let kind = role.get("kind").and_then(Value::as_str).unwrap_or_default();
            if kind != "ClusterRole" {
                return Err(format!("must be a list of rules or a ClusterRole, not {kind:?}"));
            }
            role.get("rules").and_then(Value::as_array).ok_or("rules: is missing")?
        }
        _ => return Err("must be a list of rules or a ClusterRole".to_owned()),
    };
    if rules.is_empty() {
        return Err("holds no rule".to_owned());
    }
    rules.iter().enumerate().map(|(n, rule)| one(rule).map_err(|why| format!("rules[{n}]: {why}"))).collect()
}

/// One rule, as strictly as the API server would take it.
fn one(value: &Value) -> Result<PolicyRule, String> {
    const KNOWN: [&str; 5] = ["apiGroups", "nonResourceURLs", "resourceNames", "resources", "verbs"];
    let fields = value.as_object().ok_or("must be a rule with apiGroups, resources and verbs")?;
    if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("{unknown}: a rule has {} only", KNOWN.join(", ")));
    }
    let rule: PolicyRule = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    let given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if rule.verbs.is_empty() {
        return Err("verbs: must name at least one".to_owned());
    }
    match (given(&rule.resources), given(&rule.api_groups), given(&rule.non_resource_urls)) {
        (true, true, false) | (false, false, true) => Ok(rule),
        (true, false, false) => Err("apiGroups: is missing; the group of Pods and so on is \"\"".to_owned()),
        (false, _, false) => Err("resources: must name at least one".to_owned()),
        (_, _, true) => Err("has either nonResourceURLs, or apiGroups and resources".to_owned()),
    }
}

/// A right as a rule, of objects of some names or of all.
pub(crate) fn rule((group, resources, verbs): &Right, names: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(owned(resources)),
        resource_names: Some(owned(names)).filter(|names| !names.is_empty()),
        verbs: owned(verbs),
        non_resource_urls: None,
    }
}

/// The table of the presets, for `docs/members.md`.
pub fn markdown() -> String {
    let mut text = String::from("| grant | group | resources | verbs |\n|---|---|---|---|\n");
    for (name, rights) in [("services", SERVICES), ("workloads, besides", WORKLOADS), ("all, besides", ALL)] {
        for (index, (group, resources, verbs)) in rights.iter().enumerate() {
            let name = if index == 0 {
                format!("`{name}`").replace(", besides`", "`, besides")
            } else {
                String::new()
            };
            let group = if group.is_empty() { "core".to_owned() } else { format!("`{group}`") };
            let words = |words: &[&str]| words.join(", ").replace('*', "`*`");
            text += &format!("| {name} | {group} | {} | {} |\n", words(resources), words(verbs));
        }
    }
    text
}

#[cfg(test)]
mod tests;
