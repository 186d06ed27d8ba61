//! What the user wishes, and what that must come to: reckoned without a word of the product.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tombolo_e2e::scene::{Scene, object, with};

use super::{EXPORTERS, IMPORTER};

/// The ports that a Service can have. None of them is called or numbered otherwise in another.
const PORTS: [&[(&str, u16)]; 3] =
    [&[("http", 80)], &[("http", 80), ("admin", 90)], &[("http", 80), ("more", 70)]];

/// Numbers that look random, the same for the same seed.
pub(crate) struct Dice(pub(crate) u64);

/// What a member has of a service.
#[derive(Clone, Default, PartialEq)]
struct Wish {
    /// Which ports its Service has, and whether clients stay with their endpoint.
    service: Option<(usize, bool)>,
    exported: bool,
    endpoints: usize,
}

/// What all exporting members have.
pub(crate) struct Model {
    services: Vec<[Wish; 2]>,
}

/// What is there, by the name of the service.
pub(crate) struct Found {
    exports: [BTreeMap<String, Value>; 2],
    pub(super) imports: BTreeMap<String, Value>,
    pub(super) derived: BTreeMap<String, Value>,
    slices: BTreeMap<String, Vec<String>>,
}

pub(super) fn name(number: usize) -> String {
    format!("serve-{number}")
}

fn api(scene: &Scene, place: usize, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(scene.client(place).clone(), &scene.namespace, &resource)
}

/// The objects of a kind in a namespace of a place.
pub(super) async fn list(scene: &Scene, place: usize, api_version: &str, kind: &str) -> Result<Vec<Value>> {
    let api = api(scene, place, api_version, kind);
    let found = api.list(&ListParams::default()).await?;
    found.into_iter().map(|one| Ok(serde_json::to_value(one)?)).collect()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

// === impl Dice ===

impl Dice {
    /// A number below another (splitmix64).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

// === impl Wish ===

impl Wish {
    /// Whether it takes part in the service.
    fn takes_part(&self) -> bool {
        self.exported && self.service.is_some()
    }
}

// === impl Model ===

impl Model {
    /// Services that one or both members export.
    pub(super) fn new(dice: &mut Dice, number: usize) -> Self {
        let mut one = || {
            let wish = |there: bool, dice: &mut Dice| {
                let service = there.then(|| (dice.below(3), dice.below(8) == 0));
                Wish { service, exported: there, endpoints: 1 + dice.below(3) }
            };
            let who = dice.below(3);
            [wish(who != 1, dice), wish(who != 2, dice)]
        };
        Self { services: (0..number).map(|_| one()).collect() }
    }

    /// What the user applies at first for a service, and where.
    pub(super) fn wishes(&self, number: usize) -> Vec<(usize, Value)> {
        let of = |(at, wish): (usize, &Wish)| {
            let place = EXPORTERS[at];
            let there = wish.service.is_some();
            let objects = if there { objects(number, place, wish) } else { Vec::new() };
            objects.into_iter().map(move |object| (place, object)).collect::<Vec<_>>()
        };
        self.services[number].iter().enumerate().flat_map(of).collect()
    }

    /// A change: where, what the user applies, and what the user deletes before.
    pub(super) fn change(&mut self, dice: &mut Dice) -> (usize, Vec<Value>, Vec<String>) {
        let (number, at) = (dice.below(self.services.len()), dice.below(2));
        let (place, name) = (EXPORTERS[at], name(number));
        let wish = &mut self.services[number][at];
        match dice.below(10) {
            0 | 1 if wish.exported => {
                wish.exported = false;
                return (place, Vec::new(), vec![format!("ServiceExport {name}")]);
            }
            2 if wish.service.is_some() => {
                wish.service = None;
                return (place, Vec::new(), vec![format!("Service {name}")]);
            }
            0..=3 => {
                wish.exported = true;
                wish.service.get_or_insert((dice.below(3), false));
            }
            4 | 5 => wish.service = Some((dice.below(3), dice.below(4) == 0)),
            _ => wish.endpoints = dice.below(5),
        }
        let objects = objects(number, place, wish);
        (place, objects, Vec::new())
    }

    /// Fails unless everything is as the user wishes it.
    pub(super) fn compare(&self, found: &Found) -> Result<()> {
        for (number, wishes) in self.services.iter().enumerate() {
            let name = name(number);
            ensure!(found.imports.contains_key(&name), "{name} is not imported");
            let slices = found.slices.get(&name).cloned().unwrap_or_default();
            let wanted = reached(number, wishes);
            ensure!(slices == wanted, "{name} reaches {slices:?}, not {wanted:?}");
            self.compare_spec(number, found)?;
            for at in 0..2 {
                let export = found.exports[at].get(&name);
                ensure!(export.is_some() == wishes[at].exported, "{name} is exported: {export:?}");
                if let Some(export) = export {
                    let (said, wanted) = (conditions(export), self.said(number, at));
                    ensure!(said == wanted, "{name} says {said:?} in {}, not {wanted:?}", EXPORTERS[at]);
                }
            }
        }
        ensure!(found.imports.len() == self.services.len(), "something else is imported");
        ensure!(found.slices.keys().all(|name| found.imports.contains_key(name)), "there are more slices");
        Ok(())
    }

    fn compare_spec(&self, number: usize, found: &Found) -> Result<()> {
        let (name, wishes) = (name(number), &self.services[number]);
        let mut parts: Vec<_> = (0..2).filter(|at| wishes[*at].takes_part()).collect();
        let (Some(_), Some(import)) = (parts.first(), found.imports.get(&name)) else { return Ok(()) };
        let made = |at: usize| {
            found.exports[at].get(&name).map(|one| one["metadata"]["creationTimestamp"].to_string())
        };
        parts.sort_by_key(|at| (made(*at), *at));
        let ports: BTreeSet<(String, u64)> = parts
            .iter()
            .flat_map(|at| PORTS[wishes[*at].service.unwrap_or_default().0])
            .map(|(name, port)| ((*name).to_owned(), u64::from(*port)))
            .collect();
        let sticky = if wishes[parts[0]].service.unwrap_or_default().1 { "ClientIP" } else { "None" };
        let derived = found.derived.get(&name).cloned().unwrap_or_default();
        for (what, spec) in [("ServiceImport", &import["spec"]), ("Service", &derived["spec"])] {
            let has: BTreeSet<_> = spec["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|port| {
                    (port["name"].as_str().unwrap_or_default().to_owned(), port["port"].as_u64().unwrap_or(0))
                })
                .collect();
            ensure!(has == ports, "{what} of {name} has ports {has:?}, not {ports:?}");
            ensure!(spec["sessionAffinity"] == sticky, "{what} of {name} is not {sticky}: {spec}");
        }
        let clusters: Vec<_> = import["status"]["clusters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["cluster"].clone())
            .collect();
        let mut wanted: Vec<_> = parts.iter().map(|at| json!(format!("member{}", EXPORTERS[*at]))).collect();
        wanted.sort_by_key(ToString::to_string);
        ensure!(clusters == wanted, "{name} is made of {clusters:?}, not {wanted:?}");
        Ok(())
    }

    /// What an export's conditions must say.
    fn said(&self, number: usize, at: usize) -> BTreeMap<&'static str, String> {
        let wishes = &self.services[number];
        if !wishes[at].takes_part() {
            let said = [("Valid", "False NoService"), ("Ready", "False Pending")];
            return said.map(|(kind, said)| (kind, said.to_owned())).into();
        }
        let (one, other) = (wishes[0].service.unwrap_or_default(), wishes[1].service.unwrap_or_default());
        let mut reasons = Vec::new();
        if wishes.iter().all(Wish::takes_part) {
            reasons.extend((one.0 != other.0).then_some("PortConflict"));
            reasons.extend((one.1 != other.1).then_some("SessionAffinityConflict"));
        }
        let conflict = if reasons.is_empty() {
            "False NoConflicts".to_owned()
        } else {
            format!("True {}", reasons.join(","))
        };
        [("Valid", "True Valid".to_owned()), ("Ready", "True Exported".to_owned()), ("Conflict", conflict)]
            .into()
    }
}

/// What an export's conditions say. That nothing conflicts need not be said where nothing is exported.
fn conditions(export: &Value) -> BTreeMap<&'static str, String> {
    let all = export["status"]["conditions"].as_array().into_iter().flatten();
    let mut said: BTreeMap<_, _> = all
        .filter_map(|one| {
            let kind = ["Valid", "Ready", "Conflict"].into_iter().find(|kind| one["type"] == *kind)?;
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            Some((kind, format!("{} {}", text("status"), text("reason"))))
        })
        .collect();
    if said.get("Valid").is_some_and(|valid| valid.starts_with("False")) {
        said.retain(|kind, said| *kind != "Conflict" || said != "False NoConflicts");
    }
    said
}

fn addresses(number: usize, place: usize, endpoints: usize) -> Vec<String> {
    (1..=endpoints).map(|one| format!("10.{place}.{}.{}", number / 40, number % 40 * 6 + one)).collect()
}

/// What the importer reaches: for each member its ports and addresses.
fn reached(number: usize, wishes: &[Wish; 2]) -> Vec<String> {
    let of = |(at, wish): (usize, &Wish)| {
        let (ports, _) = wish.service?;
        let mut ports: Vec<_> =
            PORTS[ports].iter().map(|(name, port)| format!("{name}:{}", 8000 + port)).collect();
        ports.sort();
        let addresses = addresses(number, EXPORTERS[at], wish.endpoints);
        wish.exported.then(|| format!("member{} {} {}", EXPORTERS[at], ports.join(","), addresses.join(",")))
    };
    wishes.iter().enumerate().filter_map(of).collect()
}

/// What a user applies: the slice first, so that a Service never stands without its endpoints.
fn objects(number: usize, place: usize, wish: &Wish) -> Vec<Value> {
    let name = name(number);
    let ports = PORTS[wish.service.map_or(0, |(ports, _)| ports)];
    let endpoints: Vec<_> = addresses(number, place, wish.endpoints)
        .into_iter()
        .map(|address| json!({ "addresses": [address], "conditions": { "ready": true } }))
        .collect();
    let of_slice: Vec<_> = ports
        .iter()
        .map(|(name, port)| json!({ "name": name, "port": 8000 + port, "protocol": "TCP" }))
        .collect();
    let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": name } } });
    let slice = json!({ "addressType": "IPv4", "endpoints": endpoints, "ports": of_slice });
    let mut objects = vec![with(object("EndpointSlice", &format!("{name}-by-hand"), slice), labels)];
    if let Some((_, sticky)) = wish.service {
        let of_service: Vec<_> = ports
            .iter()
            .map(|(name, port)| json!({ "name": name, "port": port, "protocol": "TCP", "targetPort": 8000 + port }))
            .collect();
        let affinity = if sticky { "ClientIP" } else { "None" };
        objects.push(object(
            "Service",
            &name,
            json!({ "spec": { "ports": of_service, "sessionAffinity": affinity } }),
        ));
    }
    if wish.exported {
        objects.push(object("ServiceExport", &name, json!({})));
    }
    objects
}

// === impl Found ===

impl Found {
    /// Reads everything.
    pub(super) async fn read(scene: &Scene) -> Result<Self> {
        const MCS: &str = "multicluster.x-k8s.io/v1alpha1";
        let by_name = |all: Vec<Value>| all.into_iter().map(|one| (name_of(&one), one)).collect();
        let exports = [
            by_name(list(scene, EXPORTERS[0], MCS, "ServiceExport").await?),
            by_name(list(scene, EXPORTERS[1], MCS, "ServiceExport").await?),
        ];
        let derived = list(scene, IMPORTER, "v1", "Service").await?.into_iter();
        let derived =
            derived.map(|one| (name_of(&one).trim_start_matches("derived-").to_owned(), one)).collect();
        let mut slices: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for slice in list(scene, IMPORTER, "discovery.k8s.io/v1", "EndpointSlice").await? {
            let labels = &slice["metadata"]["labels"];
            let text = |key: &str| labels[key].as_str().unwrap_or_default().to_owned();
            let mut ports: Vec<_> = slice["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|port| format!("{}:{}", port["name"].as_str().unwrap_or_default(), port["port"]))
                .collect();
            ports.sort();
            let addresses: Vec<_> = slice["endpoints"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| one["addresses"][0].as_str().unwrap_or_default().to_owned())
                .collect();
            let line = format!(
                "{} {} {}",
                text("multicluster.kubernetes.io/source-cluster"),
                ports.join(","),
                addresses.join(",")
            );
            slices.entry(text("multicluster.kubernetes.io/service-name")).or_default().push(line);
        }
        slices.values_mut().for_each(|lines| lines.sort());
        Ok(Self {
            exports,
            imports: by_name(list(scene, IMPORTER, MCS, "ServiceImport").await?),
            derived,
            slices,
        })
    }
}
