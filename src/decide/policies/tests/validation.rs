//! What is refused, and in which words.

#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "tables and values made on the spot read best so"
)]

use super::{
    validate::{Scope, validate_override, validate_propagation},
    *,
};
use crate::api::overrides::OverrideSpec;

fn faults(namespace: Option<&str>, spec: &Value) -> Vec<String> {
    let mut spec = spec.clone();
    if spec.get("resourceSelectors").is_none() {
        spec["resourceSelectors"] = json!([{ "apiVersion": "v1", "kind": "Service" }]);
    }
    let spec: PropagationSpec = serde_json::from_value(spec).unwrap();
    let found = validate_propagation(&spec, Scope { namespace, system_namespace: SYSTEM });
    found.iter().map(ToString::to_string).collect()
}

fn selecting(namespace: Option<&str>, selector: Value) -> Vec<String> {
    faults(namespace, &json!({ "resourceSelectors": [selector] }))
}

fn placing(placement: Value) -> Vec<String> {
    faults(Some("shop"), &json!({ "placement": placement }))
}

#[test]
fn a_policy_without_faults_has_none() {
    let spec = json!({
        "suspension": { "dispatchingOnClusters": { "clusterNames": ["member1"] } },
        "placement": {
            "clusterAffinities": [
                { "affinityName": "near", "clusterNames": ["eu-*"] },
                { "affinityName": "far", "exclude": ["us-1"] },
            ],
            "clusterTolerations": [
                { "operator": "Exists" },
                { "key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30 },
            ],
            "spreadConstraints": [
                { "spreadByField": "region", "minGroups": 1, "maxGroups": 2 }, { "minGroups": 2 },
            ],
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": { "staticWeightList": [{ "targetCluster": { "clusterNames": ["a"] }, "weight": 2 }] },
            },
        },
    });
    assert_eq!(faults(Some("shop"), &spec), [""; 0]);
    assert_eq!(faults(None, &spec), [""; 0]);
}

#[test]
fn a_placement_is_refused_with_the_field_the_cause_and_the_way_out() {
    let group = |name: &str| json!({ "clusterAffinities": [{ "affinityName": name }] });
    let spread = |constraint: Value| json!({ "spreadConstraints": [constraint] });
    let tolerate = |toleration: Value| json!({ "clusterTolerations": [toleration] });
    let weigh = |weight: i64| {
        json!({ "replicaScheduling": { "replicaSchedulingType": "Divided", "weightPreference": {
            "staticWeightList": [{ "targetCluster": {}, "weight": weight }],
        } } })
    };
    let table = [
        (
            json!({ "clusterAffinity": {}, "clusterAffinities": [{ "affinityName": "a" }] }),
            "clusterAffinities: it cannot stand beside clusterAffinity; leave one of them out",
        ),
        (
            group("no good"),
            "clusterAffinities[0].affinityName: \"no good\" is not a group's name; use 1 to 32 letters, digits, '-', '_' and '.'",
        ),
        (
            json!({ "clusterAffinities": [{ "affinityName": "a" }, { "affinityName": "a" }] }),
            "clusterAffinities[1].affinityName: another group is called \"a\" too; each needs a name of its own",
        ),
        (
            json!({ "clusterAffinity": { "clusterNames": ["{a"] } }),
            "clusterAffinity.clusterNames[0]: \"{a\" is not a glob: it has a { without a }; close it with }",
        ),
        (
            tolerate(json!({ "key": "a", "operator": "Gt", "value": "1" })),
            "clusterTolerations[0].operator: \"Gt\" is not an operator here; use Equal or Exists",
        ),
        (
            tolerate(json!({ "value": "1" })),
            "clusterTolerations[0].key: it is empty, which only operator Exists allows; name the taint, or use Exists",
        ),
        (
            tolerate(json!({ "key": "a", "operator": "Exists", "value": "1" })),
            "clusterTolerations[0].value: operator Exists takes no value; leave it out, or use Equal",
        ),
        (
            tolerate(json!({ "key": "a", "effect": "Never" })),
            "clusterTolerations[0].effect: \"Never\" is not an effect; use NoSchedule, NoExecute or PreferNoSchedule, or none for all",
        ),
        (
            tolerate(json!({ "key": "a", "tolerationSeconds": 5 })),
            "clusterTolerations[0].tolerationSeconds: it goes with effect NoExecute only; leave it out",
        ),
        (
            spread(json!({ "spreadByField": "cluster", "minGroups": -1 })),
            "spreadConstraints[0].minGroups: it is less than 0; give the number of groups",
        ),
        (
            spread(json!({ "spreadByField": "cluster", "maxGroups": -1 })),
            "spreadConstraints[0].maxGroups: it is less than 0; give the number of groups",
        ),
        (
            spread(json!({ "spreadByField": "cluster", "minGroups": 3, "maxGroups": 2 })),
            "spreadConstraints[0].maxGroups: it is 2, less than minGroups, which is 3",
        ),
        (
            spread(json!({ "spreadByLabel": "rack" })),
            "spreadConstraints[0].spreadByLabel: clusters are spread by field only; use spreadByField: cluster, region, zone or provider",
        ),
        (
            spread(json!({ "spreadByField": "region" })),
            "spreadConstraints: a constraint by cluster must be among them; add spreadByField: cluster with the number of clusters",
        ),
        (
            json!({ "spreadConstraints": [{ "spreadByField": "cluster" }, {}] }),
            "spreadConstraints[1].spreadByField: another constraint is by the same field; keep one constraint a field",
        ),
        (weigh(0), "replicaScheduling.weightPreference.staticWeightList[0].weight: it is 0; 1 is the least"),
        (
            json!({ "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" } }),
            "replicaScheduling.replicaDivisionPreference: Aggregated needs to know how much room clusters have; use Weighted",
        ),
    ];
    for (placement, message) in table {
        assert_eq!(placing(placement), [format!("spec.placement.{message}")]);
    }
}

#[test]
fn what_may_never_be_selected_is_refused_where_it_is_named() {
    let select = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind });
    for (api_version, kind) in [
        ("v1", "Event"),
        ("events.k8s.io/v1", "Event"),
        ("v1", "Node"),
        ("v1", "Endpoints"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("coordination.k8s.io/v1", "Lease"),
        ("policy.karmada.io/v1alpha1", "OverridePolicy"),
        ("cluster.karmada.io/v1alpha1", "Cluster"),
        ("tombolo.dev/v1", "Anything"),
    ] {
        let found = selecting(None, select(api_version, kind));
        assert!(found[0].starts_with("spec.resourceSelectors[0].kind: ") && found.len() == 1, "{found:?}");
    }
    assert_eq!(selecting(None, select("multicluster.x-k8s.io/v1alpha1", "ServiceExport")), [""; 0]);
    assert_eq!(selecting(None, select("example-karmada.io/v1", "Thing")), [""; 0]);

    let named = |kind: &str, namespace: Option<&str>, name: &str| {
        selecting(None, json!({ "apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name }))
    };
    assert_eq!(
        named("ConfigMap", None, "kube-root-ca.crt"),
        [
            "spec.resourceSelectors[0].name: ConfigMap kube-root-ca.crt cannot be selected: each cluster makes its own"
        ]
    );
    assert_eq!(named("ServiceAccount", Some("shop"), "default").len(), 1);
    assert_eq!(named("Service", Some("default"), "kubernetes").len(), 1);
    assert_eq!(named("Service", Some("shop"), "kubernetes").len(), 0);
    assert_eq!(named("Namespace", None, "kube-public").len(), 1);
    assert_eq!(
        named("Service", Some("kube-system"), "dns"),
        [
            "spec.resourceSelectors[0].namespace: nothing can be selected in kube-system: it is Kubernetes' own"
        ]
    );
    assert_eq!(named("Service", Some("kube-*"), "dns").len(), 1);
    assert_eq!(
        named("Secret", Some("karmada-cluster"), "member1"),
        [
            "spec.resourceSelectors[0].namespace: nothing can be selected in karmada-cluster: it is Karmada's own"
        ]
    );
    assert_eq!(named("Secret", Some("karmada-es-*"), "a").len(), 1);
    assert_eq!(named("Secret", Some("karmada-*"), "a").len(), 0, "it matches other namespaces too");
    assert_eq!(named("Service", Some(SYSTEM), "hub").len(), 1);
    assert_eq!(named("Service", Some("tombolo-system*"), "hub").len(), 0, "it matches other namespaces too");
    assert_eq!(named("Service", Some("*-prod"), "web").len(), 0, "it matches no namespace of these alone");
    assert_eq!(selecting(Some("kube-system"), select("v1", "Service")).len(), 1);
}

#[test]
fn only_a_cluster_wide_policy_selects_what_rules_over_others() {
    for (api_version, kind) in [
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ] {
        let selector = json!({ "apiVersion": api_version, "kind": kind });
        assert_eq!(selecting(None, selector.clone()), [""; 0]);
        let found = selecting(Some("shop"), selector);
        assert!(found[0].ends_with("since it rules over others; use a cluster-wide policy"), "{found:?}");
    }
}

#[test]
fn a_policy_is_refused_for_what_karmada_refuses_it_for_too() {
    assert_eq!(
        faults(None, &json!({ "resourceSelectors": [] })),
        ["spec.resourceSelectors: it is empty; name at least one kind"]
    );
    assert_eq!(
        faults(None, &json!({ "preemption": "Always" })),
        [
            "spec.resourceSelectors[0].name: it is empty, which preemption Always does not allow; name the object, or leave preemption out"
        ]
    );
    let both = json!({ "dispatching": true, "dispatchingOnClusters": { "clusterNames": ["member1"] } });
    assert_eq!(
        faults(None, &json!({ "suspension": both })),
        [
            "spec.suspension.dispatchingOnClusters: it cannot stand beside dispatching: true, which holds for all clusters; leave one of them out"
        ]
    );
    let glob = json!({ "dispatchingOnClusters": { "clusterNames": ["member*"] } });
    assert_eq!(
        faults(None, &json!({ "suspension": glob })),
        [
            "spec.suspension.dispatchingOnClusters.clusterNames[0]: \"member*\" is a glob, which is not taken here; list the clusters"
        ]
    );
}

#[test]
fn all_faults_of_a_policy_are_reported_at_once() {
    let spec = json!({
        "resourceSelectors": [{ "apiVersion": "", "kind": "Service" }, { "apiVersion": "v1", "kind": "Node" }],
        "suspension": { "dispatchingOnClusters": { "clusterNames": ["Member1"] } },
        "placement": { "clusterAffinity": { "clusterNames": [""] }, "spreadConstraints": [{ "spreadByLabel": "x" }] },
    });
    let found = faults(Some("shop"), &spec);
    let paths: Vec<&str> = found.iter().map(|fault| fault.split_once(": ").unwrap().0).collect();
    assert_eq!(
        paths,
        [
            "spec.resourceSelectors[0].apiVersion",
            "spec.resourceSelectors[1].kind",
            "spec.suspension.dispatchingOnClusters.clusterNames[0]",
            "spec.placement.clusterAffinity.clusterNames[0]",
            "spec.placement.spreadConstraints[0].spreadByLabel",
        ]
    );
}

#[test]
fn an_override_policy_is_refused_for_its_selectors_and_its_rules_alike() {
    let spec: OverrideSpec = serde_json::from_value(json!({
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "Service", "namespace": "bank" }],
        "targetCluster": { "clusterNames": ["a"] },
        "overrideRules": [{
            "targetCluster": { "exclude": ["["] },
            "overriders": { "plaintext": [{ "path": "/metadata/name", "operator": "replace", "value": "x" }] },
        }],
    }))
    .unwrap();
    let found = validate_override(&spec, Scope { namespace: Some("shop"), system_namespace: SYSTEM });
    let paths: Vec<&str> = found.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "spec.resourceSelectors[0].namespace",
            "spec.targetCluster",
            "spec.overrideRules[0].overriders.plaintext[0].path",
            "spec.overrideRules[0].targetCluster.exclude[0]",
        ]
    );
}
