//! Every row of KEP-1645 and of KEP-2149 has a test, and the page that says which is true.

mod common;

use std::fs;

use self::common::{ROOT, functions};

/// As many rows as each part has.
const ROWS: [(char, usize); 11] = [
    ('A', 7),
    ('B', 13),
    ('C', 9),
    ('D', 5),
    ('E', 6),
    ('F', 11),
    ('G', 16),
    ('H', 6),
    ('I', 3),
    ('J', 6),
    ('K', 5),
];

/// Whether a test is named by a row: `b5_…`, or `f1_to_f4_…` for one in between.
fn is_named_by(test: &str, row: &str) -> bool {
    let words: Vec<&str> = test.split('_').collect();
    let number = |word: &str| word.strip_prefix(&row[..1]).and_then(|rest| rest.parse::<usize>().ok());
    let wanted = number(row);
    let within = |range: &[&str]| {
        range[1] == "to"
            && number(range[0]) <= wanted
            && wanted <= number(range[2])
            && number(range[0]).is_some()
    };
    words.contains(&row) || words.windows(3).any(within)
}

#[test]
fn every_row_has_a_test_that_is_named_by_it_and_every_test_that_is_named_is_there() {
    let page = fs::read_to_string(format!("{ROOT}/docs/mcs-rows.md")).unwrap();
    let tests = &functions("e2e/tests") | &functions("src");
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    let wanted = ROWS.iter().flat_map(|(part, number)| (1..=*number).map(move |row| format!("{part}{row}")));
    let listed: Vec<_> = rows.iter().skip(1).map(|row| row[0].trim_start_matches("| ").to_owned()).collect();
    assert_eq!(listed, wanted.collect::<Vec<_>>());
    for row in &rows[1..] {
        let shown: Vec<_> = row[2].split('`').skip(1).step_by(2).collect();
        let number = row[0].trim_start_matches("| ").to_lowercase();
        assert!(shown.iter().any(|name| is_named_by(name, &number)), "no test is named by {number}");
        for name in shown {
            assert!(tests.contains(name), "{name} of {} is not there", row[0]);
        }
    }
}
