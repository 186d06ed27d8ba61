//! The specs of the conformance suite about imports, 1 to 15, from what KEP-1645 says of each.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{Scene, object, with},
};

use super::ground::*;

const ALL: [usize; 3] = [1, 2, 3];

/// A Service without pods and its export in member 1, in a namespace that all members have.
async fn plain(bed: &Arc<Bed>, namespace: &str, more: Value) -> Result<Scene> {
    let scene = scene(bed, namespace, &ALL).await?;
    scene.apply(1, [service(more), export()]).await?;
    Ok(scene)
}

/// Waits until an import's field says this in all members.
async fn everywhere(scene: &Scene, pointer: &str, wanted: Value) -> Result<()> {
    imported(scene, &ALL, |import| {
        let found = import.pointer(pointer).cloned().unwrap_or_default();
        ensure!(found == wanted, "{pointer} is {found}, not {wanted}");
        Ok(())
    })
    .await
}

/// Waits until the exports of members 1 and 2 tell of a conflict of this reason.
async fn conflict(scene: &Scene, reason: &str) -> Result<()> {
    for member in [1, 2] {
        let (found, message) = condition(scene, member, "ServiceExport serve", "Conflict", "True").await?;
        ensure!(found == reason, "{found}: {message}");
    }
    Ok(())
}

pub(crate) async fn spec_01_an_import_is_there_as_long_as_one_cluster_exports(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-01", &ALL).await?;
    let one = [service(json!({})), export()];
    exported_in_turn(&scene, &one, &one).await?;
    condition(&scene, 2, "ServiceExport serve", "Ready", "True").await?;
    imported(&scene, &ALL, anyhow_so).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    stays("one still exports", async || scene.find(1, "ServiceImport serve").await.map(drop)).await?;
    scene.delete(2, &["ServiceExport serve"]).await?;
    scene.goes(&ALL, "ServiceImport serve").await
}

/// The export with labels and annotations to take along.
fn export_with(value: &str) -> Value {
    let pairs = json!({ "team": value, value: "yes" });
    with(export(), json!({ "spec": { "exportedLabels": pairs, "exportedAnnotations": pairs } }))
}

pub(crate) async fn spec_02_only_exported_labels_and_annotations_come_along(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-02", &ALL).await?;
    let dummy = json!({ "metadata": { "labels": { "dummy": "x" }, "annotations": { "dummy": "x" } } });
    scene.apply(1, [service(dummy.clone()), with(export_with("one"), dummy)]).await?;
    imported(&scene, &ALL, |import| {
        for field in ["labels", "annotations"] {
            let found = &import["metadata"][field];
            ensure!(found["team"] == "one" && found["one"] == "yes", "{field} lack what is exported");
            ensure!(found.get("dummy").is_none(), "{field} have what is not exported");
        }
        Ok(())
    })
    .await
}

pub(crate) async fn spec_03_of_conflicting_labels_and_annotations_the_older_set_is_taken(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-03", &ALL).await?;
    let first = [service(json!({})), export_with("one")];
    exported_in_turn(&scene, &first, &[service(json!({})), export_with("two")]).await?;
    conflict(&scene, "LabelsConflict,AnnotationsConflict").await?;
    imported(&scene, &ALL, |import| {
        for field in ["labels", "annotations"] {
            let found = &import["metadata"][field];
            ensure!(found["team"] == "one" && found.get("two").is_none(), "{field} are not the older ones");
        }
        Ok(())
    })
    .await
}

pub(crate) async fn spec_04_a_cluster_ip_service_becomes_a_clusterset_ip_import_in_each_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = plain(&bed, "spec-04", json!({})).await?;
    condition(&scene, 1, "ServiceExport serve", "Valid", "True").await?;
    everywhere(&scene, "/spec/type", json!("ClusterSetIP")).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    scene.goes(&ALL, "ServiceImport serve").await
}

pub(crate) async fn spec_05_the_session_affinity_is_the_services(bed: Arc<Bed>) -> Result<()> {
    let config = json!({ "clientIP": { "timeoutSeconds": 10 } });
    let sticky = json!({ "spec": { "sessionAffinity": "ClientIP", "sessionAffinityConfig": config } });
    let scene = plain(&bed, "spec-05", sticky).await?;
    everywhere(&scene, "/spec/sessionAffinity", json!("ClientIP")).await?;
    everywhere(&scene, "/spec/sessionAffinityConfig", config).await
}

pub(crate) async fn spec_06_the_internal_traffic_policy_is_the_services(bed: Arc<Bed>) -> Result<()> {
    let scene = plain(&bed, "spec-06", json!({})).await?;
    everywhere(&scene, "/spec/internalTrafficPolicy", json!("Cluster")).await?;
    scene.apply(1, [service(json!({ "spec": { "internalTrafficPolicy": "Local" } }))]).await?;
    everywhere(&scene, "/spec/internalTrafficPolicy", json!("Local")).await
}

pub(crate) async fn spec_07_the_traffic_distribution_is_the_services(bed: Arc<Bed>) -> Result<()> {
    let scene = plain(&bed, "spec-07", json!({ "spec": { "trafficDistribution": "PreferClose" } })).await?;
    everywhere(&scene, "/spec/trafficDistribution", json!("PreferClose")).await
}

pub(crate) async fn spec_08_there_is_an_address_for_each_family(bed: Arc<Bed>) -> Result<()> {
    let scene = plain(&bed, "spec-08", json!({ "spec": { "ipFamilyPolicy": "PreferDualStack" } })).await?;
    everywhere(&scene, "/spec/ipFamilies", json!(["IPv4"])).await?;
    imported(&scene, &ALL, |import| {
        let ips: Vec<std::net::Ipv4Addr> = serde_json::from_value(import["spec"]["ips"].clone())?;
        ensure!(ips.len() == 1, "{ips:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn spec_09_the_ports_are_the_services(bed: Arc<Bed>) -> Result<()> {
    let wanted = json!([
        { "name": "http", "port": 80, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c" },
        { "name": "udp", "port": 7000, "protocol": "UDP" },
    ]);
    let scene = plain(&bed, "spec-09", json!({ "spec": { "ports": wanted } })).await?;
    imported(&scene, &ALL, |import| {
        let mut found = import["spec"]["ports"].clone();
        let by_name = |port: &Value| port["name"].to_string();
        found.as_array_mut().into_iter().for_each(|ports| ports.sort_by_key(by_name));
        ensure!(found == wanted, "the ports are {found}");
        Ok(())
    })
    .await?;
    // A port that is added later comes along.
    let more = json!([wanted[0], wanted[1], { "name": "more", "port": 90, "protocol": "TCP" }]);
    scene.apply(1, [service(json!({ "spec": { "ports": more } }))]).await?;
    imported(&scene, &ALL, |import| {
        ensure!(ports(&import["spec"]) == ["http:80/TCP", "more:90/TCP", "udp:7000/UDP"], "not those ports");
        Ok(())
    })
    .await
}

/// A Service of these ports and its export.
fn of_ports(ports: &Value) -> [Value; 2] {
    [service(json!({ "spec": { "ports": ports } })), export()]
}

pub(crate) async fn spec_10_ports_are_a_union_and_a_difference_is_a_conflict(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-10", &ALL).await?;
    let first = of_ports(
        &json!([{ "name": "tcp", "port": 42, "protocol": "TCP" }, { "name": "udp", "port": 42, "protocol": "UDP" }]),
    );
    let second = of_ports(
        &json!([{ "name": "tcp", "port": 42, "protocol": "TCP" }, { "name": "stcp", "port": 142, "protocol": "SCTP" }]),
    );
    exported_in_turn(&scene, &first, &second).await?;
    conflict(&scene, "PortConflict").await?;
    imported(&scene, &ALL, |import| {
        ensure!(ports(&import["spec"]) == ["stcp:142/SCTP", "tcp:42/TCP", "udp:42/UDP"], "not the union");
        Ok(())
    })
    .await
}

pub(crate) async fn spec_11_of_conflicting_ports_the_older_export_s_is_taken(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-11", &ALL).await?;
    let first = of_ports(&json!([{ "name": "tcp", "port": 42, "protocol": "TCP" }]));
    let second = of_ports(&json!([{ "name": "tcp", "port": 43, "protocol": "TCP" }]));
    exported_in_turn(&scene, &first, &second).await?;
    conflict(&scene, "PortConflict").await?;
    imported(&scene, &ALL, |import| {
        ensure!(ports(&import["spec"]) == ["tcp:42/TCP"], "not the older one's");
        Ok(())
    })
    .await
}

pub(crate) async fn spec_12_a_headless_service_becomes_a_headless_import_in_each_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = plain(&bed, "spec-12", json!({ "spec": { "clusterIP": "None" } })).await?;
    everywhere(&scene, "/spec/type", json!("Headless")).await?;
    scene.delete(1, &["ServiceExport serve"]).await?;
    scene.goes(&ALL, "ServiceImport serve").await
}

pub(crate) async fn spec_13_a_headless_import_has_no_address(bed: Arc<Bed>) -> Result<()> {
    let scene = plain(&bed, "spec-13", json!({ "spec": { "clusterIP": "None" } })).await?;
    everywhere(&scene, "/spec/type", json!("Headless")).await?;
    stays("it has no address", async || {
        for member in ALL {
            let import = scene.find(member, "ServiceImport serve").await?;
            ensure!(import["spec"].get("ips").is_none(), "{import}");
        }
        Ok(())
    })
    .await
}

pub(crate) async fn spec_14_an_external_name_is_not_exported(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-14", &ALL).await?;
    let outside = json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } });
    scene.apply(1, [object("Service", "serve", outside), export()]).await?;
    let (reason, _) = condition(&scene, 1, "ServiceExport serve", "Valid", "False").await?;
    ensure!(reason == "InvalidServiceType", "{reason}");
    stays("nobody imports it", async || scene.is_absent(&ALL, "ServiceImport serve").await).await
}

pub(crate) async fn spec_15_of_conflicting_headlessness_the_older_export_s_is_taken(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-15", &ALL).await?;
    let headless = [service(json!({ "spec": { "clusterIP": "None" } })), export()];
    exported_in_turn(&scene, &[service(json!({})), export()], &headless).await?;
    conflict(&scene, "TypeConflict").await?;
    everywhere(&scene, "/spec/type", json!("ClusterSetIP")).await
}
