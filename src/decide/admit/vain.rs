//! What a policy says in vain: legal, and probably not meant.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Verdict, conflicts::listed};
use crate::{
    api::{
        overrides::{OverrideSpec, Overriders},
        placement::{self, ClusterAffinity},
        propagation::ResourceSelector,
    },
    decide::{
        fault::Path,
        placement::{Exclusion, Placed, Placement},
        select::{Mismatch, Pattern},
        view::View,
    },
};

/// Warns of label selectors that do not count.
pub(super) fn selectors(selectors: &[ResourceSelector], verdict: &mut Verdict) {
    let says_something = |labels: &LabelSelector| *labels != LabelSelector::default();
    for (index, selector) in selectors.iter().enumerate() {
        if selector.name.is_some() && selector.label_selector.as_ref().is_some_and(says_something) {
            verdict.warn(format!(
                "spec.resourceSelectors[{index}].labelSelector: it does not count beside name, in Karmada neither; leave \
                 one of them out"
            ));
        }
    }
}

/// Warns of override rules that change nothing.
pub(super) fn overriders(spec: &OverrideSpec, verdict: &mut Verdict) {
    let nothing = Overriders::default();
    if spec.override_rules.is_empty() && spec.overriders == nothing {
        let field = if spec.target_cluster.is_some() { "overriders" } else { "overrideRules" };
        verdict.warn(format!("spec.{field}: it is empty, so the policy changes nothing"));
    }
    for (index, rule) in spec.override_rules.iter().enumerate() {
        if rule.overriders == nothing {
            verdict.warn(format!(
                "spec.overrideRules[{index}].overriders: it is empty, so the rule changes nothing"
            ));
        }
    }
}

/// Warns of a placement that no cluster meets. While there is no cluster at all that goes without saying, as it does
/// where all clusters that it names are missing.
pub(super) fn placement(view: &View, wire: &placement::Placement, verdict: &mut Verdict) {
    let path = Path::root("spec");
    let Some(placement) = Placement::compile(wire, &path, &mut Vec::new()) else { return };
    let placed = placement.place(view.members(), &BTreeSet::new());
    let mut groups = wire
        .cluster_affinity
        .iter()
        .chain(wire.cluster_affinities.iter().map(|term| &term.affinity))
        .peekable();
    let missing = groups.peek().is_some() && groups.all(|affinity| names_nothing(view, affinity));
    if placed.targets.is_empty() && !view.members().is_empty() && !missing {
        verdict.warn(format!("spec.placement: no cluster meets it now: {}", reason(&placed)));
    }
}

fn names_nothing(view: &View, affinity: &ClusterAffinity) -> bool {
    let exists = |name: &String| {
        let clusters = view.members().keys();
        Pattern::parse(name).is_ok_and(|pattern| clusters.clone().any(|name| pattern.matches(name.as_str())))
    };
    !affinity.cluster_names.is_empty() && !affinity.cluster_names.iter().any(exists)
}

/// Why there are no targets: by group, or else by cluster. Of clusters that are not named there is nothing to say.
fn reason(placed: &Placed) -> String {
    if !placed.passed_over.is_empty() {
        let groups = placed.passed_over.iter().map(|(group, why)| format!("{group}: {why}"));
        return groups.collect::<Vec<_>>().join("; ");
    }
    if let Some(unsatisfied) = &placed.unsatisfied {
        return unsatisfied.clone();
    }
    let mut excluded: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let unnamed = |why: &Exclusion| *why == Exclusion::Affinity(Mismatch::Name);
    for (cluster, why) in placed.excluded.iter().filter(|(_, why)| !unnamed(why)) {
        excluded.entry(why.to_string()).or_default().push(cluster.to_string());
    }
    let excluded = excluded.into_iter().map(|(why, clusters)| format!("{why} ({})", listed(clusters)));
    excluded.collect::<Vec<_>>().join("; ")
}
