//! The names of merged ports: unique, none missing where there are several ports (Kubernetes' rule), and kept if they
//! can be.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AcceptedName, AcceptedNames, Export,
    union::{Union, UnionPort},
};
use crate::decide::{
    ids::{ClusterName, PortName},
    ports::PortKey,
};

/// Knows ports' names.
pub(super) trait NameTable {
    /// The name of a port, or none.
    fn name(&self, port: PortKey) -> PortName;
}

/// Names the ports of a union.
///
/// First every name that is to be kept; then, in the order of the union, the definition's own name, else the accepted one,
/// else a made-up one, each unless another port has it. Older exports' ports come first in the union, so that a younger
/// export changes no name but that of a single unnamed port, which must get one when there are two.
pub(super) fn assign(exports: &[&Export], union: &Union<'_>, accepted: &AcceptedNames) -> AcceptedNames {
    let several = union.ports.len() > 1;
    let usable = |name: &PortName| name.is_named() || !several;
    let before =
        |port: &UnionPort<'_>| accepted.get(&port.definition.key).filter(|accepted| usable(&accepted.name));

    let mut taken = BTreeSet::new();
    let mut names: Vec<Option<PortName>> = Vec::new();
    for port in &union.ports {
        let kept = before(port).filter(|before| is_kept(exports, union, port, before)).map(|kept| &kept.name);
        names.push(kept.filter(|name| taken.insert((*name).clone())).cloned());
    }
    for (port, name) in union.ports.iter().zip(&mut names) {
        name.get_or_insert_with(|| {
            let wanted = [Some(&port.definition.name), before(port).map(|before| &before.name)];
            let wanted = wanted.into_iter().flatten().filter(|name| usable(name)).cloned();
            let mut wanted = wanted.chain(made_up(port.definition.key));
            wanted.find(|name| taken.insert(name.clone())).expect("made-up names do not run out")
        });
    }

    let named = union.ports.iter().zip(names.into_iter().flatten());
    let named = named.map(|(port, name)| {
        let given_by = giver(exports, port, &name, before(port));
        (port.definition.key, AcceptedName { name, given_by })
    });
    named.collect()
}

/// Whether a port keeps its name: see [`AcceptedName`].
fn is_kept(exports: &[&Export], union: &Union<'_>, port: &UnionPort<'_>, before: &AcceptedName) -> bool {
    let supported = port.servers.iter().any(|(_, name)| !name.is_named() || **name == before.name);
    let orphaned = server_of(exports, port, before).is_none();
    let claimed = || {
        union.ports.iter().any(|other| {
            other.definition.name == before.name
                && other.definition.key != port.definition.key
                && other.definer() <= port.definer()
        })
    };
    supported || (orphaned && !claimed())
}

/// The export that gave the name, if it still serves the port.
fn server_of(exports: &[&Export], port: &UnionPort<'_>, before: &AcceptedName) -> Option<usize> {
    let given_by = before.given_by.as_ref()?;
    port.servers.iter().map(|(server, _)| *server).find(|server| exports[*server].cluster == *given_by)
}

/// Whose name it is: the oldest export's that calls the port so, else whose it was, else it was made up for the
/// definition.
fn giver(
    exports: &[&Export],
    port: &UnionPort<'_>,
    name: &PortName,
    before: Option<&AcceptedName>,
) -> Option<ClusterName> {
    let calls_it_so = port.servers.iter().find(|(_, declared)| *declared == name).map(|(server, _)| *server);
    let server = calls_it_so.or_else(|| match before {
        Some(before) if before.name == *name => server_of(exports, port, before),
        _ => Some(port.definer()),
    });
    server.map(|server| exports[server].cluster.clone())
}

/// `tcp-80`, and should that be taken `tcp-80-2`, `tcp-80-3` …
pub(super) fn made_up(key: PortKey) -> impl Iterator<Item = PortName> {
    let plain = format!("{}-{}", key.protocol.as_str().to_ascii_lowercase(), key.port);
    let numbered = plain.clone();
    std::iter::once(plain)
        .chain((2u64..).map(move |number| format!("{numbered}-{number}")))
        .map(|name| PortName::trusted(&name))
}

// === impl NameTable ===

impl NameTable for AcceptedNames {
    fn name(&self, port: PortKey) -> PortName {
        self.get(&port).map(|accepted| accepted.name.clone()).unwrap_or_default()
    }
}

impl NameTable for BTreeMap<PortKey, PortName> {
    fn name(&self, port: PortKey) -> PortName {
        self.get(&port).cloned().unwrap_or_default()
    }
}
