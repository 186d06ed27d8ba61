//! Scenarios of Karmada's own end-to-end tests that no rule of the other modules covers; docs/karmada-scenarios.md lists all of them.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    scene::{
        HUB, Scene, config_map, deployment, labelled, members, object, overrides, places, places_from, with,
    },
};

use super::strip::is_at_rest;
use crate::scene;

const FIRST: &str = "/spec/template/spec/containers/0/image";
const SECOND: &str = "/spec/template/spec/containers/1/image";
const BEFORE: &str = "example.com/team/app:v1";
const AFTER: &str = "example.com/team/app:v2";

fn one() -> Value {
    labelled(config_map("one", json!({ "a": "b" })), "app", "one")
}

/// A policy with another placement.
fn placed(mut policy: Value, placement: Value) -> Value {
    policy["spec"]["placement"] = placement;
    policy
}

/// A `ClusterRole`.
fn role(name: &str) -> Value {
    let rules = json!({ "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] });
    object("ClusterRole", name, rules)
}

/// A Pod of two containers, which never runs here.
fn pod(name: &str) -> Value {
    let container = |name: &str| json!({ "name": name, "image": BEFORE });
    object("Pod", name, json!({ "spec": { "containers": [container("main"), container("beside")] } }))
}

/// Waits until Pods are admitted in the namespace, on the hub and in members: not before it has its account.
async fn takes_pods(scene: &Scene, members: &[usize]) -> Result<()> {
    let ahead = places("ahead", &["ConfigMap ahead"], members);
    scene.apply(HUB, [config_map("ahead", json!({})), ahead]).await?;
    scene.arrives(&[HUB], "ServiceAccount default").await?;
    scene.arrives(members, "ServiceAccount default").await
}

pub(crate) async fn roles_bindings_and_pods_arrive_and_go_with_their_templates(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "kinds-arrive").await?;
    takes_pods(&scene, &[1, 3]).await?;
    let name = scene.own("reader");
    let (wide, bound) = (format!("ClusterRole {name}"), format!("ClusterRoleBinding {name}"));
    let all = ["Role reader", "RoleBinding reader", &wide, &bound, "Pod lonely"];
    let to = |kind: &str, name: &str| {
        json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "kinds-arrive", "name": "runner" }],
        })
    };
    let narrow = with(role("reader"), json!({ "kind": "Role" }));
    scene.apply(HUB, [narrow, role(&name), pod("lonely")]).await?;
    scene.apply(HUB, [object("RoleBinding", "reader", to("Role", "reader"))]).await?;
    scene.apply(HUB, [object("ClusterRoleBinding", &name, to("ClusterRole", &name))]).await?;
    scene.apply(HUB, [places_from("kinds-arrive", &name, &all, &[1, 3])]).await?;
    for what in all {
        scene.is_in_exactly(&[1, 3], what).await?;
    }
    scene.still_says(3, "Role reader", "/rules/0/verbs", json!(["get"])).await?;
    scene.still_says(3, "RoleBinding reader", "/subjects/0/name", "runner").await?;
    scene.still_says(3, &bound, "/roleRef/name", name.as_str()).await?;
    scene.still_says(3, "Pod lonely", "/spec/containers/1/image", BEFORE).await?;
    is_at_rest(&scene, 3, "Pod lonely").await?;
    scene.delete(HUB, &all).await?;
    for what in all {
        scene.goes(&[1, 3], what).await?;
    }
    Ok(())
}

pub(crate) async fn a_policy_may_have_a_name_that_is_too_long_for_a_label(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "long-name").await?;
    let name = "long-".repeat(20) + "name";
    scene.apply(HUB, [one(), places(&name, &["ConfigMap one"], &[1])]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [places(&name, &["ConfigMap one"], &[2])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.reports(&format!("PropagationPolicy {name}"), "Propagated", &["member2"]).await
}

pub(crate) async fn what_a_workload_names_comes_and_goes_as_propagate_deps_is_switched(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "deps-switched").await?;
    let mut workload = deployment("web", 1);
    workload["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{ "configMapRef": { "name": "one" } }]);
    let policy = |on: bool| {
        with(places("p", &["Deployment web"], &[1, 2]), json!({ "spec": { "propagateDeps": on } }))
    };
    scene.apply(HUB, [one(), workload, policy(false)]).await?;
    scene.arrives(&[1, 2], "Deployment web").await?;
    scene.settles().await?;
    scene.is_absent(&[1, 2], "ConfigMap one").await?;
    scene.apply(HUB, [policy(true)]).await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap one").await?;
    scene.apply(HUB, [policy(false)]).await?;
    scene.goes(&[1, 2], "ConfigMap one").await?;
    scene.find(1, "Deployment web").await?;
    scene.find(HUB, "ConfigMap one").await.map(drop)
}

pub(crate) async fn a_placement_switches_between_one_group_of_clusters_and_several(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "by-groups").await?;
    let policy = |placement| placed(places("p", &["ConfigMap one"], &[]), placement);
    let single = |on: &[usize]| policy(json!({ "clusterAffinity": { "clusterNames": members(on) } }));
    let several = |first: &[usize], second: &[usize]| {
        let group = |name: &str, on| json!({ "affinityName": name, "clusterNames": members(on) });
        policy(json!({ "clusterAffinities": [group("first", first), group("second", second)] }))
    };
    scene.apply(HUB, [one(), single(&[1])]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [several(&[2], &[1])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    // Of the first group there is no cluster.
    scene.apply(HUB, [several(&[9], &[3])]).await?;
    scene.is_in_exactly(&[3], "ConfigMap one").await?;
    scene.apply(HUB, [single(&[1, 2])]).await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap one").await
}

pub(crate) async fn provider_region_and_zones_of_clusters_decide_and_may_change(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "by-field").await?;
    let is = |provider: &str, zone: &str| json!({ "spec": { "provider": provider, "region": "by-field-south", "zones": [zone] } });
    scene.edit(HUB, "Cluster member1", is("by-field-a", "by-field-1")).await?;
    scene.edit(HUB, "Cluster member2", is("by-field-b", "by-field-2")).await?;
    let by = |rules: &[(&str, &str, &str)]| {
        let rules: Vec<_> = rules
            .iter()
            .map(|(key, operator, value)| json!({ "key": key, "operator": operator, "values": [value] }))
            .collect();
        let affinity = json!({ "fieldSelector": { "matchExpressions": rules } });
        placed(places("p", &["ConfigMap one"], &[]), json!({ "clusterAffinity": affinity }))
    };
    let south = ("region", "In", "by-field-south");
    scene.apply(HUB, [one(), by(&[south])]).await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap one").await?;
    scene.apply(HUB, [by(&[south, ("zone", "NotIn", "by-field-2")])]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [by(&[("provider", "In", "by-field-b")])]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.edit(HUB, "Cluster member1", is("by-field-b", "by-field-1")).await?;
    scene.is_in_exactly(&[1, 2], "ConfigMap one").await
}

pub(crate) async fn an_empty_suspension_resumes_a_policy(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "resumed").await?;
    let name = scene.own("role");
    let (what, wide) = (format!("ClusterRole {name}"), format!("ClusterPropagationPolicy {name}"));
    let suspended = json!({ "spec": { "suspension": { "dispatching": true } } });
    let policies = [places("p", &["ConfigMap one"], &[1, 2]), places_from("", &name, &[&what], &[1, 2])];
    scene.apply(HUB, [one(), role(&name)]).await?;
    scene.apply(HUB, policies.map(|policy| with(policy, suspended.clone()))).await?;
    scene.reports("PropagationPolicy p", "HeldBack", &["suspended"]).await?;
    scene.reports(&wide, "HeldBack", &["suspended"]).await?;
    scene.settles().await?;
    scene.is_absent(&[1, 2], "ConfigMap one").await?;
    scene.is_absent(&[1, 2], &what).await?;
    for policy in ["PropagationPolicy p", &wide] {
        scene.edit(HUB, policy, json!({ "spec": { "suspension": { "dispatching": null } } })).await?;
    }
    scene.still_says(HUB, "PropagationPolicy p", "/spec/suspension", json!({})).await?;
    scene.arrives(&[1, 2], "ConfigMap one").await?;
    scene.arrives(&[1, 2], &what).await?;
    scene.reports(&wide, "Propagated", &[]).await
}

pub(crate) async fn of_cluster_wide_policies_a_name_counts_more_than_a_label_and_a_label_more_than_all(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "cpp-implicit").await?;
    // Their names sort the other way round.
    let (all, label, name) = (scene.own("a"), scene.own("b"), scene.own("c"));
    let place = |name: &str, what: &str, member: usize| places_from("cpp-implicit", name, &[what], &[member]);
    let mut by_label = place(&label, "ConfigMap", 2);
    by_label["spec"]["resourceSelectors"][0]["labelSelector"] = json!({ "matchLabels": { "app": "one" } });
    scene.apply(HUB, [one(), place(&all, "ConfigMap", 1)]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [by_label]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.apply(HUB, [place(&name, "ConfigMap one", 3)]).await?;
    scene.is_in_exactly(&[3], "ConfigMap one").await?;
    scene.delete(HUB, &[&format!("ClusterPropagationPolicy {name}")]).await?;
    scene.is_in_exactly(&[2], "ConfigMap one").await?;
    scene.delete(HUB, &[&format!("ClusterPropagationPolicy {label}")]).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await
}

pub(crate) async fn what_a_cluster_wide_policy_no_longer_selects_stays_and_what_it_selects_now_arrives(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "cpp-selectors").await?;
    let names = ["a", "b", "c"].map(|name| scene.own(name));
    let [a, b, c] = names.each_ref().map(|name| format!("ClusterRole {name}"));
    let policy = |what: &[&str], on: &[usize]| places_from("cpp-selectors", "cpp-selectors", what, on);
    scene.apply(HUB, names.each_ref().map(|name| role(name))).await?;
    scene.apply(HUB, [one(), policy(&[&a, "ConfigMap one"], &[1])]).await?;
    scene.arrives(&[1], &a).await?;
    scene.arrives(&[1], "ConfigMap one").await?;
    scene.apply(HUB, [policy(&[&a, "ConfigMap one", &b], &[1])]).await?;
    scene.arrives(&[1], &b).await?;
    // What it does not select any more stays where it is, also when the policy moves.
    scene.apply(HUB, [policy(&[&c, &b], &[2])]).await?;
    scene.is_in_exactly(&[2], &b).await?;
    scene.is_in_exactly(&[2], &c).await?;
    scene.settles().await?;
    scene.is_in_exactly(&[1], &a).await?;
    scene.is_in_exactly(&[1], "ConfigMap one").await
}

pub(crate) async fn a_cluster_role_moves_with_its_policy_outlives_it_and_follows_the_next(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "cpp-moves").await?;
    let (name, next) = (scene.own("role"), scene.own("next"));
    let what = format!("ClusterRole {name}");
    scene.apply(HUB, [role(&name)]).await?;
    for on in [&[1][..], &[2, 3], &[2]] {
        scene.apply(HUB, [places_from("", &name, &[&what], on)]).await?;
        scene.is_in_exactly(on, &what).await?;
    }
    scene.delete(HUB, &[&format!("ClusterPropagationPolicy {name}")]).await?;
    scene.settles().await?;
    scene.find(2, &what).await?;
    scene.is_absent(&[1, 3], &what).await?;
    scene.apply(HUB, [labelled(role(&name), "team", "a")]).await?;
    scene.says(2, &what, "/metadata/labels/team", "a").await?;
    scene.apply(HUB, [places_from("", &next, &[&what], &[3])]).await?;
    scene.is_in_exactly(&[3], &what).await
}

pub(crate) async fn an_override_points_at_the_image_of_one_container(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-pointed").await?;
    let mut workload = deployment("web", 1);
    workload["spec"]["template"]["spec"]["containers"] =
        json!([{ "name": "main", "image": BEFORE }, { "name": "beside", "image": BEFORE }]);
    let overriders = json!({ "imageOverrider": [
        { "predicate": { "path": SECOND }, "component": "Tag", "operator": "replace", "value": "v2" },
    ] });
    scene.apply(HUB, [overrides("o", &["Deployment web"], &[2], overriders)]).await?;
    scene.apply(HUB, [workload, places("p", &["Deployment web"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "Deployment web").await?;
    scene.says(2, "Deployment web", SECOND, AFTER).await?;
    scene.still_says(2, "Deployment web", FIRST, BEFORE).await?;
    scene.still_says(1, "Deployment web", SECOND, BEFORE).await
}

pub(crate) async fn the_images_of_a_pod_are_overridden_in_all_its_containers(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-pod").await?;
    takes_pods(&scene, &[1, 2]).await?;
    let overriders =
        json!({ "imageOverrider": [{ "component": "Tag", "operator": "replace", "value": "v2" }] });
    scene.apply(HUB, [overrides("o", &["Pod lonely"], &[2], overriders)]).await?;
    scene.apply(HUB, [pod("lonely"), places("p", &["Pod lonely"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "Pod lonely").await?;
    for container in ["/spec/containers/0/image", "/spec/containers/1/image"] {
        scene.says(2, "Pod lonely", container, AFTER).await?;
        scene.still_says(1, "Pod lonely", container, BEFORE).await?;
    }
    Ok(())
}

pub(crate) async fn an_override_policy_without_selectors_changes_everything_of_its_namespace_and_nothing_else(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "overrides-all").await?;
    let other = crate::scene(&bed, "overrides-all-beside").await?;
    let reader = with(role("reader"), json!({ "kind": "Role" }));
    let service = object("Service", "web", json!({ "spec": { "ports": [{ "port": 80 }] } }));
    scene.apply(HUB, [one(), service, reader]).await?;
    scene.apply(HUB, [places("p", &["ConfigMap one", "Service web"], &[1, 2])]).await?;
    scene.apply(HUB, [places_from("overrides-all", "overrides-all", &["Role reader"], &[2])]).await?;
    other.apply(HUB, [one(), places("p", &["ConfigMap one"], &[2])]).await?;
    scene.arrives(&[2], "Role reader").await?;
    other.arrives(&[2], "ConfigMap one").await?;
    let overriders = json!({ "labelsOverrider": [{ "operator": "add", "value": { "place": "second" } }] });
    let policy =
        with(overrides("o", &[], &[2], overriders), json!({ "spec": { "resourceSelectors": null } }));
    scene.apply(HUB, [policy]).await?;
    let label = "/metadata/labels/place";
    scene.says(2, "ConfigMap one", label, "second").await?;
    scene.says(2, "Service web", label, "second").await?;
    scene.settles().await?;
    scene.still_says(1, "ConfigMap one", label, Value::Null).await?;
    other.still_says(2, "ConfigMap one", label, Value::Null).await?;
    // What rules over others is none of a namespace's policy.
    scene.still_says(2, "Role reader", label, Value::Null).await
}

pub(crate) async fn a_cluster_wide_override_changes_the_labels_of_a_namespace(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "overrides-namespace").await?;
    let name = scene.own("inner");
    let what = format!("Namespace {name}");
    let place = |value: &str| {
        let overriders = json!({ "labelsOverrider": [{ "operator": "add", "value": { "place": value } }] });
        with(overrides(&name, &[&what], &[2], overriders), json!({ "kind": "ClusterOverridePolicy" }))
    };
    let label = "/metadata/labels/place";
    scene.apply(HUB, [place("south"), object("Namespace", &name, json!({}))]).await?;
    scene.apply(HUB, [places_from("", &name, &[&what], &[1, 2])]).await?;
    scene.arrives(&[1, 2], &what).await?;
    scene.says(2, &what, label, "south").await?;
    scene.apply(HUB, [place("north")]).await?;
    scene.says(2, &what, label, "north").await?;
    scene.still_says(1, &what, label, Value::Null).await?;
    scene.delete(HUB, &[&format!("ClusterOverridePolicy {name}")]).await?;
    scene.says(2, &what, label, Value::Null).await
}

pub(crate) async fn documents_in_a_config_map_are_overridden_as_json_and_as_yaml(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = scene(&bed, "overrides-documents").await?;
    let (json, yaml) = (r#"{"host":"a","port":80}"#, "host: a\nport: 80\n");
    let template = config_map("files", json!({ "app.json": json, "app.yaml": yaml, "plain": "80" }));
    let port = json!({ "subPath": "/port", "operator": "replace", "value": 8080 });
    let overriders = json!({ "fieldOverrider": [
        { "fieldPath": "/data/app.json", "json": [port, { "subPath": "/host", "operator": "remove" }] },
        { "fieldPath": "/data/app.yaml", "yaml": [port, { "subPath": "/tls", "operator": "add", "value": true }] },
    ] });
    scene.apply(HUB, [overrides("o", &["ConfigMap files"], &[2], overriders)]).await?;
    scene.apply(HUB, [template, places("p", &["ConfigMap files"], &[1, 2])]).await?;
    scene.arrives(&[1, 2], "ConfigMap files").await?;
    scene.says(2, "ConfigMap files", "/data/app.json", r#"{"port":8080}"#).await?;
    scene.still_says(2, "ConfigMap files", "/data/app.yaml", "host: a\nport: 8080\ntls: true\n").await?;
    scene.still_says(2, "ConfigMap files", "/data/plain", "80").await?;
    scene.still_says(1, "ConfigMap files", "/data/app.json", json).await?;
    scene.still_says(1, "ConfigMap files", "/data/app.yaml", yaml).await
}

/// A policy that divides replicas and gives no weights.
fn divides(what: &str, on: &[usize]) -> Value {
    let scheduling = json!({ "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted" });
    with(places("p", &[what], on), json!({ "spec": { "placement": { "replicaScheduling": scheduling } } }))
}

pub(crate) async fn without_weights_replicas_are_divided_evenly(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "divided-evenly").await?;
    let shares = async |shares: &[(usize, u32)]| {
        for &(member, share) in shares {
            scene.says(member, "Deployment web", "/spec/replicas", share).await?;
        }
        anyhow::Ok(())
    };
    // What does not divide goes to the first by name.
    scene.apply(HUB, [deployment("web", 5), divides("Deployment web", &[1, 2, 3])]).await?;
    shares(&[(1, 2), (2, 2), (3, 1)]).await?;
    scene.apply(HUB, [deployment("web", 9)]).await?;
    shares(&[(1, 3), (2, 3), (3, 3)]).await?;
    scene.apply(HUB, [divides("Deployment web", &[1, 2])]).await?;
    scene.goes(&[3], "Deployment web").await?;
    shares(&[(1, 5), (2, 4)]).await
}

pub(crate) async fn completions_of_a_job_are_divided_with_its_parallelism(bed: Arc<Bed>) -> Result<()> {
    let scene = scene(&bed, "divided-job").await?;
    let pod =
        json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": BEFORE }] } });
    let spec = json!({ "parallelism": 4, "completions": 6, "suspend": true, "template": pod });
    let job = object("Job", "once", json!({ "spec": spec }));
    scene.apply(HUB, [job, divides("Job once", &[1, 2])]).await?;
    scene.arrives(&[1, 2], "Job once").await?;
    for member in [1, 2] {
        scene.says(member, "Job once", "/spec/parallelism", 2).await?;
        scene.still_says(member, "Job once", "/spec/completions", 3).await?;
    }
    scene.reports("PropagationPolicy p", "Propagated", &[]).await?;
    scene.still_says(HUB, "Job once", "/spec/completions", 6).await
}
