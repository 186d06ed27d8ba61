//! What a hostile member says that no API server would store: objects that are put into lists and watches on their way.
//!
//! A lie stands for the object of its name. When it is taken back, whoever watches has to list anew and sees the truth.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
};

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Lies by plural, namespace and name.
pub(super) type Lies = BTreeMap<(&'static str, String, String), Value>;

/// What is lied about: the kinds that a hub reads of a member's services.
const KINDS: [(&str, &str); 3] = [
    ("EndpointSlice", "endpointslices"),
    ("ServiceExport", "serviceexports"),
    ("ServiceImport", "serviceimports"),
];
/// What a watch says that cannot go on.
pub(super) const TOO_OLD: &str = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, axum::Error>> + Send>>;

/// A watch that lies.
struct Watch {
    inner: Chunks,
    plural: &'static str,
    lies: watch::Receiver<Lies>,
    told: Lies,
    rest: Vec<u8>,
    pending: VecDeque<Bytes>,
    over: bool,
}

/// The name under which an object is lied about.
pub(super) fn key(object: &Value) -> Option<(&'static str, String, String)> {
    let (_, plural) = KINDS.iter().find(|(kind, _)| object["kind"] == *kind)?;
    named(plural, object)
}

fn named(plural: &'static str, object: &Value) -> Option<(&'static str, String, String)> {
    let text = |field: &str| Some(object["metadata"][field].as_str()?.to_owned());
    Some((plural, text("namespace")?, text("name")?))
}

/// The plural of what a request asks for, if it is lied about: whole objects of all namespaces, and of slices the agent's.
pub(super) fn asked(path: &str, accept: &str) -> Option<&'static str> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (_, plural) = KINDS.iter().find(|(_, plural)| path.ends_with(&format!("/{plural}")))?;
    let all = !path.contains("/namespaces/") && !accept.contains("PartialObject");
    let agents = *plural != "endpointslices" || query.contains("source");
    (all && agents).then_some(plural)
}

/// The lie about the one object that a request is about.
pub(super) fn one(path: &str, lies: &Lies) -> Option<Value> {
    let path = path.split('?').next()?;
    let mut parts = path.split("/namespaces/").nth(1)?.split('/');
    let (namespace, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
    let (_, plural) = KINDS.iter().find(|(_, known)| *known == plural)?;
    lies.get(&(*plural, namespace.to_owned(), name.to_owned())).cloned()
}

/// A list with lies in it.
pub(super) fn list(body: &[u8], plural: &'static str, lies: &Lies) -> Vec<u8> {
    let Ok(mut list) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    if list["metadata"]["continue"].as_str().is_some_and(|more| !more.is_empty()) {
        return body.to_vec();
    }
    if let Some(items) = list["items"].as_array_mut() {
        items.retain(|item| named(plural, item).is_none_or(|key| !lies.contains_key(&key)));
        let told = lies.iter().filter(|((of, ..), _)| *of == plural);
        items.extend(told.map(|(_, lie)| lie.clone()));
    }
    list.to_string().into_bytes()
}

/// A lie as the newest that there is.
pub(super) fn dated(mut lie: Value) -> Value {
    static NEWEST: AtomicU64 = AtomicU64::new(1_000_000_000);
    lie["metadata"]["resourceVersion"] = NEWEST.fetch_add(1, Ordering::Relaxed).to_string().into();
    lie
}

/// A watch with lies in it.
pub(super) fn watch(body: Body, plural: &'static str, lies: watch::Receiver<Lies>) -> Body {
    let inner = Box::pin(body.into_data_stream());
    let mut watch = Watch {
        inner,
        plural,
        lies,
        told: Lies::new(),
        rest: Vec::new(),
        pending: VecDeque::new(),
        over: false,
    };
    watch.lies.mark_changed();
    Body::from_stream(stream::unfold(watch, async |mut watch| Some((watch.next().await?, watch))))
}

// === impl Watch ===

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(Ok(line));
            }
            if self.over {
                return None;
            }
            tokio::select! {
                changed = self.lies.changed() => match changed {
                    Ok(()) => self.lie(),
                    Err(_) => self.over = true,
                },
                chunk = self.inner.next() => match chunk? {
                    Ok(chunk) => self.pass(&chunk),
                    Err(e) => return Some(Err(e)),
                },
            }
        }
    }

    /// Tells what is lied about now.
    fn lie(&mut self) {
        let now = self.lies.borrow_and_update().clone();
        let now: Lies = now.into_iter().filter(|((of, ..), _)| *of == self.plural).collect();
        if self.told.keys().any(|key| !now.contains_key(key)) {
            self.pending.push_back(format!("{TOO_OLD}\n").into());
            self.over = true;
            return;
        }
        for (key, lie) in &now {
            if self.told.get(key) != Some(lie) {
                let event = json!({ "type": "MODIFIED", "object": lie });
                self.pending.push_back(format!("{event}\n").into());
            }
        }
        self.told = now;
    }

    /// Passes on what is true, but for what is lied about.
    fn pass(&mut self, chunk: &[u8]) {
        self.rest.extend_from_slice(chunk);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            let about = named(self.plural, &event["object"]);
            if about.is_none_or(|key| !self.told.contains_key(&key)) {
                self.pending.push_back(line.into());
            }
        }
    }
}
