//! What is asked, whatever the kind.

use serde_json::{Value, json};

use super::{EXPORTED, Hub, MEMBERS, object, request};
use crate::decide::admit::{Operation, Verdict, admit};

const BAD: &str = "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: serve, namespace: shop}, \
                   spec: {type: ClusterSetIP, ports: [{port: 0}]}}";

#[test]
fn a_kind_or_version_that_is_not_known_is_admitted_with_a_warning() {
    let hub = Hub::of(&[MEMBERS]);
    let newer = hub.create(&BAD.replace("v1beta1", "v2"));
    assert_eq!(
        newer.warnings(),
        [
            "this release of Tombolo does not know \"ServiceImport\" in \"multicluster.x-k8s.io/v2\"; nothing was checked"
        ]
    );
    let other = hub.create("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}}");
    assert_eq!(
        other.warnings(),
        ["this release of Tombolo does not know \"Pod\" in \"v1\"; nothing was checked"]
    );
}

#[test]
fn a_connection_is_nothing_to_judge() {
    let hub = Hub::of(&[MEMBERS]);
    assert!(hub.ask(Operation::Connect, Some(object(BAD)), None).warnings().is_empty());
}

#[test]
fn a_request_without_its_object_is_refused() {
    let hub = Hub::of(&[MEMBERS]);
    let mut request = request(Operation::Create, Some(object(BAD)), None);
    request.object = None;
    assert_eq!(
        admit(&hub.view, &request).message(&request).unwrap(),
        "ServiceImport shop/serve is refused:\nobject: is missing from the request"
    );
}

#[test]
fn what_is_being_deleted_can_lose_its_finalizers() {
    let hub = Hub::of(&[MEMBERS]);
    let going = BAD.replace("name: serve,", "name: serve, deletionTimestamp: 2026-11-16T08:00:00Z,");
    assert!(hub.update(&going.replace("port: 0", "port: 80"), &going).warnings().is_empty());
    assert!(!hub.create(&going).faults().is_empty());
}

#[test]
fn a_fault_that_is_stored_already_does_not_hold_up_other_edits() {
    let hub = Hub::of(&[MEMBERS, EXPORTED]);
    let labelled = BAD.replace("name: serve,", "name: serve, labels: {a: b},");
    assert_eq!(
        hub.update(BAD, &labelled).warnings(),
        ["spec.ports[0].port: must be between 1 and 65535, not 0 (stored so already)"]
    );
    let worse = BAD.replace("[{port: 0}]", "[{name: a, port: 0}, {name: b, port: 70000}]");
    assert_eq!(
        hub.update(BAD, &worse).faults(),
        ["spec.ports[1].port: must be between 1 and 65535, not 70000"]
    );
}

#[test]
fn a_huge_object_gets_a_message_that_can_be_read() {
    let hub = Hub::of(&[MEMBERS]);
    let mut import = object(BAD);
    let ports = |count: usize| (0..count).map(|_| json!({"port": 0, "name": "a"})).collect::<Value>();
    import["spec"]["ports"] = ports(1000);
    let message = hub.ask(Operation::Create, Some(import.clone()), None).message();
    assert_eq!(message.lines().count(), 102);
    assert!(message.ends_with("\nand 900 faults more"));
    import["spec"]["ports"] = ports(1001);
    assert_eq!(
        hub.ask(Operation::Create, Some(import), None).faults(),
        ["spec.ports: must not have more than 1000 ports, not 1001"]
    );
}

#[test]
fn warnings_are_cut_to_what_an_api_server_passes_on() {
    let mut verdict = Verdict {
        warnings: vec!["a\nb\u{7f}".to_owned(), "a".to_owned(), "a".to_owned()],
        ..Verdict::default()
    };
    verdict.warnings.push("é".repeat(128));
    verdict.warnings.push("é".repeat(129));
    let warnings = verdict.fit().warnings;
    assert_eq!(warnings[..3], ["a b ".to_owned(), "a".to_owned(), "é".repeat(128)]);
    assert_eq!(warnings[3], format!("{}…", "é".repeat(126)));

    let many = Verdict { warnings: (0..30).map(|index| index.to_string()).collect(), ..Verdict::default() };
    let warnings = many.fit().warnings;
    assert_eq!((warnings.len(), warnings[16].as_str()), (17, "and 14 warnings more"));
}
