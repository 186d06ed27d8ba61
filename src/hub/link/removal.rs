//! Removal from a member: a last look at what is there and at what asks for it, then a deletion or a letting go.

use std::collections::BTreeMap;

use kube::{
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::ObjectMeta,
};

use super::{reconcile::Failure, session::Session};
use crate::{
    decide::{
        action::{Certainty, Observed, Removal},
        copy::{self, ObjectKey},
        policies::PolicyKey,
        select::Object,
    },
    hub::served::Version,
    shell::queue::Done,
};

// === impl Session ===

impl Session {
    /// Removes an object that is ours from the member.
    pub(super) async fn remove(
        &self,
        key: &ObjectKey,
        version: &Version,
        removal: &Removal,
    ) -> Result<Done, Failure> {
        let api = version.api(&self.writer, key);
        let Some(live) = api.get_metadata_opt(&key.name).await? else {
            self.lose(key);
            return Ok(Done::Well);
        };
        let observed = Observed::of(key, &live.metadata, &self.hub);
        if observed.uid != removal.uid || !observed.is_ours() {
            // Somebody else's by now: what was seen is put right by the watch.
            self.see(key.clone(), &live.metadata, false);
            return Ok(Done::Well);
        }
        let doubt = self.engine.doubt(&removal.certain, key).await;
        // A fault of the hub's, not of the member's.
        let doubt =
            doubt.map_err(|e| Failure::Said(format!("failed to make certain that it is to go: {e}")))?;
        if let Some(why) = doubt {
            return Err(Failure::Said(why.to_owned()));
        }
        let desired = self.engine.desired(&self.name, key, None);
        if !removal.is_still_for(&desired) {
            // More is known by now, and what was made certain may be of no use for it.
            return Ok(Done::Again);
        }
        if removal.let_go || observed.adopted || self.is_preserved(key, removal, &observed, &live.metadata) {
            self.let_go(key, version, &live.metadata).await?;
        } else {
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(removal.uid.to_string()),
                    resource_version: live.metadata.resource_version.clone(),
                }),
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteParams::default()
            };
            match api.delete(&key.name, &parameters).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
            self.engine.metrics.deleted();
        }
        self.link_answered();
        if let Some(waited) = self.queue.answer(key) {
            self.engine.metrics.arrivals.template(&self.name, waited);
        }
        {
            let mut seen = self.seen.lock();
            seen.applied.remove(key);
            seen.fights.forget(key);
        }
        self.engine.report.settle(&self.engine, &self.name, key, None);
        Ok(Done::Well)
    }

    /// Whether a policy says by now that an object without a template is to stay.
    fn is_preserved(
        &self,
        key: &ObjectKey,
        removal: &Removal,
        observed: &Observed,
        live: &ObjectMeta,
    ) -> bool {
        let none = BTreeMap::new();
        let labels = live.labels.as_ref().unwrap_or(&none);
        let like = Object { kind: &key.kind, namespace: &key.namespace, name: &key.name, labels };
        // What only others named has no policy of its own.
        let like = matches!(removal.certain, Certainty::NoTemplate(_)).then_some(&like);
        let placed_by = observed.policy.as_deref().and_then(PolicyKey::parse);
        removal.unless_preserved
            && self.engine.look(|_, view| view.propagations().preserves(placed_by.as_ref(), like))
    }

    /// Takes our marks off an object; all else stays as it is.
    async fn let_go(&self, key: &ObjectKey, version: &Version, metadata: &ObjectMeta) -> Result<(), Failure> {
        let patch: json_patch::Patch = serde_json::from_value(copy::let_go(metadata)).unwrap_or_default();
        let api = version.api(&self.writer, key);
        let parameters =
            PatchParams { field_manager: Some(copy::MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch_metadata(&key.name, &parameters, &Patch::<()>::Json(patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::{
        api::names::annotation,
        decide::world::Absence,
        hub::link::tests::{copy, key, session, version},
    };

    #[tokio::test]
    async fn a_copy_is_deleted_only_as_it_was_seen_in_the_last_look() {
        for live in ["one", "another"] {
            let leaves = json!({ "metadata": {
                "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": { annotation::DELETE_COPIES: "true" },
            } });
            let (session, asked) = session(&leaves, move |_| {
                let metadata = copy(live, "9");
                (
                    200,
                    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata }),
                )
            });
            let removal = Removal {
                why: Absence::LeavingBehindNothing,
                certain: Certainty::Given,
                let_go: false,
                unless_preserved: false,
                uid: "one".into(),
            };
            assert!(matches!(session.remove(&key(), &version(), &removal).await, Ok(Done::Well)), "{live}");
            let asked = asked.lock();
            let deletion = asked.iter().find(|(method, ..)| method == Method::DELETE);
            if live == "one" {
                let (_, uri, body) = deletion.unwrap();
                assert!(uri.contains("/api/v1/namespaces/shop/configmaps/one"), "{uri}");
                assert_eq!(body["preconditions"], json!({ "uid": "one", "resourceVersion": "9" }));
            } else {
                assert!(deletion.is_none(), "it is another's: {asked:?}");
            }
        }
    }
}
