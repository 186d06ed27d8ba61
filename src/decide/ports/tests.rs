//! Each row of the table in the module's documentation, and what holds for any two lists.

use proptest::prelude::*;

use super::*;

/// A port as `[name ]number/PROTOCOL[ for appProtocol]`.
pub(in crate::decide) fn port(text: &str) -> Port {
    let (text, app_protocol) = match text.split_once(" for ") {
        Some((text, app)) => (text, Some(app.into())),
        None => (text, None),
    };
    let (name, key) = text.split_once(' ').unwrap_or(("", text));
    Port { name: name.parse().unwrap(), key: key_of(key), app_protocol }
}

/// A key as `number/PROTOCOL`.
pub(in crate::decide) fn key_of(text: &str) -> PortKey {
    let (number, protocol) = text.split_once('/').unwrap();
    PortKey { port: number.parse().unwrap(), protocol: protocol.parse().unwrap() }
}

/// Ports as [`port`] reads them, separated by commas; an empty text is an empty list.
pub(in crate::decide) fn ports(text: &str) -> Vec<Port> {
    text.split(", ").filter(|text| !text.is_empty()).map(port).collect()
}

/// Ports out of few names, numbers and protocols, so that they often meet.
pub(in crate::decide) fn any_port() -> impl Strategy<Value = Port> {
    let name = prop::sample::select(vec!["", "", "a", "b", "c", "tcp-80", "udp-81", "tcp-80-2"]);
    let protocol = prop::sample::select(vec!["TCP", "TCP", "UDP"]);
    let app = prop::sample::select(vec!["", "", " for http", " for grpc"]);
    (name, 80..83u16, protocol, app).prop_map(|(name, number, protocol, app)| {
        port(format!("{name} {number}/{protocol}{app}").trim_start())
    })
}

fn said(conflicts: &[PortConflict]) -> Vec<String> {
    conflicts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_port_conflict_is_what_the_table_says() {
    let table: &[(&str, &str, &[&str])] = &[
        ("http 80/TCP", "http 80/TCP", &[]),
        ("http 80/TCP", "http 8080/TCP", &[r#"port "http": 80/TCP here, 8080/TCP there"#]),
        ("http 80/TCP", "http 80/UDP", &[r#"port "http" (80): protocol TCP here, UDP there"#]),
        ("http 80/TCP", "http 8080/UDP", &[r#"port "http": 80/TCP here, 8080/UDP there"#]),
        ("80/TCP", "8080/TCP", &["the unnamed port: 80/TCP here, 8080/TCP there"]),
        ("53/TCP", "53/UDP", &["the unnamed port (53): protocol TCP here, UDP there"]),
        ("http 80/TCP", "web 80/TCP", &[r#"port 80/TCP: name "http" here, "web" there"#]),
        ("http 80/TCP", "80/TCP", &[]),
        ("80/TCP", "http 80/TCP", &[]),
        ("http 80/TCP", "8080/TCP", &[]),
        (
            "http 80/TCP for http",
            "http 80/TCP for grpc",
            &[r#"port "http" (80/TCP): appProtocol "http" here, "grpc" there"#],
        ),
        (
            "80/TCP for http",
            "web 80/TCP for grpc",
            &[r#"the unnamed port (80/TCP): appProtocol "http" here, "grpc" there"#],
        ),
        (
            "a 80/TCP for http",
            "b 80/TCP for grpc",
            &[
                r#"port 80/TCP: name "a" here, "b" there"#,
                r#"port "a" (80/TCP): appProtocol "http" here, "grpc" there"#,
            ],
        ),
        ("http 80/TCP for http", "http 80/TCP", &[]),
        ("80/TCP for http", "80/TCP", &[]),
        ("http 80/TCP", "https 443/TCP, dns 80/UDP", &[]),
        ("", "http 80/TCP", &[]),
        ("http 80/TCP", "", &[]),
    ];
    for (here, there, expected) in table {
        assert_eq!(said(&conflicts(&ports(here), &ports(there))), *expected, "{here} and {there}");
    }
}

#[test]
fn swapped_names_conflict_by_name_and_by_number() {
    let found = conflicts(&ports("a 80/TCP, b 81/TCP"), &ports("b 80/TCP, a 81/TCP"));
    assert_eq!(
        said(&found),
        [
            r#"port "a": 80/TCP here, 81/TCP there"#,
            r#"port 80/TCP: name "a" here, "b" there"#,
            r#"port "b": 81/TCP here, 80/TCP there"#,
            r#"port 81/TCP: name "b" here, "a" there"#,
        ]
    );
    assert_eq!(found.iter().map(|c| c.index).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn within_a_list_a_name_and_a_protocol_with_number_occur_once() {
    let table: &[(&str, &[&str])] = &[
        ("http 80/TCP, https 443/TCP, dns 80/UDP", &[]),
        ("http 80/TCP, http 80/TCP", &[r#"port "http": 80/TCP here, the same there"#]),
        ("http 80/TCP, http 81/TCP", &[r#"port "http": 81/TCP here, 80/TCP there"#]),
        ("http 80/TCP, http 80/UDP", &[r#"port "http" (80): protocol UDP here, TCP there"#]),
        ("http 80/TCP, web 80/TCP", &[r#"port 80/TCP: name "web" here, "http" there"#]),
        ("http 80/TCP, 80/TCP", &[r#"port 80/TCP: name "" here, "http" there"#]),
        ("80/TCP, 81/TCP", &["the unnamed port: 81/TCP here, 80/TCP there"]),
        ("http 80/TCP for a, http 80/TCP for b", &[r#"port "http": 80/TCP here, the same there"#]),
        (
            "a 1/TCP, a 2/TCP, a 3/TCP",
            &[
                r#"port "a": 2/TCP here, 1/TCP there"#,
                r#"port "a": 3/TCP here, 1/TCP there"#,
                r#"port "a": 3/TCP here, 2/TCP there"#,
            ],
        ),
    ];
    for (list, expected) in table {
        assert_eq!(said(&duplicates(&ports(list))), *expected, "{list}");
    }
}

#[test]
fn a_message_names_the_other_cluster_in_the_callers_words() {
    let found = conflicts(&ports("http 8080/TCP"), &ports("http 80/TCP"));
    assert_eq!(
        found[0].between("here", "in cluster member1 (exported since 2026-01-01T00:00:00Z)"),
        r#"port "http": 8080/TCP here, 80/TCP in cluster member1 (exported since 2026-01-01T00:00:00Z)"#
    );
    assert_eq!(found[0].clash.field(), Some("port"));
}

#[test]
fn protocols_are_written_as_kubernetes_writes_them() {
    for text in ["TCP", "UDP", "SCTP"] {
        assert_eq!(text.parse::<Protocol>().unwrap().to_string(), text);
    }
    assert_eq!(
        "tcp".parse::<Protocol>().unwrap_err().to_string(),
        r#""tcp" is not a protocol of Services: TCP, UDP and SCTP are"#
    );
}

proptest! {
    #[test]
    fn a_conflict_here_with_there_is_one_there_with_here(
        here in prop::collection::vec(any_port(), 0..5),
        there in prop::collection::vec(any_port(), 0..5),
    ) {
        let mut turned: Vec<_> =
            conflicts(&there, &here).into_iter().map(|c| (c.clash, c.there, c.here)).collect();
        turned.sort();
        turned.dedup();
        let mut found: Vec<_> =
            conflicts(&here, &there).into_iter().map(|c| (c.clash, c.here, c.there)).collect();
        found.sort();
        found.dedup();
        prop_assert_eq!(found, turned);
    }

    #[test]
    fn a_legal_list_never_conflicts_with_itself_nor_with_a_part_of_it(
        list in prop::collection::vec(any_port(), 0..5),
        cut in 0..5usize,
    ) {
        let mut list = list;
        while let Some(conflict) = duplicates(&list).first() {
            list.remove(conflict.index);
        }
        prop_assert_eq!(conflicts(&list, &list), []);
        prop_assert_eq!(conflicts(&list, &list[..cut.min(list.len())]), []);
    }

    #[test]
    fn the_order_of_the_other_list_does_not_matter(
        here in prop::collection::vec(any_port(), 0..5),
        there in prop::collection::vec(any_port(), 0..5),
    ) {
        let mut reversed = there.clone();
        reversed.reverse();
        prop_assert_eq!(conflicts(&here, &there), conflicts(&here, &reversed));
    }
}
