//! One service at a time: what is seen of it, what is to be, and the writes between the two.

use std::{sync::Arc, time::Instant};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};

use kube::ResourceExt;

use super::{
    Agent,
    store::{Kept, Store},
};
use crate::{
    api::{ServiceExport, ServiceImport, names::kubernetes},
    decide::{
        agent::{
            import::{announced, is_by_hand, is_served_by},
            own,
            service::Holder,
            slices::{is_own, is_source},
        },
        definition::Definition,
        derived::{hashed_name, plain_name},
        ids::{ClusterName, ServiceKey},
        merge::ServiceSpec,
    },
    shell::{
        clock,
        queue::Done,
        trouble::{Trouble, trouble},
    },
};

/// An object that may be there.
pub(super) enum Sight<K> {
    /// That is not known now, which is not the same as absent.
    Unknown,
    /// It is not.
    Absent,
    /// It is.
    There(Arc<K>),
}

/// What is seen of a service.
pub(super) struct Look {
    pub(super) export: Sight<ServiceExport>,
    pub(super) import: Sight<ServiceImport>,
    /// The Service that an export exports.
    pub(super) service: Option<Arc<Service>>,
    /// The names that a derived Service can have, and what has them.
    pub(super) candidates: Vec<(String, Option<Arc<Service>>)>,
    /// Slices that concern it.
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    pub(super) cluster: Option<ClusterName>,
    pub(super) definition: Option<Definition>,
}

/// What this cluster exports of a service.
pub(super) enum Exported {
    /// That is not known now.
    Unknown,
    /// Nothing.
    Nothing,
    /// This, with these source slices.
    Something(ServiceSpec, Vec<EndpointSlice>),
}

// === impl Sight ===

impl<K: Kept> Sight<K> {
    fn of(store: &Store<K>, namespace: &str, name: &str) -> Self {
        match store.get(namespace, name) {
            _ if !store.known => Self::Unknown,
            None => Self::Absent,
            Some(object) => Self::There(object),
        }
    }
}

// === impl Look ===

impl Look {
    /// Who has a name.
    pub(super) fn holder(&self, key: &ServiceKey, name: &str) -> Holder {
        let found = self.candidates.iter().find(|(candidate, _)| candidate == name);
        match found.and_then(|(_, service)| service.as_ref()) {
            None => Holder::Free,
            Some(service) if self.is_derived(key, service) => Holder::Ours,
            Some(_) => Holder::Foreign,
        }
    }

    /// The derived Services of the import; there is one, but for a moment.
    pub(super) fn derived(&self, key: &ServiceKey) -> Vec<Arc<Service>> {
        let services = self.candidates.iter().filter_map(|(_, service)| service.as_ref());
        services.filter(|service| self.is_derived(key, service)).cloned().collect()
    }

    fn is_derived(&self, key: &ServiceKey, service: &Service) -> bool {
        let import = match &self.import {
            Sight::There(import) => Some(&**import),
            Sight::Unknown | Sight::Absent => None,
        };
        is_served_by(key, import, service)
    }

    /// The slices of the Service itself, and whatever else is called so.
    pub(super) fn originals(&self, key: &ServiceKey) -> impl Iterator<Item = &EndpointSlice> {
        let of_service = |slice: &&Arc<EndpointSlice>| {
            slice.labels().get(kubernetes::SERVICE_NAME).is_some_and(|name| name == key.name.as_str())
        };
        self.slices.iter().filter(of_service).map(|slice| &**slice)
    }

    /// Its source slices.
    pub(super) fn sources(&self, key: &ServiceKey) -> Vec<Arc<EndpointSlice>> {
        self.slices.iter().filter(|slice| is_source(key, slice)).cloned().collect()
    }

    /// Its imported slices of this cluster's own endpoints.
    pub(super) fn own(&self, key: &ServiceKey) -> Vec<Arc<EndpointSlice>> {
        self.slices.iter().filter(|slice| is_own(key, slice)).cloned().collect()
    }
}

// === impl Agent ===

impl Agent {
    /// Works on what the queue hands out, for ever.
    pub(super) async fn reconcile_all(self: Arc<Self>) {
        loop {
            let key = self.queue.take().await;
            let began = Instant::now();
            let done = match self.reconcile(&key).await {
                Ok(done) => done,
                Err(e) => self.failed(&key, &e),
            };
            self.metrics.reconciles.note("services", None, done, began.elapsed());
            self.queue.done(&key, done);
        }
    }

    fn failed(&self, key: &ServiceKey, error: &kube::Error) -> Done {
        let (sort, said) = match error {
            // An object of that name was made since we looked: its UID cannot be what we saw.
            kube::Error::Api(status) if status.code == 422 && status.message.contains("metadata.uid") => {
                (Trouble::Conflict, status.message.clone())
            }
            kube::Error::Api(status) => (trouble(error), status.message.clone()),
            error => (trouble(error), error.to_string()),
        };
        self.metrics.failed(sort);
        match sort {
            // Whoever leads next looks at everything.
            Trouble::Fenced => return Done::Well,
            // It changed since we looked: the next look sees what is there now.
            Trouble::Conflict | Trouble::NotFound => {
                tracing::debug!(service = %key, "looking again: {said}");
            }
            _ => tracing::warn!(service = %key, "failed, trying again: {said}"),
        }
        Done::Again
    }

    async fn reconcile(&self, key: &ServiceKey) -> kube::Result<Done> {
        let Some(look) = self.look(key) else { return Ok(Done::Well) };
        // Neither waits for the other: an export that cannot be written must not keep an import from being served, nor its own endpoints
        // from following.
        let (exported, told) = self.export(key, &look).await;
        // A port that changes its name is first served under both, then the derived Service changes, then the old name goes.
        let own_failed = match self.write_own(key, &exported).await {
            Ok(_) => None,
            // What is refused as it is would keep the import from being served for ever.
            Err(e) if matches!(trouble(&e), Trouble::Object | Trouble::Forbidden) => Some(e),
            Err(e) => return Err(e),
        };
        let done = self.import(key, &look).await?;
        told?;
        if let Some(e) = own_failed {
            return Err(e);
        }
        let own = self.write_own(key, &exported).await?;
        Ok(if done == Done::Well { own } else { done })
    }

    /// What is seen of a service; none before all Services and slices are.
    fn look(&self, key: &ServiceKey) -> Option<Look> {
        let seen = self.seen.lock();
        if !seen.services.known || !seen.slices.known {
            return None;
        }
        let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
        let candidates = plain_name(key).into_iter().chain([hashed_name(key)]).map(|candidate| {
            let found = seen.services.get(namespace, &candidate);
            (candidate, found)
        });
        Some(Look {
            export: Sight::of(&seen.exports, namespace, name),
            import: Sight::of(&seen.imports, namespace, name),
            service: seen.services.get(namespace, name),
            candidates: candidates.collect(),
            slices: seen.slices.of(key),
            cluster: seen.cluster.clone(),
            definition: self.definitions.imports.borrow().clone(),
        })
    }

    /// Sees to the imported slices of this cluster's own endpoints, once the derived Service is announced.
    async fn write_own(&self, key: &ServiceKey, exported: &Exported) -> kube::Result<Done> {
        // The import may have been written just now.
        let Some(look) = self.look(key) else { return Ok(Done::Well) };
        let (Sight::There(import), Some(cluster)) = (&look.import, &look.cluster) else {
            return Ok(Done::Well);
        };
        let by_hand = is_by_hand(import);
        let wanted = match exported {
            Exported::Nothing => Vec::new(),
            // Whatever is exported: what is not known here for good, as where the kind was made anew, the hub knows after a while.
            _ if by_hand || !own::is_source(import, cluster) => {
                let ours = look.own(key);
                // One that the hub made again says later what it is made of.
                let unsaid = own::unsaid(import, clock::now()).filter(|_| !by_hand && !ours.is_empty());
                if let Some(left) = unsaid {
                    return Ok(Done::After(left));
                }
                return self.write_slices(Vec::new(), &ours).await.map(|()| Done::Well);
            }
            Exported::Unknown => return Ok(Done::Well),
            Exported::Something(service, sources) => {
                let derived = look.derived(key).into_iter();
                let derived = derived.filter(|service| service.metadata.name.as_deref() == announced(import));
                // Without one it is being made, or made again.
                let Some(derived) = derived.last() else { return Ok(Done::Well) };
                own::imported(key, cluster, &derived, service, import, sources)
            }
        };
        self.write_slices(wanted, &look.own(key)).await.map(|()| Done::Well)
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        api::names::{annotation, mcs},
        decide::{
            copy::Origin,
            exchange::{import_kind, object_key},
        },
        shell::metrics::Metrics,
    };

    fn parse<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    #[tokio::test]
    async fn own_endpoints_of_exports_that_are_not_known_go_where_the_hub_no_longer_has_them() {
        let key = ServiceKey::parse("shop", "serve").unwrap();
        let object = object_key(import_kind(), &key);
        let origin = Origin { hub: "id".into(), template: "t".into(), crd: None, object }.text();
        for (sources, stay) in [(&["a", "b"][..], true), (&["b"], false)] {
            let asked: Arc<Mutex<Vec<String>>> = Arc::default();
            let noted = asked.clone();
            let client = Client::new(
                tower::service_fn(move |request: Request<Body>| {
                    noted.lock().push(format!("{} {}", request.method(), request.uri().path()));
                    async {
                        Response::builder()
                            .body(Body::from(json!({ "kind": "Status" }).to_string().into_bytes()))
                    }
                }),
                "default",
            );
            let agent = Agent::new(client.clone(), client, &Metrics::default(), 100);
            {
                let mut seen = agent.seen.lock();
                (seen.services.known, seen.slices.known, seen.imports.known) = (true, true, true);
                seen.cluster = Some("a".parse().unwrap());
                let clusters: Vec<_> = sources.iter().map(|name| json!({ "cluster": name })).collect();
                let import = json!({
                    "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                    "metadata": { "namespace": "shop", "name": "serve", "uid": "i", "annotations": { annotation::ORIGIN: origin } },
                    "spec": { "type": "ClusterSetIP", "ports": [] }, "status": { "clusters": clusters },
                });
                seen.imports.take(parse(import), true);
                let labels = json!({ mcs::SERVICE_NAME: "serve", kubernetes::MANAGED_BY: kubernetes::MANAGED_BY_AGENT });
                let slice = json!({
                    "metadata": { "namespace": "shop", "name": "serve-a-0123456789", "uid": "s", "resourceVersion": "1", "labels": labels },
                    "addressType": "IPv4", "endpoints": [],
                });
                seen.slices.take(parse(slice), true);
            }
            assert!(agent.look(&key).is_some_and(|look| look.own(&key).len() == 1));
            assert!(matches!(agent.write_own(&key, &Exported::Unknown).await, Ok(Done::Well)));
            let gone = "DELETE /apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/serve-a-0123456789";
            assert_eq!(*asked.lock(), if stay { vec![] } else { vec![gone] }, "{sources:?}");
        }
    }
}
