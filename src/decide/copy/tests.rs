//! What a template becomes in a member.

mod deps;
mod managed;
mod origin;
mod properties;
mod render;
mod strip;

use serde_json::Value;

use super::*;

/// A value of YAML.
fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn key(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind: GroupKind::new(api_version, kind), namespace: namespace.into(), name: name.into() }
}

fn origin(object: ObjectKey) -> Origin {
    Origin { hub: "hub-1".into(), template: "uid-1".into(), crd: None, object }
}

fn stamps(object: ObjectKey) -> Stamps {
    let origin = origin(object);
    Stamps {
        policies: "p".into(),
        policy: None,
        hub: origin.hub.clone(),
        origin,
        preserve: false,
        delete_with_policy: false,
        adopted: false,
        dependency: false,
        replicas: None,
    }
}

#[test]
fn an_object_is_called_by_kind_namespace_and_name() {
    assert_eq!(key("apps/v1", "Deployment", "shop", "serve").to_string(), "Deployment.apps shop/serve");
    assert_eq!(key("v1", "Namespace", "", "shop").to_string(), "Namespace shop");
}

#[test]
fn a_manifest_without_kind_or_name_speaks_of_no_object() {
    let of = |text: &str| ObjectKey::of(&yaml(text));
    let named = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: serve, namespace: shop}}";
    assert_eq!(of(named), Some(key("apps/v1", "Deployment", "shop", "serve")));
    assert_eq!(
        of("{apiVersion: v1, kind: Namespace, metadata: {name: a}}"),
        Some(key("v1", "Namespace", "", "a"))
    );
    for text in ["{apiVersion: v1, kind: Secret}", "{apiVersion: v1, metadata: {name: a}}", "[]"] {
        assert_eq!(of(text), None, "{text}");
    }
}
