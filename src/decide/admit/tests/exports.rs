//! ServiceExports by themselves, and exports of what cannot be exported.

use super::{EXPORTED, Hub, MEMBERS};

fn export(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {{name: {name}, namespace: shop}}, \
         spec: {spec}}}"
    )
}

#[test]
fn exported_labels_and_annotations_must_be_some_that_kubernetes_takes_and_nobody_elses() {
    let reserved = |domain: &str| {
        format!(
            "must not be under {domain}, which is reserved; use app.kubernetes.io or a domain of your own"
        )
    };
    let table = [
        ("{exportedLabels: {app: web, example.com/x: ''}, exportedAnnotations: {Example.com/x: 'any Text'}}", vec![]),
        ("{exportedLabels: {app.kubernetes.io/name: web}, exportedAnnotations: {notkubernetes.io/x: z}}", vec![]),
        (
            "{exportedLabels: {'a b': x}}",
            vec!["spec.exportedLabels[a b]: \"a b\" is not a label key: its name must be letters, digits, '-', '_' and \
                  '.', and begin and end with a letter or a digit"
                .to_owned()],
        ),
        (
            "{exportedLabels: {a: x y}}",
            vec!["spec.exportedLabels[a]: \"x y\" is not a label value: it must be letters, digits, '-', '_' and '.', and \
                  begin and end with a letter or a digit"
                .to_owned()],
        ),
        (
            "{exportedAnnotations: {a/b/c: x}}",
            vec!["spec.exportedAnnotations[a/b/c]: \"a/b/c\" is not an annotation key: its name must be letters, digits, \
                  '-', '_' and '.', and begin and end with a letter or a digit"
                .to_owned()],
        ),
        (
            "{exportedLabels: {multicluster.kubernetes.io/service-name: x, kubernetes.io/y: z}}",
            vec![
                format!("spec.exportedLabels[kubernetes.io/y]: {}", reserved("kubernetes.io")),
                format!(
                    "spec.exportedLabels[multicluster.kubernetes.io/service-name]: {}",
                    reserved("kubernetes.io")
                ),
            ],
        ),
        (
            "{exportedAnnotations: {tombolo.dev/origin: x, multicluster.x-k8s.io/x: z, a.K8s.io/b: c}}",
            vec![
                format!("spec.exportedAnnotations[a.K8s.io/b]: {}", reserved("k8s.io")),
                format!("spec.exportedAnnotations[multicluster.x-k8s.io/x]: {}", reserved("x-k8s.io")),
                format!("spec.exportedAnnotations[tombolo.dev/origin]: {}", reserved("tombolo.dev")),
            ],
        ),
    ];
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    for (spec, faults) in table {
        assert_eq!(hub.create(&export("serve", spec)).faults(), faults, "{spec}");
    }
}

#[test]
fn what_is_exported_beside_the_service_has_a_limit() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let spec = |bytes: usize| format!("{{exportedAnnotations: {{a: {}}}}}", "x".repeat(bytes - 1));
    assert!(hub.create(&export("serve", &spec(128 * 1024))).faults().is_empty());
    assert_eq!(
        hub.create(&export("serve", &spec(128 * 1024 + 1))).faults(),
        [
            "spec.exportedAnnotations: must not have more than 131072 bytes with spec.exportedLabels, not 131073"
        ]
    );
}

#[test]
fn an_export_without_a_spec_is_fine() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let empty = export("serve", "{}");
    for manifest in [empty.as_str(), &empty.replace(", spec: {}", "")] {
        let answer = hub.create(manifest);
        assert!(answer.warnings().is_empty(), "{answer:?}");
    }
}

#[test]
fn an_export_of_a_missing_or_external_service_is_admitted_with_a_warning() {
    let mut hub = Hub::of(&[MEMBERS]);
    let missing = hub.create(&export("serve", "{}"));
    let expected =
        "there is no Service shop/serve on the hub; only clusters that have one of their own export it";
    assert_eq!(missing.warnings(), [expected]);

    hub.add(
        "{apiVersion: v1, kind: Service, metadata: {name: serve, namespace: shop}, \
         spec: {type: ExternalName, externalName: example.com}}",
    );
    let external = hub.create(&export("serve", "{}"));
    assert_eq!(external.warnings(), ["Service shop/serve is of type ExternalName, which cannot be exported"]);
}
