//! The pods of one member: one that listens, and those that dial.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{Options, PORT, outcome::Peer};
use crate::{membership::write::words, shell::clock};

/// Marks the pods.
const LABEL: &str = "tombolo.dev/connectivity";
/// They end after that, whatever happens.
pub(super) const LIFE: i64 = 300;
/// Between two looks at a pod.
const LOOK: Duration = Duration::from_millis(250);

/// The pods of one member.
pub(super) struct Pods {
    api: Api<Pod>,
    /// What their names begin with; others may check at the same time.
    name: String,
    member: String,
}

// === impl Pods ===

impl Pods {
    pub(super) fn of(client: Client, member: &str, options: &Options) -> Self {
        let name = format!("tombolo-connectivity-{:x}", clock::microseconds());
        Self { api: Api::namespaced(client, &options.namespace), name, member: member.to_owned() }
    }

    /// Deletes what an earlier check left behind.
    pub(super) async fn sweep(&self) -> Result<()> {
        let marked = ListParams::default().labels(LABEL);
        let listed = self.api.list(&marked).await.map_err(words);
        let now = clock::seconds();
        for pod in listed.with_context(|| format!("failed to list pods of {}", self.member))? {
            let age = pod.creation_timestamp().map_or(0, |since| now - since.0.as_second());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
            if age > LIFE || matches!(phase, "Failed" | "Succeeded") {
                self.remove(&pod.name_any()).await?;
            }
        }
        Ok(())
    }

    /// Starts a pod that listens, and says where it does.
    pub(super) async fn listen(&self, options: &Options) -> Result<Vec<IpAddr>> {
        let name = format!("{}-listen", self.name);
        let port = format!("--port={PORT}");
        let arguments = ["listen", "--name", &self.member, &port, &format!("--seconds={LIFE}")];
        self.create(&name, &arguments, options, true).await?;
        self.until(&name, options.patience, |pod| {
            let status = pod.status.as_ref()?;
            let ready =
                status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
            let addresses = status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok());
            ready.then(|| addresses.collect())
        })
        .await
    }

    /// Has a pod dial, and gives back what it says.
    pub(super) async fn dial(&self, number: usize, peers: &[Peer], options: &Options) -> Result<String> {
        let name = format!("{}-dial-{number}", self.name);
        // The image may be of an earlier release, which takes whole seconds only.
        let timeout = format!("--timeout={}", options.timeout.as_millis().div_ceil(1000));
        let peers: Vec<_> = peers.iter().map(|peer| format!("--to={peer}")).collect();
        let mut arguments = vec!["dial", &timeout, "--result=/dev/termination-log"];
        arguments.extend(peers.iter().map(String::as_str));
        self.create(&name, &arguments, options, false).await?;
        self.until(&name, options.patience + options.timeout, |pod| {
            let state = state(pod)?;
            state.terminated.as_ref().map(|ended| ended.message.clone().unwrap_or_default())
        })
        .await
    }

    async fn create(&self, name: &str, arguments: &[&str], options: &Options, listens: bool) -> Result<()> {
        let pod: Pod = serde_json::from_value(manifest(name, arguments, &options.image, listens))
            .context("a pod is written as one")?;
        let made = self.api.create(&PostParams::default(), &pod).await.map_err(words);
        made.map(drop).with_context(|| format!("failed to create pod {name}"))
    }

    /// Waits until a pod says what is asked for.
    async fn until<T>(&self, name: &str, patience: Duration, said: impl Fn(&Pod) -> Option<T>) -> Result<T> {
        let mut why = "it has not started".to_owned();
        let waiting = async {
            loop {
                let pod = self.api.get(name).await.map_err(words);
                let pod = pod.with_context(|| format!("failed to read pod {name}"))?;
                if let Some(said) = said(&pod) {
                    return Ok(said);
                }
                if let Some(waits) = waits(&pod) {
                    why = waits;
                }
                if let Some(ended) = ended(&pod) {
                    bail!("pod {name} ended: {ended}");
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(said) => said,
            Err(_) => bail!("pod {name} is not there after {} s: {why}", patience.as_secs()),
        }
    }

    /// Deletes all of its pods.
    pub(super) async fn delete(&self) -> Result<()> {
        let marked = ListParams::default().labels(LABEL);
        let pods = self.api.list(&marked).await.map_err(words).context("failed to list its pods")?;
        for pod in pods.iter().filter(|pod| pod.name_any().starts_with(&self.name)) {
            self.remove(&pod.name_any()).await?;
        }
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<()> {
        match self.api.delete(name, &DeleteParams::default().grace_period(0)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            done => done.map(drop).map_err(words).with_context(|| format!("failed to delete pod {name}")),
        }
    }
}

fn state(pod: &Pod) -> Option<&ContainerState> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.as_ref()
}

/// What a pod waits for.
fn waits(pod: &Pod) -> Option<String> {
    if let Some(waiting) = state(pod).and_then(|state| state.waiting.as_ref()) {
        let reason = waiting.reason.as_deref().unwrap_or("it waits");
        let message = waiting.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        return Some(format!("{reason}{message}"));
    }
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let unscheduled = conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
    unscheduled.map(|it| it.message.clone().unwrap_or_else(|| "it is not scheduled".to_owned())).next()
}

/// Why a pod ended that should run, or that said nothing.
fn ended(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let phase = status.phase.as_deref().filter(|phase| matches!(*phase, "Failed" | "Succeeded"))?;
    let terminated = state(pod).and_then(|state| state.terminated.as_ref());
    let said = terminated.and_then(|ended| ended.message.clone()).or_else(|| status.message.clone());
    Some(said.unwrap_or_else(|| phase.to_owned()))
}

/// A pod that the Pod Security standard "restricted" lets run, and that may do nothing in the cluster.
fn manifest(name: &str, arguments: &[&str], image: &str, listens: bool) -> Value {
    let mut container = json!({
        "name": "connectivity",
        "image": image,
        "args": arguments,
        "env": [{ "name": "TOMBOLO_LOG", "value": "warn" }],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": "64Mi" } },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        },
    });
    if listens {
        container["readinessProbe"] = json!({ "tcpSocket": { "port": PORT }, "periodSeconds": 1 });
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { LABEL: if listens { "listen" } else { "dial" } } },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFE,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [container],
        },
    })
}
