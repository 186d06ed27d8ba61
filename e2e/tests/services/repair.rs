//! What is written how often, and what is put right.

use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tombolo::api::Cluster;
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, Scene, config_map, object, places},
    wait::until,
};

use super::ground::*;

pub(crate) async fn one_endpoint_change_is_one_write_and_one_more_in_each_importer(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "counted", &[ON_THE_HUB, 1, 2, 3]).await?;
    // By policy, so that the hub has something to say on.
    let import = object("ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": [] } }));
    scene.apply(ON_THE_HUB, [import, places("import", &["ServiceImport serve"], &[1, 2, 3])]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    for member in [1, 2, 3] {
        address(&scene, member).await?;
        reaches(&scene, member, &["member1 http:8080 10.1.0.1"]).await?;
    }
    condition(&scene, ON_THE_HUB, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
    reported(&scene, ["before", "settled"]).await?;
    let clusters = ["hub", "member1", "member2", "member3"];
    let marks: Vec<_> = clusters.iter().map(|cluster| bed.audit(cluster).mark()).collect::<Result<_>>()?;
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    for member in [1, 2, 3] {
        reaches(&scene, member, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    }
    reported(&scene, ["after", "told"]).await?;
    let mut written = Vec::new();
    for (cluster, mark) in clusters.iter().zip(marks) {
        let audit = bed.audit(cluster);
        let by_hub = audit.by_hub(mark)?.into_iter().filter(|request| {
            let of = ["endpointslices", "serviceexports", "serviceimports"];
            request.object_ref.namespace == "counted" && of.contains(&&*request.object_ref.resource)
        });
        written.push(by_hub.count() + audit.by_agent(mark, "counted")?.len());
    }
    // In the exporter its source slice and its own imported slice, by its agent; one in each other importer.
    ensure!(written == [0, 2, 1, 1], "{written:?} writes in {clusters:?}");
    Ok(())
}

/// Waits until the hub has said all that it had to: it says what changed together, and these came later, one after the other.
async fn reported(scene: &Scene, markers: [&str; 2]) -> Result<()> {
    for marker in markers {
        let placed = places(marker, &[&format!("ConfigMap {marker}")], &[1]);
        scene.apply(ON_THE_HUB, [config_map(marker, json!({ "a": "b" })), placed]).await?;
        scene.reports(&format!("PropagationPolicy {marker}"), "Propagated", &["\"applied\":1"]).await?;
    }
    Ok(())
}

pub(crate) async fn imported_slices_that_somebody_edits_or_deletes_are_put_right(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "repaired", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    // Those of the exporter itself are its agent's, all others the hub's.
    for member in [1, 2] {
        reaches(&scene, member, &[good]).await?;
        let api: Api<EndpointSlice> = Api::namespaced(scene.client(member).clone(), "repaired");
        let name = slices(&scene, member).await?.remove(0).metadata.name.unwrap_or_default();
        let patch = json!({ "endpoints": [] });
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        reaches(&scene, member, &[good]).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        until("it is there again", PATIENCE, async || {
            ensure!(api.get_opt(&name).await?.is_some(), "it is not");
            Ok(())
        })
        .await?;
        reaches(&scene, member, &[good]).await?;
    }
    Ok(())
}

pub(crate) async fn labels_of_imported_slices_that_somebody_edits_are_put_right_and_keep_nobody_back(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "relabelled", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    exported(&scene, 2, &[("http", 80)], 1).await?;
    let both = ["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"];
    reaches(&scene, 3, &both).await?;
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(3).clone(), "relabelled");
    let found = slices(&scene, 3).await?;
    let name = found.iter().filter_map(|slice| slice.metadata.name.clone()).min().unwrap_or_default();
    let good = api.get(&name).await?.metadata.labels;
    let mut addresses = 1;
    for label in [
        "tombolo.dev/hub",
        "endpointslice.kubernetes.io/managed-by",
        "multicluster.kubernetes.io/service-name",
        "multicluster.kubernetes.io/source-cluster",
    ] {
        for value in [json!(null), json!("other")] {
            let patch = json!({ "metadata": { "labels": { label: value } } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            until(&format!("{label} is put right"), PATIENCE, async || {
                let labels = api.get(&name).await?.metadata.labels;
                ensure!(labels == good, "its labels are {labels:?}");
                Ok(())
            })
            .await?;
            // The other exporter's endpoints follow.
            addresses = 3 - addresses;
            scene.apply(2, [slice(2, &[("http", 80)], addresses)]).await?;
            let more = if addresses == 1 { "" } else { ",10.2.0.2" };
            reaches(&scene, 3, &[both[0], &format!("{}{more}", both[1])]).await?;
        }
    }
    scene.delete(1, &["ServiceExport serve"]).await?;
    reaches(&scene, 3, &both[1..]).await
}

pub(crate) async fn a_source_slice_that_loses_its_label_withdraws_nothing_and_gets_it_again(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "unlabelled", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    reaches(&scene, 2, &[good]).await?;
    let before = slices(&scene, 2).await?.remove(0).metadata.uid;
    let sources: Api<EndpointSlice> = Api::namespaced(scene.client(1).clone(), "unlabelled");
    let labelled = ListParams::default().labels("tombolo.dev/source=serve");
    let name = sources.list(&labelled).await?.items.remove(0).metadata.name.unwrap_or_default();
    let patch = json!({ "metadata": { "labels": { "tombolo.dev/source": null } } });
    sources.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    until("it has its label again", PATIENCE, async || {
        ensure!(!sources.list(&labelled).await?.items.is_empty(), "it has not");
        Ok(())
    })
    .await?;
    // What changes afterwards arrives after what was made of the label.
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    let after = slices(&scene, 2).await?.remove(0).metadata.uid;
    ensure!(before == after, "its endpoints were withdrawn meanwhile");
    Ok(())
}

pub(crate) async fn a_derived_service_that_loses_its_annotation_keeps_name_and_address(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "unproven", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    reaches(&scene, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let before = address(&scene, 2).await?;
    let uid = scene.field(2, "Service derived-serve", "/metadata/uid").await?;
    let patch = json!({ "metadata": { "annotations": { "tombolo.dev/derived": null } } });
    scene.edit(2, "Service derived-serve", patch).await?;
    until("it proves itself again", PATIENCE, async || {
        let found = scene.find(2, "Service derived-serve").await?;
        ensure!(found.pointer("/metadata/annotations/tombolo.dev~1derived").is_some(), "it does not");
        Ok(())
    })
    .await?;
    ensure!(scene.field(2, "Service derived-serve", "/metadata/uid").await? == uid, "it is another one");
    ensure!(address(&scene, 2).await? == before, "its address changed");
    Ok(())
}

pub(crate) async fn an_import_of_the_hubs_that_somebody_edits_or_deletes_is_put_right(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "reimported", &[1, 2]).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    let good = "member1 http:8080 10.1.0.1";
    for member in [1, 2] {
        reaches(&scene, member, &[good]).await?;
    }
    let before = address(&scene, 2).await?;
    let ports = json!({ "spec": { "ports": [{ "name": "other", "port": 81, "protocol": "TCP" }] } });
    scene.edit(2, "ServiceImport serve", ports).await?;
    until("it is put right", PATIENCE, async || {
        let port = scene.field(2, "ServiceImport serve", "/spec/ports/0/port").await?;
        ensure!(port == 80, "its port is {port}");
        Ok(())
    })
    .await?;
    let own = slices(&scene, 1).await?.remove(0).metadata.uid;
    for member in [1, 2] {
        let uid = scene.field(member, "ServiceImport serve", "/metadata/uid").await?;
        scene.delete(member, &["ServiceImport serve"]).await?;
        until("it is made again", PATIENCE, async || {
            let now = scene.field(member, "ServiceImport serve", "/metadata/uid").await?;
            ensure!(now != uid, "it is not");
            Ok(())
        })
        .await?;
    }
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    for member in [1, 2] {
        reaches(&scene, member, &["member1 http:8080 10.1.0.1,10.1.0.2"]).await?;
    }
    ensure!(address(&scene, 2).await? == before, "its address changed");
    ensure!(
        slices(&scene, 1).await?.remove(0).metadata.uid == own,
        "its own endpoints were gone for a moment"
    );
    Ok(())
}

pub(crate) async fn a_slice_that_an_importer_refuses_keeps_no_others_back(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "refusing", &[1, 2, 3]).await?;
    for member in [1, 2] {
        exported(&scene, member, &[("http", 80)], 1).await?;
        let near = json!({ "spec": { "trafficDistribution": "PreferClose" } });
        scene.edit(member, "Service serve", near).await?;
    }
    let first = "member1 http:8080 10.1.0.1";
    reaches(&scene, 3, &[first, "member2 http:8080 10.2.0.1"]).await?;
    until("it is served near by", PATIENCE, async || {
        let found = slices(&scene, 3).await?;
        let hinted = |slice: &EndpointSlice| slice.endpoints.iter().all(|endpoint| endpoint.hints.is_some());
        ensure!(found.iter().all(hinted), "there are no hints");
        Ok(())
    })
    .await?;
    let (policies, bindings) = lets_in_one_endpoint_of_member1(&scene).await?;
    scene.apply(1, [slice(1, &[("http", 80)], 2)]).await?;
    let api: Api<EndpointSlice> = Api::namespaced(scene.client(1).clone(), "refusing");
    until("it is offered", PATIENCE, async || {
        let offered = api.list(&ListParams::default().labels("tombolo.dev/source=serve")).await?.items;
        ensure!(offered.iter().any(|slice| slice.endpoints.len() == 2), "it is not");
        Ok(())
    })
    .await?;
    for addresses in ["10.2.0.1,10.2.0.2", "10.2.0.1"] {
        scene.apply(2, [slice(2, &[("http", 80)], addresses.split(',').count())]).await?;
        reaches(&scene, 3, &[first, &format!("member2 http:8080 {addresses}")]).await?;
    }
    let status = Api::<Cluster>::all(bed.hub.client.clone()).get("member3").await?.status.unwrap_or_default();
    let told = status.conditions.iter().any(|of| of.type_ == "CopiesRemoved");
    ensure!(!told, "an import without a template is no copy that should be gone: {status:?}");
    bindings.delete("refusing", &DeleteParams::default()).await?;
    policies.delete("refusing", &DeleteParams::default()).await?;
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1,10.1.0.2", "member2 http:8080 10.2.0.1"]).await?;
    // An API server takes this for a zone, and would not take it for a hint.
    let mut odd = slice(1, &[("http", 80)], 1);
    for endpoint in odd["endpoints"].as_array_mut().into_iter().flatten() {
        endpoint["zone"] = "rack/1".into();
    }
    scene.apply(1, [odd]).await?;
    reaches(&scene, 3, &[first, "member2 http:8080 10.2.0.1"]).await
}

/// Has member3 refuse what has more than one endpoint of member1, and waits until it does.
async fn lets_in_one_endpoint_of_member1(
    scene: &Scene,
) -> Result<(Api<ValidatingAdmissionPolicy>, Api<ValidatingAdmissionPolicyBinding>)> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(scene.client(3).clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(scene.client(3).clone());
    let source = json!({ "multicluster.kubernetes.io/source-cluster": "member1" });
    let policy = json!({ "metadata": { "name": "refusing" }, "spec": {
        "matchConstraints": {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "refusing" } },
            "objectSelector": { "matchLabels": source },
            "resourceRules": [{
                "apiGroups": ["discovery.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["endpointslices"],
            }],
        },
        "validations": [{ "expression": "!has(object.endpoints) || size(object.endpoints) < 2" }],
    } });
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    let binding = json!({ "metadata": { "name": "refusing" }, "spec": {
        "policyName": "refusing", "validationActions": ["Deny"],
    } });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let slices: Api<EndpointSlice> = Api::namespaced(scene.client(3).clone(), "refusing");
    let probe: EndpointSlice = serde_json::from_value(json!({
        "metadata": { "name": "probe", "labels": source }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.9.0.1"] }, { "addresses": ["10.9.0.2"] }],
    }))?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    until("two endpoints are refused", PATIENCE, async || {
        ensure!(slices.create(&dry, &probe).await.is_err(), "they are let in");
        Ok(())
    })
    .await?;
    Ok((policies, bindings))
}

pub(crate) async fn c5_an_import_that_a_user_made_stays_the_users(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "users", &[1, 2]).await?;
    let own = json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "own", "port": 99, "protocol": "TCP" }] } });
    scene.apply(2, [object("ServiceImport", "serve", own)]).await?;
    let before = address(&scene, 2).await?;
    exported(&scene, 1, &[("http", 80)], 1).await?;
    condition(&scene, 1, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
    reaches(&scene, 1, &["member1 http:8080 10.1.0.1"]).await?;
    let ports = scene.field(2, "ServiceImport serve", "/spec/ports/0/port").await?;
    ensure!(ports == 99 && address(&scene, 2).await? == before, "{ports}");
    scene.delete(1, &["ServiceExport serve"]).await?;
    scene.goes(&[1], "ServiceImport serve").await?;
    scene.find(2, "ServiceImport serve").await.map(drop)
}
