//! What was built, kept for every checkout of this user: a directory for each module and way of building it,
//! with the tools and a `.sha256` file beside each.
//!
//! Whoever writes holds the directory's lock and renames whole files into place, so that readers need none.

use std::{
    fmt::Write as _,
    fs::{self, File, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Error, Result};
use ring::digest::{self, SHA256};

use super::{
    Tool,
    go::Go,
    module::Module,
    names,
    surroundings::{Surroundings, is_executable},
};

/// The tools that one module gives when it is built in one way.
pub(super) struct Entry {
    pub(super) directory: PathBuf,
}

/// What the cache has of one tool.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It is there and its content is what was built.
    Whole,
    Missing,
    /// It is there and not to be used, for this reason.
    Corrupt(String),
}

/// The right to write in an entry, until dropped.
pub(super) struct Lock(File);

/// Where a build puts its output until that is whole; removed when dropped.
pub(super) struct Workspace(PathBuf);

// === impl Entry ===

impl Entry {
    pub(super) fn of(cache: &Path, module: &Module, go: &Go<'_>) -> Self {
        let mut context = digest::Context::new(&SHA256);
        let mut add = |part: &[u8]| {
            // With its length, so that no two sequences of parts read the same.
            context.update(&part.len().to_be_bytes());
            context.update(part);
        };
        add(go.identity().as_bytes());
        for flag in &module.flags {
            add(flag.as_bytes());
        }
        for (path, content) in &module.files {
            add(path.as_os_str().as_encoded_bytes());
            add(content);
        }
        let key = hex(&context.finish().as_ref()[..8]);
        let name = module.directory.file_name().unwrap_or_default().to_string_lossy();
        Self { directory: cache.join(format!("{name}-{key}")) }
    }

    pub(super) fn path(&self, tool: Tool) -> PathBuf {
        self.directory.join(tool.name())
    }

    fn sum_path(&self, tool: Tool) -> PathBuf {
        self.directory.join(format!("{}.sha256", tool.name()))
    }

    /// Compares the tool with the hash of its build.
    pub(super) fn state(&self, tool: Tool) -> State {
        let path = self.path(tool);
        let found = match sum_line(tool, &path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return State::Missing,
            Err(error) => return State::Corrupt(format!("it cannot be read ({error})")),
        };
        match fs::read_to_string(self.sum_path(tool)) {
            Ok(expected) if expected != found => {
                State::Corrupt("its content is not what was built".to_owned())
            }
            Ok(_) if !is_executable(&path) => State::Corrupt("it is not executable".to_owned()),
            Ok(_) => State::Whole,
            Err(error) => State::Corrupt(format!("its hash cannot be read ({error})")),
        }
    }

    /// Waits until no other process builds in this entry.
    pub(super) fn lock(&self, surroundings: &Surroundings, tools: &[Tool]) -> Result<Lock> {
        fs::create_dir_all(&self.directory).map_err(|error| self.unwritable(error))?;
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.lock_path())
            .map_err(|error| self.unwritable(error))?;
        let locked = match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                surroundings.say(format!(
                    "waiting for another process that builds in {}, for {}",
                    self.directory.display(),
                    names(tools)
                ));
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
        };
        locked.with_context(|| format!("failed to lock {}", self.lock_path().display()))?;
        Ok(Lock(file))
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// An empty directory on the file system of the entry. For the holder of the lock.
    pub(super) fn workspace(&self) -> Result<Workspace> {
        const PREFIX: &str = "building-";
        let create = || -> io::Result<Workspace> {
            // What is there was left by a process that was killed: a living one would hold the lock.
            for found in fs::read_dir(&self.directory)? {
                let found = found?;
                if found.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                    fs::remove_dir_all(found.path())?;
                }
            }
            let path = self.directory.join(format!("{PREFIX}{}", process::id()));
            fs::create_dir(&path)?;
            Ok(Workspace(path))
        };
        create().map_err(|error| self.unwritable(error))
    }

    /// Moves a tool from the workspace into the entry. For the holder of the lock.
    pub(super) fn store(&self, tool: Tool, built: &Path) -> Result<()> {
        let sum = sum_line(tool, built).with_context(|| format!("failed to read {}", built.display()))?;
        let sum_path = built.with_added_extension("sha256");
        // The tool comes last: with its hash before it, it is never taken for corrupt.
        fs::write(&sum_path, sum)
            .and_then(|()| fs::rename(&sum_path, self.sum_path(tool)))
            .and_then(|()| fs::rename(built, self.path(tool)))
            .map_err(|error| self.unwritable(error))
    }

    /// Removes a corrupt tool. For the holder of the lock.
    pub(super) fn remove(&self, tool: Tool) -> Result<()> {
        fs::remove_file(self.path(tool)).map_err(|error| self.unwritable(error))
    }

    pub(super) fn unwritable(&self, error: io::Error) -> Error {
        let directory = self.directory.display();
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
                "the disk with {directory} is full: free 1 GB there, or set TOMBOLO_BED_CACHE to a directory on another"
            ),
            _ => format!(
                "the cache in {directory} cannot be written: make it writable, or set TOMBOLO_BED_CACHE to a directory that is"
            ),
        };
        Error::new(error).context(advice)
    }
}

/// The content of a tool's `.sha256` file, in the form of `sha256sum` so that anyone can check it.
fn sum_line(tool: Tool, path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = digest::Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    Ok(format!("{}  {}\n", hex(context.finish().as_ref()), tool.name()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String never fails");
        text
    })
}

// === impl Lock ===

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that another thread is just starting has it open too, until
        // it becomes another program. If it cannot be unlocked, then closing it does in the end.
        _ = self.0.unlock();
    }
}

// === impl Workspace ===

impl Workspace {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next build.
        _ = fs::remove_dir_all(&self.0);
    }
}
