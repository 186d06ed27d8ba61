//! The status page: the fleet as a map, for a browser. It only shows; it changes nothing.
//!
//! [`Page::router`] serves the files of `page/` and a stream of [`Atlas`]es as server-sent events. Drawing one costs a walk over all
//! services, so it is done only while somebody looks, only after something changed, and at most every [`PACE`]; what does not differ
//! is not sent. Services are walked a few at a time, so that nobody waits long for a lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{
        IntoResponse, Redirect, Response,
        sse::{Event, Sse},
    },
    routing::get,
};
use futures::stream;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{engine::Engine, link::Reachability, members};
use crate::decide::{
    atlas::{Atlas, Draft, Said, Sight},
    ids::{ClusterName, ServiceKey},
};

/// Between two looks.
const PACE: Duration = Duration::from_millis(500);
/// A look that took long is followed by a pause so many times as long.
const REST: u32 = 20;
/// As many services are looked at under one lock.
const AT_A_TIME: usize = 32;
/// As many may look at the same time.
const VIEWERS: usize = 32;
/// A sign of life is sent so often; the page says that the connection is lost when several are missing.
const BEAT: Duration = Duration::from_secs(5);
/// So long a stream lasts: a browser comes again by itself, and is asked who it is again.
const LASTS: Duration = Duration::from_secs(600);

/// The page's files: path, kind and text.
pub const FILES: [(&str, &str, &str); 7] = [
    ("/status/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/status/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/status/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/status/layout.js", "text/javascript; charset=utf-8", include_str!("page/layout.js")),
    ("/status/map.js", "text/javascript; charset=utf-8", include_str!("page/map.js")),
    ("/status/panel.js", "text/javascript; charset=utf-8", include_str!("page/panel.js")),
    ("/status/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// What every answer says: nothing but these very files runs, and no text becomes markup.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The status page.
#[derive(Clone, Default)]
pub struct Page(Arc<Shown>);

#[derive(Default)]
struct Shown {
    engine: OnceLock<Arc<Engine>>,
    /// The last atlas; none while nobody looks. Who looks has a receiver.
    atlas: watch::Sender<Option<Arc<str>>>,
    /// Told when somebody comes.
    came: Notify,
}

/// What an atlas was drawn of: the same makes the same.
type Basis = (u64, bool, bool, BTreeMap<ClusterName, Sight>);

// === impl Page ===

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("viewers", &self.0.atlas.receiver_count()).finish_non_exhaustive()
    }
}

impl Page {
    /// Shows what this engine knows from now on; a process has one.
    pub fn follow(&self, engine: &Arc<Engine>) {
        // A second one would be of another fleet, which has no place here.
        let _ = self.0.engine.set(engine.clone());
    }

    /// What is served, until told to stop.
    pub fn router(&self, stop: &CancellationToken) -> Router {
        let files = FILES.into_iter().fold(Router::new(), |router, (path, kind, text)| {
            router.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text)))
        });
        files
            // Relative, so that it holds behind a proxy, too.
            .route("/status", get(async || Redirect::temporary("status/")))
            .route("/status/events", get(events))
            .with_state((self.clone(), stop.clone()))
            .layer(middleware::map_response(secured))
    }

    /// Draws atlases while somebody looks. Never ends.
    pub async fn run(&self) {
        let mut drawn = None;
        loop {
            if self.0.atlas.receiver_count() == 0 {
                drawn = None;
                self.0.atlas.send_replace(None);
                self.0.came.notified().await;
                continue;
            }
            let began = Instant::now();
            self.look(&mut drawn).await;
            tokio::time::sleep(PACE.max(began.elapsed() * REST)).await;
        }
    }

    /// Lets somebody look, where there is room.
    fn viewer(&self, stop: &CancellationToken) -> Option<Viewer> {
        if self.0.atlas.receiver_count() >= VIEWERS {
            return None;
        }
        let mut atlases = self.0.atlas.subscribe();
        // The one that holds already is news to them.
        atlases.mark_changed();
        self.0.came.notify_one();
        Some(Viewer { atlases, stop: stop.clone(), until: Instant::now() + LASTS })
    }

    /// Shows this to whoever looks, if it differs from what is shown.
    pub fn show(&self, atlas: &Atlas) {
        let text = match serde_json::to_string(atlas) {
            Ok(text) => text,
            Err(e) => return tracing::warn!("failed to write what the status page shows: {e}"),
        };
        self.0.atlas.send_if_modified(|last| {
            let news = last.as_deref() != Some(&*text);
            if news {
                *last = Some(text.into());
            }
            news
        });
    }

    /// Draws an atlas if it may differ from the last one.
    async fn look(&self, drawn: &mut Option<Basis>) {
        let Some(engine) = self.0.engine.get() else {
            // It does not propagate, or has just begun.
            return self.show(&Atlas::default());
        };
        let synced = engine.view.read().is_synced();
        let basis = (engine.stirs(), synced, engine.claim.holds(), sights(engine));
        if drawn.as_ref() != Some(&basis) {
            self.show(&draw(engine, &basis).await);
            *drawn = Some(basis);
        }
    }
}

async fn draw(engine: &Engine, (_, synced, leads, sights): &Basis) -> Atlas {
    let (mut draft, keys) = {
        let view = engine.view.read();
        engine.look_exchange(|exchange| {
            let of_hub = view.exports().keys().chain(view.imports().keys());
            let keys: BTreeSet<ServiceKey> = exchange.services().chain(of_hub).cloned().collect();
            (Draft::new(&view, exchange, sights), keys)
        })
    };
    let keys: Vec<_> = keys.into_iter().collect();
    for some in keys.chunks(AT_A_TIME) {
        engine.look(|world, view| {
            engine.look_exchange(|exchange| {
                some.iter().map(|key| exchange.bridge(view, world, key)).for_each(|bridge| draft.add(bridge));
            });
        });
        tokio::task::yield_now().await;
    }
    draft.finish(*synced, *leads)
}

/// What the links say of their members, in the words of the Clusters' conditions.
fn sights(engine: &Engine) -> BTreeMap<ClusterName, Sight> {
    let sight = |(name, link): (ClusterName, Arc<super::link::Link>)| {
        let health = link.health.confirmed();
        let version = match &health {
            Some(Reachability::Ready(version)) => version.clone(),
            _ => String::new(),
        };
        let ready = health.as_ref().map(|health| {
            let (truth, _, message) = members::ready(health);
            Said { truth, message }
        });
        let agent = link.health.agent().map(|heartbeat| {
            let (truth, _, message) = members::agent_ready(heartbeat);
            Said { truth, message }
        });
        (name, Sight { ready, agent, version })
    };
    engine.links().into_iter().map(sight).collect()
}

async fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// A stream of atlases, the one that holds first.
async fn events(State((page, stop)): State<(Page, CancellationToken)>) -> Response {
    let Some(viewer) = page.viewer(&stop) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "as many as may are looking already\n").into_response();
    };
    let sent = async |mut viewer: Viewer| Some((Ok::<_, Infallible>(viewer.next().await?), viewer));
    Sse::new(stream::unfold(viewer, sent)).into_response()
}

/// Somebody who looks.
struct Viewer {
    atlases: watch::Receiver<Option<Arc<str>>>,
    stop: CancellationToken,
    until: Instant,
}

// === impl Viewer ===

impl Viewer {
    /// What is sent next; none if they are to come again.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                // An end goes before news: however many come, it is not put off.
                biased;
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep_until(self.until) => return None,
                changed = self.atlases.changed() => {
                    changed.ok()?;
                    if let Some(text) = self.atlases.borrow_and_update().clone() {
                        return Some(Event::default().event("atlas").data(text));
                    }
                }
                () = tokio::time::sleep(BEAT) => return Some(Event::default().event("beat").data("")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_atlas_is_drawn_while_somebody_looks_and_forgotten_when_nobody_does() {
        let page = Page::default();
        let drawing = tokio::spawn({
            let page = page.clone();
            async move { page.run().await }
        });
        tokio::time::sleep(10 * PACE).await;
        assert!(page.0.atlas.borrow().is_none(), "nobody looks");
        for _ in 0..2 {
            let mut viewer = page.viewer(&CancellationToken::new()).expect("there is room");
            assert!(viewer.next().await.is_some());
            assert!(page.0.atlas.borrow().is_some());
            drop(viewer);
            tokio::time::sleep(10 * PACE).await;
            assert!(page.0.atlas.borrow().is_none(), "nobody looks any more");
        }
        drawing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_is_sent_what_differs_signs_of_life_and_an_end() {
        let (page, stop) = (Page::default(), CancellationToken::new());
        page.show(&Atlas::default());
        let mut viewer = page.viewer(&stop).expect("there is room");
        let mut sent = async || format!("{:?}", viewer.next().await);
        assert!(sent().await.contains("atlas"));
        page.show(&Atlas::default());
        assert!(sent().await.contains("beat"), "the same is not sent again");
        page.show(&Atlas { leads: true, ..Atlas::default() });
        assert!(sent().await.contains("atlas"));
        tokio::time::advance(LASTS).await;
        assert_eq!(sent().await, "None", "it is to come again");
        let mut viewer = page.viewer(&stop).expect("there is room");
        stop.cancel();
        assert!(viewer.next().await.is_none(), "the hub stops");
    }

    #[test]
    fn the_page_holds_to_its_own_policy() {
        for (path, _, text) in FILES {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "https://",
                " style=",
            ] {
                assert!(!text.contains(word), "{path} has {word}");
            }
        }
        let (.., index) = FILES[0];
        assert_eq!(index.matches("<script").count(), 1);
    }
}
