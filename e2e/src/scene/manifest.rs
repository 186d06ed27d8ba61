//! What tests apply: objects and policies in few words.

use serde_json::{Value, json};

use super::{CLUSTER_WIDE, api_version, name as place};

/// An object, with all that is not its name.
pub fn object(kind: &str, name: &str, rest: Value) -> Value {
    with(json!({ "apiVersion": api_version(kind), "kind": kind, "metadata": { "name": name } }), rest)
}

/// An object with more in it, by a merge patch.
pub fn with(mut object: Value, more: Value) -> Value {
    json_patch::merge(&mut object, &more);
    object
}

/// An object with a label.
pub fn labelled(object: Value, key: &str, value: &str) -> Value {
    with(object, json!({ "metadata": { "labels": { key: value } } }))
}

/// An object with an annotation.
pub fn annotated(object: Value, key: &str, value: &str) -> Value {
    with(object, json!({ "metadata": { "annotations": { key: value } } }))
}

/// A `ConfigMap`.
pub fn config_map(name: &str, data: Value) -> Value {
    object("ConfigMap", name, json!({ "data": data }))
}

/// A Deployment of pods that never run here.
pub fn deployment(name: &str, replicas: u32) -> Value {
    object(
        "Deployment",
        name,
        json!({ "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "example.com/team/app:v1" }] },
            },
        } }),
    )
}

/// A selector of objects by kind and name, or of all of a kind.
pub fn selector(what: &str) -> Value {
    let (kind, name) = what.split_once(' ').map_or((what, None), |(kind, name)| (kind, Some(name)));
    let mut selector = json!({ "apiVersion": api_version(kind), "kind": kind });
    if let Some(name) = name {
        selector["name"] = name.into();
    }
    selector
}

/// The names of members.
pub fn members(numbers: &[usize]) -> Value {
    numbers.iter().map(|&number| place(number)).collect()
}

/// A `PropagationPolicy` that places objects on members.
pub fn places(name: &str, what: &[&str], on: &[usize]) -> Value {
    let selectors: Vec<_> = what.iter().map(|what| selector(what)).collect();
    let placement = json!({ "clusterAffinity": { "clusterNames": members(on) } });
    object(
        "PropagationPolicy",
        name,
        json!({ "spec": { "resourceSelectors": selectors, "placement": placement } }),
    )
}

/// The same for the whole hub; of kinds that are in namespaces it selects those in one.
pub fn places_from(namespace: &str, name: &str, what: &[&str], on: &[usize]) -> Value {
    let mut policy = with(places(name, what, on), json!({ "kind": "ClusterPropagationPolicy" }));
    for selector in policy["spec"]["resourceSelectors"].as_array_mut().into_iter().flatten() {
        let wide = selector["kind"].as_str().is_some_and(|kind| CLUSTER_WIDE.contains(&kind));
        if !wide {
            selector["namespace"] = namespace.into();
        }
    }
    policy
}

/// An `OverridePolicy` for objects, with overriders for all members or some.
pub fn overrides(name: &str, what: &[&str], on: &[usize], overriders: Value) -> Value {
    let selectors: Vec<_> = what.iter().map(|what| selector(what)).collect();
    let rule = json!({ "targetCluster": { "clusterNames": members(on) }, "overriders": overriders });
    object(
        "OverridePolicy",
        name,
        json!({ "spec": { "resourceSelectors": selectors, "overrideRules": [rule] } }),
    )
}

/// A `CustomResourceDefinition` of a namespaced kind whose spec is whatever it is.
pub fn definition(kind: &str, versions: &[&str]) -> Value {
    let singular = kind.to_lowercase();
    let group = "rules.example";
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(place, version)| {
            json!({
                "name": version, "served": true, "storage": place == 0,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": { "size": { "type": "integer" } } },
                } } },
            })
        })
        .collect();
    object(
        "CustomResourceDefinition",
        &format!("{singular}s.{group}"),
        json!({ "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": format!("{singular}s"), "singular": singular },
        } }),
    )
}
