//! Explanations of overrides: which apply to an object, and what a policy of them changes.

use super::*;

/// An override policy of namespace `shop` that changes ConfigMap `one` in one cluster.
fn overriding(name: &str, cluster: &str, overriders: Value) -> crate::api::OverridePolicy {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": name },
        "spec": {
            "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "one" }],
            "overrideRules": [{ "targetCluster": { "clusterNames": [cluster] }, "overriders": overriders }],
        },
    }))
    .unwrap()
}

fn label() -> Value {
    json!({ "labelsOverrider": [{ "operator": "add", "value": { "k": "v" } }] })
}

fn stage() -> Read {
    let mut read = read(&["member1", "member2"]);
    read.add_template(config_map("one"));
    add(&mut read, [policy("p", "one", &["member1", "member2"])]);
    read
}

fn of_override(read: &Read, name: &str) -> Explanation {
    explain(read, &Subject::Override(PolicyKey { namespace: Some("shop".into()), name: name.into() }))
}

#[test]
fn the_overrides_of_an_object_are_named_by_cluster() {
    let mut read = stage();
    assert!(of_config_map(&read).parts.iter().all(|part| part.title != "Overrides"));
    read.add_override(overriding("o", "member2", label()));
    let part = of_config_map(&read).parts.pop().unwrap();
    assert_eq!(part.title, "Overrides");
    assert_eq!(part.rows, [Row::new(State::Well, "member2", "OverridePolicy shop/o")]);
}

#[test]
fn an_override_policy_says_what_it_changes_where() {
    let mut read = stage();
    read.add_override(overriding("o", "member2", label()));
    let found = of_override(&read, "o");
    assert_eq!(found.headline(), "OverridePolicy shop/o is well: it speaks of 1 object");
    assert_eq!(found.parts[0].rows, [Row::new(State::Well, "ConfigMap shop/one", "changed in member2")]);
    read.add_override(overriding("o", "member9", label()));
    let rows = of_override(&read, "o").parts[0].rows.clone();
    assert_eq!(rows[0].text, "none of its rules is for member1 and member2, where it goes");
    let said = of_override(&read, "other").headline();
    assert!(said.starts_with("OverridePolicy shop/other is not on the hub: there is no"), "{said}");
}

#[test]
fn an_override_that_does_not_apply_is_the_cause() {
    let mut read = stage();
    let nowhere = json!({ "plaintext": [{ "path": "/data/no/such", "operator": "replace", "value": "x" }] });
    read.add_override(overriding("o", "member1", nowhere));
    let said = of_override(&read, "o").headline();
    assert!(
        said.contains("is not well: ConfigMap shop/one in member1: failed to apply OverridePolicy"),
        "{said}"
    );
    let part = of_config_map(&read).parts.pop().unwrap();
    assert_eq!((part.title.as_str(), part.rows[0].state), ("Overrides", State::NotWell));
}
