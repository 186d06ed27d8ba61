//! What all parts of the propagator share: what is to be where, the links to the members, and who reports.
//!
//! Watches feed the world through [`Engine::change`]; what that makes dirty goes to the links' queues. No lock is held across an
//! await, and the view's is always taken before the world's.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{lines::Lines, link::Link, report::Report, served::Served};
use crate::{
    api::{Cluster, names::annotation},
    decide::{
        action::{Certainty, Observed},
        claims::{Claimed, Claims, Unclaimed},
        copy::{NAMED, ObjectKey, Origin},
        definition::Dialect,
        exchange::{self, Exchange, Part, Plan, Rules, Summary, export_kind, import_kind},
        ids::{ClusterName, ServiceKey},
        policies::PolicyKey,
        select::GroupKind,
        view::View,
        world::{Absence, Desired, Dirty, Failures, Outcome, Unseen, World},
    },
    shell::{lease::Claim, metrics, queue::Urgency},
    webhook::server::SharedView,
};

/// What all parts of the propagator share.
pub struct Engine {
    /// Reads on the hub.
    pub hub: Client,
    /// Watches on the hub.
    pub watching: Client,
    /// Watches on the hub of which every member has some.
    pub lines: Lines,
    /// Writes on the hub, while this replica leads.
    pub writer: Client,
    /// Whether this replica leads.
    pub claim: Claim,
    /// Policies, Clusters and Namespaces.
    pub view: SharedView,
    /// What members have, and what becomes of it, for those who ask.
    pub report: Report,
    /// What is counted.
    pub metrics: metrics::Propagation,
    /// Tombolo's own namespace on the hub.
    pub namespace: String,
    /// Whether Namespaces that a member lacks are made there.
    pub create_namespaces: bool,
    /// Told when other kinds may have to be watched.
    pub kinds_changed: Notify,
    /// Told when members may have come, gone or changed.
    pub members_changed: Notify,
    /// Told when something of a member is not believed any more, or is again.
    pub trust_changed: Notify,
    /// What the hub serves.
    served: RwLock<Arc<Served>>,
    world: RwLock<World>,
    /// Taken after the view's lock and the world's.
    exchange: RwLock<Exchange>,
    links: RwLock<BTreeMap<ClusterName, Arc<Link>>>,
    /// Which API server is which member; taken after the view's lock and the links'.
    claims: Mutex<Claims>,
    /// How often something changed, for those who look now and then.
    stirs: AtomicU64,
}

/// What an engine is made of.
#[expect(missing_debug_implementations, reason = "clients have none")]
pub struct Parts {
    /// Reads on the hub.
    pub hub: Client,
    /// Watches on the hub.
    pub watching: Client,
    /// Watches on the hub of which every member has some.
    pub lines: Lines,
    /// Writes on the hub, while this replica leads.
    pub writer: Client,
    /// Whether this replica leads.
    pub claim: Claim,
    /// Policies, Clusters and Namespaces.
    pub view: SharedView,
    /// What is counted.
    pub metrics: metrics::Propagation,
    /// Tombolo's own namespace on the hub.
    pub namespace: String,
    /// Whether Namespaces that a member lacks are made there.
    pub create_namespaces: bool,
    /// The hub's id.
    pub id: Arc<str>,
    /// Which services are imported without being asked for.
    pub rules: Rules,
}

// === impl Engine ===

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("links", &self.links.read().keys()).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(parts: Parts) -> Self {
        let Parts {
            hub,
            watching,
            lines,
            writer,
            claim,
            view,
            metrics,
            namespace,
            create_namespaces,
            id,
            rules,
        } = parts;
        Self {
            hub,
            watching,
            lines,
            writer,
            claim,
            view,
            report: Report::default(),
            metrics,
            namespace,
            create_namespaces,
            kinds_changed: Notify::new(),
            members_changed: Notify::new(),
            trust_changed: Notify::new(),
            served: RwLock::default(),
            exchange: RwLock::new(Exchange::new(id.clone(), rules)),
            world: RwLock::new(World::new(id)),
            links: RwLock::default(),
            claims: Mutex::default(),
            stirs: AtomicU64::default(),
        }
    }

    /// How often something changed: whoever finds the same number twice need not look.
    pub fn stirs(&self) -> u64 {
        self.stirs.load(Ordering::Relaxed)
    }

    /// Takes note that something has changed.
    fn stir(&self) {
        self.stirs.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the world, and sees to it that what this concerns is looked at.
    pub fn change(&self, change: impl FnOnce(&mut World, &View) -> Dirty) {
        let dirty = {
            let view = self.view.read();
            let mut world = self.world.write();
            let dirty = change(&mut world, &view);
            self.touch_policies(&mut world, &dirty);
            dirty
        };
        self.stir();
        self.look_at(dirty);
    }

    /// Has those policies reported of which there is something to tell.
    fn touch_policies(&self, world: &mut World, dirty: &Dirty) {
        let stirred = world.take_stirred();
        let policies = dirty.iter().filter_map(|(_, key)| world.assignment(key)?.policy.clone());
        self.report.touch(stirred.into_iter().chain(policies));
    }

    /// Has members look at what a change of the world concerns.
    fn look_at(&self, dirty: Dirty) {
        // What places an export or an import decides who imports the service.
        let services: BTreeSet<_> = dirty.iter().filter_map(|(_, key)| exchanged(key)).collect();
        let links = self.links.read();
        for (cluster, key) in dirty {
            if let Some(link) = links.get(&cluster) {
                link.add(key, Urgency::Now);
            }
        }
        for key in services {
            links.values().for_each(|link| link.add_service(key.clone(), Urgency::Now));
        }
    }

    /// Looks at the world.
    pub fn look<T>(&self, look: impl FnOnce(&World, &View) -> T) -> T {
        let view = self.view.read();
        look(&self.world.read(), &view)
    }

    /// Changes what is known of services, and sees to it that what this concerns is looked at.
    pub fn exchange(&self, change: impl FnOnce(&mut Exchange) -> exchange::Dirty) {
        let (dirty, news) = {
            let mut exchange = self.exchange.write();
            (change(&mut exchange), exchange.take_news())
        };
        self.stir();
        self.tell_refused(&news);
        self.look_at_services(dirty);
    }

    /// Says and counts what of a member is not believed.
    fn tell_refused(&self, news: &[exchange::News]) {
        for exchange::News { cluster, object, refused } in news {
            match refused {
                Some(refused) => {
                    tracing::warn!(member = %cluster, object, "it is not believed: {refused}");
                    self.metrics.refused(cluster, refused.reason);
                }
                None => tracing::info!(member = %cluster, object, "it is believed again, or gone"),
            }
        }
        if !news.is_empty() {
            self.trust_changed.notify_one();
        }
    }

    /// Takes note of the ranges that members' endpoints must be in.
    pub fn take_ranges(&self) {
        let members = self.view.read().members().clone();
        for (name, member) in members {
            self.exchange(|exchange| exchange.set_ranges(&name, member.endpoint_ranges));
        }
    }

    /// Changes what is known of a member's exports, which admission judges by.
    pub fn exchange_exports(
        &self,
        cluster: &ClusterName,
        change: impl FnOnce(&mut Exchange) -> exchange::Dirty,
    ) {
        let (dirty, records, news) = {
            let mut exchange = self.exchange.write();
            let dirty = change(&mut exchange);
            let keys: BTreeSet<_> = dirty.iter().map(|(_, key)| key).collect();
            let records = keys.into_iter().map(|key| (key.clone(), exchange.export(cluster, key)));
            let records: Vec<_> = records.collect();
            (dirty, records, exchange.take_news())
        };
        self.stir();
        self.tell_refused(&news);
        if !records.is_empty() {
            let mut view = self.view.write();
            for (key, record) in records {
                view.record(key, cluster.clone(), record);
            }
        }
        self.look_at_services(dirty);
    }

    /// Changes what is known of a member's imports, which placement goes by. No plan sees the one without the other: it would take an
    /// import for one that is not to be there.
    pub fn exchange_imports(
        &self,
        cluster: &ClusterName,
        change: impl FnOnce(&mut Exchange) -> exchange::Dirty,
    ) {
        let (dirty, moved, news) = {
            let view = self.view.read();
            let mut world = self.world.write();
            let mut exchange = self.exchange.write();
            let dirty = change(&mut exchange);
            let moved = exchange.tell_importer(&mut world, &view, cluster, &dirty);
            self.touch_policies(&mut world, &moved);
            (dirty, moved, exchange.take_news())
        };
        self.stir();
        self.tell_refused(&news);
        self.look_at(moved);
        self.look_at_services(dirty);
    }

    fn look_at_services(&self, dirty: exchange::Dirty) {
        {
            let view = self.view.read();
            let told =
                |key: &&ServiceKey| view.exports().contains_key(*key) || view.imports().contains_key(*key);
            let keys: BTreeSet<_> = dirty.iter().map(|(_, key)| key).collect();
            self.report.touch_services(keys.into_iter().filter(told).cloned());
        }
        let links = self.links.read();
        for (cluster, key) in dirty {
            if let Some(link) = links.get(&cluster) {
                link.add_service(key, Urgency::Now);
            }
        }
    }

    /// Tells admission whose exports are not known.
    pub fn tell_unknown(&self) {
        let links = self.links.read().keys().cloned().collect::<Vec<_>>();
        let unknown = {
            let exchange = self.exchange.read();
            links.into_iter().filter(|name| !exchange.knows(name, Part::Exports)).collect()
        };
        self.view.write().set_unknown(unknown);
    }

    /// Looks at what is known of services.
    pub fn look_exchange<T>(&self, look: impl FnOnce(&Exchange) -> T) -> T {
        look(&self.exchange.read())
    }

    /// What is to be done in a member for a service.
    pub fn plan(&self, cluster: &ClusterName, key: &ServiceKey, dialect: Dialect) -> Plan {
        let view = self.view.read();
        let world = self.world.read();
        self.exchange.read().plan(&view, &world, cluster, key, dialect)
    }

    /// What is said of a service on the hub.
    pub fn summary(&self, key: &ServiceKey) -> Summary {
        let view = self.view.read();
        let world = self.world.read();
        self.exchange.read().summary(&view, &world, key)
    }

    /// What became of a policy, and whether that is certain: not while it is not known which imports its clusters have.
    pub fn outcome(&self, policy: &PolicyKey, failures: &Failures, unseen: &Unseen) -> (Outcome, bool) {
        let (view, world, exchange) = (self.view.read(), self.world.read(), self.exchange.read());
        let certain = Cell::new(true);
        let imported = |cluster: &ClusterName, key: &ObjectKey| {
            certain.set(certain.get() && exchange.knows(cluster, Part::Imports));
            exchanged(key).is_some_and(|service| exchange.is_imported(cluster, &service))
        };
        (world.outcome(&view, policy, failures, unseen, imported), certain.get())
    }

    /// Makes certain, by a live look at the hub, that an export or import is no longer wanted in a member.
    pub async fn is_to_go(&self, origin: &Origin, why: Absence) -> kube::Result<bool> {
        super::certainty::is_to_go(self, origin, why).await
    }

    /// What is to be in a cluster.
    pub fn desired(&self, cluster: &ClusterName, key: &ObjectKey, body: Option<Value>) -> Desired {
        self.look(|world, view| world.desired(view, cluster, key, body))
    }

    /// The hub's id.
    pub fn id(&self) -> Arc<str> {
        self.world.read().hub().clone()
    }

    /// Follows the view: what changed there may place objects elsewhere.
    pub async fn follow(&self, changed: &Notify) {
        loop {
            changed.notified().await;
            self.stir();
            let changes = self.view.write().take_changes();
            let policies = !changes.reach.is_empty() || changes.overrides;
            let members = !changes.members.is_empty();
            if policies || members || changes.synced {
                self.change(|world, view| world.reconsider(view, &changes));
            }
            if policies || changes.synced {
                self.kinds_changed.notify_one();
            }
            if changes.synced {
                self.report.touch_all();
            }
            self.report.touch(changes.policies);
            if members || changes.synced {
                self.take_ranges();
                self.exchange(|exchange| exchange.everything());
            }
            for key in &changes.services {
                self.report.forget_told(key);
                self.report.touch_services([key.clone()]);
                self.exchange(|exchange| exchange.reconsider(key));
            }
            if changes.clusters || changes.synced {
                self.members_changed.notify_one();
            }
        }
    }

    /// What the hub serves.
    pub fn served(&self) -> Arc<Served> {
        self.served.read().clone()
    }

    /// Takes note of what the hub serves.
    pub fn set_served(&self, served: Served) {
        *self.served.write() = Arc::new(served);
    }

    /// The links to the members.
    pub fn links(&self) -> BTreeMap<ClusterName, Arc<Link>> {
        self.links.read().clone()
    }

    /// Adds a link to a member.
    pub fn add_link(&self, link: Arc<Link>) {
        self.links.write().insert(link.name.clone(), link);
    }

    /// Claims an API server for a member, by its id and the member that its mark names.
    pub fn claim(&self, name: &ClusterName, server: &Arc<str>, marked: Option<&str>) -> Claimed {
        let (view, links) = (self.view.read(), self.links.read());
        let mut known = Unclaimed::default();
        for other in view.members().keys() {
            match links.get(other).map(|link| (link.health.is_unknown(), link.health.leads_elsewhere())) {
                None | Some((true, _)) => drop(known.unasked.insert(other.clone())),
                Some((false, true)) => drop(known.elsewhere.insert(other.clone())),
                Some((false, false)) => {}
            }
        }
        let claimed = self.claims.lock().claim(&view, name, server, marked, &known);
        if let Claimed::Ousted(other) = &claimed
            && let Some(link) = links.get(other)
        {
            link.renew();
        }
        claimed
    }

    /// Records on a Cluster which API server it has, for whoever comes after us and finds it silent.
    pub async fn record_server(
        &self,
        clusters: &Api<Cluster>,
        cluster: &Cluster,
        name: &ClusterName,
    ) -> kube::Result<()> {
        let Some(server) = self.claims.lock().held_by(name).cloned() else { return Ok(()) };
        if cluster.annotations().get(annotation::API_SERVER).is_some_and(|told| *told == *server) {
            return Ok(());
        }
        let annotations = json!({ annotation::API_SERVER: &*server });
        let patch = json!({ "metadata": { "uid": cluster.uid(), "annotations": annotations } });
        clusters.patch(name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
    }

    /// Takes a link away, of a member that is gone.
    pub fn remove_link(&self, name: &ClusterName) {
        self.links.write().remove(name);
        self.claims.lock().release(name);
        self.change(|world, view| world.forget_member(view, name));
        self.exchange_exports(name, |exchange| exchange.forget(name));
        self.tell_unknown();
        self.report.forget(name);
        self.metrics.forget(name);
    }

    /// Takes note of whether we lead. If so, looks at everything again, in every member.
    pub fn set_leads(&self, leads: bool) {
        self.change(|world, view| {
            if leads {
                // Under the world's lock: nobody tells between the two that a member is known.
                self.links.read().values().for_each(|link| link.read_record());
            }
            world.set_leads(view, leads)
        });
        if !leads {
            return;
        }
        for link in self.links().values() {
            link.look_at_everything();
        }
        self.report.touch_all();
        self.members_changed.notify_one();
    }

    /// The kinds that have to be watched on the hub.
    pub fn wanted_kinds(&self) -> BTreeSet<GroupKind> {
        self.look(|world, view| {
            let mut kinds = view.propagations().kinds();
            if view.propagations().any(|says| says.propagate_deps) {
                kinds.extend(NAMED.map(|kind| GroupKind { group: "".into(), kind: kind.into() }));
            }
            kinds.extend(world.held_kinds());
            kinds
        })
    }

    /// Why it is not certain, after a live look at the hub, that an object is to be removed from a member; none if it is.
    pub async fn doubt(&self, certainty: &Certainty, key: &ObjectKey) -> kube::Result<Option<&'static str>> {
        match certainty {
            Certainty::Given => Ok(None),
            Certainty::NoTemplate(origin) => {
                let gone = super::certainty::template_is_gone(self, key, origin).await?;
                Ok((!gone).then_some(super::certainty::KIND_MAY_BE_GONE))
            }
            Certainty::Policies { kinds, policy } => {
                super::certainty::doubt_of_policies(self, key, kinds, policy.as_deref()).await
            }
        }
    }

    /// Takes note of a copy in a member.
    pub fn hold(&self, cluster: &ClusterName, key: &ObjectKey, observed: Option<&Observed>) {
        let held = observed.filter(|observed| observed.is_ours()).map(|observed| observed.held.clone());
        let new_kind = held.is_some() && self.look(|world, _| world.kind(&key.kind).is_none());
        let lost = held.is_none();
        self.change(|world, view| world.hold(view, cluster, key, held));
        // What nobody selects any more still follows its template, as long as somebody has it.
        if new_kind || (lost && self.look(|world, _| !world.holds_any(&key.kind))) {
            self.kinds_changed.notify_one();
        }
    }
}

/// The service that an export or import on the hub is about.
pub(super) fn exchanged(key: &ObjectKey) -> Option<ServiceKey> {
    let about = key.kind == export_kind() || key.kind == import_kind();
    about.then(|| ServiceKey::parse(&key.namespace, &key.name).ok()).flatten()
}
