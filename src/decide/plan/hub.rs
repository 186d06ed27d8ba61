//! The hub's objects, and the view that its own rules are asked with.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::GroupVersionKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Named;
use crate::{
    api::{
        Cluster, cluster, mcs,
        names::condition,
        propagation::{self, PolicyStatus},
    },
    decide::{
        admit::{self, Operation, Request, Verdict},
        copy::ObjectKey,
        explain::{of, one_line},
        ids::{ClusterName, ServiceKey},
        policies::PolicyKey,
        select::GroupKind,
        view::View,
        world::{Held, World},
    },
};

/// Stands for the kinds of policies that there are: a plan does not ask for their definitions.
const POLICY_KINDS: &str = "plan";
/// When a plan deletes something: nothing depends on it.
const SOME_DAY: &str = "1970-01-01T00:00:00Z";

/// A hub, as far as it was read.
#[derive(Debug)]
pub struct Hub {
    view: View,
    objects: BTreeMap<ObjectKey, Value>,
}

// === impl Hub ===

impl Hub {
    /// A hub of which all objects that matter are given. Tombolo's own namespace is given since nothing in it is propagated.
    pub fn of(system: &str, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut hub = Self { view: View::new(system), objects: BTreeMap::new() };
        objects.into_iter().for_each(|object| hub.apply(object));
        hub.complete();
        hub
    }

    /// All of its objects.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.objects.iter()
    }

    /// An object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key)
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Whether there is a namespace.
    pub fn has_namespace(&self, name: &str) -> bool {
        self.view.namespace(name).is_some()
    }

    /// Whether a CustomResourceDefinition that was given defines a kind.
    pub fn defines(&self, kind: &GroupKind) -> bool {
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let definitions =
            self.objects.iter().filter(|(key, _)| &*key.kind.kind == "CustomResourceDefinition");
        let mut definitions = definitions.map(|(_, object)| object);
        definitions.any(|object| {
            text(object, "/spec/group") == *kind.group && text(object, "/spec/names/kind") == *kind.kind
        })
    }

    /// Takes note of an object as it is written.
    pub fn apply(&mut self, object: Value) {
        let Some(key) = ObjectKey::of(&object) else { return };
        let (view, value) = (&mut self.view, &object);
        match (&*key.kind.group, &*key.kind.kind) {
            (cluster::GROUP, "Cluster") => typed(value, |it| view.apply_cluster(it)),
            (propagation::GROUP, "PropagationPolicy") => typed(value, |it| view.apply_propagation_policy(it)),
            (propagation::GROUP, "ClusterPropagationPolicy") => {
                typed(value, |it| view.apply_cluster_propagation_policy(it));
            }
            (propagation::GROUP, "OverridePolicy") => typed(value, |it| view.apply_override_policy(it)),
            (propagation::GROUP, "ClusterOverridePolicy") => {
                typed(value, |it| view.apply_cluster_override_policy(it));
            }
            ("", "Service") => typed(value, |it| view.apply_service(it)),
            ("", "Namespace") => typed(value, |it| view.apply_namespace(it)),
            (mcs::GROUP, "ServiceExport") => typed(value, |it| view.apply_export(it)),
            (mcs::GROUP, "ServiceImport") => typed(value, |it| view.apply_import(it)),
            _ => {}
        }
        self.objects.insert(key, object);
    }

    /// Takes note that an object is deleted: what is in a namespace goes with it, and a Cluster is seen off before it goes.
    pub fn delete(&mut self, key: &ObjectKey) {
        match (&*key.kind.group, &*key.kind.kind) {
            (cluster::GROUP, "Cluster") => return self.leave(key),
            ("", "Namespace") => {
                let within: Vec<_> =
                    self.objects.keys().filter(|other| other.namespace == key.name).cloned().collect();
                within.iter().for_each(|other| self.remove(other));
            }
            _ => {}
        }
        self.remove(key);
    }

    /// Takes note that a Cluster is being deleted: its finalizer keeps it until the hub has left the member.
    fn leave(&mut self, key: &ObjectKey) {
        let Some(mut cluster) = self.objects.get(key).cloned() else { return };
        cluster["metadata"]["deletionTimestamp"] = SOME_DAY.into();
        self.apply(cluster);
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        let service = || ServiceKey::parse(&key.namespace, &key.name).ok();
        let view = &mut self.view;
        match (&*key.kind.group, &*key.kind.kind) {
            (propagation::GROUP, "PropagationPolicy") => view.delete_propagation_policy(&policy_key(key)),
            (propagation::GROUP, "ClusterPropagationPolicy") => {
                view.delete_cluster_propagation_policy(&policy_key(key));
            }
            (propagation::GROUP, "OverridePolicy") => view.delete_override_policy(&policy_key(key)),
            (propagation::GROUP, "ClusterOverridePolicy") => {
                view.delete_cluster_override_policy(&policy_key(key));
            }
            ("", "Service") => service().iter().for_each(|key| view.delete_service(key)),
            ("", "Namespace") => view.delete_namespace(&key.name),
            (mcs::GROUP, "ServiceExport") => service().iter().for_each(|key| view.delete_export(key)),
            (mcs::GROUP, "ServiceImport") => service().iter().for_each(|key| view.delete_import(key)),
            _ => {}
        }
    }

    /// Says to the view that it was told everything.
    fn complete(&mut self) {
        let keys = |group: &str, kind: &str| {
            let wanted = GroupKind { group: group.into(), kind: kind.into() };
            self.objects.keys().filter(move |key| key.kind == wanted).cloned().collect::<Vec<_>>()
        };
        let names =
            |keys: Vec<ObjectKey>| keys.iter().map(|key| key.name.to_string()).collect::<BTreeSet<_>>();
        let policies = |kind| keys(propagation::GROUP, kind).iter().map(policy_key).collect::<BTreeSet<_>>();
        let services = |group, kind| {
            let keys = keys(group, kind);
            keys.iter()
                .filter_map(|key| ServiceKey::parse(&key.namespace, &key.name).ok())
                .collect::<BTreeSet<_>>()
        };
        let view = &mut self.view;
        view.retain_clusters(&names(keys(cluster::GROUP, "Cluster")));
        view.retain_namespaces(&names(keys("", "Namespace")));
        view.retain_propagation_policies(&policies("PropagationPolicy"));
        view.retain_cluster_propagation_policies(&policies("ClusterPropagationPolicy"));
        view.retain_override_policies(&policies("OverridePolicy"));
        view.retain_cluster_override_policies(&policies("ClusterOverridePolicy"));
        view.retain_services(&services("", "Service"));
        view.retain_exports(&services(mcs::GROUP, "ServiceExport"));
        view.retain_imports(&services(mcs::GROUP, "ServiceImport"));
    }

    /// What the hub's own rules say of a change; none of a kind that they do not judge. With the message of a refusal.
    pub fn judge(&self, old: Option<&Value>, new: Option<&Value>) -> Option<(Verdict, Option<String>)> {
        let request = request(old, new)?;
        admit::is_judged(&request.kind).then(|| {
            let verdict = admit::admit(&self.view, &request);
            let message = verdict.message(&request);
            (verdict, message)
        })
    }

    /// An object with what the hub's own rules fill in.
    pub fn mutated(&self, old: Option<&Value>, new: &Value) -> Value {
        let mut object = new.clone();
        if let Some(request) = request(old, Some(new)) {
            // What does not apply is left as it is: the API server would say so.
            let _applied = json_patch::patch(&mut object, &admit::mutate(&self.view, &request).patch);
        }
        object
    }

    /// Whether policies may select an object of that kind.
    pub(super) fn is_template(key: &ObjectKey) -> bool {
        ![cluster::GROUP, propagation::GROUP].contains(&&*key.kind.group)
    }

    /// The objects that policies may select.
    pub(super) fn templates(&self) -> impl Iterator<Item = &ObjectKey> {
        self.objects.keys().filter(|key| Self::is_template(key))
    }

    /// What decides over copies beside policies that place them: members and overrides.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.objects.iter().filter(|(key, _)| {
            &*key.kind.group == cluster::GROUP
                || (&*key.kind.group == propagation::GROUP && key.kind.kind.ends_with("OverridePolicy"))
        })
    }

    pub(super) fn key_of(&self, named: &Named) -> Option<ObjectKey> {
        let same = |key: &&ObjectKey| Named::of(key) == *named;
        self.objects.keys().find(same).cloned()
    }

    /// The world that follows from it, where members have these copies.
    pub(super) fn world(&self, held: &BTreeMap<(ClusterName, ObjectKey), Held>) -> World {
        let mut world = World::new("".into());
        world.set_policy_kinds(POLICY_KINDS.into());
        let selected = self.view.propagations().kinds().into_iter();
        let kinds: BTreeSet<_> = self.templates().map(|key| key.kind.clone()).chain(selected).collect();
        for kind in &kinds {
            world.open_kind(kind.clone(), "v1".into(), None);
        }
        // In a plan it is certain that what is deleted goes, and with it what only it names.
        for ((cluster, key), held) in held.iter().filter(|((_, key), _)| self.objects.contains_key(key)) {
            world.hold(&self.view, cluster, key, Some(held.clone()));
        }
        for member in self.view.members().keys() {
            world.set_known(&self.view, member);
            world.set_imports_known(&self.view, member);
        }
        for key in self.templates() {
            world.apply_template(&self.view, key, &self.objects[key]);
        }
        let all: BTreeSet<_> = self.templates().cloned().collect();
        for kind in held.keys().map(|(_, key)| &key.kind).chain(&kinds).collect::<BTreeSet<_>>() {
            if world.kind(kind).is_none() {
                world.open_kind(kind.clone(), "v1".into(), None);
            }
            world.retain_templates(&self.view, kind, &all);
        }
        world
    }

    /// Who has copies, as far as policies' status tells: that counts where a placement has a choice.
    pub(super) fn held(&self) -> BTreeMap<(ClusterName, ObjectKey), Held> {
        let world = self.world(&BTreeMap::new());
        let mut held = BTreeMap::new();
        for key in self.templates() {
            let policy = world.assignment(key).and_then(|assignment| assignment.policy.as_ref());
            for cluster in policy.into_iter().flat_map(|policy| self.holders(policy)) {
                held.insert((cluster, key.clone()), Held::default());
            }
        }
        held
    }

    fn holders(&self, policy: &PolicyKey) -> Vec<ClusterName> {
        let kind = if policy.namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
        let key = ObjectKey {
            kind: GroupKind { group: propagation::GROUP.into(), kind: kind.into() },
            namespace: policy.namespace.clone().unwrap_or_default(),
            name: policy.name.clone(),
        };
        let status = self.objects.get(&key).and_then(|policy| policy.get("status")).cloned();
        let status: PolicyStatus =
            status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or_default();
        let held = status.clusters.into_iter().filter(|outcome| outcome.applied > 0);
        held.filter_map(|outcome| outcome.name.parse().ok()).collect()
    }

    /// Members that cannot be written to, and since when.
    pub(super) fn silent(&self) -> BTreeMap<String, String> {
        let clusters = self.objects.iter().filter(|(key, _)| &*key.kind.group == cluster::GROUP);
        let clusters =
            clusters.filter_map(|(_, object)| serde_json::from_value::<Cluster>(object.clone()).ok());
        let silent = clusters.filter_map(|cluster| {
            let ready = of(&cluster.status.as_ref()?.conditions, condition::READY)?.clone();
            let since = format!("since {}: {}", ready.last_transition_time.0, one_line(&ready.message));
            (ready.status != "True").then_some((cluster.metadata.name?, since))
        });
        silent.collect()
    }
}

/// Reads an object as its type. What does not fit is not there for the rules either.
fn typed<T: DeserializeOwned>(object: &Value, take: impl FnOnce(T)) {
    if let Ok(object) = serde_json::from_value(object.clone()) {
        take(object);
    }
}

fn policy_key(key: &ObjectKey) -> PolicyKey {
    let namespace = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    PolicyKey { namespace, name: key.name.clone() }
}

/// A change as admission is asked about it.
fn request(old: Option<&Value>, new: Option<&Value>) -> Option<Request> {
    let object = new.or(old)?;
    let key = ObjectKey::of(object)?;
    let api_version = object["apiVersion"].as_str()?;
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    Some(Request {
        kind: GroupVersionKind::gvk(&key.kind.group, version, &key.kind.kind),
        operation: match (old, new) {
            (None, _) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
            (Some(_), None) => Operation::Delete,
        },
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        object: new.cloned(),
        old_object: old.cloned(),
        user: String::new(),
        dry_run: true,
    })
}
