//! Karmada's walk-through of multi-cluster services applies as it is.

use super::{Hub, filled_in, objects, store};
use crate::decide::admit::Operation;

const STEPS: &str = "
{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: serviceexport-policy}, spec: {
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
    name: serviceexports.multicluster.x-k8s.io}],
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: serve, namespace: default},
  spec: {ports: [{port: 80, targetPort: 8080}], selector: {app: serve}}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: mcs-workload, namespace: default}, spec: {
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: serve}, {apiVersion: v1, kind: Service, name: serve}],
  placement: {clusterAffinity: {clusterNames: [member1]}}}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {name: serve, namespace: default}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: serve-export-policy, namespace: default},
  spec: {resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: serve}],
  placement: {clusterAffinity: {clusterNames: [member1]}}}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: serve, namespace: default},
  spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}}
---
{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: serve-import-policy, namespace: default},
  spec: {resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, name: serve}],
  placement: {clusterAffinity: {clusterNames: [member2]}}}}
";

#[test]
fn each_step_is_admitted_without_a_word_and_may_be_applied_again() {
    let mut hub = Hub::of(&[super::MEMBERS]);
    for object in objects(STEPS) {
        let filled = filled_in(&hub.view, &object);
        let answer = hub.ask(Operation::Create, Some(filled.clone()), None);
        assert!(answer.warnings().is_empty(), "{answer:?}");
        store(&mut hub.view, filled.clone());
        let again = hub.ask(Operation::Update, Some(filled_in(&hub.view, &filled)), Some(filled));
        assert!(again.warnings().is_empty(), "{again:?}");
    }
}
