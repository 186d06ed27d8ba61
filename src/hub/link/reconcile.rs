//! One object in one member: what is to be there, what is, and the request that makes the one the other.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::Value;

use super::{kinds::Standing, session::Session};
use crate::{
    decide::{
        action::{Action, Observed, action, taking_over},
        change::of_copy,
        copy::{self, CREATE_ONLY, MANAGER, ObjectKey, Rendered},
        ids::ClusterName,
        world::{Desired, Wanted},
    },
    hub::served::{Served, Version},
    shell::{
        clock,
        queue::Done,
        trouble::{Trouble, trouble},
    },
};

/// When a right may have been given.
const RIGHTS: Duration = Duration::from_secs(15);

/// Why an object is not as it should be.
#[derive(Debug)]
pub(super) enum Failure {
    /// In words for the user; it is tried again.
    Said(String),
    /// A request failed.
    Request(kube::Error),
}

impl Failure {
    /// Whether other objects may fare better.
    pub(super) fn is_of_one_object(&self) -> bool {
        match self {
            Self::Said(_) => true,
            Self::Request(error) => {
                !matches!(trouble(error), Trouble::Fenced | Trouble::Link | Trouble::Credentials)
            }
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Request(error)
    }
}

// === impl Session ===

impl Session {
    /// Makes one object what it is to be.
    pub(super) async fn reconcile(&self, key: &ObjectKey) -> Done {
        if !self.engine.claim.holds() {
            // Whoever leads does it; if we come to lead, everything is looked at.
            return Done::Well;
        }
        let desired = self.engine.desired(&self.name, key, None);
        let needed = matches!(desired, Desired::Present(_) | Desired::Faulty(_))
            || self.seen.lock().copies.contains_key(key)
            || self.is_doubtful(key);
        if !needed {
            if matches!(desired, Desired::Absent(_)) {
                // Somebody else removed it first: there is no repair to tell from a change any more.
                let mut seen = self.seen.lock();
                seen.applied.remove(key);
                seen.fights.forget(key);
            }
            self.engine.report.settle(&self.engine, &self.name, key, desired_note(&desired));
            return Done::Well;
        }
        let served = match self.kinds.standing(key) {
            Standing::Synced(served) => served,
            Standing::Opening => return Done::Well,
            Standing::Unserved => {
                let why =
                    format!("the cluster does not serve the kind {}; it is sent when it does", key.kind);
                self.engine.report.fail(&self.engine, &self.name, key, &why);
                return Done::Well;
            }
        };
        match self.act(key, desired, &served).await {
            Ok(done) => done,
            Err(failure) => self.failed(key, failure),
        }
    }

    async fn act(
        &self,
        key: &ObjectKey,
        mut desired: Desired,
        served: &Arc<Served>,
    ) -> Result<Done, Failure> {
        if self.is_doubtful(key) {
            self.confirm(key, served).await?;
            desired = self.engine.desired(&self.name, key, None);
        }
        let (desired, version) = self.in_a_version(key, desired, served).await?;
        if let Desired::Faulty(why) = desired {
            return Err(Failure::Said(why));
        }
        let observed = self.seen.lock().copies.get(key).cloned();
        let api_version = version.api_version();
        match action(key, &desired, observed.as_ref(), &api_version) {
            Action::Nothing => {
                if matches!(desired, Desired::Present(_))
                    && let Some(observed) = self.seen.lock().copies.get_mut(key)
                {
                    observed.settle();
                }
                // It looks well, but it may be changed again at once: what was said of a fight holds until that is over.
                if let Some(wait) = self.seen.lock().fights.wait(key, clock::monotonic()) {
                    return Ok(Done::After(wait));
                }
                self.engine.report.settle(&self.engine, &self.name, key, desired_note(&desired));
                Ok(Done::Well)
            }
            Action::Leave(why) => {
                self.engine.report.settle(&self.engine, &self.name, key, Some(why));
                Ok(Done::Well)
            }
            Action::Create(rendered) => {
                let Desired::Present(wanted) = &desired else { return Ok(Done::Well) };
                match self.apply(key, &version, rendered, CREATE_ONLY).await {
                    Err(Failure::Request(error)) if trouble(&error) == Trouble::Conflict => {
                        self.take_over(key, &version, wanted).await
                    }
                    done => done,
                }
            }
            Action::Apply(rendered, resource_version) => {
                self.apply(key, &version, rendered, &resource_version).await
            }
            Action::Look => match &desired {
                Desired::Present(wanted) => self.take_over(key, &version, wanted).await,
                _ => Ok(Done::Well),
            },
            Action::Remove(removal) => self.remove(key, &version, &removal).await,
        }
    }

    /// What is wanted in a version that the member serves. Where that is another than the hub's own, the template is read in it.
    async fn in_a_version(
        &self,
        key: &ObjectKey,
        desired: Desired,
        served: &Served,
    ) -> Result<(Desired, Version), Failure> {
        let Desired::Present(wanted) = &desired else {
            let version = served.preferred(&key.kind).ok_or_else(|| no_longer_served(key))?;
            return Ok((desired, version.clone()));
        };
        if let Some(version) = served.version(&key.kind, &wanted.api_version).cloned() {
            return Ok((desired, version));
        }
        let hub = self.engine.served();
        let Some(version) = served.common(&key.kind, &hub) else {
            return Err(Failure::Said(format!(
                "the cluster and the hub serve no common version of {} (the hub's is {})",
                key.kind, wanted.api_version
            )));
        };
        let on_hub = hub.version(&key.kind, &version.resource.api_version).unwrap_or(version);
        let body = template_in(on_hub, &self.engine.hub, key).await?;
        Ok((self.engine.desired(&self.name, key, Some(body)), version.clone()))
    }

    /// Finds out what became of an object that a watch by our label no longer shows: it is gone, or it lost only the label.
    async fn confirm(&self, key: &ObjectKey, served: &Served) -> Result<(), Failure> {
        let version = served.preferred(&key.kind).ok_or_else(|| no_longer_served(key))?;
        let live = version.api(&self.writer, key).get_metadata_opt(&key.name).await?;
        match live.filter(|live| Observed::of(key, &live.metadata, &self.hub).is_ours()) {
            Some(live) => self.see(key.clone(), &live.metadata, false),
            None => self.lose(key),
        }
        Ok(())
    }

    /// Applies an object over what was seen of it.
    async fn apply(
        &self,
        key: &ObjectKey,
        version: &Version,
        rendered: Rendered,
        resource_version: &str,
    ) -> Result<Done, Failure> {
        let repair = self.seen.lock().applied.get(key) == Some(&rendered.applied);
        if repair && let Some(wait) = self.seen.lock().fights.wait(key, clock::monotonic()) {
            return Ok(Done::After(wait));
        }
        let Rendered { mut body, applied } = rendered;
        body["metadata"]["resourceVersion"] = resource_version.into();
        let metadata = match self.send(key, version, &body).await {
            Err(error) if lacks_namespace(&error) => {
                self.make_namespace(&key.namespace).await?;
                self.send(key, version, &body).await?
            }
            sent => sent?,
        };
        self.link_answered();
        tracing::debug!(member = %self.name, object = %key, change = of_copy(&applied), repair, "a copy follows a change");
        let waited = self.queue.answer(key);
        if let Some(waited) = waited.filter(|_| !repair) {
            self.engine.metrics.arrivals.template(&self.name, waited);
        }
        {
            let mut seen = self.seen.lock();
            seen.applied.insert(key.clone(), applied);
            if !repair {
                seen.fights.forget(key);
            }
        }
        self.see(key.clone(), &metadata, true);
        self.engine.metrics.applied(repair);
        let fight =
            if repair { self.seen.lock().fights.repaired(key.clone(), clock::monotonic()) } else { None };
        match fight {
            Some(times) => {
                let who = others(&metadata);
                self.engine.metrics.fight();
                let why = format!(
                    "somebody there keeps changing what the template says{who}: it was put right {times} times and is now put right \
                     more and more seldom; end that, or leave the field out of the template"
                );
                self.engine.report.fail(&self.engine, &self.name, key, &why);
                Ok(self.seen.lock().fights.wait(key, clock::monotonic()).map_or(Done::Well, Done::After))
            }
            None => {
                self.engine.report.settle(&self.engine, &self.name, key, None);
                Ok(Done::Well)
            }
        }
    }

    async fn send(&self, key: &ObjectKey, version: &Version, body: &Value) -> kube::Result<ObjectMeta> {
        let parameters = PatchParams::apply(MANAGER).force();
        let api = version.api(&self.writer, key);
        Ok(api.patch_metadata(&key.name, &parameters, &Patch::Apply(body)).await?.metadata)
    }

    /// Reads what is there without our label, and takes it over if that is allowed.
    async fn take_over(&self, key: &ObjectKey, version: &Version, wanted: &Wanted) -> Result<Done, Failure> {
        let api = version.api(&self.writer, key);
        let Some(live) = api.get_opt(&key.name).await? else { return Ok(Done::Again) };
        let observed = Observed::of(key, &live.metadata, &self.hub);
        if observed.is_ours() {
            // Only our view was late.
            self.see(key.clone(), &live.metadata, false);
        }
        let live = serde_json::to_value(&live).unwrap_or_default();
        let taken_over = self.marked.load(Ordering::Relaxed);
        let judged = taking_over(key, wanted, &live, &observed, &version.api_version(), taken_over);
        match judged.map_err(Failure::Said)? {
            Action::Apply(rendered, resource_version) => {
                self.apply(key, version, rendered, &resource_version).await
            }
            Action::Leave(why) => {
                self.engine.report.settle(&self.engine, &self.name, key, Some(why));
                Ok(Done::Well)
            }
            _ => Ok(Done::Well),
        }
    }

    /// Makes a Namespace that the member lacks, with the labels that it has on the hub.
    pub(super) async fn make_namespace(&self, name: &str) -> Result<(), Failure> {
        let found = self.engine.look(|_, view| view.namespace(name).cloned());
        let skipped = found.as_ref().is_some_and(|namespace| namespace.is_not_propagated());
        if !self.engine.create_namespaces || skipped {
            return Err(Failure::Said(format!(
                "the cluster has no namespace {name}, and Tombolo was told not to make it; it is sent when there is one"
            )));
        }
        let labels = found.map(|namespace| namespace.labels).unwrap_or_default();
        let labels = labels.into_iter().filter(|(key, _)| !key.starts_with("kubernetes.io/")).collect();
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.writer.clone());
        match namespaces
            .create(&PostParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() }, &namespace)
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says what is wrong with an object, and when it is tried again.
    pub(super) fn failed(&self, key: &ObjectKey, failure: Failure) -> Done {
        let (why, done) = self.judge(failure);
        if let Some(why) = why {
            self.engine.report.fail(&self.engine, &self.name, key, &why);
        }
        done
    }

    /// Takes note of a failure: what is to be said of it, if anything, and when it is tried again.
    fn judge(&self, failure: Failure) -> (Option<String>, Done) {
        let error = match failure {
            Failure::Said(why) => return (Some(why), Done::Again),
            Failure::Request(error) => error,
        };
        let kind = trouble(&error);
        self.engine.metrics.failed(&self.name, kind);
        if kind == Trouble::Link {
            self.link_failed();
        } else {
            self.link_answered();
        }
        let said = match &error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        match kind {
            Trouble::Fenced => (None, Done::Well),
            // What is there is newer than what we saw: it comes by the watch, or is read then.
            Trouble::Conflict => (None, Done::Again),
            Trouble::Link => (Some(format!("the cluster does not answer: {said}")), Done::Again),
            Trouble::Credentials => {
                (Some(format!("the cluster does not accept our token: {said}")), Done::After(RIGHTS))
            }
            Trouble::Forbidden => (Some(lacking(&self.name, &said)), Done::After(RIGHTS)),
            Trouble::NotFound => {
                self.kinds.look_again();
                (Some(said), Done::Again)
            }
            Trouble::Object => (Some(said), Done::Again),
        }
    }
}

/// A template as the hub has it in another version. That it cannot be read is the hub's fault, not the member's.
async fn template_in(version: &Version, hub: &Client, key: &ObjectKey) -> Result<Value, Failure> {
    let object = version.api(hub, key).get(&key.name).await.map_err(|e| {
        Failure::Said(format!("failed to read the template on the hub as {}: {e}", version.api_version()))
    })?;
    Ok(serde_json::to_value(&object).map(|object| copy::strip(&object)).unwrap_or_default())
}

fn no_longer_served(key: &ObjectKey) -> Failure {
    Failure::Said(format!("the cluster no longer serves the kind {}", key.kind))
}

/// That a right is missing, and how it is given.
pub(super) fn lacking(cluster: &ClusterName, said: &str) -> String {
    format!("Tombolo lacks a right in the cluster: {said}; give it with `tombolo join {cluster} --grant …`")
}

fn desired_note(desired: &Desired) -> Option<String> {
    match desired {
        Desired::HeldBack(why) => Some(why.clone()),
        _ => None,
    }
}

/// Whether a request failed because the object's namespace is not there.
pub(super) fn lacks_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.is_not_found() && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

/// The others who write to an object, for a message.
fn others(metadata: &ObjectMeta) -> String {
    let managers = metadata.managed_fields.iter().flatten();
    let managers = managers.filter(|entry| entry.subresource.as_deref().is_none_or(str::is_empty));
    let mut names: Vec<_> =
        managers.filter_map(|entry| entry.manager.as_deref()).filter(|name| *name != MANAGER).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::{client::Body, core::ApiResource};

    use super::*;
    use crate::{decide::select::GroupKind, hub::link::tests};

    #[tokio::test]
    async fn a_write_over_what_was_seen_is_refused_where_it_has_changed_since_and_does_not_merge() {
        let conflict = serde_json::json!({
            "kind": "Status", "status": "Failure", "reason": "Conflict", "message": "it has been modified", "code": 409,
        });
        let (session, asked) = tests::session(&serde_json::json!({}), move |_| (409, conflict.clone()));
        let (key, version) = (tests::key(), tests::version());
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one", "namespace": "shop" },
        });
        let rendered = Rendered { body, applied: "hash".into() };
        let done = session.apply(&key, &version, rendered, "7").await;
        let Err(Failure::Request(error)) = done else { panic!("{done:?}") };
        assert_eq!(trouble(&error), Trouble::Conflict);
        let asked = asked.lock();
        let [(method, _, body)] = &asked[..] else { panic!("it is written once: {asked:?}") };
        assert_eq!(*method, http::Method::PATCH);
        assert_eq!(body["metadata"]["resourceVersion"], "7", "the API server compares it with what is there");
        assert!(!session.seen.lock().copies.contains_key(&key), "nothing was taken note of");
    }

    #[tokio::test]
    async fn a_fault_of_the_hub_is_never_told_as_the_members() {
        for (code, message) in [(503, "etcdserver: request timed out"), (403, "User \"hub\" cannot get")] {
            let answer = serde_json::json!({ "kind": "Status", "status": "Failure", "message": message, "code": code });
            let service = tower::service_fn(move |_: Request<Body>| {
                let body = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(code).body(body);
                async move { answer }
            });
            let kind = GroupKind { group: "apps".into(), kind: "Deployment".into() };
            let key = ObjectKey { kind, namespace: "shop".into(), name: "web".into() };
            let resource = ApiResource::erase::<k8s_openapi::api::apps::v1::Deployment>(&());
            let version = Version { resource, namespaced: true };
            match template_in(&version, &Client::new(service, "default"), &key).await {
                Err(Failure::Said(why)) => {
                    assert!(why.contains("on the hub") && why.contains(message), "{why}");
                }
                other => panic!("{code}: {other:?}"),
            }
        }
    }
}
