//! The commands written in Go that a bed runs, found or built once per machine.
//!
//! Upstream's commands are built, unmodified, from the modules pinned in `e2e/kubernetes/`; our own little
//! programs for containers from `e2e/images/`. Start at [`Tools::provide`]. `module` reads a pinned module,
//! `go` runs Go and explains its failures, `cache` keeps what was built, `surroundings` is what all of them
//! take from the process's environment.

mod cache;
mod go;
mod module;
mod surroundings;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};

use cache::{Entry, State};
use go::Go;
use module::Module;
use surroundings::Surroundings;

/// A command that a bed may need.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tool {
    /// Kubernetes' API server.
    KubeApiserver,
    /// Kubernetes' controllers.
    KubeControllerManager,
    /// Kubernetes' scheduler.
    KubeScheduler,
    /// Kubernetes' node agent.
    Kubelet,
    /// Kubernetes' Service proxy.
    KubeProxy,
    /// Kubernetes' command line.
    Kubectl,
    /// The API server's store.
    Etcd,
    /// The clusters' DNS server.
    CoreDns,
    /// Installs charts.
    Helm,
    /// Our own: answers HTTP requests with one message.
    Serve,
    /// Our own: asks an HTTP server once a second.
    Request,
    /// Our own: answers over TCP, UDP and HTTP with who it is and what it got.
    Echo,
    /// Our own: holds a pod's namespaces.
    Pause,
}

/// A Go module that tools are built from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Source {
    Kubernetes,
    CoreDns,
    Helm,
    Images,
}

/// Where each wanted tool is. All of them are whole: built ones were compared with the hash of their build.
#[derive(Clone, Debug)]
pub struct Tools {
    paths: BTreeMap<Tool, PathBuf>,
}

// === impl Tool ===

impl Tool {
    /// The name of its executable.
    pub fn name(self) -> &'static str {
        match self {
            Tool::KubeApiserver => "kube-apiserver",
            Tool::KubeControllerManager => "kube-controller-manager",
            Tool::KubeScheduler => "kube-scheduler",
            Tool::Kubelet => "kubelet",
            Tool::KubeProxy => "kube-proxy",
            Tool::Kubectl => "kubectl",
            Tool::Etcd => "etcd",
            Tool::CoreDns => "coredns",
            Tool::Helm => "helm",
            Tool::Serve => "serve",
            Tool::Request => "request",
            Tool::Echo => "echo",
            Tool::Pause => "pause",
        }
    }

    fn package(self) -> String {
        match self {
            Tool::Etcd => "go.etcd.io/etcd/server/v3".to_owned(),
            Tool::CoreDns => "github.com/coredns/coredns".to_owned(),
            Tool::Helm => "helm.sh/helm/v4/cmd/helm".to_owned(),
            Tool::Serve | Tool::Request | Tool::Echo | Tool::Pause => format!("./{}", self.name()),
            Tool::KubeApiserver
            | Tool::KubeControllerManager
            | Tool::KubeScheduler
            | Tool::Kubelet
            | Tool::KubeProxy
            | Tool::Kubectl => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    /// What `go build -o directory/` calls the executable: the last part of the package's path that is not
    /// a major version.
    fn go_name(self) -> &'static str {
        if self == Tool::Etcd { "server" } else { self.name() }
    }

    fn source(self) -> Source {
        match self {
            Tool::KubeApiserver
            | Tool::KubeControllerManager
            | Tool::KubeScheduler
            | Tool::Kubelet
            | Tool::KubeProxy
            | Tool::Kubectl
            | Tool::Etcd => Source::Kubernetes,
            Tool::CoreDns => Source::CoreDns,
            Tool::Helm => Source::Helm,
            Tool::Serve | Tool::Request | Tool::Echo | Tool::Pause => Source::Images,
        }
    }
}

fn names(tools: &[Tool]) -> String {
    tools.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ")
}

// === impl Tools ===

impl Tools {
    /// Finds or builds exactly the wanted tools, and blocks until they are there.
    ///
    /// A tool is taken from `$KUBEBUILDER_ASSETS` if it is there, else from the cache (`$TOMBOLO_BED_CACHE`,
    /// `$XDG_CACHE_HOME/tombolo-bed` or `~/.cache/tombolo-bed`), else built into the cache, which takes
    /// minutes for Kubernetes. Other processes that want the same tool wait for that build.
    pub fn provide(wanted: &[Tool]) -> Result<Self> {
        Self::provide_in(&Surroundings::of_process()?, wanted)
    }

    fn provide_in(surroundings: &Surroundings, wanted: &[Tool]) -> Result<Self> {
        let mut paths = BTreeMap::new();
        let mut unfound: BTreeMap<Source, Vec<Tool>> = BTreeMap::new();
        for tool in BTreeSet::from_iter(wanted.iter().copied()) {
            match surroundings.asset(tool)? {
                Some(path) => _ = paths.insert(tool, path),
                None => unfound.entry(tool.source()).or_default().push(tool),
            }
        }
        for (source, tools) in unfound {
            paths.extend(from_cache(surroundings, source, &tools)?);
        }
        Ok(Self { paths })
    }

    /// The directory that what was built on this machine is kept in.
    pub fn cache_folder() -> Result<PathBuf> {
        Ok(Surroundings::of_process()?.cache)
    }

    /// Where the tool is.
    ///
    /// # Panics
    /// If the tool was not among those wanted from [`Tools::provide`].
    pub fn path(&self, tool: Tool) -> &Path {
        self.paths
            .get(&tool)
            .unwrap_or_else(|| panic!("invariant: {} is asked for only where it was provided", tool.name()))
    }
}

/// The tools of one module, from its cache entry, where those that are not there are built first.
fn from_cache(surroundings: &Surroundings, source: Source, tools: &[Tool]) -> Result<Vec<(Tool, PathBuf)>> {
    let module = Module::read(source, &surroundings.e2e)?;
    let go = Go::find(surroundings, &module, tools)?;
    let entry = Entry::of(&surroundings.cache, &module, &go);
    if !tools.iter().all(|tool| matches!(entry.state(*tool), State::Whole)) {
        let _lock = entry.lock(surroundings, tools)?;
        complete(surroundings, &entry, &module, &go, tools)?;
    }
    Ok(tools.iter().map(|tool| (*tool, entry.path(*tool))).collect())
}

/// Builds what the entry lacks. The caller holds the entry's lock, since whoever held it before may have
/// built the same.
fn complete(
    surroundings: &Surroundings,
    entry: &Entry,
    module: &Module,
    go: &Go<'_>,
    tools: &[Tool],
) -> Result<()> {
    let mut lacking = Vec::new();
    for tool in tools {
        match entry.state(*tool) {
            State::Whole => continue,
            State::Missing => {}
            State::Corrupt(why) => {
                surroundings.say(format!("removing {}: {why}", entry.path(*tool).display()));
                entry.remove(*tool)?;
            }
        }
        lacking.push(*tool);
    }
    if lacking.is_empty() {
        return Ok(());
    }
    surroundings.say(format!(
        "building {} from {} with {}: about {} the first time",
        names(&lacking),
        module.origin(&lacking),
        go.version(),
        module.duration(),
    ));
    let began = Instant::now();
    let workspace = entry.workspace()?;
    go.build(module, &lacking, workspace.path())?;
    for tool in &lacking {
        entry
            .store(*tool, &workspace.path().join(tool.go_name()))
            .with_context(|| format!("failed to keep {} in the cache", tool.name()))?;
    }
    surroundings.say(format!("built {} in {} s", names(&lacking), began.elapsed().as_secs()));
    Ok(())
}
