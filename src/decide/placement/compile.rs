//! A `placement`, from the wire.

use std::collections::BTreeSet;

use super::{Group, Placement, Weight, spread::Spread, taints};
use crate::{
    api::placement::{
        self, ClusterAffinityTerm, ReplicaDivisionPreference, ReplicaScheduling, ReplicaSchedulingType,
    },
    decide::{
        fault::{Fault, Path, Shown},
        select::{Clusters, labels},
    },
};

/// The longest name of a group, by Karmada's schema.
const GROUP_NAME: usize = 32;

impl Placement {
    /// Compiles a placement, or reports everything that is wrong with it.
    pub fn compile(wire: &placement::Placement, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let groups = compile_groups(wire, path, faults);
        let tolerated = path.field("clusterTolerations");
        for (index, toleration) in wire.cluster_tolerations.iter().enumerate() {
            taints::check(toleration, &tolerated.index(index), faults);
        }
        let spread = Spread::compile(&wire.spread_constraints, &path.field("spreadConstraints"), faults);
        let weights = match &wire.replica_scheduling {
            None => None,
            Some(scheduling) => compile_weights(scheduling, &path.field("replicaScheduling"), faults),
        };
        let tolerations = wire.cluster_tolerations.clone();
        (faults.len() == before).then_some(Self { groups, tolerations, spread, weights })
    }
}

fn compile_groups(wire: &placement::Placement, path: &Path<'_>, faults: &mut Vec<Fault>) -> Vec<Group> {
    let (single, several) = (path.field("clusterAffinity"), path.field("clusterAffinities"));
    let mut groups = Vec::new();
    if let Some(affinity) = &wire.cluster_affinity {
        if !wire.cluster_affinities.is_empty() {
            faults.push(several.fault("it cannot stand beside clusterAffinity; leave one of them out"));
        }
        let clusters = Clusters::compile(affinity, &single, faults);
        groups.extend(clusters.map(|clusters| Group { name: None, clusters }));
    }
    let mut names = BTreeSet::new();
    for (index, term) in wire.cluster_affinities.iter().enumerate() {
        let path = several.index(index);
        check_name(term, &mut names, &path.field("affinityName"), faults);
        let clusters = Clusters::compile(&term.affinity, &path, faults);
        let name = Some(term.affinity_name.as_str().into());
        groups.extend(clusters.map(|clusters| Group { name, clusters }));
    }
    groups
}

fn check_name<'a>(
    term: &'a ClusterAffinityTerm,
    names: &mut BTreeSet<&'a str>,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) {
    let name = term.affinity_name.as_str();
    if name.len() > GROUP_NAME || labels::key_fault(name).is_some() {
        faults.push(path.fault(format!(
            "{} is not a group's name; use 1 to {GROUP_NAME} letters, digits, '-', '_' and '.'",
            Shown(name)
        )));
    }
    if !names.insert(name) {
        faults.push(
            path.fault(format!("another group is called {} too; each needs a name of its own", Shown(name))),
        );
    }
}

/// The weights of a division, or none where each cluster gets all replicas.
fn compile_weights(
    scheduling: &ReplicaScheduling,
    path: &Path<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Vec<Weight>> {
    match &scheduling.replica_scheduling_type {
        ReplicaSchedulingType::Divided => {}
        ReplicaSchedulingType::Duplicated => return None,
        ReplicaSchedulingType::Other(other) => {
            let path = path.field("replicaSchedulingType");
            faults.push(path.fault(format!("{} is not known here; use Divided or Duplicated", Shown(other))));
        }
    }
    match &scheduling.replica_division_preference {
        None | Some(ReplicaDivisionPreference::Weighted) => {}
        Some(ReplicaDivisionPreference::Aggregated) => {
            let path = path.field("replicaDivisionPreference");
            faults.push(path.fault("Aggregated needs to know how much room clusters have; use Weighted"));
        }
        Some(ReplicaDivisionPreference::Other(other)) => {
            let path = path.field("replicaDivisionPreference");
            faults.push(path.fault(format!("{} is not known here; use Weighted", Shown(other))));
        }
    }
    let Some(preference) = &scheduling.weight_preference else { return Some(Vec::new()) };
    let path = path.field("weightPreference");
    if preference.dynamic_weight.is_some() {
        let path = path.field("dynamicWeight");
        faults.push(path.fault("it needs to know how much room clusters have; use staticWeightList"));
    }
    let listed = path.field("staticWeightList");
    let mut weights = Vec::with_capacity(preference.static_weight_list.len());
    for (index, entry) in preference.static_weight_list.iter().enumerate() {
        let path = listed.index(index);
        let clusters = Clusters::compile(&entry.target_cluster, &path.field("targetCluster"), faults);
        match u64::try_from(entry.weight) {
            Ok(weight @ 1..) => weights.extend(clusters.map(|clusters| Weight { clusters, weight })),
            _ => faults.push(path.field("weight").fault(format!("it is {}; 1 is the least", entry.weight))),
        }
    }
    Some(weights)
}
