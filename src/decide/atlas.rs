//! The fleet as a map: clusters as islands, services as bridges between them. It is what the status page shows.
//!
//! [`Draft`] takes the islands, then the bridges one by one, and [`Draft::finish`] gives back the [`Atlas`]: sorted, byte-stable and
//! bounded, with what is troubled before what is well. Everything in it that came from a cluster is text of bounded length without
//! characters that steer how others are shown ([`plain`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::{
    exchange::{Bridge, Exchange, Footing, Trust},
    explain::one_line,
    freshness::Grade,
    ids::ClusterName,
    view::View,
};

/// As many services are shown.
pub const BRIDGES: usize = 200;
/// As many clusters are shown.
pub const ISLANDS: usize = 200;
/// As many characters of a message are shown.
const LONGEST: usize = 400;

/// The fleet as a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Atlas {
    /// Whether the hub has read its own objects, so that there is something to show.
    pub ready: bool,
    /// Whether the replica that says so leads.
    pub leads: bool,
    /// The clusters, by name.
    pub islands: Vec<Island>,
    /// The services, by namespace and name.
    pub bridges: Vec<Bridge>,
    /// How many there are of all, those that are not shown included.
    pub totals: Totals,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Clusters.
    pub islands: usize,
    /// Clusters that are not as they should be.
    pub troubled_islands: usize,
    /// Services.
    pub bridges: usize,
    /// Services that are not as they should be.
    pub troubled_bridges: usize,
    /// Services whose exporters do not agree.
    pub conflicts: usize,
    /// Clusters that are not shown.
    pub islands_left_out: usize,
    /// Services that are not shown.
    pub bridges_left_out: usize,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Island {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: Weather,
    /// Whether its API server answers: True, False, Unknown, or nothing as long as nobody looked.
    pub ready: String,
    /// Whether its agent is at work.
    pub agent: String,
    /// Whether all of its data is believed.
    pub trusted: String,
    /// Its version of Kubernetes.
    pub version: String,
    /// Where it is.
    pub region: String,
    /// Since when it is silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What is not well, in words.
    pub message: String,
}

/// How a cluster is; the worse the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Weather {
    /// As it should be.
    #[default]
    Well,
    /// Nobody has looked at it yet.
    New,
    /// It is being seen off.
    Leaving,
    /// A copy of which no policy tells could not be removed or written there.
    CopiesAmiss,
    /// Something of it is not believed.
    Distrusted,
    /// Its agent is not at work.
    NoAgent,
    /// It has not answered for a moment.
    Silent,
    /// It answers, but cannot be used.
    Unready,
    /// It has not answered for a while: its endpoints are marked.
    Stale,
    /// It has not answered for so long that its endpoints are not ready where others are.
    Lost,
}

/// What a link says of its member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Whether its API server answers, in the words of the condition Ready.
    pub ready: Option<Said>,
    /// Whether its agent is at work, in the words of the condition AgentReady.
    pub agent: Option<Said>,
    /// Its version of Kubernetes, where it answers.
    pub version: String,
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// True, False or Unknown.
    pub truth: &'static str,
    /// In words.
    pub message: String,
}

/// An atlas on its way.
#[derive(Debug, Default)]
pub struct Draft {
    islands: Vec<Island>,
    /// By how bad they are, those that are worst first; then by name. Not more than are shown.
    bridges: BTreeMap<(std::cmp::Reverse<Footing>, String, String), Bridge>,
    totals: Totals,
}

// === impl Draft ===

impl Draft {
    /// A map of these clusters, without services yet.
    pub fn new(view: &View, exchange: &Exchange, sights: &BTreeMap<ClusterName, Sight>) -> Self {
        let unknown = Sight::default();
        let islands = view.members().keys().map(|name| {
            let sight = sights.get(name).unwrap_or(&unknown);
            Island::of(name, view, sight, exchange.grade(name), exchange.trust(name).as_ref())
        });
        let mut islands: Vec<_> = islands.collect();
        let totals = Totals {
            islands: islands.len(),
            troubled_islands: islands.iter().filter(|island| island.state != Weather::Well).count(),
            islands_left_out: islands.len().saturating_sub(ISLANDS),
            ..Totals::default()
        };
        // Those that need a look are shown in any case.
        islands.sort_by(|a, b| b.state.cmp(&a.state).then_with(|| a.name.cmp(&b.name)));
        islands.truncate(ISLANDS);
        islands.sort_by(|a, b| a.name.cmp(&b.name));
        Self { islands, bridges: BTreeMap::new(), totals }
    }

    /// Adds a service.
    pub fn add(&mut self, bridge: Bridge) {
        self.totals.bridges += 1;
        self.totals.troubled_bridges += usize::from(bridge.state != Footing::Well);
        self.totals.conflicts += usize::from(!bridge.reason.is_empty());
        let rank = std::cmp::Reverse(bridge.state);
        self.bridges.insert((rank, bridge.namespace.clone(), bridge.name.clone()), bridge);
        if self.bridges.len() > BRIDGES {
            self.bridges.pop_last();
            self.totals.bridges_left_out += 1;
        }
    }

    /// The map.
    pub fn finish(self, ready: bool, leads: bool) -> Atlas {
        let mut bridges: Vec<_> = self.bridges.into_values().collect();
        bridges.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Atlas { ready, leads, islands: self.islands, bridges, totals: self.totals }
    }
}

// === impl Island ===

impl Island {
    fn of(name: &ClusterName, view: &View, sight: &Sight, grade: Grade, trust: Option<&Trust>) -> Self {
        let member = view.members().get(name);
        let leaving = member.is_some_and(|member| member.leaving);
        let truth = |said: &Option<Said>| said.as_ref().map(|said| said.truth).unwrap_or_default().to_owned();
        let unmet = |said: &Option<Said>| said.as_ref().filter(|said| said.truth != "True").cloned();
        let (ready, agent) = (unmet(&sight.ready), unmet(&sight.agent));
        let distrusted = trust.filter(|trust| !matches!(trust, Trust::Full));
        let copies = view.copies_amiss(name);
        let state = match (grade, &sight.ready, &ready) {
            _ if leaving => Weather::Leaving,
            (Grade::Lost, ..) => Weather::Lost,
            (Grade::Stale, ..) => Weather::Stale,
            (_, None, _) => Weather::New,
            (.., Some(said)) if said.truth == "Unknown" => Weather::Silent,
            (.., Some(_)) => Weather::Unready,
            _ if agent.is_some() => Weather::NoAgent,
            _ if distrusted.is_some() => Weather::Distrusted,
            _ if copies.is_some() => Weather::CopiesAmiss,
            _ => Weather::Well,
        };
        let words = match state {
            Weather::Leaving => Some("it is being seen off".to_owned()),
            Weather::New => Some("the hub has not looked at it yet".to_owned()),
            _ => ready.or(agent).map(|said| said.message),
        };
        let words = words.or_else(|| distrusted.map(|trust| trust.message(name.as_str())));
        let words = words.or_else(|| copies.map(str::to_owned));
        let silence = view.silence().get(name);
        let since = silence.and_then(|silence| [silence.server, silence.agent].into_iter().flatten().min());
        Self {
            name: name.to_string(),
            state,
            ready: truth(&sight.ready),
            agent: truth(&sight.agent),
            trusted: match trust {
                None => "",
                Some(Trust::Full) => "True",
                Some(Trust::Refused { .. }) => "False",
            }
            .to_owned(),
            version: plain(&sight.version),
            region: member.and_then(|member| member.region.as_deref()).map(plain).unwrap_or_default(),
            since: since.and_then(|at| Timestamp::from_second(at).ok()),
            message: words.as_deref().map(plain).unwrap_or_default(),
        }
    }
}

/// A text as it may be shown beside others: on one line, not too long, and without characters that are not seen but turn, hide or
/// move what is.
pub fn plain(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
    };
    let words = one_line(text);
    let shown = |c: char| if steers(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut cut: String = words.chars().take(LONGEST).map(shown).collect();
    if words.chars().nth(LONGEST).is_some() {
        cut.push('…');
    }
    cut
}
