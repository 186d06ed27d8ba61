//! What several of these tests need.

use std::{collections::BTreeSet, fs, path::Path};

/// The folder of this checkout.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The names of all functions in the sources below a folder of this checkout.
pub(crate) fn functions(folder: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    collect(&Path::new(ROOT).join(folder), &mut all);
    all
}

fn collect(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(path).expect("a source is text");
            let names = text.lines().filter_map(|line| line.split("fn ").nth(1)?.split(['(', '<']).next());
            all.extend(names.map(str::to_owned));
        }
    }
}
