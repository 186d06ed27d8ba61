//! What metrics there are: each is registered here with its labels and its meaning.

use std::sync::Arc;

use prometheus_client::{
    collector::Collector,
    metrics::MetricType,
    registry::{Metric, Registry},
};

/// A metric, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// As queries call it; of a histogram without `_bucket`, `_sum` and `_count`.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// What metrics there are.
#[derive(Debug)]
pub(super) struct Catalogue {
    prefix: &'static str,
    registry: Registry,
    entries: Vec<Described>,
}

// === impl Described ===

impl Described {
    /// The names under which Prometheus has it.
    pub fn series(&self) -> Vec<String> {
        match self.kind {
            "histogram" => ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", self.name)).into(),
            _ => vec![self.name.clone()],
        }
    }
}

// === impl Catalogue ===

impl Catalogue {
    pub(super) fn new(prefix: &'static str) -> Self {
        Self { prefix, registry: Registry::with_prefix(prefix), entries: Vec::new() }
    }

    /// Adds a metric.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        metric: impl Metric,
    ) {
        self.describe(name, help, labels, metric.metric_type());
        self.registry.register(name, help, metric);
    }

    /// Adds metrics that are computed when somebody reads: each gauge by name, meaning and labels.
    pub(super) fn collect(
        &mut self,
        gauges: &[(&'static str, &'static str, &'static [&'static str])],
        collector: impl Collector,
    ) {
        for (name, help, labels) in gauges {
            self.describe(name, help, labels, MetricType::Gauge);
        }
        self.registry.register_collector(Box::new(collector));
    }

    fn describe(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        kind: MetricType,
    ) {
        let (kind, end) = match kind {
            MetricType::Counter => ("counter", "_total"),
            MetricType::Histogram => ("histogram", ""),
            _ => ("gauge", ""),
        };
        self.entries.push(Described { name: format!("{}_{name}{end}", self.prefix), kind, labels, help });
    }

    pub(super) fn finish(mut self) -> (Registry, Arc<[Described]>) {
        self.entries.sort();
        (self.registry, self.entries.into())
    }
}
