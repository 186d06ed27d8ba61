//! Plans of small hubs.

#![allow(clippy::needless_pass_by_value, reason = "what is made on the spot is given away")]

use serde_json::{Value, json};

use super::*;
use crate::decide::admit::Verdict;

const MCS: &str = "multicluster.x-k8s.io/v1alpha1";

fn cluster(name: &str) -> Value {
    json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": name },
            "spec": { "syncMode": "Push" } })
}

fn policy(name: &str, selects: &[&str], on: &[&str]) -> Value {
    let selectors = selects.iter().map(|selected| {
        let (kind, name) = selected.split_once(' ').unwrap();
        let api_version = match kind {
            "Deployment" => "apps/v1",
            "ServiceExport" | "ServiceImport" => MCS,
            _ => "v1",
        };
        json!({ "apiVersion": api_version, "kind": kind, "name": name })
    });
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "resourceSelectors": selectors.collect::<Vec<_>>(),
                  "placement": { "clusterAffinity": { "clusterNames": on } } },
    })
}

fn object(api_version: &str, kind: &str, name: &str, more: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "namespace": "shop", "name": name, "uid": "1" },
    });
    json_patch::merge(&mut object, &more);
    object
}

fn config_map(value: &str) -> Value {
    object("v1", "ConfigMap", "one", json!({ "data": { "key": value } }))
}

fn with(mut object: Value, more: Value) -> Value {
    json_patch::merge(&mut object, &more);
    object
}

fn hub(objects: &[Value]) -> Hub {
    let members = ["member1", "member2", "member3"].map(cluster);
    Hub::of("tombolo-system", members.into_iter().chain(objects.iter().cloned()))
}

fn planned(before: &[Value], after: &[Value]) -> Plan {
    plan(&hub(before), &hub(after), Vec::new())
}

fn copies(plan: &Plan) -> Vec<String> {
    let said = plan.copies.iter().map(|copy| format!("{}: {:?} {}", copy.cluster, copy.action, copy.object));
    said.collect()
}

#[test]
fn what_is_placed_is_created_where_it_is_placed() {
    let after = [config_map("a"), policy("p", &["ConfigMap one"], &["member1", "member3"])];
    let plan = planned(&[], &after);
    assert_eq!(copies(&plan), ["member1: Create ConfigMap shop/one", "member3: Create ConfigMap shop/one"]);
    assert_eq!(plan.copies[0].why, "PropagationPolicy shop/p");
    assert!(plan.policies.is_empty(), "nothing was there that could change hands: {:?}", plan.policies);
    assert_eq!(planned(&after, &after), Plan::default());
}

#[test]
fn a_policy_that_moves_an_object_deletes_it_there_and_creates_it_here() {
    let placed = |on: &[&str]| [config_map("a"), policy("p", &["ConfigMap one"], on)];
    let plan = planned(&placed(&["member1", "member2"]), &placed(&["member2", "member3"]));
    assert_eq!(copies(&plan), ["member1: Delete ConfigMap shop/one", "member3: Create ConfigMap shop/one"]);
    assert_eq!(plan.copies[0].why, "PropagationPolicy shop/p does not place it there");
}

#[test]
fn a_change_of_a_template_is_told_by_field_and_of_a_secret_without_values() {
    let placing = policy("p", &["ConfigMap one", "Secret one"], &["member1"]);
    let plan = planned(&[config_map("a"), placing.clone()], &[config_map("b"), placing.clone()]);
    assert_eq!(plan.copies[0].fields, [r#"data.key: "a" → "b""#]);
    let secret = |value: &str| with(config_map(value), json!({ "kind": "Secret" }));
    let plan = planned(&[secret("a"), placing.clone()], &[secret("b"), placing]);
    assert_eq!(plan.copies[0].fields, ["data.key"]);
}

#[test]
fn what_loses_its_policy_is_kept_and_what_loses_its_template_goes() {
    let placing = policy("p", &["ConfigMap one"], &["member1"]);
    let both = [config_map("a"), placing.clone()];
    let plan = planned(&both, &[config_map("a")]);
    assert_eq!(copies(&plan), ["member1: Keep ConfigMap shop/one"]);
    assert_eq!(plan.policies[0].after, None);
    assert_eq!(
        copies(&planned(&both, std::slice::from_ref(&placing))),
        ["member1: Delete ConfigMap shop/one"]
    );

    let annotations = json!({ "tombolo.dev/on-policy-deletion": "delete" });
    let going = with(placing.clone(), json!({ "metadata": { "annotations": annotations } }));
    let plan = planned(&[config_map("a"), going], &[config_map("a")]);
    assert_eq!(copies(&plan), ["member1: Delete ConfigMap shop/one"]);

    let preserving = with(placing, json!({ "spec": { "preserveResourcesOnDeletion": true } }));
    let plan = planned(&[config_map("a"), preserving.clone()], &[preserving]);
    assert_eq!(copies(&plan), ["member1: LetGo ConfigMap shop/one"]);
}

#[test]
fn an_object_that_is_not_in_the_file_changes_hands_by_a_stronger_policy() {
    let weak = policy("weak", &["ConfigMap one"], &["member1"]);
    let strong =
        with(policy("strong", &["ConfigMap one"], &["member2"]), json!({ "spec": { "priority": 5 } }));
    let plan = planned(&[config_map("a"), weak.clone()], &[config_map("a"), weak, strong]);
    let [hands] = plan.policies.as_slice() else { panic!("{:?}", plan.policies) };
    assert_eq!(hands.before.as_deref(), Some("PropagationPolicy shop/weak"));
    assert_eq!(hands.after.as_deref(), Some("PropagationPolicy shop/strong"));
    assert_eq!(
        hands.why.as_deref(),
        Some("PropagationPolicy shop/strong has a higher spec.priority (5 against 0)")
    );
    assert_eq!(copies(&plan), ["member1: Delete ConfigMap shop/one", "member2: Create ConfigMap shop/one"]);
}

#[test]
fn an_override_changes_copies_of_what_is_not_in_the_file() {
    let there = [config_map("a"), policy("p", &["ConfigMap one"], &["member1", "member2"])];
    let over = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": { "namespace": "shop", "name": "o" },
        "spec": { "overrideRules": [{
            "targetCluster": { "clusterNames": ["member2"] },
            "overriders": { "labelsOverrider": [{ "operator": "add", "value": { "k": "v" } }] },
        }] },
    });
    let plan = planned(&there, &[&there[..], &[over]].concat());
    assert_eq!(copies(&plan), ["member2: Change ConfigMap shop/one"]);
}

#[test]
fn a_suspended_policy_holds_back_and_a_placement_that_nobody_meets_is_warned_of() {
    let suspended = with(
        policy("p", &["ConfigMap one"], &["member1"]),
        json!({ "spec": { "suspension": { "dispatching": true } } }),
    );
    let plan = planned(&[], &[config_map("a"), suspended]);
    assert_eq!(copies(&plan), ["member1: HoldBack ConfigMap shop/one"]);

    let document = Document {
        object: Named { kind: "ConfigMap".into(), namespace: Some("shop".into()), name: "one".into() },
        outcome: Outcome::Create,
        fields: Vec::new(),
        refusal: None,
        warnings: Vec::new(),
    };
    let nowhere = hub(&[config_map("a"), policy("p", &["ConfigMap one"], &["member9"])]);
    let plan = super::plan(&hub(&[]), &nowhere, vec![document.clone()]);
    assert!(plan.warnings[0].contains("PropagationPolicy shop/p places it nowhere"), "{:?}", plan.warnings);
    let plan = super::plan(&hub(&[]), &hub(&[config_map("a")]), vec![document]);
    assert_eq!(plan.warnings, ["ConfigMap shop/one: no policy selects it: it goes to no cluster"]);
}

/// A service of some ports, exported by member1 and imported by member2.
fn shared(port: u16, import: Value) -> Vec<Value> {
    let ports = json!({ "spec": { "ports": [{ "name": "http", "port": port }] } });
    vec![
        object("v1", "Service", "serve", ports),
        object(MCS, "ServiceExport", "serve", json!({})),
        object(MCS, "ServiceImport", "serve", json!({ "spec": { "type": "ClusterSetIP", "ports": import } })),
        policy("export", &["Service serve", "ServiceExport serve"], &["member1"]),
        policy("import", &["ServiceImport serve"], &["member2"]),
    ]
}

#[test]
fn an_import_makes_a_derived_service_appear_and_its_deletion_makes_it_go() {
    let all = shared(80, json!([]));
    let plan = planned(&[], &all);
    let [service] = plan.services.as_slice() else { panic!("{:?}", plan.services) };
    assert_eq!(
        (service.derived.as_str(), &*service.appears_in),
        ("derived-serve", &["member2".to_owned()][..])
    );
    assert_eq!(service.exported_by["member1"], "http 80/TCP");
    assert_eq!(service.imported_by["member2"], "http 80/TCP");
    let imports = |object: &&Value| object["kind"] == "ServiceImport";
    let without: Vec<_> = all.iter().filter(|object| !imports(object)).cloned().collect();
    let plan = planned(&all, &without);
    assert_eq!(plan.services[0].disappears_in, ["member2"]);
    // Without its policy it stays where it is.
    let unplaced: Vec<_> =
        all.iter().filter(|object| object["metadata"]["name"] != "import").cloned().collect();
    assert!(planned(&all, &unplaced).services.is_empty());
}

/// What deleting an object would change.
fn deleted(before: &[Value], object: &Value) -> Plan {
    let (before, mut after) = (hub(before), hub(before));
    let key = ObjectKey::of(object).unwrap();
    after.delete(&key);
    let document = Document {
        object: Named::of(&key),
        outcome: Outcome::Delete,
        fields: Vec::new(),
        refusal: None,
        warnings: Vec::new(),
    };
    plan(&before, &after, vec![document])
}

#[test]
fn a_namespace_takes_along_what_is_in_it_with_its_copies_and_derived_services() {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    let placing = policy("p", &["ConfigMap one"], &["member1"]);
    let all = [shared(80, json!([])), vec![config_map("a"), placing, namespace.clone()]].concat();
    let plan = deleted(&all, &namespace);
    assert!(copies(&plan).contains(&"member1: Delete ConfigMap shop/one".to_owned()), "{plan:?}");
    let [service] = plan.services.as_slice() else { panic!("{:?}", plan.services) };
    assert_eq!(service.disappears_in, ["member2"]);
}

#[test]
fn a_cluster_that_is_deleted_lets_its_copies_go_and_takes_part_in_no_service_any_more() {
    let placing = policy("p", &["ConfigMap one"], &["member1", "member2"]);
    let all = [shared(80, json!([])), vec![config_map("a"), placing]].concat();
    let plan = deleted(&all, &cluster("member2"));
    assert_eq!(copies(&plan), ["member2: LetGo ConfigMap shop/one"]);
    assert_eq!(plan.copies[0].why, "the cluster leaves");
    assert_eq!(plan.services[0].disappears_in, ["member2"]);
    let plan = deleted(&all, &cluster("member1"));
    assert!(plan.services[0].exported_by.is_empty(), "{:?}", plan.services);
}

#[test]
fn a_cluster_whose_copies_are_to_be_deleted_keeps_its_namespaces() {
    let leaving = with(
        cluster("member2"),
        json!({ "metadata": { "annotations": { "tombolo.dev/delete-copies": "true" } } }),
    );
    let annotations = json!({ "tombolo.dev/on-policy-deletion": "delete" });
    let mut placing = with(
        policy("p", &["ConfigMap one", "Namespace shop"], &["member2"]),
        json!({ "kind": "ClusterPropagationPolicy", "metadata": { "annotations": annotations } }),
    );
    placing["metadata"]["namespace"].take();
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop", "uid": "1" } });
    let plan = deleted(&[leaving.clone(), config_map("a"), placing, namespace], &leaving);
    assert_eq!(copies(&plan), ["member2: Delete ConfigMap shop/one", "member2: LetGo Namespace shop"]);
}

#[test]
fn a_definition_takes_its_objects_along_on_the_hub_only() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "serviceimports.multicluster.x-k8s.io" },
    });
    let all = [shared(80, json!([])), vec![definition.clone()]].concat();
    let plan = deleted(&all, &definition);
    assert!(plan.copies.is_empty() && plan.services.is_empty(), "{plan:?}");
    assert!(plan.warnings[0].contains("what members have of them stays"), "{:?}", plan.warnings);
}

#[test]
fn a_port_that_an_import_does_not_list_is_dropped() {
    let plan = planned(&shared(80, json!([])), &shared(80, json!([{ "name": "other", "port": 8080 }])));
    let [service] = plan.services.as_slice() else { panic!("{:?}", plan.services) };
    assert_eq!(service.dropped, ["80/TCP of member1: the ServiceImport on the hub does not list it"]);
    assert_eq!(service.imported_by["member2"], "other 8080/TCP");
}

#[test]
fn kubectls_apply_leaves_what_others_wrote_and_takes_back_what_it_gave() {
    let last = json!({ "spec": { "kept": 1, "gone": 2 }, "metadata": { "annotations": {} } }).to_string();
    let live = json!({
        "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": last, "other": "x" } },
        "spec": { "kept": 1, "gone": 2, "defaulted": 3, "list": [1, 2] },
    });
    let given = json!({ "metadata": {}, "spec": { "kept": 5, "list": [3] } });
    let applied = applied(&live, &given);
    assert_eq!(applied["spec"], json!({ "kept": 5, "defaulted": 3, "list": [3] }));
    assert_eq!(applied["metadata"]["annotations"]["other"], "x");
    assert_eq!(
        differences(&live, &applied),
        ["spec.kept: 1 → 5", "spec.list[0]: 1 → 3", "spec.list[1] is removed", "spec.gone is removed"]
    );
}

#[test]
fn an_api_servers_own_fields_are_no_difference() {
    let live = json!({ "metadata": { "resourceVersion": "1", "generation": 1 }, "status": { "a": 1 } });
    let after = json!({ "metadata": { "resourceVersion": "2", "generation": 2 }, "status": { "a": 2 } });
    assert!(differences(&live, &after).is_empty());
}

fn judged(before: &[Value], new: &Value) -> (Verdict, Option<String>) {
    hub(before).judge(None, Some(new)).unwrap()
}

#[test]
fn what_a_dry_run_cannot_see_is_judged_by_the_hubs_own_rules() {
    let all = shared(80, json!([]));
    let import = object(
        MCS,
        "ServiceImport",
        "serve",
        json!({ "spec": { "type": "ClusterSetIP", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }] } }),
    );
    let own = judged(&[&all[..2], &all[3..]].concat(), &import);
    let message = own.1.clone().unwrap();
    assert!(message.starts_with("ServiceImport shop/serve is refused:"), "{message}");
    let admitted = Answer::Admitted { object: None, warnings: vec!["w".to_owned()] };
    let refusal = settled(&admitted, Some(&own), &[], false).refusal.unwrap();
    assert!(refusal.contains("with what comes before it: ServiceImport"), "{refusal}");
    assert_eq!(settled(&admitted, Some(&own), &[], true).refusal, None, "nothing comes before it");
}

#[test]
fn a_refusal_that_the_file_itself_mends_is_a_warning() {
    let own = judged(&shared(80, json!([])), &object(MCS, "ServiceExport", "other", json!({})));
    assert_eq!(own.1, None);
    let refused = Answer::Refused("ServiceExport shop/other is refused: ports".to_owned());
    let mended = settled(&refused, Some(&own), &[], false);
    assert!(
        mended.refusal.is_none() && mended.warnings[0].contains("as the hub is now it refuses this"),
        "{mended:?}"
    );
    assert!(settled(&refused, Some(&own), &[], true).refusal.is_some());
    let foreign = Answer::Refused("quota exceeded".to_owned());
    assert!(settled(&foreign, Some(&own), &[], false).refusal.is_some(), "others' refusals stand");
}

#[test]
fn warnings_of_what_the_file_brings_along_are_not_repeated() {
    let own = (Verdict::default(), None);
    let said = Answer::Admitted {
        object: None,
        warnings: vec!["no Service yet".to_owned(), "quota is near".to_owned()],
    };
    let settled = settled(&said, Some(&own), &["no Service yet".to_owned()], false);
    assert_eq!(settled.warnings, ["quota is near"]);
}
