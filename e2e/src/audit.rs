//! Audit logs of a bed's API servers: every request that changes something, or tries to, whoever made it.
//!
//! [`flags`] ask an API server for one; [`Audit`] reads it. A request is in the log before its answer is sent.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::{api::coordination::v1::LeaseSpec, jiff::Timestamp};
use serde::Deserialize;

use crate::{etcd::path, pki::write};

/// What is logged: who did what to which object, once it is done; of Leases, what they say too.
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create, update]
  resources: [{ group: coordination.k8s.io, resources: [leases] }]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
";
/// What is logged besides, where one asks for it: all that Tombolo's accounts do.
const ACCOUNTS: &str = "- level: Metadata
  userGroups: [system:serviceaccounts:tombolo-system]
";
const NOTHING_ELSE: &str = "- level: None\n";
/// What the names of accounts of Tombolo's namespace begin with.
const ACCOUNT_PREFIX: &str = "system:serviceaccount:tombolo-system:";
/// Who the hub is in members.
pub const HUB_IN_MEMBERS: &str = "system:serviceaccount:tombolo-system:tombolo-hub";
/// Who the hub is on the hub.
pub const HUB: &str = "tombolo-hub";

/// Who an agent is in its member.
pub const AGENT: &str = "tombolo-agent";

/// What an API server logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What changes something, or tries to.
    Changes,
    /// That, and all that accounts of Tombolo's namespace read.
    Accounts,
}

/// The audit log of one API server.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
}

/// A place in an audit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// A request that changed something, or tried to.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Who asked.
    pub user: User,
    /// With which program.
    #[serde(default)]
    pub user_agent: String,
    /// What for.
    pub verb: String,
    /// Of what.
    #[serde(default)]
    pub object_ref: Object,
    /// What was answered; none if nothing was.
    #[serde(default)]
    pub response_status: Answer,
    /// When it came in.
    pub request_received_timestamp: Timestamp,
    #[serde(rename = "requestURI", default)]
    uri: String,
    #[serde(default)]
    request_object: serde_json::Value,
}

/// Who asked.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct User {
    /// The name; empty where an API server knows nobody by what they showed, such as the token of an account that is gone.
    #[serde(rename = "username", default)]
    pub name: String,
}

/// The object of a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    /// Its resource, such as `configmaps`.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its name, where the request says it.
    pub name: String,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
}

/// The flags that ask an API server for an audit log.
pub fn flags(folder: &Path, logs: &Path, extent: Extent) -> Result<[String; 2]> {
    let policy = folder.join("audit-policy.yaml");
    let accounts = if extent == Extent::Accounts { ACCOUNTS } else { "" };
    write(&policy, &format!("{POLICY}{accounts}{NOTHING_ELSE}"))?;
    Ok([path("--audit-policy-file", &policy), path("--audit-log-path", &Audit::new(logs).path)])
}

// === impl Audit ===

impl Audit {
    pub(crate) fn new(logs: &Path) -> Self {
        Self { path: logs.join("audit.log") }
    }

    /// Where it ends now.
    pub fn mark(&self) -> Result<Mark> {
        Ok(Mark(fs::metadata(&self.path).context("there is no audit log: was one asked for?")?.len()))
    }

    /// The requests since then, in the order in which they were answered.
    pub fn since(&self, mark: Mark) -> Result<Vec<Request>> {
        let mut file = fs::File::open(&self.path).context("there is no audit log: was one asked for?")?;
        file.seek(SeekFrom::Start(mark.0))?;
        let mut requests = Vec::new();
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        // The last line may not be whole yet.
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            requests.push(serde_json::from_str(&line).with_context(|| format!("failed to read {line}"))?);
            line.clear();
        }
        Ok(requests)
    }

    /// How long a Lease was nobody's before the last one took it, by what it said itself: from its release on.
    pub fn handover(&self, lease: &str) -> Result<Duration> {
        let mut requests = self.since(Mark::default())?;
        requests.retain(|request| request.object_ref.name == lease);
        let said: Vec<_> = requests.iter().filter_map(Request::lease).collect();
        let is_released = |spec: &LeaseSpec| spec.holder_identity.as_deref().is_none_or(str::is_empty);
        let released = said.iter().rposition(is_released).context("it was never released")?;
        let taken = said.get(released + 1).context("nobody took it since")?;
        let (from, to) = (said[released].renew_time.as_ref(), taken.acquire_time.as_ref());
        let (from, to) = from.zip(to).context("it does not say when")?;
        Duration::try_from(to.0.duration_since(from.0)).context("it was taken before it was released")
    }

    /// What the hub changed since then, here, Leases and dry runs aside.
    pub fn by_hub(&self, mark: Mark) -> Result<Vec<Request>> {
        let mut requests = self.since(mark)?;
        requests.retain(|request| request.is_by_hub() && request.is_a_change());
        Ok(requests)
    }

    /// What accounts of Tombolo's namespace were forbidden since then.
    pub fn forbidden(&self, mark: Mark) -> Result<Vec<Request>> {
        let mut requests = self.since(mark)?;
        requests.retain(|request| {
            request.user.name.starts_with(ACCOUNT_PREFIX) && request.response_status.code == 403
        });
        Ok(requests)
    }

    /// What an agent changed since then in a namespace, or tried to, Leases and dry runs aside.
    pub fn by_agent(&self, mark: Mark, namespace: &str) -> Result<Vec<Request>> {
        let mut requests = self.since(mark)?;
        requests.retain(|request| {
            request.user.name == AGENT && request.is_a_change() && request.object_ref.namespace == namespace
        });
        Ok(requests)
    }
}

// === impl Request ===

impl Request {
    /// Whether the hub made it.
    pub fn is_by_hub(&self) -> bool {
        self.user.name == HUB || self.user.name == HUB_IN_MEMBERS
    }

    /// Whether it did what it asked for.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// What it made a Lease say; none if it did not.
    pub fn lease(&self) -> Option<LeaseSpec> {
        let is_lease = self.object_ref.resource == "leases" && self.succeeded();
        let spec = self.request_object.get("spec").filter(|_| is_lease)?;
        LeaseSpec::deserialize(spec).ok()
    }

    /// Whether it is more than an election, a question in the form of an object, or a dry run.
    pub fn is_a_change(&self) -> bool {
        self.object_ref.resource != "leases"
            && !self.object_ref.resource.ends_with("reviews")
            && !self.uri.contains("dryRun=All")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object { resource, subresource, namespace, name } = &self.object_ref;
        let (at, user, verb) = (&self.request_received_timestamp, &self.user.name, &self.verb);
        write!(f, "{at} {user} {verb} {resource} {namespace}/{name}")?;
        if !subresource.is_empty() {
            write!(f, " ({subresource})")?;
        }
        write!(f, " {}", self.response_status.code)
    }
}
