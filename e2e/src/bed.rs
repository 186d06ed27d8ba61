//! A bed: a hub and members, real Kubernetes on this machine, that belongs to one process and ends with it.
//!
//! [`Bed::start`] gives back a running bed; dropping it removes every trace.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use crate::{
    addresses::{Addresses, Families, MEMBERS},
    audit::Audit,
    control_plane::{ControlPlane, Ground, Purpose},
    etcd::Etcd,
    images::{self, Programs},
    kubeconfig::{self, Access},
    kubectl::Kubectl,
    network::Network,
    node::{Node, Site},
    packages,
    process::{Identity, Process},
    progress::say,
    record::{Claim, Record, Recorded},
    tombolo::{self, Component, Manner, Place, Role},
    tools::{Tool, Tools},
};

/// What a bed is made of.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Spec {
    /// How many member clusters there are.
    #[arg(long, default_value_t = 2)]
    pub members: usize,
    /// Give each member a node with real pods, kube-proxy and CoreDNS (needs root).
    #[arg(long)]
    pub nodes: bool,
    /// Add a cluster with a node beside the members, where the hub itself can run as pods (implies --nodes).
    #[arg(long)]
    pub host: bool,
    /// Give the clusters IPv4 and IPv6, and the last member IPv6 only.
    #[arg(long)]
    pub dual_stack: bool,
    /// Do not install and start Tombolo.
    #[arg(long)]
    pub bare: bool,
    /// Have every API server write an audit log of all requests that change something, beside its own log.
    #[arg(long)]
    pub audit: bool,
    /// More flags for `tombolo hub`.
    #[arg(long = "hub-flag", value_name = "FLAG", allow_hyphen_values = true)]
    pub hub_flags: Vec<String>,
    /// Make the members members of the hub, by `tombolo join`.
    #[arg(long, conflicts_with = "bare")]
    pub joined: bool,
    /// More flags for `tombolo join`.
    #[arg(long = "join-flag", value_name = "FLAG", allow_hyphen_values = true, requires = "joined")]
    pub join_flags: Vec<String>,
}

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

// === impl Spec ===

impl Spec {
    /// A hub and members without nodes.
    pub fn api(members: usize) -> Self {
        Self { members, ..Self::default() }
    }

    /// A hub and members with nodes.
    pub fn nodes(members: usize) -> Self {
        Self { nodes: true, ..Self::api(members) }
    }

    /// The same without Tombolo.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// The same with members that have joined the hub.
    #[must_use]
    pub fn joined(self) -> Self {
        Self { joined: true, ..self }
    }

    /// The same with audit logs.
    #[must_use]
    pub fn audited(self) -> Self {
        Self { audit: true, ..self }
    }

    /// The flags that ask for this bed.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--members={}", self.members)];
        for (set, flag) in [
            (self.nodes, "--nodes"),
            (self.host, "--host"),
            (self.dual_stack, "--dual-stack"),
            (self.bare, "--bare"),
            (self.joined, "--joined"),
            (self.audit, "--audit"),
        ] {
            flags.extend(set.then(|| flag.to_owned()));
        }
        flags.extend(self.hub_flags.iter().map(|flag| format!("--hub-flag={flag}")));
        flags.extend(self.join_flags.iter().map(|flag| format!("--join-flag={flag}")));
        flags
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![Tool::Etcd, Tool::KubeApiserver, Tool::KubeControllerManager, Tool::Kubectl];
        if self.nodes {
            tools.extend([Tool::KubeScheduler, Tool::Kubelet, Tool::KubeProxy, Tool::CoreDns]);
            tools.extend([Tool::Serve, Tool::Request, Tool::Echo, Tool::Pause]);
        }
        tools
    }

    /// Builds, packs and installs what must be on the machine before such a bed can start; quick when it is there.
    pub fn provide(&self) -> Result<(Tools, Vec<PathBuf>)> {
        let wanted = self.tools();
        if !self.nodes {
            return Ok((Tools::provide(&wanted)?, Vec::new()));
        }
        ensure!(
            rustix::process::geteuid().is_root(),
            "nodes need root (namespaces, mounts and packet filters): run as root, or leave --nodes and --host out"
        );
        packages::ensure()?;
        raise_limits()?;
        let tools = Tools::provide(&wanted)?;
        let path = |tool| tools.path(tool).to_owned();
        let programs = Programs {
            coredns: path(Tool::CoreDns),
            echo: path(Tool::Echo),
            pause: path(Tool::Pause),
            request: path(Tool::Request),
            serve: path(Tool::Serve),
        };
        let archives = images::provide(&images::all(&programs)?, &Tools::cache_folder()?.join("images"))?;
        Ok((tools, archives))
    }

    /// Names, purposes and addresses: the hub, the members in order, the host cluster.
    fn clusters(&self, network: Option<u8>) -> Vec<(String, Purpose, Addresses)> {
        let both = if self.dual_stack { Families::Dual } else { Families::V4 };
        let purpose = if self.nodes { Purpose::WithNode } else { Purpose::ApiOnly };
        let mut clusters = vec![("hub".to_owned(), Purpose::Hub, both)];
        clusters.extend((1..=self.members).map(|member| {
            let only_v6 = self.dual_stack && member == self.members;
            (format!("member{member}"), purpose, if only_v6 { Families::V6 } else { both })
        }));
        if self.host {
            clusters.push(("host".to_owned(), purpose, both));
        }
        let numbered = clusters.into_iter().zip(0..);
        numbered
            .map(|((name, purpose, families), n)| (name, purpose, Addresses::new(families, n, network)))
            .collect()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.nodes { "with nodes" } else { "without nodes" };
        write!(f, "a hub and {} members {level}", self.members)?;
        if self.host {
            f.write_str(", and a host cluster")?;
        }
        Ok(())
    }
}

// === impl Bed ===

impl Bed {
    /// Starts a bed in a folder, or in a temporary one, and returns when all of it is ready.
    pub async fn start(spec: Spec, dir: Option<&Path>) -> Result<Self> {
        ensure!(spec.members <= MEMBERS, "a bed has at most {MEMBERS} members, not {}", spec.members);
        let spec = Spec { nodes: spec.nodes || spec.host, ..spec };
        let asked = spec.clone();
        let (tools, archives) = tokio::task::spawn_blocking(move || asked.provide()).await??;
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
                let (etcd, tools, audit) = (&etcd, &tools, spec.audit);
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

/// Kubelets and containerds watch files; the kernel's default number of watchers is enough for about four nodes.
fn raise_limits() -> Result<()> {
    const INSTANCES: (&str, u64) = ("/proc/sys/fs/inotify/max_user_instances", 2048);
    const WATCHES: (&str, u64) = ("/proc/sys/fs/inotify/max_user_watches", 524_288);
    for (path, needed) in [INSTANCES, WATCHES] {
        let now: u64 =
            std::fs::read_to_string(path)?.trim().parse().with_context(|| format!("{path} is no number"))?;
        if now < needed {
            say(format_args!("raising {path} from {now} to {needed}, until the machine restarts"));
            std::fs::write(path, needed.to_string()).with_context(|| format!("failed to raise {path}"))?;
        }
    }
    Ok(())
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
