//! The rules computed from scratch on what is there: a hub and agents that begin anew would have nothing to do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use globset::{Glob, GlobSetBuilder};
use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::Value;
use tombolo::{
    api::{
        Cluster, PropagationPolicy, ServiceExport, ServiceImport,
        mcs::Version,
        names::{annotation, label},
    },
    decide::{
        agent::{
            export::judge,
            import::wanted_families,
            service::{Plan as Derivation, corrected},
            slices::{is_source, sources, steps},
        },
        definition::Dialect,
        exchange::{
            Exchange, ExportSeen, ImportSeen, Part, Plan, Rules, SliceSeen, export_kind, import_kind,
            object_key, service_key, source_key,
        },
        ids::{ClusterName, ServiceKey},
        record,
        view::View,
        world::World,
    },
};
use tombolo_e2e::scene::{HUB, Scene};

use super::{EXPORTERS, IMPORTER, model::list};

const DIALECT: Dialect = Dialect { version: Version::V1Beta1, traffic: true };
const MCS: &str = "multicluster.x-k8s.io/v1beta1";

/// Fails unless neither hub nor agents would do anything.
pub(super) async fn nothing_to_do(scene: &Scene) -> Result<()> {
    let (view, world) = hub(scene).await?;
    let mut exchange = Exchange::new(world.hub().clone(), rules()?);
    let mut keys = BTreeSet::new();
    for member in 1..=IMPORTER {
        keys.extend(read(scene, &mut exchange, world.hub(), member).await?);
    }
    for member in 1..=IMPORTER {
        let cluster: ClusterName = format!("member{member}").parse()?;
        for key in &keys {
            let plan = exchange.plan(&view, &world, &cluster, key, DIALECT);
            ensure!(plan == Plan::default(), "in {cluster} there is to be done for {key}: {plan:?}");
        }
    }
    for member in EXPORTERS {
        exporter(scene, member).await?;
    }
    importer(scene).await
}

fn rules() -> Result<Rules> {
    let globs = |pattern: &str| anyhow::Ok(GlobSetBuilder::new().add(Glob::new(pattern)?).build()?);
    Ok(Rules { automatic: true, denied: globs("kube-*")?, allowed: globs("*")? })
}

/// What the hub has of its own.
async fn hub(scene: &Scene) -> Result<(View, World)> {
    let client = scene.client(HUB);
    let id = super::super::ground::hub_id(&scene.bed).await?;
    let mut view = View::new("tombolo-system");
    view.retain_namespaces(&BTreeSet::new());
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    view.retain_override_policies(&BTreeSet::new());
    view.retain_cluster_override_policies(&BTreeSet::new());
    view.retain_services(&BTreeSet::new());
    view.retain_exports(&BTreeSet::new());
    let clusters = Api::<Cluster>::all(client.clone()).list(&ListParams::default()).await?;
    let names = clusters.iter().map(ResourceExt::name_any).collect();
    clusters.into_iter().for_each(|cluster| view.apply_cluster(cluster));
    view.retain_clusters(&names);
    let policies: Api<PropagationPolicy> = Api::namespaced(client.clone(), &scene.namespace);
    for policy in policies.list(&ListParams::default()).await? {
        view.apply_propagation_policy(policy);
    }
    let all = view.propagations().keys().cloned().collect();
    view.retain_propagation_policies(&all);
    let mut world = World::new(id.into());
    world.set_policy_kinds("p".into());
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let uid = crds.get_metadata("serviceimports.multicluster.x-k8s.io").await?.metadata.uid;
    world.open_kind(export_kind(), MCS.into(), None);
    world.open_kind(import_kind(), MCS.into(), uid.map(Arc::from));
    let (mut imports, mut objects) = (BTreeSet::new(), Vec::new());
    for import in list(scene, HUB, MCS, "ServiceImport").await? {
        let typed: ServiceImport = serde_json::from_value(import.clone())?;
        let key = service_key(&typed.metadata).context("it has no service's name")?;
        view.apply_import(typed);
        imports.insert(key.clone());
        objects.push((key, import));
    }
    view.retain_imports(&imports);
    place(&mut view, &mut world, &objects);
    Ok((view, world))
}

/// Places templates as the policies say.
fn place(view: &mut View, world: &mut World, objects: &[(ServiceKey, Value)]) {
    let changes = view.take_changes();
    world.reconsider(view, &changes);
    let mut all = BTreeSet::new();
    for (key, object) in objects {
        let key = object_key(import_kind(), key);
        world.apply_template(view, &key, object);
        all.insert(key);
    }
    world.retain_templates(view, &import_kind(), &all);
    world.retain_templates(view, &export_kind(), &BTreeSet::new());
}

/// Reads all that a member has, as a hub does; gives back the services.
async fn read(
    scene: &Scene,
    exchange: &mut Exchange,
    hub: &str,
    member: usize,
) -> Result<BTreeSet<ServiceKey>> {
    let cluster: ClusterName = format!("member{member}").parse()?;
    let mut listed: BTreeMap<Part, BTreeSet<(ServiceKey, Box<str>)>> = BTreeMap::new();
    exchange.see_namespace(&cluster, &scene.namespace, true);
    for export in list(scene, member, MCS, "ServiceExport").await? {
        let export: ServiceExport = serde_json::from_value(export)?;
        let key = service_key(&export.metadata).context("it has no service's name")?;
        exchange.see_export(&cluster, &key, ExportSeen::of(&key, &export, hub));
        listed.entry(Part::Exports).or_default().insert((key, export.name_any().into()));
    }
    for import in list(scene, member, MCS, "ServiceImport").await? {
        let import: ServiceImport = serde_json::from_value(import)?;
        let key = service_key(&import.metadata).context("it has no service's name")?;
        exchange.see_import(&cluster, &key, ImportSeen::of(&key, &import, hub));
        listed.entry(Part::Imports).or_default().insert((key, import.name_any().into()));
    }
    for slice in list(scene, member, "discovery.k8s.io/v1", "EndpointSlice").await? {
        let slice: EndpointSlice = serde_json::from_value(slice)?;
        let name: Box<str> = slice.name_any().into();
        if let Some(key) = source_key(&slice) {
            listed.entry(Part::Sources).or_default().insert((key, name));
            exchange.see_source(&cluster, slice).map_err(|refused| anyhow::anyhow!("{refused}"))?;
        } else if slice.labels().contains_key(label::HUB) {
            let (key, _) = SliceSeen::of(&slice).context("it is no imported slice")?;
            exchange.see_imported(&cluster, &slice);
            listed.entry(Part::Imported).or_default().insert((key, name));
        }
    }
    let keys = listed.values().flatten().map(|(key, _)| key.clone()).collect();
    for part in Part::ALL {
        exchange.retain(&cluster, part, &listed.remove(&part).unwrap_or_default());
    }
    Ok(keys)
}

/// Looks at an exporting member as its agent does.
async fn exporter(scene: &Scene, member: usize) -> Result<()> {
    let services: Vec<Service> = typed(list(scene, member, "v1", "Service").await?)?;
    let slices: Vec<EndpointSlice> =
        typed(list(scene, member, "discovery.k8s.io/v1", "EndpointSlice").await?)?;
    let slices: Vec<_> = slices.into_iter().map(Arc::new).collect();
    let exports: Vec<ServiceExport> = typed(list(scene, member, MCS, "ServiceExport").await?)?;
    let mut expected = BTreeSet::new();
    for export in &exports {
        let key = service_key(&export.metadata).context("it has no service's name")?;
        let service = services.iter().find(|service| service.name_any() == key.name.as_str());
        let judged = judge(&key, service).ok();
        let record = export.annotations().get(annotation::EXPORT_RECORD);
        let wanted = judged.as_ref().map(record::write);
        ensure!(record == wanted.as_ref(), "the record of {key} is {record:?}, not {wanted:?}");
        let of = |slice: &&Arc<EndpointSlice>| {
            slice.labels().get("kubernetes.io/service-name").is_some_and(|name| *name == key.name.as_str())
        };
        let originals = slices.iter().filter(of).map(|slice| &**slice);
        let wanted = judged.map(|spec| sources(&key, &spec, originals, 100)).unwrap_or_default();
        expected.extend(wanted.iter().map(ResourceExt::name_any));
        let ours: Vec<_> = slices.iter().filter(|slice| is_source(&key, slice)).cloned().collect();
        let find = |name: &str| slices.iter().find(|slice| slice.name_any() == name).cloned();
        let steps = steps(wanted, &ours, find);
        ensure!(steps.is_empty(), "there is to be done for {key} in member{member}: {steps:?}");
    }
    let there = slices.iter().filter(|slice| slice.labels().contains_key(label::SOURCE));
    let there: BTreeSet<_> = there.map(|slice| slice.name_any()).collect();
    ensure!(there == expected, "source slices are left over: {:?}", there.difference(&expected));
    Ok(())
}

/// Looks at the importing member as its agent does.
async fn importer(scene: &Scene) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client(IMPORTER).clone());
    let definition = crds.get_metadata("serviceimports.multicluster.x-k8s.io").await?.metadata.uid;
    let services: Vec<Service> = typed(list(scene, IMPORTER, "v1", "Service").await?)?;
    let imports: Vec<ServiceImport> = typed(list(scene, IMPORTER, MCS, "ServiceImport").await?)?;
    ensure!(services.len() == imports.len(), "{} Services for {} imports", services.len(), imports.len());
    for import in imports.iter().filter(|import| !import.spec.ports.is_empty()) {
        let key = service_key(&import.metadata).context("it has no service's name")?;
        let name = format!("derived-{}", key.name);
        let service = services.iter().find(|service| service.name_any() == name);
        let service = service.with_context(|| format!("{name} is not there"))?;
        let plan = Derivation {
            key: &key,
            name: &name,
            definition: definition.as_deref().unwrap_or_default(),
            spec: &import.spec,
            traffic: import.spec.traffic_distribution.as_deref(),
            families: &wanted_families(import),
            addresses: &import.spec.ips,
        };
        let corrected = corrected(service, &plan);
        ensure!(corrected.is_none(), "{name} is to be {corrected:?}");
    }
    Ok(())
}

fn typed<T: serde::de::DeserializeOwned>(all: Vec<Value>) -> Result<Vec<T>> {
    all.into_iter().map(|one| Ok(serde_json::from_value(one)?)).collect()
}
