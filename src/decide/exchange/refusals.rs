//! What of a member is not believed at present: it is told to whoever runs the fleet, and what was made of the last good one stays.
//!
//! [`Exchange::refuse`] and [`Exchange::forgive`] are the only ways in; [`Exchange::trust`] is what a Cluster's condition says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::ObjectMeta;

use super::{
    Dirty, Exchange, Part,
    seen::{SliceSeen, source_key, source_label},
    trust::{self, Reason, Refused},
};
use crate::decide::{
    admit::cidr::Cidr,
    derived::slice_name,
    ids::{ClusterName, ServiceKey},
};

/// As many are remembered of a member. Beyond that it is only known that there are more.
const REMEMBERED: usize = 1000;

/// An object of a member, by the part that it belongs to and as `namespace/name`.
pub type Id = (Part, Box<str>);

/// What became known of what is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The member.
    pub cluster: ClusterName,
    /// The object, as `namespace/name`.
    pub object: Box<str>,
    /// Why it is not believed; none if it is now, or is gone.
    pub refused: Option<Refused>,
}

/// Whether a member's data is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All of it.
    Full,
    /// Not these.
    Refused {
        /// How many there are.
        number: usize,
        /// Whether there are more than were counted.
        more: bool,
        /// The first of them by name, and why.
        first: String,
    },
}

/// What of a member is not believed.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    held: BTreeMap<Id, Held>,
    /// There were more than are remembered.
    more: bool,
}

#[derive(Debug)]
struct Held {
    refused: Refused,
    /// For a source slice: its service, and what the slices are called that were made of it.
    made: Option<(ServiceKey, Box<str>)>,
    /// A source slice that would be believed if the cluster's ranges were others.
    slice: Option<Arc<EndpointSlice>>,
}

/// An object by which a refusal is remembered. Its name may be anything, so not all of it is kept.
pub fn id(part: Part, metadata: &ObjectMeta) -> Id {
    let text = |field: &Option<String>| field.as_deref().map(shortened).unwrap_or_default();
    (part, format!("{}/{}", text(&metadata.namespace), text(&metadata.name)).into())
}

fn shortened(text: &str) -> String {
    text.chars().take(253).collect()
}

// === impl Part ===

impl Part {
    fn kind(self) -> &'static str {
        match self {
            Self::Exports => "ServiceExport",
            Self::Imports => "ServiceImport",
            Self::Sources | Self::Imported => "EndpointSlice",
            Self::Namespaces => "Namespace",
        }
    }
}

// === impl Exchange ===

impl Exchange {
    /// Whether a member's data is believed; none while not all of it was read and nothing is refused.
    pub fn trust(&self, cluster: &ClusterName) -> Option<Trust> {
        let member = self.members.get(cluster)?;
        let Refusals { held, more } = &member.refusals;
        if let Some(((part, object), first)) = held.first_key_value() {
            let first = format!("{} {object}: {}", part.kind(), first.refused);
            return Some(Trust::Refused { number: held.len(), more: *more, first });
        }
        let read = [Part::Exports, Part::Imports, Part::Sources];
        read.iter().all(|part| member.known.contains(part)).then_some(Trust::Full)
    }

    /// What is refused of a part of a member.
    pub fn refused_of(&self, cluster: &ClusterName, part: Part) -> BTreeSet<Id> {
        let held = self.members.get(cluster).into_iter().flat_map(|member| member.refusals.held.keys());
        held.filter(|(of, _)| *of == part).cloned().collect()
    }

    /// What became known of what is not believed since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Takes note of an object whose name is no service's.
    pub fn see_nameless(&mut self, cluster: &ClusterName, id: Id) -> Dirty {
        let why = match id.0 {
            Part::Sources => "it names no service: its name is not one that an agent gives",
            _ => "it names no service: its name is not one that a Service can have",
        };
        let why = why.to_owned();
        self.refuse(cluster, id, Refused { reason: Reason::Garbage, why }, None);
        Dirty::new()
    }

    /// Takes note that an object is not believed.
    pub(super) fn refuse(
        &mut self,
        cluster: &ClusterName,
        id: Id,
        refused: Refused,
        slice: Option<&EndpointSlice>,
    ) {
        let Refusals { held, more } = &mut self.members.entry(cluster.clone()).or_default().refusals;
        let before = held.get(&id).map(|before| &before.refused);
        if before == Some(&refused) && refused.reason != Reason::Range {
            return;
        }
        if before != Some(&refused) {
            let (cluster, object) = (cluster.clone(), id.1.clone());
            self.news.push(News { cluster, object, refused: Some(refused.clone()) });
        }
        if before.is_none() && held.len() >= REMEMBERED {
            *more = true;
            return;
        }
        let made = slice.and_then(|slice| {
            let key = source_key(slice)?;
            let name = slice_name(&key, cluster, slice.metadata.name.as_deref()?).into();
            Some((key, name))
        });
        let slice = slice.filter(|_| refused.reason == Reason::Range).map(|slice| Arc::new(slice.clone()));
        held.insert(id, Held { refused, made, slice });
    }

    /// The service of a source slice, if the slice is believed.
    pub(super) fn believed(
        &self,
        cluster: &ClusterName,
        slice: &EndpointSlice,
    ) -> Result<ServiceKey, Refused> {
        let Some(key) = source_key(slice) else {
            return Err(Refused { reason: Reason::Garbage, why: "it names no service".to_owned() });
        };
        if let Some(other) = source_label(slice).filter(|name| *name != key.name.as_str()) {
            let why =
                format!("it says that it is of the service {:?}, and its name does not", trust::short(other));
            return Err(Refused { reason: Reason::Claim, why });
        }
        if !self.takes_part(key.namespace.as_str()) {
            let why = format!("the namespace {} takes no part", key.namespace);
            return Err(Refused { reason: Reason::Namespace, why });
        }
        let ranges = self.members.get(cluster).and_then(|member| member.ranges.as_deref());
        trust::check(cluster, slice, ranges).map(|()| key)
    }

    /// Takes note of whether an export or import is believed.
    pub(super) fn judge(
        &mut self,
        cluster: &ClusterName,
        (part, key): (Part, &ServiceKey),
        refused: Option<&Refused>,
    ) {
        let id = (part, format!("{}/{}", key.namespace, key.name).into());
        match refused {
            Some(refused) => self.refuse(cluster, id, refused.clone(), None),
            None => drop(self.forgive(cluster, &id)),
        }
    }

    /// Takes note that an object is believed, or gone.
    pub fn forgive(&mut self, cluster: &ClusterName, id: &Id) -> Dirty {
        let Some(member) = self.members.get_mut(cluster) else { return Dirty::new() };
        let Some(held) = member.refusals.held.remove(id) else { return Dirty::new() };
        if member.refusals.held.is_empty() {
            member.refusals.more = false;
        }
        self.news.push(News { cluster: cluster.clone(), object: id.1.clone(), refused: None });
        held.made.map(|(key, _)| self.importers(&key)).unwrap_or_default()
    }

    /// Whether an imported slice of a cluster that exports the service stays though nothing of its source is known: the source is there, and
    /// is not believed.
    pub(super) fn outlives(&self, name: &str, seen: &SliceSeen) -> bool {
        let Some(member) = self.members.get(&seen.cluster) else { return false };
        let Refusals { held, more } = &member.refusals;
        let made_of_it = |held: &Held| held.made.as_ref().is_some_and(|(_, made)| **made == *name);
        seen.within && (*more || held.values().any(made_of_it))
    }

    /// Whether all addresses of an imported slice are in the ranges of the cluster that it is from.
    pub(super) fn is_within(&self, cluster: &ClusterName, slice: &EndpointSlice) -> bool {
        let ranges = self.members.get(cluster).and_then(|member| member.ranges.as_deref());
        trust::outside(slice, ranges).is_none()
    }

    /// Takes note of the ranges that a member's endpoints must be in. What is outside of new ones is withdrawn, and what was refused
    /// for the old ones is looked at again.
    pub fn set_ranges(&mut self, cluster: &ClusterName, ranges: Option<Box<[Cidr]>>) -> Dirty {
        let member = self.members.entry(cluster.clone()).or_default();
        if member.ranges == ranges {
            return Dirty::new();
        }
        // No ranges at all are none that anybody meant: nothing is withdrawn by them.
        let meant = ranges.as_ref().is_none_or(|ranges| !ranges.is_empty());
        member.ranges = ranges;
        let waiting: Vec<_> =
            member.refusals.held.values().filter_map(|held| held.slice.as_deref().cloned()).collect();
        let mut dirty = if meant { self.withdraw_outside(cluster) } else { Dirty::new() };
        for slice in waiting {
            dirty.extend(self.see_source(cluster, slice).unwrap_or_default());
        }
        dirty
    }

    fn withdraw_outside(&mut self, cluster: &ClusterName) -> Dirty {
        let mut outside = Vec::new();
        for (key, service) in &self.services {
            let slices = service.sources.get(cluster).into_iter().flatten();
            let slices = slices.filter(|(_, slice)| !self.is_within(cluster, slice));
            outside.extend(slices.map(|(name, slice)| (key.clone(), name.clone(), slice.clone())));
        }
        let mut dirty = Dirty::new();
        for (key, name, slice) in outside {
            dirty.extend(self.lose_source(cluster, &key, &name));
            let made = slice_name(&key, cluster, &name);
            let imported = self.services.get_mut(&key).into_iter().flat_map(|service| &mut service.imported);
            imported.filter_map(|(_, slices)| slices.get_mut(&*made)).for_each(|seen| seen.within = false);
            let id = id(Part::Sources, &slice.metadata);
            // What is there now may be refused for another reason already.
            if !self.members.get(cluster).is_some_and(|member| member.refusals.held.contains_key(&id)) {
                let why = "its addresses are in none of the cluster's endpoint ranges any more".to_owned();
                self.refuse(cluster, id, Refused { reason: Reason::Range, why }, Some(&slice));
            }
        }
        dirty
    }
}

// === impl Trust ===

impl Trust {
    /// What a condition says of it.
    pub fn message(&self, cluster: &str) -> String {
        match self {
            Self::Full => "everything that was read of it is believed".to_owned(),
            Self::Refused { number, more, first } => {
                let least = if *more { "at least " } else { "" };
                let objects = if *number == 1 { "object" } else { "objects" };
                let first: String = first.chars().take(600).collect();
                format!(
                    "{least}{number} {objects} of {cluster}: not believed, and what was made of the last good ones stays. The first is {first}. \
                     Put it right in {cluster}, or delete it there{}",
                    if first.contains("endpoint ranges") {
                        "; if such addresses are its own, add their range to tombolo.dev/endpoint-cidrs of this Cluster"
                    } else {
                        ""
                    }
                )
            }
        }
    }
}
