//! Port conflicts: who brings one about is refused, with everything that is needed to get out of it.

use std::collections::BTreeSet;

use super::{EXPORTED, Hub, MEMBERS, object};
use crate::decide::{
    ids::ServiceKey,
    merge::{Export, ServiceSpec},
    ports::{Port, PortKey, Protocol},
};

const POLICY: &str = "apiVersion: policy.karmada.io/v1alpha1";
const WAY_OUT: &str = "`tombolo.dev/port-conflicts: resolve`: then ports are merged instead of refused, which is also the \
                       way to move from one port to another step by step";

fn import(ports: &str) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {{name: serve, namespace: shop}}, \
         spec: {{type: ClusterSetIP, ports: {ports}}}}}"
    )
}

fn service(ports: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Service, metadata: {{name: serve, namespace: shop}}, spec: {{ports: {ports}}}}}"
    )
}

/// The policy of [`EXPORTED`] with other clusters.
fn placed_on(clusters: &str) -> String {
    let policy = EXPORTED.split("\n---\n").last().unwrap();
    policy.replace("[member1]", &format!("[{clusters}]"))
}

/// An override of the first port's number in a cluster.
fn overridden(cluster: &str, port: u16) -> String {
    format!(
        "{{{POLICY}, kind: OverridePolicy, metadata: {{name: port, namespace: shop}}, spec: {{resourceSelectors: \
         [{{apiVersion: v1, kind: Service, name: serve}}], overrideRules: [{{targetCluster: {{clusterNames: [{cluster}]}}, \
         overriders: {{plaintext: [{{path: /spec/ports/0/port, operator: replace, value: {port}}}]}}}}]}}}}"
    )
}

fn annotated(manifest: &str) -> String {
    let annotations = "annotations: {tombolo.dev/port-conflicts: resolve}, namespace: shop";
    manifest.replacen("namespace: shop", annotations, 1)
}

/// What a member exports by itself.
fn record(hub: &mut Hub, cluster: &str, name: &str, port: u16) {
    let port = Port {
        name: name.parse().unwrap(),
        key: PortKey { port, protocol: Protocol::Tcp },
        app_protocol: None,
    };
    let time: k8s_openapi::jiff::Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
    let service = ServiceSpec { ports: vec![port], ..ServiceSpec::default() };
    let export = Export { created: time.into(), cluster: cluster.parse().unwrap(), service };
    let key = ServiceKey::parse("shop", "serve").unwrap();
    hub.view.record(key, cluster.parse().unwrap(), Some(export));
}

#[test]
fn an_import_of_another_port_than_two_clusters_export_names_both() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.add(&placed_on("member1, member2"));
    assert_eq!(
        hub.create(&import("[{name: http, port: 8080}]")).message(),
        format!(
            "ServiceImport shop/serve is refused:\nspec.ports[0].port: port \"http\": 8080/TCP here, 80/TCP in clusters \
             member1 (exported since 2026-11-16T08:00:00Z) and member2 (exported since 2026-11-16T08:00:00Z); use the same \
             port, or annotate this object or its Namespace with {WAY_OUT}"
        )
    );
}

#[test]
fn what_conflicts_between_an_import_and_an_export() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let table: &[(&str, &[&str])] = &[
        ("[{name: http, port: 80}]", &[]),
        ("[{port: 80}]", &[]),
        ("[]", &[]),
        ("[{name: http, port: 80, appProtocol: http}]", &[]),
        ("[{name: admin, port: 9090}]", &[]),
        ("[{name: admin, port: 9090}, {name: http, port: 80}]", &[]),
        ("[{name: web, port: 80, protocol: UDP}]", &[]),
        ("[{name: http, port: 8080}]", &["spec.ports[0].port"]),
        ("[{name: http, port: 80, protocol: UDP}]", &["spec.ports[0].protocol"]),
        ("[{name: web, port: 80}]", &["spec.ports[0].name"]),
        ("[{name: admin, port: 9090}, {name: http, port: 8080}]", &["spec.ports[1].port"]),
        ("[{name: http, port: 8080}, {name: web, port: 80}]", &["spec.ports[0].port", "spec.ports[1].name"]),
    ];
    for (ports, fields) in table {
        let answer = hub.create(&import(ports));
        let mut found: Vec<_> = answer.verdict.faults.iter().map(|fault| fault.path.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, *fields, "{ports}");
    }
}

#[test]
fn several_conflicts_are_told_port_by_port_and_the_way_out_once() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.add(&service("[{name: http, port: 80}, {name: admin, port: 8080}]"));
    let since = "in cluster member1 (exported since 2026-11-16T08:00:00Z)";
    assert_eq!(
        hub.create(&import("[{name: http, port: 8080}, {name: admin, port: 80}]")).faults(),
        [
            format!("spec.ports[0].port: port \"http\": 8080/TCP here, 80/TCP {since}; use the same port"),
            format!(
                "spec.ports[0].name: port 8080/TCP: name \"http\" here, \"admin\" {since}; use the same name"
            ),
            format!("spec.ports[1].port: port \"admin\": 80/TCP here, 8080/TCP {since}; use the same port"),
            format!(
                "spec.ports[1].name: port 80/TCP: name \"admin\" here, \"http\" {since}; use the same name, or annotate \
                 this object or its Namespace with {WAY_OUT}"
            ),
        ]
    );
}

#[test]
fn unnamed_ports_are_the_same_port() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.add(&service("[{port: 80, targetPort: 8080}]"));
    assert!(hub.create(&import("[{port: 80, protocol: TCP}]")).faults().is_empty());
    let faults = hub.create(&import("[{port: 8080, protocol: TCP}]")).faults();
    let expected = "spec.ports[0].port: the unnamed port: 8080/TCP here, 80/TCP in cluster member1 (exported";
    assert!(faults[0].starts_with(expected), "{faults:?}");
}

#[test]
fn an_export_conflicts_with_the_import_and_with_what_a_member_exports() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 8080}]")]);
    record(&mut hub, "member3", "http", 81);
    hub.view.delete_export(&ServiceKey::parse("shop", "serve").unwrap());
    let export = EXPORTED.split("\n---\n").nth(1).unwrap();
    let faults = hub.create(export).faults();
    assert_eq!(faults.len(), 2, "{faults:?}");
    let expected = "metadata.name: Service shop/serve: port \"http\": 80/TCP in cluster member1, 81/TCP in cluster member3 \
                    (exported since 2026-11-01T00:00:00Z); use the same port";
    assert_eq!(faults[0], expected);
    let expected = "metadata.name: Service shop/serve: port \"http\": 80/TCP in cluster member1, 8080/TCP in the \
                    ServiceImport on the hub; use the same port, or annotate this object or its Namespace";
    assert!(faults[1].starts_with(expected), "{faults:?}");
}

#[test]
fn an_export_that_is_placed_nowhere_yet_conflicts_with_nothing_and_is_warned() {
    let hub =
        Hub::of(&[MEMBERS, &service("[{name: http, port: 80}]"), &import("[{name: http, port: 8080}]")]);
    let export = EXPORTED.split("\n---\n").nth(1).unwrap();
    assert_eq!(
        hub.create(export).warnings(),
        [
            "wherever a policy places shop/serve, it will conflict: port \"http\": 80/TCP in the Service, 8080/TCP in the \
          ServiceImport on the hub"
        ]
    );
}

#[test]
fn a_service_that_is_exported_cannot_move_away_from_its_import() {
    let hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 80}]")]);
    let old = service("[{name: http, port: 80}]");
    let faults = hub.update(&old, &service("[{name: x, port: 1}, {name: http, port: 8080}]")).faults();
    assert_eq!(
        faults,
        [format!(
            "spec.ports[1].port: port \"http\": 8080/TCP in cluster member1, 80/TCP in the ServiceImport on the hub; use the \
             same port, or annotate the ServiceExport, the Service or their Namespace with {WAY_OUT}"
        )]
    );
    assert!(hub.update(&old, &service("[{name: http, port: 80}, {name: x, port: 1}]")).faults().is_empty());
}

#[test]
fn a_service_that_nobody_exports_or_whose_ports_stay_is_not_judged() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 8080}]")]);
    let (old, new) = (service("[{name: http, port: 80}]"), service("[{name: http, port: 81}]"));
    assert!(!hub.update(&old, &new).faults().is_empty());
    let relabelled = old.replace("name: serve,", "name: serve, labels: {a: b},");
    assert!(hub.update(&old, &relabelled).warnings().is_empty());
    hub.view.delete_export(&ServiceKey::parse("shop", "serve").unwrap());
    assert!(hub.update(&old, &new).warnings().is_empty());
}

#[test]
fn an_override_that_gives_one_cluster_another_port_is_refused() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.add(&placed_on("member1, member2"));
    assert_eq!(
        hub.create(&overridden("member2", 8080)).faults(),
        [format!(
            "spec.overrideRules: Service shop/serve: port \"http\": 8080/TCP in cluster member2, 80/TCP in cluster member1 \
             (exported since 2026-11-16T08:00:00Z); use the same port, or annotate the ServiceExport, this policy or the \
             Namespace with {WAY_OUT}"
        )]
    );
    assert!(hub.create(&overridden("member3", 8080)).faults().is_empty(), "nothing is placed there");
    assert!(hub.create(&overridden("member2", 80)).faults().is_empty());
    assert!(hub.create(&overridden("member1, member2", 8080)).faults().is_empty(), "all agree");
}

#[test]
fn a_policy_that_brings_clusters_together_that_disagree_is_refused() {
    let hub = Hub::of(&[MEMBERS, EXPORTED, &overridden("member2", 8080)]);
    let faults = hub.update(&placed_on("member1"), &placed_on("member1, member2")).faults();
    assert_eq!(faults.len(), 1);
    let expected = "spec.placement: Service shop/serve: port \"http\": 8080/TCP in cluster member2, 80/TCP in cluster member1";
    assert!(faults[0].starts_with(expected), "{faults:?}");
    assert!(
        hub.update(&placed_on("member1"), &placed_on("member2")).faults().is_empty(),
        "it moves as a whole"
    );
    assert!(hub.update(&placed_on("member1"), &placed_on("member1, member3")).faults().is_empty());
}

#[test]
fn a_cluster_wide_policy_is_judged_too() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, &overridden("member2", 8080)]);
    let wide = placed_on("member1, member2")
        .replace("kind: PropagationPolicy", "kind: ClusterPropagationPolicy")
        .replace("{name: serve, namespace: shop}", "{name: wide}");
    assert!(hub.create(&wide).faults().is_empty(), "the namespace's own policy holds");
    super::remove(&mut hub.view, &object(&placed_on("member1")));
    assert_eq!(hub.create(&wide).faults().len(), 1);
}

#[test]
fn the_rule_resolve_admits_with_a_warning() {
    let warning = "port \"http\": 8080/TCP here, 80/TCP in cluster member1; it is merged, as tombolo.dev/port-conflicts asks";
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    let asked = import("[{name: http, port: 8080}]");
    assert_eq!(hub.create(&annotated(&asked)).warnings()[0], warning);
    hub.add("{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {tombolo.dev/port-conflicts: resolve}}}");
    assert_eq!(hub.create(&asked).warnings()[0], warning);
}

#[test]
fn the_rule_on_the_export_holds_for_services_and_policies_and_not_for_an_import() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.add(&placed_on("member1, member2"));
    let export = EXPORTED.split("\n---\n").nth(1).unwrap();
    hub.add(
        &export.replace("name: serve,", "name: serve, annotations: {tombolo.dev/port-conflicts: resolve},"),
    );
    assert_eq!(
        hub.create(&overridden("member2", 8080)).warnings(),
        [
            "Service shop/serve: port \"http\": 8080/TCP in cluster member2, 80/TCP in cluster member1; it is merged, as \
          tombolo.dev/port-conflicts asks"
        ]
    );
    assert_eq!(hub.create(&import("[{name: http, port: 8080}]")).faults().len(), 1);
}

#[test]
fn a_conflict_that_is_there_already_does_not_hold_up_other_edits() {
    // It came under the rule, which was taken away again.
    let hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 8080}]")]);
    let old = import("[{name: http, port: 8080}]");
    let edits = [
        old.replace("name: serve,", "name: serve, labels: {a: b},"),
        import("[{name: http, port: 8080}, {name: x, port: 1}]"),
    ];
    for edit in &edits {
        let answer = hub.update(&old, edit);
        let known = "port \"http\": 8080/TCP here, 80/TCP in cluster member1 (so before this change too)";
        assert_eq!(answer.warnings()[0], known, "{edit}");
    }
    let policy = placed_on("member1");
    let answer = hub.update(&policy, &policy.replace("spec:", "spec:\n  priority: 3"));
    assert!(answer.warnings()[0].ends_with("(so before this change too)"), "{answer:?}");
}

#[test]
fn a_conflict_that_gets_worse_is_refused() {
    let hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 8080}]")]);
    let old = import("[{name: http, port: 8080}]");
    assert_eq!(hub.update(&old, &import("[{name: http, port: 8081}]")).faults().len(), 1, "another port");
    let more = hub.update(&placed_on("member1"), &placed_on("member1, member2"));
    assert_eq!(more.faults().len(), 1, "one more cluster");
    assert!(hub.update(&old, &import("[{name: http, port: 80}]")).warnings().is_empty(), "it ends");
}

#[test]
fn exports_made_in_members_count_by_their_records() {
    let mut hub = Hub::of(&[MEMBERS]);
    record(&mut hub, "member1", "http", 80);
    record(&mut hub, "member2", "http", 81);
    let faults = hub.create(&import("[{name: http, port: 8080}]")).faults();
    assert_eq!(faults.len(), 2, "{faults:?}");
    let known =
        "port \"http\": 80/TCP in cluster member1, 81/TCP in cluster member2 (so before this change too)";
    assert_eq!(hub.create(&import("[]")).warnings(), [known], "that is no doing of the import");
}

#[test]
fn a_record_goes_with_the_export_that_the_hub_moves() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    record(&mut hub, "member1", "http", 80);
    let old = placed_on("member1");
    hub.add(&overridden("member2", 8080));
    assert!(hub.update(&old, &placed_on("member2")).faults().is_empty());
    record(&mut hub, "member3", "http", 80);
    assert_eq!(hub.update(&old, &placed_on("member2")).faults().len(), 1, "member3 exports by itself");
}

#[test]
fn unknown_members_are_warned_about() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    hub.view.set_unknown(BTreeSet::from(["member3".parse().unwrap()]));
    assert_eq!(
        hub.create(&import("[{name: http, port: 80}]")).warnings(),
        ["what is exported by member3 is not known just now; port conflicts with it show in the status"]
    );
}

#[test]
fn a_view_that_is_not_read_yet_admits_with_a_warning() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED]);
    let mut view = crate::decide::view::View::new("tombolo-system");
    view.retain_exports(&Default::default());
    hub.view = view;
    let answer = hub.create(&import("[{name: http, port: 8080}]"));
    let expected = "Tombolo has just started and has not read the whole hub: neither port conflicts nor names were checked";
    assert_eq!(answer.warnings(), [expected]);
    assert!(
        !hub.create(&import("[{name: http, port: 0}]")).faults().is_empty(),
        "its form is judged all the same"
    );
}

#[test]
fn an_import_that_is_overridden_for_a_cluster_is_compared_as_it_is_there() {
    let mut hub = Hub::of(&[MEMBERS, EXPORTED, &import("[{name: http, port: 80}]")]);
    let policy = placed_on("member3")
        .replace("serve, namespace", "imports, namespace")
        .replace("ServiceExport", "ServiceImport");
    hub.add(&policy.replace("- {apiVersion: v1, kind: Service, name: serve}\n  ", ""));
    let overriding = overridden("member3", 8080).replace(
        "apiVersion: v1, kind: Service,",
        "apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport,",
    );
    let faults = hub.create(&overriding).faults();
    let expected = "spec.overrideRules: Service shop/serve: port \"http\": 8080/TCP in the ServiceImport as it is overridden \
                    for member3, 80/TCP in cluster member1 (exported";
    assert!(faults.first().is_some_and(|fault| fault.starts_with(expected)), "{faults:?}");
}

#[test]
fn all_exporters_but_a_few_are_counted() {
    let mut hub = Hub::of(&[MEMBERS]);
    for index in 0..300 {
        record(&mut hub, &format!("edge{index:03}"), "http", 80);
    }
    let faults = hub.create(&import("[{name: http, port: 8080}]")).faults();
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("edge003 (exported since 2026-11-01T00:00:00Z) and 296 more; use"),
        "{faults:?}"
    );
}
