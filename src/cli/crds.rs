//! `tombolo crds`: the CustomResourceDefinitions for `kubectl apply`, and the generated files of the repository.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    api::rbac::v1::PolicyRule,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};

use super::{paint, reference};
use crate::{
    api::{
        crds::{self, Role},
        support,
    },
    hub::rights,
    membership::agent,
};

/// Where the charts keep their definitions, below the repository's root.
const FOLDERS: [(Role, &str); 2] =
    [(Role::Hub, "charts/tombolo-hub/crds"), (Role::Member, "charts/tombolo-agent/crds")];
/// Where the charts keep the rules of their roles.
const HUB_RULES: &str = "charts/tombolo-hub/rules";
const AGENT_RULES: &str = "charts/tombolo-agent/rules";
/// What rules begin with.
const GENERATED: &str = "# Generated from the code by `cargo run -- crds --write`.\n";
/// The table of what Tombolo does with each field.
const FIELDS: &str = "docs/policy-fields.md";

/// Flags of `tombolo crds`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Where they are to be installed: all of them on the hub, those of the Multi-Cluster Services API in a member.
    #[arg(long = "for", value_enum, default_value_t = Role::Hub, value_name = "ROLE")]
    role: Role,
    /// Renews the generated files of a checkout of Tombolo instead of printing.
    #[arg(long, value_name = "CHECKOUT", num_args = 0..=1, default_missing_value = ".", hide = true)]
    write: Option<PathBuf>,
}

/// Prints the definitions, or writes them.
pub fn run(args: &Args) -> Result<()> {
    match &args.write {
        Some(checkout) => write(checkout),
        None => paint::print(&stream(args.role)?).map(drop),
    }
}

/// The definitions of a role as one stream of YAML documents.
pub fn stream(role: Role) -> Result<String> {
    crds::definitions(role).iter().map(document).collect()
}

/// Every file that is made from the types: its path below the repository's root, and what belongs into it.
pub fn files() -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for (role, folder) in FOLDERS {
        for definition in crds::definitions(role) {
            let name = format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural);
            files.insert(Path::new(folder).join(name), document(&definition)?);
        }
    }
    for (path, rules) in rules() {
        let text = serde_saphyr::to_string(&rules).with_context(|| format!("failed to write {path}"))?;
        files.insert(path.into(), format!("{GENERATED}{text}"));
    }
    files.insert(FIELDS.into(), support::markdown());
    files.insert(reference::PATH.into(), reference::markdown());
    Ok(files)
}

/// The rules of the charts' roles.
fn rules() -> impl Iterator<Item = (String, Vec<PolicyRule>)> {
    let hub = rights::files().into_iter().map(|(name, rules)| (HUB_RULES, name, rules));
    let agent = [
        ("cluster", agent::cluster_rules()),
        ("namespace", agent::own_rules()),
        ("reviews", rights::reviews()),
    ];
    let agent = agent.into_iter().map(|(name, rules)| (AGENT_RULES, name, rules));
    hub.chain(agent).map(|(folder, name, rules)| (format!("{folder}/{name}.yaml"), rules))
}

/// What lies in the folders of generated files but is none any more.
pub fn leftovers(checkout: &Path) -> Result<Vec<PathBuf>> {
    let files = files()?;
    let mut leftovers = Vec::new();
    for folder in FOLDERS.map(|(_, folder)| folder).into_iter().chain([HUB_RULES, AGENT_RULES]) {
        let folder = checkout.join(folder);
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("failed to list {}", folder.display()))?,
        };
        for entry in entries {
            let path = entry.with_context(|| format!("failed to list {}", folder.display()))?.path();
            if path.strip_prefix(checkout).is_ok_and(|below| !files.contains_key(below)) {
                leftovers.push(path);
            }
        }
    }
    leftovers.sort();
    Ok(leftovers)
}

fn document(definition: &CustomResourceDefinition) -> Result<String> {
    crds::yaml(definition).with_context(|| format!("failed to write {}", definition.spec.names.kind))
}

fn write(checkout: &Path) -> Result<()> {
    ensure!(
        checkout.join("src/api/crds.rs").exists(),
        "--write: {} is no checkout of Tombolo; run it at the repository's root",
        checkout.display()
    );
    for leftover in leftovers(checkout)? {
        fs::remove_file(&leftover).with_context(|| format!("failed to remove {}", leftover.display()))?;
    }
    for (path, content) in files()? {
        let path = checkout.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        fs::write(&path, content).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}
