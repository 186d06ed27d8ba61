//! What finding and building tools takes from the process's environment, in one place so that a test can
//! bring its own.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{Source, Tool};
use crate::progress;

/// The environment of one [`super::Tools::provide`].
pub(super) struct Surroundings {
    /// `PATH`: where Go is looked for.
    pub(super) search: OsString,
    /// The directory of all cache entries.
    pub(super) cache: PathBuf,
    /// `KUBEBUILDER_ASSETS`: tools that the user has already.
    pub(super) assets: Option<PathBuf>,
    /// The directory with the pinned modules.
    pub(super) e2e: PathBuf,
    /// Variables for Go besides those of the process.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// How often a build says that it goes on.
    pub(super) every: Duration,
    pub(super) voice: Box<dyn Fn(String) + Send + Sync>,
}

// === impl Surroundings ===

impl Surroundings {
    pub(super) fn of_process() -> Result<Self> {
        Self::of(|name| env::var_os(name))
    }

    fn of(variables: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let directory = |name| variables(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = directory("TOMBOLO_BED_CACHE")
            .or_else(|| Some(directory("XDG_CACHE_HOME")?.join("tombolo-bed")))
            .or_else(|| Some(directory("HOME")?.join(".cache/tombolo-bed")))
            .context(
                "there is no home directory to keep built tools in: set TOMBOLO_BED_CACHE to a directory",
            )?;
        Ok(Self {
            search: variables("PATH").unwrap_or_default(),
            // Go runs in the directories of the modules, where a relative path would mean another place.
            cache: std::path::absolute(cache).context("failed to find the current directory")?,
            assets: directory("KUBEBUILDER_ASSETS")
                .map(std::path::absolute)
                .transpose()
                .context("failed to find the current directory")?,
            e2e: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            variables: Vec::new(),
            every: Duration::from_secs(10),
            voice: Box::new(progress::say),
        })
    }

    pub(super) fn say(&self, line: String) {
        (self.voice)(line);
    }

    /// The tool in `KUBEBUILDER_ASSETS`, if it is there.
    pub(super) fn asset(&self, tool: Tool) -> Result<Option<PathBuf>> {
        let Some(assets) = &self.assets else {
            return Ok(None);
        };
        if !assets.is_dir() {
            bail!(
                "KUBEBUILDER_ASSETS names {}, which is not a directory: correct it, or unset it to have the tools built",
                assets.display()
            );
        }
        // Nobody but us has our own programs: what is called `echo` elsewhere is something else.
        if tool.source() == Source::Images {
            return Ok(None);
        }
        Ok(Some(assets.join(tool.name())).filter(|path| is_executable(path)))
    }

    /// The first `go` in `PATH`.
    pub(super) fn go(&self) -> Option<PathBuf> {
        env::split_paths(&self.search)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("go"))
            .find(|path| is_executable(path))
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_most_particular_variable_says() {
        let cache = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(is, _)| *is == name).map(|(_, value)| value.into());
            Surroundings::of(found).map(|surroundings| surroundings.cache)
        };
        let home = ("HOME", "/home/ada");
        let xdg = ("XDG_CACHE_HOME", "/var/ada");
        assert_eq!(cache(&[home]).unwrap(), Path::new("/home/ada/.cache/tombolo-bed"));
        assert_eq!(cache(&[home, xdg]).unwrap(), Path::new("/var/ada/tombolo-bed"));
        assert_eq!(cache(&[home, xdg, ("TOMBOLO_BED_CACHE", "/bed")]).unwrap(), Path::new("/bed"));
        assert_eq!(cache(&[xdg, ("TOMBOLO_BED_CACHE", "")]).unwrap(), Path::new("/var/ada/tombolo-bed"));
        assert!(cache(&[]).unwrap_err().to_string().contains("set TOMBOLO_BED_CACHE"));
    }
}
