//! Services that would be exported, imported or served differently.

use std::collections::{BTreeMap, BTreeSet};

use super::{Hub, ServiceChange};
use crate::decide::{
    admit, derived,
    exchange::{import_kind, object_key},
    ids::{ClusterName, ServiceKey},
    merge::{self, AcceptedNames, Fate, Merged},
    ports::Port,
    view::Offer,
    world::World,
};

/// How a service is shared, by what is on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shared {
    exported_by: BTreeMap<ClusterName, String>,
    imported_by: BTreeMap<ClusterName, String>,
    dropped: BTreeSet<String>,
    conflict: Option<String>,
}

/// What would become of services.
pub(super) fn changes((before, was): (&Hub, &World), (after, is): (&Hub, &World)) -> Vec<ServiceChange> {
    let known = |hub: &Hub| -> BTreeSet<ServiceKey> {
        hub.view().exports().keys().chain(hub.view().imports().keys()).cloned().collect()
    };
    let keys: BTreeSet<_> = known(before).union(&known(after)).cloned().collect();
    let mut changes = Vec::new();
    for key in keys {
        let old = Shared::of(before, was, &key, None);
        let new = Shared::of(after, is, &key, Some(&old));
        if old == new {
            continue;
        }
        let only = |here: &Shared, there: &Shared| {
            let clusters =
                here.imported_by.keys().filter(|cluster| !there.imported_by.contains_key(*cluster));
            clusters.map(ToString::to_string).collect::<Vec<_>>()
        };
        let named = |map: &BTreeMap<ClusterName, String>| {
            map.iter().map(|(cluster, ports)| (cluster.to_string(), ports.clone())).collect()
        };
        changes.push(ServiceChange {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            exported_by: named(&new.exported_by),
            imported_by: named(&new.imported_by),
            appears_in: only(&new, &old),
            disappears_in: only(&old, &new),
            derived: derived::plain_name(&key).unwrap_or_else(|| derived::hashed_name(&key)),
            dropped: new.dropped.into_iter().collect(),
            conflict: new.conflict,
        });
    }
    changes
}

fn ports(ports: &[Port]) -> String {
    let shown = ports.iter().map(|port| {
        if port.name.is_named() { format!("{} {}", port.name, port.key) } else { port.key.to_string() }
    });
    shown.collect::<Vec<_>>().join(", ")
}

// === impl Shared ===

impl Shared {
    /// `before` is how it was shared before a change: who imports it goes on to where no policy says otherwise.
    fn of(hub: &Hub, world: &World, key: &ServiceKey, before: Option<&Self>) -> Self {
        let exports = admit::exported(hub.view(), key);
        let merged = merge::merge(&exports, &AcceptedNames::new());
        let exported_by = exports.iter().map(|export| (export.cluster.clone(), ports(&export.service.ports)));
        let conflict = merged.as_ref().map(Merged::condition).filter(|condition| condition.status);
        let mut shared = Self {
            exported_by: exported_by.collect(),
            conflict: conflict.map(|condition| condition.message),
            ..Self::default()
        };
        let import = object_key(import_kind(), key);
        let Some(assignment) = world.assignment(&import) else { return shared };
        if assignment.policy.is_none() {
            shared.imported_by = before.map(|before| before.imported_by.clone()).unwrap_or_default();
            return shared;
        }
        for cluster in assignment.targets.keys() {
            let Some(Ok(body)) = world.for_member(hub.view(), cluster, &import) else { continue };
            let offer = Offer::of(&body);
            let template = merge::Template { service_type: offer.service_type, ports: offer.ports() };
            let fitted = merge::import(&template, merged.as_ref());
            shared.imported_by.insert(cluster.clone(), ports(&fitted.service.ports));
            shared.conflict = shared.conflict.or(fitted.type_conflict.map(|conflict| conflict.to_string()));
            for (exporter, ports) in &fitted.clusters {
                for (port, exported) in ports {
                    if let Fate::Withheld(why) = &exported.fate {
                        shared.dropped.insert(format!("{port} of {exporter}: {why}"));
                    }
                }
            }
        }
        shared
    }
}
