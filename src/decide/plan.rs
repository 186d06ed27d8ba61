//! What applying some objects to the hub would change, in which cluster: `tombolo plan`.
//!
//! A [`Hub`] is the hub's objects with the view that its own rules are asked with. The command reads one as it is, makes a second
//! of it by the documents that are admitted ([`Hub::judge`], [`settled`]), and [`plan`] tells the two apart: copies, policies
//! that hold for other objects, services. What is where is not read but decided, before as after: what a policy places counts
//! as being there.

mod apply;
mod copies;
mod hub;
mod services;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::{
    apply::{applied, differences},
    hub::Hub,
    verdict::{Answer, Settled, settled},
};
use super::{
    copy::ObjectKey,
    explain::{against, shown},
    policies::{PolicyKey, Verdict},
    world::World,
};

/// What would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The documents in their order, and what the hub says of each.
    pub objects: Vec<Document>,
    /// Copies in members.
    pub copies: Vec<CopyChange>,
    /// Objects that another policy holds for than before.
    pub policies: Vec<Hands>,
    /// Services that are imported, exported or served differently.
    pub services: Vec<ServiceChange>,
    /// What is legal and probably not meant, beside what each document warns of.
    pub warnings: Vec<String>,
}

/// An object of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Which object it is.
    #[serde(flatten)]
    pub object: Named,
    /// What would become of it on the hub.
    pub outcome: Outcome,
    /// The fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Why it is refused, with the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What it warns of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What would become of an object on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It is new.
    Create,
    /// It is there and would be another.
    Change,
    /// It is there just so.
    Unchanged,
    /// It would go.
    Delete,
    /// It would not be written.
    Refused,
}

/// An object in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Named {
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// What would become of a copy in a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyChange {
    /// The member.
    pub cluster: String,
    /// What would happen.
    pub action: CopyAction,
    /// The object.
    #[serde(flatten)]
    pub object: Named,
    /// The fields that change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Why.
    pub why: String,
}

/// What would happen to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CopyAction {
    /// It is made.
    Create,
    /// It is written anew.
    Change,
    /// It is deleted.
    Delete,
    /// It stays, and is nobody's.
    LetGo,
    /// It stays though no policy places it any more, and follows its template.
    Keep,
    /// Nothing is written for now, though something is to be.
    HoldBack,
    /// It cannot be made.
    Fail,
}

/// An object that another policy holds for than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hands {
    /// The object.
    #[serde(flatten)]
    pub object: Named,
    /// The policy that holds for it now, if any does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The policy that would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Why that one and not the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What would become of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceChange {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The clusters that would export it, each with its ports.
    pub exported_by: BTreeMap<String, String>,
    /// The clusters that would import it, each with the ports that its derived Service serves.
    pub imported_by: BTreeMap<String, String>,
    /// Clusters in which a derived Service appears.
    pub appears_in: Vec<String>,
    /// Clusters in which the derived Service goes.
    pub disappears_in: Vec<String>,
    /// What the derived Service is called.
    pub derived: String,
    /// Ports of exports that are not served, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// What the clusters would not agree on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
}

/// Tells a hub from what it would be.
pub fn plan(before: &Hub, after: &Hub, objects: Vec<Document>) -> Plan {
    let held = before.held();
    let was = before.world(&held);
    let kept = copies::there(before, &was);
    let is = after.world(&kept);
    let mut plan = Plan {
        copies: copies::changes((before, &was), (after, &is)),
        policies: hands((before, &was), (after, &is)),
        services: services::changes((before, &was), (after, &is)),
        warnings: Vec::new(),
        objects,
    };
    plan.warnings = vain(after, &is, &plan.objects);
    plan.warnings.extend(plan.objects.iter().filter_map(kind_goes));
    let silent = after.silent().into_iter().filter(|(cluster, _)| plan.concerns(cluster));
    let waiting = silent.map(|(cluster, since)| {
        format!("{cluster} is not ready {since}: what is to happen there waits for it")
    });
    let waiting: Vec<_> = waiting.collect();
    plan.warnings.extend(waiting);
    plan
}

/// What goes with a definition on the hub, and does not in members: a kind that vanishes deletes nothing there.
fn kind_goes(document: &Document) -> Option<String> {
    let goes = document.outcome == Outcome::Delete && document.object.kind == "CustomResourceDefinition";
    goes.then(|| {
        format!(
            "{}: all objects of its kind on the hub go with it; what members have of them stays, and is not kept current",
            document.object
        )
    })
}

/// Documents that no policy takes anywhere.
fn vain(after: &Hub, world: &World, objects: &[Document]) -> Vec<String> {
    let written = objects.iter().filter(|document| {
        matches!(document.outcome, Outcome::Create | Outcome::Change | Outcome::Unchanged)
    });
    let mut vain = Vec::new();
    for document in written {
        let Some(key) = after.key_of(&document.object).filter(Hub::is_template) else { continue };
        let Some(assignment) = world.assignment(&key) else { continue };
        if let Some(why) = &assignment.unplaced {
            let policy = assignment.policy.as_ref().map(shown).unwrap_or_default();
            vain.push(format!("{}: {policy} places it nowhere: {why}", document.object));
        } else if assignment.policy.is_none() && assignment.targets.is_empty() {
            vain.push(format!("{}: no policy selects it: it goes to no cluster", document.object));
        }
    }
    vain
}

/// Objects that another policy holds for than before.
fn hands((before, was): (&Hub, &World), (after, is): (&Hub, &World)) -> Vec<Hands> {
    let mut found = Vec::new();
    for key in after.templates().filter(|key| before.has(key)) {
        let held_by = |world: &World| world.assignment(key).and_then(|assigned| assigned.policy.clone());
        let (old, new) = (held_by(was), held_by(is));
        if old == new {
            continue;
        }
        let why = old.as_ref().and_then(|old| loses(after, is, key, old));
        found.push(Hands {
            object: Named::of(key),
            before: old.as_ref().map(shown),
            after: new.as_ref().map(shown),
            why,
        });
    }
    found
}

/// Why a policy no longer holds for an object.
fn loses(hub: &Hub, world: &World, key: &ObjectKey, policy: &PolicyKey) -> Option<String> {
    let object = world.template(key)?.object(key);
    let candidates = hub.view().propagations().explain(&object);
    let winner = candidates.iter().find(|candidate| candidate.verdict == Verdict::Holds);
    let loser = candidates.iter().find(|candidate| candidate.matched.policy.key == *policy);
    match (winner, loser) {
        (Some(winner), Some(loser)) => Some(against(loser.verdict, winner, loser)),
        (_, None) => Some(format!("{} does not select it any more", shown(policy))),
        (None, Some(loser)) => Some(loser.verdict.to_string()),
    }
}

// === impl Plan ===

impl Plan {
    /// How many objects would be refused.
    pub fn refused(&self) -> usize {
        self.objects.iter().filter(|document| document.outcome == Outcome::Refused).count()
    }

    /// Whether nothing at all would change.
    pub fn is_idle(&self) -> bool {
        let idle = |document: &Document| matches!(document.outcome, Outcome::Unchanged | Outcome::Refused);
        self.objects.iter().all(idle) && self.copies.is_empty() && self.services.is_empty()
    }

    fn concerns(&self, cluster: &str) -> bool {
        self.copies.iter().any(|copy| copy.cluster == cluster)
            || self.services.iter().any(|service| {
                service.appears_in.iter().chain(&service.disappears_in).any(|place| place == cluster)
            })
    }
}

// === impl Named ===

impl Named {
    /// The object of a key.
    pub fn of(key: &ObjectKey) -> Self {
        Self {
            kind: key.kind.kind.to_string(),
            namespace: Some(key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            name: key.name.to_string(),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
