//! What a bed is made of, and what must be on the machine for it.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};

use crate::{
    addresses::{Addresses, Families},
    audit::Extent,
    control_plane::Purpose,
    images::{self, Programs},
    packages,
    process::run,
    progress::say,
    tombolo,
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
    /// The same, and of all that accounts of Tombolo's namespace read.
    #[arg(long)]
    pub audit_accounts: bool,
    /// Pack Tombolo's own image, so that pods can run it.
    #[arg(long, requires = "nodes")]
    pub image: bool,
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

/// The commands that a bed is made of, and the archives of the images that its nodes have.
type Provided = (Tools, Vec<PathBuf>);

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

    /// The same with a host cluster and Tombolo's own image.
    #[must_use]
    pub fn hosting(self) -> Self {
        Self { host: true, image: true, ..self }
    }

    /// The same with audit logs.
    #[must_use]
    pub fn audited(self) -> Self {
        Self { audit: true, ..self }
    }

    /// The same with audit logs that show what accounts of Tombolo's namespace read, too.
    #[must_use]
    pub fn with_audited_accounts(self) -> Self {
        Self { audit_accounts: true, ..self }
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
            (self.image, "--image"),
            (self.audit, "--audit"),
            (self.audit_accounts, "--audit-accounts"),
        ] {
            flags.extend(set.then(|| flag.to_owned()));
        }
        flags.extend(self.hub_flags.iter().map(|flag| format!("--hub-flag={flag}")));
        flags.extend(self.join_flags.iter().map(|flag| format!("--join-flag={flag}")));
        flags
    }

    pub(super) fn extent(&self) -> Option<Extent> {
        self.audit_accounts.then_some(Extent::Accounts).or(self.audit.then_some(Extent::Changes))
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
    pub fn provide(&self) -> Result<Provided> {
        // What is there is compared with its hash, hundreds of megabytes of it: once a process, whatever number of beds it starts.
        static PROVIDED: Mutex<BTreeMap<bool, Provided>> = Mutex::new(BTreeMap::new());
        let mut provided = PROVIDED.lock().unwrap_or_else(PoisonError::into_inner);
        let (tools, mut archives) = match provided.get(&self.nodes) {
            Some(known) => known.clone(),
            None => provided.entry(self.nodes).or_insert(self.provide_first()?).clone(),
        };
        drop(provided);
        if self.image {
            archives.push(own_image()?);
        }
        Ok((tools, archives))
    }

    /// The same, but for Tombolo's own image, where nothing is known to be there.
    fn provide_first(&self) -> Result<Provided> {
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
    pub(super) fn clusters(&self, network: Option<u8>) -> Vec<(String, Purpose, Addresses)> {
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

/// Packs Tombolo's own image beside the binary, where it takes the place of the last one: each build gives another.
fn own_image() -> Result<PathBuf> {
    let binary = tombolo::binary()?;
    let archive = binary.with_extension("image.tar");
    // Each node imports it all, and most of it is for debuggers. A machine without binutils imports that too.
    let stripped = binary.with_extension("stripped");
    let strip = run(Command::new("strip").args(["--strip-debug", "-o"]).arg(&stripped).arg(&binary));
    images::pack(&images::tombolo(if strip.is_ok() { &stripped } else { &binary })?, &archive)?;
    Ok(archive)
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
