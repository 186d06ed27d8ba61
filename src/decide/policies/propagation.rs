//! PropagationPolicies and ClusterPropagationPolicies: what they say about the objects that they hold for.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;

use super::{
    Compiled, Edit, Index, PolicyKey, Reach, fingerprint,
    validate::{self, Scope},
};
use crate::{
    api::{
        names::annotation,
        propagation::{ConflictResolution, PropagationSpec, Suspension},
    },
    decide::{
        fault::{Fault, Path},
        placement::Placement,
        select::Object,
    },
};

/// All PropagationPolicies and ClusterPropagationPolicies.
pub type Propagations = Index<Propagation>;

/// What a policy says about the objects that it holds for.
#[derive(Clone, Debug, PartialEq)]
pub struct Propagation {
    /// Which clusters get them, and how many replicas each.
    pub placement: Placement,
    /// Whether what they refer to goes along.
    pub propagate_deps: bool,
    /// What happens to an object of the same name that a cluster already has.
    pub conflict_resolution: ConflictResolution,
    /// OverridePolicies that must exist before anything is sent.
    pub dependent_overrides: Vec<String>,
    /// What is held back for now.
    pub suspension: Option<Suspension>,
    /// Whether copies stay when their template goes.
    pub preserve_resources_on_deletion: bool,
    /// Whether copies go when the policy does.
    pub delete_with_policy: bool,
}

// === impl Propagations ===

impl Index<Propagation> {
    /// Takes note of a policy, and says which objects that may concern: none if nothing changed that matters.
    pub fn apply(&mut self, metadata: &ObjectMeta, spec: &PropagationSpec) -> BTreeSet<Reach> {
        let compiled = compile(metadata, spec, self.system_namespace());
        self.put(PolicyKey::of(metadata), compiled)
    }

    /// What would become of a policy, for [`Index::winner_after`], or everything that is wrong with it.
    pub fn edited(
        &self,
        metadata: &ObjectMeta,
        spec: &PropagationSpec,
    ) -> Result<Edit<Propagation>, Vec<Fault>> {
        let compiled = compile(metadata, spec, self.system_namespace())?;
        Ok(Self::edit(PolicyKey::of(metadata), compiled))
    }

    /// Whether a copy without a template is to stay: the policy that placed it says so, or the one that holds for an object like it.
    pub fn preserves(&self, placed_by: Option<&PolicyKey>, like: Option<&Object<'_>>) -> bool {
        let placed_it = placed_by.and_then(|key| self.get(key)).filter(|policy| !policy.deleting);
        let holds = like.and_then(|object| self.winner(object)).map(|winner| winner.policy);
        placed_it.into_iter().chain(holds).any(|policy| policy.body.preserve_resources_on_deletion)
    }

    /// Whether a policy, read live, is what is known of it here. One that is there and takes no part, since it is faulty, never is: what it
    /// placed is not to go for that.
    pub fn is_as_live(&self, key: &PolicyKey, live: Option<(&ObjectMeta, &PropagationSpec)>) -> bool {
        let known = self.get(key);
        let Some((metadata, spec)) = live else { return known.is_none() };
        match compile(metadata, spec, self.system_namespace()) {
            Ok(compiled) => known.is_some_and(|known| known.is(&compiled)),
            Err(_) => known.is_none() && metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Compiles a policy, or reports everything that is wrong with it: the same that admission reports.
fn compile(
    metadata: &ObjectMeta,
    spec: &PropagationSpec,
    system_namespace: &str,
) -> Result<Compiled<Propagation>, Vec<Fault>> {
    let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let mut faults = Vec::new();
    let found =
        validate::propagation(spec, Scope { namespace, system_namespace }, &Path::root("spec"), &mut faults);
    let (true, Some((selectors, placement))) = (faults.is_empty(), found) else { return Err(faults) };

    let asked = metadata.annotations.as_ref().and_then(|all| all.get(annotation::ON_POLICY_DELETION));
    let body = Propagation {
        placement,
        propagate_deps: spec.propagate_deps,
        conflict_resolution: spec.conflict_resolution.clone(),
        dependent_overrides: spec.dependent_overrides.clone(),
        suspension: spec.suspension.clone(),
        preserve_resources_on_deletion: spec.preserve_resources_on_deletion.unwrap_or_default(),
        delete_with_policy: asked.is_some_and(|asked| asked == annotation::ON_POLICY_DELETION_DELETE),
    };
    let fingerprint = fingerprint(&(
        &spec.placement,
        body.propagate_deps,
        &body.conflict_resolution,
        &body.dependent_overrides,
        &body.suspension,
        body.preserve_resources_on_deletion,
        body.delete_with_policy,
    ));
    let deleting = metadata.deletion_timestamp.is_some();
    Ok(Compiled { priority: spec.priority, deleting, selectors, body, fingerprint })
}
