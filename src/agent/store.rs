//! Objects of one kind as the API server last showed them, found by name and by the services that they concern.
//!
//! What we wrote ourselves is taken note of at once ([`Store::take`]), and what we deleted is gone at once ([`Store::forget`]): a second
//! look that comes before the watch does must not do the same again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::{
    api::{
        ServiceExport, ServiceImport,
        names::{kubernetes, label, mcs},
    },
    decide::{dead::Dead, ids::ServiceKey, sum::Sum},
};

/// Namespace and name.
pub(super) type Name = (String, String);

/// A kind that is kept.
pub(super) trait Kept: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    /// The services that an object concerns.
    fn services(&self) -> Vec<ServiceKey>;

    /// The Service that it is.
    fn service(&self) -> Option<&Service> {
        None
    }

    /// Leaves out what nobody asks for.
    fn slim(&mut self) {
        self.meta_mut().managed_fields = None;
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub(super) struct Store<K> {
    all: BTreeMap<Name, Arc<K>>,
    by_service: BTreeMap<ServiceKey, BTreeSet<Name>>,
    dead: Dead,
    /// Whether all objects are known.
    pub(super) known: bool,
}

// === impl Kept ===

fn named(object: &impl Resource) -> Option<ServiceKey> {
    ServiceKey::parse(object.meta().namespace.as_deref()?, object.meta().name.as_deref()?).ok()
}

fn by_label(object: &impl Resource, key: &str) -> Option<ServiceKey> {
    let value = object.meta().labels.as_ref()?.get(key)?;
    ServiceKey::parse(object.meta().namespace.as_deref()?, value).ok()
}

impl Kept for ServiceExport {
    fn services(&self) -> Vec<ServiceKey> {
        named(self).into_iter().collect()
    }
}

impl Kept for ServiceImport {
    fn services(&self) -> Vec<ServiceKey> {
        named(self).into_iter().collect()
    }
}

impl Kept for Service {
    fn services(&self) -> Vec<ServiceKey> {
        let derived = || {
            let name = self.metadata.name.as_deref()?.strip_prefix(crate::api::names::DERIVED_PREFIX)?;
            ServiceKey::parse(self.metadata.namespace.as_deref()?, name).ok()
        };
        [named(self), by_label(self, label::IMPORT), derived()].into_iter().flatten().collect()
    }

    fn service(&self) -> Option<&Service> {
        Some(self)
    }
}

impl Kept for EndpointSlice {
    fn services(&self) -> Vec<ServiceKey> {
        let labels = [kubernetes::SERVICE_NAME, label::SOURCE, mcs::SERVICE_NAME];
        labels.iter().filter_map(|key| by_label(self, key)).collect()
    }

    /// Endpoints that the hub keeps are not ours to look at.
    fn slim(&mut self) {
        self.metadata.managed_fields = None;
        let managed_by = self.labels().get(kubernetes::MANAGED_BY).map(String::as_str);
        if managed_by == Some(kubernetes::MANAGED_BY_HUB) {
            self.endpoints = Vec::new();
        }
    }
}

// === impl Store ===

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), by_service: BTreeMap::new(), dead: Dead::default(), known: false }
    }
}

impl<K: Kept> Store<K> {
    /// An object by namespace and name.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The objects that concern a service.
    pub(super) fn of(&self, key: &ServiceKey) -> Vec<Arc<K>> {
        let names = self.by_service.get(key).into_iter().flatten();
        names.filter_map(|(namespace, name)| self.get(namespace, name)).collect()
    }

    /// How many objects there are, and a number that is another if any of them is.
    pub(super) fn sum(&self) -> Sum {
        let objects = self.all.iter().map(|(name, object)| {
            let meta = object.meta();
            (name, &meta.uid, &meta.resource_version)
        });
        Sum::of(objects)
    }

    /// Whether there is an object of a sort.
    pub(super) fn any(&self, sort: impl Fn(&K) -> bool) -> bool {
        self.all.values().any(|object| sort(object))
    }

    /// All services that something concerns.
    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.by_service.keys()
    }

    /// Takes note of an object, unless it is known already or older than what is known, and gives back the services that it concerns
    /// or concerned. What is listed is as it is, even if it is older: a cluster may have been restored.
    pub(super) fn take(&mut self, mut object: K, listed: bool) -> BTreeSet<ServiceKey> {
        let name = name(&object);
        let before = self.all.get(&name);
        let stale = before.is_some_and(|before| !is_newer(&object, &**before));
        if !listed && (stale || object.meta().uid.as_deref().is_some_and(|uid| self.dead.has(uid))) {
            return BTreeSet::new();
        }
        object.slim();
        let mut touched: BTreeSet<_> = before.iter().flat_map(|before| before.services()).collect();
        self.unlink(&name, &touched);
        for key in object.services() {
            self.by_service.entry(key.clone()).or_default().insert(name.clone());
            touched.insert(key);
        }
        self.all.insert(name, Arc::new(object));
        touched
    }

    /// Takes note that an object is gone.
    pub(super) fn lose(&mut self, object: &K) -> BTreeSet<ServiceKey> {
        self.dead.insert(object.meta().uid.as_deref().unwrap_or_default());
        let name = name(object);
        // One of that name may have been made since.
        if self.all.get(&name).is_some_and(|there| there.uid() == object.uid()) {
            self.drop_known(&name);
        }
        object.services().into_iter().collect()
    }

    /// Takes note that a list was complete.
    pub(super) fn retain(&mut self, listed: &BTreeSet<Name>) -> BTreeSet<ServiceKey> {
        let gone: Vec<Name> = self.all.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        self.known = true;
        // What was made while the list was read is not on it: the watch shows that next, and it must not pass for dead.
        gone.iter().flat_map(|name| self.drop_known(name)).collect()
    }

    /// Takes note that we deleted an object, which the watch has not shown yet.
    pub(super) fn forget(&mut self, object: &K) {
        self.lose(object);
    }

    fn drop_known(&mut self, name: &Name) -> BTreeSet<ServiceKey> {
        let Some(object) = self.all.remove(name) else { return BTreeSet::new() };
        let touched = object.services().into_iter().collect();
        self.unlink(name, &touched);
        touched
    }

    fn unlink(&mut self, name: &Name, services: &BTreeSet<ServiceKey>) {
        for key in services {
            if let Some(names) = self.by_service.get_mut(key) {
                names.remove(name);
                if names.is_empty() {
                    self.by_service.remove(key);
                }
            }
        }
    }
}

/// Namespace and name of an object.
pub(super) fn name(object: &impl Resource) -> Name {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Whether an object is newer than another, going by their resourceVersions; whatever cannot be compared counts as newer.
fn is_newer<K: Resource>(object: &K, other: &K) -> bool {
    let version =
        |object: &K| object.meta().resource_version.as_ref().and_then(|text| text.parse::<u64>().ok());
    match (version(object), version(other)) {
        (Some(object), Some(other)) => object > other,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;

    fn slice(version: u64, uid: &str, service: &str) -> EndpointSlice {
        EndpointSlice {
            metadata: ObjectMeta {
                namespace: Some("shop".to_owned()),
                name: Some("a".to_owned()),
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_string()),
                labels: Some([(kubernetes::SERVICE_NAME.to_owned(), service.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..EndpointSlice::default()
        }
    }

    fn key(name: &str) -> ServiceKey {
        ServiceKey::parse("shop", name).unwrap()
    }

    #[test]
    fn what_we_wrote_is_no_news_when_the_watch_shows_it_and_older_news_do_not_undo_it() {
        let mut store = Store::default();
        assert_eq!(store.take(slice(5, "u", "web"), false), [key("web")].into());
        assert!(store.take(slice(7, "u", "web"), false).contains(&key("web")), "our own write");
        assert!(store.take(slice(7, "u", "web"), false).is_empty());
        assert!(store.take(slice(6, "u", "old"), false).is_empty());
        assert!(store.of(&key("old")).is_empty());
        assert!(!store.take(slice(4, "u", "web"), true).is_empty(), "a list says how it is");
    }

    #[test]
    fn an_object_that_changes_its_service_concerns_both() {
        let mut store = Store::default();
        store.take(slice(1, "u", "web"), false);
        assert_eq!(store.take(slice(2, "u", "api"), false), [key("api"), key("web")].into());
        assert!(store.of(&key("web")).is_empty() && store.of(&key("api")).len() == 1);
    }

    #[test]
    fn what_we_deleted_is_gone_at_once_and_its_end_does_not_take_the_next_of_its_name_along() {
        let mut store = Store::default();
        store.take(slice(1, "u", "web"), false);
        store.forget(&slice(1, "u", "web"));
        assert!(store.get("shop", "a").is_none());
        assert!(store.take(slice(2, "u", "web"), false).is_empty(), "a late word of it");
        store.take(slice(4, "v", "web"), false);
        store.lose(&slice(3, "u", "web"));
        assert_eq!(store.get("shop", "a").unwrap().uid().unwrap(), "v");
        assert!(!store.lose(&slice(5, "v", "web")).is_empty());
        assert!(store.get("shop", "a").is_none() && store.services().next().is_none());
    }

    #[test]
    fn an_answer_that_is_read_after_the_deletion_brings_nothing_back() {
        let mut store = Store::default();
        store.take(slice(1, "u", "web"), false);
        store.lose(&slice(3, "u", "web"));
        assert!(store.take(slice(2, "u", "web"), false).is_empty(), "what we wrote before it was deleted");
        assert!(store.get("shop", "a").is_none());
        store.retain(&BTreeSet::new());
        assert!(
            !store.take(slice(2, "u", "web"), true).is_empty(),
            "a cluster that was restored has it again"
        );
    }

    #[test]
    fn what_was_made_while_a_list_was_read_is_seen_when_the_watch_shows_it() {
        let mut store = Store::default();
        store.take(slice(5, "u", "web"), false);
        store.retain(&BTreeSet::new());
        assert!(store.get("shop", "a").is_none());
        assert!(!store.take(slice(5, "u", "web"), false).is_empty(), "the watch goes on from the list");
        assert!(store.get("shop", "a").is_some());
    }

    #[test]
    fn only_a_complete_list_takes_something_out() {
        let mut store = Store::default();
        store.take(slice(1, "u", "web"), true);
        assert!(!store.known);
        assert_eq!(store.retain(&BTreeSet::new()), [key("web")].into());
        assert!(store.known);
    }
}
