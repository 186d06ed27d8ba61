//! Every row of KEP-1645 and of KEP-2149 has a test, and the page that says which is true.

use std::{collections::BTreeSet, fs, path::Path};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
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

/// The names of all functions in the sources below a folder.
fn functions(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(path).expect("a source is text");
            let names =
                text.lines().filter_map(|line| line.split("async fn ").nth(1)?.split(['(', '<']).next());
            all.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_row_has_a_test_and_every_test_that_is_named_is_there() {
    let page = fs::read_to_string(format!("{ROOT}/docs/mcs-rows.md")).unwrap();
    let mut tests = BTreeSet::new();
    functions(&Path::new(ROOT).join("e2e/tests"), &mut tests);
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    let wanted = ROWS.iter().flat_map(|(part, number)| (1..=*number).map(move |row| format!("{part}{row}")));
    let listed: Vec<_> = rows.iter().skip(1).map(|row| row[0].trim_start_matches("| ").to_owned()).collect();
    assert_eq!(listed, wanted.collect::<Vec<_>>());
    for row in &rows[1..] {
        let shown: Vec<_> = row[2].split('`').skip(1).step_by(2).collect();
        assert!(!shown.is_empty(), "{row:?} is shown by nothing");
        for name in shown {
            let there = tests.contains(name) || Path::new(ROOT).join(name).is_file();
            assert!(there, "{name} of {} is not there", row[0]);
        }
    }
}
