//! The specs fail when they must.

use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::future::join_all;
use tombolo_e2e::{
    bed::{Bed, Spec},
    suite::Test,
};

use super::stories::end;

/// The specs that say what there must *not* be.
const EXPECT_NO_IMPORT: [&str; 3] = ["spec_14", "spec_16", "spec_24"];

/// Runs all specs on a bed whose hub imports nothing by itself: each of them that expects an import must miss it.
pub(crate) async fn each_spec_that_expects_an_import_fails(specs: Vec<Test>) -> Result<()> {
    let hub_flags = vec!["--auto-import=false".to_owned()];
    let bed = Arc::new(Bed::start(Spec { hub_flags, ..Spec::api(3) }.joined(), None).await?);
    let expecting: Vec<Test> = specs
        .into_iter()
        .filter(|(name, _)| !EXPECT_NO_IMPORT.iter().any(|number| name.starts_with(number)))
        .collect();
    ensure!(expecting.len() == 24, "{} specs expect an import", expecting.len());
    let outcomes = join_all(expecting.iter().map(|(_, spec)| spec(bed.clone()))).await;
    for ((name, _), outcome) in expecting.iter().zip(outcomes) {
        let error = outcome.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(error.contains("imports it so: not so after"), "{name} did not miss the import: {error:?}");
    }
    end(bed).await
}
