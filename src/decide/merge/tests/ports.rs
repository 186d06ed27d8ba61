//! Which ports are served, and by whom.

use super::*;

/// Exports of clusters a, b, c … from the oldest on.
fn exports(ports: &[&str]) -> Vec<Export> {
    let names = ["a", "b", "c", "d"];
    ports.iter().zip(names).zip(1..).map(|((ports, name), second)| export(name, second, ports)).collect()
}

fn check(ports: &[&str], merged_ports: &str, expected: &[&str]) {
    let merged = fresh(&exports(ports));
    assert_eq!(listed(&merged.service), merged_ports, "{ports:?}");
    assert_eq!(fates(&merged.clusters), expected, "{ports:?}");
}

#[test]
fn different_ports_are_united_in_the_order_of_the_oldest_export() {
    check(
        &["udp 42/UDP, tcp 42/TCP", "tcp 42/TCP, stcp 142/SCTP"],
        "udp 42/UDP, tcp 42/TCP, stcp 142/SCTP",
        &["a: 42/TCP as tcp, 42/UDP as udp", "b: 42/TCP as tcp, 142/SCTP as stcp"],
    );
}

#[test]
fn a_losing_port_is_withheld_but_its_cluster_keeps_serving_the_others() {
    check(
        &["http 80/TCP", "http 8080/TCP, metrics 9090/TCP"],
        "http 80/TCP, metrics 9090/TCP",
        &["a: 80/TCP as http", "b: 8080/TCP withheld, 9090/TCP as metrics"],
    );
}

#[test]
fn ports_under_each_others_names_reach_the_older_clusters_pods_only() {
    check(
        &["a 80/TCP, b 81/TCP", "b 80/TCP, a 81/TCP"],
        "a 80/TCP, b 81/TCP",
        &["a: 80/TCP as a, 81/TCP as b", "b: 80/TCP withheld, 81/TCP withheld"],
    );
}

#[test]
fn the_same_port_under_two_names_is_one_port_with_the_older_name() {
    check(
        &["http 80/TCP for http", "web 80/TCP for grpc"],
        "http 80/TCP",
        &["a: 80/TCP as http", "b: 80/TCP as http"],
    );
    let merged = fresh(&exports(&["http 80/TCP for http", "web 80/TCP for grpc"]));
    assert_eq!(merged.service.ports[0].app_protocol.as_deref(), Some("http"));
    assert_eq!(merged.clusters[&cluster("b")][&key_of("80/TCP")].name.as_str(), "web");
}

#[test]
fn a_port_that_moved_keeps_being_served_under_its_old_number_by_those_that_still_have_it() {
    check(
        &["http 80/TCP", "http 8080/TCP, http-old 80/TCP"],
        "http 80/TCP",
        &["a: 80/TCP as http", "b: 80/TCP as http, 8080/TCP withheld"],
    );
}

#[test]
fn a_named_and_an_unnamed_port_of_one_number_are_one_port() {
    check(&["http 80/TCP", "80/TCP"], "http 80/TCP", &["a: 80/TCP as http", "b: 80/TCP as http"]);
    check(&["80/TCP", "http 80/TCP"], "80/TCP", &["a: 80/TCP", "b: 80/TCP"]);
}

#[test]
fn of_two_unnamed_ports_with_different_numbers_or_protocols_the_older_wins() {
    check(&["80/TCP", "8080/TCP"], "80/TCP", &["a: 80/TCP", "b: 8080/TCP withheld"]);
    check(&["53/UDP", "53/TCP"], "53/UDP", &["a: 53/UDP", "b: 53/TCP withheld"]);
}

#[test]
fn an_unnamed_port_is_served_by_its_number_even_if_another_unnamed_one_is_older() {
    check(
        &["http 80/TCP", "81/TCP", "80/TCP"],
        "http 80/TCP, tcp-81 81/TCP",
        &["a: 80/TCP as http", "b: 81/TCP as tcp-81", "c: 80/TCP as http"],
    );
}

#[test]
fn in_a_chain_of_conflicts_each_port_yields_to_the_oldest_that_has_its_name() {
    // b loses "x" to a and so does not stand in c's way, which loses "y" to b.
    check(
        &["x 80/TCP", "x 81/TCP, y 82/TCP", "y 81/TCP, z 80/TCP, w 83/TCP"],
        "x 80/TCP, y 82/TCP, w 83/TCP",
        &[
            "a: 80/TCP as x",
            "b: 81/TCP withheld, 82/TCP as y",
            "c: 80/TCP as x, 81/TCP withheld, 83/TCP as w",
        ],
    );
    // c's 81 is free, since b's was withheld.
    check(
        &["x 80/TCP", "x 81/TCP", "q 81/TCP"],
        "x 80/TCP, q 81/TCP",
        &["a: 80/TCP as x", "b: 81/TCP withheld", "c: 81/TCP as q"],
    );
}

#[test]
fn a_withheld_port_says_who_outranks_it_with_what() {
    let merged = fresh(&exports(&["http 80/TCP", "http 8080/TCP"]));
    let port = &merged.clusters[&cluster("b")][&key_of("8080/TCP")];
    let Fate::Withheld(reason) = &port.fate else { panic!("{port:?}") };
    assert_eq!(*reason, Withheld::Outranked { by: cluster("a"), port: key_of("80/TCP") });
    assert_eq!(reason.to_string(), r#"its name is 80/TCP in the older service export of "a""#);
}

#[test]
fn exports_without_ports_are_merged_too() {
    check(&["", ""], "", &["a: ", "b: "]);
    check(&["", "http 80/TCP"], "http 80/TCP", &["a: ", "b: 80/TCP as http"]);
    assert_eq!(reasons(&fresh(&exports(&["", "http 80/TCP"]))), "PortConflict");
}

#[test]
fn ports_of_a_headless_and_of_a_cluster_ip_service_are_united_under_the_oldest_type() {
    let headless = with("a", 1, |service| {
        service.service_type = ServiceType::Headless;
        service.ports = ports_of("db 5432/TCP");
    });
    let merged = fresh(&[export("b", 2, "db 5432/TCP, metrics 9090/TCP"), headless]);
    assert_eq!(merged.service.service_type, ServiceType::Headless);
    assert_eq!(listed(&merged.service), "db 5432/TCP, metrics 9090/TCP");
    assert_eq!(reasons(&merged), "PortConflict,TypeConflict");
}

#[test]
fn a_service_that_no_api_server_would_store_makes_no_illegal_merge() {
    check(
        &["http 80/TCP, http 81/TCP, web 80/TCP, ok 82/TCP"],
        "http 80/TCP, ok 82/TCP",
        &["a: 80/TCP as http, 81/TCP withheld, 82/TCP as ok"],
    );
}

#[test]
fn the_order_of_ports_is_no_conflict_but_any_other_difference_is() {
    let conflicts = |one, other| reasons(&fresh(&exports(&[one, other])));
    assert_eq!(conflicts("a 80/TCP, b 81/TCP", "b 81/TCP, a 80/TCP"), "NoConflicts");
    for other in
        ["a 80/TCP", "a 80/TCP, b 81/TCP, c 82/TCP", "a 80/TCP, b 81/UDP", "a 80/TCP, b 81/TCP for x"]
    {
        assert_eq!(conflicts("a 80/TCP, b 81/TCP", other), "PortConflict", "{other}");
    }
    assert_eq!(conflicts("80/TCP", "http 80/TCP"), "PortConflict");
}

#[test]
fn a_port_conflict_names_the_ports_the_winner_the_counts_and_what_is_dropped() {
    let merged = fresh(&exports(&["tcp 42/TCP", "tcp 43/TCP", "tcp 42/TCP"]));
    assert_eq!(
        merged.condition().message,
        r#"Conflicting ports. Using "tcp 42/TCP" from oldest service export in "a". 1/3 clusters disagree. Dropped: tcp 43/TCP of "b" (its name is 42/TCP in the older service export of "a")."#
    );
    let merged = fresh(&exports(&["tcp 42/TCP", "udp 42/UDP"]));
    assert_eq!(
        merged.condition().message,
        r#"Conflicting ports. Using "tcp 42/TCP, udp 42/UDP" from oldest service export in "a" and, where it lacks a port, from younger ones. 1/2 clusters disagree."#
    );
}
