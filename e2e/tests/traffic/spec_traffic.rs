//! The specs of the conformance suite about connectivity, slices and DNS, 16 to 27, from what KEP-1645 says of each.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    dns,
    scene::{Scene, object},
    wait::{Final, until},
};

use super::ground::*;

const ALL: [usize; 3] = [1, 2, 3];

/// Fails if a single of many calls is answered; what did not get as far as to be made is made again.
async fn nobody_answers(scene: &Scene, from: usize, url: &str) -> Result<()> {
    until(&format!("{url} is called from member{from}"), PATIENCE, async || {
        let answers = calls(&scene.bed, from, url, 20).await?;
        let none = answers.iter().all(|answer| answer == "-");
        ensure!(none, Final(format!("it is answered: {answers:?}")));
        Ok(())
    })
    .await
}

pub(crate) async fn spec_16_a_service_that_is_not_exported_is_not_reached(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-16", &ALL).await?;
    // A zone that is silent would answer nobody.
    dns::until_answering(&bed).await?;
    scene.apply(1, [server(1, 1), service(json!({}))]).await?;
    // It answers by the name of its own cluster, so that nothing but the lack of an export is in the way.
    url_answered_by(&scene, 1, "http://serve.spec-16.svc.cluster.local/", &["member1"]).await?;
    for member in ALL {
        nobody_answers(&scene, member, &format!("http://{}/", clusterset(&scene))).await?;
    }
    Ok(())
}

pub(crate) async fn spec_17_an_exported_service_is_reached_by_its_name_from_everywhere(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-17", &ALL).await?;
    exported(&scene, 1, 1, json!({})).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    for member in ALL {
        answered_by(&scene, member, &["member1"]).await?;
        for nc in ["nc -N -w 2", "nc -u -w 1"] {
            // A busy machine may lose a datagram; an answer from elsewhere is final.
            until(&format!("{nc} is answered in member{member}"), PATIENCE, async || {
                let said =
                    in_pod(&bed, member, &format!("echo hi | {nc} {} 7000", clusterset(&scene))).await?;
                ensure!(!said.is_empty(), "there is no answer");
                let well = said.starts_with("serve-member1-") && said.ends_with(" hi\n");
                ensure!(well, Final(format!("it got {said:?}")));
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

pub(crate) async fn spec_18_of_two_clusters_only_the_one_that_exports_is_reached(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-18", &ALL).await?;
    scene.apply(2, [server(2, 1), service(json!({}))]).await?;
    exported(&scene, 1, 1, json!({})).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    url_answered_by(&scene, 2, "http://serve.spec-18.svc.cluster.local/", &["member2"]).await?;
    for member in ALL {
        answered_by(&scene, member, &["member1"]).await?;
    }
    Ok(())
}

/// Pods, a Service with a single port to their HTTP and its export.
fn of_port(member: usize, name: &str, port: u16) -> [Value; 3] {
    let ports = json!([{ "name": name, "port": port, "targetPort": 8080, "protocol": "TCP" }]);
    [server(member, 1), service(json!({ "spec": { "ports": ports } })), export()]
}

pub(crate) async fn spec_19_of_one_port_name_with_two_numbers_the_older_number_is_served_by_its_cluster(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-19", &ALL).await?;
    exported_in_turn(&scene, &of_port(1, "http", 80), &of_port(2, "http", 4242)).await?;
    condition(&scene, 1, "ServiceExport serve", "Conflict", "True").await?;
    for member in ALL {
        answered_by(&scene, member, &["member1"]).await?;
    }
    // It answers by the name of its own cluster, so that nothing but the conflict is in the way.
    url_answered_by(&scene, 2, "http://serve.spec-19.svc.cluster.local:4242/", &["member2"]).await?;
    nobody_answers(&scene, 3, &format!("http://{}:4242/", clusterset(&scene))).await
}

pub(crate) async fn spec_20_a_port_of_one_cluster_alone_is_served_by_it_alone(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-20", &ALL).await?;
    exported_in_turn(&scene, &of_port(1, "http", 80), &of_port(2, "other", 4242)).await?;
    imported(&scene, &ALL, |import| {
        ensure!(ports(&import["spec"]) == ["http:80/TCP", "other:4242/TCP"], "not both ports");
        Ok(())
    })
    .await?;
    let other = format!("http://{}:4242/", clusterset(&scene));
    for member in ALL {
        answered_by(&scene, member, &["member1"]).await?;
        url_answered_by(&scene, member, &other, &["member2"]).await?;
    }
    Ok(())
}

pub(crate) async fn spec_21_each_importer_has_slices_with_the_labels_and_loses_them_with_the_export(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-21", &ALL).await?;
    exported(&scene, 1, 1, json!({})).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    for member in ALL {
        until(&format!("member{member} has the slice"), PATIENCE, async || {
            let slices = slices(&scene, member).await?;
            ensure!(slices.len() == 1 && !slices[0].endpoints.is_empty(), "{slices:?}");
            let labels = slices[0].metadata.labels.clone().unwrap_or_default();
            let source = labels.get("multicluster.kubernetes.io/source-cluster");
            ensure!(source.is_some_and(|source| source == "member1"), "{labels:?}");
            let by = labels.get("endpointslice.kubernetes.io/managed-by");
            ensure!(by.is_some_and(|by| by != "endpointslice-controller.k8s.io"), "{labels:?}");
            ensure!(slices[0].address_type == "IPv4", "{slices:?}");
            Ok(())
        })
        .await?;
    }
    scene.delete(1, &["ServiceExport serve"]).await?;
    for member in ALL {
        until(&format!("member{member} loses the slice"), PATIENCE, async || {
            ensure!(slices(&scene, member).await?.is_empty(), "it has it still");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn spec_22_the_name_is_the_clusterset_ip(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-22", &ALL).await?;
    scene.apply(1, [service(json!({})), export()]).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    for member in ALL {
        let ips = scene.field(member, "ServiceImport serve", "/spec/ips").await?;
        let ips: Vec<String> = serde_json::from_value(ips)?;
        resolves(&scene, member, &clusterset(&scene), &ips).await?;
    }
    Ok(())
}

pub(crate) async fn spec_23_a_service_has_one_srv_record_a_port(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-23", &ALL).await?;
    scene.apply(1, [service(json!({})), export()]).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    let name = clusterset(&scene);
    // The port that two protocols share is one record.
    let bare = [format!("7000 {name}."), format!("80 {name}.")];
    for member in ALL {
        has_srv(&scene, member, &name, &bare).await?;
        has_srv(&scene, member, &format!("_http._tcp.{name}"), &bare[1..]).await?;
    }
    Ok(())
}

pub(crate) async fn spec_24_names_of_cluster_local_are_of_the_local_service_alone(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "spec-24", &ALL).await?;
    scene.apply(1, [service(json!({})), export()]).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    let local = scene.field(1, "Service serve", "/spec/clusterIP").await?;
    let local = local.as_str().unwrap_or_default().to_owned();
    let name = "serve.spec-24.svc.cluster.local";
    resolves(&scene, 1, name, &[local]).await?;
    // Where there is no such Service there is no such name, though the import has one.
    for member in [2, 3] {
        let ip = scene.field(member, "ServiceImport serve", "/spec/ips/0").await?;
        resolves(&scene, member, &clusterset(&scene), &[ip.as_str().unwrap_or_default().to_owned()]).await?;
        let answer = dns::ask(&bed, member, "A", name)?;
        ensure!(answer.status == "NXDOMAIN", "{answer:?}");
    }
    Ok(())
}

/// A headless Service with its pods, in a `StatefulSet`, and its export.
pub(crate) fn headless(member: usize, replicas: u32) -> [Value; 3] {
    let set = json!({ "spec": {
        "serviceName": "serve", "replicas": replicas, "podManagementPolicy": "Parallel",
        "selector": { "matchLabels": { "app": "serve" } },
        "template": { "metadata": { "labels": { "app": "serve" } }, "spec": pod(member) },
    } });
    [
        object("StatefulSet", "web", set),
        service(json!({ "spec": { "clusterIP": "None", "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "udp", "port": 7000, "protocol": "UDP" },
        ] } })),
        export(),
    ]
}

/// Headless in two clusters, two pods in the first and one in the second; gives back their addresses.
pub(crate) async fn headless_in_two(scene: &Scene) -> Result<(Vec<String>, Vec<String>)> {
    scene.apply(1, headless(1, 2)).await?;
    scene.apply(2, headless(2, 1)).await?;
    imported(scene, &ALL, anyhow_so).await?;
    Ok((pod_addresses(scene, 1, 2).await?, pod_addresses(scene, 2, 1).await?))
}

pub(crate) async fn spec_25_a_headless_name_is_all_ready_pods_of_all_clusters(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-25", &ALL).await?;
    let (first, second) = headless_in_two(&scene).await?;
    let mut all = [first, second].concat();
    all.sort();
    for member in ALL {
        resolves(&scene, member, &clusterset(&scene), &all).await?;
    }
    Ok(())
}

pub(crate) async fn spec_26_a_pod_of_a_stateful_set_has_a_name_with_its_cluster(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-26", &ALL).await?;
    let (_, second) = headless_in_two(&scene).await?;
    for member in ALL {
        resolves(&scene, member, &format!("web-0.member2.{}", clusterset(&scene)), &second).await?;
        let said = until("the pod answers by its name", PATIENCE, async || {
            let name = format!("web-1.member1.{}", clusterset(&scene));
            in_pod(&bed, member, &format!("curl -s -m 2 http://{name}:8080/")).await
        })
        .await?;
        ensure!(said.contains("\"hostname\":\"web-1\",\"cluster\":\"member1\""), "{said}");
    }
    Ok(())
}

pub(crate) async fn spec_27_a_headless_service_has_an_srv_record_a_pod_and_port(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "spec-27", &ALL).await?;
    headless_in_two(&scene).await?;
    let name = clusterset(&scene);
    let targets = ["web-0.member1", "web-0.member2", "web-1.member1"];
    for member in ALL {
        for (port, number) in [("_http._tcp", 8080), ("_udp._udp", 7000)] {
            let wanted: Vec<String> =
                targets.iter().map(|target| format!("{number} {target}.{name}.")).collect();
            has_srv(&scene, member, &format!("{port}.{name}"), &wanted).await?;
        }
    }
    Ok(())
}
