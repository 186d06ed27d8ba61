//! What admission fills in, and that it is the same however an object is written.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};
use tombolo_e2e::{bed::Bed, process};

use crate::said::{AT_ONCE, clusters, run, stored};

/// An object as it is written, and its spec as it is stored.
struct Row {
    api_version: &'static str,
    kind: &'static str,
    namespaced: bool,
    written: Value,
    stored: Value,
}

/// The ways to write an object with kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Create,
    Apply,
    ServerSide,
    Edit,
    Patch,
}

pub(crate) async fn the_same_is_filled_in_whichever_way_it_is_written_and_nothing_more(
    bed: Arc<Bed>,
) -> Result<()> {
    clusters(&bed).await?;
    let mut rows = Vec::new();
    for way in [Way::Create, Way::Apply, Way::ServerSide, Way::Edit, Way::Patch] {
        let namespace = format!("filled-in-by-{}", way.name());
        run(&bed, &["create", "namespace", &namespace], "").await?;
        let numbered = self::rows(&namespace).into_iter().enumerate();
        rows.extend(
            numbered
                .map(|(number, row)| (row, way, namespace.clone(), format!("row{number}-{}", way.name()))),
        );
    }
    let bed = &*bed;
    let checks = stream::iter(rows).map(async |(row, way, namespace, name)| {
        row.check(bed, way, &namespace, &name)
            .await
            .with_context(|| format!("{way:?} of {} {name}", row.kind))
    });
    checks.buffer_unordered(AT_ONCE).try_collect().await
}

/// Every default, where it is open and where it is not. What the schema itself fills in is in `by_schema`.
fn rows(namespace: &str) -> Vec<Row> {
    let row = |api_version, kind: &'static str, written, stored| {
        let namespaced = !kind.starts_with("Cluster");
        Row { api_version, kind, namespaced, written, stored }
    };
    let (alpha, beta) = ("multicluster.x-k8s.io/v1alpha1", "multicluster.x-k8s.io/v1beta1");
    let (policy, cluster) = ("policy.karmada.io/v1alpha1", "cluster.karmada.io/v1alpha1");
    let selector = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a" });
    let own_selector =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": namespace });
    let by_schema = |mut spec: Value| {
        for (field, value) in [
            ("priority", json!(0)),
            ("preemption", json!("Never")),
            ("schedulerName", json!("default-scheduler")),
        ] {
            spec[field] = value;
        }
        spec
    };
    let rules =
        json!([{ "overriders": { "labelsOverrider": [{ "operator": "add", "value": { "a": "b" } }] } }]);
    let link = |extra: Value| {
        let mut spec = json!({ "apiEndpoint": "https://10.0.0.9:6443", "secretRef": { "namespace": "tombolo-system", "name": "x" } });
        merge(&mut spec, extra);
        spec
    };
    vec![
        row(
            alpha,
            "ServiceImport",
            json!({ "ports": [{ "port": 80 }] }),
            json!({ "type": "ClusterSetIP", "sessionAffinity": "None", "ports": [{ "port": 80, "protocol": "TCP" }] }),
        ),
        row(
            beta,
            "ServiceImport",
            json!({ "sessionAffinity": "ClientIP", "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 53, "protocol": "UDP" }] }),
            json!({
                "type": "ClusterSetIP", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10_800 } },
                "ports": [{ "name": "a", "port": 80, "protocol": "TCP" }, { "name": "b", "port": 53, "protocol": "UDP" }],
            }),
        ),
        row(
            beta,
            "ServiceImport",
            json!({ "type": "Headless", "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } }, "ports": [] }),
            json!({ "type": "Headless", "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } }, "ports": [] }),
        ),
        row(
            beta,
            "ServiceExport",
            json!({ "exportedLabels": { "a": "b" } }),
            json!({ "exportedLabels": { "a": "b" } }),
        ),
        row(
            policy,
            "PropagationPolicy",
            json!({
                "resourceSelectors": [selector],
                "placement": { "spreadConstraints": [{ "spreadByField": "cluster", "maxGroups": 2 }, { "spreadByField": "region", "minGroups": 2 }] },
            }),
            by_schema(json!({
                "resourceSelectors": [own_selector], "conflictResolution": "Abort",
                "placement": { "spreadConstraints": [{ "spreadByField": "cluster", "maxGroups": 2, "minGroups": 1 }, { "spreadByField": "region", "minGroups": 2 }] },
            })),
        ),
        row(
            policy,
            "ClusterPropagationPolicy",
            json!({ "resourceSelectors": [selector], "conflictResolution": "Overwrite" }),
            by_schema(json!({ "resourceSelectors": [selector], "conflictResolution": "Overwrite" })),
        ),
        row(
            policy,
            "OverridePolicy",
            json!({ "resourceSelectors": [selector], "overrideRules": rules }),
            json!({ "resourceSelectors": [own_selector], "overrideRules": rules }),
        ),
        row(
            policy,
            "ClusterOverridePolicy",
            json!({ "resourceSelectors": [selector], "overrideRules": rules }),
            json!({ "resourceSelectors": [selector], "overrideRules": rules }),
        ),
        row(cluster, "Cluster", link(json!({})), link(json!({ "syncMode": "Push" }))),
    ]
}

// === impl Row ===

impl Row {
    /// Writes it, and once more the same way; the second time nothing may change.
    async fn check(&self, bed: &Bed, way: Way, namespace: &str, name: &str) -> Result<()> {
        let first = self.write(bed, way, namespace, name).await?;
        ensure!(first["spec"] == self.stored, "stored is {}\ninstead of    {}", first["spec"], self.stored);
        let annotations = first["metadata"]["annotations"].as_object().into_iter().flatten();
        let annotations: Vec<_> =
            annotations.map(|(key, _)| key).filter(|key| !key.starts_with("kubectl.")).collect();
        ensure!(
            annotations.is_empty() && first["metadata"]["labels"].is_null(),
            "more was added: {}",
            first["metadata"]
        );

        let again = if way == Way::Create {
            run(bed, &["replace", "-f", "-"], &first).await?;
            self.get(bed, namespace, name).await?
        } else {
            self.write(bed, way, namespace, name).await?
        };
        for field in ["resourceVersion", "generation"] {
            let (before, after) = (&first["metadata"][field], &again["metadata"][field]);
            ensure!(before == after, "writing it again changed {field} from {before} to {after}");
        }
        Ok(())
    }

    async fn write(&self, bed: &Bed, way: Way, namespace: &str, name: &str) -> Result<Value> {
        let mut object = json!({
            "apiVersion": self.api_version, "kind": self.kind, "metadata": { "name": name }, "spec": self.written,
        });
        if self.namespaced {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let (kind, scope) = (self.resource(), format!("--namespace={namespace}"));
        match way {
            Way::Create => run(bed, &["create", "-f", "-"], &object).await?,
            Way::Apply => run(bed, &["apply", "-f", "-"], &object).await?,
            Way::ServerSide => run(bed, &["apply", "--server-side", "-f", "-"], &object).await?,
            // These change something that is there: all that was filled in is taken away again.
            Way::Edit | Way::Patch => {
                if self.get(bed, namespace, name).await.is_err() {
                    run(bed, &["create", "-f", "-"], &object).await?;
                }
                if way == Way::Patch {
                    let patch = json!({ "spec": unsetting(&self.stored, &self.written) }).to_string();
                    run(bed, &["patch", "--type=merge", &kind, name, &scope, "-p", &patch], "").await?
                } else {
                    self.edit(bed, &[&kind, name, &scope]).await?
                }
            }
        };
        self.get(bed, namespace, name).await
    }

    async fn get(&self, bed: &Bed, namespace: &str, name: &str) -> Result<Value> {
        stored(bed, &[&self.resource(), name, "--namespace", namespace]).await
    }

    /// The kind as kubectl takes it, with the version that the object is written in.
    fn resource(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap_or_default();
        format!("{}.{version}.{group}", self.kind.to_lowercase())
    }

    /// With an editor that puts the spec back as it was written.
    async fn edit(&self, bed: &Bed, object: &[&str; 3]) -> Result<String> {
        let editor = Editor::new(bed.dir().join(format!("editor-of-{}", object[1])), &self.written)?;
        let mut command = bed.kubectl("hub").command(&[&["edit"], &object[..]].concat());
        command.env("KUBE_EDITOR", &editor.0);
        tokio::task::spawn_blocking(move || process::run(&mut command)).await?
    }
}

// === impl Way ===

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Apply => "apply",
            Self::ServerSide => "server-side",
            Self::Edit => "edit",
            Self::Patch => "patch",
        }
    }
}

/// A script that an editor would be for a person.
struct Editor(PathBuf);

impl Editor {
    fn new(path: PathBuf, spec: &Value) -> Result<Self> {
        // A spec is the last but its status, and JSON is YAML.
        let script =
            format!("#!/bin/sh\nsed -i '/^spec:/,$d' \"$1\"\ncat >> \"$1\" <<'END'\nspec: {spec}\nEND\n");
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self(path))
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The merge patch that makes one object another.
fn unsetting(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let kept = to.iter().map(|(key, to)| (key.clone(), unsetting(from.get(key).unwrap_or(&Value::Null), to)));
    Value::Object(gone.chain(kept).collect::<Map<_, _>>())
}

fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}
