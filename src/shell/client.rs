//! Clients of API servers: the one way in which they are made, for the hub's own and for members.
//!
//! [`client`] gives one connection pool, which over HTTP/2 is one connection. kube's own stack speaks HTTP/1.1 only, leaves Nagle's
//! delay on, waits for answers without end and retries for minutes; this one is made of the same parts and does none of that: no
//! request waits longer than [`ANSWER`] for the head of its answer, and none is retried.
//!
//! With a fence, no mutating request starts once the [`Claim`] to lead is over.

use std::{
    error::Error as StdError,
    mem,
    pin::Pin,
    sync::{Arc, LazyLock},
    task::{Context as Task, Poll},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{USER_AGENT, WARNING},
};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            self,
            connect::{HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::{
    lease::Claim,
    metrics::{self, verb},
};
use crate::decide::ids::ClusterName;

/// What the head of an answer may take, connecting included; bodies take as long as they take.
pub const ANSWER: Duration = Duration::from_secs(10);
/// What a TCP connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// What a connection may take until it is ready for requests: TCP, proxy, TLS.
const SETUP: Duration = Duration::from_secs(8);
/// Between two signs of life that are asked of the peer, and what each may take: a dead connection is noticed in twice that.
const PING: Duration = Duration::from_secs(5);
/// Who asks; audit logs tell replicas apart by it, since a pod's host name is its own.
static AGENT: LazyLock<HeaderValue> = LazyLock::new(|| {
    let agent = concat!("tombolo/", env!("CARGO_PKG_VERSION"));
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let named = HeaderValue::try_from(format!("{agent} ({host})")).ok().filter(|_| !host.is_empty());
    named.unwrap_or(HeaderValue::from_static(agent))
});

/// A mutating request that was not for us to make, since another may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fenced {
    /// It was not sent.
    #[error("not the leader (any more): nothing was written")]
    Refused,
    /// The claim ended while its answer was awaited.
    #[error("not the leader any more: it may have been written")]
    CutOff,
}

/// An API server that did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// No connection came about.
    #[error("failed to connect within {} s", SETUP.as_secs())]
    Connection,
    /// The head of the answer did not come.
    #[error("no answer within {} s", ANSWER.as_secs())]
    Head,
}

/// The innermost of our own layers: sees each request right before it is sent.
#[derive(Clone, Debug)]
struct Gate<S> {
    inner: S,
    fence: Option<Claim>,
    patience: Duration,
    /// The member that is asked; empty for the own API server.
    member: Arc<str>,
    tell: Option<Tell>,
}

/// Takes a warning of an API server, as admission gives them with what it lets pass.
pub type Tell = fn(&str);

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// A client with a connection of its own. An API server allows about 100 streams a connection, and three watches that
/// nobody reads stall one: writes and probes share a client, watches get others.
pub fn client(config: &Config, fence: Option<Claim>) -> Result<Client> {
    connected(config, Purpose { fence, ..Purpose::default() })
}

/// The same of a member, which metrics name.
pub fn client_of(member: &ClusterName, config: &Config, fence: Option<Claim>) -> Result<Client> {
    connected(config, Purpose { fence, member: member.as_str(), ..Purpose::default() })
}

/// A client of a user's command: what an API server warns of when something was written is told.
pub fn attended(config: &Config, tell: Tell) -> Result<Client> {
    connected(config, Purpose { tell: Some(tell), ..Purpose::default() })
}

/// Whom a client is for.
#[derive(Default)]
struct Purpose<'a> {
    fence: Option<Claim>,
    /// Empty for the own API server.
    member: &'a str,
    tell: Option<Tell>,
}

fn connected(config: &Config, purpose: Purpose<'_>) -> Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    // Where there is no HTTP/2, this is all that notices a peer that is gone.
    tcp.set_keepalive(Some(PING));
    match proxy(config)? {
        None => stack(config, tcp, purpose),
        Some(proxy) => {
            let tunnel = Tunnel::new(proxy.uri().clone(), tcp);
            let tunnel = match proxy.basic_auth() {
                Some(auth) => tunnel.with_auth(auth.clone()),
                None => tunnel,
            };
            stack(config, tunnel, purpose)
        }
    }
}

/// Whether a request failed because another may lead; nothing was written, or it may have been when the lead was lost meanwhile.
pub fn is_fenced(error: &kube::Error) -> bool {
    caused_by::<Fenced>(error).is_some()
}

/// Whether a request failed because no answer came in time.
pub fn timed_out(error: &kube::Error) -> bool {
    caused_by::<NoAnswer>(error).is_some()
}

fn caused_by<E: StdError + 'static>(error: &kube::Error) -> Option<&E> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The proxy on the way, if there is one.
fn proxy(config: &Config) -> Result<Option<Intercept>> {
    let Some(url) = &config.proxy_url else {
        return Ok(None);
    };
    // Not the whole URL: it may hold a password.
    let scheme = url.scheme_str().unwrap_or("none");
    let field = "spec.proxyURL of the Cluster (proxy-url of a kubeconfig)";
    if scheme != "http" {
        bail!("{field}: its scheme must be http, a proxy that does HTTP CONNECT, not {scheme}");
    }
    let found = Matcher::builder().all(url.to_string()).build().intercept(&config.cluster_url);
    found.map(Some).with_context(|| format!("{field}: it is no URL of a proxy, such as http://10.0.0.1:3128"))
}

fn stack<C>(config: &Config, connector: C, purpose: Purpose<'_>) -> Result<Client>
where
    C: Service<Uri, Response = TokioIo<TcpStream>> + Clone + Send + Sync + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    let Purpose { fence, member, tell } = purpose;
    let tls = config.rustls_client_config().context("failed to set up TLS")?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone()).with_context(|| format!("tls-server-name {name:?}"))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_all_versions().wrap_connector(connector).map_future(|connecting| {
        Box::pin(async {
            match tokio::time::timeout(SETUP, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(NoAnswer::Connection.into()),
            }
        }) as Answer<_>
    });
    // Requests that a closing connection never took are sent on another: that is no retry, nobody has seen them.
    let http = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING)
        .http2_keep_alive_while_idle(true)
        .build(https);
    let mut named = config.clone();
    named.headers.retain(|(name, _)| *name != USER_AGENT);
    named.headers.push((USER_AGENT, AGENT.clone()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().context("failed to set up authentication")?)
        .layer(named.extra_headers_layer().context("failed to set up headers")?)
        .service(Gate { inner: http, fence, patience: ANSWER, member: member.into(), tell });
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// Whether a request changes what the API server stores, as far as its head shows.
fn mutates<B>(request: &Request<B>) -> bool {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS];
    let uri = request.uri();
    let dry = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "dryRun=All"));
    // Reviews are questions in the form of objects. A base URL may put a prefix before the path.
    let asks = uri.path().ends_with("reviews")
        && ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"]
            .iter()
            .any(|group| uri.path().contains(group));
    !(reads.contains(request.method()) || dry || asks)
}

/// What an answer warns of (RFC 7234, 5.5: `299 - "text"`).
pub fn warnings(headers: &HeaderMap) -> Vec<String> {
    let found = headers.get_all(WARNING).into_iter();
    found.filter_map(|value| warning(&String::from_utf8_lossy(value.as_bytes()))).collect()
}

fn warning(text: &str) -> Option<String> {
    let (_, quoted) = text.split_once('"')?;
    let quoted = quoted.trim_end().strip_suffix('"')?;
    let (mut plain, mut escaped) = (String::new(), false);
    for c in quoted.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            plain.push(c);
        }
    }
    Some(plain)
}

// === impl Gate ===

impl<S, T> Service<Request<Body>> for Gate<S>
where
    S: Service<Request<Body>, Response = Response<T>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    T: 'static,
{
    type Response = Response<T>;
    type Error = BoxError;
    type Future = Answer<Response<T>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        let fence = self.fence.clone().filter(|_| mutates(&request));
        let patience = self.patience;
        let tell = self.tell.filter(|_| mutates(&request));
        let (verb, asked) = (verb(&request), Instant::now());
        let member = self.member.clone();
        Box::pin(async move {
            if fence.as_ref().is_some_and(|fence| !fence.holds()) {
                return Err(Fenced::Refused.into());
            }
            let lost = async {
                match &fence {
                    Some(fence) => fence.lost().await,
                    None => std::future::pending().await,
                }
            };
            // The claim is looked at first each time: what waits for a connection must not be sent after it ended.
            let answer = tokio::select! {
                biased;
                () = lost => Err(Fenced::CutOff.into()),
                answer = inner.call(request) => answer.map_err(Into::into),
                () = tokio::time::sleep(patience) => Err(NoAnswer::Head.into()),
            };
            let code = answer.as_ref().ok().map(|answer: &Response<T>| answer.status());
            metrics::api().asked(&member, verb, code, asked.elapsed());
            if let (Some(tell), Ok(answer)) = (tell, &answer) {
                warnings(answer.headers()).iter().for_each(|warning| tell(warning));
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests;
