//! The objects of files, as kubectl takes them.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    decide::{copy::ObjectKey, select::GroupKind},
    hub::served::{Served, Version},
};

/// How files of a folder end.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Objects as they were written, each with the file that it is from.
#[derive(Debug)]
pub(super) struct Given(Vec<(String, Value)>);

/// An object of a file.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Which object it is.
    pub(super) key: ObjectKey,
    /// The object.
    pub(super) object: Value,
    /// How it is reached; none if the hub does not serve its kind.
    pub(super) version: Option<Version>,
}

// === impl Given ===

impl Given {
    /// Reads all files.
    pub(super) fn read(files: &[PathBuf], recursive: bool) -> Result<Self> {
        let mut given = Self(Vec::new());
        for file in files {
            if file == Path::new("-") {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
                given.add("standard input", &text)?;
            } else if file.is_dir() {
                given.folder(file, recursive)?;
            } else {
                given.file(file)?;
            }
        }
        ensure!(!given.0.is_empty(), "-f: there is no object in it");
        Ok(given)
    }

    fn file(&mut self, file: &Path) -> Result<()> {
        let text =
            fs::read_to_string(file).with_context(|| format!("-f: failed to read {}", file.display()))?;
        self.add(&file.display().to_string(), &text)
    }

    /// The files of a folder by name, as kubectl takes them.
    fn folder(&mut self, folder: &Path, recursive: bool) -> Result<()> {
        let failed = || format!("-f: failed to read {}", folder.display());
        let entries = fs::read_dir(folder).with_context(failed)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
        let mut paths = paths.with_context(failed)?;
        paths.sort();
        for path in paths {
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                if recursive {
                    self.folder(&path, true)?;
                }
            } else if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, from: &str, text: &str) -> Result<()> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).with_context(|| format!("{from} is neither YAML nor JSON"))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            // A List stands for what is in it.
            let items = document.get("items").and_then(Value::as_array).cloned();
            let list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
            match items.filter(|_| list) {
                Some(items) => self.0.extend(items.into_iter().map(|item| (from.to_owned(), item))),
                None => self.0.push((from.to_owned(), document)),
            }
        }
        Ok(())
    }

    /// The objects, each in its namespace: that which it names, the one asked for, or the context's own.
    pub(super) fn documents(&self, served: &Served, asked: Option<&str>, own: &str) -> Result<Vec<Document>> {
        self.0.iter().map(|(from, object)| self.document(from, object, served, asked, own)).collect()
    }

    fn document(
        &self,
        from: &str,
        object: &Value,
        served: &Served,
        asked: Option<&str>,
        own: &str,
    ) -> Result<Document> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        ensure!(
            !api_version.is_empty() && !kind.is_empty(),
            "{from}: an object has no apiVersion or no kind"
        );
        ensure!(!name.is_empty(), "{from}: a {kind} has no metadata.name, so it cannot be applied");
        let kind = GroupKind::new(api_version, kind);
        let version = served.version(&kind, api_version).cloned();
        let namespaced = version.as_ref().map(|version| version.namespaced);
        let wide = || self.0.iter().any(|(_, other)| defines_wide(other, &kind));
        let namespaced = namespaced.unwrap_or_else(|| !wide());
        let mut object = object.clone();
        match (namespaced, text("/metadata/namespace"), asked) {
            (true, "", _) => object["metadata"]["namespace"] = asked.unwrap_or(own).into(),
            (true, named, Some(asked)) if named != asked => bail!(
                "{from}: {} {name} is in namespace {named}, which is not that of -n {asked}; leave out either",
                kind.kind
            ),
            (false, named, _) if !named.is_empty() => {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("namespace");
                }
            }
            _ => {}
        }
        let key = ObjectKey::of(&object).context("an object has a kind and a name")?;
        Ok(Document { key, object, version })
    }
}

/// Whether an object defines a kind of the whole cluster.
fn defines_wide(object: &Value, kind: &GroupKind) -> bool {
    object["kind"] == "CustomResourceDefinition"
        && object.pointer("/spec/group").is_some_and(|group| *group == *kind.group)
        && object.pointer("/spec/names/kind").is_some_and(|name| *name == *kind.kind)
        && object.pointer("/spec/scope").is_some_and(|scope| scope == "Cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, asked: Option<&str>) -> Result<Vec<String>> {
        let mut given = Given(Vec::new());
        given.add("file", text)?;
        let documents = given.documents(&Served::default(), asked, "own")?;
        Ok(documents.iter().map(|document| document.key.to_string()).collect())
    }

    #[test]
    fn several_documents_and_lists_are_taken_in_order_and_get_a_namespace() {
        let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two, namespace: shop}}
- {apiVersion: v1, kind: Secret, metadata: {name: three}}
";
        let found = names(text, None).unwrap();
        assert_eq!(found, ["ConfigMap own/one", "ConfigMap shop/two", "Secret own/three"]);
        let other = names(text, Some("asked")).unwrap_err().to_string();
        assert!(
            other.contains("ConfigMap two is in namespace shop, which is not that of -n asked"),
            "{other}"
        );
    }

    #[test]
    fn what_is_no_object_is_said() {
        assert!(names("{a: 1}", None).unwrap_err().to_string().contains("no apiVersion"));
        let nameless = names("{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x}}", None);
        assert!(nameless.unwrap_err().to_string().contains("no metadata.name"));
        assert!(names("a: b: c", None).unwrap_err().to_string().contains("neither YAML nor JSON"));
    }

    #[test]
    fn a_kind_that_the_file_itself_defines_has_the_scope_that_it_says() {
        let text = "
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x.example.com},
 spec: {group: example.com, scope: Cluster, names: {kind: X}}}
---
{apiVersion: example.com/v1, kind: X, metadata: {name: one}}
";
        assert_eq!(names(text, None).unwrap()[1], "X.example.com one");
    }
}
