//! What is to be in one cluster.

use serde_json::Value;

use super::{Held, Kind, Share, Template, World, assign::exchanged};
use crate::{
    api::propagation::ConflictResolution,
    decide::{
        copy::{self, ObjectKey, Origin, Rendered, Stamps},
        ids::ClusterName,
        overrides::overridden,
        policies::PolicyKey,
        select::Member,
        view::View,
    },
};

/// What is to be in a cluster.
#[derive(Clone, Debug)]
pub enum Desired {
    /// Nobody can tell yet, for this reason: what is there is left alone.
    Unknown(&'static str),
    /// What is there is left alone, since that was asked for.
    HeldBack(String),
    /// It cannot be made: what is there is left alone.
    Faulty(String),
    /// The object is to be there.
    Present(Box<Wanted>),
    /// It is not to be there.
    Absent(Absence),
}

/// Why an object is not to be in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is no template.
    NoTemplate,
    /// It is placed elsewhere.
    Elsewhere,
    /// Its policy is gone, and asked for that.
    NoPolicy,
    /// Nothing there names it any more.
    NotNamed,
    /// Nothing names it any more, anywhere: what named it was deleted.
    NamedByNone,
    /// The cluster leaves: copies are let go.
    Leaving,
    /// The cluster leaves, and whoever removed it asked for its copies to be deleted.
    LeavingBehindNothing,
}

/// An object that is to be in a cluster.
#[derive(Clone, Debug)]
pub struct Wanted {
    object: Value,
    stamps: Stamps,
    /// No policy places it: what its stamps say of those that did stays.
    left: bool,
    /// The version that it is written in on the hub.
    pub api_version: std::sync::Arc<str>,
    /// What happens to an object of the same name that is there already.
    pub conflict_resolution: ConflictResolution,
    /// The replicas that it begins with are not changed afterwards.
    retain_replicas: bool,
}

/// What is known of the copy that is there, as far as it changes what is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found<'a> {
    /// It was there before us.
    pub adopted: bool,
    /// Somebody scales it there.
    pub scaled: bool,
    /// The replicas that we gave it.
    pub replicas: Option<u32>,
    /// Which kinds of policies placed it.
    pub policies: &'a str,
    /// The policy that placed it.
    pub policy: Option<&'a str>,
}

// === impl World ===

impl World {
    /// What is to be in a cluster. `body` is the template in another version than the one that is kept, where that is needed.
    pub fn desired(
        &self,
        view: &View,
        cluster: &ClusterName,
        key: &ObjectKey,
        body: Option<Value>,
    ) -> Desired {
        if !view.is_synced() {
            return Desired::Unknown("the hub has not read all policies yet");
        }
        let Some(member) = view.members().get(cluster) else {
            return Desired::Unknown("the cluster is no member");
        };
        if self.policy_kinds.is_empty() {
            return Desired::Unknown("the hub has not read its kinds of policies yet");
        }
        if exchanged(&key.kind) {
            return Desired::Unknown("the exchange of services writes it");
        }
        if member.leaving {
            return Desired::Absent(if member.delete_copies {
                Absence::LeavingBehindNothing
            } else {
                Absence::Leaving
            });
        }
        let Some(kind) = self.kinds.get(&key.kind).filter(|kind| kind.synced) else {
            return Desired::Unknown("the hub has not read all templates of its kind yet");
        };
        let (Some(template), Some(assignment)) = (self.templates.get(key), self.assigned.get(key)) else {
            return Desired::Absent(Absence::NoTemplate);
        };
        if let Some(why) = assignment.held_back(member) {
            return Desired::HeldBack(why);
        }
        let held = self.held.get(key).and_then(|clusters| clusters.get(cluster));
        let mut placed_by = None;
        let share = match (assignment.targets.get(cluster), held) {
            (Some(share), _) => {
                placed_by = self.placed_by(cluster, key, assignment, share);
                share.clone()
            }
            (None, Some(held)) if held.dependency && self.is_named_in(cluster, key) => Share::left_by(held),
            (None, Some(held)) if !held.dependency && assignment.frozen => {
                if assignment.policy.is_none() && held.delete_with_policy {
                    return Desired::Absent(Absence::NoPolicy);
                }
                Share::left_by(held)
            }
            (None, Some(held)) => return self.unwanted(view, cluster, key, held),
            (None, None) => return Desired::Absent(Absence::Elsewhere),
        };
        let body = body.unwrap_or_else(|| template.body());
        match changed(view, member, key, template, &share, body) {
            Ok(object) => {
                Desired::Present(Box::new(self.wanted(key, template, kind, &share, placed_by, object)))
            }
            Err(fault) => Desired::Faulty(fault),
        }
    }

    /// What becomes of a copy in a cluster that its template is not placed on.
    fn unwanted(&self, view: &View, cluster: &ClusterName, key: &ObjectKey, held: &Held) -> Desired {
        const MAY_BE_NAMED: Desired =
            Desired::Unknown("a copy there may name it whose template is not known");
        match self.unread(view, cluster, key) {
            // It is there for such copies.
            Some(Desired::Faulty(_)) if held.dependency => return MAY_BE_NAMED,
            Some(unread) => return unread,
            None => {}
        }
        if !held.dependency {
            return Desired::Absent(Absence::Elsewhere);
        }
        if let Some(why) = self.stays_with(cluster, key) {
            return Desired::HeldBack(why);
        }
        if self.may_be_needed(cluster, key) {
            return MAY_BE_NAMED;
        }
        let moved = self.dependents.contains_key(key);
        Desired::Absent(if moved { Absence::NotNamed } else { Absence::NamedByNone })
    }

    /// A template as it is to be in a cluster, with all that overrides change for it; none if it is not placed there.
    pub fn for_member(
        &self,
        view: &View,
        cluster: &ClusterName,
        key: &ObjectKey,
    ) -> Option<Result<Value, String>> {
        let (template, assignment) = (self.templates.get(key)?, self.assigned.get(key)?);
        let share = assignment.targets.get(cluster)?;
        let member = view.members().get(cluster)?;
        Some(changed(view, member, key, template, share, template.body()))
    }

    fn wanted(
        &self,
        key: &ObjectKey,
        template: &Template,
        kind: &Kind,
        share: &Share,
        placed_by: Option<&PolicyKey>,
        object: Value,
    ) -> Wanted {
        let origin = Origin {
            hub: self.hub.clone(),
            template: template.uid.clone(),
            crd: kind.crd.clone(),
            object: key.clone(),
        };
        Wanted {
            object,
            stamps: Stamps {
                hub: self.hub.clone(),
                origin,
                policies: self.policy_kinds.clone(),
                policy: placed_by.map(|policy| policy.to_string().into()),
                preserve: share.preserve,
                delete_with_policy: share.delete_with_policy,
                adopted: false,
                dependency: share.dependency,
                replicas: share.replicas,
            },
            left: placed_by.is_none(),
            api_version: kind.api_version.clone(),
            conflict_resolution: template
                .conflict_resolution
                .clone()
                .unwrap_or_else(|| share.conflict_resolution.clone()),
            retain_replicas: template.retain_replicas,
        }
    }
}

/// The template with its share of the replicas and all that overrides change for a cluster.
fn changed(
    view: &View,
    member: &Member,
    key: &ObjectKey,
    template: &Template,
    share: &Share,
    mut body: Value,
) -> Result<Value, String> {
    if let Some(replicas) = share.replicas {
        copy::set_replicas(&mut body, replicas);
    }
    let overrides = view.overrides().matching(&template.object(key));
    match overridden(&overrides, &body, member) {
        Ok(object) => Ok(object.into_owned()),
        Err(failure) => Err(format!("the override {}: {}", failure.policy, failure.fault)),
    }
}

// === impl Wanted ===

impl Wanted {
    #[cfg(test)]
    pub(in crate::decide) fn for_test(
        hub: &str,
        key: ObjectKey,
        object: Value,
        conflict_resolution: ConflictResolution,
    ) -> Self {
        let origin = Origin { hub: hub.into(), template: "1".into(), crd: None, object: key };
        let stamps = Stamps {
            hub: hub.into(),
            origin,
            policies: "p".into(),
            policy: Some("shop/p".into()),
            preserve: false,
            delete_with_policy: false,
            adopted: false,
            dependency: false,
            replicas: None,
        };
        Self {
            object,
            stamps,
            left: false,
            api_version: "v1".into(),
            conflict_resolution,
            retain_replicas: false,
        }
    }

    /// The same as an older release has it.
    #[cfg(test)]
    pub(in crate::decide) fn without_policy(self) -> Self {
        Self { stamps: Stamps { policy: None, ..self.stamps }, ..self }
    }

    /// The same under other kinds of policies, of which none places it.
    #[cfg(test)]
    pub(in crate::decide) fn left(self) -> Self {
        Self { left: true, stamps: Stamps { policies: "q".into(), policy: None, ..self.stamps }, ..self }
    }

    /// The same where one places it again.
    #[cfg(test)]
    pub(in crate::decide) fn placed(self) -> Self {
        Self { left: false, stamps: Stamps { policy: Some("shop/p".into()), ..self.stamps }, ..self }
    }

    /// The object before our marks are put on it.
    pub(in crate::decide) fn object(&self) -> &Value {
        &self.object
    }

    /// Whether it stays when its template goes.
    pub(in crate::decide) fn is_preserved(&self) -> bool {
        self.stamps.preserve
    }

    /// Whether it goes when its policy does.
    pub(in crate::decide) fn goes_with_policy(&self) -> bool {
        self.stamps.delete_with_policy
    }

    /// The object as it is applied in a version that the member serves, with respect to what is there.
    pub fn render(&self, api_version: &str, found: Option<Found<'_>>) -> Rendered {
        let mut stamps = self.stamps.clone();
        if let Some(found) = found.filter(|_| self.left) {
            stamps.policies = found.policies.into();
            stamps.policy = found.policy.map(Into::into);
        }
        self.stamped(stamps, api_version, found)
    }

    /// The same as a release wrote it that did not say which policy placed it.
    pub fn render_as_before(&self, api_version: &str, found: Found<'_>) -> Rendered {
        self.stamped(Stamps { policy: None, ..self.stamps.clone() }, api_version, Some(found))
    }

    fn stamped(&self, mut stamps: Stamps, api_version: &str, found: Option<Found<'_>>) -> Rendered {
        let mut object = self.object.clone();
        let found_there = found.unwrap_or_default();
        stamps.adopted = found_there.adopted;
        if found_there.scaled {
            copy::leave_replicas(&mut object);
            stamps.replicas = None;
        } else if self.retain_replicas {
            // Whoever owns a field alone and leaves it out removes it: what was given at first is given again.
            let replicas = found_there.replicas.or_else(|| copy::replicas(&object));
            if let Some(replicas) = replicas {
                copy::set_replicas(&mut object, replicas);
            }
            stamps.replicas = replicas;
        }
        copy::render(object, api_version, &stamps)
    }
}

// === impl Share ===

impl Share {
    /// What is left of a policy on a copy.
    fn left_by(held: &Held) -> Self {
        Self {
            replicas: held.replicas,
            dependency: held.dependency,
            preserve: held.preserve,
            delete_with_policy: held.delete_with_policy,
            conflict_resolution: ConflictResolution::Abort,
            held_back: None,
        }
    }
}
