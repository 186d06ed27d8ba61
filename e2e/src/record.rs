//! Which beds there are on this machine, and the removal of what dead ones left behind.
//!
//! A bed is recorded before it starts anything, together with the process that owns it. The kernel ends a dead owner's
//! processes and with them its namespaces, mounts and links; [`sweep`] removes the rest: control groups and files.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::{addresses::BEDS, cgroups, pki, process::Identity, progress::say};

/// Name of the record in the bed's own folder.
const FILE: &str = "bed.json";

/// What is known of a bed from outside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Names the bed on this machine.
    pub id: String,
    /// The process that it belongs to.
    pub owner: Identity,
    /// Its folder.
    pub dir: PathBuf,
    /// Number of its network, if it has nodes.
    pub network: Option<u8>,
    /// Whether the folder goes with the bed.
    pub temporary: bool,
    /// Set once everything is ready.
    pub ready: bool,
    /// Its processes.
    pub processes: Vec<Recorded>,
    /// The names that the bed wrote into its folder.
    pub files: Vec<String>,
}

/// A process of a bed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// Such as `member1/kubelet`.
    pub name: String,
    /// Which one.
    pub identity: Identity,
}

/// Holds off others while beds are counted and numbers given out.
#[derive(Debug)]
struct Registry {
    folder: PathBuf,
    lock: File,
}

/// What a new bed asks for.
#[derive(Debug)]
pub struct Claim {
    /// Its folder, or nothing for a temporary one.
    pub dir: Option<PathBuf>,
    /// Whether it needs a network of its own.
    pub network: bool,
}

// === impl Record ===

impl Record {
    /// Records a new bed of this process, after sweeping what dead ones left.
    pub fn claim(claim: Claim) -> Result<Self> {
        let registry = Registry::open()?;
        registry.sweep();
        let living = registry.records();
        let id = free_id(&registry.folder);
        let temporary = claim.dir.is_none();
        let dir = claim.dir.unwrap_or_else(|| registry.folder.join(&id));
        if let Some(other) = living.iter().find(|other| other.dir == dir) {
            bail!("{}", other.taken());
        }
        let network = if claim.network { Some(free_network(&living)?) } else { None };
        fs::create_dir_all(&dir).with_context(|| format!("failed to create {}", dir.display()))?;
        let record = Self {
            id,
            owner: Identity::own(),
            dir,
            network,
            temporary,
            ready: false,
            processes: Vec::new(),
            files: Vec::new(),
        };
        record.save()?;
        Ok(record)
    }

    /// The bed in a folder, if there is one.
    pub fn find(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(
                serde_json::from_slice(&bytes)
                    .with_context(|| format!("{} is no bed's record", path.display()))?,
            )),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).with_context(|| format!("failed to read {}", path.display())),
        }
    }

    /// What to tell somebody who wants the same folder.
    pub fn taken(&self) -> String {
        format!(
            "a bed is running in {0} already (process {1}): end it with `cargo bed down --dir {0}` or choose another --dir",
            self.dir.display(),
            self.owner.pid
        )
    }

    /// Writes the record, to the bed's folder and to the machine's list.
    pub fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        for path in [self.dir.join(FILE), folder().join(format!("{}.json", self.id))] {
            let whole = path.with_extension("tmp");
            pki::write(&whole, &text)?;
            fs::rename(&whole, &path).with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(())
    }

    /// Removes everything that is left of a bed whose processes have ended.
    pub fn clear(&self) {
        cgroups::remove(&self.id, Duration::from_secs(20));
        for file in self.files.iter().map(String::as_str).chain([FILE]) {
            let path = self.dir.join(file);
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        if self.temporary {
            let _ = fs::remove_dir_all(&self.dir);
        } else {
            // Only if nobody else put something there.
            let _ = fs::remove_dir(&self.dir);
        }
        let _ = fs::remove_file(folder().join(format!("{}.json", self.id)));
    }
}

/// Removes what beds left whose owner is gone.
pub fn sweep() -> Result<()> {
    Registry::open()?.sweep();
    Ok(())
}

/// Beds whose owner lives.
pub fn living() -> Result<Vec<Record>> {
    Ok(Registry::open()?.records().into_iter().filter(|record| record.owner.is_alive()).collect())
}

// === impl Registry ===

impl Registry {
    fn open() -> Result<Self> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let lock = File::create(folder.join("lock")).context("failed to open the list of beds")?;
        lock.lock().context("failed to lock the list of beds")?;
        Ok(Self { folder, lock })
    }

    fn records(&self) -> Vec<Record> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
            .collect()
    }

    fn sweep(&self) {
        for record in self.records().into_iter().filter(|record| !record.owner.is_alive()) {
            say(format_args!("cleaning up after a bed whose owner is gone ({})", record.dir.display()));
            record.clear();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being started at this moment has the file open too.
        let _ = self.lock.unlock();
    }
}

/// Where the beds of this user are listed, and where temporary ones live.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("tombolo-beds-{}", rustix::process::getuid().as_raw()))
}

fn free_id(folder: &Path) -> String {
    let mut number = std::process::id();
    loop {
        let id = format!("bed-{number}");
        if !folder.join(format!("{id}.json")).exists() {
            return id;
        }
        number = number.wrapping_add(1 << 22);
    }
}

/// A network number that no living bed has and that the machine has no route for.
fn free_network(living: &[Record]) -> Result<u8> {
    let routes =
        crate::process::run(std::process::Command::new("ip").args(["-4", "route", "show", "table", "all"]))?;
    (0..BEDS)
        .find(|number| {
            !living.iter().any(|bed| bed.network == Some(*number))
                && !routes.contains(&format!(" 10.{}.", 128 + number))
                && !routes.starts_with(&format!("10.{}.", 128 + number))
                && !routes.contains(&format!("\n10.{}.", 128 + number))
        })
        .with_context(|| {
            format!("all {BEDS} networks for beds are taken: end some beds (`cargo bed status --all`)")
        })
}
