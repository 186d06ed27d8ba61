use std::collections::BTreeMap;

use crate::{api::names::annotation, decide::copy::*};

use super::{key, origin};

fn asked(text: &str, object: &ObjectKey) -> Ownership {
    ownership(&BTreeMap::from([(annotation::ORIGIN.to_owned(), text.to_owned())]), object, "hub-1")
}

fn serve() -> ObjectKey {
    key("apps/v1", "Deployment", "shop", "serve")
}

#[test]
fn an_origin_is_written_in_one_way_and_read_back() {
    let origin = Origin { crd: Some("crd-1".into()), ..origin(key("x.dev/v1", "Toy", "shop", "a\"b")) };
    assert_eq!(
        origin.text(),
        r#"{"format":1,"hub":"hub-1","template":"uid-1","crd":"crd-1","group":"x.dev","kind":"Toy","namespace":"shop","name":"a\"b"}"#
    );
    assert_eq!(asked(&origin.text(), &origin.object), Ownership::Ours(origin));
}

#[test]
fn an_origin_without_a_crd_does_not_speak_of_one() {
    let origin = origin(key("v1", "Namespace", "", "shop"));
    assert_eq!(
        origin.text(),
        r#"{"format":1,"hub":"hub-1","template":"uid-1","group":"","kind":"Namespace","namespace":"","name":"shop"}"#
    );
    assert_eq!(asked(&origin.text(), &origin.object), Ownership::Ours(origin));
}

#[test]
fn an_object_without_an_origin_is_nobodys() {
    assert_eq!(ownership(&BTreeMap::new(), &serve(), "hub-1"), Ownership::None);
}

#[test]
fn an_origin_that_speaks_of_another_object_proves_nothing() {
    let text = origin(serve()).text();
    for clone in [
        key("apps/v1", "Deployment", "shop", "serve2"),
        key("apps/v1", "Deployment", "test", "serve"),
        key("apps/v1", "ReplicaSet", "shop", "serve"),
        key("x.dev/v1", "Deployment", "shop", "serve"),
    ] {
        assert_eq!(asked(&text, &clone), Ownership::None, "{clone}");
    }
    // Whatever hub it is of.
    let other = text.replace("hub-1", "hub-2");
    assert_eq!(asked(&other, &key("apps/v1", "Deployment", "shop", "serve2")), Ownership::None);
}

#[test]
fn a_copy_in_another_version_of_its_kind_is_the_same_object() {
    let text = origin(key("apps/v1beta1", "Deployment", "shop", "serve")).text();
    assert_eq!(asked(&text, &serve()), Ownership::Ours(origin(serve())));
}

#[test]
fn a_copy_of_another_hub_says_whose_it_is() {
    let text = origin(serve()).text().replace("hub-1", "hub-2");
    assert_eq!(asked(&text, &serve()), Ownership::OtherHub("hub-2".into()));
}

#[test]
fn what_is_of_a_format_that_is_not_known_is_neither_ours_nor_free() {
    for format in ["2", "0", "-1", "1.5", "18446744073709551615"] {
        let text = origin(serve()).text().replace("\"format\":1", &format!("\"format\":{format}"));
        assert_eq!(asked(&text, &serve()), Ownership::Newer, "{text}");
    }
    assert_eq!(asked(r#"{"format":2}"#, &serve()), Ownership::Newer);
}

#[test]
fn garbage_proves_nothing() {
    for text in
        ["", "true", "{}", r#"{"format":"1"}"#, r#"{"format":1}"#, r#"{"format":1,"hub":"hub-1"}"#, "{"]
    {
        assert_eq!(asked(text, &serve()), Ownership::None, "{text}");
    }
}

#[test]
fn a_field_that_came_later_in_the_same_format_does_not_matter() {
    let text = origin(serve()).text().replace("\"format\":1", "\"format\":1,\"more\":[]");
    assert_eq!(asked(&text, &serve()), Ownership::Ours(origin(serve())));
}
