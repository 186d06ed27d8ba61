use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use crate::decide::copy::*;

use super::yaml;

fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: &Value) -> ManagedFieldsEntry {
    serde_json::from_value(json!({
        "manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields,
    }))
    .unwrap()
}

#[test]
fn our_entry_is_that_of_our_applies() {
    let fields = json!({ "f:spec": {} });
    let none = json!({});
    let others = [
        entry("kubectl", "Apply", None, &none),
        entry("tombolo", "Update", None, &none),
        entry("tombolo", "Apply", Some("status"), &none),
    ];
    assert_eq!(ours(&others), None);
    let all = [others.to_vec(), vec![entry("tombolo", "Apply", None, &fields)]].concat();
    assert_eq!(ours(&all), Some(&fields));
}

#[test]
fn who_scales_is_seen_by_the_subresource() {
    let fields = json!({ "f:spec": { "f:replicas": {} } });
    assert!(scaled(&[entry("kube-controller-manager", "Update", Some("scale"), &fields)]));
    assert!(!scaled(&[entry("kube-controller-manager", "Update", Some("status"), &fields)]));
    assert!(!scaled(&[entry("kubectl", "Update", None, &fields)]));
}

/// A Deployment's pods as they are applied, and as an API server lists them.
const BODY: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: shop, resourceVersion: '1', labels: {app: a}, annotations: {x.dev/a: b}}
spec:
  selector: {matchLabels: {app: a}}
  template:
    spec:
      volumes: [{name: tmp, emptyDir: {}}]
      tolerations: [{key: a}, {key: b}]
      initContainers: []
      containers:
      - name: one
        args: [a, b]
        ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]
        resources: {limits: {cpu: 1}}
";
const FIELDS: &str = r#"
'f:metadata': {'f:labels': {'f:app': {}}, 'f:annotations': {'f:x.dev/a': {}}}
'f:spec':
  'f:selector': {}
  'f:template':
    'f:spec':
      'f:volumes': {'k:{"name":"tmp"}': {'.': {}, 'f:name': {}, 'f:emptyDir': {}}}
      'f:tolerations': {}
      'f:containers':
        'k:{"name":"one"}':
          '.': {}
          'f:name': {}
          'f:args': {}
          'f:ports':
            'k:{"containerPort":80,"protocol":"TCP"}': {'.': {}, 'f:containerPort': {}}
            'k:{"containerPort":80,"protocol":"UDP"}': {'.': {}, 'f:containerPort': {}, 'f:protocol': {}}
          'f:resources': {'f:limits': {'f:cpu': {}}}
"#;

#[test]
fn an_entry_that_lists_all_covers_the_body() {
    assert!(covers(&yaml(FIELDS), &yaml(BODY)));
}

#[test]
fn whatever_is_missing_in_the_entry_is_missed() {
    for gone in [
        "/f:metadata/f:labels/f:app",
        "/f:metadata/f:annotations/f:x.dev~1a",
        "/f:metadata",
        "/f:spec/f:selector",
        "/f:spec/f:template/f:spec/f:volumes",
        "/f:spec/f:template/f:spec/f:volumes/k:{\"name\":\"tmp\"}/f:emptyDir",
        "/f:spec/f:template/f:spec/f:tolerations",
        "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"one\"}/f:args",
        "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"one\"}/f:resources",
        "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"one\"}/f:ports/k:{\"containerPort\":80,\"protocol\":\"UDP\"}",
        // The other port of that number must not be taken for it.
        "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"one\"}/f:ports/k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
        "/f:spec/f:template/f:spec/f:containers",
    ] {
        let mut fields = yaml(FIELDS);
        let (parent, name) = gone.rsplit_once('/').unwrap();
        let parent = fields.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        assert!(parent.remove(&name.replace("~1", "/")).is_some(), "{gone}");
        assert!(!covers(&fields, &yaml(BODY)), "{gone}");
    }
    assert!(!covers(&json!({}), &yaml(BODY)));
}

#[test]
fn what_others_added_does_not_matter() {
    let mut fields = yaml(FIELDS);
    fields["f:metadata"]["f:labels"]["f:more"] = json!({});
    assert!(covers(&fields, &yaml(BODY)));
}

#[test]
fn items_of_a_set_are_listed_by_value() {
    let body = yaml("{spec: {set: [a, 2, '<é>']}}");
    assert!(covers(
        &json!({ "f:spec": { "f:set": { "v:\"a\"": {}, "v:2": {}, "v:\"\\u003cé\\u003e\"": {} } } }),
        &body
    ));
    assert!(!covers(&json!({ "f:spec": { "f:set": { "v:\"a\"": {}, "v:\"<é>\"": {} } } }), &body));
    assert!(!covers(
        &json!({ "f:spec": { "f:set": { "v:\"a\"": {}, "v:\"2\"": {}, "v:\"<é>\"": {} } } }),
        &body
    ));
}

#[test]
fn an_empty_list_is_never_missed() {
    assert!(covers(&json!({}), &yaml("{spec: {template: {list: []}}}")));
    assert!(!covers(&json!({}), &yaml("{spec: {template: {map: {}}}}")));
}

#[test]
fn an_entry_of_another_manager_tells_a_map_that_lost_its_fields_from_one_that_is_atomic() {
    let body = yaml("{spec: {map: {a: 1}}}");
    let us = entry("tombolo", "Apply", None, &json!({ "f:spec": { "f:map": {} } }));
    let atomic = entry("kubectl", "Update", None, &json!({ "f:spec": { "f:map": {} } }));
    let taken = entry("kubectl", "Update", None, &json!({ "f:spec": { "f:map": { "f:a": {} } } }));
    assert!(holds(std::slice::from_ref(&us), &body));
    assert!(holds(&[us.clone(), atomic.clone()], &body));
    assert!(!holds(&[us, taken.clone()], &body));
    assert!(!holds(&[atomic, taken], &body));
}

#[test]
fn a_listing_differs_once_anything_of_ours_is_taken() {
    let us = |fields: Value| [entry("tombolo", "Apply", None, &fields)];
    let whole = listing(&us(json!({ "f:spec": { "f:map": { ".": {}, "f:a": {} } } })));
    assert!(whole.is_some());
    assert_eq!(whole, listing(&us(json!({ "f:spec": { "f:map": { "f:a": {}, ".": {} } } }))));
    assert_ne!(whole, listing(&us(json!({ "f:spec": { "f:map": {} } }))));
    assert_eq!(listing(&[]), None);
}

#[test]
fn a_live_object_that_says_as_much_and_more_may_be_adopted() {
    let live = yaml(
        "{apiVersion: v1, metadata: {name: a, uid: u, labels: {app: a, more: b}}, spec: {a: 1, more: 2, \
          list: [{x: 1, defaulted: true}], limits: {cpu: '1'}, empty: {}}}",
    );
    for (body, said) in [
        ("{metadata: {name: a, labels: {app: a}}, spec: {a: 1, list: [{x: 1}]}}", true),
        (
            "{apiVersion: v2, kind: X, metadata: {annotations: {tombolo.dev/origin: o}, labels: {tombolo.dev/hub: h}}}",
            true,
        ),
        ("{spec: {limits: {cpu: 1000m}, empty: {}, none: []}}", true),
        ("{spec: {limits: {cpu: 1}}}", true),
        ("{metadata: {labels: {app: b}}}", false),
        ("{metadata: {annotations: {x.dev/a: b}}}", false),
        ("{spec: {a: 2}}", false),
        ("{spec: {a: '1'}}", false),
        ("{spec: {b: 1}}", false),
        ("{spec: {list: [{x: 2}]}}", false),
        ("{spec: {list: []}}", false),
        ("{spec: {list: [{x: 1}, {x: 1}]}}", false),
        ("{spec: {list: {x: 1}}}", false),
        ("{spec: {limits: {cpu: 1001m}}}", false),
        ("{spec: {none: {}}}", false),
        ("{data: {a: b}}", false),
    ] {
        assert_eq!(says_all(&live, &yaml(body)), said, "{body}");
    }
}

#[test]
fn a_quantity_is_the_same_in_any_spelling() {
    let same = |a: &str, b: &str| {
        says_all(&json!({ "spec": { "limits": { "x": a } } }), &json!({ "spec": { "limits": { "x": b } } }))
    };
    for (a, b) in [
        ("1", "1000m"),
        ("0.5", "500m"),
        ("1Gi", "1024Mi"),
        ("1G", "1000M"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1k"),
        ("1E3", "1000"),
        ("1E", "1000P"),
        ("-1", "-1000m"),
        ("+1", "1"),
        (".5", "500m"),
        ("1n", "0.001u"),
    ] {
        assert!(same(a, b) && same(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("1", "1m"),
        ("1G", "1Gi"),
        ("1", "-1"),
        ("a", "b"),
        ("", "0"),
        ("1x", "1"),
        ("1e99", "1e98"),
        ("1.5n", "1n"),
        (".", "0"),
    ] {
        assert!(!same(a, b) && !same(b, a), "{a} {b}");
    }
    assert!(!says_all(&json!({ "data": { "x": "1" } }), &json!({ "data": { "x": "1000m" } })));
}

#[test]
fn letting_go_takes_our_marks_and_our_entries_and_nothing_else() {
    let metadata: ObjectMeta = serde_json::from_value(json!({
        "resourceVersion": "7",
        "labels": { "app": "a", "tombolo.dev/hub": "h" },
        "annotations": { "tombolo.dev/origin": "o", "tombolo.dev/port-conflicts": "resolve", "tombolo.dev/applied": "x" },
        "managedFields": [
            { "manager": "tombolo", "operation": "Apply" }, { "manager": "kubectl" }, { "manager": "tombolo" },
        ],
    }))
    .unwrap();
    assert_eq!(
        let_go(&metadata),
        json!([
            { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
            { "op": "remove", "path": "/metadata/labels/tombolo.dev~1hub" },
            { "op": "remove", "path": "/metadata/annotations/tombolo.dev~1applied" },
            { "op": "remove", "path": "/metadata/annotations/tombolo.dev~1origin" },
            { "op": "remove", "path": "/metadata/managedFields/2" },
            { "op": "remove", "path": "/metadata/managedFields/0" },
        ])
    );
}
