//! Overrides: how a copy differs from its template in one cluster.
//!
//! [`Overrides`] keeps track of all OverridePolicies and ClusterOverridePolicies. [`Overrides::matching`] finds those that
//! speak of an object, once for all clusters; [`overridden`] applies them for one of them. Karmada's order:
//! all cluster-wide policies, then those of the namespace; of each the least close first, then by name, so that the
//! closest has the last word; rules as they are listed; within a rule image, command, args, labels, annotations,
//! documents in fields, plaintext.
//!
//! Policies are matched by the template as it is, before any override (in Karmada a cluster-wide policy's new labels can
//! make a namespaced one match). Either all of them apply, or there is a [`Failure`] that says which one did not, where
//! and why; a copy that is half overridden does not exist. No override changes what an object is: its type, name,
//! namespace, owners and finalizers.

mod apply;
mod check;
mod document;
mod image;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeSet, error::Error, fmt};

use kube::core::ObjectMeta;
use serde_json::Value;

use super::{
    fault::{Fault, Path},
    policies::{
        Compiled, Edit, Index, Match, PolicyKey, Reach, fingerprint,
        validate::{self, Scope},
    },
    select::{Clusters, Member, Object},
};
use crate::api::overrides::{OverrideSpec, Overriders};

/// All OverridePolicies and ClusterOverridePolicies.
pub type Overrides = Index<Override>;

/// What an override policy changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    rules: Vec<Rule>,
}

/// Changes for some clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its place in `overrideRules`, or none where the policy is in the older form.
    index: Option<usize>,
    /// None: all.
    clusters: Option<Clusters>,
    overriders: Overriders,
}

/// An override that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The policy.
    pub policy: PolicyKey,
    /// Where in the policy, and why.
    pub fault: Fault,
}

/// The template with everything that policies change for one cluster; the template itself where they change nothing.
pub fn overridden<'a>(
    policies: &[Match<'_, Override>],
    template: &'a Value,
    member: &Member,
) -> Result<Cow<'a, Value>, Failure> {
    let mut object = Cow::Borrowed(template);
    for matched in policies {
        let rules = matched.policy.body.rules.iter();
        for rule in rules.filter(|rule| rule.concerns(member)) {
            rule.apply(object.to_mut())
                .map_err(|fault| Failure { policy: matched.policy.key.clone(), fault })?;
        }
    }
    Ok(object)
}

// === impl Overrides ===

impl Index<Override> {
    /// Takes note of a policy, and says which objects that may concern: none if nothing changed that matters.
    pub fn apply(&mut self, metadata: &ObjectMeta, spec: &OverrideSpec) -> BTreeSet<Reach> {
        let compiled = compile(metadata, spec, self.system_namespace());
        self.put(PolicyKey::of(metadata), compiled)
    }

    /// What would become of a policy, for [`Overrides::matching_after`], or everything that is wrong with it.
    pub fn edited(&self, metadata: &ObjectMeta, spec: &OverrideSpec) -> Result<Edit<Override>, Vec<Fault>> {
        let compiled = compile(metadata, spec, self.system_namespace())?;
        Ok(Self::edit(PolicyKey::of(metadata), compiled))
    }

    /// The policies that speak of an object, in the order in which they apply. One that is being deleted still does.
    pub fn matching(&self, object: &Object<'_>) -> Vec<Match<'_, Override>> {
        in_order(self.all(object, |_| true))
    }

    /// The policies that would speak of an object after a change, in the order in which they would apply.
    pub fn matching_after<'a>(
        &'a self,
        edit: &'a Edit<Override>,
        object: &Object<'_>,
    ) -> Vec<Match<'a, Override>> {
        in_order(self.all_after(edit, object))
    }
}

fn in_order(mut policies: Vec<Match<'_, Override>>) -> Vec<Match<'_, Override>> {
    policies.sort_by(|a, b| {
        let key = |m: &Match<'_, Override>| (m.policy.key.namespace.is_some(), m.rank);
        key(a).cmp(&key(b)).then_with(|| a.policy.key.name.cmp(&b.policy.key.name))
    });
    policies
}

/// Compiles a policy, or reports everything that is wrong with it: the same that admission reports.
fn compile(
    metadata: &ObjectMeta,
    spec: &OverrideSpec,
    system_namespace: &str,
) -> Result<Compiled<Override>, Vec<Fault>> {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let mut faults = Vec::new();
    let scope = Scope { namespace, system_namespace };
    let (selectors, rules) = validate::overriding(spec, scope, &Path::root("spec"), &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let fingerprint = fingerprint(&(&spec.override_rules, &spec.target_cluster, &spec.overriders));
    let deleting = metadata.deletion_timestamp.is_some();
    Ok(Compiled { priority: 0, deleting, selectors, body: Override { rules }, fingerprint })
}

// === impl Override ===

impl Override {
    /// Whether it changes anything in a cluster.
    pub fn concerns(&self, member: &Member) -> bool {
        self.rules.iter().any(|rule| rule.concerns(member))
    }
}

// === impl Rule ===

impl Rule {
    /// Compiles the rules of a policy, also of one in the older form, and reports everything that is wrong with them.
    pub(super) fn compile_all(spec: &OverrideSpec, path: &Path<'_>, faults: &mut Vec<Fault>) -> Vec<Self> {
        let older = spec.target_cluster.is_some() || spec.overriders != Overriders::default();
        let mut rules = Vec::new();
        if older {
            if !spec.override_rules.is_empty() {
                let field = if spec.target_cluster.is_some() { "targetCluster" } else { "overriders" };
                let message = "it cannot stand beside overrideRules; make it one of them";
                faults.push(path.field(field).fault(message));
            }
            rules.extend(Self::compile(None, spec.target_cluster.as_ref(), &spec.overriders, path, faults));
        }
        let listed = path.field("overrideRules");
        for (index, rule) in spec.override_rules.iter().enumerate() {
            let (clusters, path) = (rule.target_cluster.as_ref(), listed.index(index));
            rules.extend(Self::compile(Some(index), clusters, &rule.overriders, &path, faults));
        }
        rules
    }

    fn compile(
        index: Option<usize>,
        clusters: Option<&crate::api::placement::ClusterAffinity>,
        overriders: &Overriders,
        path: &Path<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        check::overriders(overriders, &path.field("overriders"), faults);
        let clusters = match clusters {
            None => None,
            Some(affinity) => Some(Clusters::compile(affinity, &path.field("targetCluster"), faults)?),
        };
        Some(Self { index, clusters, overriders: overriders.clone() })
    }

    fn concerns(&self, member: &Member) -> bool {
        self.clusters.as_ref().is_none_or(|clusters| clusters.matches(member))
    }

    fn apply(&self, object: &mut Value) -> Result<(), Fault> {
        let spec = Path::root("spec");
        let listed = spec.field("overrideRules");
        let rule = self.index.map_or(spec, |index| listed.index(index));
        apply::overriders(&self.overriders, object, &rule.field("overriders"))
    }
}

// === impl Failure ===

impl Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.policy.namespace.is_some() { "OverridePolicy" } else { "ClusterOverridePolicy" };
        write!(f, "failed to apply {kind} {}: {}", self.policy, self.fault)
    }
}
