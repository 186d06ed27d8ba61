//! Tombolo itself on a bed: the separate processes that it is in production, a hub and one agent a member.

use std::{
    io::{BufRead, BufReader},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::Api;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    control_plane::ControlPlane,
    pki::Subject,
    ports,
    process::{self, Process},
    progress::say,
    wait::until,
};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where Tombolo's accounts are.
const NAMESPACE: &str = "tombolo-system";
/// How long a token lives, in seconds; longer than any test.
const HOUR: i64 = 3600;
const PATIENCE: Duration = Duration::from_secs(60);

/// One process of Tombolo.
#[derive(Debug)]
pub struct Component {
    pub(crate) process: Process,
    health: u16,
    webhook: Option<SocketAddr>,
}

/// Where processes of Tombolo run.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The cluster that they talk to.
    pub plane: &'a ControlPlane,
    /// The bed's state.
    pub folder: &'a Path,
    /// The bed's logs.
    pub logs: &'a Path,
}

/// How a process of Tombolo is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Who it is to the API server.
    pub identity: Identity,
    /// Whether it is waited for until it is ready.
    pub wait: bool,
}

/// Who a process of Tombolo is to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A user of its name who may do everything.
    Master,
    /// A user of its name with the rights that were bound to it.
    User,
    /// The ServiceAccount of its name in Tombolo's namespace, as in a pod.
    Account,
}

/// What a process of Tombolo is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The control plane.
    Hub,
    /// The member-side controller.
    Agent,
}

// === impl Manner ===

impl Default for Manner {
    /// With all rights, and ready.
    fn default() -> Self {
        Self { identity: Identity::Master, wait: true }
    }
}

// === impl Identity ===

impl Identity {
    /// A kubeconfig of whoever it is, under the name of a process.
    async fn kubeconfig(self, user: &str, process: &str, place: Place<'_>) -> Result<PathBuf> {
        let (plane, folder) = (place.plane, place.folder.join(&place.plane.name));
        let group = match self {
            Self::Master => Some("system:masters"),
            Self::User => None,
            Self::Account => {
                let accounts: Api<ServiceAccount> = Api::namespaced(plane.client.clone(), NAMESPACE);
                let asked = TokenRequest {
                    spec: TokenRequestSpec { expiration_seconds: Some(HOUR), ..Default::default() },
                    ..Default::default()
                };
                let given = accounts.create_subresource("token", user, &Default::default(), &asked).await;
                let given: TokenRequest =
                    given.with_context(|| format!("failed to get a token of {user} in {}", plane.name))?;
                let token = given.status.context("a token that was asked for is given")?.token;
                return plane.with_token(&folder, process, &token);
            }
        };
        plane.component(&folder, process, Subject { user, group })
    }
}

// === impl Role ===

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Agent => "agent",
        }
    }
}

// === impl Component ===

impl Component {
    /// Starts `tombolo hub` or `tombolo agent` under a name, with all rights, and returns when it is ready.
    pub async fn start(
        binary: &Path,
        role: Role,
        name: &str,
        flags: &[String],
        place: Place<'_>,
    ) -> Result<Self> {
        Self::start_so(binary, role, name, flags, place, Manner::default()).await
    }

    /// The same in another manner.
    pub async fn start_so(
        binary: &Path,
        role: Role,
        name: &str,
        flags: &[String],
        place: Place<'_>,
        manner: Manner,
    ) -> Result<Self> {
        // An identity of its own, as in production: what it writes is told from what users write. Replicas share it.
        let user = format!("tombolo-{}", role.name());
        let kubeconfig = manner.identity.kubeconfig(&user, name, place).await?;
        Self::start_by(&kubeconfig, binary, (role, name), flags, place, manner.wait).await
    }

    /// The same by a kubeconfig that is given.
    pub(crate) async fn start_by(
        kubeconfig: &Path,
        binary: &Path,
        (role, name): (Role, &str),
        flags: &[String],
        place: Place<'_>,
        wait: bool,
    ) -> Result<Self> {
        let (role_name, Place { plane, logs, .. }) = (role.name(), place);
        let log = logs.join(&plane.name).join(format!("{name}.log"));
        let has_url = flags.iter().any(|flag| flag.starts_with("--webhook-url="));
        ports::on_one(
            || ports::free(LOOPBACK),
            async |port| {
                let mut command = Command::new(binary);
                command.arg(role_name).arg("--kubeconfig").arg(kubeconfig).args(flags);
                command.arg(format!("--health-address={LOOPBACK}:{port}"));
                // As in a pod: so replicas are told apart in logs.
                command.env("HOSTNAME", name);
                let host = plane.addresses.api();
                let webhook = match role {
                    Role::Hub => Some(SocketAddr::new(host, ports::free(host)?)),
                    Role::Agent => None,
                };
                if let Some(address) = webhook {
                    command.arg(format!("--webhook-address={address}"));
                    command.args((!has_url).then(|| format!("--webhook-url=https://{address}")));
                }
                let process = process::spawn(&format!("{}/{name}", plane.name), &log, command)?;
                let mut this = Self { process, health: port, webhook };
                if wait {
                    until(&format!("{} is ready", this.process.name), PATIENCE, async || this.check().await)
                        .await?;
                }
                Ok(this)
            },
        )
        .await
    }

    /// What it says at a path of its health server, such as `/metrics`.
    pub async fn says(&self, path: &str) -> Result<String> {
        get(self.health, path).await
    }

    /// The same to whoever shows a token.
    pub async fn says_to(&self, token: &str, path: &str) -> Result<String> {
        ask(self.health, path, &format!("Authorization: Bearer {token}\r\n")).await
    }

    /// Where its health server listens.
    pub fn health(&self) -> SocketAddr {
        SocketAddr::new(LOOPBACK, self.health)
    }

    /// Where its webhook listens, if it has one.
    pub fn webhook(&self) -> Option<SocketAddr> {
        self.webhook
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Fails unless the process runs and says that it is ready.
    pub async fn check(&mut self) -> Result<()> {
        self.process.check()?;
        let answer = get(self.health, "/readyz").await;
        // It may have ended just now.
        self.process.check()?;
        let answer = answer.with_context(|| format!("{} does not answer", self.process.name))?;
        ensure!(answer.starts_with("HTTP/1.0 200"), "{}: {answer}", self.process.name);
        Ok(())
    }
}

async fn get(port: u16, path: &str) -> Result<String> {
    ask(port, path, "").await
}

async fn ask(port: u16, path: &str, headers: &str) -> Result<String> {
    let mut stream = TcpStream::connect((LOOPBACK, port)).await.context("nobody listens yet")?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n{headers}\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The `tombolo` command of this checkout, built if it is not up to date; or `$TOMBOLO_BIN`. One for all beds of a process.
pub fn binary() -> Result<PathBuf> {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = BINARY.get() {
        return Ok(known.clone());
    }
    if let Some(given) = std::env::var_os("TOMBOLO_BIN") {
        let given = PathBuf::from(given);
        ensure!(given.is_file(), "TOMBOLO_BIN names {}, which is no file", given.display());
        return Ok(given);
    }
    let built = build("tombolo", &[])?;
    Ok(BINARY.get_or_init(|| built).clone())
}

/// Keeps from a command what cargo tells a program about its own package: ring's build script looks at the same names, so that with them it,
/// and all that is built on it, would be built anew, and again by the next cargo without them.
pub fn forget_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            command.env_remove(name);
        }
    }
}

/// Builds a program of this workspace and says where it is.
pub fn build(program: &str, flags: &[&str]) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    forget_package(&mut command);
    let mut build = command
        .args(["build", "--quiet", "--workspace", "--bin", program])
        .args(flags)
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to run cargo, which builds tombolo (TOMBOLO_BIN names another)")?;
    let mut executable = None;
    let messages = build.stdout.take().context("cargo's output is piped")?;
    for line in BufReader::new(messages).lines() {
        let message: serde_json::Value = serde_json::from_str(&line?)?;
        if let Some(path) = message["executable"].as_str() {
            executable = Some(PathBuf::from(path));
            if message["fresh"] == false {
                say(format_args!("built {program}"));
            }
        }
    }
    ensure!(build.wait()?.success(), "{program} does not build, see above");
    executable.with_context(|| format!("cargo built no {program}"))
}

/// What is left to be seen of what a program wrote to a terminal: of a line that was cleared only what came after.
pub fn left_on_a_terminal(written: &str) -> String {
    let lines = written.split('\n').map(|line| line.rsplit("\r\x1b[K").next().unwrap_or_default());
    lines.map(|line| line.replace('\r', "")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cleared_line_only_what_came_after_is_seen() {
        let written =
            "\r\x1b[Kasking\r\x1b[Kasking still\r\x1b[Kfound\r\n\x1b[1mtwo\x1b[0m\r\n\r\x1b[Kmore\r\x1b[K";
        assert_eq!(left_on_a_terminal(written), "found\n\x1b[1mtwo\x1b[0m\n");
    }
}
