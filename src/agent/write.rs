//! The agent's writes: each at most once for what was seen, and taken note of at once.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use futures::future::join_all;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Status,
};
use serde_json::json;

use super::{Agent, store::Kept, watches::Kind};
use crate::{
    api::names::kubernetes,
    decide::{
        agent::{
            MANAGER,
            slices::{Step, steps},
        },
        change::Change,
        ids::ServiceKey,
    },
    shell::clock,
};

/// How objects are made and replaced.
fn posted() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// A deletion of exactly what was seen.
fn exactly(object: &impl ResourceExt) -> DeleteParams {
    let preconditions = Preconditions { uid: object.uid(), resource_version: object.resource_version() };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}

/// Takes "it is gone already" for well.
fn gone<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// The namespace of slices, which is the same for all that belong to a service.
fn namespace(wanted: &[EndpointSlice], ours: &[Arc<EndpointSlice>]) -> Option<String> {
    wanted.first().or(ours.first().map(|slice| &**slice)).and_then(ResourceExt::namespace)
}

// === impl Agent ===

impl Agent {
    /// Makes slices what they are to be; `ours` that are not wanted go.
    pub(super) async fn write_slices(
        &self,
        wanted: Vec<EndpointSlice>,
        ours: &[Arc<EndpointSlice>],
    ) -> kube::Result<()> {
        let Some(namespace) = namespace(&wanted, ours) else { return Ok(()) };
        let steps = self.steps(&namespace, wanted, ours);
        self.take_steps(&namespace, steps).await
    }

    /// Makes the source slices of a service what they are to be. Those that change say by which change of endpoints.
    pub(super) async fn write_sources(
        &self,
        key: &ServiceKey,
        wanted: Vec<EndpointSlice>,
        ours: &[Arc<EndpointSlice>],
    ) -> kube::Result<()> {
        let steps = self.steps(key.namespace.as_str(), wanted, ours);
        if steps.is_empty() {
            return Ok(());
        }
        let change = self.change(key);
        let slices = steps.len();
        let steps = steps.into_iter().map(|step| step.stamped(&change)).collect();
        self.take_steps(key.namespace.as_str(), steps).await?;
        tracing::debug!(service = %key, change = %change.id, slices, "the source slices follow a change of endpoints");
        Ok(())
    }

    /// The change that a service is looked at for: when it was seen, under a name of its own.
    fn change(&self, key: &ServiceKey) -> Change {
        let waited = self.queue.waited(key).unwrap_or_default();
        let waited = i64::try_from(waited.as_millis()).unwrap_or_default();
        // Every state has keys of its own, which nobody can guess: that is all that is asked of a name.
        let number = RandomState::new().build_hasher().finish();
        Change { id: format!("{:012x}", number >> 16).into(), at: clock::milliseconds() - waited }
    }

    fn steps(&self, namespace: &str, wanted: Vec<EndpointSlice>, ours: &[Arc<EndpointSlice>]) -> Vec<Step> {
        steps(wanted, ours, |name| self.seen.lock().slices.get(namespace, name))
    }

    async fn take_steps(&self, namespace: &str, steps: Vec<Step>) -> kube::Result<()> {
        let api: Api<EndpointSlice> = Api::namespaced(self.writer.clone(), namespace);
        let done = join_all(steps.into_iter().map(|step| self.write_slice(&api, step))).await;
        done.into_iter().collect()
    }

    async fn write_slice(&self, api: &Api<EndpointSlice>, step: Step) -> kube::Result<()> {
        let written = match step {
            Step::Create(slice) => api.create(&posted(), &slice).await?,
            Step::Replace(slice) => api.replace(&slice.name_any(), &posted(), &slice).await?,
            Step::Remake(there, slice) => {
                self.delete_slice(api, &there).await?;
                api.create(&posted(), &slice).await?
            }
            Step::Delete(slice) => return self.delete_slice(api, &slice).await,
        };
        self.wrote_slice(written);
        Ok(())
    }

    async fn delete_slice(&self, api: &Api<EndpointSlice>, slice: &EndpointSlice) -> kube::Result<()> {
        gone(api.delete(&slice.name_any(), &exactly(slice)).await)?;
        self.metrics.wrote("endpointslices");
        self.seen.lock().slices.forget(slice);
        Ok(())
    }

    /// Links a slice that a user made to a derived Service, if it is still as it was seen.
    pub(super) async fn link_slice(&self, slice: &EndpointSlice, derived: &str) -> kube::Result<()> {
        let api: Api<EndpointSlice> =
            Api::namespaced(self.writer.clone(), &slice.namespace().unwrap_or_default());
        let patch = json!({ "metadata": {
            "uid": slice.metadata.uid,
            "resourceVersion": slice.metadata.resource_version,
            "labels": { kubernetes::SERVICE_NAME: derived },
        } });
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written = api.patch(&slice.name_any(), &parameters, &Patch::Merge(patch)).await?;
        self.wrote_slice(written);
        Ok(())
    }

    pub(super) async fn create_service(&self, service: &Service) -> kube::Result<Arc<Service>> {
        let api = self.services(service);
        let written = api.create(&posted(), service).await?;
        Ok(self.wrote_service(written))
    }

    pub(super) async fn replace_service(&self, service: &Service) -> kube::Result<Arc<Service>> {
        let api = self.services(service);
        let written = api.replace(&service.name_any(), &posted(), service).await?;
        Ok(self.wrote_service(written))
    }

    pub(super) async fn delete_service(&self, service: &Service) -> kube::Result<()> {
        // Only the UID: an edit of what has to go changes nothing about that.
        let preconditions = Preconditions { uid: service.uid(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        gone(self.services(service).delete(&service.name_any(), &parameters).await)?;
        self.metrics.wrote("services");
        self.seen.lock().services.forget(service);
        Ok(())
    }

    /// Says what the API server has against a Service, if it has something.
    pub(super) async fn objection(&self, service: &Service) -> Option<Box<Status>> {
        let parameters = PostParams { dry_run: true, ..posted() };
        match self.services(service).create(&parameters, service).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Some(status),
            _ => None,
        }
    }

    fn services(&self, service: &Service) -> Api<Service> {
        Api::namespaced(self.writer.clone(), &service.namespace().unwrap_or_default())
    }

    fn wrote_slice(&self, written: EndpointSlice) {
        self.metrics.wrote("endpointslices");
        self.take_answer(|seen| &mut seen.slices, written);
    }

    fn wrote_service(&self, written: Service) -> Arc<Service> {
        self.metrics.wrote("services");
        let service = Arc::new(written.clone());
        self.take_answer(|seen| &mut seen.services, written);
        service
    }

    /// Takes note of what the API server answered to a write. It may concern other services too, and say what others changed meanwhile; when
    /// the watch shows it, it is no news any more: so all that it concerns is looked at now.
    pub(super) fn take_answer<K: Kept>(&self, kind: Kind<K>, written: K) {
        let touched = kind(&mut self.seen.lock()).take(written, false);
        self.look_at(touched);
    }
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config, core::ObjectMeta};

    use super::*;
    use crate::{api::names::label, shell::metrics::Metrics};

    #[tokio::test]
    async fn what_we_write_is_news_to_whatever_else_it_concerns_though_the_watch_comes_late() {
        let nowhere = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let agent = Agent::new(nowhere.clone(), nowhere, &Metrics::default(), 100);
        let written = Service {
            metadata: ObjectMeta {
                namespace: Some("shop".to_owned()),
                name: Some("derived-web".to_owned()),
                uid: Some("u".to_owned()),
                resource_version: Some("7".to_owned()),
                labels: Some([(label::IMPORT.to_owned(), "web".to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..Service::default()
        };
        agent.wrote_service(written.clone());
        assert!(agent.seen.lock().services.take(written, false).is_empty(), "the watch shows it");
        assert_eq!(agent.queue.load().waiting, 2);
        let looked_at = [agent.queue.take().await, agent.queue.take().await].map(|key| key.to_string());
        assert_eq!(looked_at, ["shop/derived-web", "shop/web"]);
    }
}
