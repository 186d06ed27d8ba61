use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    crds::{Role, definitions},
    mcs::{ServiceImportType, Version},
    propagation::{ConflictResolution, Preemption},
    *,
};

#[test]
fn every_field_of_a_schema_comes_through_its_rust_type_unchanged() {
    round_trip::<PropagationPolicy>("PropagationPolicy");
    round_trip::<ClusterPropagationPolicy>("ClusterPropagationPolicy");
    round_trip::<OverridePolicy>("OverridePolicy");
    round_trip::<ClusterOverridePolicy>("ClusterOverridePolicy");
    round_trip::<Cluster>("Cluster");
    round_trip::<ServiceExport>("ServiceExport");
    round_trip::<ServiceImport>("ServiceImport");
}

#[test]
fn a_policy_without_optional_fields_means_what_its_schema_gives_for_defaults() {
    let policy: PropagationPolicy =
        decode(json!({ "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "Service" }] } }));
    assert_eq!(policy.spec.priority, 0);
    assert_eq!(policy.spec.preemption, Preemption::Never);
    assert_eq!(policy.spec.conflict_resolution, ConflictResolution::Abort);
    assert_eq!(policy.spec.placement.cluster_affinity, None);
    let selector = &policy.spec.resource_selectors[0];
    assert_eq!((&selector.name, &selector.namespace, &selector.label_selector), (&None, &None, &None));
}

#[test]
fn an_empty_string_is_no_value() {
    let policy: PropagationPolicy = decode(json!({ "spec": {
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "Service", "name": "", "namespace": "" }],
        "placement": { "spreadConstraints": [{ "minGroups": 0, "spreadByLabel": "" }] },
    } }));
    assert_eq!(policy.spec.resource_selectors[0].name, None);
    assert_eq!(policy.spec.resource_selectors[0].namespace, None);
    assert_eq!(policy.spec.placement.spread_constraints, [Default::default()]);
}

#[test]
fn an_override_may_put_any_value_in_place_but_a_null_is_none_as_api_servers_have_it() {
    let value = |value: Value| {
        let patch = json!({ "path": "/spec/x", "operator": "replace", "value": value });
        decode::<overrides::PlaintextOverrider>(patch).value
    };
    for kept in [json!(0), json!(""), json!(false), json!([]), json!({ "x": null })] {
        assert_eq!(value(kept.clone()), Some(kept));
    }
    assert_eq!(value(Value::Null), None);
}

#[test]
fn what_a_newer_release_wrote_still_decodes_and_is_kept() {
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceImport",
        "metadata": { "name": "serve" },
        "spec": { "type": "Anycast", "ports": [{ "port": 80, "weight": 3 }], "colour": "blue" },
        "future": true,
    });
    let decoded: ServiceImport = decode(import);
    assert_eq!(decoded.spec.type_, ServiceImportType::Other("Anycast".to_owned()));
    assert_eq!(encode(&decoded)["spec"]["type"], "Anycast");
}

#[test]
fn an_export_needs_no_spec_and_gets_none() {
    let export: ServiceExport = decode(
        json!({ "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport", "metadata": {} }),
    );
    assert_eq!(export.version, Version::V1Alpha1);
    assert_eq!(export.spec, Default::default());
    assert_eq!(encode(&export).get("spec"), None);
}

#[test]
fn an_object_is_written_in_the_version_and_to_the_address_that_were_asked_for() {
    for (version, name) in [(Version::V1Beta1, "v1beta1"), (Version::V1Alpha1, "v1alpha1")] {
        let import = ServiceImport::new(version, "ns", "serve", Default::default());
        assert_eq!(encode(&import)["spec"], json!({ "ports": [], "type": "ClusterSetIP" }));
        assert_eq!(encode(&import)["apiVersion"], format!("multicluster.x-k8s.io/{name}"));
        let path = format!("/apis/multicluster.x-k8s.io/{name}/namespaces/ns/serviceimports");
        assert_eq!(ServiceImport::url_path(&version, Some("ns")), path);
    }
    assert_eq!(
        ServiceExport::url_path(&Version::default(), None),
        "/apis/multicluster.x-k8s.io/v1beta1/serviceexports"
    );
    assert_eq!(Cluster::url_path(&(), None), "/apis/cluster.karmada.io/v1alpha1/clusters");
    let policy = encode(&PropagationPolicy::new("p", Default::default()));
    assert_eq!(
        (&policy["apiVersion"], &policy["kind"]),
        (&json!("policy.karmada.io/v1alpha1"), &json!("PropagationPolicy"))
    );
}

/// Fills every field that the kind's schema has, reads that as its Rust type and writes it again.
fn round_trip<K: DeserializeOwned + Serialize>(kind: &str) {
    let definition = definitions(Role::Hub).into_iter().find(|d| d.spec.names.kind == kind).unwrap();
    for version in definition.spec.versions {
        let schema = version.schema.unwrap().open_api_v3_schema.unwrap();
        let mut filled = sample(&schema);
        filled["apiVersion"] = format!("{}/{}", definition.spec.group, version.name).into();
        filled["kind"] = kind.into();
        filled["metadata"] = json!({ "name": "full" });
        assert_eq!(encode(&decode::<K>(filled.clone())), filled, "{kind} {}", version.name);
    }
}

/// A value with every field set, to something else than its default.
fn sample(schema: &JSONSchemaProps) -> Value {
    if let Some(words) = &schema.enum_ {
        return words.last().unwrap().0.clone();
    }
    match (schema.type_.as_deref(), schema.format.as_deref()) {
        (Some("object"), _) => match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(value)) => json!({ "key": sample(value) }),
            _ => schema
                .properties
                .iter()
                .flatten()
                .map(|(name, field)| (name.clone(), sample(field)))
                .collect(),
        },
        (Some("array"), _) => match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(item)) => json!([sample(item)]),
            other => panic!("a list of {other:?}"),
        },
        (Some("string"), Some("date-time")) => json!("2026-11-16T08:00:00Z"),
        (Some("string"), None) => json!("text"),
        (Some("integer"), _) => json!(7),
        (Some("boolean"), _) => json!(true),
        (None, _) if schema.x_kubernetes_int_or_string == Some(true) => json!("500m"),
        (None, _) if schema.x_kubernetes_preserve_unknown_fields == Some(true) => json!({ "any": [1, null] }),
        other => panic!("a value of {other:?}"),
    }
}

fn decode<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn encode<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap()
}
