//! Asks the hub's API server by dry runs, in the order of the documents, and lets the hub's own rules judge what a dry run cannot
//! see: the documents before it.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use http::StatusCode;
use kube::{
    api::{DeleteParams, Patch, PatchParams, PostParams},
    client::Body,
    core::Request,
};
use serde_json::Value;

use super::{
    documents::Document,
    read::{Reading, typed},
};
use crate::{
    cli::paint::Progress,
    decide::{
        copy::ObjectKey,
        plan::{self, Answer, Hub, Named, Outcome, applied, differences, settled},
    },
    shell::client::warnings,
};

/// Who asks for server-side apply: it is kubectl's that is planned.
const KUBECTL: &str = "kubectl";
/// How often it is asked again about an object that changes meanwhile, as kubectl does.
const AGAIN: usize = 5;

/// How it is asked.
pub(super) struct Asking<'a> {
    pub(super) reading: &'a Reading<'a>,
    /// The documents would be deleted.
    pub(super) delete: bool,
    /// They would be applied by server-side apply.
    pub(super) server_side: bool,
}

/// What the hub is, and what the documents so far would make of it.
struct Judging<'a> {
    live: &'a BTreeMap<ObjectKey, Value>,
    before: &'a Hub,
    after: &'a mut Hub,
    /// Whether nothing would have been written yet.
    first: bool,
}

/// A document that was judged.
struct Judged {
    document: plan::Document,
    old: Option<Value>,
    /// What it warns of as the hub is now.
    alone: Vec<String>,
}

// === impl Asking ===

impl Asking<'_> {
    /// Reads the documents' objects as they are.
    pub(super) async fn live(
        &self,
        documents: &[Document],
        progress: &mut Progress,
    ) -> Result<BTreeMap<ObjectKey, Value>> {
        let mut live = BTreeMap::new();
        for (number, document) in documents.iter().enumerate() {
            progress.say(&format!("reading object {} of {}", number + 1, documents.len()));
            if let Some(object) = self.reading.live(document).await? {
                live.insert(document.key.clone(), object);
            }
        }
        Ok(live)
    }

    /// Says what becomes of each document, and puts those that are admitted into what the hub would be.
    pub(super) async fn judge(
        &self,
        documents: &[Document],
        live: &BTreeMap<ObjectKey, Value>,
        before: &Hub,
        after: &mut Hub,
        progress: &mut Progress,
    ) -> Result<Vec<plan::Document>> {
        let mut judging = Judging { live, before, after, first: true };
        let mut judged = Vec::new();
        for (number, document) in documents.iter().enumerate() {
            progress.say(&format!("asking the hub about object {} of {}", number + 1, documents.len()));
            // What goes with its namespace is deleted all the same.
            let old = if self.delete { live.get(&document.key) } else { judging.after.get(&document.key) };
            let old = old.cloned();
            let answer = self.answer(document, judging.after, live.get(&document.key)).await?;
            let new = self.stored(document, old.as_ref(), &answer, judging.after);
            judged.push(judging.take(document, &answer, old, new));
        }
        Ok(judged.into_iter().zip(documents).map(|(judged, given)| judged.look_back(given, after)).collect())
    }

    /// The object as it would be stored; none if it would be gone.
    fn stored(
        &self,
        document: &Document,
        old: Option<&Value>,
        answer: &Answer,
        after: &Hub,
    ) -> Option<Value> {
        if self.delete {
            return None;
        }
        if let Answer::Admitted { object: Some(object), .. } = answer {
            return Some(object.clone());
        }
        let given = old.map_or_else(|| document.object.clone(), |old| applied(old, &document.object));
        Some(after.mutated(old, &given))
    }

    /// What the API server answers to a dry run. `after` is what the documents before it would have made of the hub.
    async fn answer(&self, document: &Document, after: &Hub, live: Option<&Value>) -> Result<Answer> {
        let ObjectKey { kind, namespace, .. } = &document.key;
        let Some(version) = &document.version else {
            return Ok(if after.defines(kind) {
                Answer::NotAsked(format!("it serves {kind} once it has what the file defines"))
            } else {
                Answer::Refused(format!(
                    "the hub does not serve {kind} in that version; `kubectl api-resources` lists what it serves"
                ))
            });
        };
        if self.delete && after.get(&document.key).is_none() {
            return Ok(Answer::Admitted { object: None, warnings: Vec::new() });
        }
        if after.get(&document.key) != live {
            return Ok(Answer::NotAsked("it is in the file more than once".to_owned()));
        }
        let url = version.api(self.reading.hub, &document.key).resource_url().to_owned();
        let request = Request::new(url);
        let mut asked = self.asked(self.request(&request, document, live)?, document).await?;
        for _ in 0..AGAIN {
            // Somebody wrote it since it was read, be it its status only: `kubectl apply` would not mind.
            if self.server_side || self.delete || asked.1["reason"] != "Conflict" {
                break;
            }
            let live = self.reading.live(document).await?;
            asked = self.asked(self.request(&request, document, live.as_ref())?, document).await?;
        }
        let (status, body, warnings) = asked;
        if status.is_success() {
            let object = (!self.delete).then(|| typed(body, version));
            return Ok(Answer::Admitted { object, warnings });
        }
        let lacking =
            status.as_u16() == 404 && body.pointer("/details/kind").is_some_and(|kind| kind == "namespaces");
        let message = body["message"].as_str().unwrap_or(status.as_str());
        Ok(match lacking {
            true if after.has_namespace(namespace) => {
                Answer::NotAsked(format!("namespace {namespace} does not exist yet"))
            }
            true => Answer::Refused(format!(
                "{message}: create namespace {namespace} first, or put it into the file before this"
            )),
            false => Answer::Refused(message.to_owned()),
        })
    }

    /// The status, the body and the warnings of an answer.
    async fn asked(
        &self,
        request: http::Request<Vec<u8>>,
        document: &Document,
    ) -> Result<(StatusCode, Value, Vec<String>)> {
        let response = self.reading.hub.send(request.map(Body::from)).await;
        let response = response.with_context(|| format!("failed to ask the hub about {}", document.key))?;
        let (status, warnings) = (response.status(), warnings(response.headers()));
        let body = response.into_body().collect_bytes().await.context("failed to read the hub's answer")?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default(), warnings))
    }

    fn request(
        &self,
        request: &Request,
        document: &Document,
        live: Option<&Value>,
    ) -> Result<http::Request<Vec<u8>>> {
        let name = &*document.key.name;
        let write = PostParams { dry_run: true, field_manager: None };
        let asked = if self.delete {
            request.delete(name, &DeleteParams::default().dry_run())
        } else if self.server_side {
            request.patch(name, &PatchParams::apply(KUBECTL).dry_run(), &Patch::Apply(&document.object))
        } else if let Some(live) = live {
            request.replace(name, &write, serde_json::to_vec(&applied(live, &document.object))?)
        } else {
            request.create(&write, serde_json::to_vec(&document.object)?)
        };
        asked.with_context(|| format!("failed to ask the hub about {}", document.key))
    }
}

// === impl Judging ===

impl Judging<'_> {
    /// Settles what becomes of a document, and takes note of it if it is admitted.
    fn take(
        &mut self,
        document: &Document,
        answer: &Answer,
        old: Option<Value>,
        new: Option<Value>,
    ) -> Judged {
        let own = self.after.judge(old.as_ref(), new.as_ref());
        let alone = self.before.judge(self.live.get(&document.key), new.as_ref());
        let alone = alone.map(|(verdict, _)| verdict.warnings).unwrap_or_default();
        let settled = settled(answer, own.as_ref(), &alone, self.first);
        let fields = old.as_ref().zip(new.as_ref()).map(|(old, new)| differences(old, new));
        let outcome = match (&settled.refusal, &old, &new) {
            (Some(_), ..) => Outcome::Refused,
            (None, None, None) => Outcome::Unchanged,
            (None, Some(_), None) => Outcome::Delete,
            (None, None, Some(_)) => Outcome::Create,
            (None, Some(_), Some(_)) if fields.as_ref().is_none_or(Vec::is_empty) => Outcome::Unchanged,
            (None, Some(_), Some(_)) => Outcome::Change,
        };
        match (outcome, new) {
            (Outcome::Create | Outcome::Change, Some(new)) => self.after.apply(new),
            (Outcome::Delete, _) => self.after.delete(&document.key),
            _ => {}
        }
        self.first &= matches!(outcome, Outcome::Unchanged | Outcome::Refused);
        let document = plan::Document {
            object: Named::of(&document.key),
            outcome,
            fields: fields.filter(|_| outcome == Outcome::Change).unwrap_or_default(),
            refusal: settled.refusal,
            warnings: settled.warnings,
        };
        Judged { document, old, alone }
    }
}

// === impl Judged ===

impl Judged {
    /// Takes back warnings that a later document makes good: a policy may stand before what it selects.
    fn look_back(mut self, given: &Document, after: &Hub) -> plan::Document {
        let stands = self.document.outcome != Outcome::Delete;
        let judged = after
            .get(&given.key)
            .filter(|_| stands)
            .and_then(|new| after.judge(self.old.as_ref(), Some(new)));
        if let Some((verdict, None)) = judged {
            let lasting =
                |warning: &String| !self.alone.contains(warning) || verdict.warnings.contains(warning);
            self.document.warnings.retain(lasting);
        }
        self.document
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Response;
    use kube::{Client, core::ApiResource};
    use serde_json::json;

    use super::*;
    use crate::hub::served::{Served, Version};

    fn one(version: &str) -> Value {
        let metadata = json!({ "name": "one", "namespace": "shop", "resourceVersion": version });
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })
    }

    /// A hub whose object is at a version of its own, and is written again after so many requests; and what it is asked for.
    fn hub(writes: usize) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let answer = move |request: http::Request<Body>| {
            let seen = seen.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let mut seen = seen.lock().unwrap();
                let version = 2 + seen.len().min(writes);
                seen.push(head.method.to_string());
                let current = version.to_string();
                let stale = body.pointer("/metadata/resourceVersion").is_some_and(|it| *it != *current);
                let (code, answer) = match stale {
                    true => (409, json!({ "reason": "Conflict", "message": "it has been modified" })),
                    false => (200, one(&current)),
                };
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, kube::Error>(Response::builder().status(code).body(answer).unwrap())
            }
        };
        (Client::new(tower::service_fn(answer), "shop"), asked)
    }

    async fn answer(hub: &Client) -> Answer {
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let mut given = one("");
        given["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let document = Document {
            key: ObjectKey::of(&given).unwrap(),
            object: given,
            version: Some(Version { resource, namespaced: true }),
        };
        let served = Served::default();
        let reading = Reading { hub, served: &served };
        let asking = Asking { reading: &reading, delete: false, server_side: false };
        let read = one("1");
        let after = Hub::of("tombolo-system", [read.clone()]);
        asking.answer(&document, &after, Some(&read)).await.unwrap()
    }

    #[tokio::test]
    async fn an_object_that_is_written_meanwhile_is_read_and_asked_about_again() {
        let (client, asked) = hub(0);
        let answered = answer(&client).await;
        assert!(matches!(answered, Answer::Admitted { .. }), "{answered:?}");
        assert_eq!(*asked.lock().unwrap(), ["PUT", "GET", "PUT"]);
    }

    #[tokio::test]
    async fn an_object_that_never_rests_is_a_refusal_in_the_end() {
        let (client, asked) = hub(usize::MAX);
        let answered = answer(&client).await;
        assert!(matches!(&answered, Answer::Refused(why) if why == "it has been modified"), "{answered:?}");
        assert_eq!(asked.lock().unwrap().len(), 1 + 2 * AGAIN);
    }
}
