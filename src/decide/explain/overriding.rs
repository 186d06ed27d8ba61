//! Overrides: which change an object in which cluster, and what an override policy changes.

use serde_json::Value;

use super::{Account, Finding, Read, Row, State, listed, template};
use crate::decide::{
    copy::ObjectKey,
    ids::ClusterName,
    overrides::{Failure, overridden},
    policies::PolicyKey,
    select::Member,
    world::Template,
};

/// An override policy in words.
pub(super) fn shown(key: &PolicyKey) -> String {
    let kind = if key.namespace.is_some() { "OverridePolicy" } else { "ClusterOverridePolicy" };
    format!("{kind} {key}")
}

/// The policies that change an object in the clusters that it goes to, in the order in which they apply.
pub(super) fn rows(
    read: &Read,
    key: &ObjectKey,
    object: &Value,
    clusters: impl IntoIterator<Item = ClusterName>,
) -> Vec<Row> {
    let seen = Template::of(key, object);
    let matching = read.view.overrides().matching(&seen.object(key));
    let row = |cluster: ClusterName| {
        let member = read.view.members().get(&cluster)?;
        let there = matching.iter().filter(|matched| matched.policy.body.concerns(member));
        let names: Vec<_> = there.map(|matched| shown(&matched.policy.key)).collect();
        Some(match failure(read, key, object, member) {
            _ if names.is_empty() => return None,
            Some(failure) => {
                Row::new(State::NotWell, cluster.as_str(), format!("{}: {failure}", names.join(", ")))
            }
            None => Row::new(State::Well, cluster.as_str(), names.join(", ")),
        })
    };
    clusters.into_iter().filter_map(row).collect()
}

/// Why the overrides of an object do not apply in a cluster, if they do not.
fn failure(read: &Read, key: &ObjectKey, object: &Value, member: &Member) -> Option<Failure> {
    let seen = Template::of(key, object);
    let matching = read.view.overrides().matching(&seen.object(key));
    overridden(&matching, object, member).err()
}

/// Explains an override policy.
pub(super) fn account(read: &Read, key: &PolicyKey) -> Account {
    let Some((metadata, spec)) = read.overrides.get(key) else { return absent(read, key) };
    let mut account = Account::default();
    if let Some(fault) = read.view.overrides().faults(key).first() {
        account.findings.push(Finding::not_well(format!("it takes no part: {fault}"), "correct it"));
        return account;
    }
    if metadata.deletion_timestamp.is_some() {
        account
            .findings
            .push(Finding::new(State::Pending, "it is being deleted, and applies until it is gone"));
    }
    let rows = objects(read, key, &mut account.findings);
    let number = rows.len();
    account.part("Objects", rows);
    if account.is_well() {
        let cause = match (number, spec.resource_selectors.is_empty()) {
            (0, true) => Finding::new(
                State::Well,
                "it speaks of every object that it may; `tombolo explain` of an object names it among its overrides",
            ),
            (0, false) => Finding::new(State::Pending, "there is nothing yet that it speaks of"),
            (number, _) => Finding::new(
                State::Well,
                format!("it speaks of {number} object{}", if number == 1 { "" } else { "s" }),
            ),
        };
        account.findings.push(cause);
    }
    account
}

fn absent(read: &Read, key: &PolicyKey) -> Account {
    let namesakes: Vec<_> = read.overrides.keys().filter(|other| other.name == key.name).map(shown).collect();
    let way_out = match namesakes.as_slice() {
        [] => "see what there is with `kubectl get overridepolicies,clusteroverridepolicies -A`".to_owned(),
        found => format!("there is {}", listed(found)),
    };
    Account::absent(format!("there is no {}", shown(key)), way_out)
}

/// The objects that a policy speaks of, and where it changes them.
fn objects(read: &Read, key: &PolicyKey, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (of, object) in &read.templates {
        let seen = Template::of(of, object);
        let matching = read.view.overrides().matching(&seen.object(of));
        let Some(own) = matching.iter().find(|matched| matched.policy.key == *key) else { continue };
        let there = template::targets(read, of);
        let members = there.iter().filter_map(|name| read.view.members().get(name));
        let members: Vec<_> = members.filter(|member| own.policy.body.concerns(member)).collect();
        let failed = members.iter().find_map(|member| {
            let failure = failure(read, of, object, member)?;
            (failure.policy == *key).then(|| format!("in {}: {failure}", member.name))
        });
        let text = match (&failed, members.as_slice()) {
            (Some(failed), _) => failed.clone(),
            (None, []) if there.is_empty() => "it goes to no cluster".to_owned(),
            (None, []) => format!("none of its rules is for {}, where it goes", listed(&there)),
            (None, members) => format!("changed in {}", listed(members.iter().map(|member| &member.name))),
        };
        let state = if failed.is_some() { State::NotWell } else { State::Well };
        if let Some(failed) = failed {
            findings.push(Finding::not_well(format!("{of} {failed}"), "correct the policy or the template"));
        }
        rows.push(Row::new(state, of.to_string(), text));
    }
    rows
}
