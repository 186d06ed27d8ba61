//! The hub as it is, or as it would be after a change: who places what where, and which ports that gives a service in
//! each cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde_json::Value;

use crate::{
    api::mcs,
    decide::{
        ids::{ClusterName, ServiceKey},
        merge::{Created, ServiceType},
        overrides::{Failure, Override, overridden},
        policies::{Edit, Match, Propagation, never},
        ports::Port,
        select::{GroupKind, Member, Object},
        view::{Offer, Template, View},
    },
};

/// One of the objects that a service is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Service,
    Export,
    Import,
}

/// The view, with one change.
#[derive(Clone, Copy, Debug)]
pub(super) struct State<'a> {
    pub(super) view: &'a View,
    pub(super) change: Change<'a>,
}

/// What is different from the view.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    Nothing,
    /// An object is as given, or gone.
    Template(Part, &'a ServiceKey, Option<&'a Template>),
    Propagation(&'a Edit<Propagation>),
    Override(&'a Edit<Override>),
}

/// What a cluster exports of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exported {
    pub(super) ports: Vec<Port>,
    pub(super) service_type: ServiceType,
    /// Since when, if that is known.
    pub(super) created: Option<Created>,
}

static KINDS: LazyLock<[GroupKind; 3]> = LazyLock::new(|| {
    let mcs = format!("{}/v1beta1", mcs::GROUP);
    [
        GroupKind::new("v1", "Service"),
        GroupKind::new(&mcs, "ServiceExport"),
        GroupKind::new(&mcs, "ServiceImport"),
    ]
});

// === impl Part ===

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Service, Self::Export, Self::Import];

    pub(super) fn kind(self) -> &'static GroupKind {
        &KINDS[self as usize]
    }
}

// === impl State ===

impl<'a> State<'a> {
    /// The hub as it is.
    pub(super) fn now(view: &'a View) -> Self {
        Self { view, change: Change::Nothing }
    }

    /// The hub as it would be.
    pub(super) fn after(view: &'a View, change: Change<'a>) -> Self {
        Self { view, change }
    }

    pub(super) fn template(&self, part: Part, key: &ServiceKey) -> Option<&'a Template> {
        match self.change {
            Change::Template(changed, its_key, template) if changed == part && its_key == key => template,
            _ => match part {
                Part::Service => self.view.services().get(key),
                Part::Export => self.view.exports().get(key),
                Part::Import => self.view.imports().get(key),
            },
        }
    }

    /// Whether conflicts of a service's ports are to be merged: by the rule of its namespace, or, where it is changed from
    /// afar, of its ServiceExport, through which the change reaches other clusters.
    pub(super) fn resolves(&self, key: &ServiceKey, direct: bool) -> bool {
        let export = || self.template(Part::Export, key).is_some_and(|export| export.resolves);
        self.view.resolves_in(key.namespace.as_str()) || (!direct && export())
    }

    /// The policy that holds for an object.
    pub(super) fn winner(&self, object: &Object<'_>) -> Option<Match<'a, Propagation>> {
        match self.change {
            Change::Propagation(edit) => self.view.propagations().winner_after(edit, object),
            _ => self.view.propagations().winner(object),
        }
    }

    /// The clusters that an object goes to; none if no policy holds for it, and then it stays where it is.
    pub(super) fn placed(&self, part: Part, key: &ServiceKey) -> Option<BTreeSet<ClusterName>> {
        let object = object(part, key, self.template(part, key)?);
        if never::object(&object, self.view.propagations().system_namespace()).is_some() {
            return None;
        }
        let winner = self.winner(&object)?;
        // Clusters that export the service hold it already, which counts where a placement has a choice.
        let holding = self.view.records(key).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        Some(winner.policy.body.placement.place(self.view.members(), &holding).targets)
    }

    /// What each cluster exports of a service: its Service as the hub places it there, or else as its agent says it is.
    pub(super) fn exports(&self, key: &ServiceKey) -> BTreeMap<ClusterName, Exported> {
        let export = self.template(Part::Export, key);
        let records = self.view.records(key);
        if export.is_none() && records.is_none() {
            return BTreeMap::new();
        }
        let exported = self.placed(Part::Export, key);
        let services = self.placed(Part::Service, key).unwrap_or_default();
        let template = self.template(Part::Service, key);
        let offers = template.map(|template| self.offers(Part::Service, key, template, &services));
        // Without records there is nothing to withdraw.
        let before = records.and_then(|_| Self::now(self.view).placed(Part::Export, key));
        let mut found = BTreeMap::new();
        for cluster in exported.iter().flatten().chain(records.into_iter().flat_map(BTreeMap::keys)) {
            let record = records.and_then(|records| records.get(cluster));
            let elsewhere = exported.as_ref().is_some_and(|exported| !exported.contains(cluster));
            let placed_before = before.as_ref().is_some_and(|before| before.contains(cluster));
            // What the hub exported there goes with the change. What no policy holds for any more stays.
            if placed_before && (elsewhere || export.is_none()) {
                continue;
            }
            let created = record.map(|record| record.created).or(export.and_then(|export| export.created));
            let offer = offers.as_ref().and_then(|offers| offers.get(cluster)?.as_ref().ok());
            let exported = match (offer, record) {
                (Some(offer), _) if offer.external_name => continue,
                (Some(offer), _) => {
                    Exported { ports: offer.ports(), service_type: offer.service_type, created }
                }
                (None, Some(record)) => Exported {
                    ports: record.service.ports.clone(),
                    service_type: record.service.service_type,
                    created,
                },
                (None, None) => continue,
            };
            found.insert(cluster.clone(), exported);
        }
        found
    }

    /// The ports of the ServiceImport on the hub.
    pub(super) fn import_ports(&self, key: &ServiceKey) -> Option<Vec<Port>> {
        self.template(Part::Import, key).map(|import| Offer::of(&import.body()).ports())
    }

    /// The ports of the ServiceImport as each importing cluster gets it.
    pub(super) fn import_variants(&self, key: &ServiceKey) -> BTreeMap<ClusterName, Vec<Port>> {
        let Some(import) = self.template(Part::Import, key) else {
            return BTreeMap::new();
        };
        if self.overriding(&object(Part::Import, key, import)).is_empty() {
            return BTreeMap::new();
        }
        let clusters = self.placed(Part::Import, key).unwrap_or_default();
        let offers = self.offers(Part::Import, key, import, &clusters).into_iter();
        offers.filter_map(|(cluster, offer)| Some((cluster, offer.ok()?.ports()))).collect()
    }

    /// What an object offers in each of some clusters, or the override that does not apply to it there.
    pub(super) fn offers(
        &self,
        part: Part,
        key: &ServiceKey,
        template: &Template,
        clusters: &BTreeSet<ClusterName>,
    ) -> BTreeMap<ClusterName, Result<Offer, Failure>> {
        self.copies(part, key, template, clusters, Offer::of)
    }

    /// What there is to see of an object's copies in some clusters, or the override that does not apply to it there.
    pub(super) fn copies<T>(
        &self,
        part: Part,
        key: &ServiceKey,
        template: &Template,
        clusters: &BTreeSet<ClusterName>,
        see: impl Fn(&Value) -> T,
    ) -> BTreeMap<ClusterName, Result<T, Failure>> {
        let policies = self.overriding(&object(part, key, template));
        let body = template.body();
        let members = clusters.iter().filter_map(|cluster| self.view.members().get(cluster));
        let copy = |member: &Member| overridden(&policies, &body, member).map(|copy| see(&copy));
        members.map(|member| (member.name.clone(), copy(member))).collect()
    }

    /// The policies that change an object.
    fn overriding(&self, object: &Object<'_>) -> Vec<Match<'a, Override>> {
        match self.change {
            Change::Override(edit) => self.view.overrides().matching_after(edit, object),
            _ => self.view.overrides().matching(object),
        }
    }
}

/// An object as policies see it.
pub(super) fn object<'a>(part: Part, key: &'a ServiceKey, template: &'a Template) -> Object<'a> {
    let ServiceKey { namespace, name } = key;
    Object { kind: part.kind(), namespace: namespace.as_str(), name: name.as_str(), labels: &template.labels }
}
