//! Port conflicts that a change would bring about.
//!
//! The ports of a service are compared as they are, and as they would be after the change: those of each cluster that
//! exports it with those of the others and of the ServiceImport on the hub. What contradicts after the change and did
//! not before is the change's doing and refused. What contradicted already is not, and is only warned about: it came by a
//! race, by a member's own export or under the rule `resolve`, and must not hold up unrelated edits. A contradiction is
//! the same one while its ports and the places that have them stay; so an edit of a conflicting port, or one more cluster
//! on either side, is a new one.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use self::words::Text;
pub(super) use self::words::listed;
use super::{Verdict, state::State};
use crate::{
    api::names::annotation,
    decide::{
        ids::{ClusterName, ServiceKey},
        merge::Created,
        ports::{Clash, Port, PortConflict, conflicts},
        view::Offer,
    },
};

/// As many services as a change of a policy is refused for by name.
const SERVICES: usize = 10;

/// Somewhere that a service's ports are defined.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A cluster that exports it.
    Cluster(ClusterName),
    /// The ServiceImport on the hub.
    Import,
    /// The ServiceImport on the hub as overrides change it for a cluster.
    ImportIn(ClusterName),
}

/// Two ports that contradict each other, the lesser first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contradiction {
    clash: Clash,
    one: Port,
    other: Port,
}

/// Where each of two contradicting ports is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sides {
    one: BTreeSet<Place>,
    other: BTreeSet<Place>,
}

/// The ports of a service, place by place.
#[derive(Debug, Default)]
struct Picture {
    places: BTreeMap<Place, Vec<Port>>,
    since: BTreeMap<ClusterName, Option<Created>>,
}

/// What is changed: how a message speaks of it, and under which rule it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The kind of object.
    pub about: About<'a>,
    /// What is done about new conflicts.
    pub rule: Rule,
}

/// What is done about conflicts that a change brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The change is refused, unless the service stands under another rule.
    Refuse,
    /// They are merged.
    Resolve,
    /// They are told: the change cannot be refused.
    Tell,
}

/// Where a conflict is in the object that is changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum About<'a> {
    /// In the ports of a ServiceImport.
    Import(&'a Offer),
    /// In the ports of a Service.
    Service(&'a Offer),
    /// In the Service behind a ServiceExport.
    Export,
    /// In this field of a policy.
    Policy(&'a str),
}

/// Judges what a change does to the ports of services. Services that it cannot affect need not be given.
pub(super) fn judge(
    before: &State<'_>,
    after: &State<'_>,
    services: &BTreeSet<ServiceKey>,
    subject: Subject<'_>,
    verdict: &mut Verdict,
) {
    let (mut refused, before_these) = (0, verdict.faults.len());
    for key in services {
        let change = Change { key, subject, old: Picture::of(before, key), new: Picture::of(after, key) };
        let rule = match subject.rule {
            Rule::Refuse if after.resolves(key, subject.about.is_direct()) => Rule::Resolve,
            rule => rule,
        };
        let mut judged = Verdict::default();
        change.judge(rule, &mut judged);
        refused += usize::from(!judged.allowed());
        verdict.warnings.append(&mut judged.warnings);
        if refused <= SERVICES {
            verdict.faults.append(&mut judged.faults);
        }
    }
    if let Some(more) = refused.checked_sub(SERVICES).filter(|more| *more > 0) {
        let field = if let About::Policy(field) = subject.about { field } else { "spec" };
        verdict.fault(field, format!("{more} services more would have port conflicts; use the same ports"));
    }
    // Once for all of them.
    if let Some(last) = verdict.faults[before_these..].last_mut() {
        last.message.push_str(&words::way_out(subject.about));
    }
    let unknown = before.view.unknown();
    if !unknown.is_empty() && !services.is_empty() {
        let names = listed(unknown.iter().map(ToString::to_string));
        verdict.warn(format!(
            "what is exported by {names} is not known just now; port conflicts with it show in the status"
        ));
    }
}

/// The ports of a service before and after the change.
struct Change<'a> {
    key: &'a ServiceKey,
    subject: Subject<'a>,
    old: Picture,
    new: Picture,
}

// === impl Change ===

impl Change<'_> {
    fn judge(&self, rule: Rule, verdict: &mut Verdict) {
        let (known, found) = (self.old.contradictions(), self.new.contradictions());
        let mut texts: Vec<_> =
            found.iter().map(|(contradiction, sides)| Text { change: self, contradiction, sides }).collect();
        texts.sort_by_key(Text::index);
        for text in texts {
            let stands = known.get(text.contradiction).is_some_and(|known| text.sides.is_within(known));
            match rule {
                _ if stands => verdict.warn(format!("{} (so before this change too)", text.short())),
                Rule::Tell => verdict.warn(format!("this brings a port conflict about: {}", text.short())),
                Rule::Resolve => {
                    let rule = annotation::PORT_CONFLICTS;
                    verdict.warn(format!("{}; it is merged, as {rule} asks", text.short()));
                }
                Rule::Refuse => verdict.fault(text.field(), text.long()),
            }
        }
    }
}

// === impl Picture ===

impl Picture {
    fn of(state: &State<'_>, key: &ServiceKey) -> Self {
        let mut picture = Self::default();
        for (cluster, export) in state.exports(key) {
            picture.since.insert(cluster.clone(), export.created);
            picture.places.insert(Place::Cluster(cluster), export.ports);
        }
        let Some(import) = state.import_ports(key) else {
            return picture;
        };
        for (cluster, ports) in state.import_variants(key) {
            if ports != import {
                picture.places.insert(Place::ImportIn(cluster), ports);
            }
        }
        picture.places.insert(Place::Import, import);
        picture
    }

    /// Places with the same ports are compared once, so that hundreds of clusters cost as much as two.
    fn contradictions(&self) -> BTreeMap<Contradiction, Sides> {
        let mut groups: BTreeMap<&[Port], BTreeSet<Place>> = BTreeMap::new();
        for (place, ports) in &self.places {
            groups.entry(ports).or_default().insert(place.clone());
        }
        let mut found: BTreeMap<_, Sides> = BTreeMap::new();
        let groups: Vec<_> = groups.into_iter().collect();
        for (index, (ports, places)) in groups.iter().enumerate() {
            for (others, other_places) in &groups[..index] {
                if places.iter().chain(other_places).all(Place::is_import) {
                    continue;
                }
                for conflict in conflicts(ports, others) {
                    let (contradiction, turned) = Contradiction::of(conflict);
                    let sides = found.entry(contradiction).or_default();
                    let (one, other) = if turned { (other_places, places) } else { (places, other_places) };
                    sides.one.extend(one.iter().cloned());
                    sides.other.extend(other.iter().cloned());
                }
            }
        }
        found
    }
}

// === impl Contradiction ===

impl Contradiction {
    /// The contradiction, and whether its ports changed places.
    fn of(conflict: PortConflict) -> (Self, bool) {
        let PortConflict { clash, here, there, .. } = conflict;
        if here <= there {
            (Self { clash, one: here, other: there }, false)
        } else {
            (Self { clash, one: there, other: here }, true)
        }
    }
}

// === impl Sides ===

impl Sides {
    fn is_within(&self, known: &Self) -> bool {
        self.one.is_subset(&known.one) && self.other.is_subset(&known.other)
    }
}

// === impl Place ===

impl Place {
    fn is_import(&self) -> bool {
        !matches!(self, Self::Cluster(_))
    }
}

// === impl Rule ===

impl Rule {
    /// The rule for an object that asks for conflicts to be merged, or does not.
    pub(super) fn of(resolves: bool) -> Self {
        if resolves { Self::Resolve } else { Self::Refuse }
    }
}

// === impl About ===

impl About<'_> {
    /// Whether the object is itself where its rule stands.
    fn is_direct(self) -> bool {
        matches!(self, Self::Import(_) | Self::Export)
    }
}
