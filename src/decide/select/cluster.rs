//! Which clusters a placement or an override speaks of.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Taint};
use kube::{
    ResourceExt,
    core::{ObjectMeta, Selector, SelectorExt},
};

use super::{Names, Pattern, labels};
use crate::{
    api::{Cluster, cluster::SecretReference, names::annotation, placement::ClusterAffinity},
    decide::{
        admit::cidr::{self, Cidr},
        fault::{Fault, Path, Shown},
        ids::{ClusterName, InvalidName},
    },
};

/// What decisions see of a member cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: ClusterName,
    /// The labels of its Cluster.
    pub labels: BTreeMap<String, String>,
    /// Who runs it.
    pub provider: Option<String>,
    /// Where it is.
    pub region: Option<String>,
    /// The zones it is in.
    pub zones: BTreeSet<String>,
    /// What keeps objects away from it.
    pub taints: Vec<Taint>,
    /// Whether its Cluster is being deleted: nothing goes there any more.
    pub leaving: bool,
    /// Whether its copies are to be deleted when it leaves, and not let go.
    pub delete_copies: bool,
    /// The Secrets that lead into it.
    pub secrets: Vec<SecretReference>,
    /// The ranges that its endpoints must be in, where it has any; an empty list is one that cannot be read.
    pub endpoint_ranges: Option<Box<[Cidr]>>,
}

/// A `clusterAffinity` or `targetCluster`: all parts that are given must hold, none given means all clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    names: Names,
    exclude: Names,
    labels: Option<Selector>,
    fields: Vec<FieldRule>,
}

/// One of the conditions of a `fieldSelector`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRule {
    field: Field,
    /// In, or else NotIn.
    within: bool,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Provider,
    Region,
    Zone,
}

/// The part of a selector by which a cluster is not selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// `exclude` has it.
    Excluded,
    /// `clusterNames` lacks it.
    Name,
    /// `labelSelector`.
    Labels,
    /// `fieldSelector`, by this field.
    Field(&'static str),
}

// === impl Member ===

impl Member {
    /// What decisions see of a Cluster. The older `zone` counts where there are no `zones`, as in Karmada.
    pub fn of(cluster: &Cluster) -> Result<Self, InvalidName> {
        let spec = &cluster.spec;
        let mut zones: BTreeSet<String> = spec.zones.iter().cloned().collect();
        if zones.is_empty() {
            zones.extend(spec.zone.clone());
        }
        Ok(Self {
            name: cluster.metadata.name.as_deref().unwrap_or_default().parse()?,
            labels: cluster.metadata.labels.clone().unwrap_or_default(),
            provider: spec.provider.clone(),
            region: spec.region.clone(),
            zones,
            taints: spec.taints.clone(),
            leaving: cluster.metadata.deletion_timestamp.is_some(),
            delete_copies: asks(&cluster.metadata, annotation::DELETE_COPIES),
            secrets: spec.secret_ref.iter().chain(&spec.impersonator_secret_ref).cloned().collect(),
            endpoint_ranges: cluster
                .annotations()
                .get(annotation::ENDPOINT_CIDRS)
                .map(|text| cidr::list(text).unwrap_or_default().into()),
        })
    }
}

fn asks(metadata: &ObjectMeta, annotation: &str) -> bool {
    metadata.annotations.as_ref().and_then(|all| all.get(annotation)).is_some_and(|value| value == "true")
}

// === impl Clusters ===

impl Clusters {
    /// Compiles a selector, or reports everything that is wrong with it.
    pub fn compile(affinity: &ClusterAffinity, path: &Path<'_>, faults: &mut Vec<Fault>) -> Option<Self> {
        let before = faults.len();
        let names = compile_names(&affinity.cluster_names, &path.field("clusterNames"), faults);
        let exclude = compile_names(&affinity.exclude, &path.field("exclude"), faults);
        let labels = affinity
            .label_selector
            .as_ref()
            .and_then(|selector| labels::compile(selector, &path.field("labelSelector"), faults));
        let (selector, mut fields) = (path.field("fieldSelector"), Vec::new());
        let expressions = selector.field("matchExpressions");
        for (index, requirement) in
            affinity.field_selector.iter().flat_map(|selector| &selector.match_expressions).enumerate()
        {
            fields.extend(FieldRule::compile(requirement, &expressions.index(index), faults));
        }
        (faults.len() == before).then_some(Self { names, exclude, labels, fields })
    }

    /// Whether it selects a cluster.
    pub fn matches(&self, member: &Member) -> bool {
        self.mismatch(member).is_none()
    }

    /// Why it does not select a cluster, if it does not.
    pub fn mismatch(&self, member: &Member) -> Option<Mismatch> {
        let name = member.name.as_str();
        if self.exclude.matches(name) {
            return Some(Mismatch::Excluded);
        }
        if !self.names.is_empty() && !self.names.matches(name) {
            return Some(Mismatch::Name);
        }
        if self.labels.as_ref().is_some_and(|selector| !selector.matches(&member.labels)) {
            return Some(Mismatch::Labels);
        }
        let unmet = self.fields.iter().find(|rule| !rule.matches(member))?;
        Some(Mismatch::Field(unmet.field.name()))
    }
}

fn compile_names(names: &[String], path: &Path<'_>, faults: &mut Vec<Fault>) -> Names {
    let mut patterns = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let path = path.index(index);
        let Some(pattern) = Pattern::compile(name, &path, faults) else { continue };
        match pattern {
            Pattern::Plain(ref name) => {
                faults.extend(name.parse::<ClusterName>().err().map(|error| path.fault(error.to_string())));
            }
            Pattern::Glob(_) => {}
        }
        patterns.push(pattern);
    }
    Names::new(patterns)
}

// === impl FieldRule ===

impl FieldRule {
    fn compile(
        requirement: &NodeSelectorRequirement,
        path: &Path<'_>,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let before = faults.len();
        let field = Field::parse(&requirement.key);
        if field.is_none() {
            faults.push(path.field("key").fault(format!(
                "{} is not a field of clusters; use provider, region or zone",
                Shown(&requirement.key)
            )));
        }
        if !matches!(requirement.operator.as_str(), "In" | "NotIn") {
            faults.push(
                path.field("operator").fault(format!(
                    "{} is not an operator here; use In or NotIn",
                    Shown(&requirement.operator)
                )),
            );
        }
        let values: BTreeSet<String> = requirement.values.iter().flatten().cloned().collect();
        if values.is_empty() {
            faults.push(path.field("values").fault("it is empty; give at least one value"));
        }
        let field = field.filter(|_| faults.len() == before)?;
        Some(Self { field, within: requirement.operator == "In", values })
    }

    /// A cluster in several zones is In if any of them is among the values, and NotIn if none is (Karmada).
    fn matches(&self, member: &Member) -> bool {
        let found = match self.field {
            Field::Provider => member.provider.as_ref().is_some_and(|value| self.values.contains(value)),
            Field::Region => member.region.as_ref().is_some_and(|value| self.values.contains(value)),
            Field::Zone => !member.zones.is_disjoint(&self.values),
        };
        found == self.within
    }
}

// === impl Field ===

impl Field {
    fn parse(key: &str) -> Option<Self> {
        [Self::Provider, Self::Region, Self::Zone].into_iter().find(|field| field.name() == key)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Region => "region",
            Self::Zone => "zone",
        }
    }
}

// === impl Mismatch ===

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => f.write_str("exclude has it"),
            Self::Name => f.write_str("clusterNames does not have it"),
            Self::Labels => f.write_str("its labels do not match labelSelector"),
            Self::Field(field) => write!(f, "its {field} does not match fieldSelector"),
        }
    }
}
