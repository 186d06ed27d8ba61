//! What it costs to find the policy of an object among 1, 100 and 10,000, and to keep so many.
//!
//! Of a hundred policies 85 name an object, 10 go by labels, 4 are globs and 1 takes all of a kind; 8 of 10 are in one of
//! 100 namespaces, the others are cluster-wide. They say one of 20 different placements.
//!
//! Run by `cargo bench --bench policies`. Medians on two shared cores, where runs differ by up to 1.5 times:
//!
//! | | 1 | 100 | 10,000 |
//! |---|---|---|---|
//! | winner of a named object | 77 ns | 80 ns | 0.15 µs |
//! | winner by labels | 13 ns (none) | 0.14 µs | 0.17 µs |
//! | winner of an object that nothing speaks of | 12 ns | 90 ns | 0.15 µs |
//! | winner where all are cluster-wide globs of one kind | 0.11 µs | 0.27 µs | 0.25 µs |
//! | change of a policy | 1.4 µs | 1.3 µs | 1.6 µs |
//! | memory of the index | 1 KB | 125 KB | 5.7 MB |
//!
//! Finding a winner allocates nothing.

use std::collections::BTreeMap;

use divan::{AllocProfiler, Bencher, black_box};
use kube::core::ObjectMeta;
use serde_json::json;
use tombolo::{
    api::propagation::PropagationSpec,
    decide::{
        policies::Propagations,
        select::{GroupKind, Object, Rank},
    },
};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const SIZES: [usize; 3] = [1, 100, 10_000];
const KINDS: [(&str, &str); 4] = [
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
];

fn main() {
    divan::main();
}

fn policy(n: usize) -> (ObjectMeta, PropagationSpec) {
    let (api_version, kind) = KINDS[n % KINDS.len()];
    let mut selector = json!({ "apiVersion": api_version, "kind": kind });
    match n % 100 {
        0..85 => selector["name"] = format!("workload-{n}").into(),
        85..95 => selector["labelSelector"] = json!({ "matchLabels": { "app": format!("app-{n}") } }),
        95..99 => selector["name"] = format!("team-{n}-*").into(),
        _ => {}
    }
    let clusters = json!([format!("member{}", n % 20), "backup-1"]);
    let spec = json!({
        "resourceSelectors": [selector],
        "priority": n % 3,
        "placement": { "clusterAffinity": { "clusterNames": clusters } },
    });
    let namespace = (n % 10 < 8).then(|| format!("namespace-{}", n / 7 % 100));
    let metadata = ObjectMeta { name: Some(format!("policy-{n}")), namespace, ..Default::default() };
    (metadata, serde_json::from_value(spec).expect("the policy is well formed"))
}

fn policies(size: usize) -> Vec<(ObjectMeta, PropagationSpec)> {
    (0..size).map(policy).collect()
}

fn index(policies: &[(ObjectMeta, PropagationSpec)]) -> Propagations {
    let mut index = Propagations::new("tombolo-system");
    for (metadata, spec) in policies {
        index.apply(metadata, spec);
    }
    index
}

#[divan::bench(args = SIZES)]
fn winner_of_a_named_object(bencher: Bencher<'_, '_>, size: usize) {
    let n = size / 2 / 100 * 100 + 10 * usize::from(size > 1);
    let (metadata, _) = policy(n);
    let namespace = metadata.namespace.as_deref().unwrap_or("shop").to_owned();
    find(bencher, size, n, (&namespace, &format!("workload-{n}"), "none"), Some(Rank::Name));
}

#[divan::bench(args = SIZES)]
fn winner_by_labels(bencher: Bencher<'_, '_>, size: usize) {
    let n = size.saturating_sub(100) + 85;
    let (metadata, _) = policy(n);
    let namespace = metadata.namespace.as_deref().unwrap_or("shop").to_owned();
    find(bencher, size, n, (&namespace, "other", &format!("app-{n}")), (size > 1).then_some(Rank::Labels));
}

#[divan::bench(args = SIZES)]
fn winner_of_an_object_that_nothing_speaks_of(bencher: Bencher<'_, '_>, size: usize) {
    find(bencher, size, 0, ("elsewhere", "team-0-web", "none"), None);
}

/// Finds the winner of an object of the kind of policy `n`, given by namespace, name and label.
fn find(
    bencher: Bencher<'_, '_>,
    size: usize,
    n: usize,
    (namespace, name, app): (&str, &str, &str),
    expected: Option<Rank>,
) {
    let index = index(&policies(size));
    let (api_version, kind) = KINDS[n % KINDS.len()];
    let kind = GroupKind::new(api_version, kind);
    let labels = [("app", app), ("team", "a"), ("tier", "b")];
    let labels: BTreeMap<_, _> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let object = Object { kind: &kind, namespace, name, labels: &labels };
    assert_eq!(index.winner(&object).map(|matched| matched.rank), expected);
    bencher.bench_local(|| index.winner(black_box(&object)).map(|matched| matched.rank));
}

/// All cluster-wide and of one kind: the worst case, where nothing but the name tells policies apart.
#[divan::bench(args = SIZES)]
fn winner_where_all_are_cluster_wide_globs(bencher: Bencher<'_, '_>, size: usize) {
    let mut index = Propagations::new("tombolo-system");
    for n in 0..size {
        let (mut metadata, _) = policy(n);
        metadata.namespace = None;
        let selector = json!({ "apiVersion": "v1", "kind": "Service", "name": format!("team-{n}-*") });
        let spec = json!({ "resourceSelectors": [selector], "placement": {} });
        index.apply(&metadata, &serde_json::from_value(spec).expect("the policy is well formed"));
    }
    let (kind, labels) = (GroupKind::new("v1", "Service"), BTreeMap::new());
    let object = Object { kind: &kind, namespace: "shop", name: "team-none", labels: &labels };
    bencher.bench_local(|| index.winner(black_box(&object)).map(|matched| matched.rank));
}

/// A policy comes again with another priority.
#[divan::bench(args = SIZES)]
fn change_of_a_policy(bencher: Bencher<'_, '_>, size: usize) {
    let mut index = index(&policies(size));
    let (metadata, mut spec) = policy(size / 2);
    bencher.bench_local(|| {
        spec.priority += 1;
        index.apply(black_box(&metadata), black_box(&spec)).len()
    });
}

/// Its `max alloc` is what the index takes.
#[divan::bench(args = SIZES, sample_count = 10)]
fn build(bencher: Bencher<'_, '_>, size: usize) {
    let policies = policies(size);
    bencher.bench_local(|| index(black_box(&policies)));
}
