//! `tombolo status` and `tombolo explain` in a terminal of 80 columns, as pictures.

use std::{net::Ipv4Addr, process::Stdio, sync::Arc};

use anyhow::{Context, Result, ensure};
use axum::{Router, response::Html, routing::get};
use serde_json::json;
use tokio::net::TcpListener;
use tombolo_e2e::{
    bed::Bed,
    browser::{Browser, Look},
    scene::{HUB, Scene, config_map, places},
    tombolo::{binary, left_on_a_terminal},
    wait::until,
};

use super::{ground::*, live::exported};

/// How wide the terminal is.
const COLUMNS: usize = 80;
/// The size of a character in pixels, as the style below has it.
const WIDE: u32 = 9;
const HIGH: u32 = 20;
const STYLE: &str = "body{margin:0;padding:18px 22px;background:#10191f;color:#dfe8ea}pre{margin:0;font:15px/20px 'DejaVu Sans Mono',monospace}\
    .prompt{color:#7fa0ab}.c1{font-weight:700}.c2{opacity:.65}.c31{color:#ff8a7d}.c32{color:#63c9a8}.c33{color:#e6b85c}.c34{color:#86a9d2}.c36{color:#6cc6d9}";

/// What a command says on a terminal, with its colours.
async fn on_a_terminal(bed: &Bed, line: &str) -> Result<String> {
    let program = tokio::task::spawn_blocking(binary).await??;
    let mut command = tokio::process::Command::new("script");
    let line = format!("stty cols {COLUMNS} rows 60; {} {line}", program.display());
    command.args(["--quiet", "--command"]).arg(line).arg("/dev/null");
    command.env("KUBECONFIG", bed.dir().join("all.kubeconfig")).env("TERM", "xterm-256color");
    command.env_remove("COLUMNS").env_remove("NO_COLOR").stdin(Stdio::null());
    let output = command.output().await.context("failed to run script, of bsdutils")?;
    Ok(left_on_a_terminal(&String::from_utf8(output.stdout)?))
}

/// A text with a terminal's colours as HTML.
fn painted(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let mut parts = escaped.split("\x1b[");
    let mut html = parts.next().unwrap_or_default().to_owned();
    let mut open = false;
    for part in parts {
        let (codes, rest) = part.split_once('m').unwrap_or(("0", part));
        if std::mem::take(&mut open) {
            html += "</span>";
        }
        let classes: Vec<_> = codes
            .split(';')
            .filter(|code| !matches!(*code, "" | "0" | "22" | "39"))
            .map(|code| format!("c{code}"))
            .collect();
        if !classes.is_empty() {
            html += &format!("<span class=\"{}\">", classes.join(" "));
            open = true;
        }
        html += rest;
    }
    html + if open { "</span>" } else { "" }
}

/// The same without colours.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

pub(crate) async fn status_and_explain_are_pictured_in_a_terminal_of_80_columns(bed: Arc<Bed>) -> Result<()> {
    let scene = Scene::open(&bed, "pictured").await?;
    scene
        .apply(
            HUB,
            [config_map("settings", json!({})), places("settings", &["ConfigMap settings"], &[1, 2, 9])],
        )
        .await?;
    for (member, port) in [(1, 80), (2, 8080)] {
        scene.apply(member, [scene.here()]).await?;
        scene.apply(member, exported("cart", member, port)).await?;
    }
    let browser = Browser::start().await?;
    for (name, line, word) in [
        ("terminal-status", "status -n pictured", "not well"),
        ("terminal-explain", "explain configmap/settings -n pictured", "member9"),
    ] {
        let text = until(&format!("`tombolo {line}` tells of {word}"), PATIENCE, async || {
            let text = on_a_terminal(&bed, line).await?;
            ensure!(text.contains(word), "{text}");
            Ok(text)
        })
        .await?;
        ensure!(text.contains("\x1b["), "there are no colours: {text}");
        let shown = plain(&text);
        let wide = shown.lines().find(|line| line.chars().count() > COLUMNS);
        ensure!(wide.is_none(), "a line is wider than the terminal: {wide:?}");
        let prompt = format!("<span class=\"prompt\">$</span> tombolo {line}\n");
        let html = format!(
            "<!doctype html><meta charset=utf-8><style>{STYLE}</style><pre>{prompt}{}</pre>",
            painted(text.trim_end())
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let server = tokio::spawn(
            axum::serve(listener, Router::new().route("/", get(async move || Html(html)))).into_future(),
        );
        let lines = u32::try_from(shown.trim_end().lines().count())? + 1;
        let look = Look { width: 44 + WIDE * 81, height: 36 + HIGH * lines, dark: true };
        let tab = browser.open(&url, look).await?;
        tab.until(&format!("document.querySelector('pre')?.innerText.includes({})", json!(word)), PATIENCE)
            .await?;
        ensure!(
            tab.value("document.documentElement.scrollWidth > innerWidth").await? == false,
            "it is cut off"
        );
        tab.picture(&picture(name)).await?;
        server.abort();
    }
    Ok(())
}
