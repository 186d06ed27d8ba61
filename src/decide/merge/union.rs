//! The union of the exports' ports (KEP-1645 G5–G8), by the exports alone: the past has no say in what is served.

use std::collections::BTreeMap;

use super::{Export, ExportedPort, Fate, Withheld, names::NameTable};
use crate::decide::{
    ids::PortName,
    ports::{Port, PortKey},
};

/// The merged ports, and what becomes of each export's ports.
pub(super) struct Union<'a> {
    /// The ports of the oldest export in its own order, then what each younger one adds.
    pub(super) ports: Vec<UnionPort<'a>>,
    /// For each export, from the oldest on, the verdicts on its ports.
    pub(super) verdicts: Vec<BTreeMap<PortKey, Verdict<'a>>>,
}

/// A port of the union.
pub(super) struct UnionPort<'a> {
    /// The oldest definition.
    pub(super) definition: &'a Port,
    /// The exports that serve it and what they call it, from the oldest on. The first is the one that defines it.
    pub(super) servers: Vec<(usize, &'a PortName)>,
}

/// What becomes of an exported port.
pub(super) struct Verdict<'a> {
    name: &'a PortName,
    withheld: Option<Withheld>,
}

/// Says what to do with a port in view of the older ones.
enum Place {
    /// It is this one of them.
    Same(usize),
    /// It is none of them.
    New,
    /// Its name belongs to this one of them.
    Outranked(usize),
}

// === impl Union ===

impl<'a> Union<'a> {
    /// The union of the ports of exports that are ordered by age.
    pub(super) fn of(exports: &[&'a Export]) -> Self {
        let mut union = Self { ports: Vec::new(), verdicts: Vec::new() };
        for (index, export) in exports.iter().enumerate() {
            let mut verdicts: BTreeMap<_, Verdict<'_>> = BTreeMap::new();
            for (position, port) in export.service.ports.iter().enumerate() {
                let earlier = &export.service.ports[..position];
                // Of two entries for one (protocol, port) the first is the port.
                if earlier.iter().any(|other| other.key == port.key) {
                    continue;
                }
                let withheld = if earlier.iter().any(|other| other.name == port.name) {
                    Some(Withheld::Duplicate)
                } else {
                    union.admit(exports, index, port)
                };
                verdicts.insert(port.key, Verdict { name: &port.name, withheld });
            }
            union.verdicts.push(verdicts);
        }
        union
    }

    /// Takes in a port of an export, unless it is outranked.
    fn admit(&mut self, exports: &[&Export], index: usize, port: &'a Port) -> Option<Withheld> {
        let server = (index, &port.name);
        match self.place(port) {
            Place::Same(known) => self.ports[known].servers.push(server),
            Place::New => self.ports.push(UnionPort { definition: port, servers: vec![server] }),
            Place::Outranked(known) => {
                let winner = &self.ports[known];
                let by = exports[winner.definer()].cluster.clone();
                return Some(Withheld::Outranked { by, port: winner.definition.key });
            }
        }
        None
    }

    fn place(&self, port: &Port) -> Place {
        let named = self.ports.iter().position(|known| known.definition.name == port.name);
        let keyed = self.ports.iter().position(|known| known.definition.key == port.key);
        match (named, keyed) {
            // By name first, then by protocol and port (G7); nothing is contradicted by what has no name.
            (Some(named), Some(keyed)) if named != keyed && port.name.is_named() => Place::Outranked(named),
            (_, Some(keyed)) => Place::Same(keyed),
            (Some(named), None) => Place::Outranked(named),
            (None, None) => Place::New,
        }
    }
}

// === impl UnionPort ===

impl UnionPort<'_> {
    /// The export that defines it.
    pub(super) fn definer(&self) -> usize {
        self.servers[0].0
    }
}

// === impl Verdict ===

impl Verdict<'_> {
    /// Why it is withheld, if it is.
    pub(super) fn withheld(&self) -> Option<&Withheld> {
        self.withheld.as_ref()
    }

    /// The port under its own name.
    pub(super) fn port(&self, key: PortKey) -> String {
        if self.name.is_named() { format!("{} {key}", self.name) } else { key.to_string() }
    }

    /// What becomes of the port where the merged ports have these names.
    pub(super) fn exported(&self, key: PortKey, names: &impl NameTable) -> ExportedPort {
        let fate = match &self.withheld {
            Some(reason) => Fate::Withheld(reason.clone()),
            None => Fate::Served(names.name(key)),
        };
        ExportedPort { name: self.name.clone(), fate }
    }
}
