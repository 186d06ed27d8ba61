//! Copies in members that would come, change, go or stay.

use std::collections::{BTreeMap, BTreeSet};

use super::{CopyAction, CopyChange, Hub, Named, differences, shown};
use crate::decide::{
    action::is_spared,
    copy::ObjectKey,
    ids::ClusterName,
    world::{Absence, Desired, Held, World},
};

/// What members have, if all is there that is to be.
pub(super) fn there(hub: &Hub, world: &World) -> BTreeMap<(ClusterName, ObjectKey), Held> {
    let mut there = BTreeMap::new();
    for key in hub.templates() {
        for (cluster, share) in world.assignment(key).into_iter().flat_map(|assignment| &assignment.targets) {
            if !matches!(world.desired(hub.view(), cluster, key, None), Desired::Present(_)) {
                continue;
            }
            let held = Held {
                preserve: share.preserve,
                delete_with_policy: share.delete_with_policy,
                dependency: share.dependency,
                replicas: share.replicas,
            };
            there.insert((cluster.clone(), key.clone()), held);
        }
    }
    there
}

/// What would become of copies, by cluster.
pub(super) fn changes((before, was): (&Hub, &World), (after, is): (&Hub, &World)) -> Vec<CopyChange> {
    let clusters: BTreeSet<_> = before.view().members().keys().chain(after.view().members().keys()).collect();
    let keys: BTreeSet<_> = before.templates().chain(after.templates()).collect();
    // Most of a hub is not concerned: what is decided by the same things is the same.
    let same = before.rules().eq(after.rules());
    let stirred = |key: &&ObjectKey| {
        !same || before.get(key) != after.get(key) || was.assignment(key) != is.assignment(key)
    };
    let keys: Vec<_> = keys.into_iter().filter(stirred).collect();
    let mut changes = Vec::new();
    for cluster in clusters {
        for key in &keys {
            let old = was.desired(before.view(), cluster, key, None);
            let new = is.desired(after.view(), cluster, key, None);
            let Some((action, fields, why)) = change(is, key, cluster, &old, &new) else { continue };
            changes.push(CopyChange {
                cluster: cluster.to_string(),
                action,
                object: Named::of(key),
                fields,
                why,
            });
        }
    }
    changes
}

fn change(
    is: &World,
    key: &ObjectKey,
    cluster: &ClusterName,
    old: &Desired,
    new: &Desired,
) -> Option<(CopyAction, Vec<String>, String)> {
    let there = matches!(old, Desired::Present(_));
    let assignment = is.assignment(key);
    let policy = assignment.and_then(|assignment| assignment.policy.as_ref());
    let target = assignment.and_then(|assignment| assignment.targets.get(cluster));
    let by = match (policy, target) {
        (_, Some(share)) if share.dependency => "what names it goes there".to_owned(),
        (Some(policy), _) => shown(policy),
        (None, _) => String::new(),
    };
    let left = "no policy places it any more: it stays and follows its template";
    Some(match (old, new) {
        (Desired::Present(old), Desired::Present(new)) => {
            let fields = differences(old.object(), new.object());
            match (fields.is_empty(), target) {
                (false, _) => (CopyAction::Change, fields, by),
                (true, None) => (CopyAction::Keep, fields, left.to_owned()),
                (true, Some(_)) => return None,
            }
        }
        (_, Desired::Present(_)) => (CopyAction::Create, Vec::new(), by),
        (Desired::Present(old), Desired::Absent(why)) => {
            let kept = old.is_preserved() && matches!(why, Absence::NoTemplate | Absence::NamedByNone);
            let cascading = is_spared(key, *why, old.goes_with_policy());
            let action = if kept || cascading || *why == Absence::Leaving {
                CopyAction::LetGo
            } else {
                CopyAction::Delete
            };
            let because = match why {
                _ if cascading => {
                    "its deletion would take others along: it stays, and is nobody's".to_owned()
                }
                Absence::NoTemplate if kept => "preserveResourcesOnDeletion of its policy".to_owned(),
                Absence::NoTemplate => "it is deleted on the hub".to_owned(),
                Absence::Elsewhere => format!("{by} does not place it there"),
                Absence::NoPolicy => "its policy goes, and asked for that".to_owned(),
                Absence::NamedByNone if kept => {
                    "preserveResourcesOnDeletion of the policy of what named it".to_owned()
                }
                Absence::NotNamed | Absence::NamedByNone => "nothing there names it any more".to_owned(),
                Absence::Leaving | Absence::LeavingBehindNothing => "the cluster leaves".to_owned(),
            };
            (action, Vec::new(), because)
        }
        (Desired::HeldBack(_), Desired::HeldBack(_)) | (Desired::Faulty(_), Desired::Faulty(_)) => {
            return None;
        }
        (_, Desired::HeldBack(why)) if there || target.is_some() => {
            (CopyAction::HoldBack, Vec::new(), why.clone())
        }
        (_, Desired::Faulty(why)) => (CopyAction::Fail, Vec::new(), why.clone()),
        _ => return None,
    })
}
