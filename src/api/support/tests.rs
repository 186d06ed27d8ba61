use std::collections::BTreeSet;

use serde_json::json;

use super::*;

#[test]
fn every_field_of_a_spec_has_a_row_and_every_row_a_field() {
    for section in sections() {
        for kind in section.kinds {
            let fields = crds::spec_fields(kind);
            assert!(fields.len() > 10, "{kind} has a schema");
            for field in &fields {
                let rows = section.rows_of(field);
                let any_value = rows.iter().filter(|row| row.when == When::Set).count();
                assert_eq!(any_value, 1, "{kind}: {field} lacks a row in src/api/support/table.rs");
            }
            for row in &section.rows {
                assert!(fields.contains(&row.path), "{kind}: {} is a row but no field", row.path);
            }
        }
    }
    let covered: BTreeSet<_> = sections().iter().flat_map(|section| section.kinds).copied().collect();
    let policies: BTreeSet<_> = crds::definitions(crds::Role::Hub)
        .into_iter()
        .filter(|definition| definition.spec.group.ends_with(".karmada.io"))
        .map(|definition| definition.spec.names.kind)
        .collect();
    assert!(covered.iter().copied().eq(policies.iter().map(String::as_str)), "{covered:?} {policies:?}");
}

#[test]
fn no_field_has_two_rows_for_the_same_values_or_a_row_inside_one_that_speaks_for_the_whole() {
    for section in sections() {
        let mut seen = Vec::new();
        for row in &section.rows {
            assert!(!seen.contains(&(&row.path, row.when)), "{} is there twice", row.path);
            seen.push((&row.path, row.when));
            let around = section.rows.iter().find(|other| other.whole && other.is_around(&row.path));
            assert_eq!(around, None, "{}", row.path);
        }
    }
}

#[test]
fn a_field_that_is_not_acted_on_is_found_wherever_it_is_set() {
    let object = json!({ "spec": {
        "preemption": "Always",
        "placement": { "clusterAffinities": [
            { "affinityName": "near" },
            { "affinityName": "far", "overflowAffinities": [{ "affinityName": "more" }] },
        ] },
        "failover": { "application": { "decisionConditions": {}, "purgeMode": "Never" } },
    } });
    let found = findings("ClusterPropagationPolicy", &object);
    let paths: Vec<_> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(
        paths,
        ["spec.placement.clusterAffinities[1].overflowAffinities", "spec.preemption", "spec.failover"]
    );
    assert!(matches!(found[0].support, Support::Refused(reason) if reason.contains("room")));
    assert!(matches!(found[1].support, Support::Warned(_)));
}

#[test]
fn what_is_empty_or_the_default_is_not_found() {
    let object = json!({ "spec": {
        "association": false,
        "preemption": "Never",
        "schedulerName": "default-scheduler",
        "failover": {},
        "activationPreference": "",
        "placement": { "clusterAffinities": [{ "overflowAffinities": [] }], "workloadAffinity": null },
    } });
    assert_eq!(findings("PropagationPolicy", &object), []);
    let scheduled = json!({ "spec": { "schedulerName": "mine" } });
    assert_eq!(findings("PropagationPolicy", &scheduled).len(), 1);
    assert_eq!(findings("Service", &scheduled), []);
}

#[test]
fn every_row_that_is_not_acted_on_can_be_hit() {
    for section in sections() {
        for row in section.rows.iter().filter(|row| row.support != Support::Acted) {
            let value = match row.when {
                When::Set | When::IsNot(_) => json!("x"),
                When::Is(value) => json!(value),
            };
            let found = findings(section.kinds[0], &at(&row.path, value));
            assert_eq!(found.len(), 1, "{}", row.path);
            assert_eq!(found[0].path.replace("[0]", "[]"), row.path);
        }
    }
}

/// An object with nothing but that value at that path.
fn at(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, segment| match segment.strip_suffix("[]") {
        Some(list) => json!({ list: [value] }),
        None => json!({ segment: value }),
    })
}
