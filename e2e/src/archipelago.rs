//! A large fleet without clusters: what a hub would hold in memory of members that are only objects, and the map that it draws of it.
//!
//! Members, exports and slices are made up; who imports what and which endpoints it gets is decided by the hub's own rules, carried
//! out on those objects, and [`Archipelago::atlas`] is the hub's own.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use globset::{Glob, GlobSet};
use k8s_openapi::{api::discovery::v1::EndpointSlice, jiff::Timestamp};
use serde_json::{Value, json};
use tombolo::{
    api::{
        mcs::Version,
        names::{annotation, label, mcs},
    },
    decide::{
        atlas::{Atlas, Draft, Said, Sight},
        definition::Dialect,
        derived,
        exchange::{Exchange, ExportSeen, ImportSeen, ImportStep, Part, Rules, SliceStep},
        freshness::Grade,
        ids::{ClusterName, ServiceKey},
        merge::ServiceSpec,
        ports::{Port, PortKey, Protocol},
        record,
        view::View,
        world::World,
    },
};

const HUB: &str = "hub";
const DIALECT: Dialect = Dialect { version: Version::V1Beta1, traffic: true };

/// A large fleet without clusters.
#[derive(Debug)]
pub struct Archipelago {
    view: View,
    world: World,
    exchange: Exchange,
    sights: BTreeMap<ClusterName, Sight>,
    grades: BTreeMap<ClusterName, Grade>,
    services: BTreeSet<ServiceKey>,
    imports: BTreeMap<(ClusterName, ServiceKey), Value>,
    made: u64,
}

// === impl Archipelago ===

impl Archipelago {
    /// Members of these names that answer and have nothing.
    pub fn of(members: &[String]) -> Result<Self> {
        let allowed = GlobSet::builder().add(Glob::new("*")?).build()?;
        let mut this = Self {
            view: synced(),
            world: World::new(HUB.into()),
            exchange: Exchange::new(HUB.into(), Rules { automatic: true, denied: GlobSet::empty(), allowed }),
            sights: BTreeMap::new(),
            grades: BTreeMap::new(),
            services: BTreeSet::new(),
            imports: BTreeMap::new(),
            made: 0,
        };
        for name in members {
            this.describe(name, &json!({}))?;
            let name: ClusterName = name.parse()?;
            for part in Part::ALL {
                this.exchange.retain(&name, part, &BTreeSet::new());
            }
            let said = |message: &str| Some(Said { truth: "True", message: message.to_owned() });
            this.sights.insert(
                name,
                Sight {
                    ready: said("its API server answers"),
                    agent: said("its agent is at work"),
                    version: "v1.33.4".to_owned(),
                },
            );
        }
        Ok(this)
    }

    /// Says more of a member's Cluster.
    pub fn describe(&mut self, name: &str, more: &Value) -> Result<()> {
        let mut cluster = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } });
        json_patch::merge(&mut cluster, more);
        self.view.apply_cluster(serde_json::from_value(cluster)?);
        Ok(())
    }

    /// A member does not answer, in these words, for so many minutes, and is graded so.
    pub fn silence(&mut self, name: &str, why: &str, minutes: i64, grade: Grade) -> Result<()> {
        let since = Timestamp::from_second(Timestamp::now().as_second() - 60 * minutes)?;
        let at = json!([{ "type": "Ready", "status": "Unknown", "reason": "x", "message": "", "lastTransitionTime": since }]);
        self.describe(name, &json!({ "status": { "conditions": at } }))?;
        let name: ClusterName = name.parse()?;
        let sight = self.sights.entry(name.clone()).or_default();
        sight.ready = Some(Said { truth: "Unknown", message: why.to_owned() });
        self.grades.insert(name, grade);
        self.exchange.set_grades(self.grades.clone());
        Ok(())
    }

    /// A member's agent is not at work.
    pub fn lose_agent(&mut self, name: &str) -> Result<()> {
        let sight = self.sights.entry(name.parse()?).or_default();
        let message = "its agent does not renew the Lease tombolo-system/tombolo-agent".to_owned();
        sight.agent = Some(Said { truth: "False", message });
        Ok(())
    }

    /// A service that these members export, each under a port of its own, and all of the others import.
    pub fn service(&mut self, key: &str, exporters: &[(&str, u16)], importers: &[&str]) -> Result<()> {
        let (namespace, name) = key.split_once('/').context("a service has a namespace")?;
        let key = ServiceKey::parse(namespace, name)?;
        for (age, (member, port)) in exporters.iter().enumerate() {
            self.export(&key, &member.parse()?, *port, age)?;
        }
        let all = exporters.iter().map(|(member, _)| *member).chain(importers.iter().copied());
        for member in all.collect::<BTreeSet<_>>() {
            self.exchange.see_namespace(&member.parse()?, namespace, true);
        }
        self.services.insert(key);
        Ok(())
    }

    fn export(&mut self, key: &ServiceKey, member: &ClusterName, port: u16, age: usize) -> Result<()> {
        let ports = vec![Port {
            name: "http".parse()?,
            key: PortKey { port, protocol: Protocol::Tcp },
            app_protocol: None,
        }];
        let record = record::write(&ServiceSpec { ports, ..ServiceSpec::default() });
        let export = json!({
            "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
            "metadata": {
                "namespace": key.namespace.as_str(), "name": key.name.as_str(), "uid": self.uid(),
                "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"), "annotations": { annotation::EXPORT_RECORD: record },
            },
        });
        let seen = ExportSeen::of(key, &serde_json::from_value(export)?, HUB);
        self.exchange.see_export(member, key, seen);
        let endpoints: Vec<_> = (1..=3)
            .map(|number| json!({ "addresses": [format!("10.0.{age}.{number}")], "conditions": { "ready": number < 3 || age > 0 } }))
            .collect();
        let slice = json!({
            "metadata": { "namespace": key.namespace.as_str(), "name": format!("{}-source-a", key.name), "labels": { label::SOURCE: key.name.as_str() } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }], "endpoints": endpoints,
        });
        self.exchange
            .see_source(member, serde_json::from_value(slice)?)
            .map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(())
    }

    /// Carries out what the hub's rules ask for in all members, until there is nothing to do; agents announce their Services at once.
    pub fn settle(&mut self) -> Result<()> {
        let members: Vec<_> = self.view.members().keys().cloned().collect();
        for key in self.services.clone() {
            for member in &members {
                while self.carry_out(member, &key)? {}
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, member: &ClusterName, key: &ServiceKey) -> Result<bool> {
        let plan = self.exchange.plan(&self.view, &self.world, member, key, DIALECT);
        let mut wrote = false;
        if let ImportStep::Apply(mut import) = plan.import {
            import["metadata"]["uid"] = self.uid().into();
            import["metadata"]["generation"] = 1.into();
            import["metadata"]["annotations"][mcs::DERIVED_SERVICE] = derived::plain_name(key).into();
            let ready = json!({ "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
                                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            import["status"] = json!({ "conditions": [ready] });
            self.see_import(member, key, import)?;
            wrote = true;
        }
        if let Some((_, clusters)) = plan.clusters {
            let mut import = self.imports[&(member.clone(), key.clone())].clone();
            let clusters: Vec<_> = clusters.iter().map(|name| json!({ "cluster": name.as_str() })).collect();
            import["status"]["clusters"] = json!(clusters);
            self.see_import(member, key, import)?;
            wrote = true;
        }
        for step in plan.slices {
            if let SliceStep::Create(slice) | SliceStep::Update(slice) = step {
                let mut slice: EndpointSlice = *slice;
                slice.metadata.uid = Some(self.uid());
                slice.metadata.resource_version = Some(self.made.to_string());
                self.exchange.see_imported(member, &slice);
                wrote = true;
            }
        }
        Ok(wrote)
    }

    fn see_import(&mut self, member: &ClusterName, key: &ServiceKey, import: Value) -> Result<()> {
        let seen = ImportSeen::of(key, &serde_json::from_value(import.clone())?, HUB);
        self.exchange.see_import(member, key, seen);
        self.imports.insert((member.clone(), key.clone()), import);
        Ok(())
    }

    /// The map that the hub draws.
    pub fn atlas(&self) -> Atlas {
        let mut draft = Draft::new(&self.view, &self.exchange, &self.sights);
        for key in self.exchange.services() {
            draft.add(self.exchange.bridge(&self.view, &self.world, key));
        }
        draft.finish(true, true)
    }

    fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }
}

/// A view of a hub that has nothing, and knows it.
fn synced() -> View {
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
    view
}
