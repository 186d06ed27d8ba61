//! What a pod says of those that it dialled: a line each, short enough for a termination message.

use std::{collections::BTreeMap, net::SocketAddr, str::FromStr, time::Duration};

/// As much of an error as is told.
const ERROR: usize = 60;

/// A listener that is dialled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Its member.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What came of it: the time from the first packet to the answer, or why there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// By TCP.
    pub tcp: Result<Duration, String>,
    /// By UDP.
    pub udp: Result<Duration, String>,
}

// === impl Peer ===

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').ok_or("it is not NAME=ADDRESS:PORT")?;
        let address = address.parse().map_err(|e| format!("{address:?} is no address and port: {e}"))?;
        Ok(Self { name: name.to_owned(), address })
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.address)
    }
}

// === impl Outcome ===

impl Outcome {
    /// In a line.
    pub fn line(&self, peer: &Peer) -> String {
        format!("{peer}\t{}\t{}", said(&self.tcp), said(&self.udp))
    }
}

fn said(came: &Result<Duration, String>) -> String {
    match came {
        Ok(took) => took.as_micros().to_string(),
        Err(why) => format!("!{}", why.replace(['\t', '\n'], " ").chars().take(ERROR).collect::<String>()),
    }
}

/// What a pod said. Lines that are none are left out.
pub fn parse(text: &str) -> BTreeMap<Peer, Outcome> {
    let way = |text: &str| match text.strip_prefix('!') {
        Some(why) => Some(Err(why.to_owned())),
        None => Some(Ok(Duration::from_micros(text.parse().ok()?))),
    };
    let line = |line: &str| {
        let mut parts = line.split('\t');
        let peer: Peer = parts.next()?.parse().ok()?;
        Some((peer, Outcome { tcp: way(parts.next()?)?, udp: way(parts.next()?)? }))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_says_is_read_as_it_was_meant() {
        let peer: Peer = "member2=[fd00::1]:8380".parse().unwrap();
        let outcome = Outcome { tcp: Ok(Duration::from_micros(1234)), udp: Err("no\tanswer".repeat(20)) };
        let read = parse(&format!("something else\n{}\n", outcome.line(&peer)));
        assert_eq!(read[&peer].tcp, outcome.tcp);
        let why = read[&peer].udp.as_ref().unwrap_err();
        assert!(why.starts_with("no answer") && why.len() <= ERROR, "{why}");
        assert!("member2".parse::<Peer>().is_err() && "a=b".parse::<Peer>().is_err());
    }

    #[test]
    fn the_words_of_one_pod_fit_a_termination_message() {
        let long = Outcome { tcp: Err("x".repeat(100)), udp: Err("x".repeat(100)) };
        let address = "[fd00:1111:2222:3333:4444:5555:6666:7777]:8380".parse().unwrap();
        let peer = Peer { name: "m".repeat(48), address };
        assert!(
            super::super::PEERS * (long.line(&peer).len() + 1) <= 4608,
            "cut at worst for the longest of names"
        );
        let usual = Peer { name: "member10".to_owned(), address };
        assert!(super::super::PEERS * (long.line(&usual).len() + 1) <= 4096);
    }
}
