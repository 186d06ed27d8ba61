//! What merged ports are called, at first and as exports come and go.

use super::*;

/// What happened to a service: the exports at each step, and the merged ports after it.
fn story(steps: &[(&[Export], &str)]) {
    let mut accepted = AcceptedNames::new();
    for (number, (exports, expected)) in steps.iter().enumerate() {
        let merged = merge(exports, &accepted).unwrap();
        assert_eq!(listed(&merged.service), *expected, "step {number}");
        accepted = merged.accepted;
    }
}

#[test]
fn a_single_port_needs_no_name_but_one_of_several_gets_one() {
    assert_eq!(listed(&fresh(&[export("a", 1, "80/TCP")]).service), "80/TCP");
    let united = fresh(&[export("a", 1, "80/TCP"), export("b", 2, "metrics 9090/TCP")]);
    assert_eq!(listed(&united.service), "tcp-80 80/TCP, metrics 9090/TCP");
    let united = fresh(&[export("a", 1, "dns 53/TCP"), export("b", 2, "53/UDP")]);
    assert_eq!(listed(&united.service), "dns 53/TCP, udp-53 53/UDP");
    let united = fresh(&[export("a", 1, "dns 53/TCP"), export("b", 2, "9/SCTP")]);
    assert_eq!(listed(&united.service), "dns 53/TCP, sctp-9 9/SCTP");
}

#[test]
fn a_made_up_name_gives_way_to_an_older_port_that_has_it() {
    let united = fresh(&[export("a", 1, "tcp-80 8080/TCP, tcp-80-2 1/TCP"), export("b", 2, "80/TCP")]);
    assert_eq!(listed(&united.service), "tcp-80 8080/TCP, tcp-80-2 1/TCP, tcp-80-3 80/TCP");
    assert_eq!(
        fates(&united.clusters),
        ["a: 1/TCP as tcp-80-2, 8080/TCP as tcp-80", "b: 80/TCP as tcp-80-3"]
    );
}

#[test]
fn a_younger_port_that_has_a_made_up_name_is_served_under_another() {
    let united = fresh(&[export("a", 1, "80/TCP"), export("b", 2, "tcp-80 8080/TCP")]);
    assert_eq!(listed(&united.service), "tcp-80 80/TCP, tcp-8080 8080/TCP");
    assert_eq!(fates(&united.clusters), ["a: 80/TCP as tcp-80", "b: 8080/TCP as tcp-8080"]);
}

#[test]
fn an_accepted_port_keeps_its_name_when_the_winner_leaves() {
    let b = || export("b", 2, "web 80/TCP");
    story(&[
        (&[export("a", 1, "http 80/TCP"), b()], "http 80/TCP"),
        (&[b()], "http 80/TCP"),
        // And when the one that gave the name comes back with another.
        (&[b(), export("a", 3, "www 80/TCP")], "http 80/TCP"),
        // Until nobody has the port any more.
        (&[export("b", 2, "web 81/TCP")], "web 81/TCP"),
        (&[b()], "web 80/TCP"),
    ]);
}

#[test]
fn the_export_that_gave_a_name_can_change_it() {
    story(&[
        (&[export("a", 1, "http 80/TCP")], "http 80/TCP"),
        (&[export("a", 1, "web 80/TCP")], "web 80/TCP"),
        (&[export("a", 1, "x 80/TCP"), export("b", 2, "web 80/TCP")], "web 80/TCP"),
        (&[export("a", 1, "x 80/TCP"), export("b", 2, "x 80/TCP")], "x 80/TCP"),
        // Names can be swapped in one step.
        (&[export("a", 1, "x 80/TCP, y 81/TCP")], "x 80/TCP, y 81/TCP"),
        (&[export("a", 1, "y 80/TCP, x 81/TCP")], "y 80/TCP, x 81/TCP"),
    ]);
}

#[test]
fn who_takes_a_kept_name_up_can_change_it_again() {
    let (a, b) = (|| export("a", 1, "http 80/TCP"), |ports| export("b", 2, ports));
    story(&[
        (&[a(), b("web 80/TCP")], "http 80/TCP"),
        (&[b("web 80/TCP")], "http 80/TCP"),
        (&[b("http 80/TCP")], "http 80/TCP"),
        (&[b("www 80/TCP")], "www 80/TCP"),
    ]);
}

#[test]
fn a_made_up_name_goes_when_the_port_gets_one_of_its_own() {
    let b = || export("b", 2, "metrics 9090/TCP");
    story(&[
        (&[export("a", 1, "80/TCP"), b()], "tcp-80 80/TCP, metrics 9090/TCP"),
        (&[export("a", 1, "http 80/TCP"), b()], "http 80/TCP, metrics 9090/TCP"),
    ]);
}

#[test]
fn a_port_keeps_its_name_if_the_new_one_is_another_ports() {
    story(&[
        (&[export("a", 1, "http 80/TCP, web 81/TCP"), export("b", 2, "81/TCP")], "http 80/TCP, web 81/TCP"),
        (&[export("a", 1, "web 80/TCP, x 81/TCP"), export("b", 2, "81/TCP")], "http 80/TCP, web 81/TCP"),
    ]);
}

#[test]
fn a_name_whose_giver_is_not_known_is_kept() {
    let name = "http".parse().unwrap();
    let accepted = AcceptedNames::from([(key_of("80/TCP"), AcceptedName { name, given_by: None })]);
    let merged = merge(&[export("a", 1, "web 80/TCP")], &accepted).unwrap();
    assert_eq!(listed(&merged.service), "http 80/TCP");
    assert_eq!(merged.accepted, accepted);
}

#[test]
fn a_made_up_name_stays_when_the_port_is_alone_again() {
    let (a, b) = (|| export("a", 1, "80/TCP"), || export("b", 2, "metrics 9090/TCP"));
    story(&[
        (&[a()], "80/TCP"),
        (&[a(), b()], "tcp-80 80/TCP, metrics 9090/TCP"),
        (&[a()], "tcp-80 80/TCP"),
        (&[a(), b()], "tcp-80 80/TCP, metrics 9090/TCP"),
    ]);
}

#[test]
fn a_port_that_gets_a_name_in_its_service_gets_it_in_the_merge() {
    story(&[
        (&[export("a", 1, "80/TCP")], "80/TCP"),
        (&[export("a", 1, "http 80/TCP")], "http 80/TCP"),
        // One that loses it contradicts nothing.
        (&[export("a", 1, "80/TCP")], "http 80/TCP"),
    ]);
}

#[test]
fn a_name_moves_from_80_to_8080_with_the_services() {
    let before = |name, second| export(name, second, "http 80/TCP");
    let between = |name, second| export(name, second, "http 8080/TCP, http-old 80/TCP");
    story(&[
        (&[before("a", 1), before("b", 2)], "http 80/TCP"),
        (&[before("a", 1), between("b", 2)], "http 80/TCP"),
        (&[between("a", 1), between("b", 2)], "http 8080/TCP, http-old 80/TCP"),
        (&[export("a", 1, "http 8080/TCP"), export("b", 2, "http 8080/TCP")], "http 8080/TCP"),
    ]);
    // The same if the oldest leaves instead of following.
    story(&[
        (&[before("a", 1), between("b", 2)], "http 80/TCP"),
        (&[between("b", 2)], "http 8080/TCP, http-old 80/TCP"),
    ]);
}

#[test]
fn an_older_export_that_joins_renames_nothing_that_others_still_call_so() {
    story(&[
        (&[export("b", 2, "web 80/TCP")], "web 80/TCP"),
        (&[export("b", 2, "web 80/TCP"), export("a", 1, "http 80/TCP")], "web 80/TCP"),
    ]);
}
