//! Overrides inside a string that holds a JSON or YAML document, such as a file in a ConfigMap.

use serde_json::Value;

use super::apply;
use crate::{
    api::overrides::{DocumentPatch, FieldOverrider},
    decide::fault::Shown,
};

/// Changes a document in place. It is written anew: its values stay, comments and layout do not (as in Karmada).
pub(super) fn patch_field(entry: &FieldOverrider, object: &mut Value) -> Result<(), String> {
    let text = apply::string_at(object, &entry.field_path)?;
    let wrong = |format: &str, error: String| {
        let place = Shown(&entry.field_path);
        // A parser's error goes on to quote the document.
        format!("what is at {place} is not {format}: {}", error.lines().next().unwrap_or_default())
    };
    if !entry.yaml.is_empty() {
        let mut document = read_yaml(text).map_err(|error| wrong("YAML", error))?;
        patch_all(&mut document, &entry.yaml)?;
        *text = write_yaml(&document)?;
    } else if !entry.json.is_empty() {
        let mut document = serde_json::from_str(text).map_err(|error| wrong("JSON", error.to_string()))?;
        patch_all(&mut document, &entry.json)?;
        *text = document.to_string();
    }
    Ok(())
}

fn patch_all(document: &mut Value, patches: &[DocumentPatch]) -> Result<(), String> {
    for patch in patches {
        apply::patch(document, &patch.sub_path, &patch.operator, patch.value.as_ref())?;
    }
    Ok(())
}

/// Reads as Kubernetes does: YAML 1.1, where `0644` is octal and `yes` is true.
fn read_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

fn write_yaml(document: &Value) -> Result<String, String> {
    serde_saphyr::to_string(document).map_err(|error| format!("the document cannot be written: {error}"))
}
