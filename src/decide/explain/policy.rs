//! A policy: what it selects, which of that it holds for, and what became of that.

use super::{
    Account, Finding, Read, Row, State, listed,
    read::{PolicyRead, of, one_line},
    template,
};
use crate::{
    api::{
        names::{condition, reason},
        propagation::ResourceSelector,
    },
    decide::{
        admit,
        copy::ObjectKey,
        policies::{PolicyKey, Verdict},
        select::GroupKind,
        world::Template,
    },
};

/// A policy in words.
pub(in crate::decide) fn shown(key: &PolicyKey) -> String {
    let kind = if key.namespace.is_some() { "PropagationPolicy" } else { "ClusterPropagationPolicy" };
    format!("{kind} {key}")
}

/// Explains a policy.
pub(super) fn account(read: &Read, key: &PolicyKey) -> Account {
    let Some(policy) = read.policies.get(key) else { return absent(read, key) };
    let mut account = Account::default();
    if let Some(fault) = read.view.propagations().faults(key).first() {
        account.findings.push(Finding::not_well(format!("it takes no part: {fault}"), "correct it"));
        return account;
    }
    if policy.metadata.deletion_timestamp.is_some() {
        account.findings.push(Finding::new(State::Pending, "it is being deleted, and holds for nothing"));
    }
    account.findings.extend(suspended(policy));
    for missing in admit::missing_clusters(read.members(), &policy.spec) {
        account.findings.push(Finding::not_well(
            missing,
            format!("the hub has {}: correct the name, or `tombolo join` it", listed(read.clusters.keys())),
        ));
    }
    let rows = objects(read, key, policy, &mut account.findings);
    account.part("Objects", rows);
    let rows = clusters(read, policy, &mut account.findings);
    account.part("Clusters", rows);
    account.findings.extend(said(policy));
    if account.is_well() {
        let cause = of(&policy.status.conditions, condition::PROPAGATED)
            .map_or_else(|| "the hub has not said anything of it".to_owned(), |found| found.message.clone());
        account.findings.push(Finding::new(State::Well, cause));
    }
    account
}

fn absent(read: &Read, key: &PolicyKey) -> Account {
    let namesakes: Vec<_> = read.policies.keys().filter(|other| other.name == key.name).collect();
    let way_out = match namesakes.as_slice() {
        [] => "see what there is with `tombolo status -A`".to_owned(),
        found => format!("there is {}", listed(found.iter().map(|key| shown(key)))),
    };
    Account::absent(format!("there is no {}", shown(key)), way_out)
}

fn suspended(policy: &PolicyRead) -> Option<Finding> {
    let suspension = policy.spec.suspension.as_ref()?;
    let clusters = suspension.dispatching_on_clusters.as_ref().map(|some| &some.cluster_names);
    let cause = match clusters {
        _ if suspension.dispatching == Some(true) => {
            "spec.suspension.dispatching is true: nothing is sent".to_owned()
        }
        Some(clusters) if !clusters.is_empty() => {
            format!("spec.suspension.dispatchingOnClusters holds back what goes to {}", listed(clusters))
        }
        _ => return None,
    };
    Some(Finding::not_well(cause, "take spec.suspension out to go on"))
}

/// What it selects, and whether it holds for that.
fn objects(read: &Read, key: &PolicyKey, policy: &PolicyRead, findings: &mut Vec<Finding>) -> Vec<Row> {
    let (mut rows, mut lost, mut held) = (Vec::new(), Vec::new(), 0);
    for (object_key, object) in &read.templates {
        let template = Template::of(object_key, object);
        let candidates = read.view.propagations().explain(&template.object(object_key));
        let Some(own) = candidates.iter().find(|candidate| candidate.matched.policy.key == *key) else {
            continue;
        };
        if own.verdict == Verdict::Holds {
            held += 1;
            rows.push(Row::new(State::Well, object_key.to_string(), "it holds"));
            continue;
        }
        let winner = candidates.iter().find(|candidate| candidate.verdict == Verdict::Holds);
        let why =
            winner.map_or(own.verdict.to_string(), |winner| template::against(own.verdict, winner, own));
        rows.push(Row::new(State::NotWell, object_key.to_string(), format!("it does not hold: {why}")));
        lost.push((object_key.clone(), why));
    }
    if let Some((object, why)) = lost.first() {
        let number = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
        let nothing = if held == 0 { "it holds for nothing" } else { "it does not hold for all" };
        findings.push(Finding::not_well(
            format!("{nothing}: {object}{number}: {why}"),
            "raise its spec.priority, select more closely, or let the other policy leave it out",
        ));
    }
    if rows.is_empty() {
        findings.extend(nothing(read, key, policy));
    }
    rows
}

/// Why nothing is selected.
fn nothing(read: &Read, key: &PolicyKey, policy: &PolicyRead) -> Option<Finding> {
    let found = policy.spec.resource_selectors.iter().enumerate().map(|(index, selector)| {
        let (what, namesakes) = wanted(read, key, selector);
        let cause = format!("spec.resourceSelectors[{index}]: there is no {what}");
        match namesakes {
            [] => Finding::new(State::Pending, cause),
            [first, ..] => Finding::not_well(
                format!("{cause}; there is one in namespace {}", listed(namesakes)),
                format!("move the policy to namespace {first}, or write a ClusterPropagationPolicy"),
            ),
        }
    });
    found.max_by_key(|finding| finding.state)
}

/// What a selector asks for in words, and the namespaces that have it instead.
fn wanted<'a>(read: &'a Read, key: &PolicyKey, selector: &ResourceSelector) -> (String, &'a [String]) {
    let namespace = selector.namespace.as_deref().or(key.namespace.as_deref()).unwrap_or_default();
    let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
    let Some(name) = &selector.name else { return (format!("{} of that kind{place}", selector.kind), &[]) };
    let object = ObjectKey {
        kind: GroupKind::new(&selector.api_version, &selector.kind),
        namespace: namespace.into(),
        name: name.as_str().into(),
    };
    let namesakes = read.namesakes.get(&object).map_or(&[][..], Vec::as_slice);
    (format!("{} {name}{place}", selector.kind), namesakes)
}

/// What each cluster made of it.
fn clusters(read: &Read, policy: &PolicyRead, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut rows = Vec::new();
    for outcome in &policy.status.clusters {
        let mut text = format!("{} applied, {} failed", outcome.applied, outcome.failed);
        let mut state = State::Well;
        if let Some(since) = outcome.name.parse().ok().and_then(|name| read.silence(&name)) {
            state = State::NotWell;
            text += &format!("; it is not ready {since}");
            if let Ok(name) = outcome.name.parse() {
                findings.push(template::dead(&name, &since));
            }
        } else if outcome.failed > 0 || outcome.message.is_some() {
            let why = one_line(outcome.message.as_deref().unwrap_or("see the events of its objects"));
            state = State::NotWell;
            text += &format!(": {why}");
            findings.push(Finding::new(State::NotWell, format!("in {}: {why}", outcome.name)));
        }
        rows.push(Row::new(state, outcome.name.as_str(), text));
    }
    rows
}

/// What the hub says of it as a whole.
fn said(policy: &PolicyRead) -> Option<Finding> {
    if policy.status.observed_generation != policy.metadata.generation {
        return Some(Finding::new(State::Pending, "the hub has not looked at it as it is now"));
    }
    let propagated = of(&policy.status.conditions, condition::PROPAGATED)?;
    let message = one_line(&propagated.message);
    match propagated.reason.as_str() {
        _ if propagated.status == "True" => None,
        reason::PENDING => Some(Finding::new(State::Pending, message)),
        reason::KIND_NOT_SERVED => {
            Some(Finding::not_well(message, "install its CustomResourceDefinition on the hub"))
        }
        reason::UNPLACED => Some(Finding::not_well(message, "change its spec.placement")),
        _ => Some(Finding::new(State::NotWell, message)),
    }
}
