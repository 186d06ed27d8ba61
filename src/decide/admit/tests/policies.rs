//! Policies by themselves, and their names of nothing.

use serde_json::{Value, json};

use super::{EXPORTED, Hub, MEMBERS, object};
use crate::{
    api::support::{self, Support, When},
    decide::admit::Operation,
};

fn policy(kind: &str, name: &str, spec: &str) -> String {
    let namespace = if kind.starts_with("Cluster") { "" } else { ", namespace: shop" };
    format!(
        "{{apiVersion: policy.karmada.io/v1alpha1, kind: {kind}, metadata: {{name: {name}{namespace}}}, spec: {spec}}}"
    )
}

#[test]
fn what_the_index_would_not_take_is_refused_with_every_fault() {
    let hub = Hub::of(&[MEMBERS]);
    let faults = |kind: &str, spec: &str| hub.create(&policy(kind, "a", spec)).faults();
    let places = |kind: &str, spec: &str| {
        faults(kind, spec)
            .iter()
            .map(|fault| fault.split(": ").next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(places("PropagationPolicy", "{resourceSelectors: []}"), ["spec.resourceSelectors"]);
    assert_eq!(
        places(
            "PropagationPolicy",
            "{resourceSelectors: [{apiVersion: v1, kind: Service, namespace: other, name: '['}], \
             placement: {clusterAffinity: {clusterNames: [Member1]}, spreadConstraints: [{minGroups: 2, maxGroups: 1}]}}"
        ),
        [
            "spec.resourceSelectors[0].namespace",
            "spec.resourceSelectors[0].name",
            "spec.placement.clusterAffinity.clusterNames[0]",
            "spec.placement.spreadConstraints[0].maxGroups",
        ]
    );
    assert_eq!(
        places(
            "ClusterOverridePolicy",
            "{overrideRules: [{overriders: {plaintext: [{path: x, operator: add}]}}]}"
        ),
        [
            "spec.overrideRules[0].overriders.plaintext[0].path",
            "spec.overrideRules[0].overriders.plaintext[0].value"
        ]
    );
}

#[test]
fn a_secret_that_leads_into_a_member_is_refused_where_it_is_named() {
    let hub = Hub::of(&[
        "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member1}, spec: {syncMode: Push, \
         apiEndpoint: 'https://10.0.0.1:6443', secretRef: {namespace: shop, name: way}}}",
    ]);
    let faults = |kind: &str, name: &str| {
        let spec = format!(
            "{{resourceSelectors: [{{apiVersion: v1, kind: Secret, namespace: shop, name: {name}}}], placement: {{}}, \
             overrideRules: []}}"
        );
        hub.create(&policy(kind, "a", &spec)).faults()
    };
    let said = "spec.resourceSelectors[0].name: Secret shop/way cannot be selected: Cluster member1 names it as the way into \
                that cluster";
    for kind in ["PropagationPolicy", "ClusterPropagationPolicy", "OverridePolicy"] {
        assert!(faults(kind, "way").iter().any(|fault| fault == said), "{kind}: {:?}", faults(kind, "way"));
        assert!(!faults(kind, "other").iter().any(|fault| fault == said));
    }
}

#[test]
fn a_field_that_is_refused_as_a_whole_has_one_fault() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = "{resourceSelectors: [{apiVersion: v1, kind: Service}], \
                placement: {spreadConstraints: [{spreadByLabel: rack}, {spreadByField: cluster}]}}";
    assert_eq!(
        hub.create(&policy("ClusterPropagationPolicy", "a", spec)).faults(),
        [
            "spec.placement.spreadConstraints[0].spreadByLabel: Tombolo spreads by `spreadByField` only: cluster, region, \
          zone or provider"
        ]
    );
}

#[test]
fn every_field_that_is_refused_is_refused_once() {
    let hub = Hub::of(&[MEMBERS]);
    for section in support::sections() {
        for row in section.rows.iter().filter(|row| matches!(row.support, Support::Refused(_))) {
            let value = match row.when {
                When::Set | When::IsNot(_) => example(&row.path),
                When::Is(value) => json!(value),
            };
            for kind in section.kinds {
                let path = row.path.replace("[]", "[0]");
                let mut manifest = object(&policy(kind, "a", "{}"));
                if *kind == "Cluster" {
                    manifest["apiVersion"] = json!("cluster.karmada.io/v1alpha1");
                }
                put(&mut manifest, &path, value.clone());
                let faults = hub.ask(Operation::Create, Some(manifest), None).faults();
                let about = faults.iter().filter(|fault| fault.starts_with(&path)).count();
                assert_eq!(about, 1, "{kind} {path}: {faults:?}");
            }
        }
    }
}

/// A value that a field of that path can have.
fn example(path: &str) -> Value {
    match path.rsplit('.').next().unwrap() {
        "overflowAffinities" => json!([{ "affinityName": "more" }]),
        "failover" => json!({ "application": { "decisionConditions": { "tolerationSeconds": 5 } } }),
        "workloadAffinity" => json!({ "affinity": { "groupByLabelKey": "app" } }),
        "proxyHeader" => json!({ "a": "b" }),
        _ => json!("x"),
    }
}

/// Sets the value at a path, and makes what is around it.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for step in path.split('.') {
        let (field, list) = step.strip_suffix("[0]").map_or((step, false), |field| (field, true));
        place = &mut place[field];
        if list {
            *place = json!([{}]);
            place = &mut place[0];
        }
    }
    *place = value;
}

#[test]
fn a_field_without_effect_is_warned_about() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let spec = "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], association: true}";
    let answer = hub.create(&policy("PropagationPolicy", "a", spec));
    assert_eq!(
        answer.warnings(),
        ["spec.association: it has no effect, in Karmada neither; use `propagateDeps`"]
    );
}

#[test]
fn clusters_that_there_are_not_are_warned_about() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let propagation = "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], \
        placement: {clusterAffinities: [{affinityName: a, clusterNames: [member1, member9]}, \
        {affinityName: b, clusterNames: ['eu-*', 'member*']}], replicaScheduling: {weightPreference: \
        {staticWeightList: [{targetCluster: {clusterNames: [m]}, weight: 1}]}}}, \
        suspension: {dispatchingOnClusters: {clusterNames: [member8]}}}";
    assert_eq!(
        hub.create(&policy("PropagationPolicy", "a", propagation)).warnings(),
        [
            "spec.placement.clusterAffinities[0].clusterNames[1]: there is no cluster \"member9\" yet",
            "spec.placement.clusterAffinities[1].clusterNames[0]: \"eu-*\" matches no cluster yet",
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].targetCluster.clusterNames[0]: there is \
             no cluster \"m\" yet",
            "spec.suspension.dispatchingOnClusters.clusterNames[0]: there is no cluster \"member8\" yet",
        ]
    );
    let overriding = "{overrideRules: [{targetCluster: {clusterNames: [member7]}, \
        overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}]}";
    assert_eq!(
        hub.create(&policy("OverridePolicy", "a", overriding)).warnings(),
        ["spec.overrideRules[0].targetCluster.clusterNames[0]: there is no cluster \"member7\" yet"]
    );
}

#[test]
fn a_selector_that_matches_nothing_is_warned_about_where_that_is_known() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let selectors = "[{apiVersion: v1, kind: Service, name: serv}, {apiVersion: apps/v1, kind: Deployment, name: serve}, \
        {apiVersion: v1, kind: Namespace, labelSelector: {matchLabels: {team: b}}}, \
        {apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport}, \
        {apiVersion: v1, kind: Namespace, labelSelector: {matchLabels: {team: a}}}, \
        {apiVersion: v1, kind: Service, namespace: 'sh*', name: 'ser*'}]";
    let expected = [
        "spec.resourceSelectors[0]: it matches no Service yet",
        "spec.resourceSelectors[2]: it matches no Namespace yet",
        "spec.resourceSelectors[3]: it matches no ServiceImport yet",
    ];
    let overriding = format!(
        "{{resourceSelectors: {selectors}, overrideRules: [{{overriders: {{labelsOverrider: [{{operator: add, value: \
         {{a: b}}}}]}}}}]}}"
    );
    assert_eq!(hub.create(&policy("ClusterOverridePolicy", "a", &overriding)).warnings(), expected);
    let propagation = format!("{{resourceSelectors: {selectors}}}");
    let answer = hub.create(&policy("ClusterPropagationPolicy", "a", &propagation));
    assert_eq!(answer.warnings()[..3], expected);
}

#[test]
fn a_policy_that_loses_to_another_hears_which() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let named = "{resourceSelectors: [{apiVersion: v1, kind: Service, name: serve}], PRIORITY}";
    let kind = "{resourceSelectors: [{apiVersion: v1, kind: Service}], PRIORITY}";
    let wide = "{resourceSelectors: [{apiVersion: v1, kind: Service, namespace: shop}], priority: 9}";
    let table: &[(&str, &str, &str, Option<&str>)] = &[
        ("PropagationPolicy", "a", named, None),
        ("PropagationPolicy", "z", named, Some("its name sorts first")),
        ("PropagationPolicy", "a", &kind.replace("PRIORITY", ""), Some("it names the object more closely")),
        ("PropagationPolicy", "z", &named.replace("PRIORITY", "priority: 1"), None),
        (
            "PropagationPolicy",
            "a",
            &named.replace("PRIORITY", "priority: -1"),
            Some("its priority is higher"),
        ),
        (
            "ClusterPropagationPolicy",
            "a",
            wide,
            Some("a namespace's own policy goes before a cluster-wide one"),
        ),
    ];
    for (kind, name, spec, reason) in table {
        let spec = spec.replace(", PRIORITY", "").replace(", }", "}");
        let answer = hub.create(&policy(kind, name, &spec));
        let expected = reason.map(|reason| {
            format!("spec.resourceSelectors[0]: PropagationPolicy shop/serve holds instead ({reason}) for Service shop/serve")
        });
        let lost: Vec<_> =
            answer.warnings().iter().filter(|warning| warning.contains("holds instead")).collect();
        assert_eq!(lost, expected.iter().collect::<Vec<_>>(), "{kind} {name} {spec}");
    }
}

#[test]
fn a_named_object_of_any_kind_is_looked_up() {
    let mut hub = Hub::of(&[MEMBERS]);
    let spec = "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]}";
    hub.add(&policy("PropagationPolicy", "a", spec));
    assert_eq!(
        hub.create(&policy("PropagationPolicy", "b", spec)).warnings(),
        [
            "spec.resourceSelectors[0]: PropagationPolicy shop/a holds instead (its name sorts first) for Deployment shop/web"
        ]
    );
    let crd = "{resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: x.y}]}";
    hub.add(&policy("ClusterPropagationPolicy", "a", crd));
    assert_eq!(
        hub.create(&policy("ClusterPropagationPolicy", "b", crd)).warnings(),
        ["spec.resourceSelectors[0]: ClusterPropagationPolicy a holds instead (its name sorts first) for \
          CustomResourceDefinition x.y"]
    );
}

#[test]
fn overrides_that_a_policy_waits_for_and_that_there_are_not_are_warned_about() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], dependentOverrides: [x]}";
    assert_eq!(
        hub.create(&policy("PropagationPolicy", "a", spec)).warnings(),
        [
            "spec.dependentOverrides[0]: there is no override policy shop/x yet; nothing is sent until there is"
        ]
    );
}

#[test]
fn an_override_that_does_not_fit_its_objects_is_warned_about() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let spec = "{resourceSelectors: [{apiVersion: v1, kind: Service, name: serve}], overrideRules: [{overriders: \
                {plaintext: [{path: /spec/ports/7/port, operator: replace, value: 81}]}}]}";
    let answer = hub.create(&policy("OverridePolicy", "a", spec));
    let prefix = "Service shop/serve cannot be changed so for cluster member1: spec.overrideRules[0].overriders.plaintext[0]";
    assert!(answer.warnings()[0].starts_with(prefix), "{answer:?}");
}

#[test]
fn a_label_selector_beside_a_name_is_warned_about() {
    let hub = Hub::of(&[MEMBERS]);
    let selectors = "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web, labelSelector: {}}, \
        {apiVersion: apps/v1, kind: Deployment, name: 'web-*', labelSelector: {matchLabels: {app: web}}}, \
        {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}]";
    let expected = [
        "spec.resourceSelectors[1].labelSelector: it does not count beside name, in Karmada neither; leave one of \
                     them out",
    ];
    assert_eq!(
        hub.create(&policy("PropagationPolicy", "a", &format!("{{{selectors}}}"))).warnings(),
        expected
    );
    let overriding =
        format!("{{{selectors}, overriders: {{labelsOverrider: [{{operator: add, value: {{a: b}}}}]}}}}");
    assert_eq!(hub.create(&policy("OverridePolicy", "a", &overriding)).warnings(), expected);
}

#[test]
fn an_override_that_changes_nothing_is_warned_about() {
    let hub = Hub::of(&[MEMBERS]);
    let table: &[(&str, &[&str])] = &[
        ("{overrideRules: []}", &["spec.overrideRules: it is empty, so the policy changes nothing"]),
        ("{}", &["spec.overrideRules: it is empty, so the policy changes nothing"]),
        (
            "{targetCluster: {clusterNames: [member1]}, overriders: {plaintext: []}}",
            &["spec.overriders: it is empty, so the policy changes nothing"],
        ),
        (
            "{overrideRules: [{overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}, {overriders: {}}]}",
            &["spec.overrideRules[1].overriders: it is empty, so the rule changes nothing"],
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(hub.create(&policy("ClusterOverridePolicy", "a", spec)).warnings(), *expected, "{spec}");
    }
}

#[test]
fn a_placement_that_no_cluster_meets_is_warned_about_unless_there_is_none_or_none_that_it_names() {
    let (none, hub) = (Hub::empty(), Hub::of(&[MEMBERS]));
    let table: &[(&str, Option<&str>)] = &[
        ("{}", None),
        ("{clusterAffinity: {clusterNames: [member1]}}", None),
        (
            "{clusterAffinity: {clusterNames: [member1], exclude: [member1]}}",
            Some("exclude has it (member1)"),
        ),
        (
            "{clusterAffinity: {labelSelector: {matchLabels: {env: test}}}}",
            Some("its labels do not match labelSelector (member1, member2 and member3)"),
        ),
        (
            "{spreadConstraints: [{spreadByField: cluster, minGroups: 5}]}",
            Some("at least 5 clusters are asked for, and 3 will do"),
        ),
        (
            "{clusterAffinities: [{affinityName: near, clusterNames: [member9]}, {affinityName: far, exclude: ['*']}]}",
            Some("near: no cluster will do; far: no cluster will do"),
        ),
    ];
    for (placement, why) in table {
        let spec = format!(
            "{{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}], placement: {placement}}}"
        );
        let found = |hub: &Hub| {
            let answer = hub.create(&policy("PropagationPolicy", "a", &spec));
            answer.warnings().iter().find(|warning| warning.starts_with("spec.placement: ")).cloned()
        };
        let expected = why.map(|why| format!("spec.placement: no cluster meets it now: {why}"));
        assert_eq!(found(&hub), expected, "{placement}");
        assert_eq!(found(&none), None, "{placement}");
    }
    let named = "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {clusterAffinity: {clusterNames: \
                 [member9]}}}";
    assert_eq!(
        hub.create(&policy("PropagationPolicy", "a", named)).warnings(),
        ["spec.placement.clusterAffinity.clusterNames[0]: there is no cluster \"member9\" yet"]
    );
}

#[test]
fn what_is_refused_is_not_warned_about_as_well() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = "{resourceSelectors: [{apiVersion: v1, kind: Node}], association: true}";
    let answer = hub.create(&policy("ClusterPropagationPolicy", "a", spec));
    assert_eq!((answer.faults().len(), answer.verdict.warnings.len()), (1, 0), "{answer:?}");
}

#[test]
fn annotations_with_a_choice_have_no_other() {
    let hub = Hub::of(&[MEMBERS]);
    let manifest = policy(
        "PropagationPolicy",
        "a",
        "{resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]}",
    )
    .replace(
        "name: a,",
        "name: a, annotations: {tombolo.dev/port-conflicts: merge, tombolo.dev/on-policy-deletion: keep},",
    );
    assert_eq!(
        hub.create(&manifest).faults(),
        [
            "metadata.annotations[tombolo.dev/port-conflicts]: must be \"resolve\", not \"merge\"; leave it out for the \
             default",
            "metadata.annotations[tombolo.dev/on-policy-deletion]: must be \"delete\", not \"keep\"; leave it out for the \
             default",
        ]
    );
}
