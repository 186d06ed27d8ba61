//! What exports disagree on, all of it at once, in the KEP's words.

use std::collections::{BTreeMap, BTreeSet};

use super::{Export, ServiceSpec, SessionAffinity, families::Families, union::Union};
use crate::decide::{ids::ClusterName, ports::Port};

/// As much of a value as a message repeats: exported labels may be long, a condition's message may not.
const SHOWN: usize = 200;
/// As many dropped ports as a message names.
const DROPPED: usize = 5;

/// What exports can disagree on, in the order in which reasons are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConflictKind {
    /// The sets of ports are not identical (KEP-1645 G5).
    Port,
    /// One is headless and another is not (KEP-1645 G9).
    Type,
    /// The session affinity (KEP-1645 G10).
    SessionAffinity,
    /// The timeout, where they agree on session affinity (KEP-1645 G10).
    SessionAffinityConfig,
    /// The exported labels (KEP-1645 G13).
    Labels,
    /// The exported annotations (KEP-1645 G13).
    Annotations,
    /// The internal traffic policy (KEP-1645 G11).
    InternalTrafficPolicy,
    /// The traffic distribution (KEP-1645 G12).
    TrafficDistribution,
    /// The IP families: some lack the one that importers have an address of in any case (KEP-1645 G14).
    IpFamily,
}

/// A disagreement between exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// On what.
    pub kind: ConflictKind,
    /// The cluster whose export wins.
    pub winner: ClusterName,
    /// The clusters that have it otherwise than the winner.
    pub disagreeing: BTreeSet<ClusterName>,
    /// How many clusters export the service.
    pub of: usize,
    /// All of it in words.
    pub message: String,
}

/// The condition `Conflict` of a ServiceExport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether there is a conflict.
    pub status: bool,
    /// `NoConflicts`, or the reasons of all conflicts with commas between them.
    pub reason: String,
    /// What is in conflict, who wins, and how many disagree.
    pub message: String,
}

/// Finds every disagreement between exports that are ordered by age, given what they were merged to.
pub(super) fn find(
    exports: &[&Export],
    union: &Union<'_>,
    ports: &[Port],
    families: &Families,
) -> Vec<Conflict> {
    let Some(oldest) = exports.first() else { return Vec::new() };
    let by_kind = ConflictKind::ALL.into_iter().filter_map(|kind| {
        let disagreeing = kind.disagreeing(exports, families);
        if disagreeing.is_empty() {
            return None;
        }
        let winner = if kind == ConflictKind::IpFamily { exports[families.leader] } else { oldest };
        let using = match kind {
            ConflictKind::Port => listed(ports),
            ConflictKind::IpFamily => listed(&families.common),
            _ => kind.value(&winner.service),
        };
        let (more, dropped) = match kind {
            ConflictKind::Port => (from_younger(union), dropped(exports, union)),
            _ => ("", String::new()),
        };
        let (winner, count, of) = (winner.cluster.clone(), disagreeing.len(), exports.len());
        let message = format!(
            "Conflicting {}. Using {} from oldest service export in \"{winner}\"{more}. \
             {count}/{of} clusters disagree.{dropped}",
            kind.field(),
            shown(&using),
        );
        Some(Conflict { kind, winner, disagreeing, of, message })
    });
    by_kind.collect()
}

// === impl ConflictKind ===

impl ConflictKind {
    /// All kinds, in order.
    pub const ALL: [Self; 9] = [
        Self::Port,
        Self::Type,
        Self::SessionAffinity,
        Self::SessionAffinityConfig,
        Self::Labels,
        Self::Annotations,
        Self::InternalTrafficPolicy,
        Self::TrafficDistribution,
        Self::IpFamily,
    ];

    /// The reason as mcs-api's constants have it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Port => "PortConflict",
            Self::Type => "TypeConflict",
            Self::SessionAffinity => "SessionAffinityConflict",
            Self::SessionAffinityConfig => "SessionAffinityConfigConflict",
            Self::Labels => "LabelsConflict",
            Self::Annotations => "AnnotationsConflict",
            Self::InternalTrafficPolicy => "InternalTrafficPolicyConflict",
            Self::TrafficDistribution => "TrafficDistributionConflict",
            Self::IpFamily => "IPFamilyConflict",
        }
    }

    /// The field as users know it from ServiceImport and ServiceExport.
    pub fn field(self) -> &'static str {
        match self {
            Self::Port => "ports",
            Self::Type => "type",
            Self::SessionAffinity => "sessionAffinity",
            Self::SessionAffinityConfig => "sessionAffinityConfig",
            Self::Labels => "exportedLabels",
            Self::Annotations => "exportedAnnotations",
            Self::InternalTrafficPolicy => "internalTrafficPolicy",
            Self::TrafficDistribution => "trafficDistribution",
            Self::IpFamily => "ipFamilies",
        }
    }

    fn disagreeing(self, exports: &[&Export], families: &Families) -> BTreeSet<ClusterName> {
        let disagrees = |index: usize, export: &Export| match self {
            Self::IpFamily => families.apart.contains(&index),
            _ => self.differs(&exports[0].service, &export.service),
        };
        let apart = exports.iter().enumerate().filter(|(index, export)| disagrees(*index, export));
        apart.map(|(_, export)| export.cluster.clone()).collect()
    }

    fn differs(self, oldest: &ServiceSpec, other: &ServiceSpec) -> bool {
        let affinities = [oldest.session_affinity, other.session_affinity];
        let same_affinity = affinities[0].as_str() == affinities[1].as_str();
        match self {
            Self::Port => as_set(&oldest.ports) != as_set(&other.ports),
            Self::Type => oldest.service_type != other.service_type,
            Self::SessionAffinity => !same_affinity,
            // A disagreement on affinity is told by itself.
            Self::SessionAffinityConfig => same_affinity && affinities[0] != affinities[1],
            Self::Labels => oldest.labels != other.labels,
            Self::Annotations => oldest.annotations != other.annotations,
            Self::InternalTrafficPolicy => oldest.internal_traffic_policy != other.internal_traffic_policy,
            Self::TrafficDistribution => oldest.traffic_distribution != other.traffic_distribution,
            Self::IpFamily => oldest.ip_families != other.ip_families,
        }
    }

    fn value(self, service: &ServiceSpec) -> String {
        match self {
            Self::Port => listed(&service.ports),
            Self::Type => service.service_type.to_string(),
            Self::SessionAffinity => service.session_affinity.to_string(),
            Self::SessionAffinityConfig => match service.session_affinity {
                SessionAffinity::ClientIp { timeout_seconds } => format!("timeoutSeconds: {timeout_seconds}"),
                SessionAffinity::None => String::new(),
            },
            Self::Labels => pairs(&service.labels),
            Self::Annotations => pairs(&service.annotations),
            Self::InternalTrafficPolicy => service.internal_traffic_policy.to_string(),
            Self::TrafficDistribution => {
                service.traffic_distribution.as_deref().unwrap_or_default().to_owned()
            }
            Self::IpFamily => listed(&service.ip_families),
        }
    }
}

// === impl Condition ===

impl Condition {
    /// The condition that tells of all these conflicts, or that there are none (KEP-1645 G1, G15).
    pub fn of(conflicts: &[Conflict]) -> Self {
        if conflicts.is_empty() {
            let message = "The service exports of all clusters agree.".to_owned();
            return Self { status: false, reason: "NoConflicts".to_owned(), message };
        }
        let reasons: Vec<_> = conflicts.iter().map(|conflict| conflict.kind.reason()).collect();
        let messages: Vec<_> = conflicts.iter().map(|conflict| &*conflict.message).collect();
        Self { status: true, reason: reasons.join(","), message: messages.join(" ") }
    }
}

fn as_set(ports: &[Port]) -> BTreeSet<&Port> {
    ports.iter().collect()
}

fn listed(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        _ if value.is_empty() => "none".to_owned(),
        Some((end, _)) => format!("{:?}", format!("{}…", &value[..end])),
        None => format!("{value:?}"),
    }
}

fn from_younger(union: &Union<'_>) -> &'static str {
    let younger = union.ports.iter().any(|port| port.definer() > 0);
    if younger { " and, where it lacks a port, from younger ones" } else { "" }
}

fn dropped(exports: &[&Export], union: &Union<'_>) -> String {
    let of_each = exports.iter().zip(&union.verdicts).flat_map(|(export, verdicts)| {
        verdicts.iter().filter_map(|(key, verdict)| {
            let reason = verdict.withheld()?;
            Some(format!("{} of \"{}\" ({reason})", verdict.port(*key), export.cluster))
        })
    });
    let dropped: Vec<_> = of_each.collect();
    let named = &dropped[..dropped.len().min(DROPPED)];
    match dropped.len() - named.len() {
        _ if dropped.is_empty() => String::new(),
        0 => format!(" Dropped: {}.", named.join(", ")),
        more => format!(" Dropped: {} and {more} more.", named.join(", ")),
    }
}
