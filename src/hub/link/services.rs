//! What a member has of multi-cluster services: its ServiceExports and ServiceImports, the slices that its agent offers, those that we
//! wrote, and its Namespaces. Each is watched by itself; an absence counts only after a complete list.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::{core::v1::Namespace, discovery::v1::EndpointSlice},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Resource, ResourceExt, core::PartialObjectMeta};
use kube_runtime::{
    WatchStreamExt,
    watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{task::JoinSet, time::Instant};

use super::session::Session;
use crate::{
    api::{
        ServiceExport, ServiceImport,
        mcs::Version,
        names::{kubernetes, label},
    },
    decide::{
        definition::Definition,
        exchange::{
            Dirty, Exchange, ExportSeen, ImportSeen, Part, export_kind, id, import_kind, service_key,
            source_key,
        },
        ids::ServiceKey,
        select::GroupKind,
    },
    shell::trouble::{Trouble, trouble},
};

/// Between two looks whether a kind is there.
const SOON: Duration = Duration::from_secs(2);
/// When a kind was made anew, what it had may come back for so long: until then an absence says nothing.
const ANEW: Duration = Duration::from_secs(60);

/// What was listed of a part: the service that it belongs to, and its name.
type Listed = BTreeSet<(ServiceKey, Box<str>)>;

/// A custom kind of a member.
#[derive(Clone, Copy)]
struct Custom<'a> {
    kind: &'a GroupKind,
    /// The UID of its definition.
    uid: &'a str,
    /// When an absence begins to count.
    certain: Instant,
}

/// How objects of a part are taken note of.
struct Seen<K> {
    part: Part,
    /// The service that an object belongs to.
    key: fn(&Exchange, &Session, &K) -> Option<ServiceKey>,
    see: fn(&mut Exchange, &Session, &ServiceKey, K) -> Dirty,
    lose: fn(&mut Exchange, &Session, &ServiceKey, &str) -> Dirty,
}

const EXPORTS: Seen<ServiceExport> = Seen {
    part: Part::Exports,
    key: |_, _, export| service_key(&export.metadata),
    see: |exchange, session, key, export| {
        exchange.see_export(&session.name, key, ExportSeen::of(key, &export, &session.hub))
    },
    lose: |exchange, session, key, _| exchange.see_export(&session.name, key, None),
};
const IMPORTS: Seen<ServiceImport> = Seen {
    part: Part::Imports,
    key: |_, _, import| service_key(&import.metadata),
    see: |exchange, session, key, import| {
        exchange.see_import(&session.name, key, ImportSeen::of(key, &import, &session.hub))
    },
    lose: |exchange, session, key, _| exchange.see_import(&session.name, key, None),
};
const SOURCES: Seen<EndpointSlice> = Seen {
    part: Part::Sources,
    key: |_, _, slice| source_key(slice),
    see: |exchange, session, _, slice| exchange.see_source(&session.name, slice).unwrap_or_default(),
    lose: |exchange, session, key, name| exchange.lose_source(&session.name, key, name),
};
const IMPORTED: Seen<EndpointSlice> = Seen {
    part: Part::Imported,
    key: |exchange, session, slice| exchange.imported_of(&session.name, slice).map(|(key, _)| key),
    see: |exchange, session, _, slice| exchange.see_imported(&session.name, &slice),
    lose: |exchange, session, key, name| exchange.doubt_imported(&session.name, key, name),
};

// === impl Session ===

impl Session {
    /// Follows all that a member has of services.
    pub(super) async fn follow_services(self: Arc<Self>) {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().follow_namespaces());
        tasks.spawn(self.clone().follow_exports());
        tasks.spawn(self.clone().follow_imports());
        let slices: Api<EndpointSlice> = Api::all(self.watching[1].clone());
        let sources = watcher::Config::default().labels(label::SOURCE);
        tasks.spawn(self.clone().follow_slices(slices.clone(), sources, SOURCES));
        let ours =
            format!("{}={},{}={}", label::HUB, self.hub, kubernetes::MANAGED_BY, kubernetes::MANAGED_BY_HUB);
        tasks.spawn(self.clone().follow_slices(slices, watcher::Config::default().labels(&ours), IMPORTED));
        // None ends by itself; one that breaks down ends the session.
        while let Some(Ok(())) = tasks.join_next().await {}
    }

    async fn follow_namespaces(self: Arc<Self>) {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.watching[0].clone());
        let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            let there =
                |namespace: &PartialObjectMeta<Namespace>| namespace.metadata.deletion_timestamp.is_none();
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(namespace)) => {
                    if there(&namespace) {
                        listed.insert(namespace.name_any().into());
                        self.engine.exchange(|exchange| {
                            exchange.see_namespace(&self.name, &namespace.name_any(), true)
                        });
                    }
                }
                Ok(Event::InitDone) => {
                    self.engine.exchange(|exchange| exchange.retain_namespaces(&self.name, &listed));
                }
                Ok(Event::Apply(namespace)) => {
                    let there = there(&namespace);
                    self.engine.exchange(|exchange| {
                        exchange.see_namespace(&self.name, &namespace.name_any(), there)
                    });
                }
                Ok(Event::Delete(namespace)) => {
                    self.engine.exchange(|exchange| {
                        exchange.see_namespace(&self.name, &namespace.name_any(), false)
                    });
                }
                Err(e) => {
                    tracing::debug!(member = %self.name, "the watch of Namespaces broke, trying again: {e:#}");
                }
            }
        }
    }

    async fn follow_exports(self: Arc<Self>) {
        self.follow_custom::<ServiceExport>(&export_kind(), EXPORTS).await;
    }

    async fn follow_imports(self: Arc<Self>) {
        self.follow_custom::<ServiceImport>(&import_kind(), IMPORTS).await;
    }

    /// Follows a kind that the member may not have yet, or may lose.
    async fn follow_custom<K>(&self, kind: &GroupKind, seen: Seen<K>)
    where
        K: Resource<DynamicType = Version> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let mut waited_for: Option<String> = None;
        let mut certain = Instant::now();
        loop {
            let Ok(crd) = self.crd(kind).await else {
                tokio::time::sleep(SOON).await;
                continue;
            };
            self.note(seen.part, |exchange| exchange.see_kind(&self.name, seen.part, crd.is_some()));
            let Some(definition) = crd.as_ref().and_then(usable) else {
                tokio::time::sleep(SOON).await;
                continue;
            };
            let uid = definition.uid.clone();
            // By what was last read as a whole, whichever session that was in.
            let another = self.engine.look_exchange(|exchange| {
                exchange.defined_by(&self.name, seen.part).is_some_and(|before| before != uid)
            });
            if another && waited_for.as_ref() != Some(&uid) {
                tracing::info!(member = %self.name, %kind, "the kind was made anew: what it had is kept for a while");
                certain = Instant::now() + ANEW;
                waited_for = Some(uid.clone());
            }
            self.speak(kind, &definition);
            let api: Api<K> = Api::all_with(self.watching[0].clone(), &definition.version);
            let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
            self.follow_listed(events, &seen, Some(Custom { kind, certain, uid: &uid })).await;
            tokio::time::sleep(SOON).await;
        }
    }

    /// Takes note of a change of a part.
    fn note(&self, part: Part, change: impl FnOnce(&mut Exchange) -> Dirty) {
        match part {
            // Admission judges by them too.
            Part::Exports => self.engine.exchange_exports(&self.name, change),
            Part::Imports => self.engine.exchange_imports(&self.name, change),
            _ => self.engine.exchange(change),
        }
    }

    /// The definition of a kind, if it is there, served and stays.
    async fn definition(&self, kind: &GroupKind) -> Option<Definition> {
        self.crd(kind).await.ok()?.as_ref().and_then(usable)
    }

    async fn crd(&self, kind: &GroupKind) -> kube::Result<Option<CustomResourceDefinition>> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.writer.clone());
        crds.get_opt(&format!("{}s.{}", kind.kind.to_lowercase(), kind.group)).await
    }

    async fn follow_slices(
        self: Arc<Self>,
        api: Api<EndpointSlice>,
        config: watcher::Config,
        seen: Seen<EndpointSlice>,
    ) {
        let events = watcher::watcher(api, config).default_backoff();
        self.follow_listed(events, &seen, None).await;
    }

    /// Takes note of what a watch shows. Of a custom kind it ends when the kind is gone, or when an absence begins to count.
    async fn follow_listed<K>(
        &self,
        events: impl futures::Stream<Item = watcher::Result<Event<K>>>,
        seen: &Seen<K>,
        custom: Option<Custom<'_>>,
    ) where
        K: Resource + Clone,
    {
        pin_mut!(events);
        let (mut listed, mut stale) = (Listed::new(), BTreeSet::new());
        let later = custom.map(|custom| custom.certain).filter(|certain| *certain > Instant::now());
        loop {
            let next = match later {
                Some(later) => tokio::time::timeout_at(later, events.next()).await,
                None => Ok(events.next().await),
            };
            let Ok(Some(event)) = next else { return };
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    self.engine.exchange(|exchange| exchange.begin(&self.name, seen.part));
                    stale = self.engine.look_exchange(|exchange| exchange.refused_of(&self.name, seen.part));
                }
                Ok(Event::InitApply(object)) => {
                    stale.remove(&id(seen.part, object.meta()));
                    let key = self.engine.look_exchange(|exchange| (seen.key)(exchange, self, &object));
                    if let Some(key) = key {
                        listed.insert((key, object.name_any().into()));
                    }
                    self.take(seen, object);
                }
                Ok(Event::InitDone) if later.is_none() => {
                    if seen.part == Part::Sources {
                        self.look_for_sources(&mut listed).await;
                    }
                    self.note(seen.part, |exchange| {
                        if let Some(custom) = custom {
                            exchange.define(&self.name, seen.part, custom.uid);
                        }
                        let mut dirty = exchange.retain(&self.name, seen.part, &listed);
                        dirty.extend(stale.iter().flat_map(|id| exchange.forgive(&self.name, id)));
                        dirty
                    });
                    listed.clear();
                    self.engine.tell_unknown();
                    self.engine.report.look_again();
                    self.engine.trust_changed.notify_one();
                }
                Ok(Event::InitDone) => {
                    if seen.part == Part::Imports {
                        self.note(seen.part, |exchange| exchange.retain_users_imports(&self.name, &listed));
                    }
                    listed.clear();
                }
                Ok(Event::Apply(object)) => self.take(seen, object),
                Ok(Event::Delete(object)) => {
                    if let Some(custom) = custom
                        && self
                            .definition(custom.kind)
                            .await
                            .is_none_or(|definition| definition.uid != custom.uid)
                    {
                        // The whole kind goes, or went and was made anew: that says nothing of what it had.
                        return;
                    }
                    if seen.part == Part::Sources {
                        let key = self.engine.look_exchange(|exchange| (seen.key)(exchange, self, &object));
                        if let Some(key) = key
                            && self.still_has_source(&key, &object.name_any()).await
                        {
                            continue;
                        }
                    }
                    self.lose_one(seen, &object);
                }
                Err(e) => {
                    tracing::debug!(member = %self.name, part = ?seen.part, "a watch broke, trying again: {e:#}");
                    if custom.is_some() && super::kinds::is_not_served(&e) {
                        return;
                    }
                }
            }
        }
    }

    /// Adds to the source slices that were listed by their label what is there without it.
    async fn look_for_sources(&self, listed: &mut Listed) {
        let missing =
            self.engine.look_exchange(|exchange| exchange.unlisted(&self.name, Part::Sources, listed));
        for (key, name) in missing {
            if self.still_has_source(&key, &name).await {
                listed.insert((key, name));
            }
        }
    }

    /// Whether a source slice that a watch by its label no longer shows is there all the same: somebody took the label off, and the agent
    /// puts it back. Of what is not exported any more it does not matter.
    async fn still_has_source(&self, key: &ServiceKey, name: &str) -> bool {
        if self.engine.look_exchange(|exchange| exchange.export(&self.name, key).is_none()) {
            return false;
        }
        let api: Api<EndpointSlice> = Api::namespaced(self.writer.clone(), key.namespace.as_str());
        loop {
            match api.get_metadata_opt(name).await {
                Ok(found) => {
                    return found.is_some_and(|slice| slice.metadata.deletion_timestamp.is_none());
                }
                // What nobody may look at is not known to be gone: the next list tells.
                Err(e) if matches!(trouble(&e), Trouble::Forbidden | Trouble::Object) => return true,
                // It ends with the session, which a link that stays down ends.
                Err(e) => {
                    tracing::debug!(member = %self.name, service = %key, slice = name, "looking again whether it is gone: {e}");
                    tokio::time::sleep(SOON).await;
                }
            }
        }
    }

    /// Takes note of an object.
    fn take<K: Resource>(&self, seen: &Seen<K>, object: K) {
        let id = id(seen.part, object.meta());
        self.note(seen.part, |exchange| match (seen.key)(exchange, self, &object) {
            Some(key) => (seen.see)(exchange, self, &key, object),
            // Slices by our own label may be anybody's.
            None if seen.part == Part::Imported => Dirty::new(),
            None => exchange.see_nameless(&self.name, id),
        });
    }

    /// Takes note that an object is gone.
    fn lose_one<K: Resource>(&self, seen: &Seen<K>, object: &K) {
        self.note(seen.part, |exchange| {
            let mut dirty = exchange.forgive(&self.name, &id(seen.part, object.meta()));
            if let Some(key) = (seen.key)(exchange, self, object) {
                dirty.extend((seen.lose)(exchange, self, &key, &object.name_any()));
            }
            dirty
        });
    }
}

fn usable(crd: &CustomResourceDefinition) -> Option<Definition> {
    Definition::of(crd).filter(|definition| definition.usable)
}
