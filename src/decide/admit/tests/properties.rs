//! What holds for any object, hub and order of events.

use std::{collections::BTreeMap, sync::LazyLock};

use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{EXPORTED, Hub, MEMBERS, filled_in, objects, remove, request, store};
use crate::decide::admit::{Operation, admit, mutate};

const KINDS: [(&str, &str); 9] = [
    ("multicluster.x-k8s.io/v1beta1", "ServiceImport"),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"),
    ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
    ("policy.karmada.io/v1alpha1", "OverridePolicy"),
    ("policy.karmada.io/v1alpha1", "ClusterOverridePolicy"),
    ("cluster.karmada.io/v1alpha1", "Cluster"),
    ("v1", "Service"),
    ("apps/v1", "Deployment"),
];

/// Names of fields that rules look at, so that random objects come near them.
const FIELDS: [&str; 30] = [
    "spec",
    "metadata",
    "annotations",
    "labels",
    "ports",
    "port",
    "name",
    "namespace",
    "protocol",
    "type",
    "ips",
    "sessionAffinity",
    "sessionAffinityConfig",
    "clientIP",
    "timeoutSeconds",
    "ipFamilies",
    "resourceSelectors",
    "apiVersion",
    "kind",
    "placement",
    "spreadConstraints",
    "minGroups",
    "clusterAffinity",
    "clusterNames",
    "overrideRules",
    "overriders",
    "plaintext",
    "syncMode",
    "exportedLabels",
    "deletionTimestamp",
];
const TEXTS: [&str; 14] = [
    "",
    "serve",
    "shop",
    "member1",
    "http",
    "TCP",
    "ClientIP",
    "v1",
    "Service",
    "ServiceExport",
    "*",
    "[",
    "resolve",
    "2026-11-16T08:00:00Z",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..70_000i64).prop_map(Value::from),
        select(&TEXTS[..]).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let field = prop_oneof![9 => select(&FIELDS[..]).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((field, inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Any object of a kind, mostly with a name.
fn any_object() -> impl Strategy<Value = Value> {
    (select(&KINDS[..]), any_json(), any_json(), select(&["serve", "other", ""][..])).prop_map(
        |((api_version, kind), mut metadata, spec, name)| {
            if let Value::Object(fields) = &mut metadata {
                fields.insert("name".to_owned(), name.into());
                fields.insert("namespace".to_owned(), "shop".into());
            }
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "novel": [1.5, null]})
        },
    )
}

fn any_ports() -> impl Strategy<Value = Value> {
    let port = (select(&["a", "b", "http"][..]), select(&[80, 81, 8080][..]), select(&["TCP", "UDP"][..]));
    let port =
        port.prop_map(|(name, port, protocol)| json!({"name": name, "port": port, "protocol": protocol}));
    prop::collection::vec(port, 0..3).prop_map(|mut ports| {
        ports.dedup_by_key(|port| port["name"].clone());
        Value::from(ports)
    })
}

fn any_name() -> impl Strategy<Value = &'static str> {
    select(&["serve", "other"][..])
}

/// Any of the objects that a hub may hold, valid ones.
fn any_stored() -> impl Strategy<Value = Value> {
    let meta = |name: &str| json!({"name": name, "namespace": "shop"});
    let clusters = prop::collection::vec(select(&["member1", "member2", "member3", "member*"][..]), 0..3);
    prop_oneof![
        (any_name(), any_ports()).prop_map(move |(name, ports)| {
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": {"ports": ports}})
        }),
        (any_name(), any::<bool>()).prop_map(move |(name, resolves)| {
            let mut metadata = meta(name);
            if resolves {
                metadata["annotations"] = json!({"tombolo.dev/port-conflicts": "resolve"});
            }
            json!({"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": metadata})
        }),
        (any_name(), any_ports()).prop_map(move |(name, ports)| json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": meta(name),
            "spec": {"type": "ClusterSetIP", "sessionAffinity": "None", "ports": ports}
        })),
        (any_name(), any_name(), clusters, -1..2i32).prop_map(move |(name, selected, clusters, priority)| json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": meta(name), "spec": {
                "resourceSelectors": [
                    {"apiVersion": "v1", "kind": "Service", "name": selected, "namespace": "shop"},
                    {"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "namespace": "shop"},
                ],
                "placement": {"clusterAffinity": {"clusterNames": clusters}},
                "priority": priority, "conflictResolution": "Abort",
            }
        })),
        (any_name(), select(&["member1", "member2"][..]), 79..82i32).prop_map(move |(name, cluster, port)| json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": meta(name), "spec": {
                "overrideRules": [{"targetCluster": {"clusterNames": [cluster]}, "overriders": {
                    "plaintext": [{"path": "/spec/ports/0/port", "operator": "replace", "value": port}]
                }}]
            }
        })),
        select(&["member1", "member2", "member3"][..]).prop_map(|name| json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {
                "syncMode": "Push", "apiEndpoint": "https://a", "secretRef": {"namespace": "a", "name": "b"}
            }
        })),
        any::<bool>().prop_map(|resolves| {
            let annotations = if resolves { json!({"tombolo.dev/port-conflicts": "resolve"}) } else { json!({}) };
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
        }),
    ]
}

/// A valid object with something else in one place.
fn nearly_valid() -> impl Strategy<Value = Value> {
    (any_stored(), any::<prop::sample::Index>(), any_json()).prop_map(|(mut object, place, other)| {
        let mut places = Vec::new();
        pointers(&object, String::new(), &mut places);
        let place = &places[place.index(places.len())];
        if let Some(value) =
            object.pointer_mut(place).filter(|_| !["/kind", "/apiVersion"].contains(&place.as_str()))
        {
            *value = other;
        }
        object
    })
}

fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                pointers(value, format!("{at}/{}", field.replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                pointers(value, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(at);
}

static HUB: LazyLock<Hub> = LazyLock::new(|| Hub::of(&[MEMBERS, EXPORTED]));

fn identity(object: &Value) -> (String, String) {
    (object["kind"].to_string(), object["metadata"]["name"].to_string())
}

fn without_the_filled_in(object: &Value, original: &Value) -> Value {
    match (object, original) {
        (Value::Object(object), Value::Object(original)) => {
            let kept = object
                .iter()
                .filter_map(|(k, v)| Some((k.clone(), without_the_filled_in(v, original.get(k)?))));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        (Value::Array(object), Value::Array(original)) => {
            object.iter().zip(original).map(|(o, g)| without_the_filled_in(o, g)).collect()
        }
        // What was empty may be filled in.
        (_, Value::Null) => Value::Null,
        (_, Value::String(text)) if text.is_empty() => Value::from(""),
        (object, Value::Number(zero)) if zero.as_i64() == Some(0) && *object == 1 => Value::from(0),
        _ => object.clone(),
    }
}

proptest! {
    #[test]
    fn no_object_makes_it_panic_and_every_denial_names_a_fault(
        object in prop_oneof![any_object(), nearly_valid()], old in prop_oneof![any_object(), nearly_valid()],
        operation in select(&[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect][..]),
    ) {
        let mut request = request(operation, Some(object), Some(old));
        for _ in 0..2 {
            let verdict = admit(&HUB.view, &request);
            prop_assert_eq!(verdict.allowed(), verdict.message(&request).is_none());
            prop_assert!(verdict.warnings.len() <= 17);
            prop_assert!(verdict.warnings.iter().all(|w| w.len() <= 256 && !w.contains(char::is_control)));
            prop_assert!(verdict.faults.iter().all(|fault| !fault.path.is_empty() && !fault.message.is_empty()));
            mutate(&HUB.view, &request);
            request.object = None;
        }
    }

    #[test]
    fn any_json_at_all_is_answered(object in any_json(), (api_version, kind) in select(&KINDS[..])) {
        let mut request = request(Operation::Create, Some(json!({"apiVersion": api_version, "kind": kind})), None);
        request.object = Some(object);
        admit(&HUB.view, &request);
        mutate(&HUB.view, &request);
    }

    #[test]
    fn filling_in_twice_is_filling_in_once_and_changes_nothing_else(object in any_object()) {
        let mut hub = Hub::of(&[MEMBERS]);
        hub.add("{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {tombolo.dev/port-conflicts: resolve}}}");
        let once = filled_in(&hub.view, &object);
        prop_assert_eq!(&filled_in(&hub.view, &once), &once);
        prop_assert_eq!(without_the_filled_in(&once, &object), object);
    }

    #[test]
    fn what_was_admitted_may_be_written_again_unchanged(
        stored in prop::collection::vec(any_stored(), 0..12), object in any_stored(),
    ) {
        let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
        stored.into_iter().for_each(|object| store(&mut hub.view, object));
        let first = hub.ask(Operation::Create, Some(object.clone()), None);
        // Also where it was stored against all advice, say while the webhook was away.
        store(&mut hub.view, object.clone());
        let again = hub.ask(Operation::Update, Some(object.clone()), Some(object));
        prop_assert!(again.verdict.allowed(), "{} and then {}", first.message(), again.message());
    }

    #[test]
    fn the_verdict_does_not_depend_on_the_order_of_events(
        events in prop::collection::vec((any_stored(), any::<bool>()), 0..16), object in any_stored(),
    ) {
        let first = objects(MEMBERS).into_iter().chain(objects(EXPORTED)).map(|object| (object, true));
        let events: Vec<_> = first.chain(events).collect();
        let (mut incremental, mut last) = (Hub::empty(), BTreeMap::new());
        for (object, stored) in &events {
            if *stored {
                store(&mut incremental.view, object.clone());
            } else {
                remove(&mut incremental.view, object);
            }
            last.insert(identity(object), (object, *stored));
        }
        let mut rebuilt = Hub::empty();
        for (object, _) in last.into_values().filter(|(_, stored)| *stored) {
            store(&mut rebuilt.view, object.clone());
        }
        let ask = |hub: &Hub, operation| {
            let old = (operation == Operation::Delete).then(|| object.clone());
            hub.ask(operation, Some(object.clone()), old).verdict
        };
        for operation in [Operation::Create, Operation::Delete] {
            prop_assert_eq!(ask(&incremental, operation), ask(&rebuilt, operation));
        }
    }

    #[test]
    fn a_new_conflict_is_refused_or_resolved_and_never_passed_over(
        stored in prop::collection::vec(any_stored(), 0..12), ports in any_ports(), name in any_name(),
    ) {
        let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
        stored.into_iter().for_each(|object| store(&mut hub.view, object));
        let import = objects(&format!(
            "{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {{name: {name}, namespace: shop}}, \
             spec: {{type: ClusterSetIP, ports: {ports}}}}}"
        ))
        .remove(0);
        let key = crate::decide::ids::ServiceKey::parse("shop", name).unwrap();
        let exports = crate::decide::admit::state::State::now(&hub.view).exports(&key);
        let ports = crate::decide::view::Offer::of(&import).ports();
        let conflicts = exports.values().any(|export| !crate::decide::ports::conflicts(&ports, &export.ports).is_empty());
        let answer = hub.ask(Operation::Create, Some(import), None);
        let told = answer.verdict.faults.iter().map(|fault| fault.message.clone());
        let told = told.chain(answer.verdict.warnings.clone()).any(|text| text.contains("here, "));
        prop_assert!(conflicts || !told, "{:?}", answer);
        // What is merged is not told where something else is refused.
        prop_assert!(told || !conflicts || !answer.verdict.allowed(), "{:?}", answer);
    }
}
