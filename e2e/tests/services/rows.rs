//! Rows of KEP-1645 that no other test here is named by: what is exported, what is imported of it, and what is left alone.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{PATIENCE, Scene, object, with},
    wait::until,
};

use super::ground::*;

const HTTP: &[(&str, u16)] = &[("http", 80)];

/// A Service like those of the other tests, with more in its spec.
fn special(member: usize, ports: &[(&str, u16)], spec: &Value) -> [Value; 2] {
    let [of_ports, slice] = service(member, ports, 1);
    [with(of_ports, json!({ "spec": spec })), slice]
}

/// A later second: exports are as old as their creation says.
async fn a_second_later() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

/// Waits until a member's ServiceImport and derived Service have these fields in their spec.
async fn says(scene: &Scene, member: usize, fields: &Value) -> Result<()> {
    until(&format!("member{member} has {fields}"), PATIENCE, async || {
        for what in ["ServiceImport serve", "Service derived-serve"] {
            let spec = scene.field(member, what, "/spec").await?;
            let mut wanted = spec.clone();
            json_patch::merge(&mut wanted, fields);
            ensure!(spec == wanted, "{what} has {spec}");
        }
        Ok(())
    })
    .await
}

pub(crate) async fn a2_b2_b4_c6_g16_all_exports_of_a_name_in_a_namespace_are_one_service_everywhere(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene_ = scene(&bed, "same", &[1, 2, 3]).await?;
    let other = scene(&bed, "same-no-more", &[1, 2, 3]).await?;
    exported(&scene_, 1, HTTP, 1).await?;
    exported(&scene_, 2, HTTP, 2).await?;
    exported(&other, 3, HTTP, 1).await?;
    for member in [1, 2, 3] {
        let both = ["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1,10.2.0.2"];
        reaches(&scene_, member, &both).await?;
        reaches(&other, member, &["member3 http:8080 10.3.0.1"]).await?;
    }
    Ok(())
}

pub(crate) async fn a6_b1_d3_nothing_is_exported_by_itself_and_local_services_stay_as_they_are(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene_ = scene(&bed, "untouched", &[1, 2]).await?;
    let first = scene(&bed, "untouched-first", &[1, 2]).await?;
    scene_.apply(1, special(1, HTTP, &json!({ "type": "NodePort" }))).await?;
    let before = scene_.find(1, "Service serve").await?;
    // What came later is served already, so this will not be.
    exported(&first, 1, HTTP, 1).await?;
    address(&first, 2).await?;
    scene_.is_absent(&[1, 2], "ServiceImport serve").await?;
    scene_.apply(1, [export()]).await?;
    address(&scene_, 2).await?;
    reaches(&scene_, 2, &["member1 http:8080 10.1.0.1"]).await?;
    let kind = scene_.field(2, "ServiceImport serve", "/spec/type").await?;
    ensure!(kind == "ClusterSetIP" && scene_.find(1, "Service serve").await? == before, "{kind}");
    scene_.is_absent(&[2], "Service serve").await
}

pub(crate) async fn a7_a_namespace_is_not_made_for_the_sake_of_an_import(bed: Arc<Bed>) -> Result<()> {
    let scene_ = scene(&bed, "nowhere-else", &[1]).await?;
    let later = scene(&bed, "nowhere-else-later", &[1, 3]).await?;
    exported(&scene_, 1, HTTP, 1).await?;
    address(&scene_, 1).await?;
    exported(&later, 1, HTTP, 1).await?;
    address(&later, 3).await?;
    scene_.is_absent(&[2, 3], "Namespace nowhere-else").await
}

pub(crate) async fn b6_affinity_and_traffic_fields_are_the_services(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "fields", &[1, 2]).await?;
    let fields = json!({
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 10 } },
        "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose",
    });
    scene.apply(1, special(1, HTTP, &fields)).await?;
    scene.apply(1, [export()]).await?;
    says(&scene, 2, &fields).await?;
    // They follow it.
    let changed = json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 20 } } });
    scene.apply(1, special(1, HTTP, &with(fields, changed.clone()))).await?;
    says(&scene, 2, &changed).await
}

pub(crate) async fn b7_g13_only_exported_labels_and_annotations_are_imported_and_the_oldest_set_wins(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "labels", &[1, 2]).await?;
    let of =
        |name: &str| json!({ "exportedLabels": { name: "label" }, "exportedAnnotations": { name: "note" } });
    for (member, name) in [(1, "first"), (2, "second")] {
        let [of_ports, slice] = service(member, HTTP, 1);
        let marked = json!({ "metadata": { "labels": { "mine": "x" }, "annotations": { "mine": "x" } } });
        let export = with(export(), json!({ "spec": of(name), "metadata": { "labels": { "mine": "x" } } }));
        scene.apply(member, [with(of_ports, marked), slice, export]).await?;
        condition(&scene, member, "ServiceExport serve", ("Valid", "True", "Valid")).await?;
        a_second_later().await;
    }
    for member in [1, 2] {
        let reasons = ("Conflict", "True", "LabelsConflict,AnnotationsConflict");
        condition(&scene, member, "ServiceExport serve", reasons).await?;
        scene.says(member, "ServiceImport serve", "/metadata/labels/first", "label").await?;
        scene.says(member, "ServiceImport serve", "/metadata/annotations/first", "note").await?;
        let metadata = scene.field(member, "ServiceImport serve", "/metadata").await?;
        for (part, name) in
            [("labels", "second"), ("annotations", "second"), ("labels", "mine"), ("annotations", "mine")]
        {
            ensure!(metadata[part].get(name).is_none(), "{part} have {name}: {metadata}");
        }
    }
    Ok(())
}

pub(crate) async fn b13_c7_c8_c9_export_and_import_say_how_they_are(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "said", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    exported(&scene, 2, HTTP, 1).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Ready", "True", "Exported")).await?;
        condition(&scene, member, "ServiceImport serve", ("Ready", "True", "Ready")).await?;
        let clusters = json!([{ "cluster": "member1" }, { "cluster": "member2" }]);
        scene.says(member, "ServiceImport serve", "/status/clusters", clusters).await?;
        scene.says(member, "ServiceImport serve", "/status/endpointSliceObjects", "Present").await?;
    }
    Ok(())
}

pub(crate) async fn d4_g9_headlessness_is_the_oldests_and_changes_when_it_leaves(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "type", &[1, 2, 3]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    let before = address(&scene, 3).await?;
    a_second_later().await;
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080 }]);
    let headless = object("Service", "serve", json!({ "spec": { "clusterIP": "None", "ports": ports } }));
    scene.apply(2, [headless, slice(2, HTTP, 1), export()]).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "True", "TypeConflict")).await?;
    }
    ensure!(address(&scene, 3).await? == before, "its address changed");
    scene.delete(1, &["ServiceExport serve"]).await?;
    scene.says(3, "ServiceImport serve", "/spec/type", "Headless").await?;
    scene.says(3, "Service derived-serve", "/spec/clusterIP", "None").await?;
    condition(&scene, 2, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    reaches(&scene, 3, &["member2 http:8080 10.2.0.1"]).await?;
    until("an event tells it too", PATIENCE, async || {
        let events = bed.kubectl("member3").run(&["get", "events", "--namespace", "type"])?;
        ensure!(events.contains("TypeChanged"), "they are {events}");
        Ok(())
    })
    .await
}

pub(crate) async fn g2_g3_g10_g11_g12_all_that_differs_is_told_at_once_the_oldest_wins_and_its_end_is_told(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "everything", &[1, 2, 3]).await?;
    let affinity = |seconds: u32| json!({ "clientIP": { "timeoutSeconds": seconds } });
    let old = json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": affinity(10),
                      "internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose" });
    let young = json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": affinity(20) });
    // The cluster whose name is the second is the oldest: names decide nothing.
    let labels = |name: &str| {
        with(
            export(),
            json!({ "spec": { "exportedLabels": { "by": name }, "exportedAnnotations": { "by": name } } }),
        )
    };
    scene.apply(2, special(2, HTTP, &old)).await?;
    scene.apply(2, [labels("old")]).await?;
    says(&scene, 3, &old).await?;
    let before = address(&scene, 3).await?;
    a_second_later().await;
    scene.apply(1, special(1, &[("http", 81)], &young)).await?;
    scene.apply(1, [labels("young")]).await?;
    let reasons = [
        "PortConflict",
        "SessionAffinityConfigConflict",
        "LabelsConflict",
        "AnnotationsConflict",
        "InternalTrafficPolicyConflict",
        "TrafficDistributionConflict",
    ];
    for member in [1, 2] {
        let message =
            condition(&scene, member, "ServiceExport serve", ("Conflict", "True", &reasons.join(",")))
                .await?;
        ensure!(message.contains("\"member2\"") && message.contains("1/2"), "{message}");
    }
    says(&scene, 3, &old).await?;
    reaches(&scene, 3, &["member1  ", "member2 http:8080 10.2.0.1"]).await?;
    // Affinity itself differs where there is none.
    scene.apply(1, special(1, HTTP, &json!({ "sessionAffinity": "None" }))).await?;
    until("affinity differs", PATIENCE, async || {
        let said = scene.field(1, "ServiceExport serve", "/status/conditions").await?.to_string();
        ensure!(said.contains("SessionAffinityConflict") && !said.contains("PortConflict"), "{said}");
        Ok(())
    })
    .await?;
    scene.apply(1, special(1, HTTP, &old)).await?;
    scene.apply(1, [labels("old")]).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    }
    ensure!(address(&scene, 3).await? == before, "its address changed");
    reaches(&scene, 3, &["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1"]).await
}

pub(crate) async fn g4_the_import_goes_on_with_what_is_left_when_the_winner_leaves(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "left", &[1, 2, 3]).await?;
    exported(&scene, 1, HTTP, 1).await?;
    let before = address(&scene, 3).await?;
    a_second_later().await;
    exported(&scene, 2, &[("http", 81)], 1).await?;
    condition(&scene, 2, "ServiceExport serve", ("Conflict", "True", "PortConflict")).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    condition(&scene, 2, "ServiceExport serve", ("Conflict", "False", "NoConflicts")).await?;
    reaches(&scene, 3, &["member2 http:8081 10.2.0.1"]).await?;
    scene.says(3, "Service derived-serve", "/spec/ports/0/port", 81).await?;
    ensure!(address(&scene, 3).await? == before, "its address changed");
    Ok(())
}

pub(crate) async fn g6_a_named_and_an_unnamed_port_make_a_service_whose_ports_all_have_names(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "unnamed", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("", 80)], 1).await?;
    reaches(&scene, 3, &["member1 :8080 10.1.0.1"]).await?;
    let before = address(&scene, 3).await?;
    a_second_later().await;
    exported(&scene, 2, &[("admin", 90)], 1).await?;
    reaches(&scene, 3, &["member1 tcp-80:8080 10.1.0.1", "member2 admin:8090 10.2.0.1"]).await?;
    let ports = scene.field(3, "Service derived-serve", "/spec/ports").await?;
    let names: Vec<_> = ports.as_array().into_iter().flatten().map(|port| port["name"].clone()).collect();
    ensure!(
        names == [json!("admin"), json!("tcp-80")] || names == [json!("tcp-80"), json!("admin")],
        "{names:?}"
    );
    ensure!(address(&scene, 3).await? == before, "its address changed");
    Ok(())
}

pub(crate) async fn g8_port_names_that_swap_between_clusters_lead_to_the_older_ones_pods_only(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "swapped", &[1, 2, 3]).await?;
    exported(&scene, 1, &[("a", 80), ("b", 81)], 1).await?;
    reaches(&scene, 3, &["member1 a:8080,b:8081 10.1.0.1"]).await?;
    a_second_later().await;
    exported(&scene, 2, &[("a", 81), ("b", 80)], 1).await?;
    for member in [1, 2] {
        condition(&scene, member, "ServiceExport serve", ("Conflict", "True", "PortConflict")).await?;
    }
    // What is `a` for one is `b` for the other, so neither port is the same thing in both: the younger one's are withheld, at home too.
    for member in [1, 2, 3] {
        reaches(&scene, member, &["member1 a:8080,b:8081 10.1.0.1", "member2  "]).await?;
    }
    // Alone it serves them as it calls them.
    scene.delete(1, &["ServiceExport serve"]).await?;
    for member in [2, 3] {
        reaches(&scene, member, &["member2 a:8081,b:8080 10.2.0.1"]).await?;
    }
    Ok(())
}

pub(crate) async fn g8_every_importer_serves_the_same_of_a_cluster_that_cluster_itself_too(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "everywhere", &[1, 2, 3]).await?;
    // Each a second younger: 80 is one port under the oldest one's name, and the name that the second gives it goes to another.
    exported(&scene, 1, &[("http", 80)], 1).await?;
    a_second_later().await;
    exported(&scene, 2, &[("web", 80)], 1).await?;
    a_second_later().await;
    exported(&scene, 3, &[("web", 81)], 1).await?;
    for member in [1, 2, 3] {
        let all = ["member1 http:8080 10.1.0.1", "member2 http:8080 10.2.0.1", "member3 web:8081 10.3.0.1"];
        reaches(&scene, member, &all).await?;
    }
    Ok(())
}

pub(crate) async fn f6_f8_slices_are_in_the_services_namespace_of_every_importer_the_exporter_too(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "places", &[1, 2]).await?;
    exported(&scene, 1, HTTP, 0).await?;
    // At least one for each exporting cluster, without endpoints too (F1).
    for member in [1, 2] {
        reaches(&scene, member, &["member1 http:8080 "]).await?;
        let slices = slices(&scene, member).await?;
        ensure!(
            slices.iter().all(|slice| slice.metadata.owner_references.is_none()),
            "they belong to somebody"
        );
    }
    Ok(())
}
