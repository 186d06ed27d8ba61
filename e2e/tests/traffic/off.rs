//! The specs fail when they must.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures::future::join_all;
use tombolo_e2e::{
    bed::{Bed, Spec},
    suite::Test,
};

/// The flag that keeps the hub from importing anything by itself.
const OFF: &str = "--auto-import=false";
/// The specs that say what there must *not* be.
const EXPECT_NO_IMPORT: [&str; 2] = ["spec_14", "spec_16"];

/// A bed whose hub imports nothing by itself.
pub(crate) fn spec() -> Spec {
    Spec { hub_flags: vec![OFF.to_owned()], ..Spec::api(3) }.joined()
}

/// How long an import is waited for on a bed, and how far apart the looks are: where none comes, not longer than the conformance suite
/// itself waits, and seldom, since all specs wait at once.
pub(crate) fn patience(bed: &Bed) -> (Duration, Duration) {
    match bed.spec.hub_flags.iter().any(|flag| flag == OFF) {
        true => (Duration::from_secs(20), Duration::from_millis(500)),
        false => (super::ground::PATIENCE, Duration::from_millis(50)),
    }
}

/// Runs all specs on such a bed: each of them that expects an import must miss it.
pub(crate) async fn each_spec_that_expects_an_import_fails(bed: Arc<Bed>, specs: Vec<Test>) -> Result<()> {
    let expecting: Vec<Test> = specs
        .into_iter()
        .filter(|(name, _)| !EXPECT_NO_IMPORT.iter().any(|number| name.starts_with(number)))
        .collect();
    ensure!(expecting.len() == 25, "{} specs expect an import", expecting.len());
    let outcomes = join_all(expecting.iter().map(|(_, spec)| spec(bed.clone()))).await;
    for ((name, _), outcome) in expecting.iter().zip(outcomes) {
        let error = outcome.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(error.contains("imports it so: not so after"), "{name} did not miss the import: {error:?}");
    }
    Ok(())
}
