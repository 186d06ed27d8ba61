use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort};

use super::*;

fn check(slice: &EndpointSlice, ranges: Option<&[Cidr]>) -> Result<(), Refused> {
    super::check(&"member1".parse().unwrap(), slice, ranges)
}

fn slice(family: &str, address: &str) -> EndpointSlice {
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: vec![Endpoint { addresses: vec![address.to_owned()], ..Endpoint::default() }],
        ..EndpointSlice::default()
    }
}

#[test]
fn pods_addresses_are_believed() {
    for (family, address) in
        [("IPv4", "10.1.2.3"), ("IPv4", "100.64.0.9"), ("IPv6", "fd00::5"), ("IPv6", "2001:db8::1")]
    {
        assert_eq!(check(&slice(family, address), None), Ok(()));
    }
}

#[test]
fn special_addresses_are_refused() {
    let table = [
        ("IPv4", "127.0.0.1"),
        ("IPv4", "127.9.9.9"),
        ("IPv4", "169.254.169.254"),
        ("IPv4", "0.0.0.0"),
        ("IPv4", "0.1.2.3"),
        ("IPv4", "224.0.0.1"),
        ("IPv4", "255.255.255.255"),
        ("IPv6", "::"),
        ("IPv6", "::1"),
        ("IPv6", "::ffff:127.0.0.1"),
        ("IPv6", "::ffff:10.0.0.1"),
        ("IPv6", "::10.0.0.1"),
        ("IPv6", "fe80::1"),
        ("IPv6", "ff02::1"),
    ];
    for (family, address) in table {
        let refused = check(&slice(family, address), None).unwrap_err();
        assert_eq!(refused.reason, Reason::Address);
        assert!(refused.why.starts_with(&address.parse::<IpAddr>().unwrap().to_string()), "{refused}");
    }
}

#[test]
fn what_is_no_address_or_of_another_family_is_refused() {
    for (family, address) in [
        ("IPv4", "fd00::1"),
        ("IPv6", "10.0.0.1"),
        ("IPv4", "example.com"),
        ("FQDN", "example.com"),
        ("IPv4", "010.0.0.1"),
    ] {
        assert!(check(&slice(family, address), None).is_err(), "{family} {address}");
    }
}

#[test]
fn addresses_outside_the_clusters_ranges_are_refused_where_it_has_any() {
    let ranges = crate::decide::admit::cidr::list("10.1.0.0/16").unwrap();
    assert_eq!(check(&slice("IPv4", "10.1.9.9"), Some(&ranges)), Ok(()));
    assert!(check(&slice("IPv4", "10.2.0.1"), Some(&ranges)).unwrap_err().why.contains("endpoint ranges"));
}

#[test]
fn a_slice_has_as_many_ports_as_an_export() {
    let port = |number: i32| EndpointPort {
        name: Some(format!("p{number}")),
        port: Some(number),
        ..EndpointPort::default()
    };
    let of = |ports: i32| {
        check(
            &EndpointSlice { ports: Some((1..=ports).map(port).collect()), ..slice("IPv4", "10.0.0.1") },
            None,
        )
    };
    assert_eq!(of(1000), Ok(()));
    assert_eq!(of(1001).unwrap_err().reason, Reason::Size);
}

#[test]
fn what_no_api_server_would_store_is_refused_in_few_words() {
    let good = slice("IPv4", "10.0.0.1");
    let many = EndpointSlice { endpoints: vec![good.endpoints[0].clone(); 10_000], ..good.clone() };
    let ports = EndpointSlice { ports: Some(vec![EndpointPort::default(); 1001]), ..good.clone() };
    let mut huge = good.clone();
    huge.endpoints[0].zone = Some("z".repeat(5_000_000));
    let mut none = good.clone();
    none.endpoints[0].addresses.clear();
    let mut host = good.clone();
    host.endpoints[0].hostname = Some("a\nb".to_owned());
    let zero = EndpointPort { port: Some(0), ..EndpointPort::default() };
    let zero = EndpointSlice { ports: Some(vec![zero]), ..good };
    for slice in [many, ports, huge, none, host, zero] {
        assert!(check(&slice, None).unwrap_err().why.len() < 200);
    }
}

#[test]
fn what_no_importers_api_server_would_store_is_refused() {
    let good = slice("IPv4", "10.0.0.1");
    let host = |name: &str| {
        let mut slice = good.clone();
        slice.endpoints[0].hostname = Some(name.to_owned());
        slice
    };
    let ports = |ports: &[(&str, &str)]| {
        let ports = ports.iter().map(|(name, protocol)| EndpointPort {
            name: Some((*name).to_owned()),
            app_protocol: Some((*protocol).to_owned()),
            ..EndpointPort::default()
        });
        EndpointSlice { ports: Some(ports.collect()), ..good.clone() }
    };
    for slice in [
        host("pod-1"),
        ports(&[("a", "http"), ("b", "kubernetes.io/h2c")]),
        ports(&[("a", "HTTP_2.0")]),
        ports(&[("", "http")]),
    ] {
        assert_eq!(check(&slice, None), Ok(()));
    }
    let long = "x".repeat(64);
    for (slice, words) in [
        (host("a.b"), "\"a.b\" names no host"),
        (host("A_B"), "\"A_B\" names no host"),
        (host("-a"), "\"-a\" names no host"),
        (host(&long), "names no host"),
        (ports(&[("a", "a//b")]), "\"a//b\" is no protocol"),
        (ports(&[("a", "a:b")]), "\"a:b\" is no protocol"),
        (ports(&[("a", "")]), "\"\" is no protocol"),
        (ports(&[("a", "http"), ("b", "http"), ("a", "http")]), "two ports of the name \"a\""),
        (ports(&[("", "http"), ("", "http")]), "two ports of the name \"\""),
    ] {
        let refused = check(&slice, None).unwrap_err();
        assert!(refused.reason == Reason::Garbage && refused.why.contains(words), "{refused}");
    }
}

#[test]
fn what_claims_to_be_another_clusters_is_refused() {
    let of = |name: &str| {
        let labels = Some(BTreeMap::from([(mcs::SOURCE_CLUSTER.to_owned(), name.to_owned())]));
        EndpointSlice {
            metadata: ObjectMeta { labels, ..ObjectMeta::default() },
            ..slice("IPv4", "10.0.0.1")
        }
    };
    assert_eq!(check(&of("member1"), None), Ok(()));
    assert_eq!(check(&of("member2"), None).unwrap_err().reason, Reason::Claim);
}

#[test]
fn labels_and_annotations_of_no_size_that_is_stored_are_refused_on_every_kind() {
    let huge = |text: &str| Some(BTreeMap::from([("a".to_owned(), text.repeat(5_000_000))]));
    for metadata in [
        ObjectMeta { labels: huge("x"), ..ObjectMeta::default() },
        ObjectMeta { annotations: huge("x"), ..ObjectMeta::default() },
        ObjectMeta { uid: Some("x".repeat(5_000_000)), ..ObjectMeta::default() },
    ] {
        let slice = EndpointSlice { metadata: metadata.clone(), ..slice("IPv4", "10.0.0.1") };
        let mut export: ServiceExport =
            serde_json::from_value(serde_json::json!({ "metadata": {} })).unwrap();
        export.metadata = metadata.clone();
        let import = serde_json::json!({ "metadata": {}, "spec": { "type": "Headless", "ports": [] } });
        let mut import: ServiceImport = serde_json::from_value(import).unwrap();
        import.metadata = metadata;
        for refused in [check(&slice, None), check_export(&export), check_import(&import)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.reason, Reason::Size);
            assert!(refused.why.len() < 200, "{refused}");
        }
    }
}

#[test]
fn exported_labels_that_no_importer_could_have_are_refused() {
    let export = |labels: serde_json::Value, annotations: serde_json::Value| -> ServiceExport {
        serde_json::from_value(serde_json::json!({
            "metadata": {}, "spec": { "exportedLabels": labels, "exportedAnnotations": annotations },
        }))
        .unwrap()
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let table = [
        (json(r#"{"a":"b"}"#), json(r#"{"Example.com/a":"any text, of any kind"}"#), None),
        (json(r#"{"a":"b c"}"#), json("{}"), Some(Reason::Garbage)),
        (json(r#"{"a b":"c"}"#), json("{}"), Some(Reason::Garbage)),
        (json("{}"), json(r#"{"a b":"c"}"#), Some(Reason::Garbage)),
        (json("{}"), serde_json::json!({ "a": "x".repeat(200_000) }), Some(Reason::Size)),
    ];
    for (labels, annotations, wanted) in table {
        let found = check_export(&export(labels.clone(), annotations)).err();
        assert_eq!(found.as_ref().map(|refused| refused.reason), wanted, "{labels} {found:?}");
    }
}
