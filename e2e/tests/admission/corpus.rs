//! The manifests of `e2e/admission` and what kubectl must say to each.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, stream};
use tombolo_e2e::{bed::Bed, wait::until};

use crate::said::{AT_ONCE, PATIENCE, Said, clusters, folder, kubectl, run};

/// A manifest and what must come of it.
struct Case {
    folder: PathBuf,
    name: String,
    refused: bool,
}

pub(crate) async fn every_refused_manifest_gets_exactly_its_message(bed: Arc<Bed>) -> Result<()> {
    check(&bed, "refused", 100).await
}

pub(crate) async fn every_warned_manifest_gets_exactly_its_warnings(bed: Arc<Bed>) -> Result<()> {
    check(&bed, "warned", 30).await
}

async fn check(bed: &Bed, kind: &str, at_least: usize) -> Result<()> {
    clusters(bed).await?;
    let cases = Case::all(kind)?;
    ensure!(
        cases.len() >= at_least,
        "there are {} manifests in {kind}, {at_least} were there once",
        cases.len()
    );
    let namespaces: Vec<_> = cases.iter().map(|case| case.namespace().to_string()).collect();
    run(bed, &["create", "-f", "-"], namespaces.join("\n---\n")).await?;
    let failed: Vec<String> = stream::iter(&cases)
        .map(|case| async move {
            case.check(bed).await.err().map(|e| format!("{kind}/{}.yaml: {e:#}", case.name))
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(async |failed| failed)
        .collect()
        .await;
    ensure!(
        failed.is_empty(),
        "{} of {} manifests:\n\n{}\n\nIf the new texts are better, `UPDATE=1 cargo test -p tombolo-e2e --test admission` keeps \
         them; look at the difference before you commit it.",
        failed.len(),
        cases.len(),
        failed.join("\n\n")
    );
    Ok(())
}

// === impl Case ===

impl Case {
    fn all(kind: &str) -> Result<Vec<Self>> {
        let folder = folder("admission").join(kind);
        let (mut manifests, mut others) = (BTreeSet::new(), BTreeSet::new());
        for entry in fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
            let file = entry?.file_name().into_string().ok().context("a file's name is no text")?;
            match file.split_once('.') {
                Some((name, "yaml")) => manifests.insert(name.to_owned()),
                Some((name, "setup.yaml" | "txt")) => others.insert(name.to_owned()),
                _ => bail!("{kind}/{file} is none of the files that belong there"),
            };
        }
        let lonely: Vec<_> = others.difference(&manifests).collect();
        ensure!(lonely.is_empty(), "there is no manifest in {kind} beside {lonely:?}");
        let refused = kind == "refused";
        Ok(manifests.into_iter().map(|name| Self { folder: folder.clone(), name, refused }).collect())
    }

    fn namespace(&self) -> serde_json::Value {
        serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.name } })
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// What it does not need to wait for is judged at the first look.
    async fn check(&self, bed: &Bed) -> Result<()> {
        let prepared = self.file("setup.yaml").is_file();
        if prepared {
            let setup = format!("{}.setup.yaml", self.name);
            let apply = ["apply", "--server-side", "--namespace", &self.name, "-f", &setup];
            let said = kubectl(bed, &self.folder, &apply, None).await?;
            ensure!(said.done, "its setup does not apply: {}", said.text);
        }
        if std::env::var_os("UPDATE").is_some_and(|update| update == "1") {
            ensure!(std::env::var_os("CI").is_none(), "UPDATE=1 is for people, not for CI");
            self.renew(bed).await?;
        }
        let expected = read(&self.file("txt"))?;
        if prepared {
            let look = async || self.compare(&expected, &self.said(bed, true).await?);
            until("what it should say of the setup", PATIENCE, look).await?;
        }
        self.compare(&expected, &self.said(bed, false).await?)
    }

    async fn said(&self, bed: &Bed, dry: bool) -> Result<Said> {
        let verb = match self.name.split('-').next() {
            Some("update") => "replace",
            Some("delete") => "delete",
            _ => "create",
        };
        let (file, text) = (format!("{}.yaml", self.name), read(&self.file("yaml"))?);
        let mut arguments = vec![verb, "-f", &file];
        let elsewhere = text.contains("\n  namespace: ") || text.contains("\nkind: Cluster");
        if !elsewhere {
            arguments.extend(["--namespace", &self.name]);
        }
        if dry {
            arguments.push("--dry-run=server");
        }
        kubectl(bed, &self.folder, &arguments, None).await
    }

    fn compare(&self, expected: &str, said: &Said) -> Result<()> {
        ensure!(
            said.done != self.refused,
            "it is {}: {}",
            if said.done { "admitted" } else { "refused" },
            said.text
        );
        ensure!(self.refused || said.text.contains("Warning: "), "nothing is warned about");
        ensure!(
            said.text == expected.trim_end(),
            "kubectl says otherwise:\n{}",
            difference(expected.trim_end(), &said.text)
        );
        Ok(())
    }

    /// Keeps what is said once it is the same three times in a row: by then the view has the setup.
    async fn renew(&self, bed: &Bed) -> Result<()> {
        let (mut last, mut same) = (String::new(), 0);
        while same < 3 {
            let said = self.said(bed, true).await?.text;
            same = if said == last { same + 1 } else { 0 };
            last = said;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        fs::write(self.file("txt"), last + "\n").context("failed to write the text")
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// What is to go and what is new, line by line, without the lines that both begin and end with.
fn difference(expected: &str, found: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let shorter = old.len().min(new.len());
    let first = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let last = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(shorter - first)
        .take_while(|(old, new)| old == new)
        .count();
    let marked =
        |mark: &str, lines: &[&str]| lines.iter().map(|line| format!("{mark} {line}\n")).collect::<String>();
    marked("-", &old[first..old.len() - last]) + &marked("+", &new[first..new.len() - last])
}
