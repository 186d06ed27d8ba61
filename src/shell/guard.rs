//! Who may read what a process tells of itself: `/metrics` and all that is served beside it but probes.
//!
//! With `--health-auth=token` a request needs a token of the own API server, which is asked whose it is (TokenReview) and whether they
//! may `get` the path (SubjectAccessReview), as it does for its own `/metrics`. A browser has no field for a token: there it is the
//! password. Answers are remembered for a moment. Invariant: whoever cannot be judged is not let in.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    middleware::{self, Next},
    response::{AppendHeaders, IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{
        NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
    },
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::{sync::Semaphore, time::Instant};

/// So long an answer holds.
const HOLDS: Duration = Duration::from_secs(10);
/// As many answers are remembered.
const REMEMBERED: usize = 1024;
/// As many questions are open at a time.
const AT_ONCE: usize = 8;
/// What asking may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// No token is longer.
const LONGEST: usize = 16 * 1024;
/// How a browser, or whoever else, is asked for a token. A header each: browsers do not understand two in one.
const ASKS: [(HeaderName, &str); 2] = [
    (header::WWW_AUTHENTICATE, "Basic realm=\"tombolo: any name, a token as password\", charset=\"UTF-8\""),
    (header::WWW_AUTHENTICATE, "Bearer"),
];

/// Flags that say who may read.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Who may read /metrics and what else is served beside it, probes aside: everybody who reaches the port, or who shows a token
    /// whose user may get that path by a rule of nonResourceURLs.
    #[arg(long, env = "TOMBOLO_HEALTH_AUTH", value_enum, default_value_t = Auth::None, value_name = "WHO")]
    health_auth: Auth,
}

/// Who may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Auth {
    /// Everybody who reaches the port.
    None,
    /// Who shows a token whose user may get the path.
    Token,
}

/// Asks the API server who may read.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "clients have none")]
pub struct Guard {
    client: Client,
    answers: Arc<Mutex<Answers>>,
    asking: Arc<Semaphore>,
}

/// What was found of a token and a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// It is nobody's token.
    Unknown,
    /// Whose it is may not.
    Forbidden,
}

/// Of a token only its hash is kept.
type Question = ([u8; 32], String);

/// What was found lately.
#[derive(Debug, Default)]
struct Answers(BTreeMap<Question, (Instant, Verdict)>);

// === impl Args ===

impl Args {
    /// The guard, where there is to be one.
    pub fn guard(self, client: &Client) -> Option<Guard> {
        (self.health_auth == Auth::Token).then(|| Guard {
            client: client.clone(),
            answers: Arc::default(),
            asking: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }
}

// === impl Guard ===

impl Guard {
    /// Lets nobody to these routes who may not get them.
    pub fn before(self, routes: Router) -> Router {
        routes.layer(middleware::from_fn_with_state(self, check))
    }

    async fn judge(&self, token: &str, path: &str) -> anyhow::Result<Verdict> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        let question = (hash, path.to_owned());
        if let Some(known) = self.answers.lock().get(&question, Instant::now()) {
            return Ok(known);
        }
        let verdict = tokio::time::timeout(PATIENCE, self.ask(token, path)).await??;
        self.answers.lock().put(question, Instant::now(), verdict);
        Ok(verdict)
    }

    async fn ask(&self, token: &str, path: &str) -> anyhow::Result<Verdict> {
        let _turn = self.asking.acquire().await?;
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..Default::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let found = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let Some(user) = found.user.filter(|_| found.authenticated == Some(true)) else {
            return Ok(Verdict::Unknown);
        };
        let review = SubjectAccessReview { spec: may_get(user, path), ..Default::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let found = reviews.create(&PostParams::default(), &review).await?.status;
        let allowed = matches!(found, Some(SubjectAccessReviewStatus { allowed: true, .. }));
        Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden })
    }
}

async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let refused = |code: StatusCode, why: &'static str| (code, why).into_response();
    let unknown =
        || (AppendHeaders(ASKS), refused(StatusCode::UNAUTHORIZED, "a token is needed\n")).into_response();
    let Some(token) = token(request.headers()) else { return unknown() };
    match guard.judge(&token, area(request.uri().path())).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unknown) => unknown(),
        Ok(Verdict::Forbidden) => refused(
            StatusCode::FORBIDDEN,
            "the token's user may not get this path: a ClusterRole with nonResourceURLs lets it\n",
        ),
        Err(e) => {
            tracing::warn!("failed to ask who may read {}: {e:#}", request.uri().path());
            refused(StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked at the moment\n")
        }
    }
}

/// The path that a right is asked for: one for all of a page.
fn area(path: &str) -> &str {
    let rest = path.strip_prefix('/').unwrap_or(path);
    if rest.split('/').next() == Some("status") { "/status" } else { path }
}

/// What the API server is asked about a user.
fn may_get(user: UserInfo, path: &str) -> SubjectAccessReviewSpec {
    let path = Some(path.to_owned());
    SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        non_resource_attributes: Some(NonResourceAttributes { path, verb: Some("get".to_owned()) }),
        ..Default::default()
    }
}

/// The token of a request: by itself, or as the password of a name that does not matter.
fn token(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = given.split_once(' ')?;
    let token = if scheme.eq_ignore_ascii_case("bearer") {
        rest.trim().to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(BASE64_STANDARD.decode(rest.trim()).ok()?).ok()?;
        pair.split_once(':')?.1.to_owned()
    } else {
        return None;
    };
    (!token.is_empty() && token.len() <= LONGEST).then_some(token)
}

// === impl Answers ===

impl Answers {
    fn get(&self, question: &Question, now: Instant) -> Option<Verdict> {
        let (at, verdict) = self.0.get(question)?;
        (now.duration_since(*at) < HOLDS).then_some(*verdict)
    }

    /// Whoever asks with ever new tokens gets others forgotten, never more remembered.
    fn put(&mut self, question: Question, now: Instant, verdict: Verdict) {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (at, _)| now.duration_since(*at) < HOLDS);
        }
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(question, (now, verdict));
    }
}
