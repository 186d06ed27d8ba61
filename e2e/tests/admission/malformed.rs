//! What no API server would send, straight to the webhook's port over TLS.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tombolo_e2e::bed::Bed;

use crate::said::{run, stored};

/// An API server gives up after five seconds, and so does the webhook.
const SLOWEST: Duration = Duration::from_secs(7);
/// Longer than anything that the webhook waits for within a request.
const UNUSED: Duration = Duration::from_secs(8);

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// The webhook, by the address and the authorities that API servers have.
#[derive(Clone)]
struct Webhook {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

pub(crate) async fn whatever_is_sent_to_the_webhook_it_answers_and_goes_on(bed: Arc<Bed>) -> Result<()> {
    let webhook = Webhook::of(&bed).await?;
    let on_both = webhook.clone();
    tokio::task::spawn_blocking(move || {
        ["/validate", "/mutate"].into_iter().try_for_each(|route| on_both.try_on(route))
    })
    .await??;

    for (start, expected) in [
        ("GET /validate", "405"),
        ("DELETE /mutate", "405"),
        ("GET /", "404"),
        ("POST /validate/../../etc/passwd", "404"),
        ("nonsense", "400"),
    ] {
        let request =
            format!("{start} HTTP/1.1\r\nhost: webhook\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let answer = webhook.clone().send(request.into_bytes()).await?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{start}: {answer}");
    }
    // A kind that is none of our business is let through, and it is said so.
    let foreign = review("CREATE").to_string();
    let answer = webhook.clone().send(post("/validate", "application/json", &foreign, foreign.len())).await?;
    let response = &response(&answer)?["response"];
    ensure!(response["allowed"] == true && response["uid"] == "a-uid", "{answer}");
    ensure!(
        response["warnings"][0].as_str().is_some_and(|text| text.contains("nothing was checked")),
        "{answer}"
    );

    let ready = bed.hub_process().context("the bed has a hub")?.says("/readyz").await?;
    ensure!(ready.starts_with("HTTP/1.0 200"), "it is not ready any more: {ready}");
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": { "name": "after-all-that" },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "a" }] },
    });
    run(&bed, &["create", "-f", "-"], &policy).await.map(drop)
}

/// API servers keep connections for 90 s and lose the request that they send on one while the other side closes it.
pub(crate) async fn a_connection_that_is_not_used_for_a_while_is_not_closed_by_the_webhook(
    bed: Arc<Bed>,
) -> Result<()> {
    let webhook = Webhook::of(&bed).await?;
    tokio::task::spawn_blocking(move || {
        let mut stream = webhook.connect(UNUSED)?;
        for _ in 0..2 {
            stream.write_all(b"GET / HTTP/1.1\r\nhost: webhook\r\n\r\n")?;
            let answer = read(&mut stream)?;
            ensure!(answer.starts_with("HTTP/1.1 404"), "{answer:?}");
            // Nothing is to be heard: neither more of an answer, nor the end.
            let heard = stream.read(&mut [0; 1]).map_err(|e| e.kind());
            ensure!(heard == Err(ErrorKind::WouldBlock), "within {UNUSED:?} it was {heard:?}");
        }
        Ok(())
    })
    .await?
}

/// Reads an answer without a body.
fn read(stream: &mut Stream) -> Result<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("the connection ended before the answer did")?;
        answer.extend(byte);
    }
    Ok(String::from_utf8(answer)?)
}

// === impl Webhook ===

impl Webhook {
    async fn of(bed: &Bed) -> Result<Self> {
        let configuration = stored(bed, &["validatingwebhookconfiguration", "tombolo"]).await?;
        let client = &configuration["webhooks"][0]["clientConfig"];
        let url = client["url"].as_str().context("the webhook has a URL")?;
        let address = url
            .strip_prefix("https://")
            .and_then(|url| url.strip_suffix("/validate"))
            .context("an address")?;
        let authorities: ByteString = serde_json::from_value(client["caBundle"].clone())?;
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(&authorities.0) {
            roots.add(authority?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address: address.parse()?, config: Arc::new(config) })
    }

    /// Bodies that are no admission requests; each gets an answer that says why.
    fn try_on(&self, route: &str) -> Result<()> {
        let no_review = "the request is no AdmissionReview: ";
        let (deep, huge) = ("[".repeat(1 << 20), "x".repeat(20 << 20));
        let empty = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview" }).to_string();
        let strange = review("PATCH").to_string();
        let table: [(&str, &str, &str); 9] = [
            ("application/json", "", no_review),
            ("application/json", "\u{0}\u{1}garbage", no_review),
            ("application/json", "{\"request\": {\"uid\": 7}}", no_review),
            ("application/json", &deep, no_review),
            ("application/json", &huge, "the request is larger than 8388608 bytes"),
            ("application/json", &empty, "the AdmissionReview has no request"),
            ("application/json", &strange, "the operation \"PATCH\" is unknown"),
            ("text/yaml", "a: b", "the content type must be application/json, not \"text/yaml\""),
            ("", "{}", "the content type must be application/json, not \"\""),
        ];
        for (kind, body, message) in table {
            let what = format!("POST {route} {kind} {:?}", &body[..body.len().min(40)]);
            let check = || {
                let answer = self.exchange(&post(route, kind, body, body.len()))?;
                ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                let review = response(&answer)?;
                let response = &review["response"];
                let said = response["status"]["message"].as_str().is_some_and(|text| text.contains(message));
                ensure!(
                    review["kind"] == "AdmissionReview" && response["allowed"] == false && said,
                    "{answer}"
                );
                Ok(())
            };
            check().context(what)?;
        }
        // One that never comes to its end.
        let answer = self.exchange(&post(route, "application/json", "{", 1000))?;
        ensure!(
            answer.contains("the request did not arrive within 5s"),
            "a request that does not end: {answer}"
        );
        Ok(())
    }

    async fn send(self, request: Vec<u8>) -> Result<String> {
        tokio::task::spawn_blocking(move || self.exchange(&request)).await?
    }

    /// A connection on which a wait for an answer is given up after a while.
    fn connect(&self, patience: Duration) -> Result<Stream> {
        let connection = ClientConnection::new(self.config.clone(), ServerName::from(self.address.ip()))?;
        let socket = TcpStream::connect_timeout(&self.address, SLOWEST)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(SLOWEST))?;
        Ok(StreamOwned::new(connection, socket))
    }

    /// Sends as much of a request as is taken, and gives back the answer.
    fn exchange(&self, request: &[u8]) -> Result<String> {
        let mut stream = self.connect(SLOWEST)?;
        // An answer may come, and the connection may end, before all is said; what has come is read all the same.
        let _ = stream.write_all(request).and_then(|()| stream.flush());
        let StreamOwned { conn: mut connection, sock: mut socket } = stream;
        let mut answer = Vec::new();
        let ended = loop {
            match connection.read_tls(&mut socket) {
                Ok(0) => break "it ended".to_owned(),
                Ok(_) => connection.process_new_packets().map(drop)?,
                Err(e) => break e.to_string(),
            }
            // It ends with "nothing more for now".
            let _ = connection.reader().read_to_end(&mut answer);
        };
        ensure!(!answer.is_empty(), "there was no answer within {SLOWEST:?}: {ended}");
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn post(route: &str, kind: &str, body: &str, length: usize) -> Vec<u8> {
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    let head = format!(
        "POST {route} HTTP/1.1\r\nhost: webhook\r\nconnection: close\r\n{kind}content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// What an answer carries.
fn response(answer: &str) -> Result<Value> {
    let (_, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer}"))?;
    serde_json::from_str(body).with_context(|| format!("no AdmissionReview: {answer}"))
}

fn review(operation: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "a-uid", "kind": { "group": "example.com", "version": "v1", "kind": "Widget" },
            "operation": operation, "object": { "metadata": { "name": "a" } },
        },
    })
}
