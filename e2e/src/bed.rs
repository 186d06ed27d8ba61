//! A bed: a hub and members, real Kubernetes on this machine, that belongs to one process and ends with it.
//!
//! [`Bed::start`] gives back a running bed; dropping it removes every trace.

mod spec;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::sync::Mutex;

pub use self::spec::Spec;
use crate::{
    addresses::{Addresses, MEMBERS},
    audit::Audit,
    control_plane::{ControlPlane, Ground},
    etcd::Etcd,
    kubeconfig::{self, Access},
    kubectl::Kubectl,
    network::Network,
    node::{Node, Site},
    process::{Identity, Process},
    progress::say,
    record::{Claim, Record, Recorded},
    tombolo::{self, Component, Manner, Place, Role},
    tools::{Tool, Tools},
};

/// Held by the bed of this process that is being started: a start keeps all cores busy, and several at once take longer than one after
/// the other.
static STARTING: Mutex<()> = Mutex::const_new(());

/// A running bed. What is first in it ends first.
#[derive(Debug)]
pub struct Bed {
    /// What it is made of.
    pub spec: Spec,
    tombolo: Vec<Component>,
    nodes: Vec<Node>,
    /// The member clusters, `member1` first.
    pub members: Vec<ControlPlane>,
    /// The cluster that the hub can run in, if there is one.
    pub host: Option<ControlPlane>,
    /// The cluster that holds templates and policies.
    pub hub: ControlPlane,
    etcd: Etcd,
    network: Option<Network>,
    /// The commands that it is made of.
    pub tools: Tools,
    trace: Trace,
}

/// The bed's record, and its removal when the bed is gone.
#[derive(Debug)]
struct Trace {
    record: Record,
}

// === impl Bed ===

impl Bed {
    /// Starts a bed in a folder, or in a temporary one, and returns when all of it is ready.
    pub async fn start(spec: Spec, dir: Option<&Path>) -> Result<Self> {
        ensure!(spec.members <= MEMBERS, "a bed has at most {MEMBERS} members, not {}", spec.members);
        let spec = Spec { nodes: spec.nodes || spec.host, ..spec };
        let asked = spec.clone();
        let (tools, archives) = tokio::task::spawn_blocking(move || asked.provide()).await??;
        let _turn = STARTING.lock().await;
        let dir = dir.map(std::path::absolute).transpose()?;
        let mut trace = Trace { record: Record::claim(Claim { dir, network: spec.nodes })? };
        trace.record.files = ["state", "logs"].map(str::to_owned).to_vec();
        trace.record.save()?;

        say(format_args!("starting {spec} in {}", trace.record.dir.display()));
        let (state, logs) = (trace.path("state"), trace.path("logs"));
        let network = match trace.record.network {
            Some(number) => Some(Network::start(number, &logs).await?),
            None => None,
        };
        let etcd = Etcd::start(&state.join("etcd"), &logs, &tools).await?;
        let planes = try_join_all(spec.clusters(trace.record.network).into_iter().map(
            |(name, purpose, addresses)| {
                let (folder, logs) = (state.join(&name), logs.join(&name));
                let (etcd, tools, audit) = (&etcd, &tools, spec.extent());
                async move {
                    let ground = Ground { folder: &folder, logs: &logs, tools, audit };
                    ControlPlane::start(&name, purpose, addresses, etcd, ground).await
                }
            },
        ))
        .await?;
        let mut planes = planes.into_iter();
        let hub = planes.next().expect("the hub is the first cluster");
        let members = planes.by_ref().take(spec.members).collect();
        let host = planes.next();
        let mut bed = Self {
            spec,
            tombolo: Vec::new(),
            nodes: Vec::new(),
            members,
            host,
            hub,
            etcd,
            network,
            tools,
            trace,
        };
        bed.start_nodes(&archives).await?;
        bed.write_kubeconfigs()?;
        if !bed.spec.bare {
            bed.start_tombolo().await?;
        }
        if bed.spec.joined {
            bed.join_all().await?;
        }
        bed.note_ready()?;
        Ok(bed)
    }

    async fn start_nodes(&mut self, archives: &[PathBuf]) -> Result<()> {
        let Some(network) = &self.network else {
            return Ok(());
        };
        say("control planes are ready, starting nodes");
        let planes: Vec<&ControlPlane> = self.members.iter().chain(&self.host).collect();
        let addresses: Vec<Addresses> = planes.iter().map(|plane| plane.addresses).collect();
        let site = Site {
            bed: &self.trace.record.id,
            network,
            nodes: &addresses,
            images: archives,
            tools: &self.tools,
        };
        let (state, logs) = (self.trace.path("state"), self.trace.path("logs"));
        self.nodes = try_join_all(planes.into_iter().map(|plane| {
            let (folder, logs) = (state.join(&plane.name).join("node"), logs.join(&plane.name));
            async move { Node::start(plane, &folder, &logs, site).await }
        }))
        .await?;
        Ok(())
    }

    /// Starts Tombolo as in production: a hub, and an agent a member.
    async fn start_tombolo(&mut self) -> Result<()> {
        let binary = tokio::task::spawn_blocking(tombolo::binary).await??;
        self.prepare_hub()?;
        let (folder, logs) = (&self.trace.path("state"), &self.trace.path("logs"));
        let agents = self.members.iter().map(|plane| {
            Component::start(&binary, Role::Agent, "tombolo-agent", &[], Place { plane, folder, logs })
        });
        let hub = self.start_hub(&binary, "tombolo-hub", &self.spec.hub_flags);
        let (hub, agents) = futures::try_join!(hub, try_join_all(agents))?;
        self.tombolo = std::iter::once(hub).chain(agents).collect();
        say("tombolo is running: a hub, and an agent a member");
        Ok(())
    }

    /// Starts a hub under a name; several are replicas of one another.
    pub async fn start_hub(&self, binary: &Path, name: &str, flags: &[String]) -> Result<Component> {
        self.start_hub_so(binary, name, flags, Manner::default()).await
    }

    /// The same in another manner.
    pub async fn start_hub_so(
        &self,
        binary: &Path,
        name: &str,
        flags: &[String],
        manner: Manner,
    ) -> Result<Component> {
        let (folder, logs) = (&self.trace.path("state"), &self.trace.path("logs"));
        let place = Place { plane: &self.hub, folder, logs };
        Component::start_so(binary, Role::Hub, name, flags, place, manner).await
    }

    /// Starts a hub that takes another way to its API server, as the ServiceAccount of a token.
    pub async fn start_hub_through(&self, binary: &Path, url: &str, token: &str) -> Result<Component> {
        let (folder, logs) = (&self.trace.path("state"), &self.trace.path("logs"));
        let access = Access::with_token("hub", url, &self.hub.authority, token);
        let kubeconfig = folder.join("through.kubeconfig");
        kubeconfig::save(&kubeconfig, &[access])?;
        let place = Place { plane: &self.hub, folder, logs };
        Component::start_by(&kubeconfig, binary, (Role::Hub, "tombolo-hub"), &[], place, true).await
    }

    /// Starts an agent of a member, by the member's number; several are replicas of one another.
    pub async fn start_agent(
        &self,
        binary: &Path,
        member: usize,
        name: &str,
        flags: &[String],
        manner: Manner,
    ) -> Result<Component> {
        let (folder, logs) = (&self.trace.path("state"), &self.trace.path("logs"));
        let place = Place { plane: self.member(member), folder, logs };
        Component::start_so(binary, Role::Agent, name, flags, place, manner).await
    }

    /// Installs what an agent's chart installs beside the agent itself: the CRDs and its namespace.
    pub fn prepare_member(&self, member: usize) -> Result<()> {
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-agent/crds");
        let kubectl = self.kubectl(&self.member(member).name);
        kubectl.run(&["apply", "--server-side", "-f", crds])?;
        kubectl.run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", crds])?;
        kubectl.apply("{ apiVersion: v1, kind: Namespace, metadata: { name: tombolo-system } }").map(drop)
    }

    /// Installs what the hub's chart installs beside the hub itself: the CRDs and its namespace.
    pub fn prepare_hub(&self) -> Result<()> {
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/tombolo-hub/crds");
        let hub = self.kubectl("hub");
        hub.run(&["apply", "--server-side", "-f", crds])?;
        hub.run(&["wait", "--for=condition=Established", "--timeout=30s", "-f", crds])?;
        hub.run(&["create", "namespace", "tombolo-system"]).map(drop)
    }

    /// Tombolo's hub, if Tombolo runs here.
    pub fn hub_process(&self) -> Option<&Component> {
        self.tombolo.first()
    }

    /// Fails unless Tombolo's hub and all agents run and are ready.
    pub async fn check_tombolo(&mut self) -> Result<()> {
        for component in &mut self.tombolo {
            component.check().await?;
        }
        Ok(())
    }

    /// The bed's folder.
    pub fn dir(&self) -> &Path {
        &self.trace.record.dir
    }

    /// The administrator's kubeconfig of a cluster.
    pub fn kubeconfig(&self, cluster: &str) -> PathBuf {
        self.trace.path(&format!("{cluster}.kubeconfig"))
    }

    /// The audit log of a cluster, if it was asked for.
    pub fn audit(&self, cluster: &str) -> Audit {
        Audit::new(&self.trace.path("logs").join(cluster))
    }

    /// kubectl for a cluster, by its name.
    pub fn kubectl(&self, cluster: &str) -> Kubectl {
        Kubectl::new(self.tools.path(Tool::Kubectl), self.kubeconfig(cluster))
    }

    /// The node of a cluster, by the cluster's name.
    pub fn node(&self, cluster: &str) -> Result<&Node> {
        let node = self.nodes.iter().find(|node| node.cluster == cluster);
        node.with_context(|| format!("{cluster} has no node"))
    }

    /// The network between the nodes, if there are nodes.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// A member by its number, counted from 1 as in its name.
    pub fn member(&self, number: usize) -> &ControlPlane {
        &self.members[number - 1]
    }

    /// The hub, all members and the host cluster.
    pub fn clusters(&self) -> impl Iterator<Item = &ControlPlane> {
        std::iter::once(&self.hub).chain(&self.members).chain(&self.host)
    }

    /// Fails if any of the bed's processes has ended.
    pub fn check(&mut self) -> Result<()> {
        self.processes_mut().try_for_each(Process::check)
    }

    fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        let planes = std::iter::once(&mut self.hub).chain(&mut self.members).chain(&mut self.host);
        std::iter::once(&mut self.etcd.process)
            .chain(self.network.iter_mut().map(|network| &mut network.holder))
            .chain(planes.flat_map(|plane| &mut plane.processes))
            .chain(self.nodes.iter_mut().flat_map(|node| &mut node.processes))
            .chain(self.tombolo.iter_mut().map(|component| &mut component.process))
    }

    fn write_kubeconfigs(&mut self) -> Result<()> {
        let all: Vec<Access> = self.clusters().map(|cluster| cluster.admin.clone()).collect();
        let mut files: Vec<(String, &[Access])> =
            all.iter().map(|one| (format!("{}.kubeconfig", one.name), std::slice::from_ref(one))).collect();
        files.extend([("all.kubeconfig".to_owned(), &all[..]), ("members.config".to_owned(), &all[..])]);
        self.trace.record.files.extend(files.iter().map(|(name, _)| name.clone()));
        self.trace.record.save()?;
        for (name, access) in files {
            kubeconfig::save(&self.trace.path(&name), access)?;
        }
        Ok(())
    }

    fn note_ready(&mut self) -> Result<()> {
        self.trace.record.processes = self
            .processes_mut()
            .filter_map(|p| Some(Recorded { name: p.name.clone(), identity: Identity::of(p.pid())? }))
            .collect();
        self.trace.record.ready = true;
        self.trace.record.save()
    }
}

/// The names of all logs below a folder, such as `hub/kube-apiserver`.
pub fn log_names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in std::fs::read_dir(next).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
        {
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.with_extension("").strip_prefix(folder) {
                names.push(name.display().to_string());
            }
        }
    }
    names.sort();
    names
}

// === impl Trace ===

impl Trace {
    fn path(&self, name: &str) -> PathBuf {
        self.record.dir.join(name)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.record.clear();
    }
}
