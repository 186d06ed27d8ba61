//! Explanations of services.

use super::*;
use crate::decide::exchange::{export_kind, import_kind, object_key};
use crate::decide::ids::ServiceKey;

fn places(name: &str, version: &str, kind: &str, on: &[&str]) -> Value {
    let selectors = json!([{ "apiVersion": version, "kind": kind, "name": "serve" }]);
    with(policy(name, "serve", on), json!({ "spec": { "resourceSelectors": selectors } }))
}

fn service(more: Value) -> Value {
    let meta = json!({ "namespace": "shop", "name": "serve", "uid": "3", "creationTimestamp": SINCE });
    let ports = json!([{ "name": "http", "port": 80, "protocol": "TCP" }]);
    with(json!({ "apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": { "ports": ports } }), more)
}

fn export(conditions: Value) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": { "namespace": "shop", "name": "serve", "creationTimestamp": SINCE },
        "status": { "conditions": conditions },
    })
}

fn import(conditions: Value) -> Value {
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": { "namespace": "shop", "name": "serve" },
        "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] },
        "status": { "conditions": conditions, "clusters": [{ "cluster": "member1" }] },
    })
}

/// A service of which all is well: exported by member1, imported by member2.
fn stage() -> Read {
    let mut read = read(&["member1", "member2"]);
    let mcs = "multicluster.x-k8s.io/v1alpha1";
    add(
        &mut read,
        [
            places("workload", "v1", "Service", &["member1"]),
            places("export", mcs, "ServiceExport", &["member1"]),
            places("import", mcs, "ServiceImport", &["member2"]),
        ],
    );
    read.add_service(serde_json::from_value(service(json!({}))).unwrap());
    exported(&mut read, json!([condition("Valid", "True", "Valid", "in member1")]));
    let ready = condition("Ready", "True", "Ready", "member2 reaches member1");
    read.add_import(serde_json::from_value(import(json!([ready]))).unwrap());
    read
}

fn exported(read: &mut Read, conditions: Value) {
    read.add_export(serde_json::from_value(export(conditions)).unwrap());
}

fn of_export(read: &Read) -> Explanation {
    let service = ServiceKey::parse("shop", "serve").unwrap();
    explain(read, &Subject::Object(object_key(export_kind(), &service)))
}

fn headline(read: &Read) -> String {
    let headline = of_export(read).headline();
    let begins = "ServiceExport shop/serve ";
    headline.strip_prefix(begins).unwrap_or(&headline).to_owned()
}

#[test]
fn who_exports_what_and_who_reaches_it_is_told() {
    let read = stage();
    assert_eq!(headline(&read), "is well: member2 reaches member1");
    let found = of_export(&read);
    assert_eq!(found.parts[0].title, "Exports");
    assert_eq!(found.parts[0].rows, [Row::new(State::Well, "member1", "http 80/TCP")]);
    for kind in [GroupKind::new("v1", "Service"), import_kind()] {
        let service = ServiceKey::parse("shop", "serve").unwrap();
        let other = explain(&read, &Subject::Object(object_key(kind, &service)));
        assert_eq!(other.parts, found.parts, "whichever of its objects is asked for");
    }
}

#[test]
fn a_type_of_the_import_that_the_exports_do_not_have_is_told() {
    let mut read = stage();
    let said = "Conflicting type. Using \"Headless\" from oldest service export in \"member1\" instead of \"ClusterSetIP\".";
    let conditions = json!([
        condition("Conflict", "True", "TypeConflict", said),
        condition("Ready", "True", "Ready", "member2 reaches member1"),
    ]);
    read.add_import(serde_json::from_value(import(conditions)).unwrap());
    assert_eq!(
        headline(&read),
        format!(
            "is not well: its ServiceImport: {}; give spec.type of the ServiceImport the type of the exports",
            said.trim_end_matches('.')
        )
    );
}

#[test]
fn since_when_a_cluster_exports_is_told_as_the_hub_says() {
    let mut read = stage();
    let message = "exported by member0 since 2026-01-01T00:00:00Z, member1 since 2026-11-15T12:00:00Z";
    exported(&mut read, json!([condition("Ready", "True", "Exported", message)]));
    let rows = &of_export(&read).parts[0].rows;
    assert_eq!(rows[..], [Row::new(State::Well, "member1", "http 80/TCP, since 2026-11-15T12:00:00Z")]);
}

#[test]
fn a_port_that_is_dropped_is_told_with_the_reason() {
    let mut read = stage();
    let ports = json!([{ "name": "http", "port": 80 }, { "name": "admin", "port": 90 }]);
    read.add_service(serde_json::from_value(service(json!({ "spec": { "ports": ports } }))).unwrap());
    let row = &of_export(&read).parts[0].rows[0];
    assert_eq!(
        row.text,
        "http 80/TCP and admin 90/TCP dropped (the ServiceImport on the hub does not list it)"
    );
}

#[test]
fn whose_export_decides_is_left_to_the_condition_since_the_hubs_own_export_does_not_tell() {
    let mut read = stage();
    add(
        &mut read,
        [
            places("workload", "v1", "Service", &["member1", "member2"]),
            places("export", "multicluster.x-k8s.io/v1alpha1", "ServiceExport", &["member1", "member2"]),
        ],
    );
    let over = json!({
        "metadata": { "namespace": "shop", "name": "o" },
        "spec": { "overrideRules": [{
            "targetCluster": { "clusterNames": ["member2"] },
            "overriders": { "plaintext": [{ "path": "/spec/ports/0/port", "operator": "replace", "value": 8080 }] },
        }] },
    });
    read.add_override(serde_json::from_value(over).unwrap());
    let anything = with(import(json!([])), json!({ "spec": { "ports": [] } }));
    read.add_import(serde_json::from_value(anything).unwrap());
    // member2's export is the older one, which only the hub knows.
    let message = "Conflicting ports. Using \"http 8080/TCP\" from oldest service export in \"member2\".";
    exported(&mut read, json!([condition("Conflict", "True", "PortConflict", message)]));
    let rows = &of_export(&read).parts[0].rows;
    let said: Vec<_> = rows.iter().map(|row| (row.state, row.text.as_str())).collect();
    assert_eq!(said, [(State::Well, "http 80/TCP"), (State::Well, "http 8080/TCP")]);
}

#[test]
fn clusters_that_do_not_agree_are_the_cause() {
    let mut read = stage();
    exported(
        &mut read,
        json!([condition("Conflict", "True", "PortConflict", "port http differs: 1/2 disagree")]),
    );
    assert_eq!(
        headline(&read),
        "is not well: the clusters do not agree on it (PortConflict): port http differs: 1/2 disagree; make the Services \
         alike; until then the oldest export decides"
    );
}

#[test]
fn a_service_that_cannot_be_exported_is_the_cause() {
    let mut read = stage();
    let message = "member1: a Service of type ExternalName cannot be exported";
    exported(&mut read, json!([condition("Valid", "False", "InvalidServiceType", message)]));
    assert_eq!(
        headline(&read),
        format!(
            "is not well: its Service cannot be exported: {message}; change spec.type of the Service, or delete the \
             ServiceExport"
        )
    );
}

#[test]
fn a_missing_service_is_explained_by_where_it_is_instead() {
    let none = json!([condition("Valid", "False", "NoService", "member1: there is no Service shop/serve")]);
    let missing = "is not well: there is no Service to export (member1: there is no Service shop/serve)";
    let mut read = stage();
    exported(&mut read, none.clone());
    add(&mut read, [places("workload", "v1", "Service", &["member2"])]);
    assert_eq!(
        headline(&read),
        format!(
            "{missing}: the ServiceExport is placed on member1, the Service on member2; let the policies place both on the \
             same clusters"
        )
    );
    let mut read = stage();
    exported(&mut read, none.clone());
    add(&mut read, [places("workload", "apps/v1", "Deployment", &["member1"])]);
    assert!(
        headline(&read).starts_with(&format!(
            "{missing}: Service shop/serve on the hub: no policy selects it; name it in"
        )),
        "{}",
        headline(&read)
    );
    let mut read = Read::new("tombolo-system");
    exported(&mut read, none);
    read.add_service(
        serde_json::from_value(service(json!({ "metadata": { "namespace": "other" } }))).unwrap(),
    );
    // What it lacks besides comes first: no policy places it.
    assert!(headline(&read).contains("its ServiceExport: no policy selects it"), "{}", headline(&read));
}

#[test]
fn a_silent_exporter_is_the_cause_and_its_endpoints_are_accounted_for() {
    let mut read = stage();
    read.add_cluster(cluster(
        "member1",
        json!([condition("Ready", "Unknown", "ClusterNotReachable", "refused")]),
    ));
    let found = of_export(&read);
    assert!(found.headline().contains("member1 is not ready since"), "{}", found.headline());
    let part =
        |found: &Explanation, title: &str| found.parts.iter().find(|part| part.title == title).cloned();
    let kept = part(&found, "Kept endpoints").unwrap();
    assert!(kept.rows[0].text.contains("its endpoints are kept as they were last known"), "{kept:?}");
    assert_eq!(part(&found, "Withheld endpoints"), None);
    // Now the hub says that it is silent for too long.
    let lost = "member2 reaches member1, member3; lost, not ready where others serve: member1";
    read.add_import(
        serde_json::from_value(import(json!([condition("Ready", "True", "Ready", lost)]))).unwrap(),
    );
    let found = of_export(&read);
    let withheld = part(&found, "Withheld endpoints").unwrap();
    assert_eq!(
        withheld.rows,
        [Row::new(
            State::NotWell,
            "member1",
            format!(
                "Ready is Unknown since {SINCE}: refused; its endpoints are not ready where others serve; ports that nobody \
                 else serves are kept"
            ),
        )]
    );
    assert_eq!(part(&found, "Kept endpoints"), None);
}

#[test]
fn an_exporter_that_is_not_believed_withholds_what_is_not_and_keeps_nothing_else() {
    let mut read = stage();
    let conditions = [
        condition("Ready", "True", "ClusterReady", "it answers"),
        condition("DataTrusted", "False", "DataRefused", "EndpointSlice x: no"),
    ];
    read.add_cluster(cluster("member1", json!(conditions)));
    let titles: Vec<_> = of_export(&read).parts.into_iter().map(|part| part.title).collect();
    assert!(titles.contains(&"Withheld endpoints".to_owned()), "{titles:?}");
    assert!(!titles.contains(&"Kept endpoints".to_owned()), "{titles:?}");
}

#[test]
fn an_export_that_nobody_imports_waits_for_an_import() {
    let mut read = read(&["member1"]);
    add(&mut read, [places("export", "multicluster.x-k8s.io/v1alpha1", "ServiceExport", &["member1"])]);
    exported(&mut read, json!([condition("Ready", "True", "Exported", "exported by member1")]));
    assert_eq!(
        headline(&read),
        "is on its way: nobody imports it yet: the hub has no ServiceImport of it; create ServiceImport shop/serve and a \
         policy that places it"
    );
}
