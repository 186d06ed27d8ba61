//! A port as a Service exports it or a ServiceImport imports it, and when two of them contradict each other.
//!
//! Two lists of ports *conflict* where a consumer would be told two different things about one port. Ports
//! are the same port if they have the same name, where no name counts as one, or the same protocol and number. What is
//! not set says nothing, so it contradicts nothing; nor does a port that only one side has.
//!
//! | here | there | conflict |
//! |---|---|---|
//! | `http` 80/TCP | `http` 8080/TCP | port |
//! | `http` 80/TCP | `http` 80/UDP | protocol |
//! | unnamed 80/TCP | unnamed 8080/TCP | port: two Services of one unnamed port each mean the same port |
//! | `http` 80/TCP | `web` 80/TCP | name |
//! | `http` 80/TCP | unnamed 80/TCP | none: the unnamed one takes the other's name |
//! | `http` 80/TCP | unnamed 8080/TCP | none: two ports |
//! | `a` 80/TCP, `b` 81/TCP | `b` 80/TCP, `a` 81/TCP | port of `a` and of `b`, name of 80 and of 81 |
//! | 80/TCP for `http` | 80/TCP for `kubernetes.io/h2c` | appProtocol, whatever the names |
//! | 80/TCP for `http` | 80/TCP, no appProtocol | none: it can be added cluster by cluster |
//! | 80/TCP | 443/TCP, 80/UDP under other names | none: extra and missing ports |
//!
//! *Within* one list a name and a (protocol, number) may each occur once, whatever else is set: Kubernetes' own rule for
//! Services, and the KEP's for merged ones (KEP-1645 G6).

use std::{fmt, str::FromStr, sync::Arc};

use super::ids::PortName;

/// A transport protocol of Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// What a port without a protocol has.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A protocol that Services do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProtocol(String);

/// What a port is known by on the wire, and across clusters when names differ: its protocol and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The Service's port, not the pods' target port.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
}

/// A port of a Service or ServiceImport.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Its name, or none.
    pub name: PortName,
    /// Its protocol and number.
    pub key: PortKey,
    /// What is spoken on it, as a hint to meshes and gateways.
    pub app_protocol: Option<Arc<str>>,
}

/// How two definitions of a port contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clash {
    /// The same name with another number (and perhaps another protocol).
    Port,
    /// The same name and number with another protocol.
    Protocol,
    /// The same protocol and number under another name.
    Name,
    /// The same protocol and number for another application protocol.
    AppProtocol,
    /// The same port twice in one list.
    Twice,
}

/// A contradiction between a port *here*, the one that is judged, and one *there*.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortConflict {
    /// Which entry of the judged list it is.
    pub index: usize,
    /// What contradicts.
    pub clash: Clash,
    /// The judged port.
    pub here: Port,
    /// The port that it contradicts.
    pub there: Port,
}

/// Every contradiction of one list with another, by entry of the first.
pub fn conflicts(here: &[Port], there: &[Port]) -> Vec<PortConflict> {
    let pairs = here.iter().enumerate().flat_map(|(index, h)| there.iter().map(move |t| (index, h, t)));
    sorted(pairs.flat_map(|(index, here, there)| {
        clashes(here, there).into_iter().flatten().map(move |clash| PortConflict {
            index,
            clash,
            here: here.clone(),
            there: there.clone(),
        })
    }))
}

/// Every contradiction of a list with itself, by the later of two entries (KEP-1645 G6).
pub fn duplicates(ports: &[Port]) -> Vec<PortConflict> {
    let pairs = ports.iter().enumerate().flat_map(|(index, here)| {
        ports[..index].iter().filter_map(move |there| {
            duplicate(here, there).map(|clash| PortConflict {
                index,
                clash,
                here: here.clone(),
                there: there.clone(),
            })
        })
    });
    sorted(pairs)
}

fn sorted(conflicts: impl Iterator<Item = PortConflict>) -> Vec<PortConflict> {
    let mut conflicts: Vec<_> = conflicts.collect();
    conflicts.sort_unstable();
    conflicts.dedup();
    conflicts
}

fn clashes(here: &Port, there: &Port) -> [Option<Clash>; 2] {
    let both_set_and_different = |h: Option<&str>, t: Option<&str>| h.is_some() && t.is_some() && h != t;
    if here.key == there.key {
        let name = here.name.is_named() && there.name.is_named() && here.name != there.name;
        let app = both_set_and_different(here.app_protocol.as_deref(), there.app_protocol.as_deref());
        [name.then_some(Clash::Name), app.then_some(Clash::AppProtocol)]
    } else if here.name == there.name {
        [Some(moved(here, there)), None]
    } else {
        [None, None]
    }
}

fn duplicate(here: &Port, there: &Port) -> Option<Clash> {
    match (here.name == there.name, here.key == there.key) {
        (true, true) => Some(Clash::Twice),
        (true, false) => Some(moved(here, there)),
        (false, true) => Some(Clash::Name),
        (false, false) => None,
    }
}

fn moved(here: &Port, there: &Port) -> Clash {
    if here.key.port == there.key.port { Clash::Protocol } else { Clash::Port }
}

// === impl Protocol ===

impl Protocol {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        match text {
            "TCP" => Ok(Self::Tcp),
            "UDP" => Ok(Self::Udp),
            "SCTP" => Ok(Self::Sctp),
            other => Err(UnknownProtocol(other.chars().take(20).collect())),
        }
    }
}

// === impl UnknownProtocol ===

impl std::error::Error for UnknownProtocol {}

impl fmt::Display for UnknownProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a protocol of Services: TCP, UDP and SCTP are", self.0)
    }
}

// === impl PortKey ===

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.port, self.protocol)
    }
}

// === impl Port ===

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_named() { write!(f, "{} {}", self.name, self.key) } else { self.key.fmt(f) }
    }
}

// === impl Clash ===

impl Clash {
    /// The field of a port that differs, by its name in YAML; none where the whole entry is one too many.
    pub fn field(self) -> Option<&'static str> {
        match self {
            Self::Port => Some("port"),
            Self::Protocol => Some("protocol"),
            Self::Name => Some("name"),
            Self::AppProtocol => Some("appProtocol"),
            Self::Twice => None,
        }
    }
}

// === impl PortConflict ===

impl PortConflict {
    /// The contradiction in words, with words for the two places: `here` and `in cluster member1`, say.
    pub fn between(&self, here: &str, there: &str) -> String {
        let (subject, key) = (self.subject(), self.here.key);
        let (h, t) = (&self.here, &self.there);
        match self.clash {
            Clash::Port => format!("{subject}: {} {here}, {} {there}", h.key, t.key),
            Clash::Protocol => {
                let (number, h, t) = (key.port, h.key.protocol, t.key.protocol);
                format!("{subject} ({number}): protocol {h} {here}, {t} {there}")
            }
            Clash::Name => format!("port {key}: name {:?} {here}, {:?} {there}", h.name, t.name),
            Clash::AppProtocol => {
                let app = |port: &Port| port.app_protocol.as_deref().unwrap_or_default().to_owned();
                format!("{subject} ({key}): appProtocol {:?} {here}, {:?} {there}", app(h), app(t))
            }
            Clash::Twice => format!("{subject}: {key} {here}, the same {there}"),
        }
    }

    fn subject(&self) -> String {
        match &self.here.name {
            name if name.is_named() => format!("port {name:?}"),
            _ => "the unnamed port".to_owned(),
        }
    }
}

impl fmt::Display for PortConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.between("here", "there"))
    }
}

#[cfg(test)]
pub(super) mod tests;
