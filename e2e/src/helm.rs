//! Helm, as a user would call it, on the charts of this checkout.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    bed::Bed,
    process::run,
    tools::{Tool, Tools},
};

/// The namespace that releases are installed in unless told otherwise.
pub const NAMESPACE: &str = "tombolo-system";

/// A chart of this checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chart {
    /// The control plane.
    Hub,
    /// The member-side controller.
    Agent,
}

/// Helm, with files of its own in a bed's folder.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    home: PathBuf,
    namespace: String,
}

// === impl Chart ===

impl Chart {
    /// Its name, and that of its releases.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hub => "tombolo-hub",
            Self::Agent => "tombolo-agent",
        }
    }

    /// Where it is.
    pub fn folder(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts").join(self.name())
    }
}

// === impl Helm ===

impl Helm {
    /// Helm for a bed; built first if this machine has none.
    pub async fn on(bed: &Bed) -> Result<Self> {
        let tools = tokio::task::spawn_blocking(|| Tools::provide(&[Tool::Helm])).await??;
        let (program, home) = (tools.path(Tool::Helm).to_owned(), bed.dir().join("state/helm"));
        Ok(Self { program, home, namespace: NAMESPACE.to_owned() })
    }

    /// The same for releases in another namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// Looks whether a chart is well made, with values beside its defaults.
    pub fn lint(&self, chart: Chart, values: &[&str]) -> Result<String> {
        let mut command = self.command(&["lint", "--strict"]);
        run(command.args(set(values)).arg(chart.folder()))
    }

    /// What a chart makes, as text.
    pub fn render(&self, chart: Chart, values: &[&str]) -> Result<String> {
        let mut command = self.command(&["template"]);
        run(command.args(set(values)).arg(chart.name()).arg(chart.folder()))
    }

    /// What a chart makes, as objects.
    pub fn objects(&self, chart: Chart, values: &[&str]) -> Result<Vec<Value>> {
        objects(&self.render(chart, values)?)
    }

    /// Installs a chart in a cluster, or changes what is installed there.
    pub fn install(&self, bed: &Bed, cluster: &str, chart: Chart, values: &[&str]) -> Result<String> {
        let mut command = self.command(&["upgrade", "--install", "--create-namespace"]);
        command.args(set(values)).arg(chart.name()).arg(chart.folder());
        run(at(&mut command, bed, cluster))
    }

    /// Takes away what a chart installed in a cluster.
    pub fn uninstall(&self, bed: &Bed, cluster: &str, chart: Chart) -> Result<String> {
        run(at(&mut self.command(&["uninstall", chart.name()]), bed, cluster))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--namespace", &self.namespace]);
        for folder in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{folder}_HOME"), self.home.join(folder.to_lowercase()));
        }
        command
    }
}

/// The objects of a stream of YAML documents.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).context("failed to read what the chart makes")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn at<'a>(command: &'a mut Command, bed: &Bed, cluster: &str) -> &'a mut Command {
    command.arg("--kubeconfig").arg(bed.kubeconfig(cluster))
}

/// Values as flags: `a.b=c` as text or number, `a.b:=[1]` as JSON.
fn set(values: &[&str]) -> Vec<String> {
    let flag = |value: &&str| match value.split_once(":=") {
        Some((key, json)) => ["--set-json".to_owned(), format!("{key}={json}")],
        None => ["--set".to_owned(), (*value).to_owned()],
    };
    values.iter().flat_map(flag).collect()
}
