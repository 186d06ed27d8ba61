//! What is wrong with overriders, and in which words.

use super::*;

fn faults(overriders: Value) -> Vec<String> {
    let overriders: Overriders = serde_json::from_value(overriders).unwrap();
    let mut faults = Vec::new();
    check::overriders(&overriders, &Path::root("overriders"), &mut faults);
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn an_overrider_is_refused_with_the_field_the_cause_and_the_way_out() {
    let plaintext = |path: &str, operator: &str, value: Option<Value>| {
        let mut entry = json!({ "path": path, "operator": operator });
        if let Some(value) = value {
            entry["value"] = value;
        }
        json!({ "plaintext": [entry] })
    };
    let image = |component: &str, operator: &str, value: &str| json!({ "imageOverrider": [{ "component": component, "operator": operator, "value": value }] });
    let field = |entry: Value| json!({ "fieldOverrider": [entry] });
    let table = [
        (plaintext("/spec/x", "replace", Some(json!(false))), None),
        (plaintext("/metadata/labels/x", "add", Some(json!("y"))), None),
        (plaintext("/metadata/names", "remove", None), None),
        (
            plaintext("spec/x", "remove", None),
            Some(
                "plaintext[0].path: \"spec/x\" is not a JSON pointer; begin it with '/', and write ~1 for a '/' and ~0 for a '~' in a name",
            ),
        ),
        (
            plaintext("/spec/x", "add", None),
            Some("plaintext[0].value: it is missing or null, and add and replace need a value"),
        ),
        (
            plaintext("/spec/x", "remove", Some(json!(1))),
            Some("plaintext[0].value: remove takes no value; leave it out"),
        ),
        (
            plaintext("/spec/x", "test", None),
            Some("plaintext[0].operator: \"test\" is not an operator; use add, remove or replace"),
        ),
        (
            plaintext("/metadata/name", "remove", None),
            Some("plaintext[0].path: no override may change /metadata/name"),
        ),
        (
            plaintext("/metadata", "replace", Some(json!({}))),
            Some(
                "plaintext[0].path: \"/metadata\" cannot be changed as a whole, since no override may change /metadata/name",
            ),
        ),
        (
            plaintext("", "replace", Some(json!({}))),
            Some(
                "plaintext[0].path: \"\" cannot be changed as a whole, since no override may change /apiVersion",
            ),
        ),
        (
            plaintext("/metadata/finalizers/-", "add", Some(json!("x"))),
            Some(
                "plaintext[0].path: no override may change /metadata/finalizers, which \"/metadata/finalizers/-\" is in",
            ),
        ),
        (image("Tag", "replace", "v2"), None),
        (
            image("Tag", "replace", "v 2"),
            Some("imageOverrider[0].value: \"v 2\" is neither a tag nor a digest"),
        ),
        (
            image("Registry", "add", ""),
            Some("imageOverrider[0].value: it is empty, and add and replace need a value"),
        ),
        (
            image("Registry", "remove", "x"),
            Some("imageOverrider[0].value: remove takes no value; leave it out"),
        ),
        (
            image("Host", "remove", ""),
            Some(
                "imageOverrider[0].component: \"Host\" is not a part of an image; use Registry, Repository or Tag",
            ),
        ),
        (
            json!({ "imageOverrider": [{ "predicate": { "path": "/kind" }, "component": "Tag", "operator": "remove" }] }),
            Some("imageOverrider[0].predicate.path: no override may change /kind"),
        ),
        (
            json!({ "commandOverrider": [{ "containerName": "", "operator": "add", "value": ["x"] }] }),
            Some("commandOverrider[0].containerName: it is empty; name the container"),
        ),
        (
            json!({ "argsOverrider": [{ "containerName": "a", "operator": "replace", "value": ["x"] }] }),
            Some("argsOverrider[0].operator: \"replace\" is not an operator here; use add or remove"),
        ),
        (
            json!({ "argsOverrider": [{ "containerName": "a", "operator": "add" }] }),
            Some("argsOverrider[0].value: it is empty; give at least one word"),
        ),
        (
            json!({ "labelsOverrider": [{ "operator": "add", "value": { "a": "b c" } }] }),
            Some(
                "labelsOverrider[0].value[a]: \"b c\" is not a label value: it must be letters, digits, '-', '_' and '.', and begin and end with a letter or a digit",
            ),
        ),
        (
            json!({ "annotationsOverrider": [{ "operator": "add", "value": { "Example.com/A": "any text" } }] }),
            None,
        ),
        (
            json!({ "annotationsOverrider": [{ "operator": "add", "value": { "a b": "c" } }] }),
            Some(
                "annotationsOverrider[0].value[a b]: \"a b\" is not an annotation key; use a name of letters, digits, '-', '_' and '.', or prefix/name",
            ),
        ),
        (field(json!({ "fieldPath": "/data/a", "json": [{ "subPath": "/x", "operator": "remove" }] })), None),
        (
            field(json!({ "fieldPath": "/data/a" })),
            Some("fieldOverrider[0]: it changes nothing; give json or yaml"),
        ),
        (
            field(json!({ "fieldPath": "/data/a", "yaml": [{ "subPath": "x", "operator": "remove" }] })),
            Some(
                "fieldOverrider[0].yaml[0].subPath: \"x\" is not a JSON pointer; begin it with '/', and write ~1 for a '/' and ~0 for a '~' in a name",
            ),
        ),
        (
            field(
                json!({ "fieldPath": "/data/a", "json": [{ "subPath": "/x", "operator": "remove" }], "yaml": [{ "subPath": "/x", "operator": "remove" }] }),
            ),
            Some("fieldOverrider[0].yaml: it cannot stand beside json; leave one of them out"),
        ),
    ];
    for (overriders, message) in table {
        let expected: Vec<String> = message.iter().map(|message| format!("overriders.{message}")).collect();
        assert_eq!(faults(overriders.clone()), expected, "{overriders}");
    }
}
