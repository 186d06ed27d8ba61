//! On the hub: the export, the import and a policy for each, written in one go or not at all.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, TypeMeta},
};
use serde_json::{Value, json};

use super::{
    MANAGER, Place, Said,
    progress::{Wanted, placed, reached},
};
use crate::{
    api::{
        Cluster, ClusterPropagationPolicy, PropagationPolicy, ServiceExport, ServiceImport,
        mcs::Version,
        names::{condition, object},
        placement::Placement,
        propagation::PropagationSpec,
    },
    cli::paint::say,
    decide::{
        ids::ClusterName,
        policies::{PolicyKey, Propagations},
        select::{GroupKind, Object},
    },
    membership::{account::MANAGED_BY, write::words},
};

/// Exports a Service from some clusters to others.
pub(super) async fn export(place: &Place, from: &[ClusterName], to: &[ClusterName]) -> Result<()> {
    known(place, from.iter().chain(to)).await?;
    let service = place.service().await?;
    let placement = if from.is_empty() { wherever(place, service.as_ref()).await? } else { named(from) };
    let importers = if to.is_empty() { json!({}) } else { named(to) };
    let mut wanted = Vec::new();
    for object in objects(place, &import(service.as_ref()), &placement, &importers) {
        match find(place, &object).await? {
            Some(found) if !is_ours(&found) => left_alone(&object)?,
            found => wanted.push((found, object)),
        }
    }
    // Whatever is refused is refused before anything is written.
    for dry in [true, false] {
        for (found, object) in &wanted {
            write(place, found.as_ref(), object, dry).await?;
        }
    }
    Ok(())
}

/// What is said of an export: by its policies, by its own conditions, and by its import, which tells who reaches whom. Nothing while the
/// hub has not looked at the policies as they are now: what is said then may be of those before.
pub(super) async fn said(place: &Place, from: &[ClusterName], to: &[ClusterName]) -> Result<Vec<Said>> {
    let mut wanted = Wanted::of(from, to);
    let Some((export, exporters)) = said_of_policy(place, "export").await? else { return Ok(Vec::new()) };
    let Some((import, importers)) = said_of_policy(place, "import").await? else { return Ok(Vec::new()) };
    wanted.exporters.extend(exporters);
    wanted.importers.extend(importers);
    // Causes first.
    let mut said = place.said().await?;
    let ready = said.iter().position(|one| one.what == condition::READY).unwrap_or(said.len());
    said.insert(ready, export);
    said.push(import);
    let imports: Api<ServiceImport> =
        Api::namespaced_with(place.client.clone(), place.key.namespace.as_str(), &Version::V1Alpha1);
    let import = imports.get_opt(place.key.name.as_str()).await.map_err(words);
    let import = import.with_context(|| format!("failed to read ServiceImport {}", place.key))?;
    said.extend(import.and_then(|import| reached(&import, &wanted)));
    Ok(said)
}

/// What is said of one of the two policies, and the clusters that it chose.
async fn said_of_policy(place: &Place, ending: &str) -> Result<Option<(Said, BTreeSet<String>)>> {
    let name = format!("{}-{ending}", place.key.name);
    let policy = place.namespaced::<PropagationPolicy>().get_opt(&name).await.map_err(words);
    let policy = policy.with_context(|| format!("failed to read PropagationPolicy {name}"))?;
    let Some(policy) = policy else { bail!("PropagationPolicy {name} was deleted meanwhile") };
    Ok(placed(&policy))
}

/// Takes the export back: templates first, so that their copies go, then the policies.
pub(super) async fn unexport(place: &Place) -> Result<()> {
    let mut removed = Vec::new();
    for object in objects(place, &Value::Null, &Value::Null, &Value::Null) {
        let what = described(&object);
        let Some(found) = find(place, &object).await? else { continue };
        // What says that it is exported goes whoever wrote it; the rest only if it was written with it.
        if !is_ours(&found) && !what.starts_with("ServiceExport ") {
            say(&format!("{what} was not made by `tombolo export`: it stays"));
            continue;
        }
        // What a policy leaves behind is deleted before it; admission may not have seen that.
        let client = if what.starts_with("PropagationPolicy ") { &place.quiet } else { &place.client };
        match api_by(client, place, &object)?.delete(&object.name_any(), &DeleteParams::default()).await {
            Ok(_) => removed.push(what),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(e) => return Err(words(e)).with_context(|| format!("failed to delete {what}")),
        }
    }
    match removed.is_empty() {
        true => say(&format!("Service {} is not exported by this hub", place.key)),
        false => say(&format!("Service {} is exported no more: deleted {}", place.key, removed.join(", "))),
    }
    Ok(())
}

/// Fails where a cluster is named that the hub does not have.
async fn known(place: &Place, names: impl Iterator<Item = &ClusterName>) -> Result<()> {
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let clusters: Api<Cluster> = Api::all(place.client.clone());
    let clusters = clusters.list(&ListParams::default()).await.map_err(words);
    let clusters: Vec<_> =
        clusters.context("failed to list the hub's Clusters")?.iter().map(ResourceExt::name_any).collect();
    let missing = names.iter().find(|name| !clusters.iter().any(|cluster| cluster == name.as_str()));
    if let Some(missing) = missing {
        let there = if clusters.is_empty() { "none".to_owned() } else { clusters.join(", ") };
        bail!("the hub has no Cluster {missing}; it has {there}");
    }
    Ok(())
}

/// Those clusters that the hub's Service goes to, as the policy that holds for it says.
async fn wherever(place: &Place, service: Option<&Service>) -> Result<Value> {
    let key = &place.key;
    let Some(service) = service else {
        bail!(
            "the hub has no Service {key}, so it does not know who has it: name those clusters with --from"
        );
    };
    let (mut index, mut placements) = (Propagations::new(object::NAMESPACE), BTreeMap::new());
    let mut note = |metadata: &kube::core::ObjectMeta, spec: &PropagationSpec| {
        index.apply(metadata, spec);
        placements.insert(PolicyKey::of(metadata), spec.placement.clone());
    };
    let all = ListParams::default();
    let own = place.namespaced::<PropagationPolicy>().list(&all).await.map_err(words);
    own.context("failed to list PropagationPolicies")?.iter().for_each(|it| note(&it.metadata, &it.spec));
    let wide: Api<ClusterPropagationPolicy> = Api::all(place.client.clone());
    let wide = wide.list(&all).await.map_err(words).context("failed to list ClusterPropagationPolicies")?;
    wide.iter().for_each(|it| note(&it.metadata, &it.spec));
    let kind = GroupKind { group: "".into(), kind: "Service".into() };
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    let winner = index.winner(&Object { kind: &kind, namespace, name, labels: service.labels() });
    let Some(winner) = winner else {
        bail!(
            "no policy places Service {key}, so no cluster has it: write one, or name the clusters that have it with --from"
        );
    };
    let placement: &Placement = &placements[&winner.policy.key];
    Ok(serde_json::to_value(placement)?)
}

/// Exactly these clusters.
fn named(clusters: &[ClusterName]) -> Value {
    let names: Vec<_> = clusters.iter().map(ClusterName::as_str).collect();
    json!({ "clusterAffinity": { "clusterNames": names } })
}

/// What an import says: the ports are those that are exported; whether it is headless is the Service's to say.
fn import(service: Option<&Service>) -> Value {
    let ip = service.and_then(|service| service.spec.as_ref()?.cluster_ip.as_deref());
    json!({ "type": if ip == Some("None") { "Headless" } else { "ClusterSetIP" }, "ports": [] })
}

/// All that an export consists of: what is to be sent, and then who sends it.
fn objects(place: &Place, import: &Value, exporters: &Value, importers: &Value) -> [DynamicObject; 4] {
    let name = place.key.name.as_str();
    let policy = |kind: &str, ending: &str, placement: &Value| {
        let selector = json!({ "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": kind, "name": name });
        let spec = json!({ "spec": { "resourceSelectors": [selector], "placement": placement } });
        made(place, TypeMeta::resource::<PropagationPolicy>(), &format!("{name}-{ending}"), spec)
    };
    [
        made(place, types::<ServiceExport>(), name, json!({})),
        made(place, types::<ServiceImport>(), name, json!({ "spec": import })),
        policy("ServiceExport", "export", exporters),
        policy("ServiceImport", "import", importers),
    ]
}

fn types<K: Resource<DynamicType = Version>>() -> TypeMeta {
    let version = Version::V1Alpha1;
    TypeMeta { api_version: K::api_version(&version).into_owned(), kind: K::kind(&version).into_owned() }
}

fn made(place: &Place, types: TypeMeta, name: &str, mut data: Value) -> DynamicObject {
    data["metadata"] = json!({
        "name": name, "namespace": place.key.namespace.as_str(), "labels": { MANAGED_BY.0: MANAGER },
    });
    let mut object: DynamicObject = serde_json::from_value(data).expect("it has metadata");
    object.types = Some(types);
    object
}

fn is_ours(object: &DynamicObject) -> bool {
    object.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGER)
}

/// What somebody else wrote stays as it is; a policy of the name that is not ours may say anything.
fn left_alone(object: &DynamicObject) -> Result<()> {
    let what = described(object);
    ensure!(
        !what.starts_with("PropagationPolicy "),
        "{what} is there already and was not made by `tombolo export`: change it yourself, or delete it; nothing was changed"
    );
    say(&format!("{what} is there already, and stays as it is"));
    Ok(())
}

async fn find(place: &Place, object: &DynamicObject) -> Result<Option<DynamicObject>> {
    let found = api_of(place, object)?.get_opt(&object.name_any()).await.map_err(words);
    found.with_context(|| format!("failed to read {}", described(object)))
}

fn described(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn api_of(place: &Place, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    api_by(&place.client, place, object)
}

fn api_by(client: &Client, place: &Place, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("a manifest has a type")?;
    let resource = ApiResource::from_gvk(&types.try_into()?);
    Ok(Api::namespaced_with(client.clone(), place.key.namespace.as_str(), &resource))
}

async fn write(
    place: &Place,
    found: Option<&DynamicObject>,
    object: &DynamicObject,
    dry: bool,
) -> Result<()> {
    let (api, what) = (api_of(place, object)?, described(object));
    let params = PatchParams { dry_run: dry, ..PatchParams::apply(MANAGER).force() };
    let written = api.patch(&object.name_any(), &params, &Patch::Apply(object)).await.map_err(words);
    let written = written.with_context(|| format!("failed to write {what}"))?;
    match found {
        _ if dry => {}
        None => say(&format!("{what} created")),
        Some(found) if found.resource_version() == written.resource_version() => {
            say(&format!("{what} is there already"));
        }
        Some(_) => say(&format!("{what} changed")),
    }
    Ok(())
}
