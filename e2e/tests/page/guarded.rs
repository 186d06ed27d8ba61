//! Who may look, and what looking costs.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tombolo_e2e::{
    bed::Bed,
    browser::{Browser, Look},
    scene::{HUB, Scene, object},
    tombolo::{Component, binary},
    wait::until,
};

use super::ground::*;

/// The head of what is answered to a request with these headers.
async fn head(address: SocketAddr, path: &str, headers: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut answer).await? > 0, "it ends early");
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A replica that asks for tokens.
async fn replica(bed: &Bed, name: &str) -> Result<Component> {
    let address = bed.hub_process().and_then(Component::webhook).context("there is a hub")?;
    let binary = tokio::task::spawn_blocking(binary).await??;
    // Behind the first one's address, so that the webhook's configuration stays.
    let url = format!("--webhook-url=https://{address}");
    let flags = ["--status-page".to_owned(), "--health-auth=token".to_owned(), url];
    bed.start_hub(&binary, name, &flags).await
}

/// The token of an account that may get these paths.
async fn token(scene: &Scene, account: &str, paths: &[&str]) -> Result<String> {
    scene.apply(HUB, [scene.here(), object("ServiceAccount", account, json!({}))]).await?;
    if !paths.is_empty() {
        let rules = json!({ "rules": [{ "nonResourceURLs": paths, "verbs": ["get"] }] });
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account });
        let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": scene.namespace });
        let binding = json!({ "roleRef": role, "subjects": [subject] });
        scene
            .apply(
                HUB,
                [object("ClusterRole", account, rules), object("ClusterRoleBinding", account, binding)],
            )
            .await?;
    }
    let made = scene.bed.kubectl("hub").run(&["create", "token", account, "-n", &scene.namespace])?;
    Ok(made.trim().to_owned())
}

pub(crate) async fn whoever_may_not_is_not_let_in(bed: Arc<Bed>) -> Result<()> {
    let scene = Scene { bed: bed.clone(), namespace: "watchers".to_owned() };
    let nobody = token(&scene, "nobody-in-particular", &[]).await?;
    let scraper = token(&scene, "scraper", &["/metrics"]).await?;
    let viewer = token(&scene, "viewer", &["/status"]).await?;
    let hub = replica(&bed, "tombolo-hub-guarded").await?;
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let basic =
        |token: &str| format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("me:{token}")));
    let paths = ["/metrics", "/status/", "/status/events", "/status/page.js"];
    for (headers, codes) in [
        (String::new(), [401; 4]),
        (bearer("no.token.atall"), [401; 4]),
        (bearer(&nobody), [403; 4]),
        (bearer(&scraper), [200, 403, 403, 403]),
        (bearer(&viewer), [403, 200, 200, 200]),
        (basic(&viewer), [403, 200, 200, 200]),
        (basic("nonsense"), [401; 4]),
    ] {
        for (path, code) in paths.iter().zip(codes) {
            // An API server takes a moment to know a role.
            until(&format!("{path} is answered {code}"), PATIENCE, async || {
                let answer = head(hub.health(), path, &headers).await?;
                ensure!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{headers:.20}: {answer}");
                ensure!(answer.contains("www-authenticate: Basic") == (code == 401), "{answer}");
                Ok(())
            })
            .await?;
        }
    }
    // Probes come without a token; and a hub that does not ask lets everybody in.
    for path in ["/livez", "/readyz"] {
        ensure!(head(hub.health(), path, "").await?.starts_with("HTTP/1.1 200 "), "{path}");
    }
    let open = bed.hub_process().context("there is a hub")?.health();
    for path in paths {
        ensure!(head(open, path, "").await?.starts_with("HTTP/1.1 200 "), "{path}");
    }
    let page = head(open, "/status/", "").await?;
    ensure!(page.contains("content-security-policy: default-src 'none'"), "{page}");
    Ok(())
}

pub(crate) async fn a_replica_that_does_not_lead_says_so_and_a_browser_can_log_in(
    bed: Arc<Bed>,
) -> Result<()> {
    let scene = Scene { bed: bed.clone(), namespace: "watchers".to_owned() };
    let viewer = token(&scene, "viewer", &["/status"]).await?;
    let hub = replica(&bed, "tombolo-hub-second").await?;
    let browser = Browser::start().await?;
    // As a user answers the browser's question for name and password.
    let url = format!("http://me:{viewer}@{}/status/", hub.health());
    let tab = browser.open(&url, Look::default()).await?;
    tab.until("document.querySelectorAll('.island.is-well').length === 2", PATIENCE).await?;
    tab.until("document.getElementById('replica').innerText.includes('does not lead')", PATIENCE).await
}

pub(crate) async fn only_so_many_may_look_at_a_time(bed: Arc<Bed>) -> Result<()> {
    let address = bed.hub_process().context("there is a hub")?.health();
    // As many as may look, and one more.
    let mut viewers = Vec::new();
    for _ in 0..32 {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(format!("GET /status/events HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
            .await?;
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains("event: atlas") {
            ensure!(stream.read_buf(&mut answer).await? > 0, "it ends early");
        }
        viewers.push(stream);
    }
    let one_more = head(address, "/status/events", "").await?;
    ensure!(one_more.starts_with("HTTP/1.1 503 "), "{one_more}");
    drop(viewers);
    // When they are gone others may.
    until("somebody else may look", PATIENCE, async || {
        let answer = head(address, "/status/events", "").await?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        Ok(())
    })
    .await
}
