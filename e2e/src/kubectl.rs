//! kubectl, as a user would call it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

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

    /// The same in a namespace, which is created.
    pub fn in_namespace(self, namespace: &str) -> Result<Self> {
        self.run(&["create", "namespace", namespace])?;
        Ok(Self { namespace: Some(namespace.to_owned()), ..self })
    }

    /// Runs it and gives back what it printed; what it complained about is in the error.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.command(arguments))
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
