//! A way into a cluster that can be made bad: a TLS reverse proxy before an API server.
//!
//! It shows a certificate of the cluster's own authority, speaks HTTP/2 and HTTP/1.1, and lets watches stream through. It can also lie
//! ([`Proxy::lie`]), and list nothing ([`Proxy::hide`]).

mod lies;

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use axum_server::tls_rustls::RustlsConfig;
use futures::{StreamExt, stream};
use kube::{Client, Config};
use tokio::{sync::watch, task::AbortHandle};
use tombolo::{
    shell::{client::client, metrics::Metrics},
    webhook::tls::{Loaded, Serving},
};

use crate::{control_plane::ControlPlane, pki::Subject};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// What concerns one connection only.
const HOP_BY_HOP: [HeaderName; 5] =
    [header::CONNECTION, header::HOST, header::TE, header::TRANSFER_ENCODING, header::UPGRADE];

/// The largest object that an API server takes.
const LARGEST: usize = 3 << 20;
/// The largest list.
const LARGEST_LIST: usize = 256 << 20;

/// What becomes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They go through.
    Pass,
    /// They are answered with 500, and what streams is cut off.
    Fail,
    /// They go through after this time.
    Delay(Duration),
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Its URL.
    pub url: String,
    mode: watch::Sender<Mode>,
    lies: watch::Sender<lies::Lies>,
    hidden: watch::Sender<BTreeSet<String>>,
    task: AbortHandle,
}

#[derive(Clone)]
struct Way {
    /// Two connections: what streams must not hold up what does not.
    clients: [Client; 2],
    mode: watch::Receiver<Mode>,
    lies: watch::Receiver<lies::Lies>,
    hidden: watch::Receiver<BTreeSet<String>>,
}

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy before a cluster's API server; everything passes at first.
    pub fn start(plane: &ControlPlane) -> Result<Self> {
        let subject = Subject { user: "proxy", group: None };
        let pair = plane.authority.issue("proxy", subject, &["localhost"], &[LOOPBACK])?;
        let serving = Arc::new(Serving::new(Metrics::default().webhook));
        serving.replace(Loaded::new(&std::fs::read(&pair.cert)?, &std::fs::read(&pair.key)?, 0)?);
        // Nobody's: who asks shows who they are.
        let mut config = Config::new(plane.server.parse().context("the API server has no URL")?);
        let authority = plane.authority.certificate.as_bytes();
        config.root_cert = Some(certificates(authority)?);
        let (mode, receiver) = watch::channel(Mode::Pass);
        let (lies, told) = watch::channel(lies::Lies::new());
        let (hidden, shown) = watch::channel(BTreeSet::new());
        let clients = [client(&config, None)?, client(&config, None)?];
        let way = Way { clients, mode: receiver, lies: told, hidden: shown };
        let listener = std::net::TcpListener::bind(SocketAddr::new(LOOPBACK, 0)).context("no free port")?;
        listener.set_nonblocking(true)?;
        let url = format!("https://{}", listener.local_addr()?);
        let routes = Router::new().fallback(forward).with_state(way);
        let server = axum_server::from_tcp_rustls(listener, RustlsConfig::from_config(serving.config()))?;
        let task = tokio::spawn(async move {
            if let Err(e) = server.serve(routes.into_make_service()).await {
                eprintln!("a proxy ended: {e}");
            }
        });
        Ok(Self { url, mode, lies, hidden, task: task.abort_handle() })
    }

    /// Says from now on that the cluster has this EndpointSlice, ServiceExport or ServiceImport, in its lists and watches of all
    /// namespaces; in place of one that is there.
    pub fn lie(&self, object: serde_json::Value) -> Result<()> {
        let key = lies::key(&object).context("such an object cannot be lied about")?;
        let lie = lies::dated(object);
        self.lies.send_modify(|lies| drop(lies.insert(key, lie)));
        Ok(())
    }

    /// Tells the truth again.
    pub fn tell_the_truth(&self) {
        self.lies.send_modify(lies::Lies::clear);
    }

    /// Lists nothing of these kinds from now on, by their plurals, as a server that has not read its storage; a single object is still
    /// given to whoever asks for it. Watches of what is hidden, or shown again, end as too old.
    pub fn hide(&self, plurals: &[&str]) {
        self.hidden.send_replace(plurals.iter().map(|&plural| plural.to_owned()).collect());
    }

    /// Makes the way good or bad from now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(State(mut way): State<Way>, request: Request) -> Response {
    let mode = *way.mode.borrow_and_update();
    match mode {
        Mode::Fail => return failure("the proxy was told to fail"),
        Mode::Delay(time) => tokio::time::sleep(time).await,
        Mode::Pass => {}
    }
    let (mut parts, body) = request.into_parts();
    HOP_BY_HOP.iter().for_each(|name| drop(parts.headers.remove(name)));
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let streams = path.contains("watch=true") || path.contains("watch=1");
    let accept =
        parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let lied = lies::asked(&path, accept).filter(|_| parts.method == http::Method::GET);
    if lied.is_some() {
        // What is compressed cannot be changed.
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let plural =
        path.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
    let hides = way.hidden.borrow_and_update().contains(&plural) && parts.method == http::Method::GET;
    if hides {
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let Ok(body) = axum::body::to_bytes(body, LARGEST).await else {
        return failure("the request did not come whole");
    };
    let mut forwarded = http::Request::new(kube::client::Body::from(body.to_vec()));
    *forwarded.method_mut() = parts.method;
    *forwarded.headers_mut() = parts.headers;
    match path.parse() {
        Ok(uri) => *forwarded.uri_mut() = uri,
        Err(e) => return failure(&e.to_string()),
    }
    match way.clients[usize::from(streams)].send(forwarded).await {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            HOP_BY_HOP.iter().for_each(|name| drop(parts.headers.remove(name)));
            let mut body = Body::new(body);
            if let Some(plural) = lied.filter(|_| parts.status.is_success()) {
                parts.headers.remove(header::CONTENT_LENGTH);
                body = if streams {
                    lies::watch(body, plural, way.lies.clone())
                } else {
                    let Ok(whole) = axum::body::to_bytes(body, LARGEST_LIST).await else {
                        return failure("the answer did not come whole");
                    };
                    Body::from(lies::list(&whole, plural, &way.lies.borrow()))
                };
            }
            if hides && !streams && parts.status.is_success() {
                parts.headers.remove(header::CONTENT_LENGTH);
                let Ok(whole) = axum::body::to_bytes(body, LARGEST_LIST).await else {
                    return failure("the answer did not come whole");
                };
                body = Body::from(emptied(&whole));
            }
            if let Some(lie) = lies::one(&path, &way.lies.borrow()).filter(|_| parts.status.is_success()) {
                parts.headers.remove(header::CONTENT_LENGTH);
                parts.headers.remove(header::CONTENT_ENCODING);
                body = Body::from(lie.to_string());
            }
            let cut = async move { drop(way.mode.wait_for(|mode| *mode == Mode::Fail).await) };
            let body = body.into_data_stream().take_until(Box::pin(cut));
            let body = if streams { too_old_when(way.hidden, plural, body) } else { Body::from_stream(body) };
            let mut answer = Response::new(body);
            *answer.status_mut() = parts.status;
            *answer.headers_mut() = parts.headers;
            answer
        }
        Err(e) => failure(&format!("{e:?}")),
    }
}

/// A list with nothing in it.
fn emptied(list: &[u8]) -> Vec<u8> {
    let mut list: serde_json::Value = serde_json::from_slice(list).unwrap_or_default();
    list["items"] = serde_json::json!([]);
    if let Some(metadata) = list["metadata"].as_object_mut() {
        metadata.remove("continue");
        metadata.remove("remainingItemCount");
    }
    list.to_string().into_bytes()
}

/// A watch that ends as too old when its kind is hidden, or shown again: whoever watches lists anew.
fn too_old_when(
    mut hidden: watch::Receiver<BTreeSet<String>>,
    plural: String,
    body: impl futures::Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
) -> Body {
    let turned = Arc::new(AtomicBool::new(false));
    let noted = turned.clone();
    let turns = async move {
        let before = hidden.borrow().contains(&plural);
        if hidden.wait_for(|hidden| hidden.contains(&plural) != before).await.is_ok() {
            noted.store(true, Ordering::Relaxed);
        }
    };
    let last = stream::once(async move {
        turned.load(Ordering::Relaxed).then(|| Ok(Bytes::from(format!("{}\n", lies::TOO_OLD))))
    });
    Body::from_stream(body.take_until(Box::pin(turns)).chain(last.filter_map(std::future::ready)))
}

fn failure(why: &str) -> Response {
    let status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 500, "message": why,
    });
    (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "application/json")], status.to_string())
        .into_response()
}

/// The certificates of a PEM text, each as DER.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::pem_slice_iter(pem)
        .map(|certificate| Ok(certificate.context("the authority's certificate is none")?.to_vec()))
        .collect()
}
