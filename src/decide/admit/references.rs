//! Names in a policy that name nothing: legal, since what they name may be yet to come, and probably a slip.

use std::collections::BTreeSet;

use super::Verdict;
use crate::{
    api::{overrides::OverrideSpec, placement::ClusterAffinity, propagation::PropagationSpec},
    decide::{
        fault::{Path, Shown},
        ids::ClusterName,
        select::Pattern,
        view::View,
    },
};

/// The names of the clusters that there are.
pub(super) type Known<'a> = BTreeSet<&'a str>;

/// The names of the clusters of a view.
pub(super) fn known(view: &View) -> Known<'_> {
    view.members().keys().map(ClusterName::as_str).collect()
}

/// Clusters that a PropagationPolicy names and that there are not.
pub(super) fn of_propagation(known: &Known<'_>, spec: &PropagationSpec, verdict: &mut Verdict) {
    let root = Path::root("spec");
    let placement = root.field("placement");
    if let Some(affinity) = &spec.placement.cluster_affinity {
        clusters(known, affinity, &placement.field("clusterAffinity"), verdict);
    }
    let groups = placement.field("clusterAffinities");
    for (index, term) in spec.placement.cluster_affinities.iter().enumerate() {
        clusters(known, &term.affinity, &groups.index(index), verdict);
    }
    let scheduling = spec.placement.replica_scheduling.as_ref();
    let weights = scheduling.and_then(|scheduling| scheduling.weight_preference.as_ref());
    let path = placement.field("replicaScheduling");
    let path = path.field("weightPreference");
    let path = path.field("staticWeightList");
    for (index, weight) in weights.iter().flat_map(|weights| &weights.static_weight_list).enumerate() {
        clusters(known, &weight.target_cluster, &path.index(index).field("targetCluster"), verdict);
    }
    let suspended =
        spec.suspension.as_ref().and_then(|suspension| suspension.dispatching_on_clusters.as_ref());
    let path = root.field("suspension");
    let path = path.field("dispatchingOnClusters");
    names(known, suspended.map_or(&[], |some| &some.cluster_names), &path.field("clusterNames"), verdict);
}

/// Clusters that an OverridePolicy names and that there are not.
pub(super) fn of_override(known: &Known<'_>, spec: &OverrideSpec, verdict: &mut Verdict) {
    let root = Path::root("spec");
    if let Some(affinity) = &spec.target_cluster {
        clusters(known, affinity, &root.field("targetCluster"), verdict);
    }
    let rules = root.field("overrideRules");
    for (index, rule) in spec.override_rules.iter().enumerate() {
        if let Some(affinity) = &rule.target_cluster {
            clusters(known, affinity, &rules.index(index).field("targetCluster"), verdict);
        }
    }
}

fn clusters(known: &Known<'_>, affinity: &ClusterAffinity, path: &Path<'_>, verdict: &mut Verdict) {
    names(known, &affinity.cluster_names, &path.field("clusterNames"), verdict);
}

fn names(known: &Known<'_>, names: &[String], path: &Path<'_>, verdict: &mut Verdict) {
    for (index, name) in names.iter().enumerate() {
        let path = path.index(index);
        match Pattern::parse(name) {
            Ok(Pattern::Plain(name)) if !known.contains(&*name) => {
                verdict.warn(format!("{path}: there is no cluster {} yet", Shown(&name)));
            }
            Ok(glob @ Pattern::Glob(_)) if !known.iter().any(|name| glob.matches(name)) => {
                verdict.warn(format!("{path}: {} matches no cluster yet", Shown(name)));
            }
            _ => {}
        }
    }
}
