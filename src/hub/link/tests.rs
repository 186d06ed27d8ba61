//! A session with a member that answers as a test says.

use std::{collections::BTreeSet, sync::Arc};

use futures::{FutureExt, stream};
use http::{Method, Request, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Client, Config,
    client::Body,
    core::{ApiResource, ObjectMeta, PartialObjectMeta},
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use super::{secret_changed, session::Session};
use crate::{
    api::names::annotation,
    decide::{
        copy::{ObjectKey, Origin},
        exchange::Rules,
        select::GroupKind,
        view::View,
    },
    hub::{
        engine::{Engine, Parts},
        lines::Lines,
        served::Version,
    },
    shell::{lease::Claim, metrics::Metrics},
};

/// What a member was asked: how, where, and with which body.
pub(super) type Asked = Arc<Mutex<Vec<(Method, String, Value)>>>;

/// A ConfigMap.
pub(super) fn key() -> ObjectKey {
    let kind = GroupKind { group: "".into(), kind: "ConfigMap".into() };
    ObjectKey { kind, namespace: "shop".into(), name: "one".into() }
}

/// ConfigMaps.
pub(super) fn version() -> Version {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    Version { resource, namespaced: true }
}

/// The metadata of a copy of ours.
pub(super) fn copy(uid: &str, version: &str) -> ObjectMeta {
    let origin = Origin { hub: "hub".into(), template: "template".into(), crd: None, object: key() };
    ObjectMeta {
        name: Some("one".to_owned()),
        namespace: Some("shop".to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: Some(version.to_owned()),
        annotations: Some([(annotation::ORIGIN.to_owned(), origin.text())].into()),
        ..ObjectMeta::default()
    }
}

/// A session with a member, by what its Cluster says beside its name.
pub(super) fn session(
    cluster: &Value,
    answer: impl Fn(&Method) -> (u16, Value) + Clone + Send + 'static,
) -> (Session, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (noted, answer) = (noted.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let said = serde_json::from_slice(&body).unwrap_or_default();
            noted.lock().push((parts.method.clone(), parts.uri.to_string(), said));
            let (code, body) = answer(&parts.method);
            Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))
        }
    });
    let client = Client::new(service, "default");
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let mut object = json!({ "metadata": { "name": "a" }, "spec": { "syncMode": "Push" } });
    json_patch::merge(&mut object, cluster);
    let cluster: crate::api::Cluster = serde_json::from_value(object).unwrap();
    let mut view = View::new("tombolo-system");
    view.apply_cluster(cluster.clone());
    view.retain_clusters(&["a".to_owned()].into());
    view.retain_namespaces(&BTreeSet::new());
    view.retain_propagation_policies(&BTreeSet::new());
    view.retain_cluster_propagation_policies(&BTreeSet::new());
    view.retain_override_policies(&BTreeSet::new());
    view.retain_cluster_override_policies(&BTreeSet::new());
    view.retain_services(&BTreeSet::new());
    view.retain_exports(&BTreeSet::new());
    view.retain_imports(&BTreeSet::new());
    let engine = Arc::new(Engine::new(Parts {
        hub: client.clone(),
        watching: client.clone(),
        lines: Lines::new(config.clone()),
        writer: client.clone(),
        claim: Claim::always(),
        view: Arc::new(RwLock::new(view)),
        metrics: Metrics::default().propagation,
        namespace: "tombolo-system".to_owned(),
        create_namespaces: true,
        id: "hub".into(),
        rules: Rules {
            automatic: false,
            denied: globset::GlobSet::empty(),
            allowed: globset::GlobSet::empty(),
        },
    }));
    engine.change(|world, _| world.set_policy_kinds("p".into()));
    let mut session = Session::new(engine, "a".parse().unwrap(), &config, &cluster).unwrap();
    session.writer = client;
    (session, asked)
}

#[test]
fn a_secret_that_changed_between_reading_and_watching_it_is_another_way() {
    let shown = |version: &str| {
        let mut secret = PartialObjectMeta::<Secret>::default();
        secret.metadata.resource_version = Some(version.to_owned());
        stream::iter([Ok(secret)])
    };
    assert!(secret_changed(shown("2"), Some("1")).now_or_never().is_some(), "it was written meanwhile");
    assert!(secret_changed(shown("1"), Some("1")).now_or_never().is_none(), "it is what was read");
}
