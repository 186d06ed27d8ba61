//! The rows H to K of KEP-1645's checklist: names, asked of stock CoreDNS.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    dns,
    scene::{Scene, object, with},
    wait::until,
};

use super::ground::*;

const ALL: [usize; 3] = [1, 2, 3];

/// A Service without pods and its export in member 1, imported everywhere; gives back the address that it has in member 2.
async fn named(bed: &Arc<Bed>, namespace: &str, more: Value) -> Result<(Scene, String)> {
    let scene = scene(bed, namespace, &ALL).await?;
    scene.apply(1, [service(more), export()]).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    let ip = scene.field(2, "ServiceImport serve", "/spec/ips/0").await?;
    Ok((scene, ip.as_str().context("it is no text")?.to_owned()))
}

/// Waits until a name does not exist in a member.
async fn does_not_exist(scene: &Scene, member: usize, kind: &str, name: &str) -> Result<()> {
    until(&format!("{name} does not exist in member{member}"), PATIENCE, async || {
        let answer = dns::ask(&scene.bed, member, kind, name)?;
        ensure!(answer.status == "NXDOMAIN", "{answer:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn h1_i1_the_name_in_clusterset_local_is_the_clusterset_ip(bed: Arc<Bed>) -> Result<()> {
    let (scene, ip) = named(&bed, "row-h1", json!({})).await?;
    resolves(&scene, 2, "serve.row-h1.svc.clusterset.local", &[ip]).await?;
    // The name is there, and has no address of the other family.
    has_addresses(&scene, 2, "AAAA", "serve.row-h1.svc.clusterset.local", &[]).await?;
    // Nor is there any name in a namespace that the cluster does not have.
    does_not_exist(&scene, 2, "A", "serve.row-h1-nowhere.svc.clusterset.local").await
}

pub(crate) async fn h2_names_of_cluster_local_are_as_they_were_before_the_import(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "row-h2", &ALL).await?;
    scene.apply(2, [service(json!({}))]).await?;
    let local = scene.field(2, "Service serve", "/spec/clusterIP").await?;
    let local = [local.as_str().unwrap_or_default().to_owned()];
    let name = "serve.row-h2.svc.cluster.local";
    resolves(&scene, 2, name, &local).await?;
    scene.apply(1, [service(json!({})), export()]).await?;
    imported(&scene, &ALL, anyhow_so).await?;
    let imported = scene.field(2, "ServiceImport serve", "/spec/ips/0").await?;
    resolves(&scene, 2, &clusterset(&scene), &[imported.as_str().unwrap_or_default().to_owned()]).await?;
    ensure!(dns::addresses(&bed, 2, "A", name)? == local && imported != local[0].as_str(), "{imported}");
    does_not_exist(&scene, 3, "A", name).await
}

pub(crate) async fn h3_the_zone_says_which_version_of_the_names_it_has(bed: Arc<Bed>) -> Result<()> {
    dns::until_answering(&bed).await?;
    let answer = dns::ask(&bed, 3, "TXT", "dns-version.clusterset.local")?;
    ensure!(answer.records.len() == 1 && answer.records[0].starts_with("TXT \"1."), "{answer:?}");
    Ok(())
}

pub(crate) async fn h4_a_cluster_alone_has_no_name(bed: Arc<Bed>) -> Result<()> {
    let (scene, ip) = named(&bed, "row-h4", json!({})).await?;
    scene.apply(1, [slice("serve", &[("10.9.0.1", None, true)])]).await?;
    resolves(&scene, 2, &clusterset(&scene), &[ip]).await?;
    ready(&scene, 2, 1).await?;
    // Its slices come later than that one: the DNS server that knows them knows it too.
    let headless = by_hand(&bed, "row-h4-headless", &[("10.9.0.1", Some("one"), true)]).await?;
    resolves(&headless, 2, &clusterset(&headless), &["10.9.0.1".to_owned()]).await?;
    // The endpoint has its name below the one that does not exist.
    resolves(&headless, 2, &format!("one.member1.{}", clusterset(&headless)), &["10.9.0.1".to_owned()])
        .await?;
    for scene in [&scene, &headless] {
        does_not_exist(scene, 2, "A", &format!("member1.{}", clusterset(scene))).await?;
    }
    Ok(())
}

pub(crate) async fn h5_reverse_names_are_those_of_the_clusters_own_services(bed: Arc<Bed>) -> Result<()> {
    let (scene, ip) = named(&bed, "row-h5", json!({})).await?;
    let local = scene.field(1, "Service serve", "/spec/clusterIP").await?;
    for (member, ip, service) in
        [(1, local.as_str().unwrap_or_default(), "serve"), (2, &*ip, "derived-serve")]
    {
        let back: Vec<&str> = ip.rsplit('.').collect();
        let wanted = format!("PTR {service}.row-h5.svc.cluster.local.");
        until(&format!("{ip} has its name"), PATIENCE, async || {
            let answer = dns::ask(&bed, member, "PTR", &format!("{}.in-addr.arpa", back.join(".")))?;
            ensure!(answer.records == [wanted.clone()], "{answer:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn h6_the_longest_name_there_is_resolves_and_answers(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, &format!("row-h6-{}", "n".repeat(56)), &[1, 2]).await?;
    let name = format!("s{}", "x".repeat(62));
    let named = json!({ "metadata": { "name": name } });
    scene.apply(1, [server(1, 1), service(named.clone()), with(export(), named)]).await?;
    let full = format!("{name}.{}.svc.clusterset.local", scene.namespace);
    url_answered_by(&scene, 2, &format!("http://{full}/"), &["member1"]).await
}

pub(crate) async fn i2_i3_each_named_port_has_a_record_and_comes_with_the_address(
    bed: Arc<Bed>,
) -> Result<()> {
    let (scene, ip) = named(&bed, "row-i2", json!({})).await?;
    let name = clusterset(&scene);
    for (port, number) in [("_http._tcp", 80), ("_tcp._tcp", 7000), ("_udp._udp", 7000)] {
        has_srv(&scene, 2, &format!("{port}.{name}"), &[format!("{number} {name}.")]).await?;
    }
    let added = dns::additional(&bed, 2, "SRV", &format!("_http._tcp.{name}"))?;
    ensure!(added.records.contains(&format!("A {ip}")), "{added:?}");
    does_not_exist(&scene, 2, "SRV", &format!("_http._udp.{name}")).await?;
    let unnamed = json!({ "spec": { "ports": [{ "port": 80, "protocol": "TCP" }] } });
    let (unnamed, ip) = self::named(&bed, "row-i2-unnamed", unnamed).await?;
    resolves(&unnamed, 2, &clusterset(&unnamed), &[ip]).await?;
    no_port_has_a_name(&unnamed, &UNNAMED).await
}

/// What a port without a name could be called if names were made up, as for ports 80 and 8080.
const UNNAMED: [&str; 5] = ["_http._tcp", "_tcp-80._tcp", "_80._tcp", "_tcp-8080._tcp", "_8080._tcp"];

/// Fails unless the import has no record of a port by any of these names.
async fn no_port_has_a_name(scene: &Scene, names: &[&str]) -> Result<()> {
    for name in names {
        does_not_exist(scene, 2, "SRV", &format!("{name}.{}", clusterset(scene))).await?;
    }
    Ok(())
}

/// A slice of a Service that has no selector: an address, a host name and readiness each.
fn slice(service: &str, endpoints: &[(&str, Option<&str>, bool)]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(address, hostname, ready)| {
            json!({ "addresses": [address], "hostname": hostname, "conditions": { "ready": ready } })
        })
        .collect();
    let labels = json!({ "metadata": { "labels": { "kubernetes.io/service-name": service } } });
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "", "port": 9, "protocol": "UDP" }]);
    with(
        object(
            "EndpointSlice",
            "by-hand",
            json!({ "addressType": "IPv4", "endpoints": endpoints, "ports": ports }),
        ),
        labels,
    )
}

/// A headless Service with endpoints that are written down, and its export in member 1.
async fn by_hand(bed: &Arc<Bed>, namespace: &str, endpoints: &[(&str, Option<&str>, bool)]) -> Result<Scene> {
    let scene = scene(bed, namespace, &[1, 2]).await?;
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
    let headless = object("Service", "serve", json!({ "spec": { "clusterIP": "None", "ports": ports } }));
    scene.apply(1, [headless, slice("serve", endpoints), export()]).await?;
    imported(&scene, &[1, 2], anyhow_so).await?;
    Ok(scene)
}

pub(crate) async fn j1_j4_a_headless_name_is_the_ready_endpoints_and_without_any_there_is_none(
    bed: Arc<Bed>,
) -> Result<()> {
    let some = [("10.9.1.1", None, true), ("10.9.1.2", None, false)];
    let scene = by_hand(&bed, "row-j1", &some).await?;
    resolves(&scene, 2, &clusterset(&scene), &["10.9.1.1".to_owned()]).await?;
    scene.apply(1, [slice("serve", &[("10.9.1.1", None, false), ("10.9.1.2", None, false)])]).await?;
    does_not_exist(&scene, 2, "A", &clusterset(&scene)).await
}

pub(crate) async fn j2_j3_j6_an_endpoint_is_called_by_host_and_source_cluster(bed: Arc<Bed>) -> Result<()> {
    let some = [
        ("10.9.2.1", Some("db-0"), true),
        ("10.9.2.2", None, true),
        ("10.9.2.3", Some("db-1"), false),
        ("10.9.2.4", Some("db-2"), true),
        ("10.9.2.5", Some("db-2"), true),
    ];
    let scene = by_hand(&bed, "row-j2", &some).await?;
    let name = clusterset(&scene);
    resolves(&scene, 2, &format!("db-0.member1.{name}"), &["10.9.2.1".to_owned()]).await?;
    // A host name that two have is both of them.
    let both = ["10.9.2.4", "10.9.2.5"].map(str::to_owned);
    resolves(&scene, 2, &format!("db-2.member1.{name}"), &both).await?;
    // Without a host name it is called by its address.
    resolves(&scene, 2, &format!("10-9-2-2.member1.{name}"), &["10.9.2.2".to_owned()]).await?;
    for nobody in ["db-1.member1", "db-0.member2", "10-9-2-1.member1"] {
        does_not_exist(&scene, 2, "A", &format!("{nobody}.{name}")).await?;
    }
    Ok(())
}

pub(crate) async fn j5_each_endpoint_has_a_record_for_each_named_port(bed: Arc<Bed>) -> Result<()> {
    let some = [("10.9.3.1", Some("db-0"), true), ("10.9.3.2", Some("db-1"), true)];
    let scene = by_hand(&bed, "row-j5", &some).await?;
    let name = clusterset(&scene);
    let wanted = ["db-0", "db-1"].map(|host| format!("8080 {host}.member1.{name}."));
    has_srv(&scene, 2, &format!("_http._tcp.{name}"), &wanted).await?;
    // The one port of a Service needs no name, and then has no record.
    let unnamed = self::scene(&bed, "row-j5-unnamed", &[1, 2]).await?;
    let ports = json!([{ "port": 8080, "protocol": "TCP" }]);
    let headless = object("Service", "serve", json!({ "spec": { "clusterIP": "None", "ports": ports } }));
    let ports = json!([{ "name": "", "port": 8080, "protocol": "TCP" }]);
    let endpoints = with(slice("serve", &[("10.9.3.3", Some("db-0"), true)]), json!({ "ports": ports }));
    unnamed.apply(1, [headless, endpoints, export()]).await?;
    resolves(&unnamed, 2, &format!("db-0.member1.{}", clusterset(&unnamed)), &["10.9.3.3".to_owned()])
        .await?;
    no_port_has_a_name(&unnamed, &UNNAMED).await
}

/// The definition of ClusterProperty, as far as it matters, and the property that is a cluster's id.
fn property(id: &str) -> [Value; 2] {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "value": { "type": "string" },
    } } } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "clusterproperties.about.k8s.io",
                      "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149" } },
        "spec": { "group": "about.k8s.io", "scope": "Cluster",
                  "names": { "kind": "ClusterProperty", "plural": "clusterproperties", "singular": "clusterproperty" },
                  "versions": [{ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] },
    });
    let property = json!({ "apiVersion": "about.k8s.io/v1beta1", "kind": "ClusterProperty",
                           "metadata": { "name": "cluster.clusterset.k8s.io" }, "spec": { "value": id } });
    [definition, property]
}

pub(crate) async fn k1_k3_a_cluster_is_known_by_its_property_and_no_two_may_have_one(
    bed: Arc<Bed>,
) -> Result<()> {
    for (cluster, id) in [("member1", "blue"), ("member2", "blue")] {
        let kubectl = bed.kubectl(cluster);
        let [definition, property] = property(id).map(|object| object.to_string());
        kubectl.apply(&definition)?;
        until("the kind is served", PATIENCE, async || kubectl.apply(&property)).await?;
    }
    bed.join("member1", &[]).await?;
    let id = bed.kubectl("hub").run(&["get", "cluster", "member1", "-o", "jsonpath={.spec.id}"])?;
    ensure!(id == "blue", "its id is {id:?}");
    let refused = bed.join("member2", &[]).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refused.contains("member1"), "it is not told whose id that is: {refused:?}");
    ensure!(refused.contains("a cluster can be a member once"), "it is not told why: {refused:?}");
    Ok(())
}

pub(crate) async fn k2_k4_k5_a_member_says_in_which_clusterset_it_is_for_as_long_as_it_is(
    bed: Arc<Bed>,
) -> Result<()> {
    let member = bed.kubectl("member1");
    let say = |what: &str, path: &str| member.run(&["get", what, "-o", &format!("jsonpath={{{path}}}")]);
    let all = || member.run(&["get", "clusterproperties", "-o", "jsonpath={.items[*].metadata.name}"]);
    let (id, set) = ("clusterproperty/cluster.clusterset.k8s.io", "clusterproperty/clusterset.k8s.io");
    // The kind comes after the cluster has joined: it is watched for.
    bed.join("member1", &[]).await?;
    let [definition, _] = property("").map(|object| object.to_string());
    member.apply(&definition)?;
    let hub = member.run(&[
        "-n",
        "tombolo-system",
        "get",
        "configmap/tombolo-member",
        "-o",
        "jsonpath={.data.hub}",
    ])?;
    let system = say("namespace/kube-system", ".metadata.uid")?;
    let known = bed.kubectl("hub").run(&["get", "cluster", "member1", "-o", "jsonpath={.spec.id}"])?;
    ensure!(!hub.is_empty() && system == known, "the cluster is {system}, and the hub knows {known}");
    let says_so = async || {
        until("the properties say which cluster of which clusterset it is", PATIENCE, async || {
            let said = [say(id, ".spec.value")?, say(set, ".spec.value")?];
            ensure!(said == [&*system, &*hub], "they say {said:?}, not {system:?} and {hub:?}");
            Ok(())
        })
        .await
    };
    says_so().await?;
    // They do not change while the cluster is a member, and nothing else is called so.
    for property in [id, set] {
        member.run(&["patch", property, "--type=merge", "-p", r#"{"spec":{"value":"another"}}"#])?;
        says_so().await?;
        member.run(&["delete", property])?;
        says_so().await?;
    }
    let found = all()?;
    ensure!(found == "cluster.clusterset.k8s.io clusterset.k8s.io", "there are {found}");

    let left = bed.tombolo(&["unjoin", "member1"]).await?;
    ensure!(left.status.success(), "{}", String::from_utf8_lossy(&left.stderr));
    until("they go with the membership", PATIENCE, async || {
        let found = all()?;
        ensure!(found.is_empty(), "there are {found}");
        Ok(())
    })
    .await
}
