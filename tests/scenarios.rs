//! The page on Karmada's scenarios names tests that are there.

mod common;

use std::fs;

use self::common::{ROOT, functions};

#[test]
fn every_scenario_has_a_test_and_every_test_that_is_named_is_there() {
    let page = fs::read_to_string(format!("{ROOT}/docs/karmada-scenarios.md")).unwrap();
    let tests = &functions("e2e/tests") | &functions("src");
    let (shown, _) = page.split_once("## Not here").expect("the page says what is not here");
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("| ")).collect();
    let rows: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with("| scenario")).collect();
    assert!(rows.len() > 40, "only {} scenarios were found", rows.len());
    for row in rows {
        let [scenario, by] = row.trim_matches('|').split(" | ").collect::<Vec<_>>()[..] else {
            panic!("it has not two columns: {row}");
        };
        let named: Vec<&str> = by.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{scenario} is shown by no test");
        for name in named {
            assert!(tests.contains(name), "{name}, by which {scenario} is shown, is not there");
        }
    }
}
