//! Definitions that an older chart brought, renewed as charts/README.md says it.

use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tombolo_e2e::{
    bed::Bed,
    helm::{Chart, objects},
};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/README.md");
/// The line of the README, up to what kubectl is to do.
const LINE: &str = "$ tombolo crds | kubectl --kubeconfig hub.kubeconfig ";
const DEFINITION: &str = "cluster.karmada.io_clusters.yaml";
const DESCRIPTION: &str = "/spec/versions/0/schema/openAPIV3Schema/description";

/// A definition of the hub's chart as an older release may have had it.
fn older(folder: &Path) -> Result<Value> {
    let text = fs::read_to_string(folder.join("crds").join(DEFINITION))?;
    let mut definition = objects(&text)?.pop().context("the file has a definition")?;
    *definition.pointer_mut(DESCRIPTION).context("its schema says what it is")? = json!("As it was.");
    Ok(definition)
}

pub(crate) async fn the_readme_renews_definitions_that_an_older_chart_brought(bed: Arc<Bed>) -> Result<()> {
    let readme = fs::read_to_string(README)?;
    let line = readme.lines().find_map(|line| line.strip_prefix(LINE));
    let line: Vec<_> = line.context("the README says how definitions are renewed")?.split(' ').collect();
    let state = bed.dir().join("state");
    let (old, new) = (state.join("older.json"), state.join("crds.yaml"));
    fs::write(&old, older(&Chart::Hub.folder())?.to_string())?;
    let printed = bed.tombolo(&["crds"]).await?;
    ensure!(printed.status.success(), "tombolo crds: {}", String::from_utf8_lossy(&printed.stderr));
    fs::write(&new, printed.stdout)?;

    // As Helm writes what is in crds/: by its own name.
    let kubectl = bed.kubectl("member3");
    kubectl.run(&["apply", "--server-side", "--field-manager=helm", "-f", &old.display().to_string()])?;
    let renew = |line: &[&str]| -> Result<(bool, String)> {
        let output = kubectl.command(line).stdin(File::open(&new)?).output()?;
        Ok((output.status.success(), String::from_utf8([output.stdout, output.stderr].concat())?))
    };
    // Without force it is a conflict, so that this test would see if the line lost it.
    let (well, said) = renew(&["apply", "--server-side", "-f", "-"])?;
    ensure!(!well && said.contains("conflict with \"helm\""), "{said}");
    let (well, said) = renew(&line)?;
    ensure!(well, "{line:?} of charts/README.md: {said}");
    let found = kubectl.run(&["get", "crd", "clusters.cluster.karmada.io", "-o", "json"])?;
    let found: Value = serde_json::from_str(&found)?;
    let description = found.pointer(DESCRIPTION).and_then(Value::as_str).unwrap_or_default();
    ensure!(description == "A member cluster.", "after {line:?} it says {description:?}");
    Ok(())
}
