//! One service in one member: the conditions of its export, its ServiceImport, and the slices of other clusters that belong to it.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::discovery::v1::EndpointSlice, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{reconcile::Failure, session::Session};
use crate::{
    api::{ServiceExport, ServiceImport, mcs::Version},
    decide::{
        copy::{MANAGER, Origin},
        exchange::{
            ConditionWanted, ExportSeen, ImportSeen, ImportStep, SliceSeen, SliceStep, Whose, import_kind,
            object_key,
        },
        ids::{ClusterName, ServiceKey},
    },
    shell::{
        clock,
        queue::Done,
        trouble::{Trouble, trouble},
    },
};

/// What is imported by itself goes this much later than its last export, which may come back at once.
const GRACE: Duration = Duration::from_secs(5);
/// As often a plan is made again after it was carried out: what was written leads to more.
const ROUNDS: usize = 4;
/// When a right may have been given.
const RIGHTS: Duration = Duration::from_secs(15);

// === impl Session ===

impl Session {
    /// Makes one service in the member what it is to be.
    pub(super) async fn reconcile_service(&self, key: &ServiceKey) -> Done {
        if !self.engine.claim.holds() {
            return Done::Well;
        }
        // Until the member has the kinds there is nothing to do; when it has, everything is looked at.
        let Some(version) = self.mcs_version() else { return Done::Well };
        for _ in 0..ROUNDS {
            match self.carry_out(key, version).await {
                Ok(Some(done)) => return done,
                Ok(None) => {}
                Err(failure) => return self.service_failed(key, failure),
            }
        }
        Done::Again
    }

    /// Carries out a plan; says when it is done, none if there may be more to do.
    async fn carry_out(&self, key: &ServiceKey, version: Version) -> Result<Option<Done>, Failure> {
        let plan = self.engine.plan(&self.name, key, version);
        let mut done = Some(Done::Well);
        if let Some((uid, conditions)) = &plan.export {
            self.write_conditions(key, version, uid, conditions).await?;
        }
        match &plan.import {
            ImportStep::Nothing => drop(self.going.lock().remove(key)),
            ImportStep::Apply(object) => {
                self.going.lock().remove(key);
                self.apply_import(key, version, object).await?;
                done = None;
            }
            ImportStep::Delete { uid, whose } => {
                if let Some(wait) = self.delete_import(key, version, uid, whose).await? {
                    return Ok(Some(Done::After(wait)));
                }
            }
        }
        if let Some((uid, clusters)) = &plan.clusters {
            self.write_clusters(key, version, uid, clusters).await?;
        }
        for step in &plan.slices {
            self.step(key, step).await?;
        }
        if done.is_some() {
            self.link_answered();
        }
        Ok(done)
    }

    async fn write_conditions(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        conditions: &[ConditionWanted],
    ) -> Result<(), Failure> {
        let api: Api<ServiceExport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let before = self.engine.look_exchange(|exchange| exchange.conditions_of(&self.name, key));
        let now = || Time(Timestamp::from_second(clock::seconds()).unwrap_or_default());
        let conditions: Vec<_> = conditions
            .iter()
            .map(|wanted| {
                let same =
                    before.iter().find(|old| old.type_ == wanted.type_ && old.status == wanted.status());
                let since = same.map_or_else(now, |old| old.last_transition_time.clone());
                json!({ "type": wanted.type_, "status": wanted.status(), "reason": wanted.reason,
                        "message": wanted.message, "lastTransitionTime": since })
            })
            .collect();
        let body = json!({
            "apiVersion": version, "kind": "ServiceExport",
            "metadata": { "name": key.name.as_str(), "namespace": key.namespace.as_str(), "uid": uid },
            "status": { "conditions": conditions },
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match api.patch_status(key.name.as_str(), &parameters, &Patch::Apply(body)).await {
            Ok(export) => {
                let seen = ExportSeen::of(key, &export, &self.hub);
                self.engine.exchange(|exchange| exchange.see_export(&self.name, key, seen));
                Ok(())
            }
            // It is gone, or another of the same name: the watch tells.
            Err(error) if matches!(trouble(&error), Trouble::Conflict | Trouble::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn apply_import(&self, key: &ServiceKey, version: Version, object: &Value) -> Result<(), Failure> {
        let api: Api<ServiceImport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(object);
        let apply = || api.patch(key.name.as_str(), &parameters, &patch);
        let applied = match apply().await {
            Err(error) if super::reconcile::lacks_namespace(&error) => {
                self.make_namespace(key.namespace.as_str()).await?;
                apply().await
            }
            applied => applied,
        };
        let import = applied?;
        self.engine.metrics.applied(false);
        let seen = ImportSeen::of(key, &import, &self.hub);
        self.engine.exchange(|exchange| exchange.see_import(&self.name, key, seen));
        Ok(())
    }

    /// Deletes a ServiceImport; says how long to wait if it is too early.
    async fn delete_import(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        whose: &Whose,
    ) -> Result<Option<Duration>, Failure> {
        let leaving =
            self.engine.look(|_, view| view.members().get(&self.name).is_some_and(|member| member.leaving));
        let Whose::Ours { template, crd } = whose else { return Ok(None) };
        if !leaving {
            let since = *self.going.lock().entry(key.clone()).or_insert_with(Instant::now);
            if template.is_none() && since.elapsed() < GRACE {
                return Ok(Some(GRACE.saturating_sub(since.elapsed())));
            }
            let origin = Origin {
                hub: self.hub.clone(),
                template: template.clone().unwrap_or_default(),
                crd: crd.clone(),
                object: object_key(import_kind(), key),
            };
            let certain = self.engine.import_is_to_go(&origin).await;
            let certain = certain
                .map_err(|e| Failure::Said(format!("failed to make certain that it is to go: {e}")))?;
            if !certain {
                return Err(Failure::Said(
                    "its ServiceImport seems not to be wanted any more, but the hub's kinds may be gone: nothing is removed until that is \
                     certain"
                        .to_owned(),
                ));
            }
        }
        let api: Api<ServiceImport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(key.name.as_str(), &parameters).await {
            Ok(_) => self.engine.metrics.deleted(),
            Err(error) if matches!(trouble(&error), Trouble::Conflict | Trouble::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        self.going.lock().remove(key);
        self.engine.exchange(|exchange| exchange.see_import(&self.name, key, None));
        Ok(None)
    }

    async fn write_clusters(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        clusters: &BTreeSet<ClusterName>,
    ) -> Result<(), Failure> {
        let api: Api<ServiceImport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let clusters: Vec<_> =
            clusters.iter().map(|cluster| json!({ "cluster": cluster.as_str() })).collect();
        let body = json!({
            "apiVersion": version, "kind": "ServiceImport",
            "metadata": { "name": key.name.as_str(), "namespace": key.namespace.as_str(), "uid": uid },
            "status": { "clusters": clusters },
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match api.patch_status(key.name.as_str(), &parameters, &Patch::Apply(body)).await {
            Ok(import) => {
                let seen = ImportSeen::of(key, &import, &self.hub);
                self.engine.exchange(|exchange| exchange.see_import(&self.name, key, seen));
                Ok(())
            }
            Err(error) if matches!(trouble(&error), Trouble::Conflict | Trouble::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn step(&self, key: &ServiceKey, step: &SliceStep) -> Result<(), Failure> {
        let api: Api<EndpointSlice> = Api::namespaced(self.writer.clone(), key.namespace.as_str());
        let written = match step {
            SliceStep::Create(slice) => api.create(&PostParams::default(), slice).await,
            SliceStep::Update(slice) => {
                let name = slice.metadata.name.as_deref().unwrap_or_default();
                api.replace(name, &PostParams::default(), slice).await
            }
            SliceStep::Delete { name, seen } => return self.delete_slice(&api, key, name, seen).await,
        };
        let slice = written?;
        self.engine.metrics.applied(false);
        self.engine.exchange(|exchange| exchange.see_imported(&self.name, &slice));
        Ok(())
    }

    async fn delete_slice(
        &self,
        api: &Api<EndpointSlice>,
        key: &ServiceKey,
        name: &str,
        seen: &SliceSeen,
    ) -> Result<(), Failure> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(seen.uid.to_string()), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(name, &parameters).await {
            Ok(_) => self.engine.metrics.deleted(),
            Err(error) if matches!(trouble(&error), Trouble::Conflict | Trouble::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        self.engine.exchange(|exchange| exchange.lose_imported(&self.name, key, name));
        Ok(())
    }

    /// Says what is wrong, and when it is tried again.
    fn service_failed(&self, key: &ServiceKey, failure: Failure) -> Done {
        let error = match failure {
            Failure::Said(why) => {
                tracing::warn!(member = %self.name, service = %key, "{why}");
                return Done::Again;
            }
            Failure::Request(error) => error,
        };
        let kind = trouble(&error);
        self.engine.metrics.failed(kind);
        if kind == Trouble::Link {
            self.link_failed();
        } else {
            self.link_answered();
        }
        match kind {
            Trouble::Fenced => Done::Well,
            Trouble::Conflict => Done::Again,
            Trouble::Credentials | Trouble::Forbidden => {
                tracing::warn!(member = %self.name, service = %key, "{error}");
                Done::After(RIGHTS)
            }
            Trouble::Link | Trouble::NotFound | Trouble::Object => {
                tracing::warn!(member = %self.name, service = %key, "failed, trying again: {error}");
                Done::Again
            }
        }
    }
}
