use proptest::{collection::btree_map, prelude::*, sample::Index};
use serde_json::{Map, Value, json};

use crate::decide::copy::*;

use super::{key, stamps};

/// A value, and what an API server would list of it.
type Listed = (Value, Value);

fn scalar() -> impl Strategy<Value = Value> + Clone {
    prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-c\"<]{0,3}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from)
    ]
}

/// A leaf, by the entry as by the value: a scalar, an empty map, and what is atomic.
fn leaf() -> impl Strategy<Value = Listed> {
    let atomic = prop::collection::vec(scalar(), 1..3);
    let value = prop_oneof![
        3 => scalar(),
        1 => Just(json!({})),
        1 => atomic.clone().prop_map(Value::from),
        1 => atomic.prop_map(|list| json!({ "a": list })),
    ];
    value.prop_map(|value| (value, json!({})))
}

/// A struct, each of whose fields is listed.
fn fields(inner: impl Strategy<Value = Listed> + Clone) -> impl Strategy<Value = Listed> {
    btree_map("[a-e./]{1,2}", inner, 1..4).prop_map(|fields| {
        let listed = fields.iter().map(|(field, (_, listed))| (format!("f:{field}"), listed.clone()));
        let listed = Value::Object(listed.collect());
        (fields.into_iter().map(|(field, (value, _))| (field, value)).collect(), listed)
    })
}

/// A list of items with two key fields, of which the second has a default.
fn list_map(inner: impl Strategy<Value = Listed> + Clone) -> impl Strategy<Value = Listed> {
    btree_map(0..9, (any::<bool>(), inner), 1..4).prop_map(|items| {
        let (mut list, mut listed) = (Vec::new(), Map::new());
        for (number, (said, (value, fields))) in items {
            let mut item = json!({ "number": number, "value": value });
            let mut set = json!({ ".": {}, "f:number": {}, "f:value": fields });
            if said {
                item["protocol"] = "TCP".into();
                set["f:protocol"] = json!({});
            }
            list.push(item);
            listed.insert(format!("k:{}", json!({ "number": number, "protocol": "TCP" })), set);
        }
        (Value::Array(list), Value::Object(listed))
    })
}

fn set() -> impl Strategy<Value = Listed> {
    prop::collection::btree_set("[a-c\"<]{0,3}", 1..4).prop_map(|items| {
        let listed = items.iter().map(|item| (format!("v:{}", Value::from(item.as_str())), json!({})));
        let listed = Value::Object(listed.collect());
        (items.into_iter().map(Value::from).collect(), listed)
    })
}

fn listed() -> impl Strategy<Value = Listed> {
    let any = leaf().prop_recursive(
        4,
        32,
        4,
        |inner| prop_oneof![3 => fields(inner.clone()), 2 => list_map(inner), 1 => set()],
    );
    fields(any)
}

/// The names by which each entry is found that somebody else could take by itself.
fn takeable(listed: &Value, at: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (name, inner) in listed.as_object().into_iter().flatten() {
        let of_key = at.last().is_some_and(|item| item.starts_with("k:"))
            && ["f:number", "f:protocol", "."].contains(&name.as_str());
        if of_key {
            continue;
        }
        at.push(name.clone());
        if name.starts_with("k:") || inner == &json!({}) {
            found.push(at.clone());
        }
        takeable(inner, at, found);
        at.pop();
    }
}

/// Takes an entry out, and with it what is empty then: structs and lists are not listed themselves.
fn take(listed: &mut Value, path: &[String]) {
    let Value::Object(fields) = listed else { return };
    let Some((name, rest)) = path.split_first() else { return };
    if let Some(inner) = fields.get_mut(name).filter(|_| !rest.is_empty()) {
        take(inner, rest);
    }
    if rest.is_empty() || fields.get(name) == Some(&json!({})) {
        fields.remove(name);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let names =
        "(a|status|metadata|labels|annotations|tombolo.dev/x|job-name|spec|selector|template|ports|secrets)";
    let leaf = prop_oneof![3 => scalar(), 1 => Just(Value::Null), 1 => Just(json!({}))];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            3 => btree_map(names, inner.clone(), 0..5).prop_map(|map| map.into_iter().collect()),
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::Array),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let kinds = [
        ("v1", "Service"),
        ("batch/v1", "Job"),
        ("v1", "Namespace"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "StatefulSet"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("x.dev/v1", "Toy"),
    ];
    (prop::sample::select(kinds.to_vec()), any_value(), any_value(), any_value()).prop_map(
        |((api_version, kind), metadata, spec, more)| {
            json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec, "secrets": more })
        },
    )
}

proptest! {
    #[test]
    fn an_entry_covers_what_it_lists_and_not_with_any_of_it_missing((body, listed) in listed(), which: Index) {
        let (body, mut listed) = (json!({ "spec": body }), json!({ "f:spec": listed }));
        prop_assert!(covers(&listed, &body));
        let mut found = Vec::new();
        takeable(&listed, &mut Vec::new(), &mut found);
        let gone = which.get(&found);
        take(&mut listed, gone);
        prop_assert!(!covers(&listed, &body), "{gone:?} of {listed}");
    }

    #[test]
    fn stripping_twice_changes_nothing(object in any_object()) {
        let once = strip(&object);
        prop_assert_eq!(strip(&once), once);
    }

    #[test]
    fn a_copy_is_the_same_byte_for_byte_and_rendering_it_again_changes_nothing(object in any_object()) {
        let stamps = stamps(key("x.dev/v1", "Toy", "shop", "a"));
        let one = render(strip(&object), "x.dev/v1", &stamps);
        let other = render(strip(&object), "x.dev/v1", &stamps);
        prop_assert_eq!(one.body.to_string(), other.body.to_string());
        prop_assert_eq!(&render(one.body.clone(), "x.dev/v1", &stamps), &one);
        prop_assert!(says_all(&one.body, &one.body));
    }
}
