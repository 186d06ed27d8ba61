//! Reads what an explanation is made of. What is not served is not there; what may not be read is said.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Service};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde::Serialize;

use crate::{
    api::{
        Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
        ServiceExport, ServiceImport, cluster, mcs, propagation, propagation::ResourceSelector,
    },
    cli::{
        list::{listed, somewhere},
        members,
    },
    decide::{
        copy::{self, ObjectKey},
        explain::{Read, Subject},
        ids::ServiceKey,
        policies::PolicyKey,
        select::GroupKind,
    },
    hub::served::{Served, Version},
    membership::report,
};

/// The reason of the hub's events on what could not be written.
const FAILED: &str = "PropagationFailed";

/// Where it is read.
pub(super) struct Asked {
    pub(super) hub: Client,
    pub(super) served: Served,
    pub(super) namespace: String,
    /// Tombolo's own namespace.
    pub(super) system: String,
}

// === impl Asked ===

impl Asked {
    /// What is meant by a kind and a name.
    pub(super) fn subject(&self, kind: &GroupKind, name: &str) -> Subject {
        let namespaced = self.served.preferred(kind).is_some_and(|version| version.namespaced);
        let namespace = if namespaced { self.namespace.as_str() } else { "" };
        match (&*kind.group, &*kind.kind) {
            (cluster::GROUP, "Cluster") => Subject::Cluster(name.to_owned()),
            (propagation::GROUP, policy) if policy.ends_with("Policy") => {
                let namespace = Some(namespace).filter(|namespace| !namespace.is_empty()).map(Into::into);
                let key = PolicyKey { namespace, name: name.into() };
                if policy.ends_with("OverridePolicy") { Subject::Override(key) } else { Subject::Policy(key) }
            }
            _ => Subject::Object(ObjectKey {
                kind: kind.clone(),
                namespace: namespace.into(),
                name: name.into(),
            }),
        }
    }

    /// Reads all that has to do with it.
    pub(super) async fn read(&self, subject: &Subject) -> Result<Read> {
        let mut read = Read::new(&self.system);
        // Who may not read the Lease can be told all the rest.
        read.hub = report::running(&self.hub, &self.system).await.unwrap_or(Ok(()));
        let hub = &self.hub;
        let (clusters, policies, wide, overrides, wide_overrides) = tokio::try_join!(
            listed(Api::<Cluster>::all(hub.clone())),
            listed(somewhere::<PropagationPolicy>(hub, None)),
            listed(Api::<ClusterPropagationPolicy>::all(hub.clone())),
            listed(somewhere::<OverridePolicy>(hub, None)),
            listed(Api::<ClusterOverridePolicy>::all(hub.clone())),
        )?;
        clusters.into_iter().for_each(|cluster| read.add_cluster(cluster));
        policies.into_iter().for_each(|policy| read.add_policy(policy));
        wide.into_iter().for_each(|policy| read.add_cluster_policy(policy));
        overrides.into_iter().for_each(|policy| read.add_override(policy));
        wide_overrides.into_iter().for_each(|policy| read.add_cluster_override(policy));
        match subject {
            Subject::Cluster(_) => {}
            Subject::Policy(key) => {
                let policy = read.policies().find(|(other, _)| *other == key);
                let selectors = policy.map(|(_, policy)| policy.spec.resource_selectors.clone());
                self.read_selected(key, &selectors.unwrap_or_default(), &mut read).await?;
            }
            Subject::Override(key) => {
                let selectors = read.overriding(key).map(|spec| spec.resource_selectors.clone());
                self.read_selected(key, &selectors.unwrap_or_default(), &mut read).await?;
            }
            Subject::Object(key) => self.read_object(key, &mut read).await?,
        }
        Ok(read)
    }

    async fn read_object(&self, key: &ObjectKey, read: &mut Read) -> Result<()> {
        self.read_template(key, read).await?;
        self.read_failures(key, read).await?;
        let service = key.kind == GroupKind::new("v1", "Service") || *key.kind.group == *mcs::GROUP;
        if service {
            self.read_service(key, read).await?;
        }
        if copy::may_be_named(&key.kind) {
            self.read_dependents(key, read).await?;
        }
        Ok(())
    }

    /// Reads an object, and where else there is one of its name.
    async fn read_template(&self, key: &ObjectKey, read: &mut Read) -> Result<()> {
        let Some(version) = self.served.preferred(&key.kind) else { return Ok(()) };
        let found = version.api(&self.hub, key).get_opt(&key.name).await;
        if let Some(object) = found.with_context(|| format!("failed to read {key}"))? {
            read.add_template(value(&object, version));
        }
        self.read_namesakes(key, version, read).await;
        Ok(())
    }

    /// Looks for objects of the same kind and name elsewhere. Who may not look there does not get to know.
    async fn read_namesakes(&self, key: &ObjectKey, version: &Version, read: &mut Read) {
        if key.namespace.is_empty() {
            return;
        }
        let everywhere = Api::<kube::api::DynamicObject>::all_with(self.hub.clone(), &version.resource);
        let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let found = everywhere.list_metadata(&named).await.map(|list| list.items).unwrap_or_default();
        let others = found.iter().filter_map(ResourceExt::namespace);
        for namespace in others.filter(|namespace| **namespace != *key.namespace) {
            read.add_namesake(key.clone(), namespace);
        }
    }

    /// Reads what events say of an object, the oldest first.
    async fn read_failures(&self, key: &ObjectKey, read: &mut Read) -> Result<()> {
        let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
        let events: Api<Event> = Api::namespaced(self.hub.clone(), namespace);
        let of =
            format!("involvedObject.name={},involvedObject.kind={},reason={FAILED}", key.name, key.kind.kind);
        let Ok(list) = events.list(&ListParams::default().fields(&of)).await else { return Ok(()) };
        let at = |event: &Event| {
            let last = event.series.as_ref().and_then(|series| series.last_observed_time.clone());
            last.or_else(|| event.event_time.clone()).map(|time| time.0)
        };
        let mut found = list.items;
        found.sort_by_key(at);
        for event in found {
            read.add_failure(key.clone(), at(&event), event.message.unwrap_or_default());
        }
        Ok(())
    }

    /// Reads the objects of a service, and Services of its name elsewhere; where the hub does not share it, what members have of it.
    async fn read_service(&self, key: &ObjectKey, read: &mut Read) -> Result<()> {
        let (hub, version) = (&self.hub, mcs::Version::default());
        let exports: Api<ServiceExport> = Api::namespaced_with(hub.clone(), &key.namespace, &version);
        let imports: Api<ServiceImport> = Api::namespaced_with(hub.clone(), &key.namespace, &version);
        let own: Api<Service> = Api::namespaced(hub.clone(), &key.namespace);
        let (export, import, service) =
            tokio::try_join!(exports.get_opt(&key.name), imports.get_opt(&key.name), own.get_opt(&key.name))
                .with_context(|| format!("failed to read the service {}/{}", key.namespace, key.name))?;
        export.into_iter().for_each(|export| read.add_export(export));
        import.into_iter().for_each(|import| read.add_import(import));
        service.into_iter().for_each(|service| read.add_service(service));
        let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let everywhere = Api::<Service>::all(hub.clone()).list(&named).await;
        let others = everywhere.map(|list| list.items).unwrap_or_default().into_iter();
        for service in others.filter(|service| service.namespace().as_deref() != Some(&*key.namespace)) {
            read.add_service(service);
        }
        if let Ok(service) = ServiceKey::parse(&key.namespace, &key.name) {
            let asked = members::ask(hub, read.to_ask(&service), Some(&key.namespace)).await;
            asked.into_iter().for_each(|member| read.add_asked(member));
        }
        Ok(())
    }

    /// Reads what may name an object, where policies take along what is named.
    async fn read_dependents(&self, key: &ObjectKey, read: &mut Read) -> Result<()> {
        let taking = read.policies().filter(|(policy, found)| {
            found.spec.propagate_deps
                && policy.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
        });
        let selectors = taking.flat_map(|(_, policy)| policy.spec.resource_selectors.iter());
        let mut kinds: Vec<_> =
            selectors.map(|selector| GroupKind::new(&selector.api_version, &selector.kind)).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds.iter().filter(|kind| **kind != key.kind) {
            self.read_kind(kind, Some(&key.namespace), None, read).await?;
        }
        Ok(())
    }

    /// Reads what a policy selects.
    async fn read_selected(
        &self,
        key: &PolicyKey,
        selectors: &[ResourceSelector],
        read: &mut Read,
    ) -> Result<()> {
        for selector in selectors {
            let kind = GroupKind::new(&selector.api_version, &selector.kind);
            let plain = |text: &&str| !text.contains(['*', '?', '[', '{', '\\']);
            let namespace = key.namespace.as_deref().or(selector.namespace.as_deref()).filter(plain);
            let name = selector.name.as_deref().filter(plain);
            let found = self.read_kind(&kind, namespace, name, read).await?;
            if let (0, Some(version), Some(key)) =
                (found, self.served.preferred(&kind), wanted(&kind, namespace, selector))
            {
                self.read_namesakes(&key, version, read).await;
            }
        }
        Ok(())
    }

    /// Reads the objects of a kind, those of a namespace and a name if these are given. Says how many there are.
    async fn read_kind(
        &self,
        kind: &GroupKind,
        namespace: Option<&str>,
        name: Option<&str>,
        read: &mut Read,
    ) -> Result<usize> {
        let Some(version) = self.served.preferred(kind) else { return Ok(0) };
        let api: Api<kube::api::DynamicObject> = match namespace.filter(|_| version.namespaced) {
            Some(namespace) => Api::namespaced_with(self.hub.clone(), namespace, &version.resource),
            None => Api::all_with(self.hub.clone(), &version.resource),
        };
        let mut which = ListParams::default();
        if let Some(name) = name {
            which = which.fields(&format!("metadata.name={name}"));
        }
        let list = api.list(&which).await.with_context(|| format!("failed to read objects of {kind}"))?;
        let number = list.items.len();
        for object in list.items {
            read.add_template(value(&object, version));
        }
        Ok(number)
    }
}

/// The object that a selector names, if it names one.
fn wanted(kind: &GroupKind, namespace: Option<&str>, selector: &ResourceSelector) -> Option<ObjectKey> {
    let (namespace, name) = (namespace?, selector.name.as_deref()?);
    Some(ObjectKey { kind: kind.clone(), namespace: namespace.into(), name: name.into() })
}

/// An object as it is; in lists they do not say what they are.
fn value(object: &(impl Serialize + Debug), version: &Version) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = version.resource.api_version.as_str().into();
    value["kind"] = version.resource.kind.as_str().into();
    value
}
