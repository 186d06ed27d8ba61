//! A fleet whose hub and agents can be stopped and started.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tombolo_e2e::{
    bed::Bed,
    fleet::until_ready,
    scene::Scene,
    tombolo::{Component, Manner, binary},
};

/// The only hub need not wait until the Lease of the one before is over.
const ALONE: &str = "--leader-elect=false";

/// A bed's hub and agents. What is dropped is killed: nothing is finished, no Lease released.
pub(crate) struct Fleet {
    pub(crate) bed: Arc<Bed>,
    pub(crate) hub: Option<Component>,
    pub(crate) agents: Vec<Option<Component>>,
    program: PathBuf,
    /// Flags that all of them get.
    flags: Vec<String>,
}

// === impl Fleet ===

impl Fleet {
    /// Starts a hub and an agent a member, and makes them all members.
    pub(crate) async fn start(bed: Arc<Bed>) -> Result<Self> {
        Self::start_with(bed, &[]).await
    }

    /// The same, with flags for all of them.
    pub(crate) async fn start_with(bed: Arc<Bed>, flags: &[&str]) -> Result<Self> {
        bed.prepare_hub()?;
        let program = tokio::task::spawn_blocking(binary).await??;
        let agents = bed.members.iter().map(|_| None).collect();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut this = Self { hub: None, agents, program, bed, flags };
        this.start_hub().await?;
        try_join_all(this.bed.members.iter().map(|member| this.bed.join(&member.name, &[]))).await?;
        for member in 1..=this.bed.members.len() {
            this.start_agent(member).await?;
        }
        for member in &this.bed.members {
            until_ready(&this.bed.hub.client, &member.name, "True").await?;
        }
        Ok(this)
    }

    /// A namespace that these members have.
    pub(crate) async fn scene(&self, namespace: &str, places: &[usize]) -> Result<Scene> {
        let scene = Scene { bed: self.bed.clone(), namespace: namespace.to_owned() };
        for place in places {
            scene.apply(*place, [scene.here()]).await?;
        }
        Ok(scene)
    }

    pub(crate) async fn start_hub(&mut self) -> Result<()> {
        self.hub = None;
        let flags = [vec![ALONE.to_owned()], self.flags.clone()].concat();
        self.hub = Some(self.bed.start_hub(&self.program, "tombolo-hub", &flags).await?);
        Ok(())
    }

    pub(crate) async fn start_agent(&mut self, member: usize) -> Result<()> {
        self.agents[member - 1] = None;
        // The one before is gone for certain, so this one goes on with its Lease.
        let flags = [vec![format!("--lease-identity=agent-{member}")], self.flags.clone()].concat();
        let agent = self.bed.start_agent(&self.program, member, "tombolo-agent", &flags, Manner::default());
        self.agents[member - 1] = Some(agent.await?);
        Ok(())
    }

    /// Kills an agent.
    pub(crate) fn stop_agent(&mut self, member: usize) {
        self.agents[member - 1] = None;
    }

    pub(crate) async fn metrics(&self) -> Result<String> {
        self.hub.as_ref().context("there is no hub")?.says("/metrics").await
    }
}

/// The hub's id, which is on everything that it writes.
pub(crate) async fn hub_id(bed: &Bed) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    let mut data = secrets.get("tombolo-hub").await?.data.context("it has no data")?;
    Ok(String::from_utf8(data.remove("id").context("it has no id")?.0)?)
}
