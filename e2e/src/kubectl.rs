//! kubectl, as a user would call it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::process::{self, finished};

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
        let command = self.command(arguments);
        process::said(&command, &self.output(arguments)?)
    }

    /// Runs it and gives back how it ended. It is ended where it takes longer than such a command can: who looks again and again must
    /// not wait for one look for ever.
    pub fn output(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finished(command.spawn().context("failed to start kubectl")?, limit(arguments))
            .with_context(|| format!("failed to run {command:?}"))
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
        let output = finished(child, limit(&["apply"])).context("kubectl apply")?;
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

/// How long a kubectl may take: what is asked for as `--timeout`, and some; scripts in pods less than those wait who retry them.
fn limit(arguments: &[&str]) -> Duration {
    const EXEC: Duration = Duration::from_secs(60);
    const USUAL: Duration = Duration::from_secs(120);
    // What follows `--` is for the program in the pod.
    let own = arguments.iter().take_while(|argument| **argument != "--");
    let asked =
        own.filter_map(|argument| argument.strip_prefix("--timeout=")?.strip_suffix('s')?.parse().ok());
    let usual = if arguments.contains(&"exec") { EXEC } else { USUAL };
    asked.map(|seconds: u64| Duration::from_secs(seconds + 30)).fold(usual, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubectl_that_hangs_is_ended_and_what_it_waits_for_by_itself_is_waited_for() {
        for (line, seconds) in [
            ("get pods", 120),
            ("exec caller -- sleep infinity", 60),
            ("rollout status deployment/serve --timeout=180s", 210),
            ("run request -- --timeout=3s", 120),
            ("run request -- --timeout=300s", 120),
        ] {
            assert_eq!(limit(&line.split(' ').collect::<Vec<_>>()).as_secs(), seconds, "{line}");
        }
    }
}
