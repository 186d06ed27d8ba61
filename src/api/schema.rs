//! Schemas of Kubernetes' own types inside ours, and what makes a schema fit for a CustomResourceDefinition.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

/// A list of conditions, one of each type.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One thing that is so, is not so, or is not known.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Since when the status is what it is.",
                },
                "message": { "type": "string", "maxLength": 32768, "description": "The same for people; may be empty." },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The generation of the object that this speaks of.",
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, in a word.",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                    "description": "Whether it is so.",
                },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE,
                    "description": "What it is about.",
                },
            },
        },
    })
}

const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A label selector.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that must be there with these values.",
                "additionalProperties": { "type": "string" },
            },
            "matchExpressions": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "description": "Conditions that must all hold.",
                "items": requirement("A label's key.", "In, NotIn, Exists or DoesNotExist."),
            },
        },
    })
}

/// Conditions on a cluster's fields.
pub(super) fn node_selector_requirements(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": requirement("The field: provider, region or zone.", "In or NotIn."),
    })
}

fn requirement(key: &str, operator: &str) -> Schema {
    json_schema!({
        "type": "object",
        "description": "A condition.",
        "required": ["key", "operator"],
        "properties": {
            "key": { "type": "string", "description": key },
            "operator": { "type": "string", "description": operator },
            "values": {
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "description": "The values that In and NotIn speak of.",
                "items": { "type": "string" },
            },
        },
    })
}

/// A list of tolerations.
pub(super) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "Taints that do not matter: those that agree in all that is given.",
            "properties": {
                "key": { "type": "string", "description": "The taint's key; any when absent." },
                "operator": { "type": "string", "description": "Equal, or Exists for any value; Equal when absent." },
                "value": { "type": "string", "description": "The taint's value." },
                "effect": { "type": "string", "description": "NoSchedule, PreferNoSchedule or NoExecute; any when absent." },
                "tolerationSeconds": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Of NoExecute, for how long; for ever when absent.",
                },
            },
        },
    })
}

/// A list of taints.
pub(super) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "description": "Keeps away what does not tolerate it.",
            "required": ["effect", "key"],
            "properties": {
                "key": { "type": "string", "description": "The taint's key." },
                "value": { "type": "string", "description": "The taint's value." },
                "effect": {
                    "type": "string",
                    "enum": ["NoExecute", "NoSchedule", "PreferNoSchedule"],
                    "description": "What it does to those that do not tolerate it.",
                },
                "timeAdded": { "type": "string", "format": "date-time", "description": "Since when." },
            },
        },
    })
}

/// An amount, such as `500m` or `4Gi`.
pub(super) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    })
}

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Amounts by resource.
pub(super) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": quantity(generator) })
}

/// Any value at all.
pub(super) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Go's `int` has no format.
pub(super) fn without_format(schema: &mut Schema) {
    schema.remove("format");
}

/// Kubernetes knows no unsigned format.
pub(super) fn int32_from_zero(schema: &mut Schema) {
    schema.insert("format".to_owned(), "int32".into());
    schema.insert("minimum".to_owned(), 0.into());
}

/// The schema of a type as a CustomResourceDefinition takes it: one tree, no references, no choices.
pub(super) fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms.clear();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// Turns what schemars makes of Rust types into what Kubernetes makes of Go's, all the way down.
fn tidy(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.remove("title");
    // An absent field is `None`. A `null` is a mistake that the API server is to catch, as upstream's schemas have it.
    if let Some(Value::Array(types)) = schema.get("type") {
        let one = types.iter().find(|t| *t != "null").cloned();
        schema.extend(one.map(|one| ("type".to_owned(), one)));
    }
    if schema.get("x-kubernetes-int-or-string").is_none() {
        choose(schema);
    }
    if let Some(value) = schema.remove("const") {
        schema.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    for below in ["items", "additionalProperties"] {
        schema.get_mut(below).map(tidy);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
}

/// Resolves a choice: of a type and `null` the type, of several words an enum.
fn choose(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.remove("oneOf").or_else(|| schema.remove("anyOf")) else {
        return;
    };
    let mut words = Vec::new();
    for choice in choices {
        let Value::Object(mut choice) = choice else { continue };
        if choice.get("type").is_some_and(|t| t == "null") {
            continue;
        }
        choose(&mut choice);
        match (choice.remove("const"), choice.remove("enum")) {
            (Some(word), _) => words.push(word),
            (None, Some(Value::Array(more))) => words.extend(more),
            _ => {
                // What the field says of itself goes before what its type says.
                choice.retain(|key, _| !schema.contains_key(key));
                schema.extend(choice);
            }
        }
    }
    if !words.is_empty() {
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), Value::Array(words));
    }
}
