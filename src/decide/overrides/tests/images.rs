//! Image names.

use super::*;

#[test]
fn a_part_of_an_image_is_added_to_removed_or_replaced() {
    const DIGEST: &str = "sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c";
    let pinned = format!("reg:5000/a/b:v1@{DIGEST}");
    let table = [
        ("docker.io/a/b:v1", "Registry", "replace", "my.reg:5000", Ok("my.reg:5000/a/b:v1".to_owned())),
        ("a/b:v1", "Registry", "replace", "my.reg", Ok("my.reg/a/b:v1".into())),
        ("b", "Registry", "add", "localhost", Ok("localhost/b".into())),
        ("docker.io/b", "Registry", "add", ".cn", Ok("docker.io.cn/b".into())),
        ("docker.io/a/b", "Registry", "replace", "my.reg/mirror", Ok("my.reg/mirror/a/b".into())),
        ("docker.io/a/b:v1", "Registry", "remove", "", Ok("a/b:v1".into())),
        ("docker.io/a/b:v1", "Repository", "replace", "c", Ok("docker.io/c:v1".into())),
        ("a/b:v1", "Repository", "add", "-slim", Ok("a/b-slim:v1".into())),
        (
            "docker.io/a/b:v1",
            "Repository",
            "remove",
            "",
            Err("image \"docker.io/a/b:v1\": \"docker.io/:v1\" is not the name of an image"),
        ),
        ("a/b:v1", "Tag", "replace", "v2", Ok("a/b:v2".into())),
        ("a/b:v1", "Tag", "add", "-alpine", Ok("a/b:v1-alpine".into())),
        ("a/b", "Tag", "add", "v1", Ok("a/b:v1".into())),
        ("a/b:v1", "Tag", "remove", "", Ok("a/b".into())),
        ("a/b:v1", "Tag", "replace", DIGEST, Ok(format!("a/b@{DIGEST}"))),
        (&pinned, "Tag", "replace", "v2", Ok("reg:5000/a/b:v2".into())),
        (&pinned, "Tag", "remove", "", Ok("reg:5000/a/b".into())),
        (&pinned, "Registry", "replace", "my.reg", Ok(format!("my.reg/a/b:v1@{DIGEST}"))),
        (
            "a/B:v1",
            "Registry",
            "replace",
            "my.reg",
            Err("image \"a/B:v1\": \"a/B:v1\" is not the name of an image"),
        ),
        ("a/b:v1", "Tag", "add", " ", Err("image \"a/b:v1\": \"v1 \" is neither a tag nor a digest")),
    ];
    for (image, component, operator, value, expected) in table {
        let value = (operator != "remove").then_some(value);
        let policy = rule(json!({ "imageOverrider": [{
            "predicate": { "path": IMAGE }, "component": component, "operator": operator, "value": value,
        }] }));
        let mut object = web();
        *object.pointer_mut(IMAGE).unwrap() = image.into();
        let made = apply(&[("shop/a", policy)], &object, "a");
        let made = made.map(|made| made.pointer(IMAGE).unwrap().as_str().unwrap().to_owned());
        assert_eq!(
            made.map_err(|failure| failure.fault.message),
            expected.map_err(str::to_owned),
            "{image} {component} {operator}"
        );
    }
}

#[test]
fn images_are_those_of_all_containers_or_the_one_that_is_pointed_at() {
    let replace = json!({ "component": "Tag", "operator": "replace", "value": "v2" });
    assert_eq!(
        at(json!({ "imageOverrider": [replace] }), "/spec/template/spec/containers/1/image"),
        "side:v2"
    );
    assert_eq!(
        at(json!({ "imageOverrider": [replace] }), "/spec/template/spec/initContainers/0/image"),
        "docker.io/shop/init:v1",
        "as in Karmada"
    );
    let mut pointed = replace.clone();
    pointed["predicate"] = json!({ "path": "/spec/template/spec/initContainers/0/image" });
    assert_eq!(
        at(json!({ "imageOverrider": [pointed] }), "/spec/template/spec/initContainers/0/image"),
        "docker.io/shop/init:v2"
    );
    assert_eq!(at(json!({ "imageOverrider": [pointed] }), IMAGE), "docker.io/shop/web:v1");

    let service =
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "shop" } });
    let made = apply(&[("shop/a", rule(json!({ "imageOverrider": [replace] })))], &service, "a").unwrap();
    assert_eq!(made, service, "a kind without containers has no images");
}
