//! A member: whether it answers, whether its agent is at work, whether it is believed, and what it has of policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Account, Finding, Read, Row, State, listed,
    policy::shown,
    read::{of, one_line},
};
use crate::api::names::condition;

/// Explains a Cluster.
pub(super) fn account(read: &Read, name: &str) -> Account {
    let Some(cluster) = read.clusters.get(name) else {
        return Account::absent(
            format!("there is no Cluster {name}; the hub has {}", listed(read.clusters.keys())),
            format!("`tombolo join {name}` makes it a member"),
        );
    };
    let mut account = Account::default();
    let conditions = read.conditions(name);
    if cluster.metadata.deletion_timestamp.is_some() {
        let told = of(conditions, condition::LEAVING).map(|leaving| one_line(&leaving.message));
        let told = told.unwrap_or_else(|| "the hub has not begun to see it off".to_owned());
        account.findings.push(Finding::new(State::Pending, format!("it is being deleted: {told}")));
    }
    account.findings.extend(unmet(conditions));
    if conditions.is_empty() {
        account.findings.push(Finding::new(State::Pending, "the hub has not looked at it yet"));
    }
    account.part("Conditions", said(conditions));
    let taints = cluster.spec.taints.iter().map(|taint| {
        let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        Row::new(State::Well, format!("{}{value}", taint.key), taint.effect.as_str())
    });
    account.part("Taints", taints.collect());
    let rows = copies(read, name, &mut account.findings);
    account.part("Policies", rows);
    if account.is_well() {
        account.findings.push(Finding::new(State::Well, "it is ready, and has all that it is to have"));
    }
    account
}

/// The conditions that are not as they should be.
fn unmet(conditions: &[Condition]) -> impl Iterator<Item = Finding> {
    let kinds = [
        (condition::READY, "look at its API server, its network and its Secret"),
        (condition::AGENT_READY, "services are neither exported nor imported there until it is at work"),
        (condition::DATA_TRUSTED, "what was made of the last good one stays until it is right"),
        (
            condition::COPIES_REMOVED,
            "what is named there stays until that is put right, or it is deleted there",
        ),
        (
            condition::COPIES_CURRENT,
            "what is named there stays as it is until that is put right, or its template is deleted",
        ),
    ];
    kinds.into_iter().filter_map(|(kind, way_out)| {
        let found = of(conditions, kind).filter(|found| found.status != "True")?;
        let since = found.last_transition_time.0;
        let cause = format!("{kind} is {} since {since}: {}", found.status, one_line(&found.message));
        Some(Finding::not_well(cause, way_out))
    })
}

fn said(conditions: &[Condition]) -> Vec<Row> {
    let rows = conditions.iter().map(|found| {
        let well = found.status == "True" && found.type_ != condition::LEAVING;
        let state = if well { State::Well } else { State::NotWell };
        let since = found.last_transition_time.0;
        let text = format!("{} since {since}: {}", found.status, one_line(&found.message));
        Row::new(state, found.type_.as_str(), text)
    });
    rows.collect()
}

/// What it has of each policy.
fn copies(read: &Read, name: &str, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (key, policy) in &read.policies {
        let Some(outcome) = policy.status.clusters.iter().find(|outcome| outcome.name == name) else {
            continue;
        };
        let mut text = format!("{} applied, {} failed", outcome.applied, outcome.failed);
        let mut state = State::Well;
        if outcome.failed > 0 || outcome.message.is_some() {
            let why = one_line(outcome.message.as_deref().unwrap_or("see the policy's status"));
            text += &format!(": {why}");
            state = State::NotWell;
            let cause = match outcome.failed {
                0 => format!("not all could be removed that {} no longer places there: {why}", shown(key)),
                failed => format!("{failed} of the objects of {} could not be written: {why}", shown(key)),
            };
            findings.push(Finding::new(State::NotWell, cause));
        }
        rows.push(Row::new(state, shown(key), text));
    }
    rows
}
