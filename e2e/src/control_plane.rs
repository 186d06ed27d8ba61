//! The control plane of one cluster: kube-apiserver and kube-controller-manager, and kube-scheduler where there are nodes.
//!
//! [`ControlPlane::start`] returns once the API server is ready and the controllers have made the first objects.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::{Api, Client};

use crate::{
    addresses::{Addresses, list},
    audit::{self, Extent},
    etcd::{Etcd, path},
    kubeconfig::{self, Access, url},
    pki::{self, Authority, Pair, Subject},
    ports,
    process::{self, Process},
    tools::{Tool, Tools},
    wait::until,
};

/// What the machine may take to start an API server when it is busy with others.
const PATIENCE: Duration = Duration::from_secs(120);
/// The only controllers of a hub: what it holds are templates, which must not become ReplicaSets and pods there.
const HUB_CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
     serviceaccount-token-controller,root-ca-certificate-publisher-controller";

/// What a cluster is for; decides which controllers it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Holds templates.
    Hub,
    /// A cluster as any other, without nodes.
    ApiOnly,
    /// A cluster with a node.
    WithNode,
}

/// Where a cluster's files and logs are, and what runs it.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Keys and other files, removed with the bed.
    pub folder: &'a Path,
    /// Logs, one a process.
    pub logs: &'a Path,
    /// The commands.
    pub tools: &'a Tools,
    /// What its API server writes an audit log of, if of anything.
    pub audit: Option<Extent>,
}

/// A running control plane.
pub struct ControlPlane {
    /// The cluster's name.
    pub name: String,
    /// Its addresses.
    pub addresses: Addresses,
    /// The administrator's way in.
    pub admin: Access,
    /// A client of the administrator.
    pub client: Client,
    /// URL of the API server.
    pub server: String,
    /// The authority of all certificates of the cluster.
    pub authority: Authority,
    pub(crate) processes: Vec<Process>,
}

/// The keys of a control plane's processes.
#[derive(Debug)]
struct Keys {
    authority: Authority,
    serving: Pair,
    admin: Pair,
    tokens: Pair,
    to_kubelets: Pair,
    front: Pair,
    to_aggregated: Pair,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Starts a cluster's control plane.
    pub async fn start(
        name: &str,
        purpose: Purpose,
        addresses: Addresses,
        etcd: &Etcd,
        ground: Ground<'_>,
    ) -> Result<Self> {
        let keys = Keys::new(ground.folder, &addresses)?;
        let api = addresses.api();
        let choose = || ports::free(api);
        let (apiserver, server, admin, client) = ports::on_one(choose, async |port| {
            let mut command = Command::new(ground.tools.path(Tool::KubeApiserver));
            command.args(apiserver_flags(name, purpose, &addresses, port, &keys, etcd));
            if let Some(extent) = ground.audit {
                command.args(audit::flags(ground.folder, ground.logs, extent)?);
            }
            let log = ground.logs.join("kube-apiserver.log");
            let _ = fs::remove_file(&log);
            let mut process = process::spawn(&format!("{name}/kube-apiserver"), &log, command)?;
            let server = url(api, port);
            let admin = Access::new(name, &server, &keys.authority, &keys.admin)?;
            let client = admin.client().await?;
            until(&format!("the API server of {name} is ready"), PATIENCE, async || {
                process.check()?;
                let ready = http_get("/readyz")?;
                client.request_text(ready).await.context("/readyz does not answer yet")
            })
            .await?;
            Ok((process, server, admin, client))
        })
        .await?;
        let mut this = Self {
            name: name.to_owned(),
            addresses,
            admin,
            client,
            server,
            authority: keys.authority,
            processes: vec![apiserver],
        };
        this.start_controllers(purpose, &keys.tokens, ground)?;
        this.wait_for_controllers().await?;
        Ok(this)
    }

    /// A kubeconfig file for one of the cluster's own components.
    pub fn component(&self, folder: &Path, file: &str, subject: Subject<'_>) -> Result<PathBuf> {
        let pair = self.authority.issue(file, subject, &[], &[])?;
        let access = Access::new(&self.name, &self.server, &self.authority, &pair)?;
        let path = folder.join(format!("{file}.kubeconfig"));
        kubeconfig::save(&path, &[access])?;
        Ok(path)
    }

    /// A kubeconfig file for whoever has a token.
    pub fn with_token(&self, folder: &Path, file: &str, token: &str) -> Result<PathBuf> {
        let access = Access::with_token(&self.name, &self.server, &self.authority, token);
        let path = folder.join(format!("{file}.kubeconfig"));
        kubeconfig::save(&path, &[access])?;
        Ok(path)
    }

    /// The process number of one of its processes, such as `kube-apiserver`.
    pub fn pid(&self, component: &str) -> Option<u32> {
        let name = format!("{}/{component}", self.name);
        self.processes.iter().find(|process| process.name == name).map(Process::pid)
    }

    fn start_controllers(&mut self, purpose: Purpose, tokens: &Pair, ground: Ground<'_>) -> Result<()> {
        let subject = Subject { user: "system:kube-controller-manager", group: None };
        let kubeconfig = self.component(ground.folder, "kube-controller-manager", subject)?;
        let authority = self.authority.files("ca");
        let mut command = Command::new(ground.tools.path(Tool::KubeControllerManager));
        command
            .args([path("--kubeconfig", &kubeconfig), "--leader-elect=false".to_owned()])
            .args(["--secure-port=0", "--use-service-account-credentials=true"])
            // Its controllers start one by one, each with a few requests: the default of 20 a second takes seconds.
            .args(["--kube-api-qps=500", "--kube-api-burst=1000"])
            .args([path("--root-ca-file", &authority.cert)])
            .args([path("--service-account-private-key-file", &tokens.key)])
            .args([path("--cluster-signing-cert-file", &authority.cert)])
            .args([path("--cluster-signing-key-file", &authority.key)]);
        match purpose {
            Purpose::Hub => {
                command.arg(format!("--controllers={HUB_CONTROLLERS}"));
            }
            Purpose::ApiOnly => {}
            Purpose::WithNode => {
                command
                    .arg(format!("--service-cluster-ip-range={}", list(&self.addresses.services())))
                    .arg(format!("--cluster-cidr={}", list(&self.addresses.pods())))
                    .arg("--allocate-node-cidrs=true");
                if self.addresses.families.v4() {
                    command.arg("--node-cidr-mask-size-ipv4=24");
                }
                if self.addresses.families.v6() {
                    command.arg("--node-cidr-mask-size-ipv6=64");
                }
            }
        }
        self.spawn("kube-controller-manager", command, ground)?;
        if purpose == Purpose::WithNode {
            let subject = Subject { user: "system:kube-scheduler", group: None };
            let kubeconfig = self.component(ground.folder, "kube-scheduler", subject)?;
            let mut command = Command::new(ground.tools.path(Tool::KubeScheduler));
            command
                .args([path("--kubeconfig", &kubeconfig)])
                .args(["--leader-elect=false", "--secure-port=0"]);
            self.spawn("kube-scheduler", command, ground)?;
        }
        Ok(())
    }

    fn spawn(&mut self, component: &str, command: Command, ground: Ground<'_>) -> Result<()> {
        let log = ground.logs.join(format!("{component}.log"));
        self.processes.push(process::spawn(&format!("{}/{component}", self.name), &log, command)?);
        Ok(())
    }

    /// A cluster is ready when a pod could be created: the default ServiceAccount and the root CA are there.
    async fn wait_for_controllers(&mut self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let processes = &mut self.processes;
        until(&format!("the controllers of {} work", self.name), PATIENCE, async || {
            processes.iter_mut().try_for_each(Process::check)?;
            accounts.get("default").await?;
            maps.get("kube-root-ca.crt").await?;
            Ok(())
        })
        .await
    }
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

// === impl Keys ===

impl Keys {
    fn new(folder: &Path, addresses: &Addresses) -> Result<Self> {
        let authority = Authority::new(folder, "ca")?;
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let names = [&names[..], &["kubernetes.default.svc.cluster.local"]].concat();
        let mut own: Vec<_> = addresses.services().iter().map(|range| range.nth(1)).collect();
        own.push(addresses.api());
        let masters = Some("system:masters");
        // Who asks in the name of others (aggregated API servers) has an authority apart.
        let front = Authority::new(folder, "front-proxy-ca")?;
        Ok(Self {
            serving: authority.issue(
                "serving",
                Subject { user: "kube-apiserver", group: None },
                &names,
                &own,
            )?,
            admin: authority.issue(
                "admin",
                Subject { user: "kubernetes-admin", group: masters },
                &[],
                &[],
            )?,
            to_kubelets: authority.issue(
                "to-kubelets",
                Subject { user: "kube-apiserver-kubelet-client", group: masters },
                &[],
                &[],
            )?,
            tokens: pki::signing_key(folder, "service-accounts")?,
            to_aggregated: front.issue(
                "front-proxy",
                Subject { user: "front-proxy", group: None },
                &[],
                &[],
            )?,
            front: front.files("front-proxy-ca"),
            authority,
        })
    }
}

/// The flags of a kube-apiserver as a real cluster has them; only addresses and etcd are the bed's own.
fn apiserver_flags(
    name: &str,
    purpose: Purpose,
    addresses: &Addresses,
    port: u16,
    keys: &Keys,
    etcd: &Etcd,
) -> Vec<String> {
    let api = addresses.api();
    let authority = keys.authority.files("ca");
    let mut flags = vec![
        format!("--etcd-servers={}", etcd.url),
        format!("--etcd-prefix=/{name}"),
        path("--etcd-cafile", &etcd.authority.cert),
        path("--etcd-certfile", &etcd.client.cert),
        path("--etcd-keyfile", &etcd.client.key),
        format!("--bind-address={api}"),
        format!("--advertise-address={api}"),
        format!("--secure-port={port}"),
        path("--tls-cert-file", &keys.serving.cert),
        path("--tls-private-key-file", &keys.serving.key),
        path("--client-ca-file", &authority.cert),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--anonymous-auth=true".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--service-cluster-ip-range={}", list(&addresses.services())),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        path("--service-account-key-file", &keys.tokens.cert),
        path("--service-account-signing-key-file", &keys.tokens.key),
        path("--kubelet-client-certificate", &keys.to_kubelets.cert),
        path("--kubelet-client-key", &keys.to_kubelets.key),
        path("--kubelet-certificate-authority", &authority.cert),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        path("--requestheader-client-ca-file", &keys.front.cert),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        path("--proxy-client-cert-file", &keys.to_aggregated.cert),
        path("--proxy-client-key-file", &keys.to_aggregated.key),
        // The API server runs beside the clusters' networks: it reaches pods, but no virtual Service addresses.
        "--enable-aggregator-routing=true".to_owned(),
    ];
    if purpose != Purpose::WithNode {
        // A loopback address cannot be an endpoint, and nobody inside the cluster would use it.
        flags.push("--endpoint-reconciler-type=none".to_owned());
    }
    flags
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}
