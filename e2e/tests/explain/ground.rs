//! What these tests share: the command, and words for what it says.

use std::{process::Output, sync::Arc};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::sync::OnceCell;
use tombolo_e2e::{
    bed::Bed,
    fleet::until_ready,
    scene::{HUB, PATIENCE, Scene},
    wait::until,
};

static READY: OnceCell<()> = OnceCell::const_new();

/// A scene in a namespace that the hub and the given members have.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str, members: &[usize]) -> Result<Scene> {
    READY
        .get_or_try_init(async || {
            for member in &bed.members {
                until_ready(&bed.hub.client, &member.name, "True").await?;
            }
            anyhow::Ok(())
        })
        .await?;
    let scene = Scene { bed: bed.clone(), namespace: namespace.to_owned() };
    for place in [&[HUB], members].concat() {
        scene.apply(place, [scene.here()]).await?;
    }
    Ok(scene)
}

/// Runs `tombolo` with the hub as current context.
pub(crate) async fn tombolo(bed: &Bed, line: &[&str]) -> Result<(Output, String)> {
    let output = bed.tombolo(line).await?;
    let text = String::from_utf8(output.stdout.clone())?;
    Ok((output, text))
}

/// What `tombolo explain` says of an object in the scene's namespace.
pub(crate) async fn explained(scene: &Scene, what: &str) -> Result<String> {
    let (output, text) = tombolo(&scene.bed, &["explain", what, "-n", &scene.namespace]).await?;
    let failed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!text.is_empty(), "it says nothing: {failed}");
    Ok(text)
}

/// Waits until the first line of an explanation has all of these words, and gives the whole back.
pub(crate) async fn begins(scene: &Scene, what: &str, words: &[&str]) -> Result<String> {
    let text = until(&format!("the explanation of {what} begins with {words:?}"), PATIENCE, async || {
        let text = explained(scene, what).await?;
        let first = text.lines().next().unwrap_or_default();
        let lacking: Vec<_> = words.iter().filter(|word| !first.contains(**word)).collect();
        ensure!(lacking.is_empty(), "it lacks {lacking:?}: {first}");
        Ok(text)
    })
    .await?;
    eprintln!("{}\n", text.trim_end());
    Ok(text)
}

/// The whole status as JSON.
pub(crate) async fn status(bed: &Bed) -> Result<Value> {
    let (_, text) = tombolo(bed, &["status", "-A", "-o", "json"]).await?;
    serde_json::from_str(&text).with_context(|| format!("it is no JSON: {text}"))
}
