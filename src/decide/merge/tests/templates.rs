//! The merged service as a ServiceImport on the hub wants it.

use super::*;

fn template(ports: &str) -> Template {
    Template { service_type: ServiceType::ClusterSetIp, ports: ports_of(ports) }
}

/// The ports and fates of exports (from the oldest on) for a ServiceImport with ports.
fn check(wanted: &str, exported: &[&str], served: &str, expected: &[&str]) -> Import {
    let exports = exported.iter().zip(["a", "b"]).zip(1..);
    let exports: Vec<_> = exports.map(|((ports, name), second)| export(name, second, ports)).collect();
    let import = import(&template(wanted), merge(&exports, &AcceptedNames::new()).as_ref());
    assert_eq!(listed(&import.service), served, "{wanted}");
    assert_eq!(fates(&import.clusters), expected, "{wanted}");
    import
}

#[test]
fn an_empty_list_follows_the_merge() {
    let exports = [export("a", 1, "http 80/TCP"), export("b", 2, "http 81/TCP, dns 53/UDP")];
    let merged = fresh(&exports);
    let import = import(&template(""), Some(&merged));
    assert_eq!((import.service, import.clusters), (merged.service, merged.clusters));
    assert_eq!((import.unexported, import.type_conflict), (BTreeSet::new(), None));
}

#[test]
fn a_name_given_in_the_import_wins() {
    check("web 80/TCP", &["http 80/TCP", "80/TCP"], "web 80/TCP", &["a: 80/TCP as web", "b: 80/TCP as web"]);
}

#[test]
fn an_empty_name_takes_the_merged_one() {
    check("80/TCP", &["http 80/TCP"], "http 80/TCP", &["a: 80/TCP as http"]);
    check("80/TCP", &["80/TCP"], "80/TCP", &["a: 80/TCP"]);
    check("80/TCP, http 81/TCP", &["web 80/TCP"], "web 80/TCP, http 81/TCP", &["a: 80/TCP as web"]);
}

#[test]
fn an_empty_name_among_several_is_made_up_if_the_merged_one_is_taken_or_missing() {
    check("80/TCP, x 81/TCP", &["80/TCP"], "tcp-80 80/TCP, x 81/TCP", &["a: 80/TCP as tcp-80"]);
    check("80/TCP, x 81/TCP", &[], "tcp-80 80/TCP, x 81/TCP", &[]);
    check("80/TCP, http 81/TCP", &["http 80/TCP"], "tcp-80 80/TCP, http 81/TCP", &["a: 80/TCP withheld"]);
}

#[test]
fn an_application_protocol_given_in_the_import_wins_and_none_takes_the_merged_one() {
    let app = |wanted| {
        let import = check(wanted, &["http 80/TCP for http"], "http 80/TCP", &["a: 80/TCP as http"]);
        import.service.ports[0].app_protocol.clone()
    };
    assert_eq!(app("http 80/TCP").as_deref(), Some("http"));
    assert_eq!(app("http 80/TCP for grpc").as_deref(), Some("grpc"));
}

#[test]
fn a_port_that_the_import_does_not_list_is_withheld() {
    let import = check(
        "http 80/TCP",
        &["http 80/TCP, dns 53/UDP"],
        "http 80/TCP",
        &["a: 53/UDP withheld, 80/TCP as http"],
    );
    let port = &import.clusters[&cluster("a")][&key_of("53/UDP")];
    assert_eq!(port.fate, Fate::Withheld(Withheld::NotImported));
}

#[test]
fn a_port_that_nobody_exports_is_served_and_told() {
    let import =
        check("http 80/TCP, x 81/TCP", &["http 80/TCP"], "http 80/TCP, x 81/TCP", &["a: 80/TCP as http"]);
    assert_eq!(import.unexported, BTreeSet::from([key_of("81/TCP")]));
}

#[test]
fn without_exports_the_import_stands_by_itself() {
    let wanted = Template { service_type: ServiceType::Headless, ports: ports_of("80/TCP") };
    let import = import(&wanted, None);
    assert_eq!(listed(&import.service), "80/TCP");
    assert_eq!(import.service.service_type, ServiceType::Headless);
    assert_eq!(import.unexported, BTreeSet::from([key_of("80/TCP")]));
    assert_eq!(import.type_conflict, None);
}

#[test]
fn an_import_decides_between_clusters_in_conflict() {
    let exports = ["http 80/TCP", "http 8080/TCP"];
    check("http 8080/TCP", &exports, "http 8080/TCP", &["a: 80/TCP withheld", "b: 8080/TCP as http"]);
    check(
        "new 8080/TCP, old 80/TCP",
        &exports,
        "new 8080/TCP, old 80/TCP",
        &["a: 80/TCP as old", "b: 8080/TCP as new"],
    );
}

#[test]
fn ports_under_each_others_names_in_import_and_export_are_withheld() {
    let import = check(
        "a 80/TCP, b 81/TCP",
        &["b 80/TCP, a 81/TCP"],
        "a 80/TCP, b 81/TCP",
        &["a: 80/TCP withheld, 81/TCP withheld"],
    );
    let port = &import.clusters[&cluster("a")][&key_of("80/TCP")];
    assert_eq!(port.fate, Fate::Withheld(Withheld::Redefined { port: key_of("81/TCP") }));
    assert_eq!(import.unexported, BTreeSet::from([key_of("80/TCP"), key_of("81/TCP")]));
}

#[test]
fn affinity_and_traffic_fields_are_the_merged_ones() {
    let export = with("a", 1, |service| {
        service.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 60 };
        service.traffic_distribution = Some("PreferClose".into());
        service.ip_families = vec![IpFamily::V6];
    });
    let import = import(&template("http 80/TCP"), Some(&fresh(std::slice::from_ref(&export))));
    assert_eq!(import.service, export.service);
}

#[test]
fn another_type_than_the_merged_one_is_a_conflict_and_does_not_hold() {
    let exports = [with("a", 1, |service| service.service_type = ServiceType::Headless)];
    let import = import(&template("http 80/TCP"), Some(&fresh(&exports)));
    assert_eq!(import.service.service_type, ServiceType::Headless);
    assert_eq!(
        import.type_conflict.unwrap().to_string(),
        r#"Conflicting type. Using "Headless" from oldest service export in "a" instead of "ClusterSetIP"."#
    );
}

#[test]
fn repeated_ports_of_an_import_are_left_out() {
    check("http 80/TCP, web 80/TCP, http 81/TCP, x 82/TCP", &[], "http 80/TCP, x 82/TCP", &[]);
}

#[test]
fn a_port_that_its_own_service_has_under_the_name_of_another_is_withheld_here_too() {
    check("x 81/TCP", &["http 80/TCP, http 81/TCP"], "x 81/TCP", &["a: 80/TCP withheld, 81/TCP withheld"]);
}
