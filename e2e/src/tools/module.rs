//! One pinned Go module: what its `go.mod` requires, and the flags that its tools are built with.

use std::{
    fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result, anyhow};

use super::{Source, Tool};

/// A module that tools are built from, as it is on disk.
pub(super) struct Module {
    source: Source,
    pub(super) directory: PathBuf,
    go_mod: String,
    /// Everything that decides what is built from here: names below `directory`, and contents.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// The arguments of `go build` before the packages, but for where the output goes.
    pub(super) flags: Vec<String>,
}

/// A version of Go, as far as versions are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct GoVersion(u32, u32, u32);

// === impl Module ===

impl Module {
    pub(super) fn read(source: Source, e2e: &Path) -> Result<Self> {
        let directory = e2e.join(match source {
            Source::Kubernetes => "kubernetes/kubernetes",
            Source::CoreDns => "kubernetes/coredns",
            Source::Helm => "kubernetes/helm",
            Source::Images => "images",
        });
        let mut files = Vec::new();
        collect(&directory, Path::new(""), &mut files)
            .with_context(|| format!("failed to read the Go module in {}", directory.display()))?;
        files.sort();
        let go_mod = files
            .iter()
            .find(|(path, _)| path == Path::new("go.mod"))
            .map(|(_, content)| String::from_utf8_lossy(content).into_owned())
            .with_context(|| format!("there is no go.mod in {}", directory.display()))?;
        let mut module = Self { source, directory, go_mod, files, flags: Vec::new() };
        let ldflags = module.ldflags()?;
        module.flags = vec![
            // On the command line, since GOFLAGS could say otherwise: nothing that go.sum does not vouch for.
            "-mod=readonly".to_owned(),
            "-trimpath".to_owned(),
            // The same output from every checkout, and from one that git will not read.
            "-buildvcs=false".to_owned(),
            format!("-ldflags={ldflags}"),
        ];
        Ok(module)
    }

    /// Stamps what upstream's own builds stamp, where the sources do not say the version already: CoreDNS's
    /// do, and our own programs have none.
    fn ldflags(&self) -> Result<String> {
        Ok(match self.source {
            Source::Kubernetes => {
                let version = self.required("k8s.io/kubernetes")?;
                let mut numbers = version.trim_start_matches('v').split('.');
                let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
                    return Err(anyhow!("go.mod requires k8s.io/kubernetes {version}, which is no version"));
                };
                format!(
                    "-s -w -X k8s.io/component-base/version.gitVersion={version} \
                     -X k8s.io/component-base/version.gitMajor={major} \
                     -X k8s.io/component-base/version.gitMinor={minor} \
                     -X k8s.io/component-base/version.gitTreeState=clean"
                )
            }
            Source::Helm => {
                let version = self.required("helm.sh/helm/v4")?;
                format!("-s -w -X helm.sh/helm/v4/internal/version.version={version}")
            }
            Source::CoreDns | Source::Images => "-s -w".to_owned(),
        })
    }

    /// The version of another module that this one requires.
    fn required(&self, path: &str) -> Result<&str> {
        self.requirements()
            .find(|(required, _)| *required == path)
            .map(|(_, version)| version)
            .with_context(|| format!("{} does not require {path}", self.directory.join("go.mod").display()))
    }

    fn requirements(&self) -> impl Iterator<Item = (&str, &str)> {
        self.go_mod.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("require ");
            let mut words = line.split_whitespace();
            let (path, version) = (words.next()?, words.next()?);
            // A replacement reads `path => path version`.
            version.starts_with('v').then_some((path, version))
        })
    }

    /// The oldest Go that builds this module, of its `go` line.
    pub(super) fn oldest_go(&self) -> Result<GoVersion> {
        self.go_mod
            .lines()
            .find_map(|line| line.strip_prefix("go "))
            .and_then(GoVersion::parse)
            .with_context(|| format!("{} has no `go` line", self.directory.join("go.mod").display()))
    }

    /// Which modules the tools' sources are in, for the user.
    pub(super) fn origin(&self, tools: &[Tool]) -> String {
        let mut origins: Vec<String> = Vec::new();
        for tool in tools {
            let package = tool.package();
            let origin = self
                .requirements()
                .find(|(path, _)| {
                    package.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
                .map_or_else(
                    || self.directory.display().to_string(),
                    |(path, version)| format!("{path} {version}"),
                );
            if !origins.contains(&origin) {
                origins.push(origin);
            }
        }
        origins.join(" and ")
    }

    /// About how long everything takes when neither a module nor a package is there, by the processor time
    /// that it took when measured.
    pub(super) fn duration(&self) -> String {
        let processor_minutes: usize = match self.source {
            Source::Kubernetes => 12,
            Source::CoreDns | Source::Helm => 4,
            Source::Images => 1,
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        match processor_minutes.div_ceil(cores) {
            1 => "a minute".to_owned(),
            minutes => format!("{minutes} minutes"),
        }
    }
}

/// Reads `go.mod`, `go.sum` and all Go files.
fn collect(root: &Path, below: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) -> io::Result<()> {
    for found in fs::read_dir(root.join(below))? {
        let found = found?;
        let path = below.join(found.file_name());
        if found.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "go" || extension == "mod" || extension == "sum")
        {
            let content = fs::read(root.join(&path))?;
            files.push((path, content));
        }
    }
    Ok(())
}

// === impl GoVersion ===

impl GoVersion {
    /// Reads `go1.26.8`, `1.26.0`, `go1.27rc1` and `devel go1.27-0123abc`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.split_whitespace().find(|word| *word != "devel")?;
        let mut numbers = text.trim_start_matches("go").split('.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        });
        Some(Self(numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }
}

impl std::fmt::Display for GoVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}")?;
        if *patch > 0 { write!(f, ".{patch}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_compare_by_number() {
        for (older, newer) in [
            ("go1.20", "1.26.0"),
            ("go1.9.7", "go1.26"),
            ("go1.26.8", "devel go1.27-0123abc Mon Nov 16"),
            ("1.26.9", "go1.26.10"),
            ("go1.26.8", "go1.27rc1"),
        ] {
            assert!(GoVersion::parse(older).unwrap() < GoVersion::parse(newer).unwrap(), "{older} {newer}");
        }
        assert_eq!(GoVersion::parse("gcc 15"), None);
    }

    #[test]
    fn the_stamped_version_is_the_one_that_go_mod_requires() {
        let module = Module::read(Source::Kubernetes, Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let required = module.required("k8s.io/kubernetes").unwrap();
        assert!(
            module.flags.iter().any(|flag| flag.contains(&format!("version.gitVersion={required} "))),
            "{:?}",
            module.flags
        );
        assert!(module.required("k8s.io/no-such-module").is_err());
    }

    #[test]
    fn etcd_is_said_to_come_from_etcd() {
        let module = Module::read(Source::Kubernetes, Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let origin = module.origin(&[Tool::Kubectl, Tool::Kubelet, Tool::Etcd]);
        let kubernetes = module.required("k8s.io/kubernetes").unwrap();
        let etcd = module.required("go.etcd.io/etcd/server/v3").unwrap();
        assert_eq!(origin, format!("k8s.io/kubernetes {kubernetes} and go.etcd.io/etcd/server/v3 {etcd}"));
    }
}
