//! The exchange on small fleets: plans are carried out on members that are only objects, with an agent that announces derived Services.

#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

mod bridge;
mod changes;
mod conditions;
mod freezes;
mod imports;
mod news;
mod placement;
mod properties;
mod renames;
mod silence;
mod slices;
mod summary;
mod tally;
mod trust;

use globset::{Glob, GlobSetBuilder};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{
        Cluster, PropagationPolicy, ServiceExport, ServiceImport,
        mcs::Version,
        names::{annotation, label},
    },
    decide::{definition::Dialect, derived, merge::ServiceSpec, record, world::World},
};

/// What an importing member gets: source cluster, address, and ports by name.
type Got = (String, String, Vec<(String, i32)>);

/// A fleet: what its members have, and what the hub knows.
pub(super) struct Fleet {
    pub(super) view: View,
    pub(super) world: World,
    pub(super) exchange: Exchange,
    /// By member and name.
    pub(super) exports: BTreeMap<(String, String), Value>,
    pub(super) imports: BTreeMap<(String, String), Value>,
    pub(super) slices: BTreeMap<(String, String), EndpointSlice>,
    uids: u32,
    pub(super) dialect: Dialect,
    /// Whether the agents say nothing of what they serve.
    pub(super) busy: bool,
    /// Whether a live look at the hub says that what seems to be gone from there is.
    pub(super) certain: bool,
}

pub(super) fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

pub(super) fn serve() -> ServiceKey {
    ServiceKey::parse("shop", "serve").unwrap()
}

fn globs(patterns: &[&str]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).unwrap());
    }
    set.build().unwrap()
}

/// A Service of these ports.
pub(super) fn ports(ports: &[(&str, u16)]) -> ServiceSpec {
    let ports = ports.iter().map(|(name, port)| crate::decide::ports::Port {
        name: name.parse().unwrap(),
        key: crate::decide::ports::PortKey { port: *port, protocol: crate::decide::ports::Protocol::Tcp },
        app_protocol: None,
    });
    ServiceSpec { ports: ports.collect(), ..ServiceSpec::default() }
}

fn blank() -> (View, World) {
    let mut view = View::new("tombolo-system");
    view.retain_clusters(&BTreeSet::new());
    view.retain_namespaces(&BTreeSet::new());
    view.retain_propagation_policies(&BTreeSet::new());
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    view.retain_override_policies(&BTreeSet::new());
    view.retain_cluster_override_policies(&BTreeSet::new());
    view.retain_services(&BTreeSet::new());
    view.retain_exports(&BTreeSet::new());
    view.retain_imports(&BTreeSet::new());
    let mut world = World::new("hub".into());
    world.set_policy_kinds("p".into());
    for kind in [import_kind(), export_kind()] {
        world.open_kind(kind.clone(), "multicluster.x-k8s.io/v1beta1".into(), Some("crd".into()));
        world.retain_templates(&view, &kind, &BTreeSet::new());
    }
    (view, world)
}

fn rules() -> Rules {
    Rules { automatic: true, denied: globs(&["kube-*", "tombolo-system"]), allowed: globs(&["*"]) }
}

impl Fleet {
    /// Members that all have the namespace `shop`.
    pub(super) fn of(members: &[&str]) -> Self {
        let (view, world) = blank();
        let mut fleet = Self {
            view,
            world,
            exchange: Exchange::new("hub".into(), rules()),
            exports: BTreeMap::new(),
            imports: BTreeMap::new(),
            slices: BTreeMap::new(),
            uids: 0,
            dialect: Dialect { version: Version::V1Beta1, traffic: true },
            busy: false,
            certain: true,
        };
        for member in members {
            fleet.join(member, json!({}));
            fleet.read(member);
            fleet.exchange.see_namespace(&cluster(member), "shop", true);
        }
        fleet
    }

    pub(super) fn join(&mut self, member: &str, more: Value) {
        let mut object = json!({ "metadata": { "name": member }, "spec": { "syncMode": "Push" } });
        json_patch::merge(&mut object, &more);
        self.view.apply_cluster(serde_json::from_value::<Cluster>(object).unwrap());
        self.changed();
    }

    /// Notes on the Clusters that these members are in use, as a hub does that reads them.
    pub(super) fn used(&mut self, members: &[&str]) {
        for member in members {
            self.join(member, json!({ "metadata": { "annotations": { annotation::API_SERVER: member } } }));
        }
    }

    /// Reads everything of a member, as after its link came up.
    pub(super) fn read(&mut self, member: &str) {
        let name = cluster(member);
        let mut listed: BTreeMap<Part, BTreeSet<(ServiceKey, Box<str>)>> = BTreeMap::new();
        for ((at, service), object) in self.exports.clone() {
            if at == member {
                self.see_export(member, &object);
                let key = ServiceKey::parse("shop", &service).unwrap();
                listed.entry(Part::Exports).or_default().insert((key, service.as_str().into()));
            }
        }
        for ((at, service), object) in self.imports.clone() {
            if at == member {
                self.see_import(member, &object);
                let key = ServiceKey::parse("shop", &service).unwrap();
                listed.entry(Part::Imports).or_default().insert((key, service.as_str().into()));
            }
        }
        for ((at, slice), object) in self.slices.clone() {
            if at == member {
                let part = if source_key(&object).is_some() { Part::Sources } else { Part::Imported };
                let key = source_key(&object).or_else(|| SliceSeen::of(&object).map(|(key, _)| key)).unwrap();
                self.see_slice(member, object);
                listed.entry(part).or_default().insert((key, slice.as_str().into()));
            }
        }
        for part in Part::ALL {
            let listed = listed.remove(&part).unwrap_or_default();
            self.note_imports(member, |exchange| exchange.retain(&name, part, &listed));
        }
    }

    /// The hub starts anew: it knows its own objects, and nothing of members.
    pub(super) fn restart(&mut self) {
        self.exchange = Exchange::new("hub".into(), rules());
        let members: Vec<_> = self.view.members().keys().cloned().collect();
        for member in members {
            self.world.forget_member(&self.view, &member);
            self.exchange.see_namespace(&member, "shop", true);
        }
    }

    fn changed(&mut self) {
        let changes = self.view.take_changes();
        self.world.reconsider(&self.view, &changes);
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// A template on the hub, and where a policy places it; nowhere if there is no policy.
    pub(super) fn template(&mut self, kind: &str, name: &str, spec: Value, placed: Option<&[&str]>) {
        let object = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": kind, "spec": spec,
            "metadata": { "namespace": "shop", "name": name, "uid": format!("template-{name}") },
        });
        if kind == "ServiceImport" {
            self.view.apply_import(serde_json::from_value(object.clone()).unwrap());
        } else {
            self.view.apply_export(serde_json::from_value(object.clone()).unwrap());
        }
        if let Some(clusters) = placed {
            self.place(kind, name, json!({ "clusterAffinity": { "clusterNames": clusters } }));
        }
        self.changed();
        let kind = if kind == "ServiceImport" { import_kind() } else { export_kind() };
        let key = object_key(kind, &ServiceKey::parse("shop", name).unwrap());
        self.world.apply_template(&self.view, &key, &object);
    }

    /// A policy for a template on the hub.
    pub(super) fn place(&mut self, kind: &str, name: &str, placement: Value) {
        let policy: PropagationPolicy = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": format!("{}-{name}", kind.to_lowercase()) },
            "spec": {
                "resourceSelectors": [{ "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": kind, "name": name, "namespace": "shop" }],
                "placement": placement,
            },
        }))
        .unwrap();
        self.view.apply_propagation_policy(policy);
        self.changed();
    }

    pub(super) fn no_template(&mut self, kind: &str, name: &str) {
        let key = ServiceKey::parse("shop", name).unwrap();
        let object = if kind == "ServiceImport" {
            self.view.delete_import(&key);
            object_key(import_kind(), &key)
        } else {
            self.view.delete_export(&key);
            object_key(export_kind(), &key)
        };
        self.world.delete_template(&self.view, &object);
    }

    /// Somebody exports `serve` in a member; later ones are younger. Its agent offers one endpoint.
    pub(super) fn export(&mut self, member: &str, age: u32, service: ServiceSpec) {
        self.export_record(member, age, Some(record::write(&service)));
        let port = |port: &crate::decide::ports::Port| json!({ "name": port.name.to_string(), "port": 8000 + u32::from(port.key.port), "protocol": "TCP" });
        let address = format!("10.{}.0.{age}", member.bytes().map(u32::from).sum::<u32>() % 200);
        self.source(member, &address, service.ports.iter().map(port).collect());
    }

    pub(super) fn export_record(&mut self, member: &str, age: u32, record: Option<String>) {
        let mut export = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
            "metadata": { "namespace": "shop", "name": "serve", "uid": self.uid(),
                          "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z") },
        });
        let before = self.exports.get(&(member.to_owned(), "serve".to_owned()));
        match (record, before) {
            (Some(record), _) => {
                export["metadata"]["annotations"] = json!({ annotation::EXPORT_RECORD: record });
            }
            // As an agent says that there is no Service any more.
            (None, Some(before)) => {
                export["metadata"]["uid"] = before["metadata"]["uid"].clone();
                export["status"] = json!({ "conditions": [{
                    "type": "Valid", "status": "False", "reason": "NoService", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }] });
            }
            (None, None) => {}
        }
        self.exports.insert((member.to_owned(), "serve".to_owned()), export.clone());
        self.see_export(member, &export);
    }

    /// Somebody deletes an export and makes it again, and the hub sees only that it is another.
    pub(super) fn export_again(&mut self, member: &str, age: u32) {
        self.exports.remove(&(member.to_owned(), "serve".to_owned()));
        self.export_record(member, age, None);
    }

    pub(super) fn source(&mut self, member: &str, address: &str, ports: Vec<Value>) {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "serve-source-a", "labels": { label::SOURCE: "serve" } },
            "addressType": "IPv4", "ports": ports, "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        }))
        .unwrap();
        self.slices.insert((member.to_owned(), "serve-source-a".to_owned()), slice.clone());
        self.see_slice(member, slice);
    }

    /// Somebody no longer exports it.
    pub(super) fn unexport(&mut self, member: &str) {
        self.exports.remove(&(member.to_owned(), "serve".to_owned()));
        self.slices.remove(&(member.to_owned(), "serve-source-a".to_owned()));
        self.exchange.see_export(&cluster(member), &serve(), None);
        self.exchange.lose_source(&cluster(member), &serve(), "serve-source-a");
    }

    fn see_export(&mut self, member: &str, object: &Value) {
        let export: ServiceExport = serde_json::from_value(object.clone()).unwrap();
        let seen = ExportSeen::of(&serve(), &export, "hub");
        self.exchange.see_export(&cluster(member), &serve(), seen);
    }

    pub(super) fn see_import(&mut self, member: &str, object: &Value) {
        let import: ServiceImport = serde_json::from_value(object.clone()).unwrap();
        let seen = ImportSeen::of(&serve(), &import, "hub");
        self.note_imports(member, |exchange| exchange.see_import(&cluster(member), &serve(), seen));
    }

    /// Takes note of a change of a member's imports, as the hub's engine does.
    fn note_imports(&mut self, member: &str, change: impl FnOnce(&mut Exchange) -> Dirty) {
        let dirty = change(&mut self.exchange);
        let _ = self.exchange.tell_importer(&mut self.world, &self.view, &cluster(member), &dirty);
    }

    fn see_slice(&mut self, member: &str, slice: EndpointSlice) {
        if source_key(&slice).is_some() {
            self.exchange.see_source(&cluster(member), slice).unwrap();
        } else {
            self.exchange.see_imported(&cluster(member), &slice);
        }
    }

    pub(super) fn plan(&self, member: &str) -> Plan {
        self.exchange.plan(&self.view, &self.world, &cluster(member), &serve(), self.dialect)
    }

    /// Carries out plans until there is nothing to do, as hub and agents do; says how many writes that took.
    pub(super) fn settle(&mut self) -> usize {
        let members: Vec<_> = self.view.members().keys().map(ToString::to_string).collect();
        let mut writes = 0;
        for _ in 0..20 {
            let before = writes;
            for member in &members {
                let plan = self.plan(member);
                writes += self.carry_out(member, plan);
            }
            if writes == before {
                return writes;
            }
        }
        panic!("it does not come to rest");
    }

    /// The agent of a member says that it serves its import as that is.
    pub(super) fn serve(&mut self, member: &str) {
        let import = self.imports.get_mut(&(member.to_owned(), "serve".to_owned())).unwrap();
        serves(import);
        let import = import.clone();
        self.see_import(member, &import);
    }

    fn carry_out(&mut self, member: &str, plan: Plan) -> usize {
        for (from, ..) in &plan.abandoned {
            self.exchange.withdraw(from, &serve());
        }
        if !plan.abandoned.is_empty() {
            return 1;
        }
        if plan.doubted.is_some() && self.certain {
            self.exchange.release(&serve());
            return 1;
        }
        let at = (member.to_owned(), "serve".to_owned());
        let mut writes = 0;
        if let Some((_, conditions)) = plan.export {
            writes += 1;
            let mut export = self.exports[&at].clone();
            let now = "2026-01-01T00:00:00Z".parse().unwrap();
            let conditions = conditions.iter().map(|wanted| json!(wanted.dated(&[], None, now)));
            // What its agent says stays.
            let valid = export["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let valid = valid.into_iter().filter(|told| told["type"] == "Valid");
            export["status"] = json!({ "conditions": conditions.chain(valid).collect::<Vec<_>>() });
            self.exports.insert(at.clone(), export.clone());
            self.see_export(member, &export);
        }
        match plan.import {
            ImportStep::Nothing => {}
            ImportStep::Apply(object) => {
                writes += 1;
                let mut import = self
                    .imports
                    .get(&at)
                    .cloned()
                    .unwrap_or_else(|| json!({ "metadata": { "uid": self.uid() } }));
                import["metadata"]["labels"] = object["metadata"]["labels"].clone();
                // Its agent announces the derived Service at once.
                import["metadata"]["annotations"] = object["metadata"]["annotations"].clone();
                import["metadata"]["annotations"][crate::api::names::mcs::DERIVED_SERVICE] =
                    derived::plain_name(&serve()).unwrap().into();
                import["metadata"]["name"] = "serve".into();
                import["metadata"]["namespace"] = "shop".into();
                import["spec"] = object["spec"].clone();
                let generation = import["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
                import["metadata"]["generation"] = generation.into();
                if !self.busy {
                    serves(&mut import);
                }
                self.imports.insert(at.clone(), import.clone());
                self.see_import(member, &import);
            }
            ImportStep::Delete { .. } => {
                writes += 1;
                self.imports.remove(&at);
                self.note_imports(member, |exchange| exchange.see_import(&cluster(member), &serve(), None));
            }
        }
        if let Some((_, clusters)) = plan.clusters
            && let Some(import) = self.imports.get_mut(&at)
        {
            writes += 1;
            let clusters: Vec<_> = clusters.iter().map(|name| json!({ "cluster": name.as_str() })).collect();
            import["status"]["clusters"] = json!(clusters);
            let import = import.clone();
            self.see_import(member, &import);
        }
        for step in plan.slices {
            writes += 1;
            let (name, from) = step.of().unwrap();
            let there = self.slices.get(&(member.to_owned(), name.to_owned())).cloned();
            match (step, there) {
                (SliceStep::Look { .. } | SliceStep::Create(_), Some(there)) => {
                    self.exchange.find_imported(&cluster(member), (&serve(), &from), &there);
                }
                (SliceStep::Look { name, .. }, None) => {
                    self.exchange.lose_imported(&cluster(member), &serve(), &name);
                }
                (SliceStep::Create(mut slice) | SliceStep::Update(mut slice), _) => {
                    let uid = self.uid();
                    slice.metadata.uid.get_or_insert(uid);
                    slice.metadata.resource_version = Some("1".to_owned());
                    let name = slice.metadata.name.clone().unwrap();
                    self.slices.insert((member.to_owned(), name), (*slice).clone());
                    self.see_slice(member, *slice);
                }
                (SliceStep::Mark { name, mark, .. }, _) => {
                    let slice = self.slices.get_mut(&(member.to_owned(), name.to_string())).unwrap();
                    mark.put(slice);
                    let slice = slice.clone();
                    self.see_slice(member, slice);
                }
                (SliceStep::Delete { name, .. }, _) => {
                    self.slices.remove(&(member.to_owned(), name.to_string()));
                    self.exchange.lose_imported(&cluster(member), &serve(), &name);
                }
            }
        }
        writes
    }

    /// The members that import it.
    pub(super) fn importers(&self) -> Vec<&str> {
        self.imports.keys().map(|(member, _)| member.as_str()).collect()
    }

    /// What an importing member gets from others: source cluster, address, and ports by name.
    pub(super) fn gets(&self, member: &str) -> Vec<Got> {
        let imported =
            self.slices.iter().filter(|((at, _), slice)| at == member && source_key(slice).is_none());
        let shown = imported.map(|(_, slice)| {
            let from =
                slice.metadata.labels.as_ref().unwrap()[crate::api::names::mcs::SOURCE_CLUSTER].clone();
            let address = slice.endpoints.first().map(|one| one.addresses[0].clone()).unwrap_or_default();
            let ports = slice.ports.iter().flatten();
            (from, address, ports.map(|port| (port.name.clone().unwrap(), port.port.unwrap())).collect())
        });
        shown.collect()
    }

    pub(super) fn condition(&self, member: &str, kind: &str) -> Option<Condition> {
        let export = self.exports.get(&(member.to_owned(), "serve".to_owned()))?;
        let conditions: Vec<Condition> =
            serde_json::from_value(export["status"]["conditions"].clone()).ok()?;
        conditions.into_iter().find(|condition| condition.type_ == kind)
    }
}

fn serves(import: &mut Value) {
    let generation = import["metadata"]["generation"].clone();
    import["status"]["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
}
