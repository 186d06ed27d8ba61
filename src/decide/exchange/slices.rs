//! The slices of other clusters in one member: what is to be there, and the steps to it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};

use super::{
    Exchange, Service,
    plan::{Flow, SliceStep},
    seen::{SliceSeen, fixed, sum},
};
use crate::{
    api::names::{annotation, kubernetes::MANAGED_BY_HUB, label},
    decide::{
        change::Change,
        freshness::{Grade, Mark},
        ids::{ClusterName, ServiceKey},
        imported::{Place, render, served},
    },
};

/// A port by family, name and protocol.
type PortId = (Box<str>, Box<str>, Box<str>);
/// Ports that fresh clusters have ready endpoints for.
type Covered = BTreeSet<PortId>;

// === impl Exchange ===

impl Exchange {
    /// The steps from the slices that are there to those that are to be there.
    pub(super) fn slices(
        &self,
        cluster: &ClusterName,
        key: &ServiceKey,
        derived: &str,
        flow: &Flow,
    ) -> Vec<SliceStep> {
        let Some(service) = self.services.get(key) else { return Vec::new() };
        let nothing = BTreeMap::new();
        let found = service.imported.get(cluster).unwrap_or(&nothing);
        let grade = |from: &ClusterName| judged(self.grade(from), from, found);
        // A member's own endpoints are its agent's: here they only count where they stand in for a lost cluster's.
        let lost = self.grades.keys().any(|name| grade(name) == Grade::Lost);
        let from = |from: &ClusterName| lost || from != cluster;
        let rendered: Vec<_> = self.rendered(key, derived, flow, service, from).collect();
        let mut covered = if lost { covered(&rendered, grade) } else { Covered::new() };
        // Who stood in for a lost cluster, and was not read since a restart, does so still.
        if lost && flow.unknown.iter().any(|name| grade(name) < Grade::Stale) {
            covered.extend(found.values().filter(|seen| is_withdrawn(seen)).flat_map(ports_seen));
        }
        let mut wanted = BTreeMap::new();
        for (from, mut slice) in rendered.into_iter().filter(|(from, _)| *from != cluster) {
            let name = slice.metadata.name.clone().unwrap_or_default();
            if let Some(seen) = found.get(&*name).filter(|_| flow.renamed) {
                keep_names(&mut slice, seen, flow);
            }
            graded(&mut slice, grade(from), &covered);
            wanted.insert(name, slice);
        }
        let mut steps = Vec::new();
        for (name, seen) in found {
            if seen.doubted {
                wanted.remove(&**name);
                steps.push(SliceStep::Look { name: name.clone(), seen: seen.clone() });
            } else if flow.unknown.contains(&seen.cluster) {
                steps.extend(marked_again(name, seen, grade(&seen.cluster), &covered));
            } else if !(flow.clusters.contains_key(&seen.cluster) && self.outlives(name, seen))
                && wanted.get(&**name).is_none_or(|slice| fixed(slice) != seen.fixed)
            {
                steps.push(SliceStep::Delete { name: name.clone(), seen: seen.clone() });
            }
        }
        for (name, mut slice) in wanted {
            match found.get(&*name) {
                Some(seen) if seen.sum == sum(&slice) => {}
                Some(seen) if seen.fixed == fixed(&slice) => {
                    slice.metadata.uid = Some(seen.uid.to_string());
                    slice.metadata.resource_version = Some(seen.resource_version.to_string());
                    steps.push(SliceStep::Update(Box::new(slice)));
                }
                Some(_) | None => steps.push(SliceStep::Create(Box::new(slice))),
            }
        }
        steps
    }

    /// What the source slices of clusters become.
    fn rendered<'a>(
        &'a self,
        key: &'a ServiceKey,
        derived: &'a str,
        flow: &'a Flow,
        service: &'a Service,
        counts: impl Fn(&ClusterName) -> bool,
    ) -> impl Iterator<Item = (&'a ClusterName, EndpointSlice)> {
        flow.clusters.iter().filter(move |(from, _)| counts(from)).flat_map(move |(from, ports)| {
            let served = served(ports);
            let sources = service.sources.get(from).into_iter().flat_map(BTreeMap::values);
            sources.map(move |source| {
                let place = Place {
                    key,
                    cluster: from,
                    derived,
                    writer: MANAGED_BY_HUB,
                    own: false,
                    service: &flow.service,
                    served: &served,
                };
                (from, self.labelled(render(source, &place), service, from, source))
            })
        })
    }

    /// A slice with our label, with the origin of the export that it is made by, and with the change that its source was written for.
    fn labelled(
        &self,
        mut slice: EndpointSlice,
        service: &Service,
        from: &ClusterName,
        source: &EndpointSlice,
    ) -> EndpointSlice {
        let labels = slice.metadata.labels.get_or_insert_default();
        labels.insert(label::HUB.to_owned(), self.hub.to_string());
        if let Some(template) = service.exports.get(from).and_then(|export| export.template.as_deref()) {
            let annotations = slice.metadata.annotations.get_or_insert_default();
            annotations.insert(annotation::EXPORT_TEMPLATE.to_owned(), template.to_owned());
        }
        if let Some(change) = Change::of(source) {
            change.put(&mut slice);
        }
        slice
    }
}

/// How a cluster is judged where these slices of it were found: whose endpoints were withdrawn there is lost until it answers. Since when
/// it is silent may have been forgotten, as by a restart of the hub while it is silent for another reason than at first.
fn judged(grade: Grade, cluster: &ClusterName, found: &BTreeMap<Box<str>, SliceSeen>) -> Grade {
    let withdrawn = || found.values().any(|seen| seen.cluster == *cluster && is_withdrawn(seen));
    if grade != Grade::Fresh && withdrawn() { Grade::Lost } else { grade }
}

fn is_withdrawn(seen: &SliceSeen) -> bool {
    seen.mark == Some(Mark::Withdrawn)
}

/// The ports that fresh clusters have ready endpoints for.
fn covered(rendered: &[(&ClusterName, EndpointSlice)], grade: impl Fn(&ClusterName) -> Grade) -> Covered {
    // One that is silent for a moment only serves all the same: nothing is to flap with it.
    let fresh = rendered.iter().filter(|(from, _)| grade(from) < Grade::Stale);
    let ready = fresh.filter(|(_, slice)| {
        slice.endpoints.iter().any(|endpoint| {
            endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
        })
    });
    ready.flat_map(|(_, slice)| ports(slice).into_iter().map(|(port, _)| port)).collect()
}

/// What a slice of a cluster of which nothing is known is to say of that cluster's silence.
fn marked_again(name: &str, seen: &SliceSeen, grade: Grade, covered: &Covered) -> Option<SliceStep> {
    let mark = match grade {
        Grade::Fresh | Grade::Silent => return None,
        Grade::Lost if !seen.ports.is_empty() && ports_seen(seen).all(|port| covered.contains(&port)) => {
            Mark::Withdrawn
        }
        Grade::Stale | Grade::Lost => Mark::Kept,
    };
    (seen.mark != Some(mark)).then(|| SliceStep::Mark { name: name.into(), seen: seen.clone(), mark })
}

/// The ports of a slice that was found.
fn ports_seen(seen: &SliceSeen) -> impl Iterator<Item = PortId> {
    let family = &seen.fixed.0;
    seen.ports.iter().map(move |(name, _, protocol)| (family.clone(), name.clone(), protocol.clone()))
}

/// The ports of a slice; one without any has endpoints all the same.
fn ports(slice: &EndpointSlice) -> Vec<(PortId, Option<EndpointPort>)> {
    let family: Box<str> = slice.address_type.as_str().into();
    let ports = slice.ports.as_deref().unwrap_or_default();
    if ports.is_empty() {
        return vec![((family, "".into(), "".into()), None)];
    }
    let text = |text: &Option<String>| -> Box<str> { text.as_deref().unwrap_or_default().into() };
    let keyed =
        |port: &EndpointPort| ((family.clone(), text(&port.name), text(&port.protocol)), Some(port.clone()));
    ports.iter().map(keyed).collect()
}

/// Makes a slice of a silent cluster say so. Of a lost one only those ports are served that no fresh cluster serves.
fn graded(slice: &mut EndpointSlice, grade: Grade, covered: &Covered) {
    match grade {
        Grade::Fresh | Grade::Silent => {}
        Grade::Stale => Mark::Kept.put(slice),
        Grade::Lost => {
            let (served, alone): (Vec<_>, Vec<_>) =
                ports(slice).into_iter().partition(|(port, _)| covered.contains(port));
            if alone.is_empty() {
                return Mark::Withdrawn.put(slice);
            }
            if !served.is_empty() {
                slice.ports = Some(alone.into_iter().filter_map(|(_, port)| port).collect());
            }
            Mark::Kept.put(slice);
        }
    }
}

/// Keeps the names that a slice's ports had, but for those that other ports have now, while the derived Service may still have them.
fn keep_names(slice: &mut EndpointSlice, seen: &SliceSeen, flow: &Flow) {
    let now = slice.ports.clone().unwrap_or_default();
    let taken = |name: &str| flow.service.ports.iter().any(|port| *port.name.to_string() == *name);
    for (name, number, protocol) in seen.ports.iter().filter(|(name, ..)| !taken(name)) {
        let same = |port: &&EndpointPort| {
            port.port == Some(*number) && port.protocol.as_deref().unwrap_or_default() == &**protocol
        };
        if let Some(port) = now.iter().find(same).filter(|port| port.name.as_deref() != Some(name)) {
            let old = EndpointPort { name: Some(name.to_string()), ..port.clone() };
            slice.ports.get_or_insert_default().push(old);
        }
    }
}
