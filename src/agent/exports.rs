//! Exports: whether each is valid, the record of its Service beside it, and its source slices.

use futures::future::join;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::{
    Agent, note_change,
    reconcile::{Exported, Look, Sight},
    versioned::Versioned,
};
use crate::{
    api::{
        ServiceExport,
        mcs::{GROUP, Version},
        names::annotation,
    },
    decide::{
        agent::{
            export::{judge, valid},
            slices::sources,
        },
        condition::Verdict,
        definition::Definition,
        ids::ServiceKey,
        record,
    },
    shell::clock,
};

// === impl Agent ===

impl Agent {
    /// Sees to an export, and says what is exported, and whether all of it could be written.
    pub(super) async fn export(&self, key: &ServiceKey, look: &Look) -> (Exported, kube::Result<()>) {
        let export = match &look.export {
            Sight::Unknown => return (Exported::Unknown, Ok(())),
            Sight::Absent => {
                return match self.withdraw(key, look).await {
                    Ok(exported) => (exported, Ok(())),
                    Err(e) => (Exported::Unknown, Err(e)),
                };
            }
            Sight::There(export) => export,
        };
        if let Some(definition) = &*self.definitions.exports.borrow() {
            self.exported_under.lock().insert(key.clone(), definition.uid.clone());
        }
        let ours = look.sources(key);
        if export.metadata.deletion_timestamp.is_some() {
            return (Exported::Nothing, self.write_slices(Vec::new(), &ours).await);
        }
        match judge(key, look.service.as_deref()) {
            Ok(service) => {
                let wanted = sources(key, &service, look.originals(key), self.most);
                let record = record::write(&service);
                let told = self.tell(export, Some(&record), valid(&service));
                // Neither cuts the other off: a request that was sent is waited for.
                let (told, written) = join(told, self.write_sources(key, wanted.clone(), &ours)).await;
                (Exported::Something(service, wanted), told.and(written))
            }
            Err(verdict) => {
                let told = self.tell(export, None, verdict);
                let (told, written) = join(told, self.write_slices(Vec::new(), &ours)).await;
                (Exported::Nothing, told.and(written))
            }
        }
    }

    /// Removes the source slices of an export that is gone, if it is: not because a definition went and took all exports along.
    async fn withdraw(&self, key: &ServiceKey, look: &Look) -> kube::Result<Exported> {
        let ours = look.sources(key);
        if ours.is_empty() {
            self.exported_under.lock().remove(key);
            return Ok(Exported::Nothing);
        }
        let before = self.exported_under.lock().get(key).cloned();
        let Some(definition) = self.live_definition::<ServiceExport>().await? else {
            return Ok(Exported::Unknown);
        };
        let api = Versioned::<ServiceExport>::new(&self.reader, key.namespace.as_str(), definition.version);
        // Whoever starts after the kind was made anew sees that its slices are older.
        let another = before.map_or_else(
            || ours.iter().any(|slice| definition.is_younger_than(&slice.metadata)),
            |before| before != definition.uid,
        );
        if another || api.has(key.name.as_str()).await? {
            return Ok(Exported::Unknown);
        }
        self.write_slices(Vec::new(), &ours).await?;
        self.exported_under.lock().remove(key);
        Ok(Exported::Nothing)
    }

    /// The definition of a kind, read live, if it is there to stay.
    pub(super) async fn live_definition<K: Resource<DynamicType = Version>>(
        &self,
    ) -> kube::Result<Option<Definition>> {
        let api: Api<CustomResourceDefinition> = Api::all(self.reader.clone());
        let found = api.get_opt(&format!("{}.{GROUP}", K::plural(&Version::default()))).await?;
        Ok(found.as_ref().and_then(Definition::of).filter(|definition| definition.usable))
    }

    /// Writes record and condition, each only if it says something new. Both name the export by its UID: one that was deleted
    /// meanwhile stays deleted.
    async fn tell(&self, export: &ServiceExport, record: Option<&str>, verdict: Verdict) -> kube::Result<()> {
        let (namespace, name) = (export.namespace().unwrap_or_default(), export.name_any());
        let api = Versioned::new(&self.writer, &namespace, export.version);
        let head = json!({
            "apiVersion": ServiceExport::api_version(&export.version), "kind": "ServiceExport",
            "metadata": { "name": name, "namespace": namespace, "uid": export.metadata.uid },
        });
        let there = export.annotations().get(annotation::EXPORT_RECORD).map(String::as_str);
        if there != record {
            let written = match record {
                Some(record) => {
                    let mut apply = head.clone();
                    apply["metadata"]["annotations"] = json!({ annotation::EXPORT_RECORD: record });
                    api.apply(&name, apply).await?
                }
                // Whoever wrote it: what is withdrawn must not be read any more.
                None => {
                    let patch = json!({ "metadata": {
                        "uid": export.metadata.uid, "resourceVersion": export.metadata.resource_version,
                        "annotations": { annotation::EXPORT_RECORD: null },
                    } });
                    api.merge(&name, patch).await?
                }
            };
            self.wrote_export(written);
        }
        let conditions =
            export.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        if let Some(condition) = verdict.written(conditions, None, clock::now()) {
            let mut apply = head;
            apply["status"] = json!({ "conditions": [condition] });
            let written = api.apply_status(&name, apply).await?;
            self.wrote_export(written);
        }
        Ok(())
    }

    fn wrote_export(&self, written: ServiceExport) {
        note_change(&written, "a ServiceExport is answered");
        self.metrics.wrote("serviceexports");
        self.take_answer(|seen| &mut seen.exports, written);
    }
}
