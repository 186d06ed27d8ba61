#![allow(clippy::needless_pass_by_value, reason = "tests read better with values")]

use std::collections::BTreeSet;

use globset::GlobSet;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::Cluster,
    decide::exchange::{Part, Rules},
};

fn exchange() -> Exchange {
    Exchange::new(
        "hub".into(),
        Rules { automatic: true, denied: GlobSet::empty(), allowed: GlobSet::empty() },
    )
}

fn cluster(name: &str, more: &Value) -> Cluster {
    let mut object = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Push" } });
    json_patch::merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

fn said(truth: &'static str, message: &str) -> Option<Said> {
    Some(Said { truth, message: message.to_owned() })
}

/// A member that answers and whose agent is at work.
fn well() -> Sight {
    Sight { ready: said("True", ""), agent: said("True", ""), version: "v1.33.0".to_owned() }
}

/// How one member is shown.
fn island(more: &Value, sight: Sight, grade: Grade, read: bool) -> Island {
    let (mut view, mut exchange) = (View::new("tombolo-system"), exchange());
    view.apply_cluster(cluster("a", more));
    let name: ClusterName = "a".parse().unwrap();
    exchange.set_grades(BTreeMap::from([(name.clone(), grade)]));
    if read {
        for part in Part::ALL {
            exchange.retain(&name, part, &BTreeSet::new());
        }
    }
    Draft::new(&view, &exchange, &BTreeMap::from([(name, sight)])).finish(true, true).islands.remove(0)
}

#[test]
fn an_island_shows_the_worst_that_is_known_of_its_cluster() {
    let agent = Sight { agent: said("False", "its agent is gone"), ..well() };
    let gone = Sight { ready: said("Unknown", "no answer"), ..agent.clone() };
    let expired = Sight { ready: said("False", "its token has expired"), ..well() };
    let leaving =
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"] } });
    for (more, sight, grade, state, message) in [
        (json!({}), well(), Grade::Fresh, Weather::Well, ""),
        (json!({}), Sight::default(), Grade::Fresh, Weather::New, "the hub has not looked at it yet"),
        (json!({}), agent.clone(), Grade::Fresh, Weather::NoAgent, "its agent is gone"),
        (json!({}), agent, Grade::Stale, Weather::Stale, "its agent is gone"),
        (json!({}), expired, Grade::Silent, Weather::Unready, "its token has expired"),
        (json!({}), gone.clone(), Grade::Silent, Weather::Silent, "no answer"),
        (json!({}), gone.clone(), Grade::Lost, Weather::Lost, "no answer"),
        (leaving, gone, Grade::Lost, Weather::Leaving, "it is being seen off"),
    ] {
        let island = island(&more, sight.clone(), grade, true);
        assert_eq!((island.state, island.message.as_str()), (state, message), "{sight:?} {grade:?}");
    }
}

#[test]
fn an_island_is_not_well_while_a_copy_there_could_not_be_removed_or_written() {
    let mut states = Vec::new();
    for (kind, status) in [("CopiesRemoved", "False"), ("CopiesCurrent", "False"), ("CopiesCurrent", "True")]
    {
        let condition = json!({
            "type": kind, "status": status, "reason": "x", "message": "no right", "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let more = json!({ "status": { "conditions": [condition] } });
        let island = island(&more, well(), Grade::Fresh, true);
        states.push((island.state, island.message));
    }
    let amiss = (Weather::CopiesAmiss, "no right".to_owned());
    assert_eq!(states, [amiss.clone(), amiss, (Weather::Well, String::new())]);
}

#[test]
fn an_island_says_where_it_is_and_since_when_it_is_silent() {
    let more = json!({
        "spec": { "region": "eu\u{202e}-<b>1</b>" },
        "status": { "conditions": [{
            "type": "Ready", "status": "Unknown", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
        }] },
    });
    let island = island(&more, well(), Grade::Fresh, false);
    assert_eq!(island.region, "eu\u{fffd}-<b>1</b>");
    assert_eq!(island.since.unwrap().to_string(), "2026-01-02T03:04:05Z");
    assert_eq!((island.ready.as_str(), island.trusted.as_str()), ("True", ""));
}

fn bridge(name: &str, state: Footing) -> Bridge {
    let reason = if state == Footing::Conflict { "PortConflict" } else { "" };
    Bridge {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        state,
        ports: Vec::new(),
        reason: reason.to_owned(),
        message: String::new(),
        exporters: Vec::new(),
        importers: Vec::new(),
    }
}

#[test]
fn what_is_troubled_is_shown_before_what_is_well_and_what_is_left_out_is_counted() {
    let mut bridges: Vec<_> = (0..500).map(|n| bridge(&format!("s{n:03}"), Footing::Well)).collect();
    bridges[499].state = Footing::Failed;
    bridges[250] = bridge("s250", Footing::Conflict);
    let drawn = |bridges: &[Bridge]| {
        let mut draft = Draft::new(&View::new("tombolo-system"), &exchange(), &BTreeMap::new());
        bridges.iter().for_each(|bridge| draft.add(bridge.clone()));
        draft.finish(true, false)
    };
    let atlas = drawn(&bridges);
    let names: Vec<_> = atlas.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
    assert_eq!(names.len(), BRIDGES);
    assert!(names.is_sorted() && names.contains(&"s499") && names.contains(&"s250"), "{names:?}");
    let Totals { bridges: all, troubled_bridges, conflicts, bridges_left_out, .. } = atlas.totals;
    assert_eq!((all, troubled_bridges, conflicts, bridges_left_out), (500, 2, 1, 500 - BRIDGES));
    bridges.reverse();
    let text = |atlas: &Atlas| serde_json::to_string(atlas).unwrap();
    assert_eq!(text(&drawn(&bridges)), text(&atlas), "in whatever order they came");
}

#[test]
fn of_too_many_clusters_those_that_are_not_well_are_shown() {
    let mut view = View::new("tombolo-system");
    let mut sights = BTreeMap::new();
    for n in 0..ISLANDS + 50 {
        let name = format!("c{n:03}");
        view.apply_cluster(cluster(&name, &json!({})));
        let last = n == ISLANDS + 49;
        sights.insert(
            name.parse().unwrap(),
            if last { Sight { ready: said("False", ""), ..well() } } else { well() },
        );
    }
    let atlas = Draft::new(&view, &exchange(), &sights).finish(true, true);
    assert_eq!(atlas.islands.len(), ISLANDS);
    assert_eq!(atlas.islands.last().unwrap().name, format!("c{}", ISLANDS + 49));
    assert_eq!((atlas.totals.islands_left_out, atlas.totals.troubled_islands), (50, 1));
}

#[test]
fn a_text_is_shown_on_one_line_cut_and_without_what_steers_others() {
    for (text, wanted) in [
        ("  a\n\tb\u{2028}c ", "a b c"),
        ("<script>", "<script>"),
        ("a\u{202e}b\u{200b}c\u{7}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
    ] {
        assert_eq!(plain(text), wanted);
    }
    let cut = plain(&"é".repeat(LONGEST + 1));
    assert_eq!((cut.chars().count(), cut.ends_with('…')), (LONGEST + 1, true));
    assert!(!plain(&"x".repeat(LONGEST)).contains('…'));
}
