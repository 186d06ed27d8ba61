//! kubectl, as a user would call it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::process::run;

/// kubectl for one cluster.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

// === impl Kubectl ===

impl Kubectl {
    /// kubectl with a kubeconfig.
    pub fn new(program: &Path, kubeconfig: PathBuf) -> Self {
        Self { program: program.to_owned(), kubeconfig, namespace: None }
    }

    /// The same in a namespace, which is created and can hold pods: none is admitted before the namespace has its ServiceAccount.
    pub fn in_namespace(self, namespace: &str) -> Result<Self> {
        self.run(&["create", "namespace", namespace])?;
        let inside = Self { namespace: Some(namespace.to_owned()), ..self };
        inside.run(&["wait", "--for=create", "--timeout=90s", "serviceaccount/default"])?;
        Ok(inside)
    }

    /// Runs it and gives back what it printed; what it complained about is in the error.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.command(arguments))
    }

    /// Applies manifests that are given as text.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        let mut child = self
            .command(&["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start kubectl")?;
        child.stdin.take().context("kubectl has no input")?.write_all(manifests.as_bytes())?;
        let output = child.wait_with_output().context("failed to wait for kubectl")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl apply: {}", said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The command itself.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(namespace) = &self.namespace {
            command.arg(format!("--namespace={namespace}"));
        }
        command.args(arguments);
        command
    }
}
