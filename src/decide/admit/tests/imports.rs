//! ServiceImports by themselves, and imports of nothing.

use super::{EXPORTED, Hub, MEMBERS};

fn import(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {{name: {name}, namespace: shop}}, \
         spec: {spec}}}"
    )
}

#[test]
fn everything_that_the_schema_promises_is_checked() {
    let long = "x".repeat(64);
    let named = format!("{{type: ClusterSetIP, ports: [{{port: 80, name: {long}}}]}}");
    let table: &[(&str, &[&str])] = &[
        ("{type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}", &[]),
        ("{type: ClusterSetIP, ports: []}", &[]),
        ("{type: Headless, ports: [{port: 65535, protocol: SCTP, appProtocol: kubernetes.io/h2c}]}", &[]),
        (
            "{type: ClusterSetIP, ports: [{port: 0}]}",
            &["spec.ports[0].port: must be between 1 and 65535, not 0"],
        ),
        (
            "{type: ClusterSetIP, ports: [{name: a, port: 80}, {name: b, port: 70000}]}",
            &["spec.ports[1].port: must be between 1 and 65535, not 70000"],
        ),
        (
            "{type: ClusterSetIP, ports: [{port: -1}]}",
            &["spec.ports[0].port: must be between 1 and 65535, not -1"],
        ),
        (
            "{type: ClusterSetIP, ports: [{port: 80, protocol: tcp}]}",
            &["spec.ports[0].protocol: must be one of TCP, UDP, SCTP, not \"tcp\""],
        ),
        (
            "{type: ClusterSetIP, ports: [{name: http, port: 80}, {name: http, port: 80}]}",
            &[
                "spec.ports[1].name: must be unique: spec.ports[0] is called \"http\" too",
                "spec.ports[1].port: must be unique: spec.ports[0] is 80/TCP too",
            ],
        ),
        (
            "{type: ClusterSetIP, ports: [{name: http, port: 80}, {name: http, port: 81}]}",
            &["spec.ports[1].name: must be unique: spec.ports[0] is called \"http\" too"],
        ),
        (
            "{type: ClusterSetIP, ports: [{name: a, port: 80}, {name: b, port: 80, protocol: TCP}]}",
            &["spec.ports[1].port: must be unique: spec.ports[0] is 80/TCP too"],
        ),
        ("{type: ClusterSetIP, ports: [{name: a, port: 80}, {name: b, port: 80, protocol: UDP}]}", &[]),
        (
            "{type: ClusterSetIP, ports: [{port: 80}, {name: b, port: 81}]}",
            &["spec.ports[0].name: must be set, as there are several ports"],
        ),
        (
            "{type: ClusterSetIP, ports: [{port: 80}, {port: 81}]}",
            &[
                "spec.ports[0].name: must be set, as there are several ports",
                "spec.ports[1].name: must be set, as there are several ports",
            ],
        ),
        (
            "{type: ClusterSetIP, ports: [{port: 80, name: Web_1}]}",
            &[
                "spec.ports[0].name: \"Web_1\" is not a port name: character 1 is 'W', only lower-case letters, digits and \
               '-' are allowed",
            ],
        ),
        (
            "{type: ClusterSetIP, ports: [{port: 80, appProtocol: 'a b'}]}",
            &["spec.ports[0].appProtocol: must be a name such as http or kubernetes.io/h2c, not \"a b\""],
        ),
        (
            "{type: ClusterSetIP, ports: [], ips: [10.0.0.1]}",
            &[
                "spec.ips: must be empty: each importing cluster gives the import an address of its own; leave it out",
            ],
        ),
        (
            "{type: Headless, ports: [], ips: [10.0.0.1]}",
            &["spec.ips: must be empty: a Headless import has no address of its own"],
        ),
        ("{type: NodePort, ports: []}", &["spec.type: must be ClusterSetIP or Headless, not \"NodePort\""]),
        (
            "{type: ClusterSetIP, ports: [], ipFamilies: [IPv4, IPv4]}",
            &["spec.ipFamilies[1]: must be unique: IPv4 is there already"],
        ),
        (
            "{type: ClusterSetIP, ports: [], ipFamilies: [IPv4, ipv6]}",
            &["spec.ipFamilies[1]: must be IPv4 or IPv6, not \"ipv6\""],
        ),
        (
            "{type: ClusterSetIP, ports: [], sessionAffinity: Client}",
            &["spec.sessionAffinity: must be ClientIP or None, not \"Client\""],
        ),
        (
            "{type: ClusterSetIP, ports: [], sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}",
            &["spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be between 1 and 86400, not 0"],
        ),
        (
            "{type: ClusterSetIP, ports: [], sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}}",
            &["spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be between 1 and 86400, not 86401"],
        ),
        ("{type: ClusterSetIP, ports: [], sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}}", &[]),
        (
            "{type: ClusterSetIP, ports: [], internalTrafficPolicy: local}",
            &["spec.internalTrafficPolicy: must be Cluster or Local, not \"local\""],
        ),
        (
            "{type: ClusterSetIP, ports: [], trafficDistribution: PreferFar}",
            &[
                "spec.trafficDistribution: must be one of PreferClose, PreferSameZone, PreferSameNode, not \"PreferFar\"",
            ],
        ),
        ("{type: ClusterSetIP}", &["spec: cannot be read: missing field `ports`"]),
    ];
    let hub = Hub::of(&[MEMBERS]);
    for (spec, faults) in table {
        assert_eq!(hub.create(&import("serve", spec)).faults(), *faults, "{spec}");
    }
    let faults = hub.create(&import("serve", &named)).faults();
    assert!(faults[0].ends_with("it has 64 characters, 63 are allowed"), "{faults:?}");
}

#[test]
fn an_object_with_three_faults_gets_three_lines_after_what_is_refused() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = "{type: Headless, ports: [{port: 0, protocol: HTTP}], ips: [10.0.0.1]}";
    assert_eq!(
        hub.create(&import("serve", spec)).message(),
        "ServiceImport shop/serve is refused:\n\
         spec.ports[0].port: must be between 1 and 65535, not 0\n\
         spec.ports[0].protocol: must be one of TCP, UDP, SCTP, not \"HTTP\"\n\
         spec.ips: must be empty: a Headless import has no address of its own"
    );
}

#[test]
fn a_name_must_be_one_that_a_service_can_have() {
    let hub = Hub::of(&[MEMBERS]);
    let faults = |name: &str| hub.create(&import(name, "{type: ClusterSetIP, ports: []}")).faults();
    assert!(faults(&"x".repeat(63)).is_empty());
    assert!(faults("1serve").is_empty());
    for bad in ["serve.v1", "-serve", "Serve", &"x".repeat(64)] {
        assert!(faults(bad)[0].starts_with("metadata.name: "), "{bad}");
    }
}

#[test]
fn a_name_that_the_api_server_makes_up_is_not_judged() {
    let hub = Hub::of(&[MEMBERS]);
    let manifest = "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, spec: {ports: [], type: Headless}, \
                    metadata: {generateName: serve-, namespace: shop}}";
    assert!(hub.create(manifest).faults().is_empty());
    assert!(
        hub.create(&manifest.replace("generateName: serve-, ", "")).faults()[0]
            .starts_with("metadata.name: ")
    );
}

#[test]
fn fields_that_the_exports_decide_are_warned_about() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let spec = "{type: ClusterSetIP, ports: [], sessionAffinity: ClientIP, ipFamilies: [IPv4], \
                internalTrafficPolicy: Local, trafficDistribution: PreferClose}";
    let answer = hub.create(&import("serve", spec));
    let fields: Vec<_> = answer.warnings().iter().map(|warning| warning.split(':').next().unwrap()).collect();
    let expected =
        ["spec.sessionAffinity", "spec.internalTrafficPolicy", "spec.trafficDistribution", "spec.ipFamilies"];
    assert_eq!(fields, expected);
    let plain = hub.create(&import("serve", "{type: ClusterSetIP, ports: [], sessionAffinity: None}"));
    assert!(plain.warnings().is_empty());
}

#[test]
fn an_import_of_what_nobody_exports_is_admitted_with_a_warning() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let answer = hub.create(&import("other", "{type: ClusterSetIP, ports: []}"));
    assert_eq!(answer.warnings(), ["no cluster exports shop/other yet; it has no endpoints until one does"]);

    let spec = "{type: Headless, ports: [{name: http, port: 80}, {name: admin, port: 9090}]}";
    let answer = hub.create(&import("serve", spec));
    let expected = [
        "spec.ports[1]: no cluster exports 9090/TCP of shop/serve yet",
        "spec.type: Headless, but cluster member1 exports shop/serve as ClusterSetIP",
    ];
    assert_eq!(answer.warnings(), expected);
}
