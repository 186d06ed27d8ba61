//! A node: containerd, kubelet and kube-proxy in namespaces of their own, so that pods, mounts and network are real and
//! yet go without a trace.
//!
//! The node's first process is pid 1 of a pid namespace. When it ends the kernel ends every other process in there,
//! containers and their shims included, and with the last of them mount, network and pod namespaces go.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use serde_json::json;

use crate::{
    addresses::{Addresses, list},
    cgroups,
    control_plane::ControlPlane,
    images,
    kubectl::Kubectl,
    network,
    network::Network,
    packages,
    pki::{self, Subject},
    process::{self, Identity, Process, run},
    tools::{Tool, Tools},
    wait::until,
};

const SANDBOX: &str = include_str!("node/sandbox.sh");
const CONTAINERD: &str = include_str!("node/containerd.toml");
const COREDNS: &str = include_str!("node/coredns.yaml");
const PATIENCE: Duration = Duration::from_secs(120);

/// What all nodes of a bed share.
#[derive(Debug, Clone, Copy)]
pub struct Site<'a> {
    /// Names the bed's control groups.
    pub bed: &'a str,
    /// The network that nodes are plugged into.
    pub network: &'a Network,
    /// The addresses of all nodes, for the routes between them.
    pub nodes: &'a [Addresses],
    /// Image archives to import.
    pub images: &'a [PathBuf],
    /// The commands.
    pub tools: &'a Tools,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    /// The cluster that it is of.
    pub cluster: String,
    /// Its name in the cluster.
    pub name: String,
    pub(crate) processes: Vec<Process>,
    sandbox: Sandbox,
}

/// The namespaces of a node, held by its first process.
#[derive(Debug)]
struct Sandbox {
    holder: Process,
    init: Identity,
}

// === impl Node ===

impl Node {
    /// Starts the node of a cluster and returns when it is ready for pods and DNS answers.
    pub async fn start(plane: &ControlPlane, folder: &Path, logs: &Path, site: Site<'_>) -> Result<Self> {
        let name = format!("{}-control-plane", plane.name);
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        let sandbox = Sandbox::start(plane, &name, folder, logs).await?;
        let mut this = Self { cluster: plane.name.clone(), name, processes: Vec::new(), sandbox };
        this.connect(plane, site)?;
        this.write_configs(plane, folder, site)?;
        this.start_containerd(plane, folder, logs).await?;
        this.import(site.images).await?;
        this.start_kubelet(plane, folder, logs, site)?;
        this.start_kube_proxy(plane, folder, logs, site).await?;
        start_dns(plane, folder, site)?;
        this.wait_until_ready(plane).await?;
        Ok(this)
    }

    /// A command that runs in all of the node's namespaces.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.sandbox.init.pid));
        command.args(["--mount", "--pid", "--net", "--uts", "--ipc", "--"]).arg(program);
        command
    }

    fn connect(&self, plane: &ControlPlane, site: Site<'_>) -> Result<()> {
        let pid = self.sandbox.init.pid;
        // Before any address: interfaces inherit it, and IPv6 addresses are given by us alone.
        for setting in [
            "net.ipv4.ip_forward=1",
            "net.ipv6.conf.all.forwarding=1",
            "net.ipv6.conf.all.accept_dad=0",
            "net.ipv6.conf.default.accept_dad=0",
        ] {
            self.set(setting)?;
        }
        site.network.plug(&plane.addresses, &plane.name, pid)?;
        // Nodes elsewhere have a default route. Without any, what the node itself asks of a Service ends before kube-proxy's rules.
        for services in plane.addresses.services() {
            network::nsenter(pid, "ip", &format!("route add {services} dev eth0"))?;
        }
        for other in site.nodes {
            for (address, pods) in other.node().into_iter().zip(other.pods()) {
                let ours = plane.addresses.node();
                let reachable = ours.iter().any(|own| own.is_ipv4() == address.is_ipv4());
                if reachable && !ours.contains(&address) {
                    network::nsenter(pid, "ip", &format!("route add {pods} via {address} dev eth0"))?;
                }
            }
        }
        Ok(())
    }

    /// Sets a kernel parameter of the node's network; one that this kernel lacks (no IPv6) is left out.
    fn set(&self, setting: &str) -> Result<()> {
        let (key, value) = setting.split_once('=').context("a setting is key=value")?;
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        if !Path::new(&path).exists() {
            return Ok(());
        }
        run(self.command("sh").args(["-c", "echo \"$1\" > \"$2\"", "sh", value, &path])).map(drop)
    }

    fn write_configs(&self, plane: &ControlPlane, folder: &Path, site: Site<'_>) -> Result<()> {
        let plugins = packages::CNI_DIRS.iter().find(|dir| Path::new(dir).join("ptp").exists());
        let plugins = plugins
            .context("no CNI plugins found: install the Debian package containernetworking-plugins")?;
        let containerd = CONTAINERD.replace("@PAUSE@", images::PAUSE).replace("@CNI_BIN@", plugins);
        pki::write(&folder.join("containerd.toml"), &containerd)?;
        let pods = plane.addresses.pods();
        // Each pod has a link of its own, so that all its traffic is routed and passes kube-proxy's rules; on a bridge
        // answers between pods of one node would take a short cut around them.
        let cni = json!({
            "cniVersion": "0.4.0",
            "name": "bed",
            "plugins": [{
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": pods.iter().map(|pods| json!([{ "subnet": pods.to_string() }])).collect::<Vec<_>>(),
                    "routes": pods.iter()
                        .map(|pods| json!({ "dst": if pods.base.is_ipv4() { "0.0.0.0/0" } else { "::/0" } }))
                        .collect::<Vec<_>>(),
                },
            }, { "type": "portmap", "capabilities": { "portMappings": true }, "backend": "iptables" }],
        });
        fs::create_dir_all(folder.join("cni")).context("failed to create a folder")?;
        pki::write(&folder.join("cni/10-bed.conflist"), &cni.to_string())?;
        pki::write(&folder.join("resolv.conf"), "# the machine's own name servers are out of reach\n")?;

        let cgroup = cgroups::create(site.bed, &plane.name)?;
        let own = plane.addresses.node();
        let subject = Subject { user: &format!("system:node:{}", self.name), group: Some("system:nodes") };
        let serving = plane.authority.issue("kubelet-serving", subject, &[&self.name], &own)?;
        let kubelet = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": plane.authority.files("ca").cert },
            },
            "authorization": { "mode": "Webhook" },
            "tlsCertFile": serving.cert,
            "tlsPrivateKeyFile": serving.key,
            "clusterDNS": [plane.addresses.dns()],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "resolvConf": "/run/bed/disk/resolv.conf",
            "failSwapOn": false,
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            "enforceNodeAllocatable": [],
            // The machine's disk and memory are not the node's to judge.
            "evictionHard": { "memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%",
                              "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%" },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": false,
            // Tests wait for pods all the time.
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
        });
        pki::write(&folder.join("kubelet.json"), &kubelet.to_string())
    }

    fn spawn(&mut self, plane: &ControlPlane, component: &str, logs: &Path, command: Command) -> Result<()> {
        let log = logs.join(format!("{component}.log"));
        self.processes.push(process::spawn(&format!("{}/{component}", plane.name), &log, command)?);
        Ok(())
    }

    async fn start_containerd(&mut self, plane: &ControlPlane, folder: &Path, logs: &Path) -> Result<()> {
        let mut command = self.command("containerd");
        command.arg("--config").arg(folder.join("containerd.toml"));
        self.spawn(plane, "containerd", logs, command)?;
        until(&format!("containerd of {} answers", plane.name), PATIENCE, async || {
            self.processes.iter_mut().try_for_each(Process::check)?;
            run(self.command("ctr").args(["--connect-timeout", "2s", "version"]))
        })
        .await
        .map(drop)
    }

    async fn import(&self, archives: &[PathBuf]) -> Result<()> {
        for archive in archives {
            let mut command = self.command("ctr");
            command.args(["--namespace", "k8s.io", "images", "import"]).arg(archive);
            tokio::task::spawn_blocking(move || run(&mut command)).await??;
        }
        Ok(())
    }

    fn start_kubelet(
        &mut self,
        plane: &ControlPlane,
        folder: &Path,
        logs: &Path,
        site: Site<'_>,
    ) -> Result<()> {
        let subject = Subject { user: &format!("system:node:{}", self.name), group: Some("system:nodes") };
        let kubeconfig = plane.component(folder, "kubelet", subject)?;
        let mut command = self.command(site.tools.path(Tool::Kubelet));
        command
            .arg(format!("--config={}", folder.join("kubelet.json").display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--hostname-override={}", self.name))
            .arg(format!("--node-ip={}", list(&plane.addresses.node())));
        self.spawn(plane, "kubelet", logs, command)
    }

    async fn start_kube_proxy(
        &mut self,
        plane: &ControlPlane,
        folder: &Path,
        logs: &Path,
        site: Site<'_>,
    ) -> Result<()> {
        // Without an address of its Node, kube-proxy takes loopback for the node's for good.
        let nodes: Api<NodeObject> = Api::all(plane.client.clone());
        until(&format!("{} has an address", self.name), PATIENCE, async || {
            self.processes.iter_mut().try_for_each(Process::check)?;
            let node = nodes.get(&self.name).await?;
            let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
            ensure!(addresses.iter().any(|address| address.type_ == "InternalIP"), "no InternalIP yet");
            Ok(())
        })
        .await?;
        let kubeconfig =
            plane.component(folder, "kube-proxy", Subject { user: "system:kube-proxy", group: None })?;
        let config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": { "kubeconfig": kubeconfig },
            "hostnameOverride": self.name,
            "clusterCIDR": list(&plane.addresses.pods()),
            // Limits of the machine, which a network namespace may not change.
            "conntrack": { "maxPerCore": 0, "min": 0 },
            // Tests wait for endpoints all the time.
            "nftables": { "minSyncPeriod": "100ms", "syncPeriod": "30s" },
        });
        pki::write(&folder.join("kube-proxy.json"), &config.to_string())?;
        let mut command = self.command(site.tools.path(Tool::KubeProxy));
        command.arg(format!("--config={}", folder.join("kube-proxy.json").display()));
        self.spawn(plane, "kube-proxy", logs, command)
    }

    async fn wait_until_ready(&mut self, plane: &ControlPlane) -> Result<()> {
        use k8s_openapi::api::apps::v1::Deployment;
        let nodes: Api<NodeObject> = Api::all(plane.client.clone());
        let deployments: Api<Deployment> = Api::namespaced(plane.client.clone(), "kube-system");
        until(&format!("{} is ready", self.name), PATIENCE, async || {
            self.processes.iter_mut().try_for_each(Process::check)?;
            let conditions =
                nodes.get(&self.name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
            let ready =
                conditions.iter().find(|condition| condition.type_ == "Ready").context("no Ready yet")?;
            ensure!(
                ready.status == "True",
                "{}",
                ready.message.as_deref().unwrap_or("the node is not ready")
            );
            let dns = deployments.get("coredns").await?.status.and_then(|status| status.ready_replicas);
            ensure!(dns == Some(1), "CoreDNS is not ready");
            Ok(())
        })
        .await
    }
}

/// Applies CoreDNS, as any cluster's administrator would.
fn start_dns(plane: &ControlPlane, folder: &Path, site: Site<'_>) -> Result<()> {
    let manifests = folder.join("coredns.yaml");
    let dns = plane.addresses.dns().to_string();
    pki::write(&manifests, &COREDNS.replace("@COREDNS@", images::COREDNS).replace("@DNS@", &dns))?;
    let admin = folder.join("admin.kubeconfig");
    crate::kubeconfig::save(&admin, std::slice::from_ref(&plane.admin))?;
    let kubectl = Kubectl::new(site.tools.path(Tool::Kubectl), admin);
    kubectl.run(&["apply", "-f", &manifests.display().to_string()]).map(drop)
}

// === impl Sandbox ===

impl Sandbox {
    async fn start(plane: &ControlPlane, name: &str, folder: &Path, logs: &Path) -> Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"])
            .args(["--propagation", "private", "--", "sh", "-c", SANDBOX, "sandbox"])
            .arg(folder)
            .arg(name);
        let mut holder =
            process::spawn(&format!("{}/sandbox", plane.name), &logs.join("sandbox.log"), command)?;
        let ready = folder.join("sandbox");
        let pid = holder.pid();
        let init = until(&format!("the namespaces of {name} are there"), PATIENCE, async || {
            holder.check()?;
            ensure!(ready.exists(), "its mounts are not ready");
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let child = children.split_whitespace().next().context("its first process is not there")?;
            Identity::of(child.parse()?).context("its first process is gone")
        })
        .await?;
        Ok(Self { holder, init })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.holder.kill();
        // The kernel ends the namespace's other processes before it lets go of the first.
        while self.init.is_alive() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
