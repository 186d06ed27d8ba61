//! What is said of metrics elsewhere is true: dashboard and alerts name only metrics that there are.

use std::{collections::BTreeSet, fs, path::Path};

use tombolo::shell::metrics::{Described, Metrics};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/tombolo-hub");

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !word(c))
        .filter(|word| word.starts_with("tombolo_") && !word.ends_with("_test"))
        .collect()
}

#[test]
fn dashboard_and_alerts_name_only_metrics_that_there_are() {
    let metrics = Metrics::default();
    let known: BTreeSet<String> = metrics.described().iter().flat_map(Described::series).collect();
    for (file, least) in
        [("dashboards/tombolo.json", 15), ("alerts/tombolo.yaml", 10), ("alerts/tombolo_test.yaml", 10)]
    {
        let text = fs::read_to_string(Path::new(CHART).join(file)).unwrap();
        let named = named(&text);
        assert!(named.len() >= least, "{file} names only {named:?}");
        let wrong: Vec<_> = named.iter().filter(|name| !known.contains(**name)).collect();
        assert!(wrong.is_empty(), "{file} names metrics that there are not: {wrong:?}");
    }
}

#[test]
fn the_dashboard_has_every_metric_but_those_that_others_say_better() {
    let metrics = Metrics::default();
    let text = fs::read_to_string(Path::new(CHART).join("dashboards/tombolo.json")).unwrap();
    let missing: Vec<_> =
        metrics.described().iter().map(|one| one.name.as_str()).filter(|name| !text.contains(name)).collect();
    assert_eq!(missing, [] as [&str; 0]);
}

#[test]
fn no_label_can_grow_but_the_members_names() {
    let words = [
        "code", "for", "grade", "kind", "mark", "member", "of", "outcome", "reason", "role", "route",
        "state", "trouble", "verb", "verdict",
    ];
    let metrics = Metrics::default();
    let labels: BTreeSet<_> = metrics.described().iter().flat_map(|one| one.labels).copied().collect();
    assert_eq!(labels, words.into(), "a new label: are its values few and fixed?");
}
