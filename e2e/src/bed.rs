//! A bed: a hub and members, real Kubernetes on this machine, that belongs to one process and ends with it.
//!
//! [`Bed::start`] gives back a running bed; dropping it removes every trace.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use crate::{
    addresses::{Addresses, Families, MEMBERS},
    control_plane::{ControlPlane, Ground, Purpose},
    etcd::Etcd,
    kubeconfig::{self, Access},
    process::Process,
    progress::say,
    record::{Claim, Record},
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
}

/// A running bed. What is first in it ends first.
#[derive(Debug)]
pub struct Bed {
    /// What it is made of.
    pub spec: Spec,
    /// The member clusters, `member1` first.
    pub members: Vec<ControlPlane>,
    /// The cluster that holds templates and policies.
    pub hub: ControlPlane,
    etcd: Etcd,
    tools: Tools,
    record: Trace,
}

/// The bed's record, and its removal when the bed is gone.
#[derive(Debug)]
struct Trace {
    record: Record,
    keep: bool,
}

// === impl Spec ===

impl Spec {
    /// A hub and members without nodes.
    pub fn api(members: usize) -> Self {
        Self { members, ..Self::default() }
    }

    /// A hub and members with nodes.
    pub fn nodes(members: usize) -> Self {
        Self { members, nodes: true, ..Self::default() }
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = vec![Tool::Etcd, Tool::KubeApiserver, Tool::KubeControllerManager, Tool::Kubectl];
        if self.nodes {
            tools.extend([Tool::KubeScheduler, Tool::Kubelet, Tool::KubeProxy, Tool::CoreDns]);
            tools.extend([Tool::Serve, Tool::Request, Tool::Echo]);
        }
        tools
    }

    fn families(&self, member: usize) -> Families {
        match (self.dual_stack, member) {
            (false, _) => Families::V4,
            (true, last) if last == self.members => Families::V6,
            (true, _) => Families::Dual,
        }
    }
}

// === impl Bed ===

impl Bed {
    /// Starts a bed in a folder, or in a temporary one, and returns when all of it is ready.
    pub async fn start(spec: Spec, dir: Option<&Path>) -> Result<Self> {
        ensure!(spec.members <= MEMBERS, "a bed has at most {MEMBERS} members, not {}", spec.members);
        let wanted = spec.tools();
        let tools = tokio::task::spawn_blocking(move || Tools::provide(&wanted)).await??;
        let dir = dir.map(std::path::absolute).transpose()?;
        let mut trace = Trace { record: Record::claim(Claim { dir, network: spec.nodes })?, keep: false };
        trace.record.files = ["state", "logs"].map(str::to_owned).to_vec();
        trace.record.save()?;

        let (state, logs) = (trace.path("state"), trace.path("logs"));
        say(format_args!("starting a hub and {} members in {}", spec.members, trace.record.dir.display()));
        let etcd = Etcd::start(&state.join("etcd"), &logs, &tools).await?;
        let network = trace.record.network;
        let clusters = try_join_all((0..=spec.members).map(|number| {
            let (spec, etcd, tools) = (&spec, &etcd, &tools);
            let (name, purpose) = match number {
                0 => ("hub".to_owned(), Purpose::Hub),
                n if spec.nodes => (format!("member{n}"), Purpose::WithNode),
                n => (format!("member{n}"), Purpose::ApiOnly),
            };
            let families = if number == 0 && spec.dual_stack { Families::Dual } else { spec.families(number) };
            let addresses = Addresses::new(families, u8::try_from(number).unwrap_or(u8::MAX), network);
            let (folder, logs) = (state.join(&name), logs.join(&name));
            async move {
                let ground = Ground { folder: &folder, logs: &logs, tools };
                ControlPlane::start(&name, purpose, addresses, etcd, ground).await
            }
        }))
        .await?;
        let mut members = clusters;
        let hub = members.remove(0);
        let mut bed = Self { spec, members, hub, etcd, tools, record: trace };
        bed.write_kubeconfigs()?;
        bed.note_ready()?;
        Ok(bed)
    }

    /// The bed's folder.
    pub fn dir(&self) -> &Path {
        &self.record.record.dir
    }

    /// A member by its number, counted from 1 as in its name.
    pub fn member(&self, number: usize) -> &ControlPlane {
        &self.members[number - 1]
    }

    /// The hub and all members.
    pub fn clusters(&self) -> impl Iterator<Item = &ControlPlane> {
        std::iter::once(&self.hub).chain(&self.members)
    }

    /// Leaves the folder with its logs where it is when the bed ends.
    pub fn keep_files(&mut self) {
        self.record.keep = true;
    }

    /// Fails if any of the bed's processes has ended.
    pub fn check(&mut self) -> Result<()> {
        self.processes_mut().try_for_each(Process::check)
    }

    fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        let planes = std::iter::once(&mut self.hub).chain(&mut self.members);
        std::iter::once(&mut self.etcd.process).chain(planes.flat_map(|plane| &mut plane.processes))
    }

    fn write_kubeconfigs(&mut self) -> Result<()> {
        let all: Vec<Access> = self.clusters().map(|cluster| cluster.admin.clone()).collect();
        let mut files: Vec<(String, &[Access])> =
            all.iter().map(|one| (format!("{}.kubeconfig", one.name), std::slice::from_ref(one))).collect();
        files.extend([("all.kubeconfig".to_owned(), &all[..]), ("members.config".to_owned(), &all[..])]);
        self.record.record.files.extend(files.iter().map(|(name, _)| name.clone()));
        self.record.record.save()?;
        for (name, access) in files {
            kubeconfig::save(&self.record.path(&name), access)?;
        }
        Ok(())
    }

    fn note_ready(&mut self) -> Result<()> {
        self.record.record.processes = self.processes_mut().map(|p| (p.name.clone(), p.pid())).collect();
        self.record.record.ready = true;
        self.record.record.save()
    }
}

// === impl Trace ===

impl Trace {
    fn path(&self, name: &str) -> PathBuf {
        self.record.dir.join(name)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if self.keep {
            self.record.files.clear();
            self.record.temporary = false;
        }
        self.record.clear();
    }
}
