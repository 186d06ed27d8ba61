use std::{collections::BTreeSet, time::Duration};

use super::*;
use crate::{
    decide::{
        exchange::Reason,
        freshness::{Grade, Mark},
    },
    shell::{
        queue::{Done, Load},
        trouble::Trouble,
    },
};

/// Metrics of which each was noted once.
fn noted() -> Metrics {
    let metrics = Metrics::default();
    let (one, two): (ClusterName, ClusterName) = ("member1".parse().unwrap(), "member2".parse().unwrap());
    let millis = Duration::from_millis;
    metrics.leader.follow(Role::Hub, &Claim::always());
    metrics.webhook.certificate(1_700_000_000, 1_800_000_000);
    metrics.webhook.certificate_failed();
    metrics.webhook.answered("validate", "ServiceImport", "refused", Duration::from_micros(70));
    metrics.agent.wrote("services");
    metrics.agent.failed(Trouble::Link);
    metrics.agent.queue.answer_by(|| Load { waiting: 3, oldest: Duration::from_secs(2), ..Load::default() });
    metrics.agent.reconciles.note("services", None, Done::Again, millis(1));
    metrics.propagation.applied(true);
    metrics.propagation.reconciles.note("copies", Some(&one), Done::Well, millis(1));
    metrics.propagation.reconciles.note("copies", Some(&two), Done::Well, millis(1));
    metrics.propagation.failed(&one, Trouble::Object);
    metrics.propagation.failed(&two, Trouble::Link);
    metrics.propagation.refused(&one, Reason::Address);
    metrics.propagation.refused(&two, Reason::Size);
    metrics.propagation.arrivals.template(&one, millis(3));
    metrics.propagation.arrivals.endpoints(&one, millis(0));
    metrics.propagation.arrivals.endpoints(&two, millis(5));
    api().asked("member1", "patch", Some(http::StatusCode::CONFLICT), millis(4));
    api().asked("member1", "read", Some(http::StatusCode::TOO_MANY_REQUESTS), millis(4));
    api().asked("member2", "delete", Some(http::StatusCode::OK), millis(4));
    api().asked("", "read", None, millis(4));
    metrics.propagation.forget(&two);
    let member = MemberState {
        name: one,
        ready: true,
        agent: false,
        trusted: Some(false),
        grade: Grade::Stale,
        queues: [("copies", Load { working: 1, ..Load::default() }), ("services", Load::default())],
        failed: Some(4),
        stale: vec![(Mark::Kept, 7)],
    };
    metrics.fleet.answer_by(move || Fleet { members: vec![member.clone()], conflicts: 2 });
    metrics
}

#[test]
fn what_was_noted_is_what_prometheus_reads() {
    let metrics = noted();
    let text = metrics.text().unwrap();
    for line in [
        "tombolo_leader{role=\"hub\"} 1",
        "tombolo_webhook_certificate_start_timestamp_seconds 1700000000",
        "tombolo_webhook_certificate_expiry_timestamp_seconds 1800000000",
        "tombolo_webhook_certificate_failures_total 1",
        "tombolo_webhook_requests_total{route=\"validate\",kind=\"ServiceImport\",verdict=\"refused\"} 1",
        "tombolo_webhook_request_duration_seconds_bucket{le=\"0.0001\",route=\"validate\"} 1",
        "tombolo_agent_writes_total{kind=\"services\"} 1",
        "tombolo_agent_queue_depth{state=\"waiting\"} 3.0",
        "tombolo_agent_queue_oldest_seconds 2.0",
        "tombolo_reconcile_duration_seconds_count{of=\"services\",outcome=\"again\",member=\"\"} 1",
        "tombolo_template_to_member_seconds_bucket{le=\"0.002\",member=\"member1\"} 0",
        "tombolo_template_to_member_seconds_bucket{le=\"0.004\",member=\"member1\"} 1",
        "tombolo_template_to_member_seconds_bucket{le=\"65.536\",member=\"member1\"} 1",
        "tombolo_endpoint_to_importer_seconds_bucket{le=\"0.001\",member=\"member1\"} 1",
        "tombolo_propagation_refused_total{member=\"member1\",reason=\"address\"} 1",
        "tombolo_reconcile_duration_seconds_count{of=\"copies\",outcome=\"well\",member=\"member1\"} 1",
        "tombolo_propagation_failures_total{member=\"member1\",trouble=\"object\"} 1",
        "tombolo_propagation_writes_total{for=\"repair\"} 1",
        "tombolo_services_in_conflict 2.0",
        "tombolo_member_ready{member=\"member1\"} 1.0",
        "tombolo_member_agent_ready{member=\"member1\"} 0.0",
        "tombolo_member_data_trusted{member=\"member1\"} 0.0",
        "tombolo_member_freshness{member=\"member1\",grade=\"stale\"} 1.0",
        "tombolo_member_freshness{member=\"member1\",grade=\"fresh\"} 0.0",
        "tombolo_queue_depth{member=\"member1\",of=\"copies\",state=\"working\"} 1.0",
        "tombolo_copies_failed{member=\"member1\"} 4.0",
        "tombolo_stale_slices{member=\"member1\",mark=\"kept\"} 7.0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // Other tests of this process may have asked API servers too.
    for line in [
        "tombolo_api_requests_total{verb=\"patch\",code=\"4xx\",member=\"member1\"}",
        "tombolo_api_requests_total{verb=\"read\",code=\"429\",member=\"member1\"}",
        "tombolo_api_requests_total{verb=\"read\",code=\"none\",member=\"\"}",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("member2"), "what is gone is not counted any more: {text}");
}

#[test]
fn who_does_not_lead_says_so_with_its_role() {
    let metrics = Metrics::default();
    assert!(!metrics.text().unwrap().contains("tombolo_leader{"), "nobody said what this process is");
    let claim = Claim::always();
    metrics.leader.follow(Role::Agent, &claim);
    assert!(metrics.text().unwrap().contains("tombolo_leader{role=\"agent\"} 1"));
    claim.give_up();
    assert!(metrics.text().unwrap().contains("tombolo_leader{role=\"agent\"} 0"));
}

#[test]
fn an_agents_queue_is_shown_only_while_it_is_worked_on() {
    let metrics = Metrics::default();
    let claim = Claim::always();
    metrics.leader.follow(Role::Agent, &claim);
    metrics.agent.queue.answer_by(|| Load { waiting: 3, oldest: Duration::from_secs(90), ..Load::default() });
    let shown = || metrics.text().unwrap().lines().filter(|line| line.contains("agent_queue_")).count();
    assert!(shown() > 0);
    claim.give_up();
    assert_eq!(
        shown(),
        0,
        "a standby's queue is full of what the other has done: {}",
        metrics.text().unwrap()
    );
}

/// The labels of a series.
fn labels(series: &str) -> BTreeSet<&str> {
    let inner =
        series.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(inner, _)| inner);
    inner.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).filter(|name| *name != "le").collect()
}

#[test]
fn every_metric_is_described_with_the_labels_that_it_has() {
    let metrics = noted();
    let text = metrics.text().unwrap();
    let described = metrics.described();
    for one in described {
        let series = one.series();
        let found = text.lines().find(|line| {
            series
                .iter()
                .any(|name| line.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['{', ' '])))
        });
        let found = found.unwrap_or_else(|| panic!("{} is noted by nothing here", one.name));
        assert_eq!(labels(found), one.labels.iter().copied().collect(), "{found}");
        assert!(
            text.contains(&format!("# TYPE {} {}", one.name.trim_end_matches("_total"), one.kind)),
            "{}",
            one.name
        );
    }
    let known: BTreeSet<_> = described.iter().flat_map(Described::series).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(known.contains(name), "{name} is not described");
    }
}
