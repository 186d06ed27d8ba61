//! What real API servers do with server-side apply, which copies stand on: when it creates, what it lists in
//! managedFields, and what is left of an object that we let go. Templates come from a hub, as a user makes them there.

#[path = "apply/server.rs"]
mod server;

use std::{path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context, Result, anyhow, ensure};
use http::Request;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use server::{APPLY, JSON_PATCH, PATIENCE, Refused, Server};
use tombolo::decide::copy::{
    MANAGER, ObjectKey, Origin, Ownership, Rendered, Stamps, holds, leave_replicas, let_go, listing,
    ownership, render, says_all, scaled, strip,
};
use tombolo_e2e::{
    bed::{Bed, Spec},
    suite, tests,
    wait::until,
};

const HUB: &str = "hub-1";

/// Where the objects of `apply/objects.yaml` are.
const OBJECTS: [&str; 17] = [
    "/api/v1/namespaces/copied",
    "/apis/apps/v1/namespaces/shop/deployments/web",
    "/api/v1/namespaces/shop/services/web",
    "/api/v1/namespaces/shop/configmaps/settings",
    "/api/v1/namespaces/shop/secrets/secret",
    "/apis/batch/v1/namespaces/shop/jobs/once",
    "/apis/apps/v1/namespaces/shop/statefulsets/db",
    "/apis/apps/v1/namespaces/shop/daemonsets/each",
    "/apis/batch/v1/namespaces/shop/cronjobs/nightly",
    "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web",
    "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/web",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/gathered",
    "/api/v1/namespaces/shop/serviceaccounts/runner",
    "/api/v1/namespaces/shop/persistentvolumeclaims/disk",
    "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web",
    "/apis/x.dev/v1/namespaces/shop/toys/bear",
];
/// All that is in an entry of a free-form map: who removes it, and nothing else, leaves an entry that might be atomic.
const ALONE: [&str; 3] = ["/spec/free/a/b", "/spec/parts/arm/length", "/spec/parts/leg/length"];
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.x.dev";

fn main() -> ExitCode {
    suite::run(
        Spec::api(1).bare(),
        tests![
            every_kind_of_copy_is_seen_to_be_unchanged_and_every_change_of_it_is_seen,
            a_resource_version_of_1_creates_and_never_touches_what_is_there,
            a_stale_resource_version_is_refused_even_by_force,
            who_scales_a_copy_keeps_its_replicas,
            what_is_let_go_stays_as_it_was_and_anyone_may_change_it,
            families_of_a_service_are_known_to_be_the_users_by_managed_fields,
        ],
    )
}

/// The copy of a template.
fn copy(template: &Value) -> Result<Rendered> {
    let object = ObjectKey::of(template).context("no object")?;
    let uid = template["metadata"]["uid"].as_str().context("no UID")?;
    let origin = Origin { hub: HUB.into(), template: uid.into(), crd: None, object };
    let stamps = Stamps {
        policy: None,
        policies: "p".into(),
        hub: HUB.into(),
        origin,
        preserve: true,
        delete_with_policy: false,
        adopted: false,
        dependency: false,
        replicas: None,
    };
    let version = template["apiVersion"].as_str().context("no version")?;
    Ok(render(strip(template), version, &stamps))
}

fn metadata(object: &Value) -> Result<ObjectMeta> {
    Ok(serde_json::from_value(object["metadata"].clone())?)
}

fn still_holds(live: &Value, body: &Value) -> Result<bool> {
    Ok(holds(&metadata(live)?.managed_fields.unwrap_or_default(), body))
}

/// Pointers to all scalars of a body that are applied, and to what is empty.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                leaves(value, &format!("{at}/{}", field.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Another value of the same type.
fn another(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_i64()? + 1),
        // Base64 stays base64.
        Value::String(text) if text.len() % 4 == 0 && text.ends_with('=') => json!("AAAA"),
        Value::String(text) => json!(format!("{text}1")),
        _ => return None,
    })
}

/// A copy in a member, as it is before anybody else touches it.
struct Untouched<'a> {
    member: &'a Server,
    path: &'a str,
    body: &'a Value,
    live: Value,
}

impl Untouched<'_> {
    /// Changes and removes each field as another manager, and asks that whatever went through is seen and put right.
    ///
    /// Gives back how many did.
    async fn drift(&self) -> Result<usize> {
        let mut all = Vec::new();
        leaves(self.body, "", &mut all);
        let unlisted = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];
        let mut seen = 0;
        for pointer in all.iter().filter(|pointer| !unlisted.contains(&pointer.as_str())) {
            let was = self.body.pointer(pointer).context("a leaf is there")?;
            let change =
                another(was).map(|value| json!([{ "op": "replace", "path": pointer, "value": value }]));
            for patch in [change, Some(json!([{ "op": "remove", "path": pointer }]))].into_iter().flatten() {
                let patched = self.member.patch(self.path, JSON_PATCH, "kubectl-patch", &patch).await?;
                let Ok(live) = patched else { continue };
                let context = || format!("{}: {patch}: {}", self.path, live["metadata"]["managedFields"]);
                seen += usize::from(self.is_seen(pointer, &patch, &live).with_context(context)?);
                self.heal().await.with_context(context)?;
            }
        }
        Ok(seen)
    }

    /// Whether anything changed; if so, it has to be seen.
    fn is_seen(&self, pointer: &str, patch: &Value, live: &Value) -> Result<bool> {
        // A default may be back at once, and a quantity is spelled otherwise from the start.
        let ours = pointer.contains("tombolo.dev");
        if live.pointer(pointer) == self.body.pointer(pointer) || (says_all(live, self.body) && !ours) {
            return Ok(false);
        }
        let entries =
            |live: &Value| Ok::<_, anyhow::Error>(metadata(live)?.managed_fields.unwrap_or_default());
        ensure!(listing(&entries(live)?) != listing(&entries(&self.live)?), "our entry is the same");
        let alone = patch[0]["op"] == "remove" && ALONE.contains(&pointer);
        ensure!(
            still_holds(live, self.body)? == alone,
            "by the entries alone it should {}be seen",
            if alone { "not " } else { "" }
        );
        Ok(true)
    }

    async fn heal(&self) -> Result<()> {
        let (member, path, body) = (self.member, self.path, self.body);
        let healed = member.apply(path, body, None).await?;
        // An item under another name or port is somebody else's now: it stays, and may even be in the way.
        if !healed.is_ok_and(|healed| says_all(&healed, body)) {
            member.put_back(path, &self.live).await?;
            member.applied(path, body, None).await?;
        }
        let healed = member.get(path).await?;
        ensure!(still_holds(&healed, body)?, "put right, but not as our entry says: {healed}");
        ensure!(says_all(&healed, body), "not put right: {healed}");
        Ok(())
    }
}

async fn every_kind_of_copy_is_seen_to_be_unchanged_and_every_change_of_it_is_seen(
    bed: Arc<Bed>,
) -> Result<()> {
    let (hub, member) = (Server(bed.hub.client.clone()), Server(bed.member(1).client.clone()));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apply");
    let file = |name: &str| folder.join(name).display().to_string();
    let kubectl = bed.kubectl(&bed.hub.name);
    kubectl.run(&["create", "namespace", "shop"])?;
    kubectl.run(&["apply", "-f", &file("crd.yaml")])?;
    bed.kubectl(&bed.member(1).name).run(&["create", "namespace", "shop"])?;
    let template = hub.get(CRD).await?;
    let crd = copy(&template)?.body;
    ensure!(still_holds(&member.applied(CRD, &crd, Some("1")).await?, &crd)?, "{CRD}: {crd}");
    until("both serve the custom kind", PATIENCE, async || {
        kubectl.run(&["apply", "-f", &file("objects.yaml")])?;
        member.get("/apis/x.dev/v1/toys").await
    })
    .await?;
    for path in OBJECTS {
        let rendered = copy(&hub.get(path).await?)?;
        let body = &rendered.body;
        let live = member.applied(path, body, Some("1")).await?;
        ensure!(still_holds(&live, body)?, "{path}: {body}\n{}", live["metadata"]["managedFields"]);
        ensure!(says_all(&live, body), "{path}: {body}\n{live}");
        let annotations = metadata(&live)?.annotations.unwrap_or_default();
        let object = ObjectKey::of(&live).context("no object")?;
        ensure!(
            matches!(ownership(&annotations, &object, HUB), Ownership::Ours(_)),
            "{path}: {annotations:?}"
        );
        ensure!(annotations["tombolo.dev/applied"] == *rendered.applied, "{path}: {annotations:?}");
        let seen = Untouched { member: &member, path, body, live }.drift().await?;
        ensure!(seen >= 4, "{path}: only {seen} changes went through");
        // What controllers did meanwhile is none of ours.
        let live = member.get(path).await?;
        ensure!(still_holds(&live, body)?, "{path}: {}", live["metadata"]["managedFields"]);
    }
    let live = member.get(CRD).await?;
    let seen = Untouched { member: &member, path: CRD, body: &crd, live }.drift().await?;
    ensure!(seen >= 4, "{CRD}: only {seen} changes went through");
    Ok(())
}

/// A namespace with a Deployment and a ConfigMap of a user's own.
async fn users_own(server: &Server, namespace: &str) -> Result<[String; 2]> {
    server.post("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).await?;
    let map = json!({ "metadata": { "name": "web" }, "data": { "a": "1" } });
    server.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map).await?;
    let spec = json!({
        "selector": { "matchLabels": { "app": "web" } },
        "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "web", "image": "example.invalid/web:1" }] },
        },
    });
    let deployment = json!({ "metadata": { "name": "web" }, "spec": spec });
    server.post(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment).await?;
    Ok([
        format!("/api/v1/namespaces/{namespace}/configmaps/web"),
        format!("/apis/apps/v1/namespaces/{namespace}/deployments/web"),
    ])
}

async fn a_resource_version_of_1_creates_and_never_touches_what_is_there(bed: Arc<Bed>) -> Result<()> {
    let (hub, member) = (Server(bed.hub.client.clone()), Server(bed.member(1).client.clone()));
    let paths = users_own(&hub, "first").await?;
    member.post("/api/v1/namespaces", &json!({ "metadata": { "name": "first" } })).await?;
    for path in paths {
        let body = copy(&hub.get(&path).await?)?.body;
        let created = member.applied(&path, &body, Some("1")).await?;
        let again = member.apply(&path, &body, Some("1")).await?;
        ensure!(matches!(again, Err(Refused(409, _))), "{path}: {again:?}");
        let live = member.get(&path).await?;
        ensure!(live["metadata"]["uid"] == created["metadata"]["uid"], "{path}: {live}");
    }
    Ok(())
}

async fn a_stale_resource_version_is_refused_even_by_force(bed: Arc<Bed>) -> Result<()> {
    let (hub, member) = (Server(bed.hub.client.clone()), Server(bed.member(1).client.clone()));
    let [path, _] = users_own(&hub, "stale").await?;
    member.post("/api/v1/namespaces", &json!({ "metadata": { "name": "stale" } })).await?;
    let mut body = copy(&hub.get(&path).await?)?.body;
    let live = member.applied(&path, &body, Some("1")).await?;
    let observed = metadata(&live)?.resource_version.context("no resourceVersion")?;
    let edit = json!([{ "op": "replace", "path": "/data/a", "value": "2" }]);
    member.patch(&path, JSON_PATCH, "kubectl", &edit).await?.map_err(|e| anyhow!("{e}"))?;
    body["data"]["a"] = "3".into();
    let refused = member.apply(&path, &body, Some(&observed)).await?;
    ensure!(matches!(refused, Err(Refused(409, _))), "{refused:?}");
    ensure!(member.get(&path).await?["data"]["a"] == "2", "it was written all the same");
    Ok(())
}

async fn who_scales_a_copy_keeps_its_replicas(bed: Arc<Bed>) -> Result<()> {
    let (hub, member) = (Server(bed.hub.client.clone()), Server(bed.member(1).client.clone()));
    let [_, path] = users_own(&hub, "scaled").await?;
    member.post("/api/v1/namespaces", &json!({ "metadata": { "name": "scaled" } })).await?;
    let template = hub.get(&path).await?;
    let live = member.applied(&path, &copy(&template)?.body, Some("1")).await?;
    ensure!(!scaled(&metadata(&live)?.managed_fields.unwrap_or_default()), "nobody scaled it yet");
    let kubectl = bed.kubectl(&bed.member(1).name);
    kubectl.run(&["scale", "deployment/web", "--namespace=scaled", "--replicas=5"])?;
    let live = member.get(&path).await?;
    ensure!(
        scaled(&metadata(&live)?.managed_fields.unwrap_or_default()),
        "{}",
        live["metadata"]["managedFields"]
    );
    ensure!(!still_holds(&live, &copy(&template)?.body)?, "the replicas are still ours");
    let mut left = template.clone();
    leave_replicas(&mut left);
    let body = copy(&left)?.body;
    let live = member.applied(&path, &body, None).await?;
    ensure!(live["spec"]["replicas"] == 5, "they became {}", live["spec"]["replicas"]);
    ensure!(still_holds(&live, &body)?, "{}", live["metadata"]["managedFields"]);
    Ok(())
}

async fn what_is_let_go_stays_as_it_was_and_anyone_may_change_it(bed: Arc<Bed>) -> Result<()> {
    let (hub, member) = (Server(bed.hub.client.clone()), Server(bed.member(1).client.clone()));
    let paths = users_own(&hub, "let-go").await?;
    member.post("/api/v1/namespaces", &json!({ "metadata": { "name": "let-go" } })).await?;
    for path in paths {
        let body = copy(&hub.get(&path).await?)?.body;
        let created = member.applied(&path, &body, Some("1")).await?;
        let mut other = json!({ "apiVersion": body["apiVersion"], "kind": body["kind"] });
        other["metadata"] = json!({ "annotations": { "theirs": "a" } });
        member.patch(&path, APPLY, "somebody", &other).await?.map_err(|e| anyhow!("{e}"))?;

        let stale = member.patch(&path, JSON_PATCH, MANAGER, &let_go(&metadata(&created)?)).await?;
        ensure!(matches!(stale, Err(Refused(409, _))), "{path}: let go on a stale view: {stale:?}");
        // Controllers may come between.
        until("it is let go", PATIENCE, async || {
            let patch = let_go(&metadata(&member.get(&path).await?)?);
            member.patch(&path, JSON_PATCH, MANAGER, &patch).await?.map_err(|e| anyhow!("{path}: {e}"))
        })
        .await?;
        let live = member.get(&path).await?;
        let meta = metadata(&live)?;
        ensure!(live["spec"] == created["spec"] && live["data"] == created["data"], "{path}: {live}");
        ensure!(!live["metadata"].to_string().contains("tombolo"), "{path}: {}", live["metadata"]);
        let annotations = meta.annotations.clone().unwrap_or_default();
        ensure!(annotations.get("theirs").is_some_and(|theirs| theirs == "a"), "{path}: {annotations:?}");
        let others = meta.managed_fields.unwrap_or_default();
        ensure!(
            others.iter().any(|entry| entry.manager.as_deref() == Some("somebody")),
            "{path}: {others:?}"
        );

        // Not even a conflict is left.
        let theirs = strip(&live);
        let request = Request::patch(format!("{path}?fieldManager=somebody")).header("content-type", APPLY);
        let _: Value = member.0.request(request.body(serde_json::to_vec(&theirs)?)?).await?;
    }
    Ok(())
}

async fn families_of_a_service_are_known_to_be_the_users_by_managed_fields(bed: Arc<Bed>) -> Result<()> {
    let hub = Server(bed.hub.client.clone());
    let kubectl = bed.kubectl(&bed.hub.name).in_namespace("families")?;
    let write = |name: &str, policy: &str| {
        let file = bed.dir().join(format!("{name}.yaml"));
        let spec = format!("{{{policy}ports: [{{port: 80}}], selector: {{app: a}}}}");
        let text = format!("{{apiVersion: v1, kind: Service, metadata: {{name: {name}}}, spec: {spec}}}");
        std::fs::write(&file, text).map(|()| file.display().to_string())
    };
    let ways: [(&str, &[&str]); 3] =
        [("created", &["create"]), ("applied", &["apply"]), ("server-side", &["apply", "--server-side"])];
    for (way, arguments) in ways {
        for (set, policy) in [("plain", ""), ("set", "ipFamilyPolicy: PreferDualStack, ")] {
            let name = format!("{way}-{set}");
            let file = write(&name, policy)?;
            kubectl.run(&[arguments, &["-f", &file]].concat())?;
            kubectl.run(&["label", "service", &name, "more=label"])?;
            let template = hub.get(&format!("/api/v1/namespaces/families/services/{name}")).await?;
            ensure!(template["spec"]["ipFamilies"] == json!(["IPv4"]), "{template}");
            let spec = &strip(&template)["spec"];
            let wanted = if policy.is_empty() { Value::Null } else { json!("PreferDualStack") };
            ensure!(spec["ipFamilyPolicy"] == wanted, "{name}: {spec}");
            for gone in ["ipFamilies", "clusterIP", "clusterIPs"] {
                ensure!(spec[gone].is_null(), "{name}: {spec}");
            }
        }
    }
    Ok(())
}
