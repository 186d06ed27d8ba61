//! What a Service says about its traffic holds across clusters.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::Bed,
    fleet,
    scene::{Scene, with},
    wait::{Final, until},
};

use super::{ground::*, spec_traffic::headless};

const ALL: [usize; 3] = [1, 2, 3];

pub(crate) async fn traffic_distribution_prefers_the_own_zone_and_falls_back(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "zones", &ALL).await?;
    for member in ALL {
        let zone =
            json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": format!("zone-{member}") } } });
        let node = &bed.node(&format!("member{member}"))?.name;
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(scene.client(member).clone());
        nodes.patch(node, &Default::default(), &kube::api::Patch::Merge(zone)).await?;
    }
    let near = json!({ "spec": { "trafficDistribution": "PreferClose" } });
    exported(&scene, 1, 1, near.clone()).await?;
    exported(&scene, 2, 1, near).await?;
    for member in ALL {
        ready(&scene, member, 2).await?;
    }
    // Nobody is near: all are as good.
    answered_by(&scene, 3, &["member1", "member2"]).await?;
    answered_by(&scene, 1, &["member1"]).await?;
    answered_by(&scene, 2, &["member2"]).await?;
    scene.apply(1, [server(1, 0)]).await?;
    for member in ALL {
        answered_by(&scene, member, &["member2"]).await?;
    }
    Ok(())
}

pub(crate) async fn internal_traffic_policy_local_reaches_the_own_pods_alone(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "local", &ALL).await?;
    let local = json!({ "spec": { "internalTrafficPolicy": "Local" } });
    exported(&scene, 1, 1, local.clone()).await?;
    exported(&scene, 2, 1, local).await?;
    for member in ALL {
        ready(&scene, member, 2).await?;
    }
    answered_by(&scene, 1, &["member1"]).await?;
    answered_by(&scene, 2, &["member2"]).await?;
    // Nobody is local: what is sent is dropped, which takes its time, and is neither refused nor without a name.
    imported(&scene, &[3], |import| {
        ensure!(import["spec"]["internalTrafficPolicy"] == "Local", "not local");
        Ok(())
    })
    .await?;
    let ip = scene.field(3, "ServiceImport serve", "/spec/ips/0").await?;
    let ip = ip.as_str().context("it is no text")?.to_owned();
    resolves(&scene, 3, &clusterset(&scene), std::slice::from_ref(&ip)).await?;
    // By its address, so that it is no lookup that takes the time.
    let dropped = format!("for i in $(seq 5); do curl -s -o /dev/null -m 1 http://{ip}/; echo $?; done");
    until("member3 is answered by nobody", PATIENCE, async || {
        let ends = in_pod(&bed, 3, &dropped).await?;
        ensure!(!ends.lines().any(|end| end == "0"), Final(format!("somebody answers: {ends:?}")));
        ensure!(ends.lines().filter(|end| *end == "28").count() == 5, "curl ends with {ends:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn session_affinity_holds_across_clusters(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "sticky", &ALL).await?;
    exported(&scene, 1, 1, json!({})).await?;
    exported(&scene, 2, 1, json!({})).await?;
    answered_by(&scene, 3, &["member1", "member2"]).await?;
    for member in [1, 2] {
        scene.apply(member, [service(json!({ "spec": { "sessionAffinity": "ClientIP" } }))]).await?;
    }
    imported(&scene, &[3], |import| {
        ensure!(import["spec"]["sessionAffinity"] == "ClientIP", "its affinity is not the Service's");
        Ok(())
    })
    .await?;
    ready(&scene, 3, 2).await?;
    until("one caller is always answered by one cluster", PATIENCE, async || {
        let answers = calls(&bed, 3, &format!("http://{}/", clusterset(&scene)), 30).await?;
        let first = answers.first().context("there was no call")?;
        ensure!(first != "-" && answers.iter().all(|answer| answer == first), "{answers:?}");
        Ok(())
    })
    .await?;
    // It could have been answered by the other.
    ready(&scene, 3, 2).await
}

pub(crate) async fn a_losing_port_is_refused_while_the_clusters_other_ports_serve(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "losing", &ALL).await?;
    let other = json!({ "spec": { "ports": [
        { "name": "http", "port": 81, "targetPort": 8080, "protocol": "TCP" },
        { "name": "tcp", "port": 7000, "protocol": "TCP" },
    ] } });
    exported_in_turn(
        &scene,
        &[server(1, 1), service(json!({})), export()],
        &[server(2, 1), service(other), export()],
    )
    .await?;
    condition(&scene, 2, "ServiceExport serve", "Conflict", "True").await?;
    let both = format!("for i in $(seq 16); do echo hi | nc -N -w 2 {} 7000; done", clusterset(&scene));
    until("both clusters serve the other port", PATIENCE, async || {
        let said = in_pod(&bed, 3, &both).await?;
        let from =
            |member: &str| said.lines().filter(|line| line.starts_with(&format!("serve-{member}-"))).count();
        ensure!(from("member1") > 0 && from("member2") > 0, "{said}");
        ensure!(from("member1") + from("member2") == 16, "{said}");
        Ok(())
    })
    .await?;
    answered_by(&scene, 3, &["member1"]).await?;
    let losing = format!("curl -s -o /dev/null -m 2 http://{}:81/; echo $?", clusterset(&scene));
    until("the losing port is refused", PATIENCE, async || {
        let end = in_pod(&bed, 3, &losing).await?;
        ensure!(end.trim() != "0", Final("port 81 answers".to_owned()));
        ensure!(end.trim() == "7", "curl ends with {end}");
        Ok(())
    })
    .await
}

pub(crate) async fn with_dual_stack_both_families_are_served_where_there_are_both(
    bed: Arc<Bed>,
) -> Result<()> {
    for member in &bed.members {
        fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
    }
    let scene = scene(&bed, "families", &ALL).await?;
    for member in [1, 2] {
        exported(&scene, member, 1, json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } })).await?;
    }
    imported(&scene, &[1, 2], |import| {
        ensure!(import["spec"]["ipFamilies"] == json!(["IPv4", "IPv6"]), "not both families");
        ensure!(import["spec"]["ips"].as_array().is_some_and(|ips| ips.len() == 2), "not two addresses");
        Ok(())
    })
    .await?;
    let name = clusterset(&scene);
    for member in [1, 2] {
        let ips: Vec<String> =
            serde_json::from_value(scene.field(member, "ServiceImport serve", "/spec/ips").await?)?;
        resolves(&scene, member, &name, &ips[..1]).await?;
        has_addresses(&scene, member, "AAAA", &name, &ips[1..]).await?;
        for flag in ["-4", "-6"] {
            url_answered_by(&scene, member, &format!("{flag} http://{name}/"), &["member1", "member2"])
                .await?;
        }
    }
    only_the_family_that_there_is(&scene).await?;
    headless_in_both_families(&bed).await
}

/// A pod of a headless Service has an address of each family that the cluster where it is asked has.
async fn headless_in_both_families(bed: &Arc<Bed>) -> Result<()> {
    let scene = scene(bed, "headless-families", &ALL).await?;
    let [set, service, export] = headless(1, 1);
    let both = json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } });
    scene.apply(1, [set, with(service, both), export]).await?;
    pod_addresses(&scene, 1, 1).await?;
    let ips = scene.field(1, "Pod web-0", "/status/podIPs").await?;
    let ips: Vec<String> =
        ips.as_array().into_iter().flatten().filter_map(|ip| Some(ip["ip"].as_str()?.to_owned())).collect();
    ensure!(ips.len() == 2, "{ips:?}");
    for name in [clusterset(&scene), format!("web-0.member1.{}", clusterset(&scene))] {
        for member in [1, 2] {
            resolves(&scene, member, &name, &ips[..1]).await?;
        }
        for member in ALL {
            has_addresses(&scene, member, "AAAA", &name, &ips[1..]).await?;
        }
    }
    Ok(())
}

/// The last member has IPv6 alone.
async fn only_the_family_that_there_is(scene: &Scene) -> Result<()> {
    imported(scene, &[3], |import| {
        ensure!(import["spec"]["ipFamilies"] == json!(["IPv6"]), "not the family of the cluster");
        Ok(())
    })
    .await?;
    answered_by(scene, 3, &["member1", "member2"]).await?;
    for member in [1, 2] {
        scene.apply(member, [service(json!({ "spec": { "ipFamilyPolicy": "SingleStack" } }))]).await?;
    }
    let (reason, message) = condition(scene, 3, "ServiceImport serve", "Ready", "False").await?;
    ensure!(reason == "IPFamilyNotSupported", "{reason}: {message}");
    answered_by(scene, 1, &["member1", "member2"]).await
}
