//! How an export goes: what its conditions say, a line whenever that changes, until it is reachable.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use super::{Place, REACHED, Said};
use crate::{api::names::condition, cli::side::Side};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Waits until an export is reachable, and tells how it goes. Fails with what is said instead when the time is up.
pub(super) async fn follow(place: &Place, patience: Duration) -> Result<()> {
    let (started, mut last) = (Instant::now(), Vec::new());
    loop {
        let said = place.said().await?;
        said.iter().filter(|one| !last.contains(*one)).filter_map(shown).for_each(|line| println!("{line}"));
        if is_reachable(place.side, &said) {
            println!("reachable as {}.{}.svc.clusterset.local", place.key.name, place.key.namespace);
            return Ok(());
        }
        if started.elapsed() >= patience {
            let (key, seconds) = (&place.key, patience.as_secs());
            bail!("{key} is exported, but not reachable after {seconds} s: {}", cause(place.side, &said));
        }
        last = said;
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_reachable(side: Side, said: &[Said]) -> bool {
    let holds = |what: &str| said.iter().any(|one| one.what == what && one.holds);
    holds(condition::READY) && (side == Side::Member || holds(REACHED))
}

/// What is said as a line; none where it is that nothing is amiss.
fn shown(Said { what, holds, reason, why }: &Said) -> Option<String> {
    match (what.as_str(), holds) {
        (condition::CONFLICT, false) => None,
        (condition::CONFLICT, true) => Some(format!("Warning: {reason}: {why}")),
        (_, true) => Some(format!("{what}: {why}")),
        (_, false) => Some(format!("not {what} yet: {reason}: {why}")),
    }
}

/// Why an export is not reachable.
fn cause(side: Side, said: &[Said]) -> String {
    let failed = said.iter().find(|one| one.what != condition::CONFLICT && !one.holds);
    match (failed, side) {
        (Some(Said { what, reason, why, .. }), _) => format!("not {what}: {reason}: {why}"),
        (None, Side::Member) => "nobody has looked at the ServiceExport; does the agent run here (Deployment tombolo-agent), and did this \
                                 cluster join a hub?"
            .to_owned(),
        (None, Side::Hub) => "nobody has looked at it; does the hub run, and do policies place it?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(what: &str, holds: bool) -> Said {
        Said { what: what.to_owned(), holds, reason: "Reason".to_owned(), why: "words".to_owned() }
    }

    #[test]
    fn only_what_is_worth_a_line_is_told() {
        assert_eq!(shown(&said("Valid", true)).as_deref(), Some("Valid: words"));
        assert_eq!(shown(&said("Ready", false)).as_deref(), Some("not Ready yet: Reason: words"));
        assert_eq!(shown(&said("Conflict", true)).as_deref(), Some("Warning: Reason: words"));
        assert_eq!(shown(&said("Conflict", false)), None);
    }

    #[test]
    fn on_the_hub_it_is_reachable_when_somebody_reaches_it() {
        let ready = [said("Valid", true), said("Ready", true)];
        assert!(is_reachable(Side::Member, &ready));
        assert!(!is_reachable(Side::Hub, &ready));
        assert!(is_reachable(Side::Hub, &[ready.to_vec(), vec![said(REACHED, true)]].concat()));
    }

    #[test]
    fn the_first_condition_that_fails_is_the_cause() {
        let all = [said("Conflict", false), said("Valid", false), said("Ready", false)];
        assert_eq!(cause(Side::Member, &all), "not Valid: Reason: words");
        assert!(cause(Side::Member, &[]).contains("tombolo-agent"));
        assert!(cause(Side::Hub, &[]).contains("policies"));
    }
}
