//! Everything that documents show to users is admitted.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use tombolo_e2e::{bed::Bed, wait::until};

use crate::said::{PATIENCE, Said, ask, clusters, folder, run};

/// An import with an address is for a member, by hand; the hub cannot know which addresses are free there.
const BY_HAND_ONLY: &str = "serviceimport-with-vip.yaml";

/// One after the other: the gallery's walk-through has cluster-wide policies of the story's names.
pub(crate) async fn every_manifest_of_the_stories_and_of_the_gallery_applies(bed: Arc<Bed>) -> Result<()> {
    clusters(&bed).await?;
    stories(&bed).await?;
    let mut count = 0;
    for unit in entries(&folder("../policies"))? {
        count += policies(&bed, &unit).await.with_context(|| unit.display().to_string())?;
    }
    ensure!(count >= 25, "the gallery has {count} files only");
    Ok(())
}

async fn stories(bed: &Bed) -> Result<()> {
    for namespace in ["demo", "monti"] {
        run(bed, &["create", "namespace", namespace], "").await?;
    }
    for story in entries(&folder("stories"))? {
        let manifests = entries(&story)?.into_iter();
        for manifest in manifests.filter(|file| file.extension().is_some_and(|kind| kind == "yaml")) {
            let path = manifest.to_string_lossy();
            let said = ask(bed, &["apply", "-f", &path], "").await?;
            if path.ends_with(BY_HAND_ONLY) {
                ensure!(
                    !said.done && said.text.contains("\nspec.ips: must be empty"),
                    "{path}: {}",
                    said.text
                );
            } else {
                ensure!(said.done, "{path}: {}", said.text);
            }
        }
    }
    Ok(())
}

/// Applies a file, or all of a folder in order, to a namespace of its own; gives back how many files there were.
async fn policies(bed: &Bed, unit: &Path) -> Result<usize> {
    let files = if unit.is_dir() { entries(unit)? } else { vec![unit.to_owned()] };
    let files: Vec<_> =
        files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "yaml")).collect();
    let name = unit.file_stem().context("a file has a name")?.to_string_lossy();
    let namespace = format!("gallery-{name}").to_lowercase();
    if files.is_empty() {
        return Ok(0);
    }
    run(bed, &["create", "namespace", &namespace], "").await?;
    for file in &files {
        let text = fs::read_to_string(file)?;
        ensure!(text.starts_with("# "), "{} has no comment on its use", file.display());
        for document in text.split("\n---\n") {
            apply(bed, document, &namespace).await.with_context(|| file.display().to_string())?;
        }
    }
    Ok(files.len())
}

/// Applies an object; it must warn of what its comment says, and of nothing else.
async fn apply(bed: &Bed, document: &str, namespace: &str) -> Result<()> {
    let comments = document.lines().filter_map(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join("\n");
    let expected = warnings(&comments.replace("NAMESPACE", namespace));
    let as_expected = |said: &Said| {
        ensure!(said.done, "{}", said.text);
        ensure!(warnings(&said.text) == expected, "it says {:?} instead of {expected:?}", said.text);
        Ok(())
    };
    let arguments = ["apply", "--namespace", namespace, "-f", "-"];
    let dry = [&arguments[..], &["--dry-run=server"]].concat();
    until("it is admitted as its comment says", PATIENCE, async || {
        as_expected(&ask(bed, &dry, document).await?)
    })
    .await?;
    as_expected(&ask(bed, &arguments, document).await?)
}

fn warnings(text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with("Warning: ")).map(str::to_owned).collect()
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut paths = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
