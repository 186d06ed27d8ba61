use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Overriders that come to the same when applied twice.
fn idempotent() -> impl Strategy<Value = Value> {
    select(vec![
        json!({ "labelsOverrider": [{ "operator": "add", "value": { "l": "1" } }] }),
        json!({ "labelsOverrider": [{ "operator": "remove", "value": { "app": "" } }] }),
        json!({ "annotationsOverrider": [{ "operator": "add", "value": { "example.com/a": "1" } }] }),
        json!({ "imageOverrider": [{ "component": "Registry", "operator": "replace", "value": "my.reg:5000" }] }),
        json!({ "imageOverrider": [{ "component": "Tag", "operator": "remove" }] }),
        json!({ "argsOverrider": [{ "containerName": "app", "operator": "remove", "value": ["--a"] }] }),
        json!({ "plaintext": [{ "path": "/spec/replicas", "operator": "replace", "value": 5 }] }),
        json!({ "plaintext": [{ "path": "/spec/paused", "operator": "add", "value": true }] }),
    ])
}

fn any_overriders() -> impl Strategy<Value = Value> {
    let others = select(vec![
        json!({ "argsOverrider": [{ "containerName": "app", "operator": "add", "value": ["--c"] }] }),
        json!({ "imageOverrider": [{ "component": "Tag", "operator": "add", "value": "-x" }] }),
        json!({ "plaintext": [{ "path": "/spec/nope/x", "operator": "replace", "value": 5 }] }),
        json!({ "plaintext": [{ "path": "/spec/template/spec/containers/1", "operator": "remove" }] }),
    ]);
    prop_oneof![2 => idempotent(), 1 => others]
}

fn policies(overriders: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let names = vec!["shop/a", "shop/b", "a", "b"];
    let selector =
        select(vec![None, Some(json!({})), Some(json!({ "name": "web" })), Some(json!({ "name": "w*" }))]);
    let policy = (vec(overriders, 1..3), selector).prop_map(|(overriders, selector)| {
        let rules: Vec<_> = overriders.iter().map(|overriders| json!({ "overriders": overriders })).collect();
        let selectors: Vec<_> = selector
            .into_iter()
            .map(|mut selector: Value| {
                selector["apiVersion"] = "apps/v1".into();
                selector["kind"] = "Deployment".into();
                selector
            })
            .collect();
        json!({ "overrideRules": rules, "resourceSelectors": selectors })
    });
    proptest::collection::btree_map(select(names), policy, 0..4)
        .prop_map(|policies| policies.into_iter().collect())
}

/// The leaves of a value, by pointer.
fn leaves(value: &Value, pointer: String, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| leaves(value, format!("{pointer}/{key}"), found));
        }
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(index, value)| leaves(value, format!("{pointer}/{index}"), found));
        }
        leaf => drop(found.insert(pointer, leaf.to_string())),
    }
}

proptest! {
    #[test]
    fn the_order_in_which_policies_came_does_not_matter(mut policies in policies(any_overriders())) {
        let forwards = apply(&policies, &web(), "a");
        policies.reverse();
        prop_assert_eq!(forwards, apply(&policies, &web(), "a"));
    }

    #[test]
    fn applying_twice_what_is_idempotent_comes_to_the_same(policies in policies(idempotent())) {
        let once = apply(&policies, &web(), "a").unwrap();
        // Labels that a policy changed may not be what it is selected by; no selector here goes by labels.
        prop_assert_eq!(&apply(&policies, &once, "a").unwrap(), &once);
    }

    #[test]
    fn what_no_override_touches_stays_as_it_is(policies in policies(idempotent())) {
        const TOUCHED: [&str; 6] =
            ["/metadata/labels/", "/metadata/annotations/", "/spec/replicas", "/spec/paused", "/spec/template/spec/containers/0/args", "/image"];
        let made = apply(&policies, &web(), "a").unwrap();
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        leaves(&web(), String::new(), &mut before);
        leaves(&made, String::new(), &mut after);
        let untouched = |(pointer, _): &(&String, &String)| !TOUCHED.iter().any(|touched| pointer.contains(touched));
        prop_assert!(before.iter().filter(untouched).eq(after.iter().filter(untouched)), "{}", made);
        let init = "/spec/template/spec/initContainers/0/image";
        prop_assert_eq!(before.get(init), after.get(init));
    }

    #[test]
    fn an_object_keeps_what_it_is_or_there_is_a_failure(path in "(/(metadata|name|kind|apiVersion|spec|finalizers)){0,2}", value in select(vec![json!("x"), json!({}), json!([])])) {
        let wire = json!({ "plaintext": [{ "path": path, "operator": "add", "value": value }] });
        let (overriders, mut object): (Overriders, Value) = (serde_json::from_value(wire).unwrap(), web());
        if apply::overriders(&overriders, &mut object, &Path::root("overriders")).is_ok() {
            for pointer in apply::IDENTITY {
                prop_assert_eq!(object.pointer(pointer).cloned(), web().pointer(pointer).cloned());
            }
        }
    }
}
