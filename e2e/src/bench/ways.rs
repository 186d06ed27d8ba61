//! The webhooks that are compared, each in force in a namespace of its own: so all run at once, and a request is measured beside
//! the same request on any other way a moment later, whatever else the machine does.

use std::{fmt, net::SocketAddr, path::PathBuf, process::Command};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    bed::Bed,
    pki::{Authority, Pair, Subject},
    ports,
    process::{self, Process},
    tombolo::Component,
};

/// What ours warns of where there are no clusters.
const WARNINGS: [&str; 3] = [
    "spec.placement.clusterAffinity.clusterNames[0]: there is no cluster \"member1\" yet",
    "spec.placement.clusterAffinity.clusterNames[1]: there is no cluster \"member2\" yet",
    "spec.resourceSelectors[1]: it matches no Service yet",
];
const KINDS: [(&str, &str); 2] =
    [("ValidatingWebhookConfiguration", "/validate"), ("MutatingWebhookConfiguration", "/mutate")];

/// What is in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Way {
    /// Nothing.
    None,
    /// A webhook that says yes.
    NoOp,
    /// One that says yes, behind a condition on who asks.
    NoOpCondition,
    /// One that says yes with the patch that ours makes: what any such patch costs the API server.
    NoOpPatch,
    /// One that says yes with the warnings that ours gives.
    NoOpWarnings,
    /// One that says yes with both, as ours does.
    NoOpBoth,
    /// Ours.
    Tombolo,
}

/// The webhook of a way; it ends when it is dropped.
pub(super) enum Webhook {
    /// None at all.
    None,
    /// One of those that say yes.
    NoOp(Process),
    /// Ours.
    Ours(Component),
}

/// What webhooks are opened with.
pub(super) struct Opener<'a> {
    pub(super) bed: &'a Bed,
    pub(super) bed_binary: PathBuf,
    pub(super) tombolo: PathBuf,
}

// === impl Way ===

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = clap::ValueEnum::to_possible_value(self);
        f.pad(name.as_ref().map_or("", |name| name.get_name()))
    }
}

impl Way {
    /// The namespace that it is in force in.
    pub(super) fn namespace(self) -> String {
        format!("way-{self}")
    }

    /// What a webhook that does nothing says beyond its yes, as flags.
    fn flags(self) -> Vec<String> {
        let namespace = |selector: usize| {
            let path = format!("/spec/resourceSelectors/{selector}/namespace");
            json!({ "op": "add", "path": path, "value": self.namespace() })
        };
        let patch = format!("--patch={}", json!([namespace(0), namespace(1)]));
        let warnings = WARNINGS.iter().map(|warning| format!("--warning={warning}"));
        match self {
            Self::NoOpPatch => vec![patch],
            Self::NoOpWarnings => warnings.collect(),
            Self::NoOpBoth => warnings.chain([patch]).collect(),
            Self::None | Self::NoOp | Self::NoOpCondition | Self::Tombolo => Vec::new(),
        }
    }

    fn conditions(self) -> Value {
        match self {
            Self::NoOpCondition => {
                json!([{ "name": "others", "expression": "request.userInfo.username != 'somebody'" }])
            }
            _ => json!([]),
        }
    }

    fn selector(self) -> Value {
        json!({ "matchLabels": { "kubernetes.io/metadata.name": self.namespace() } })
    }
}

// === impl Webhook ===

impl Webhook {
    /// Its process number.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::NoOp(process) => Some(process.pid()),
            Self::Ours(hub) => Some(hub.pid()),
        }
    }
}

// === impl Opener ===

impl Opener<'_> {
    /// Starts the webhook of a way and has the API server call it in that way's namespace.
    pub(super) async fn open(&self, way: Way) -> Result<Webhook> {
        match way {
            Way::None => Ok(Webhook::None),
            Way::Tombolo => {
                let hub = self.bed.start_hub(&self.tombolo, "tombolo-hub", &[]).await?;
                self.confine()?;
                Ok(Webhook::Ours(hub))
            }
            _ => self.noop(way).map(Webhook::NoOp),
        }
    }

    /// Confines our webhooks of policies to their namespace. The hub leaves alone what it does not set.
    fn confine(&self) -> Result<()> {
        let webhook =
            json!({ "op": "add", "path": "/webhooks/0/namespaceSelector", "value": Way::Tombolo.selector() });
        let patch = json!([webhook]).to_string();
        for (kind, _) in KINDS {
            self.bed.kubectl("hub").run(&["patch", kind, "tombolo-policies", "--type=json", "-p", &patch])?;
        }
        Ok(())
    }

    fn noop(&self, way: Way) -> Result<Process> {
        let folder = &self.bed.dir().join("state").join(way.to_string());
        let log = self.bed.dir().join(format!("logs/{way}.log"));
        let host = self.bed.hub.addresses.api();
        let address = SocketAddr::new(host, ports::free(host)?);
        let authority = Authority::new(folder, "ca")?;
        let Pair { cert, key } =
            authority.issue("serving", Subject { user: "noop", group: None }, &[], &[host])?;
        let mut command = Command::new(&self.bed_binary);
        command.args(["bench", "noop", "--address", &address.to_string()]).args(way.flags());
        command.arg("--cert").arg(&cert).arg("--key").arg(&key);
        let process = process::spawn(&way.to_string(), &log, command)?;
        for (kind, path) in KINDS {
            let bundle = k8s_openapi::ByteString(authority.certificate.clone().into_bytes());
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": { "name": way.to_string() },
                "webhooks": [{
                    "name": "noop.tombolo.dev", "failurePolicy": "Fail", "sideEffects": "None",
                    "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
                    "namespaceSelector": way.selector(), "matchConditions": way.conditions(),
                    "clientConfig": { "url": format!("https://{address}{path}"), "caBundle": bundle },
                    "rules": [{ "apiGroups": ["policy.karmada.io"], "apiVersions": ["v1alpha1"],
                                "operations": ["CREATE", "UPDATE"], "resources": ["propagationpolicies"] }],
                }],
            });
            let file = folder.join(format!("{kind}.json"));
            std::fs::write(&file, configuration.to_string()).context("failed to write a configuration")?;
            self.bed.kubectl("hub").run(&["apply", "-f", &file.display().to_string()])?;
        }
        Ok(process)
    }
}
