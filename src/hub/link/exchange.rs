//! One service in one member: the conditions of its export, its ServiceImport, and the slices of other clusters that belong to it.

use std::{fmt::Debug, mem::discriminant, time::Duration};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{reconcile::Failure, session::Session};
use crate::{
    api::{ServiceExport, ServiceImport, mcs::Version, names::annotation},
    decide::{
        change::{Change, of_copy},
        condition::Verdict,
        copy::{MANAGER, Origin},
        definition::Dialect,
        exchange::{ExportSeen, ImportSeen, ImportStep, SliceSeen, SliceStep, import_kind, object_key},
        freshness::Mark,
        ids::{ClusterName, ServiceKey},
        world::Absence,
    },
    shell::{
        clock,
        queue::Done,
        trouble::{Trouble, trouble},
    },
};

/// What is imported by itself goes this much later than its last export, which may come back at once.
const GRACE: Duration = Duration::from_secs(5);
/// Why something is not done yet.
const UNCERTAIN: &str = "its ServiceImport seems not to be wanted any more, but the hub's kinds may be gone";
/// As often a plan is made again after it was carried out: what was written leads to more.
const ROUNDS: usize = 4;

// === impl Session ===

impl Session {
    /// Makes one service in the member what it is to be.
    pub(super) async fn reconcile_service(&self, key: &ServiceKey) -> Done {
        if !self.engine.claim.holds() {
            return Done::Well;
        }
        // Until the member has the kinds there is nothing to do; when it has, everything is looked at.
        let Some(dialect) = self.dialect() else { return Done::Well };
        let object = object_key(import_kind(), key);
        for _ in 0..ROUNDS {
            match self.carry_out(key, dialect).await {
                Ok(Some(done)) => {
                    self.engine.report.settle(&self.engine, &self.name, &object, None);
                    return done;
                }
                Ok(None) => {}
                Err(failure) => return self.failed(&object, failure),
            }
        }
        Done::Again
    }

    /// Carries out a plan; says when it is done, none if there may be more to do.
    async fn carry_out(&self, key: &ServiceKey, dialect: Dialect) -> Result<Option<Done>, Failure> {
        let plan = self.engine.plan(&self.name, key, dialect);
        let version = dialect.version;
        if !plan.abandoned.is_empty() && self.withdraw(key, &plan.abandoned).await? {
            return Ok(None);
        }
        if let Some(origin) = &plan.doubted
            && self.is_to_go(origin, Absence::NoTemplate).await?
        {
            self.engine.exchange(|exchange| exchange.release(key));
            return Ok(None);
        }
        let mut done = Some(Done::Well);
        // What fails is told at the end: endpoints do not wait for it.
        let mut failed = None;
        if let Some((uid, conditions)) = &plan.export {
            kept(&mut failed, self.write_conditions(key, version, uid, conditions).await)?;
        }
        match &plan.import {
            ImportStep::Nothing => drop(self.going.lock().remove(key)),
            ImportStep::Apply(object) => {
                self.going.lock().remove(key);
                let applied = self.apply_import(key, version, object, plan.makes_namespace).await;
                if kept(&mut failed, applied)?.is_some() {
                    done = None;
                }
            }
            ImportStep::Delete { uid, origin, why } => {
                let deleted = self.delete_import(key, version, (uid, origin, *why)).await;
                match kept(&mut failed, deleted)? {
                    // The grace is for its address; endpoints that nobody exports any more go at once.
                    Some(Some(wait)) => done = Some(Done::After(wait)),
                    Some(None) => return Ok(None),
                    None => {}
                }
            }
        }
        if let Some((uid, clusters)) = &plan.clusters {
            let clusters: Vec<_> = clusters.iter().map(|name| json!({ "cluster": name.as_str() })).collect();
            let status = json!({ "clusters": clusters });
            kept(&mut failed, self.write_import_status(key, version, uid, &status).await)?;
        }
        if let Some((uid, said)) = &plan.users {
            let before = self.engine.look_exchange(|exchange| exchange.said_on(&self.name, key));
            let said = said.iter().map(|said| said.dated(before.as_slice(), None, clock::now()));
            let conditions: Vec<_> = said.collect();
            let status = json!({ "conditions": conditions });
            kept(&mut failed, self.write_import_status(key, version, uid, &status).await)?;
        }
        if kept(&mut failed, self.take_steps(key, &plan.slices).await)? == Some(true) {
            done = None;
        }
        if done.is_some() {
            self.link_answered();
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if plan.doubted.is_some() {
            return Err(Failure::Said(format!(
                "{UNCERTAIN}: who imports it stays as it is until that is certain"
            )));
        }
        Ok(done)
    }

    /// Withdraws what silent clusters export, where it is certain that the hub does not want it any more; says whether it did.
    async fn withdraw(
        &self,
        key: &ServiceKey,
        abandoned: &[(ClusterName, Origin, Absence)],
    ) -> Result<bool, Failure> {
        let mut any = false;
        for (cluster, origin, why) in abandoned {
            if self.is_to_go(origin, *why).await? {
                tracing::info!(service = %key, from = %cluster, "it is silent, and its export is gone from the hub: it is withdrawn");
                self.engine.exchange(|exchange| exchange.withdraw(cluster, key));
                any = true;
            }
        }
        Ok(any)
    }

    async fn is_to_go(&self, origin: &Origin, why: Absence) -> Result<bool, Failure> {
        let certain = self.engine.is_to_go(origin, why).await;
        certain.map_err(|e| Failure::Said(format!("failed to make certain that it is to go: {e}")))
    }

    async fn write_conditions(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        conditions: &[Verdict],
    ) -> Result<(), Failure> {
        let before = self.engine.look_exchange(|exchange| exchange.conditions_of(&self.name, key));
        let now = clock::now();
        let conditions: Vec<_> = conditions.iter().map(|wanted| wanted.dated(&before, None, now)).collect();
        let status = json!({ "conditions": conditions });
        let written = self.apply_status::<ServiceExport>(key, version, uid, &status).await?;
        if let Some(seen) = written.and_then(|export| ExportSeen::of(key, &export, &self.hub)) {
            // Admission judges by what it says, too.
            self.engine.exchange_exports(&self.name, |exchange| exchange.see_answer(&self.name, key, seen));
        }
        Ok(())
    }

    async fn write_import_status(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        status: &Value,
    ) -> Result<(), Failure> {
        if let Some(import) = self.apply_status::<ServiceImport>(key, version, uid, status).await? {
            let seen = ImportSeen::of(key, &import, &self.hub);
            self.engine.exchange_imports(&self.name, |exchange| exchange.see_import(&self.name, key, seen));
        }
        Ok(())
    }

    /// Applies our part of a status; none where the object is gone, or another of the same name: the watch tells.
    async fn apply_status<K>(
        &self,
        key: &ServiceKey,
        version: Version,
        uid: &str,
        status: &Value,
    ) -> Result<Option<K>, Failure>
    where
        K: Resource<DynamicType = Version, Scope = DynamicResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let body = json!({
            "apiVersion": version, "kind": K::kind(&version),
            "metadata": { "name": key.name.as_str(), "namespace": key.namespace.as_str(), "uid": uid },
            "status": status,
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match api.patch_status(key.name.as_str(), &parameters, &Patch::Apply(body)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_another(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn apply_import(
        &self,
        key: &ServiceKey,
        version: Version,
        object: &Value,
        makes_namespace: bool,
    ) -> Result<(), Failure> {
        let api: Api<ServiceImport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        let parameters = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(object);
        let apply = || api.patch(key.name.as_str(), &parameters, &patch);
        let applied = match apply().await {
            Err(error) if makes_namespace && super::reconcile::lacks_namespace(&error) => {
                self.make_namespace(key.namespace.as_str()).await?;
                apply().await
            }
            applied => applied,
        };
        let import = applied?;
        let repair = self.is_repair(key, object);
        self.engine.metrics.applied(repair);
        if let Some(waited) = self.services.answer(key).filter(|_| !repair) {
            self.engine.metrics.arrivals.template(&self.name, waited);
        }
        let change = import.annotations().get(annotation::APPLIED).map(|applied| of_copy(applied));
        tracing::debug!(member = %self.name, service = %key, change, "a ServiceImport follows a change");
        let seen = ImportSeen::of(key, &import, &self.hub);
        self.engine.exchange_imports(&self.name, |exchange| exchange.see_import(&self.name, key, seen));
        Ok(())
    }

    /// Whether what was applied is what was applied before: then somebody else had changed it. Remembers it.
    fn is_repair(&self, key: &ServiceKey, object: &Value) -> bool {
        let sum = object["metadata"]["annotations"][annotation::APPLIED].as_str().unwrap_or_default();
        let before = self.seen.lock().applied.insert(object_key(import_kind(), key), sum.into());
        before.is_some_and(|before| *before == *sum)
    }

    /// Deletes a ServiceImport; says how long to wait if it is too early.
    async fn delete_import(
        &self,
        key: &ServiceKey,
        version: Version,
        (uid, origin, why): (&str, &Origin, Absence),
    ) -> Result<Option<Duration>, Failure> {
        let leaving =
            self.engine.look(|_, view| view.members().get(&self.name).is_some_and(|member| member.leaving));
        if !leaving {
            let since = *self.going.lock().entry(key.clone()).or_insert_with(Instant::now);
            if origin.template.is_empty() && since.elapsed() < GRACE {
                return Ok(Some(GRACE.saturating_sub(since.elapsed())));
            }
            if !self.is_to_go(origin, why).await? {
                return Err(Failure::Said(format!("{UNCERTAIN}: nothing is removed until that is certain")));
            }
        }
        let api: Api<ServiceImport> =
            Api::namespaced_with(self.writer.clone(), key.namespace.as_str(), &version);
        self.delete(&api, key.name.as_str(), uid).await?;
        // One that no policy brought had its grace, which is no delay.
        if let Some(waited) = self.services.answer(key).filter(|_| !origin.template.is_empty()) {
            self.engine.metrics.arrivals.template(&self.name, waited);
        }
        self.seen.lock().applied.remove(&object_key(import_kind(), key));
        self.going.lock().remove(key);
        self.engine.exchange_imports(&self.name, |exchange| exchange.see_import(&self.name, key, None));
        Ok(None)
    }

    /// Takes all steps for slices, also where one is refused: it may be one cluster's, and the others' are not to wait for it. Says whether
    /// the plan is another then.
    async fn take_steps(&self, key: &ServiceKey, steps: &[SliceStep]) -> Result<bool, Failure> {
        let (mut another, mut first) = (false, Ok(()));
        // What the member lets us do to none of them is tried once.
        let mut denied = Vec::new();
        for step in steps {
            if denied.contains(&discriminant(step)) {
                continue;
            }
            match self.step(key, step).await {
                Ok(now) => another |= now,
                Err(failure) => {
                    if matches!(&failure, Failure::Request(error) if trouble(error) == Trouble::Forbidden) {
                        denied.push(discriminant(step));
                    }
                    let ends = !failure.is_of_one_object();
                    first = first.and(Err(failure));
                    if ends {
                        break;
                    }
                }
            }
        }
        first.map(|()| another)
    }

    /// Takes a step for a slice; says whether the plan is another then.
    async fn step(&self, key: &ServiceKey, step: &SliceStep) -> Result<bool, Failure> {
        let api: Api<EndpointSlice> = Api::namespaced(self.writer.clone(), key.namespace.as_str());
        // Asked before it is written: a watch may show what was written before that is answered.
        let news = match step {
            SliceStep::Create(slice) | SliceStep::Update(slice) => {
                self.engine.look_exchange(|exchange| exchange.underway(&self.name, slice))
            }
            SliceStep::Mark { .. } | SliceStep::Look { .. } | SliceStep::Delete { .. } => None,
        };
        let written = match step {
            SliceStep::Create(slice) => api.create(&PostParams::default(), slice).await,
            SliceStep::Update(slice) => {
                let name = slice.metadata.name.as_deref().unwrap_or_default();
                api.replace(name, &PostParams::default(), slice).await
            }
            SliceStep::Mark { name, seen, mark } => self.mark(&api, name, seen, *mark).await,
            SliceStep::Look { .. } => return self.look_at(&api, key, step).await,
            SliceStep::Delete { name, seen } => {
                self.delete(&api, name, &seen.uid).await?;
                self.engine.exchange(|exchange| exchange.lose_imported(&self.name, key, name));
                return Ok(false);
            }
        };
        let slice = match written {
            Ok(slice) => slice,
            // It is not as it was seen, or it is there and has lost our label.
            Err(error) if trouble(&error) == Trouble::Conflict => {
                self.engine.metrics.failed(&self.name, Trouble::Conflict);
                return self.look_at(&api, key, step).await;
            }
            Err(error) => {
                if let (Trouble::NotFound, Some((name, _))) = (trouble(&error), step.of()) {
                    self.engine.exchange(|exchange| exchange.lose_imported(&self.name, key, name));
                }
                return Err(error.into());
            }
        };
        self.engine.metrics.applied(false);
        if let Some(took) = news.and_then(|change| change.age(clock::milliseconds())) {
            self.engine.metrics.arrivals.endpoints(&self.name, took);
        }
        let change = Change::of(&slice).map(|change| change.id);
        tracing::debug!(member = %self.name, service = %key, change, "an imported slice follows a change of endpoints");
        self.engine.exchange(|exchange| exchange.see_imported(&self.name, &slice));
        Ok(false)
    }

    /// Looks at the slice that a step is for. Nobody else gives a slice such a name: what is there is ours, whatever became of its labels.
    async fn look_at(
        &self,
        api: &Api<EndpointSlice>,
        key: &ServiceKey,
        step: &SliceStep,
    ) -> Result<bool, Failure> {
        let Some((name, from)) = step.of() else { return Ok(false) };
        let live = api.get_opt(name).await?;
        self.engine.exchange(|exchange| match &live {
            Some(slice) => exchange.find_imported(&self.name, (key, &from), slice),
            None => exchange.lose_imported(&self.name, key, name),
        });
        Ok(true)
    }

    /// Makes a slice say that its cluster is silent. Nothing else is known of it, so the rest stays as it is.
    async fn mark(
        &self,
        api: &Api<EndpointSlice>,
        name: &str,
        seen: &SliceSeen,
        mark: Mark,
    ) -> kube::Result<EndpointSlice> {
        let mut slice = api.get(name).await?;
        slice.metadata.managed_fields = None;
        slice.metadata.uid = Some(seen.uid.to_string());
        slice.metadata.resource_version = Some(seen.resource_version.to_string());
        mark.put(&mut slice);
        api.replace(name, &PostParams::default(), &slice).await
    }

    /// Deletes an object, if it is the one that was seen.
    async fn delete<K>(&self, api: &Api<K>, name: &str, uid: &str) -> Result<(), Failure>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(name, &parameters).await {
            Ok(_) => self.engine.metrics.deleted(),
            Err(error) if is_another(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// What was done, if it was. The first failure that is one object's own is kept; what concerns the link as a whole ends everything.
fn kept<T>(failed: &mut Option<Failure>, result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(failure) if failure.is_of_one_object() => {
            failed.get_or_insert(failure);
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Whether an object is gone, or another of the same name is there.
fn is_another(error: &kube::Error) -> bool {
    matches!(trouble(error), Trouble::Conflict | Trouble::NotFound)
}
