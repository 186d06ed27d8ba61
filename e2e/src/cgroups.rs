//! Control groups of a bed's pods: all under one group with the bed's name, in every hierarchy.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// Makes the group of a bed's cluster and gives back its name as the kubelet's `cgroupRoot` takes it.
pub fn create(id: &str, cluster: &str) -> Result<String> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join("tombolo").join(id).join(cluster);
        fs::create_dir_all(&group).with_context(|| format!("failed to create {}", group.display()))?;
    }
    Ok(format!("/tombolo/{id}/{cluster}"))
}

/// Removes a bed's groups. Processes that ended a moment ago may keep them busy for a little.
pub fn remove(id: &str, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        for hierarchy in hierarchies() {
            prune(&hierarchy.join("tombolo").join(id));
            // Shared by all beds: goes with the last.
            let _ = fs::remove_dir(hierarchy.join("tombolo"));
        }
        if left(id).is_empty() || Instant::now() > deadline {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What is left of a bed's groups.
pub fn left(id: &str) -> Vec<PathBuf> {
    hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join("tombolo").join(id))
        .filter(|path| path.exists())
        .collect()
}

/// One hierarchy with cgroup v2; with v1 one a controller, below the same root.
fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
}

/// Removes a tree of groups from its leaves; the files in a group are the kernel's and go with it.
fn prune(group: &Path) {
    let Ok(entries) = fs::read_dir(group) else { return };
    for child in entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        prune(&child.path());
    }
    let _ = fs::remove_dir(group);
}
