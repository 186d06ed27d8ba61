//! Members of a bed's hub, made as users make them: by running `tombolo join`.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;

use crate::{bed::Bed, progress::say, tombolo::binary};

impl Bed {
    /// Runs a verb of `tombolo` as a user would, with all clusters in one kubeconfig and the hub as current context.
    pub async fn tombolo(&self, arguments: &[&str]) -> Result<Output> {
        let kubeconfig = self.dir().join("all.kubeconfig");
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let run = move || -> Result<Output> {
            let mut command = Command::new(binary()?);
            command.args(arguments).env("KUBECONFIG", kubeconfig).env("TOMBOLO_LOG", "warn");
            command.output().context("failed to run tombolo")
        };
        tokio::task::spawn_blocking(run).await?
    }

    /// Makes a member of the bed a member of its hub, by its name, and gives back what was said. The bed runs the agent itself.
    pub async fn join(&self, member: &str, flags: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(member);
        let kubeconfig = kubeconfig.to_str().context("a bed's folder has a name in UTF-8")?;
        let line = [&["join", member, "--kubeconfig", kubeconfig, "--agent", "none"], flags].concat();
        let output = self.tombolo(&line).await?;
        if !output.status.success() {
            bail!("tombolo join {member} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Makes all members of the bed members of its hub.
    pub async fn join_all(&self) -> Result<()> {
        let flags: Vec<_> = self.spec.join_flags.iter().map(String::as_str).collect();
        try_join_all(self.members.iter().map(|member| self.join(&member.name, &flags))).await?;
        say("the members joined");
        Ok(())
    }
}
