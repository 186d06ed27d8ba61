//! What the hub's own ServiceExports and ServiceImports say: what became of their copies, and the sum of what the clusters say.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::DynamicResourceScope,
};
use kube_runtime::events::{Event, EventType};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Known, PATIENCE, failure, reference};
use crate::{
    api::{
        ServiceExport, ServiceImport, mcs,
        names::{condition, reason},
    },
    decide::{
        condition::Verdict,
        exchange::{self, Said, export_kind, import_kind, object_key},
        ids::{ClusterName, ServiceKey},
        select::GroupKind,
    },
    shell::clock,
};

/// What was said of a service: the conditions of its ServiceExport, and the status of its ServiceImport.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    export: Option<Vec<Said>>,
    import: Option<(Origins, Vec<Said>)>,
}

/// The clusters that an import comes from.
#[derive(Clone, Debug, Default, PartialEq)]
struct Origins {
    known: BTreeSet<ClusterName>,
    /// Those that stay if they are there.
    unknown: BTreeSet<ClusterName>,
}

// === impl Origins ===

impl Origins {
    /// What is to be in place of what was found.
    fn instead_of(&self, found: &[Value]) -> Vec<Value> {
        let found = found.iter().filter_map(|found| found["cluster"].as_str());
        let kept = found.filter(|found| self.unknown.iter().any(|unknown| unknown.as_str() == *found));
        let all: BTreeSet<_> = self.known.iter().map(ClusterName::as_str).chain(kept).collect();
        all.into_iter().map(|name| json!({ "cluster": name })).collect()
    }
}

// === impl Known ===

impl Known<'_> {
    /// Says on a service's ServiceExport and ServiceImport what became of it, where they are and that is news.
    pub(super) async fn tell_service(&self, key: ServiceKey) {
        let Self { engine, .. } = self;
        let Some(told) = self.said_of(&key) else {
            engine.report.state.lock().services.insert(key);
            return;
        };
        {
            let mut state = engine.report.state.lock();
            if state.told.get(&key) == Some(&told) {
                state.failed_services.settle(&key);
                return;
            }
        }
        // Who has the import now is told on its policy too.
        let import = object_key(import_kind(), &key);
        engine.report.touch(engine.look(|world, _| world.assignment(&import)?.policy.clone()));
        let written = tokio::time::timeout(PATIENCE, self.write_service(&key, &told)).await;
        let mut state = engine.report.state.lock();
        if let Some(why) = failure(written) {
            if state.failed_services.fail(key.clone(), Instant::now()) {
                tracing::warn!(service = %key, "failed to write a service's status, trying on ever more seldom: {why}");
            } else {
                tracing::debug!(service = %key, "failed to write a service's status, trying again: {why}");
            }
            return;
        }
        if state.failed_services.settle(&key) {
            tracing::info!(service = %key, "its status can be written again");
        }
        if told == Told::default() {
            state.told.remove(&key);
        } else {
            state.told.insert(key, told);
        }
    }

    /// What is to be said; none if nobody can tell yet.
    fn said_of(&self, key: &ServiceKey) -> Option<Told> {
        let Self { engine, failures, unseen, gone } = self;
        let object = object_key(export_kind(), key);
        let (has_export, has_import, outcome) = engine.look(|world, view| {
            let policy = world.assignment(&object).and_then(|assignment| assignment.policy.as_ref());
            let known = policy.is_none_or(|policy| world.can_tell(view, policy, unseen, gone));
            let outcome = known.then(|| world.outcome_of(view, &object, failures))?;
            Some((view.exports().contains_key(key), view.imports().contains_key(key), outcome))
        })?;
        if !has_export && !has_import {
            return Some(Told::default());
        }
        let summary = engine.summary(key);
        let propagated = outcome.map(|outcome| {
            let verdict = Verdict {
                condition: condition::PROPAGATED,
                met: outcome.propagated,
                reason: outcome.reason.into(),
                message: outcome.message,
            };
            Said { verdict, known: exchange::Known::All }
        });
        // Who has no copy anywhere exports nothing, and nobody has to be told that.
        let export = propagated.map(|propagated| [propagated].into_iter().chain(summary.export).collect());
        let origins = Origins { known: summary.clusters, unknown: summary.unknown };
        Some(Told {
            export: export.filter(|_| has_export),
            import: has_import
                .then(|| (origins, [summary.import].into_iter().chain(summary.typed).collect())),
        })
    }

    async fn write_service(&self, key: &ServiceKey, told: &Told) -> kube::Result<()> {
        if let Some(said) = &told.export {
            self.write_to::<ServiceExport>(key, said, None, |export| {
                export.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
            })
            .await?;
        }
        if let Some((origins, said)) = &told.import {
            self.write_to::<ServiceImport>(key, said, Some(origins), |import| {
                import.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default()
            })
            .await?;
        }
        Ok(())
    }

    /// Writes conditions, and the clusters of an import. Conditions of others stay, and what is not certain takes nothing back.
    async fn write_to<K>(
        &self,
        key: &ServiceKey,
        said: &[Said],
        origins: Option<&Origins>,
        conditions: impl Fn(&K) -> Vec<Condition>,
    ) -> kube::Result<()>
    where
        K: Resource<DynamicType = mcs::Version, Scope = DynamicResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        let version = mcs::Version::default();
        let api: Api<K> = Api::namespaced_with(self.engine.writer.clone(), key.namespace.as_str(), &version);
        let Some(object) = api.get_opt(key.name.as_str()).await? else { return Ok(()) };
        let before = conditions(&object);
        let was = |kind: &str| before.iter().find(|old| old.type_ == kind).map(|old| old.status == "True");
        let news = said.iter().filter(|said| said.is_news(was(said.verdict.condition)));
        let news: Vec<_> = news.map(|said| &said.verdict).collect();
        let mut after: Vec<_> = before.clone();
        after.retain(|other| !news.iter().any(|verdict| verdict.condition == other.type_));
        let (generation, now) = (object.meta().generation, clock::now());
        after.extend(news.iter().map(|verdict| verdict.dated(&before, generation, now)));
        after.sort_by(|a, b| a.type_.cmp(&b.type_));
        let found = serde_json::to_value(&object).ok();
        let found = found.as_ref().and_then(|object| object.pointer("/status/clusters")?.as_array());
        let found = found.map_or(&[][..], Vec::as_slice);
        let clusters = origins.map(|origins| origins.instead_of(found));
        let same = clusters.as_ref().is_none_or(|clusters| found == clusters.as_slice());
        if after == before && same {
            return Ok(());
        }
        let mut status = json!({ "conditions": after });
        if let Some(clusters) = clusters {
            status["clusters"] = json!(clusters);
        }
        let metadata = json!({ "resourceVersion": object.meta().resource_version });
        let patch = json!({ "status": status, "metadata": metadata });
        api.patch_status(key.name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.announce(key, &object, &news, &before);
        Ok(())
    }

    /// Tells by an event that clusters begin or cease to disagree on a service.
    fn announce<K>(&self, key: &ServiceKey, object: &K, news: &[&Verdict], before: &[Condition])
    where
        K: Resource<DynamicType = mcs::Version>,
    {
        let Some(conflict) = news.iter().find(|verdict| verdict.condition == condition::CONFLICT) else {
            return;
        };
        let was = before.iter().any(|old| old.type_ == condition::CONFLICT && old.status == "True");
        if was == conflict.met {
            return;
        }
        let version = mcs::Version::default();
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        let kind = GroupKind { group: mcs::GROUP.into(), kind: K::kind(&version).as_ref().into() };
        let reference = reference(&object_key(kind, key), &K::api_version(&version), uid);
        self.engine.report.tell(
            reference,
            Event {
                type_: if conflict.met { EventType::Warning } else { EventType::Normal },
                reason: if conflict.met {
                    conflict.reason.split(',').next().unwrap_or_default()
                } else {
                    reason::NO_CONFLICTS
                }
                .to_owned(),
                note: Some(conflict.message.chars().take(1000).collect()),
                action: "Merge".to_owned(),
                secondary: None,
            },
        );
    }
}
