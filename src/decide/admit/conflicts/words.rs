//! Port conflicts in words: what contradicts what, where, since when, and the way out.

use std::collections::BTreeSet;

use super::{About, Change, Contradiction, Place, Sides};
use crate::{
    api::names::annotation,
    decide::ports::{Port, PortConflict},
};

/// As many places as a message names.
const NAMED: usize = 5;

/// A contradiction in words.
pub(super) struct Text<'a> {
    pub(super) change: &'a Change<'a>,
    pub(super) contradiction: &'a Contradiction,
    pub(super) sides: &'a Sides,
}

// === impl Text ===

impl Text<'_> {
    /// Which side is *here*: that of the import if one is judged, else one that the change has touched.
    fn turned(&self) -> bool {
        if matches!(self.change.subject.about, About::Import(_)) {
            return self.sides.other.contains(&Place::Import);
        }
        let touched = |place: &Place| self.change.old.places.get(place) != self.change.new.places.get(place);
        !self.sides.one.iter().any(touched) && self.sides.other.iter().any(touched)
    }

    fn oriented(&self) -> (&Port, &BTreeSet<Place>, &Port, &BTreeSet<Place>) {
        let (Contradiction { one, other, .. }, sides) = (self.contradiction, self.sides);
        if self.turned() {
            (other, &sides.other, one, &sides.one)
        } else {
            (one, &sides.one, other, &sides.other)
        }
    }

    /// Which port of the changed object the conflict is in, if the object has ports and it is one of them.
    pub(super) fn index(&self) -> Option<usize> {
        let (here, ..) = self.oriented();
        let (About::Import(offer) | About::Service(offer)) = self.change.subject.about else {
            return None;
        };
        offer.ports.iter().find(|(_, port)| port == here).map(|(index, _)| *index)
    }

    /// The field of the changed object that the conflict is in.
    pub(super) fn field(&self) -> String {
        match self.change.subject.about {
            About::Export => "metadata.name".to_owned(),
            About::Policy(field) => field.to_owned(),
            About::Import(_) | About::Service(_) => {
                let field =
                    self.contradiction.clash.field().map_or(String::new(), |field| format!(".{field}"));
                self.index().map_or("spec.ports".to_owned(), |index| format!("spec.ports[{index}]{field}"))
            }
        }
    }

    /// The contradiction alone.
    pub(super) fn short(&self) -> String {
        self.words(false)
    }

    /// The contradiction, since when the other side is there, and what would end it.
    pub(super) fn long(&self) -> String {
        let same = self.contradiction.clash.field().unwrap_or("port");
        format!("{}; use the same {same}", self.words(true))
    }

    fn words(&self, dated: bool) -> String {
        let (here, here_places, there, there_places) = self.oriented();
        let conflict = PortConflict {
            index: 0,
            clash: self.contradiction.clash,
            here: here.clone(),
            there: there.clone(),
        };
        let here_words = match self.change.subject.about {
            About::Import(_) if here_places.contains(&Place::Import) => "here".to_owned(),
            _ => self.places(here_places, false),
        };
        let text = conflict.between(&here_words, &self.places(there_places, dated));
        match self.change.subject.about {
            About::Policy(_) | About::Export => format!("Service {}: {text}", self.change.key),
            About::Import(_) | About::Service(_) => text,
        }
    }

    fn places(&self, places: &BTreeSet<Place>, dated: bool) -> String {
        let clusters: Vec<_> = places.iter().filter_map(|place| self.cluster(place, dated)).collect();
        let mut words = Vec::new();
        match clusters.len() {
            0 => {}
            1 => words.push(format!("in cluster {}", listed(clusters))),
            _ => words.push(format!("in clusters {}", listed(clusters))),
        }
        if places.contains(&Place::Import) {
            words.push("in the ServiceImport on the hub".to_owned());
        }
        let variants = places.iter().filter_map(|place| match place {
            Place::ImportIn(cluster) => Some(cluster.to_string()),
            _ => None,
        });
        let variants = listed(variants);
        if !variants.is_empty() {
            words.push(format!("in the ServiceImport as it is overridden for {variants}"));
        }
        words.join(" and ")
    }

    fn cluster(&self, place: &Place, dated: bool) -> Option<String> {
        let Place::Cluster(cluster) = place else {
            return None;
        };
        // What only comes with this change has not been there since any time.
        match self.change.old.since.get(cluster).copied().flatten().filter(|_| dated) {
            Some(since) => Some(format!("{cluster} (exported since {since})")),
            None => Some(cluster.to_string()),
        }
    }
}

/// The way out that holds for all conflicts of a change, to go on with after what would end one of them.
pub(super) fn way_out(about: About<'_>) -> String {
    let rule = format!("{}: {}", annotation::PORT_CONFLICTS, annotation::PORT_CONFLICTS_RESOLVE);
    let on = match about {
        About::Import(_) | About::Export => "this object or its Namespace",
        About::Service(_) => "the ServiceExport, the Service or their Namespace",
        About::Policy(_) => "the ServiceExport, this policy or the Namespace",
    };
    format!(
        ", or annotate {on} with `{rule}`: then ports are merged instead of refused, which is also the way to move from \
         one port to another step by step"
    )
}

/// `a`, `a and b`, `a, b and 3 more`.
pub(in crate::decide::admit) fn listed(items: impl IntoIterator<Item = String>) -> String {
    let mut items: Vec<_> = items.into_iter().collect();
    if items.len() > NAMED {
        let more = items.len() - NAMED + 1;
        items.truncate(NAMED - 1);
        items.push(format!("{more} more"));
    }
    match items.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
