//! What these tests share: Tombolo's processes, which can be stopped and started, and the workload that is asked.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tombolo_e2e::{
    bed::Bed,
    fleet, images,
    scene::{HUB, Scene, object},
    tombolo::{self, Component, Manner},
};

/// A member that was silent for so many seconds is left out where others serve.
pub(crate) const LOST_AFTER: u64 = 15;

/// Tombolo on the bed.
pub(crate) struct Fleet {
    binary: PathBuf,
    hub: Option<Component>,
    agents: Vec<Component>,
}

static FLEET: OnceCell<RwLock<Fleet>> = OnceCell::const_new();

// === impl Fleet ===

impl Fleet {
    async fn start(bed: &Bed) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(tombolo::binary).await??;
        bed.prepare_hub()?;
        let mut this = Self { binary, hub: None, agents: Vec::new() };
        this.start_hub(bed).await?;
        this.start_agents(bed).await?;
        bed.join_all().await?;
        this.until_ready(bed).await?;
        Ok(this)
    }

    /// Starts the hub.
    pub(crate) async fn start_hub(&mut self, bed: &Bed) -> Result<()> {
        let flags = ["--stale-after=5".to_owned(), format!("--lost-after={LOST_AFTER}")];
        self.hub = Some(bed.start_hub(&self.binary, "tombolo-hub", &flags).await?);
        Ok(())
    }

    /// Kills the hub.
    pub(crate) fn kill_hub(&mut self) {
        self.hub = None;
    }

    /// Starts all agents.
    pub(crate) async fn start_agents(&mut self, bed: &Bed) -> Result<()> {
        let start = |member| bed.start_agent(&self.binary, member, "tombolo-agent", &[], Manner::default());
        self.agents = try_join_all((1..=bed.members.len()).map(start)).await?;
        Ok(())
    }

    /// Kills all agents.
    pub(crate) fn kill_agents(&mut self) {
        self.agents.clear();
    }

    /// Waits until the hub says of all members that they are ready.
    pub(crate) async fn until_ready(&self, bed: &Bed) -> Result<()> {
        for member in &bed.members {
            fleet::until_ready(&bed.hub.client, &member.name, "True").await?;
        }
        Ok(())
    }
}

async fn fleet(bed: &Arc<Bed>) -> Result<&'static RwLock<Fleet>> {
    FLEET.get_or_try_init(async || Fleet::start(bed).await.map(RwLock::new)).await
}

/// Tombolo at work, for as long as the guard is held.
pub(crate) async fn at_work(bed: &Arc<Bed>) -> Result<RwLockReadGuard<'static, Fleet>> {
    Ok(fleet(bed).await?.read().await)
}

/// Tombolo for oneself, to stop parts of it.
pub(crate) async fn alone(bed: &Arc<Bed>) -> Result<RwLockWriteGuard<'static, Fleet>> {
    let mut fleet = fleet(bed).await?.write().await;
    // A test that failed half way may have left it stopped.
    if fleet.hub.is_none() {
        fleet.start_hub(bed).await?;
    }
    if fleet.agents.is_empty() {
        fleet.start_agents(bed).await?;
    }
    fleet.until_ready(bed).await?;
    Ok(fleet)
}

/// A scene in a namespace of the hub and all members.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str) -> Result<Scene> {
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    for place in HUB..=bed.members.len() {
        scene.apply(place, [scene.here()]).await?;
    }
    Ok(scene)
}

/// How long pods go on serving after they were told to end.
pub(crate) const LAME_DUCK: Duration = Duration::from_secs(5);

/// Pods that say on which node they are, and go on serving for a while after they were told to end.
pub(crate) fn server(replicas: u32) -> Value {
    let node = json!({ "fieldRef": { "fieldPath": "spec.nodeName" } });
    let pod = json!({ "containers": [{
        "name": "serve", "image": images::ECHO, "args": [format!("--lame-duck={}s", LAME_DUCK.as_secs())],
        "env": [{ "name": "CLUSTER", "valueFrom": node }],
        // A machine that stands still for seconds must not make all pods unready together.
        "readinessProbe": { "httpGet": { "path": "/", "port": 8080 }, "periodSeconds": 1, "timeoutSeconds": 10 },
    }] });
    object(
        "Deployment",
        "serve",
        json!({ "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": "serve" } },
            "strategy": { "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } },
            "template": { "metadata": { "labels": { "app": "serve" } }, "spec": pod },
        } }),
    )
}

/// Their Service and its export.
pub(crate) fn served() -> [Value; 2] {
    let ports = json!([{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }]);
    let service = json!({ "spec": { "selector": { "app": "serve" }, "ports": ports } });
    [object("Service", "serve", service), object("ServiceExport", "serve", json!({}))]
}

/// The name that is asked for.
pub(crate) fn host(scene: &Scene) -> String {
    format!("serve.{}.svc.clusterset.local", scene.namespace)
}

/// What pods of a member say.
pub(crate) fn node(member: usize) -> String {
    format!("member{member}-control-plane")
}

/// The address of the import in a member.
pub(crate) async fn address(scene: &Scene, member: usize) -> Result<String> {
    let ip = scene.field(member, "ServiceImport serve", "/spec/ips/0").await?;
    Ok(ip.as_str().context("it is no text")?.to_owned())
}
