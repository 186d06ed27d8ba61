//! How an export goes: what its conditions say, a line whenever that changes, until it is reachable.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use kube::ResourceExt;
use tokio::time::Instant;

use super::{Place, Said, hub};
use crate::{
    api::{
        PropagationPolicy, ServiceImport,
        names::{condition, reason},
    },
    cli::{
        paint::{Tone, say_in},
        side::Side,
    },
    decide::ids::ClusterName,
};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// What the import's condition is called here.
const REACHED: &str = "Reached";

/// The clusters between which a service is to be exchanged.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) exporters: BTreeSet<String>,
    pub(super) importers: BTreeSet<String>,
}

/// Waits until an export is reachable, or is offered by a member, and tells how it goes. Fails with what is said instead when the time
/// is up.
pub(super) async fn follow(
    place: &Place,
    from: &[ClusterName],
    to: &[ClusterName],
    patience: Duration,
) -> Result<()> {
    // Who imports what a member offers only the hub knows.
    let aim = if place.side == Side::Hub { "reachable" } else { "offered" };
    let (started, mut last) = (Instant::now(), Vec::new());
    loop {
        let said = match place.side {
            Side::Hub => hub::said(place, from, to).await?,
            Side::Member => place.said().await?,
        };
        said.iter()
            .filter(|one| !last.contains(*one))
            .filter_map(shown)
            .for_each(|(tone, line)| say_in(tone, &line));
        if is_done(place.side, &said) {
            let name = format!("{}.{}.svc.clusterset.local", place.key.name, place.key.namespace);
            say_in(Tone::Good, &format!("{aim} as {name}"));
            return Ok(());
        }
        if started.elapsed() >= patience {
            let (key, seconds) = (&place.key, patience.as_secs());
            bail!("{key} is exported, but not {aim} after {seconds} s: {}", cause(place.side, &said));
        }
        last = said;
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_done(side: Side, said: &[Said]) -> bool {
    let holds = |what: &str| {
        let mut of = said.iter().filter(|one| one.what == what).peekable();
        of.peek().is_some() && of.all(|one| one.holds)
    };
    holds(condition::READY) && (side == Side::Member || (holds(condition::PROPAGATED) && holds(REACHED)))
}

/// What the hub says of a policy, and the clusters that it chose; none while it has not looked at it as it is now.
pub(super) fn placed(policy: &PropagationPolicy) -> Option<(Said, BTreeSet<String>)> {
    let status = policy.status.as_ref()?;
    let propagated = status.conditions.iter().find(|it| it.type_ == condition::PROPAGATED)?;
    let mut said = Said::of(propagated);
    said.why = format!("PropagationPolicy {}: {}", policy.name_any(), said.why);
    // Of some there is something to tell only because a copy cannot be removed there.
    let chosen = status.clusters.iter().filter(|outcome| outcome.wanted != Some(0));
    let clusters = chosen.map(|outcome| outcome.name.clone()).collect();
    (status.observed_generation == policy.metadata.generation).then_some((said, clusters))
}

/// Whether everybody who is to import a service reaches somebody who is to export it; none where nobody has looked yet. The hub says it
/// a little later than on the policies.
pub(super) fn reached(import: &ServiceImport, wanted: &Wanted) -> Option<Said> {
    let status = import.status.as_ref()?;
    let ready = status.conditions.iter().find(|it| it.type_ == condition::READY)?;
    let said = Said { what: REACHED.to_owned(), ..Said::of(ready) };
    let exports = |name: &String| status.clusters.iter().any(|source| source.cluster == *name);
    let silent = wanted.exporters.iter().find(|name| !exports(name));
    let silent = silent.map(|name| format!("{name} does not export it yet"));
    let is_exporter = |name: &str| wanted.exporters.is_empty() || wanted.exporters.contains(name);
    let parts = said.why.split("; ").filter_map(|part| part.split_once(" reaches "));
    let parts = parts.filter(|(_, others)| others.split([',', ' ']).any(is_exporter));
    let importers: BTreeSet<_> = parts.map(|(importer, _)| importer).collect();
    let mut left = wanted.importers.iter().filter(|name| !importers.contains(name.as_str()));
    // Of many the hub names some only.
    let left = left.nth(unnamed(&said.why)).map(|name| format!("{name} does not reach it yet"));
    match silent.or(left) {
        Some(why) if said.holds => {
            Some(Said { holds: false, reason: reason::PENDING.to_owned(), why, ..said })
        }
        _ => Some(said),
    }
}

/// Of how many importers a message says no more than their number.
fn unnamed(message: &str) -> usize {
    // Words of who is silent may come after it.
    let number = |part: &str| part.strip_prefix("and ")?.strip_suffix(" more")?.parse().ok();
    message.rsplit("; ").find_map(number).unwrap_or_default()
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn of(from: &[ClusterName], to: &[ClusterName]) -> Self {
        let names = |clusters: &[ClusterName]| clusters.iter().map(ToString::to_string).collect();
        Self { exporters: names(from), importers: names(to) }
    }
}

/// What is said as a line; none where it is that nothing is amiss.
fn shown(Said { what, holds, reason, why }: &Said) -> Option<(Tone, String)> {
    match (what.as_str(), holds) {
        // Who has it is told with who reaches whom.
        (condition::CONFLICT, false) | (condition::PROPAGATED, true) => None,
        (condition::CONFLICT, true) => Some((Tone::Bad, format!("Warning: {reason}: {why}"))),
        (_, true) => Some((Tone::Good, format!("{what}: {why}"))),
        (_, false) => Some((Tone::Waiting, format!("not {what} yet: {reason}: {why}"))),
    }
}

/// Why an export is not reachable, or not offered.
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
    use serde_json::{Value, json};

    use super::*;

    fn condition(of: &str, message: &str) -> Value {
        json!({
            "type": of, "status": "True", "reason": "Reason", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn said(what: &str, holds: bool) -> Said {
        Said { what: what.to_owned(), holds, reason: "Reason".to_owned(), why: "words".to_owned() }
    }

    #[test]
    fn only_what_is_worth_a_line_is_told() {
        let line = |what: &str, holds| shown(&said(what, holds)).map(|(_, line)| line);
        assert_eq!(line("Valid", true).as_deref(), Some("Valid: words"));
        assert_eq!(line("Ready", false).as_deref(), Some("not Ready yet: Reason: words"));
        assert_eq!(line("Conflict", true).as_deref(), Some("Warning: Reason: words"));
        assert_eq!(shown(&said("Conflict", false)), None);
        assert_eq!(shown(&said("Propagated", true)), None);
    }

    #[test]
    fn on_the_hub_it_is_reachable_when_policies_are_done_and_somebody_reaches_it() {
        let ready = [said("Valid", true), said("Ready", true)];
        assert!(is_done(Side::Member, &ready));
        assert!(!is_done(Side::Hub, &ready));
        let with = |more: &[Said]| is_done(Side::Hub, &[&ready[..], more].concat());
        assert!(!with(&[said(REACHED, true)]));
        assert!(!with(&[said("Propagated", true), said("Propagated", false), said(REACHED, true)]));
        assert!(with(&[said("Propagated", true), said("Propagated", true), said(REACHED, true)]));
    }

    #[test]
    fn what_is_said_of_a_policy_that_was_changed_meanwhile_does_not_count() {
        let policy = |generation: i64| -> PropagationPolicy {
            serde_json::from_value(json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                "metadata": { "name": "serve-import", "namespace": "shop", "generation": generation },
                "spec": { "resourceSelectors": [] },
                "status": {
                    "observedGeneration": 1,
                    "clusters": [
                        { "name": "b", "applied": 1, "failed": 0 },
                        { "name": "c", "wanted": 0, "applied": 0, "failed": 0, "message": "ServiceImport: no" },
                    ],
                    "conditions": [condition("Propagated", "all 1 are where they should be")],
                },
            }))
            .unwrap()
        };
        let (said, clusters) = placed(&policy(1)).unwrap();
        assert!(said.holds);
        assert_eq!(said.why, "PropagationPolicy serve-import: all 1 are where they should be");
        assert_eq!(clusters, BTreeSet::from(["b".to_owned()]));
        assert_eq!(placed(&policy(2)), None);
    }

    #[test]
    fn an_import_that_speaks_of_other_clusters_than_are_wanted_is_not_reached_yet() {
        let import = |from: &[&str], message: &str| -> ServiceImport {
            let clusters: Vec<_> = from.iter().map(|name| json!({ "cluster": name })).collect();
            serde_json::from_value(json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                "metadata": { "name": "serve", "namespace": "shop" },
                "spec": { "type": "ClusterSetIP", "ports": [] },
                "status": { "clusters": clusters, "conditions": [condition("Ready", message)] },
            }))
            .unwrap()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let of = |from: &[&str], message: &str, exporters: &[&str], importers: &[&str]| {
            let wanted = Wanted { exporters: names(exporters), importers: names(importers) };
            let said = reached(&import(from, message), &wanted).unwrap();
            (said.holds, said.why)
        };
        let not = |why: &str| (false, why.to_owned());
        let whole = "b reaches a; c reaches a, d";
        assert_eq!(of(&["a", "d"], whole, &["a", "d"], &["b", "c"]), (true, whole.to_owned()));
        assert_eq!(of(&["a"], "b reaches a", &["a"], &["c"]), not("c does not reach it yet"));
        assert_eq!(of(&["a"], "b reaches a", &["a", "d"], &["b"]), not("d does not export it yet"));
        assert_eq!(of(&["d"], "b reaches a", &["d"], &["b"]), not("b does not reach it yet"));
        assert!(of(&["a"], "b reaches a; silent, with endpoints: a", &["a"], &["b"]).0);
        assert!(of(&["a"], "b reaches a; and 1 more", &["a"], &["b", "c"]).0);
        let silent = "b reaches a; and 1 more; silent, with endpoints as they were last known: a";
        assert!(of(&["a"], silent, &["a"], &["b", "c"]).0);
        assert_eq!(of(&["a"], silent, &["a"], &["b", "c", "d"]), not("d does not reach it yet"));
        assert_eq!(
            of(&["a"], "b reaches a; and 1 more", &["a"], &["b", "c", "d"]),
            not("d does not reach it yet")
        );
        assert!(of(&["a"], "b reaches x, a and 7 more", &["a"], &["b"]).0);
    }

    #[test]
    fn the_first_condition_that_fails_is_the_cause() {
        let all = [said("Conflict", false), said("Valid", false), said("Ready", false)];
        assert_eq!(cause(Side::Member, &all), "not Valid: Reason: words");
        assert!(cause(Side::Member, &[]).contains("tombolo-agent"));
        assert!(cause(Side::Hub, &[]).contains("policies"));
    }
}
