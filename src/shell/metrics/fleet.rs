//! What is measured of a hub's members and services when somebody reads. Members that are gone are in no answer.

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};

use super::catalogue::Catalogue;
use crate::{
    decide::{
        freshness::{Grade, Mark},
        ids::ClusterName,
    },
    shell::{asked::Asked, queue::Load},
};

const READY: Gauge =
    ("member_ready", "Whether a member's API server answers that it is ready: 1 or 0", &["member"]);
const AGENT_READY: Gauge =
    ("member_agent_ready", "Whether a member's agent renews its Lease: 1 or 0", &["member"]);
const TRUSTED: Gauge = (
    "member_data_trusted",
    "Whether all that was read of a member is believed: 1 or 0; no value until it is read",
    &["member"],
);
const FRESHNESS: Gauge = (
    "member_freshness",
    "How fresh what is known of a member is: 1 for its grade, which is fresh, silent, stale or lost",
    &["member", "grade"],
);
const DEPTH: Gauge = (
    "queue_depth",
    "Copies and services to look at in a member: waiting, working, or later after a failure",
    &["member", "of", "state"],
);
const OLDEST: Gauge = (
    "queue_oldest_seconds",
    "How long the change of a copy or service has been waiting that is looked at next in a member",
    &["member", "of"],
);
const FAILED: Gauge = (
    "copies_failed",
    "Copies and services that are not in a member as they are to be, for a reason that the policies' conditions tell; no value from who \
     does not lead",
    &["member"],
);
const CONFLICTS: Gauge = ("services_in_conflict", "Services whose exporting clusters do not agree", &[]);
const STALE: Gauge = (
    "stale_slices",
    "Imported slices of a silent member, in other members: kept as they were, or withdrawn since others serve",
    &["member", "mark"],
);

/// A gauge: its name, meaning and labels.
pub(super) type Gauge = (&'static str, &'static str, &'static [&'static str]);

/// What is measured when somebody reads.
#[derive(Debug, Clone, Default)]
pub struct Gauges(Asked<Fleet>);

/// How a hub's members and services are.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Its members.
    pub members: Vec<MemberState>,
    /// Services whose exporting clusters do not agree.
    pub conflicts: usize,
}

/// How a member is.
#[derive(Debug, Clone)]
pub struct MemberState {
    /// Its name.
    pub name: ClusterName,
    /// Whether its API server answers that it is ready.
    pub ready: bool,
    /// Whether its agent renews its Lease.
    pub agent: bool,
    /// Whether all of its data is believed; none until it is known.
    pub trusted: Option<bool>,
    /// How fresh what is known of it is.
    pub grade: Grade,
    /// What its queues have to do: that of copies and that of services.
    pub queues: [(&'static str, Load); 2],
    /// Copies and services that are not there as they are to be; none where this replica does not lead and so does not try.
    pub failed: Option<usize>,
    /// Slices of its endpoints in other members that say that it is silent.
    pub stale: Vec<(Mark, usize)>,
}

// === impl Gauges ===

impl Gauges {
    pub(super) fn new(all: &mut Catalogue) -> Self {
        let this = Self::default();
        let gauges = [READY, AGENT_READY, TRUSTED, FRESHNESS, DEPTH, OLDEST, FAILED, CONFLICTS, STALE];
        all.collect(&gauges, this.clone());
        this
    }

    /// Says who answers from now on; a process has one.
    pub fn answer_by(&self, answer: impl Fn() -> Fleet + Send + Sync + 'static) {
        self.0.answer_by(answer);
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(Fleet { members, conflicts }) = self.0.ask() else { return Ok(()) };
        write(&mut encoder, CONFLICTS, [(Vec::new(), count(conflicts))].into_iter())?;
        let of = |gauge: Gauge, encoder: &mut DescriptorEncoder<'_>, value: &dyn Fn(&MemberState) -> f64| {
            let values = members.iter().map(|member| (vec![member.name.as_str()], value(member)));
            write(encoder, gauge, values)
        };
        of(READY, &mut encoder, &|member| f64::from(member.ready))?;
        of(AGENT_READY, &mut encoder, &|member| f64::from(member.agent))?;
        let trusted = members
            .iter()
            .filter_map(|member| Some((vec![member.name.as_str()], f64::from(member.trusted?))));
        write(&mut encoder, TRUSTED, trusted)?;
        let grades = members.iter().flat_map(|member| {
            let is = move |grade: Grade| f64::from(member.grade == grade);
            Grade::ALL.map(|grade| (vec![member.name.as_str(), grade.name()], is(grade)))
        });
        write(&mut encoder, FRESHNESS, grades)?;
        let queues =
            || members.iter().flat_map(|member| member.queues.iter().map(move |queue| (member, queue)));
        let depths = queues().flat_map(|(member, (of, load))| {
            load.states().map(|(state, number)| (vec![member.name.as_str(), *of, state], count(number)))
        });
        write(&mut encoder, DEPTH, depths)?;
        let oldest =
            queues().map(|(member, (of, load))| (vec![member.name.as_str(), *of], load.oldest.as_secs_f64()));
        write(&mut encoder, OLDEST, oldest)?;
        let failed =
            members.iter().filter_map(|member| Some((vec![member.name.as_str()], count(member.failed?))));
        write(&mut encoder, FAILED, failed)?;
        let stale = members.iter().flat_map(|member| {
            let marks = member.stale.iter();
            marks.map(|(mark, number)| (vec![member.name.as_str(), mark.as_str()], count(*number)))
        });
        write(&mut encoder, STALE, stale)
    }
}

/// Writes a gauge: each value with those of its labels.
pub(super) fn write<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, labels): Gauge,
    values: impl Iterator<Item = (Vec<&'a str>, f64)>,
) -> Result<(), std::fmt::Error> {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (given, value) in values {
        let named: Vec<_> = labels.iter().copied().zip(given).collect();
        if named.is_empty() {
            metric.encode_gauge(&value)?;
        } else {
            metric.encode_family(&named)?.encode_gauge(&value)?;
        }
    }
    Ok(())
}

/// A number as gauges have it.
pub(super) fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
