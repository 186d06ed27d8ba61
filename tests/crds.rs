//! The generated files are those that the types make, and API servers can take them.

use std::{fs, path::Path, process::Command};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use tombolo::{
    api::crds::{Role, definitions},
    cli::crds::{files, leftovers, stream},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const RENEW: &str = "renew the generated files: cargo run -- crds --write";

#[test]
fn the_generated_files_are_current() {
    for (path, wanted) in files().unwrap() {
        let found = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap_or_default();
        assert!(found == wanted, "{} is stale; {RENEW}", path.display());
    }
    assert_eq!(
        leftovers(Path::new(ROOT)).unwrap(),
        [] as [&Path; 0],
        "nothing makes these any more; {RENEW}"
    );
}

#[test]
fn the_command_prints_what_the_charts_hold() {
    for (role, chart, count) in [("hub", "tombolo-hub", 7), ("member", "tombolo-agent", 2)] {
        let printed =
            Command::new(env!("CARGO_BIN_EXE_tombolo")).args(["crds", "--for", role]).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let folder = fs::read_dir(format!("{ROOT}/charts/{chart}/crds")).unwrap();
        let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert_eq!(paths.len(), count);
        let held: String = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), held);
    }
}

#[test]
fn writing_twice_gives_the_same_bytes_and_yaml_that_reads_as_it_was() {
    assert_eq!(stream(Role::Hub).unwrap(), stream(Role::Hub).unwrap());
    let read: Vec<CustomResourceDefinition> =
        serde_saphyr::from_multiple(&stream(Role::Hub).unwrap()).unwrap();
    assert_eq!(read, definitions(Role::Hub));
}

#[test]
fn write_renews_what_is_stale_and_removes_what_is_left_over() {
    let checkout = Path::new(env!("CARGO_TARGET_TMPDIR")).join("checkout");
    let _ = fs::remove_dir_all(&checkout);
    let write = || {
        Command::new(env!("CARGO_BIN_EXE_tombolo")).args(["crds", "--write"]).arg(&checkout).output().unwrap()
    };
    fs::create_dir_all(&checkout).unwrap();
    let refused = write();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is no checkout of Tombolo"));

    let crds = checkout.join("charts/tombolo-agent/crds");
    for folder in [&checkout.join("src/api"), &crds] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(checkout.join("src/api/crds.rs"), "").unwrap();
    fs::write(crds.join("old.yaml"), "").unwrap();
    fs::write(crds.join("multicluster.x-k8s.io_serviceexports.yaml"), "stale").unwrap();
    let written = write();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    assert!(!crds.join("old.yaml").exists());
    for (path, wanted) in files().unwrap() {
        assert_eq!(fs::read_to_string(checkout.join(path)).unwrap(), wanted);
    }
}

#[test]
fn schemas_are_structural_take_no_nulls_and_explain_every_field() {
    for definition in definitions(Role::Hub) {
        for version in &definition.spec.versions {
            let schema = version.schema.as_ref().and_then(|s| s.open_api_v3_schema.as_ref()).unwrap();
            check(schema, &format!("{} {}", definition.spec.names.kind, version.name));
        }
    }
}

#[test]
fn both_versions_of_the_services_api_have_one_schema_and_the_newer_is_stored() {
    let definitions = definitions(Role::Member);
    assert_eq!(definitions.len(), 2);
    for definition in definitions {
        let [older, newer] = definition.spec.versions.try_into().unwrap();
        assert_eq!((older.name.as_str(), older.served, older.storage), ("v1alpha1", true, false));
        assert_eq!((newer.name.as_str(), newer.served, newer.storage), ("v1beta1", true, true));
        assert_eq!(older.schema, newer.schema);
        let labels = definition.metadata.labels.unwrap();
        assert_eq!(labels["multicluster.x-k8s.io/release-version"], "v0.5.2");
        assert_eq!(labels["multicluster.x-k8s.io/crd-schema-revision"], "0");
    }
}

fn check(schema: &JSONSchemaProps, path: &str) {
    let int_or_string = schema.x_kubernetes_int_or_string == Some(true);
    let any = schema.x_kubernetes_preserve_unknown_fields == Some(true);
    assert!(schema.type_.is_some() || int_or_string || any, "{path} has no type");
    assert!(schema.nullable.is_none(), "{path} takes null");
    assert!(schema.ref_path.is_none() && schema.title.is_none(), "{path}");
    assert!(schema.one_of.is_none() && schema.all_of.is_none(), "{path} is a choice");
    assert!(schema.any_of.is_none() || int_or_string, "{path} is a choice");
    let fields = schema.properties.iter().flatten();
    for required in schema.required.iter().flatten() {
        assert!(
            fields.clone().any(|(name, _)| name == required),
            "{path} requires {required}, which it has not"
        );
    }
    for (name, field) in fields {
        let path = format!("{path}.{name}");
        assert!(field.description.is_some() || name == "metadata", "{path} is not explained");
        check(field, &path);
    }
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => check(items, &format!("{path}[]")),
        Some(JSONSchemaPropsOrArray::Schemas(_)) => panic!("{path} is a tuple"),
        None => assert!(schema.type_.as_deref() != Some("array"), "{path} is a list of nothing"),
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        check(values, &format!("{path}{{}}"));
    }
}
