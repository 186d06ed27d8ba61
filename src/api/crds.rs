//! The CustomResourceDefinitions, made from the wire types.
//!
//! [`definitions`] gives those of the hub or of a member, by group and name; [`yaml`] writes one.
//! They are committed under `charts/`; `cargo run -- crds --write` renews them.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
        CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
        CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps, JSONSchemaPropsOrArray,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterSpec, ClusterStatus},
    mcs::{
        self, ServiceExport, ServiceExportSpec, ServiceExportStatus, ServiceImport, ServiceImportSpec,
        ServiceImportStatus,
    },
    names,
    overrides::{ClusterOverridePolicy, OverridePolicy, OverrideSpec},
    propagation::{ClusterPropagationPolicy, PolicyStatus, PropagationPolicy, PropagationSpec},
    schema,
};

/// The release of the Multi-Cluster Services API whose schemas ours are.
pub const MCS_RELEASE: &str = "v0.5.2";
/// The revision of its schemas, which installers compare so that nobody goes back.
pub const MCS_SCHEMA_REVISION: &str = "0";

/// Where definitions are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// The hub: all of them.
    Hub,
    /// A member: those of the Multi-Cluster Services API.
    Member,
}

/// What a definition says besides its schema.
struct About {
    description: &'static str,
    scope: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    /// Name, type, JSON path and priority (above 0: only shown by `-o wide`).
    columns: &'static [(&'static str, &'static str, &'static str, i32)],
    /// Whether an object must have a spec.
    spec_required: bool,
}

const AGE: (&str, &str, &str, i32) = ("Age", "date", ".metadata.creationTimestamp", 0);
// Karmada writes its columns in capitals. This one and the status behind it are ours: its policies tell nothing.
const POLICY_MATCHED: (&str, &str, &str, i32) = ("MATCHED", "integer", ".status.matched", 0);
const POLICY_AGE: (&str, &str, &str, i32) = ("AGE", "date", ".metadata.creationTimestamp", 0);

/// The definitions of a role, in the order of group and name.
pub fn definitions(role: Role) -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![service_export(), service_import()];
    if role == Role::Hub {
        definitions.extend([
            propagation_policy::<PropagationPolicy>("Namespaced", &["pp"], PROPAGATION),
            propagation_policy::<ClusterPropagationPolicy>("Cluster", &["cpp"], CLUSTER_PROPAGATION),
            override_policy::<OverridePolicy>("Namespaced", &["op"], OVERRIDE),
            override_policy::<ClusterOverridePolicy>("Cluster", &["cop"], CLUSTER_OVERRIDE),
            cluster(),
        ]);
    }
    let key = |d: &CustomResourceDefinition| (d.spec.group.clone(), d.spec.names.plural.clone());
    definitions.sort_by_key(key);
    definitions
}

/// One definition as a YAML document, the same bytes every time.
pub fn yaml(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(definition)?;
    whole_numbers(&mut value);
    let body = serde_saphyr::to_string(&value)?;
    Ok(format!("---\n# Made from src/api by `cargo run -- crds --write`.\n{body}"))
}

/// Bounds are floats in Rust; API servers give them back as `1`, and tools that compare would see a change in `1.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The path of every field of a kind's spec, `[]` standing for the items of a list. None for other kinds.
pub fn spec_fields(kind: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let definition = definitions(Role::Hub).into_iter().find(|definition| definition.spec.names.kind == kind);
    let stored = definition.and_then(|d| d.spec.versions.into_iter().find(|version| version.storage));
    let schema = stored.and_then(|version| version.schema?.open_api_v3_schema);
    if let Some(spec) = schema.and_then(|schema| schema.properties?.remove("spec")) {
        walk(&spec, "spec", &mut fields);
    }
    fields
}

fn walk(schema: &JSONSchemaProps, path: &str, fields: &mut Vec<String>) {
    for (name, schema) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        fields.push(path.clone());
        walk(schema, &path, fields);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        walk(items, &format!("{path}[]"), fields);
    }
}

// === the kinds ===

fn service_export() -> CustomResourceDefinition {
    of_mcs::<ServiceExport, ServiceExportSpec, ServiceExportStatus>(&About {
        description: "Asks that the Service of the same name be offered to the other clusters.",
        scope: "Namespaced",
        short_names: &["svcex", "svcexport"],
        categories: &[],
        columns: &[AGE],
        spec_required: false,
    })
}

fn service_import() -> CustomResourceDefinition {
    of_mcs::<ServiceImport, ServiceImportSpec, ServiceImportStatus>(&About {
        description: "A Service of other clusters, as it is served in this one.",
        scope: "Namespaced",
        short_names: &["svcim", "svcimport"],
        categories: &[],
        columns: &[("Type", "string", ".spec.type", 0), ("IP", "string", ".spec.ips", 0), AGE],
        spec_required: false,
    })
}

const PROPAGATION: &str = "Sends objects of its own namespace to clusters.";
const CLUSTER_PROPAGATION: &str = "Sends objects of any namespace, and of none, to clusters.";
const OVERRIDE: &str = "Changes copies of objects of its own namespace, cluster by cluster.";
const CLUSTER_OVERRIDE: &str = "Changes copies of objects of any namespace, and of none, cluster by cluster.";

fn propagation_policy<K: Resource<DynamicType = ()>>(
    scope: &'static str,
    short_names: &'static [&'static str],
    description: &'static str,
) -> CustomResourceDefinition {
    of::<K, PropagationSpec, PolicyStatus>(&About {
        description,
        scope,
        short_names,
        categories: &["karmada-io"],
        columns: &[
            ("CONFLICT-RESOLUTION", "string", ".spec.conflictResolution", 0),
            ("PRIORITY", "string", ".spec.priority", 0),
            POLICY_MATCHED,
            POLICY_AGE,
        ],
        spec_required: true,
    })
}

fn override_policy<K: Resource<DynamicType = ()>>(
    scope: &'static str,
    short_names: &'static [&'static str],
    description: &'static str,
) -> CustomResourceDefinition {
    of::<K, OverrideSpec, PolicyStatus>(&About {
        description,
        scope,
        short_names,
        categories: &["karmada-io"],
        columns: &[POLICY_MATCHED, POLICY_AGE],
        spec_required: true,
    })
}

/// In Karmada an aggregated API: what its code checks, such as enums and quantities, the schema checks here. Conditions
/// are a map by type, so that several writers can apply theirs.
fn cluster() -> CustomResourceDefinition {
    of::<Cluster, ClusterSpec, ClusterStatus>(&About {
        description: "A member cluster.",
        scope: "Cluster",
        short_names: &[],
        categories: &[],
        columns: &[
            ("Version", "string", ".status.kubernetesVersion", 0),
            ("Mode", "string", ".spec.syncMode", 0),
            ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", 0),
            AGE,
            ("Zones", "string", ".spec.zones", 1),
            ("Region", "string", ".spec.region", 1),
            ("Provider", "string", ".spec.provider", 1),
            ("API-Endpoint", "string", ".spec.apiEndpoint", 1),
            ("Proxy-URL", "string", ".spec.proxyURL", 1),
        ],
        spec_required: true,
    })
}

// === how they are made ===

/// A definition with the one version that its kind has.
fn of<K: Resource<DynamicType = ()>, S: JsonSchema, T: JsonSchema>(
    about: &About,
) -> CustomResourceDefinition {
    let version = version::<S, T>(about, &K::version(&()), true);
    assemble::<K>(about, &(), vec![version])
}

/// A definition of the Multi-Cluster Services API: both versions, with upstream's labels.
fn of_mcs<K: Resource<DynamicType = mcs::Version>, S: JsonSchema, T: JsonSchema>(
    about: &About,
) -> CustomResourceDefinition {
    let stored = mcs::Version::default();
    let versions = [mcs::Version::V1Alpha1, mcs::Version::V1Beta1]
        .map(|served| version::<S, T>(about, served.name(), served == stored));
    let mut definition = assemble::<K>(about, &stored, versions.into());
    definition.metadata.labels = Some(
        [(names::mcs::RELEASE_VERSION, MCS_RELEASE), (names::mcs::SCHEMA_REVISION, MCS_SCHEMA_REVISION)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    definition
}

fn assemble<K: Resource>(
    about: &About,
    dynamic: &K::DynamicType,
    versions: Vec<CustomResourceDefinitionVersion>,
) -> CustomResourceDefinition {
    let kind = K::kind(dynamic).into_owned();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", K::plural(dynamic), K::group(dynamic))),
            ..Default::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: K::group(dynamic).into_owned(),
            names: CustomResourceDefinitionNames {
                categories: Some(owned(about.categories)).filter(|words| !words.is_empty()),
                list_kind: Some(format!("{kind}List")),
                plural: K::plural(dynamic).into_owned(),
                short_names: Some(owned(about.short_names)).filter(|words| !words.is_empty()),
                singular: Some(kind.to_ascii_lowercase()),
                kind,
            },
            scope: about.scope.to_owned(),
            versions,
            ..Default::default()
        },
        status: None,
    }
}

fn version<S: JsonSchema, T: JsonSchema>(
    about: &About,
    name: &str,
    storage: bool,
) -> CustomResourceDefinitionVersion {
    let columns = about.columns.iter().map(|(name, type_, path, priority)| CustomResourceColumnDefinition {
        json_path: (*path).to_owned(),
        name: (*name).to_owned(),
        priority: Some(*priority).filter(|priority| *priority > 0),
        type_: (*type_).to_owned(),
        ..Default::default()
    });
    CustomResourceDefinitionVersion {
        additional_printer_columns: Some(columns.collect()),
        name: name.to_owned(),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(root::<S, T>(about)) }),
        served: true,
        storage,
        subresources: Some(CustomResourceSubresources {
            scale: None,
            status: Some(CustomResourceSubresourceStatus(json!({}))),
        }),
        ..Default::default()
    }
}

/// The schema of a whole object. `apiVersion`, `kind` and `metadata` are the API server's; it wants them named.
fn root<S: JsonSchema, T: JsonSchema>(about: &About) -> JSONSchemaProps {
    let mut root = json!({
        "type": "object",
        "description": about.description,
        "properties": {
            "apiVersion": { "type": "string", "description": "Group and version of the kind." },
            "kind": { "type": "string", "description": "The kind." },
            "metadata": { "type": "object" },
            "spec": schema::structural::<S>(),
            "status": schema::structural::<T>(),
        },
    });
    if about.spec_required {
        root["required"] = Value::from(["spec"].as_slice());
    }
    serde_json::from_value(root).expect("a schema made of Rust types is a schema of Kubernetes")
}
