//! kubectl on the hub, and what it said.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::sync::OnceCell;
use tombolo_e2e::{bed::Bed, wait::until};

/// The view that admission reads follows the API server by watches: a few milliseconds behind it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// As many kubectls as a test runs at once.
pub(crate) const AT_ONCE: usize = 4;

/// What kubectl said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Whether it did what it was asked to.
    pub(crate) done: bool,
    /// Warnings and errors, then what it did; a time of day is `TIME`.
    pub(crate) text: String,
}

/// Runs kubectl on the hub, in a folder, perhaps with something to read.
pub(crate) async fn kubectl(
    bed: &Bed,
    folder: &Path,
    arguments: &[&str],
    input: Option<String>,
) -> Result<Said> {
    let mut command = bed.kubectl("hub").command(arguments);
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().context("failed to start kubectl")?;
        let mut pipe = child.stdin.take().context("kubectl's input is piped")?;
        pipe.write_all(input.unwrap_or_default().as_bytes())?;
        drop(pipe);
        child.wait_with_output().context("failed to read what kubectl says")
    })
    .await??;
    let text =
        [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok(Said { done: output.status.success(), text: normalised(&text) })
}

/// The same where nothing depends on the folder.
pub(crate) async fn ask(bed: &Bed, arguments: &[&str], input: impl ToString) -> Result<Said> {
    kubectl(bed, &folder(""), arguments, Some(input.to_string())).await
}

/// The same where it must succeed.
pub(crate) async fn run(bed: &Bed, arguments: &[&str], input: impl ToString) -> Result<String> {
    let said = ask(bed, arguments, input).await?;
    ensure!(said.done, "kubectl {}: {}", arguments.join(" "), said.text);
    Ok(said.text)
}

/// An object as it is stored.
pub(crate) async fn stored(bed: &Bed, arguments: &[&str]) -> Result<Value> {
    let text = run(bed, &[&["get", "-o", "json"], arguments].concat(), "").await?;
    serde_json::from_str(&text).with_context(|| format!("kubectl get gave {text}"))
}

/// A folder of this package.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Makes sure that the hub has the clusters of `e2e/admission/clusters.yaml` and that admission knows of them.
pub(crate) async fn clusters(bed: &Bed) -> Result<()> {
    static DONE: OnceCell<()> = OnceCell::const_new();
    let make = async || {
        run(bed, &["apply", "-f", "admission/clusters.yaml"], "").await?;
        let policy = serde_json::json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": { "name": "some" },
            "spec": {
                "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
                "placement": { "clusterAffinity": { "clusterNames": ["member1", "member2", "member3"] } },
            },
        });
        until("admission knows the clusters", PATIENCE, async || {
            let said = ask(bed, &["create", "--dry-run=server", "-f", "-"], &policy).await?;
            ensure!(said.done && !said.text.contains("Warning"), "{}", said.text);
            Ok(())
        })
        .await
    };
    DONE.get_or_try_init(make).await.map(drop)
}

/// The one place where what kubectl prints is changed before it is compared: times become `TIME`, that a run is dry is not
/// told, and spaces at the end are cut.
fn normalised(text: &str) -> String {
    let text = text.replace(" (server dry run)", "");
    let mut parts = text.trim_end().split("since ");
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        normal.push_str("since ");
        match part.split_at_checked("2026-01-01T00:00:00Z".len()) {
            Some((time, rest)) if is_time(time) => normal.extend(["TIME", rest]),
            _ => normal.push_str(part),
        }
    }
    normal
}

fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:ddZ";
    text.chars().zip(form.chars()).all(|(c, form)| if form == 'd' { c.is_ascii_digit() } else { c == form })
}
