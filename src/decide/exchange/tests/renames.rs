use super::*;

fn names(fleet: &Fleet, member: &str) -> Vec<Vec<String>> {
    let named = |(_, _, ports): Got| ports.into_iter().map(|(name, _)| name).collect();
    fleet.gets(member).into_iter().map(named).collect()
}

fn imported_name(fleet: &Fleet, member: &str) -> Value {
    fleet.imports[&(member.to_owned(), "serve".to_owned())]["spec"]["ports"][0]["name"].clone()
}

#[test]
fn a_renamed_port_has_both_names_before_the_service_changes_and_until_it_has() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    assert_eq!(names(&fleet, "b"), [["http"]]);
    fleet.busy = true;
    fleet.export("a", 1, ports(&[("web", 80)]));
    // First the slices, and the import stays.
    let plan = fleet.plan("b");
    assert_eq!(plan.import, ImportStep::Nothing);
    fleet.carry_out("b", plan);
    assert_eq!(
        (names(&fleet, "b"), imported_name(&fleet, "b")),
        (vec![vec!["web".to_owned(), "http".into()]], "http".into())
    );
    // Then the import, and the slices stay.
    fleet.settle();
    assert_eq!(
        (names(&fleet, "b"), imported_name(&fleet, "b")),
        (vec![vec!["web".to_owned(), "http".into()]], "web".into())
    );
    // When the agent has changed the Service, the old name goes.
    fleet.serve("b");
    fleet.settle();
    assert_eq!(names(&fleet, "b"), [["web"]]);
}

#[test]
fn a_name_that_another_port_takes_over_is_not_kept_for_the_first() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("x", 80), ("y", 81)]));
    fleet.settle();
    fleet.busy = true;
    fleet.export("a", 1, ports(&[("y", 80), ("x", 81)]));
    fleet.settle();
    let got = fleet.gets("b");
    assert_eq!(got[0].2, [("y".to_owned(), 8080), ("x".to_owned(), 8081)]);
}

#[test]
fn the_old_name_stays_while_the_agent_says_that_it_could_not_change_the_service() {
    let mut fleet = Fleet::of(&["a", "b"]);
    fleet.export("a", 1, ports(&[("http", 80)]));
    fleet.settle();
    fleet.busy = true;
    fleet.export("a", 1, ports(&[("web", 80)]));
    fleet.settle();
    let import = fleet.imports.get_mut(&("b".to_owned(), "serve".to_owned())).unwrap();
    serves(import);
    import["status"]["conditions"][0]["status"] = "False".into();
    let import = import.clone();
    fleet.see_import("b", &import);
    fleet.settle();
    assert_eq!(names(&fleet, "b"), [["web", "http"]]);
    fleet.serve("b");
    fleet.settle();
    assert_eq!(names(&fleet, "b"), [["web"]]);
}
