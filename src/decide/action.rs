//! What is done about one object in one cluster: the difference between what is to be there and what is.
//!
//! [`action`] is the only entry. It decides from metadata alone; what needs a live look (an object that is not ours, a template
//! that seems gone) is an action of its own, and what was seen there is judged by [`taking_over`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::ObjectMeta;
use serde_json::Value;

use super::{
    copy::{self, ObjectKey, Origin, Ownership, Rendered},
    definition::Release,
    select::GroupKind,
    world::{Absence, Desired, Found, Held, Wanted},
};
use crate::api::{names::annotation, propagation::ConflictResolution};

/// What is there, by its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion.
    pub resource_version: Box<str>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whose it is.
    pub ownership: Ownership,
    /// What of our marks matters to others.
    pub held: Held,
    /// It was there before us.
    pub adopted: bool,
    /// Which kinds of policies placed it.
    policies: Box<str>,
    /// The policy that placed it, if it says so.
    pub policy: Option<Box<str>>,
    /// The hash of what we applied last.
    applied: Box<str>,
    /// Who owns which field, as server-side apply writes it; none once all that was applied was seen to be ours.
    managed: Option<Box<str>>,
    /// Tells what our own entry lists of it.
    listing: Option<u64>,
    /// What it listed when all that was applied was ours.
    settled: Option<u64>,
    /// Changes when somebody takes or leaves a field.
    owners: u64,
    /// Somebody scales it.
    scaled: bool,
    /// It was made by us, but not as a copy.
    made: bool,
    /// Of a CustomResourceDefinition: how new it says it is.
    release: Release,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It is as it should be.
    Nothing,
    /// It is left as it is, for this reason.
    Leave(String),
    /// It is applied, if there is none yet.
    Create(Rendered),
    /// It is applied over what was seen.
    Apply(Rendered, Box<str>),
    /// What is there is not ours, or not known: it is read first.
    Look,
    /// It is deleted, or let go, once it is certain that this is asked for.
    Remove(Removal),
}

/// How an object is removed from a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Why it is not to be there.
    pub why: Absence,
    /// What must be certain first.
    pub certain: Certainty,
    /// It stays without our marks; else it is deleted.
    pub let_go: bool,
    /// It stays too where a policy says so by now, though its stamp does not: the member may have been away since.
    pub unless_preserved: bool,
    /// Its UID.
    pub uid: Box<str>,
}

/// What must be certain before an object is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Nothing more.
    Given,
    /// That the template is gone, and not its kind.
    NoTemplate(Origin),
    /// That policies say so: their kinds are those which placed it, and the policy that did is seen as it is, or gone.
    Policies {
        /// The kinds, as it has them.
        kinds: Box<str>,
        /// The policy, as it has it.
        policy: Option<Box<str>>,
    },
}

/// Decides what is done.
pub fn action(key: &ObjectKey, desired: &Desired, observed: Option<&Observed>, api_version: &str) -> Action {
    match desired {
        Desired::Unknown(_) => Action::Nothing,
        Desired::HeldBack(why) | Desired::Faulty(why) => Action::Leave(why.clone()),
        Desired::Present(wanted) => match observed {
            None => Action::Create(wanted.render(api_version, None)),
            Some(observed) => present(wanted, observed, api_version),
        },
        Desired::Absent(why) => observed.map_or(Action::Nothing, |observed| absent(key, *why, observed)),
    }
}

/// Judges what is there without our label, read live; or says why it stays as it is. What another hub left in a member that was taken
/// over from it is ours to overwrite.
pub fn taking_over(
    key: &ObjectKey,
    wanted: &Wanted,
    live: &Value,
    observed: &Observed,
    api_version: &str,
    taken_over: bool,
) -> Result<Action, String> {
    match &observed.ownership {
        Ownership::Ours(_) => return Ok(present(wanted, observed, api_version)),
        Ownership::Newer => {
            return Err(format!(
                "{key} is there and is marked by a newer release of Tombolo: it stays as it is"
            ));
        }
        Ownership::OtherHub(hub) if taken_over => {
            // Both write under the same name, so an apply takes away what the other hub's template had beyond ours: that is no adoption.
            if wanted.conflict_resolution != ConflictResolution::Overwrite {
                return Err(format!(
                    "{key} is there and was left by another hub ({hub}): it stays as it is; delete it there, or set conflictResolution: Overwrite in the policy"
                ));
            }
        }
        Ownership::OtherHub(hub) => {
            return Err(format!(
                "{key} is there and belongs to another hub ({hub}): it stays as it is; delete it there, or join the cluster with --take-over"
            ));
        }
        Ownership::None => {}
    }
    if observed.deleting {
        return Err(format!(
            "{key} is there, is not ours and is being deleted: it is made when that is over"
        ));
    }
    let found = Found { adopted: true, ..observed.found() };
    let adopted = wanted.render(api_version, Some(found));
    if is_older(&adopted.body, observed) {
        return Ok(Action::Leave("the cluster has a newer one: it stays as it is".to_owned()));
    }
    let others = matches!(observed.ownership, Ownership::OtherHub(_));
    // One that the hub made for what is in it is nobody else's, and was given what the hub's own said then.
    let made = observed.made && is_namespace(&key.kind);
    if !others && (made || copy::says_all(live, &adopted.body)) {
        return Ok(Action::Apply(adopted, observed.resource_version.clone()));
    }
    if wanted.conflict_resolution == ConflictResolution::Overwrite {
        let taken = wanted.render(api_version, Some(Found { adopted: false, ..found }));
        return Ok(Action::Apply(taken, observed.resource_version.clone()));
    }
    Err(format!(
        "{key} is there already, is not ours and differs from the template: it stays as it is; delete it there, make it equal, or set conflictResolution: Overwrite in the policy"
    ))
}

fn present(wanted: &Wanted, observed: &Observed, api_version: &str) -> Action {
    if observed.deleting {
        // It is made anew when it is gone.
        return Action::Leave("it is being deleted there; it is made again when it is gone".to_owned());
    }
    if !matches!(observed.ownership, Ownership::Ours(_)) {
        return Action::Look;
    }
    let rendered = wanted.render(api_version, Some(observed.found()));
    if is_older(&rendered.body, observed) {
        return Action::Leave("the cluster has a newer one: it stays as it is".to_owned());
    }
    // What the release before wrote does not name its policy: that alone is no reason to write all copies again.
    let as_before =
        || observed.policy.is_none() && observed.is(&wanted.render_as_before(api_version, observed.found()));
    if observed.is(&rendered) || as_before() {
        Action::Nothing
    } else {
        Action::Apply(rendered, observed.resource_version.clone())
    }
}

fn absent(key: &ObjectKey, why: Absence, observed: &Observed) -> Action {
    let Ownership::Ours(origin) = &observed.ownership else { return Action::Nothing };
    if observed.deleting {
        return Action::Nothing;
    }
    let held = &observed.held;
    let certain = match why {
        Absence::NoTemplate => Certainty::NoTemplate(origin.clone()),
        Absence::NoPolicy | Absence::Elsewhere | Absence::NotNamed | Absence::NamedByNone => {
            Certainty::Policies { kinds: observed.policies.clone(), policy: observed.policy.clone() }
        }
        Absence::Leaving | Absence::LeavingBehindNothing => Certainty::Given,
    };
    let stays = match why {
        Absence::Leaving => true,
        // What a workload names is kept with it: a preserved one would not run without.
        Absence::NoTemplate | Absence::NamedByNone => held.preserve,
        _ => false,
    };
    let let_go = stays || observed.adopted || is_spared(key, why, held.delete_with_policy);
    let unless_preserved = matches!(why, Absence::NoTemplate | Absence::NamedByNone);
    Action::Remove(Removal { why, certain, let_go, unless_preserved, uid: observed.uid.clone() })
}

/// Whether an object stays since its deletion would take others with it, users' among them. That its policy asked to be followed is about the
/// policy's end: where a cluster leaves, nobody asked for what is in there.
pub(in crate::decide) fn is_spared(key: &ObjectKey, why: Absence, goes_with_policy: bool) -> bool {
    let leaves = matches!(why, Absence::Leaving | Absence::LeavingBehindNothing);
    cascades(&key.kind) && (leaves || !goes_with_policy)
}

/// Whether the deletion of such an object takes others with it.
fn cascades(kind: &GroupKind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

fn is_namespace(kind: &GroupKind) -> bool {
    kind.group.is_empty() && &*kind.kind == "Namespace"
}

/// Whether what is wanted is older than what is there, by the marks of the Multi-Cluster Services API's CRDs.
fn is_older(body: &Value, observed: &Observed) -> bool {
    let labels = body.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let labels: BTreeMap<String, String> =
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Release::of(Some(&labels)) < observed.release
}

// === impl Removal ===

impl Removal {
    /// Whether it is asked for by now for the very reason that it was decided for.
    pub fn is_still_for(&self, desired: &Desired) -> bool {
        matches!(desired, Desired::Absent(why) if *why == self.why)
    }
}

// === impl Observed ===

impl Observed {
    /// What is known of an object by its metadata.
    pub fn of(key: &ObjectKey, metadata: &ObjectMeta, hub: &str) -> Self {
        let none = BTreeMap::new();
        let annotations = metadata.annotations.as_ref().unwrap_or(&none);
        let entries: &[ManagedFieldsEntry] = metadata.managed_fields.as_deref().unwrap_or_default();
        let says = |name: &str, value: &str| annotations.get(name).is_some_and(|is| is == value);
        Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            resource_version: metadata.resource_version.as_deref().unwrap_or_default().into(),
            deleting: metadata.deletion_timestamp.is_some(),
            ownership: copy::ownership(annotations, key, hub),
            held: Held {
                preserve: says(annotation::PRESERVE_ON_DELETION, "true"),
                delete_with_policy: says(
                    annotation::ON_POLICY_DELETION,
                    annotation::ON_POLICY_DELETION_DELETE,
                ),
                dependency: says(annotation::DEPENDENCY, "true"),
                replicas: annotations.get(annotation::REPLICAS).and_then(|text| text.parse().ok()),
            },
            adopted: says(annotation::ADOPTED, "true"),
            policies: annotations.get(annotation::POLICIES).map(String::as_str).unwrap_or_default().into(),
            policy: annotations.get(annotation::POLICY).map(|policy| policy.as_str().into()),
            applied: annotations.get(annotation::APPLIED).map(String::as_str).unwrap_or_default().into(),
            owners: owners(entries),
            listing: copy::listing(entries),
            settled: None,
            managed: Some(serde_json::to_string(entries).unwrap_or_default().into()),
            scaled: copy::scaled(entries),
            made: copy::made(entries),
            release: Release::of(metadata.labels.as_ref()),
        }
    }

    /// Whether it is ours.
    pub fn is_ours(&self) -> bool {
        matches!(self.ownership, Ownership::Ours(_))
    }

    fn found(&self) -> Found<'_> {
        Found {
            adopted: self.adopted,
            scaled: self.scaled,
            replicas: self.held.replicas,
            policies: &self.policies,
            policy: self.policy.as_deref(),
        }
    }

    /// Takes note of what is seen now, and says whether that is news: a new status is none.
    pub fn renew(&mut self, now: Self) -> bool {
        let news = !self.is_same(&now);
        if news {
            let settled = self.settled.filter(|_| self.applied == now.applied && self.uid == now.uid);
            // What our entry listed tells more than it can say by itself.
            let managed = now.managed.clone().filter(|_| settled.is_none());
            *self = Self { settled, managed, ..now };
        } else {
            self.resource_version = now.resource_version;
        }
        news
    }

    fn is_same(&self, now: &Self) -> bool {
        let bare =
            |of: &Self| Self { resource_version: Box::default(), managed: None, settled: None, ..of.clone() };
        bare(self) == bare(now)
    }

    /// Whether it is older than another that was seen, as far as that can be told.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |of: &Self| of.resource_version.parse::<u64>().ok();
        self.uid == other.uid && number(self).zip(number(other)).is_some_and(|(this, other)| this < other)
    }

    /// Takes note that it is exactly what was applied, which need not be looked at again.
    pub fn settle(&mut self) {
        self.managed = None;
        self.settled = self.listing;
    }

    /// Whether it is exactly what was applied.
    fn is(&self, rendered: &Rendered) -> bool {
        let entries = || serde_json::from_str::<Vec<ManagedFieldsEntry>>(self.managed.as_deref()?).ok();
        self.applied == rendered.applied
            && match self.settled {
                Some(settled) => self.listing == Some(settled),
                None => entries().is_some_and(|entries| copy::holds(&entries, &rendered.body)),
            }
    }
}

/// Changes when somebody takes or leaves a field; the status has owners of its own, which are not counted.
fn owners(entries: &[ManagedFieldsEntry]) -> u64 {
    let counted = entries.iter().filter(|entry| entry.subresource.as_deref().is_none_or(str::is_empty));
    let counted: Vec<_> = counted.map(|entry| (&entry.manager, &entry.operation, &entry.fields_v1)).collect();
    super::policies::fingerprint(&counted)
}
