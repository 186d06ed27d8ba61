//! The limits that docs/limits.md names are those of the code.

use std::{fs, path::Path};

#[test]
fn every_limit_in_the_documents_is_that_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/limits.md")).unwrap();
    let mut rows = 0;
    for (line, text) in page.lines().enumerate().filter(|(_, text)| text.contains("| `src/")) {
        let place = text.trim_end_matches([' ', '|']).rsplit("| ").next().unwrap();
        let (file, code) = place.split_once("`: `").unwrap_or_else(|| panic!("line {}: {place}", line + 1));
        let source = fs::read_to_string(root.join(file.trim_matches('`'))).unwrap();
        let code = code.trim_matches('`');
        assert!(source.contains(code), "docs/limits.md:{}: {file} does not say {code}", line + 1);
        // The row gives the number itself, as people write it.
        let number: String =
            code.rsplit(['=', ' ']).next().unwrap().chars().filter(char::is_ascii_digit).collect();
        let shown: String = text.rsplit_once("| `src/").unwrap().0.replace(',', "");
        assert!(
            code.contains("<<") || shown.contains(&number),
            "docs/limits.md:{}: where is {number}?",
            line + 1
        );
        rows += 1;
    }
    assert!(rows > 20, "only {rows} limits were found");
}
