//! Clusters by themselves and beside each other.

use super::{Hub, MEMBERS};

fn cluster(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: {name}}}, spec: {spec}}}"
    )
}

const LINK: &str =
    "apiEndpoint: 'https://10.0.0.1:6443', secretRef: {namespace: tombolo-system, name: member9}";

#[test]
fn what_a_member_is_reached_by_is_checked() {
    let pull = "spec.syncMode: Tombolo writes to members itself; use `Push`";
    let table: &[(&str, &[&str])] = &[
        ("{syncMode: Push, LINK}", &[]),
        (
            "{syncMode: Push}",
            &[
                "spec.apiEndpoint: must be set where syncMode is Push: the URL of the cluster's API server, such as \
                 https://10.0.0.1:6443",
                "spec.secretRef: must be set where syncMode is Push: the Secret that `tombolo join` makes, with token and \
                 caBundle",
            ],
        ),
        ("{syncMode: Pull}", &[pull]),
        ("{syncMode: Drag, LINK}", &["spec.syncMode: must be Push, not \"Drag\""]),
        (
            "{syncMode: Push, LINK, proxyURL: 'http://p'}",
            &["spec.proxyURL: Tombolo does not reach members through proxies yet"],
        ),
        (
            "{syncMode: Push, apiEndpoint: 'http://a', secretRef: {namespace: a, name: b}}",
            &["spec.apiEndpoint: must begin with https://, or the token would cross the network in clear"],
        ),
        (
            "{syncMode: Push, apiEndpoint: 'a:6443', secretRef: {namespace: a, name: b}}",
            &["spec.apiEndpoint: must be a URL such as https://10.0.0.1:6443"],
        ),
        (
            "{syncMode: Push, apiEndpoint: 'https://a', secretRef: {namespace: '', name: ''}}",
            &["spec.secretRef.namespace: must be set", "spec.secretRef.name: must be set"],
        ),
    ];
    let hub = Hub::of(&[MEMBERS]);
    for (spec, faults) in table {
        assert_eq!(hub.create(&cluster("member9", &spec.replace("LINK", LINK))).faults(), *faults, "{spec}");
    }
}

#[test]
fn a_name_has_at_most_48_characters() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = format!("{{syncMode: Push, {LINK}}}");
    assert!(hub.create(&cluster(&"x".repeat(48), &spec)).faults().is_empty());
    for bad in ["eu.west", "Member", &"x".repeat(49)] {
        assert!(hub.create(&cluster(bad, &spec)).faults()[0].starts_with("metadata.name: "), "{bad}");
    }
}

#[test]
fn taints_are_checked_as_those_of_nodes() {
    let hub = Hub::of(&[MEMBERS]);
    let taints = "[{key: a, effect: NoSchedule}, {key: a, effect: NoExecute, value: x}, {key: a, effect: NoSchedule}, \
                  {key: 'b c', effect: Never, value: 'd e'}]";
    let spec = format!("{{syncMode: Push, {LINK}, taints: {taints}}}");
    let faults = hub.create(&cluster("member9", &spec)).faults();
    let places: Vec<_> = faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
    assert_eq!(
        places,
        ["spec.taints[2]", "spec.taints[3].key", "spec.taints[3].value", "spec.taints[3].effect"]
    );
    assert_eq!(
        faults[0],
        "spec.taints[2]: must be unique: there is a taint a with effect NoSchedule already"
    );
}

#[test]
fn ranges_of_endpoints_must_be_ranges() {
    let hub = Hub::of(&[MEMBERS]);
    let manifest = |ranges: &str| {
        let named = format!("{{name: member9, annotations: {{tombolo.dev/endpoint-cidrs: '{ranges}'}}}}");
        cluster("NAME", &format!("{{syncMode: Push, {LINK}}}")).replace("{name: NAME}", &named)
    };
    assert!(hub.create(&manifest("10.0.0.0/16, fd00::/48")).faults().is_empty());
    assert_eq!(
        hub.create(&manifest("10.0.0.0/16, 10.1.0.1/16, x")).faults(),
        [
            "metadata.annotations[tombolo.dev/endpoint-cidrs]: \"10.1.0.1/16\" is an address and not a range; 10.1.0.0/16 \
             is the range around it",
            "metadata.annotations[tombolo.dev/endpoint-cidrs]: \"x\" is not a range of addresses, such as 10.0.0.0/16 or \
             fd00::/48",
        ]
    );
}

#[test]
fn an_unverified_link_is_warned_about() {
    let hub = Hub::of(&[MEMBERS]);
    let answer = hub.create(&cluster(
        "member9",
        &format!("{{syncMode: Push, insecureSkipTLSVerification: true, {LINK}}}"),
    ));
    assert!(answer.warnings()[0].starts_with("spec.insecureSkipTLSVerification: whoever is between"));
}

#[test]
fn a5_a_cluster_is_a_member_once_and_under_one_name() {
    let hub = Hub::of(&[MEMBERS]);
    let spec = format!("{{syncMode: Push, id: one, {LINK}}}");
    assert_eq!(
        hub.create(&cluster("member9", &spec)).faults(),
        ["spec.id: Cluster member1 has the same: a cluster can be a member once only; delete that one first"]
    );
    assert!(hub.create(&cluster("member1", &spec)).faults().is_empty());
}

#[test]
fn pods_of_two_members_with_the_same_addresses_are_warned_about() {
    let member = |name: &str, ranges: &str| {
        let named = format!("{{name: {name}, annotations: {{tombolo.dev/pod-cidrs: '{ranges}'}}}}");
        let text = cluster("NAME", &format!("{{syncMode: Push, {LINK}}}"));
        text.replace("{name: NAME}", &named)
    };
    let hub = Hub::of(&[&member("west", "10.1.0.0/16, 10.2.0.0/16")]);
    assert!(hub.create(&member("east", "10.0.0.0/16")).warnings().is_empty());
    assert!(hub.create(&member("west", "10.1.0.0/16")).warnings().is_empty(), "not with itself");
    assert_eq!(
        hub.create(&member("east", "10.0.0.0/16,10.2.4.0/24")).warnings(),
        [
            "pods of cluster east have addresses of 10.2.4.0/24, pods of cluster west of 10.2.0.0/16: these ranges overlap, \
          so traffic between the two can reach the wrong pod; give one of them another range"
        ]
    );
    let both = hub.create(&member("east", "10.0.0.0/8"));
    assert!(both.warnings()[0].contains("of 10.1.0.0/16, and 1 more such pairs: "), "{both:?}");
    assert_eq!(
        hub.create(&member("east", "10.0.0.1/8")).faults(),
        [
            "metadata.annotations[tombolo.dev/pod-cidrs]: \"10.0.0.1/8\" is an address and not a range; 10.0.0.0/8 is the \
          range around it"
        ]
    );
}
