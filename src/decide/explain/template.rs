//! A template: the policy that holds for it, where that places it, and what became of it there.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Account, Finding, Read, Row, State, listed, members, overriding,
    policy::shown,
    read::{of, one_line},
    selected, service,
};
use crate::{
    api::{
        names::{condition, karmada},
        propagation::{ClusterOutcome, PolicyStatus},
    },
    decide::{
        admit,
        copy::{self, ObjectKey},
        ids::ClusterName,
        placement::Exclusion,
        policies::{Candidate, PolicyKey, Propagation, Verdict, never},
        world::{Assignment, Held, Share, Template, World, on_its_way},
    },
};

/// Where an object is placed, and why not elsewhere.
struct Placing {
    policy: Option<PolicyKey>,
    assignment: Assignment,
    excluded: BTreeMap<ClusterName, Exclusion>,
}

/// Explains a template.
pub(super) fn account(read: &Read, key: &ObjectKey) -> Account {
    let Some(object) = read.templates.get(key) else { return absent(read, key) };
    let mut account = Account::default();
    let template = Template::of(key, object);
    let seen = template.object(key);
    let leads = read.view.leads_into(&key.kind, &key.namespace, &key.name);
    let leads = leads.map(|_| "a Cluster names it as the way into a member");
    let kept = copy::never(object).or_else(|| never::object(&seen, super::read::system(read))).or(leads);
    if let Some(why) = kept {
        let cause = format!("it is never propagated: {why}");
        account.findings.push(Finding::not_well(cause, "make another object of what is to be propagated"));
        return account;
    }
    let candidates = read.view.propagations().explain(&seen);
    account.part("Policies", policies(&candidates));
    let placing = Placing::of(read, key);
    if placing.policy.is_none() && placing.assignment.targets.is_empty() {
        account.findings.push(selected::unselected(read, key, &seen, &candidates));
        return account;
    }
    unplaced(read, &placing, &mut account);
    let rows = clusters(read, key, &placing, &mut account.findings);
    account.part("Clusters", rows);
    let targets = placing.assignment.targets.keys().cloned();
    account.part("Overrides", overriding::rows(read, key, object, targets));
    if account.is_well() {
        account.findings.push(Finding::new(State::Well, well(&placing, &candidates)));
    }
    account
}

fn absent(read: &Read, key: &ObjectKey) -> Account {
    let mut cause = if key.namespace.is_empty() {
        format!("there is no {} {}", key.kind.kind, key.name)
    } else {
        format!("there is no {} {} in namespace {}", key.kind.kind, key.name, key.namespace)
    };
    let unasked = members::unasked(read);
    if !read.asked.is_empty() {
        cause += ", and no member exports or imports it";
    }
    if !unasked.is_empty() {
        cause += &format!(" that could be asked; {}", unasked.join("; "));
    }
    let way_out = match read.namesakes.get(key).map(Vec::as_slice) {
        Some(namespaces @ [first, ..]) => {
            format!("there is one in namespace {}: ask with -n {first}", listed(namespaces))
        }
        _ if !read.asked.is_empty() && unasked.is_empty() => {
            "create it there, or export it in a member".to_owned()
        }
        _ if service::is_part(key) => format!(
            "create it there, or see with `tombolo status --members -n {}` whether members share it without the hub",
            key.namespace
        ),
        _ => "create it there, or see what there is with `kubectl get`".to_owned(),
    };
    Account::absent(cause, way_out)
}

/// The policies that speak of an object, the one that holds first.
fn policies(candidates: &[Candidate<'_, Propagation>]) -> Vec<Row> {
    let winner = candidates.iter().find(|candidate| candidate.verdict == Verdict::Holds);
    let row = |candidate: &Candidate<'_, Propagation>| {
        let matched = candidate.matched;
        let by = format!("by {}, priority {}", matched.rank, matched.policy.priority);
        let text = match (candidate.verdict, winner) {
            (Verdict::Holds, _) => format!("holds ({by})"),
            (verdict, Some(winner)) => {
                format!("does not hold ({by}): {}", against(verdict, winner, candidate))
            }
            (verdict, None) => format!("does not hold ({by}): {verdict}"),
        };
        Row::new(State::Well, shown(&matched.policy.key), text)
    };
    candidates.iter().map(row).collect()
}

/// By what a policy loses, with figures.
pub(in crate::decide) fn against(
    verdict: Verdict,
    winner: &Candidate<'_, Propagation>,
    loser: &Candidate<'_, Propagation>,
) -> String {
    let (winner, loser) = (winner.matched, loser.matched);
    let by = shown(&winner.policy.key);
    match verdict {
        Verdict::Priority => format!(
            "{by} has a higher spec.priority ({} against {})",
            winner.policy.priority, loser.policy.priority
        ),
        Verdict::Rank => {
            format!("{by} names the object more closely (by {} against {})", winner.rank, loser.rank)
        }
        Verdict::Name => format!("{by} has a name that sorts first"),
        Verdict::ClusterWide => format!("{by} is of the object's own namespace and goes before it"),
        Verdict::Deleting | Verdict::Holds => verdict.to_string(),
    }
}

fn well(placing: &Placing, candidates: &[Candidate<'_, Propagation>]) -> String {
    let by = placing
        .policy
        .as_ref()
        .map_or("since what names it is there".to_owned(), |policy| format!("by {}", shown(policy)));
    let mut text = format!("it is in {} {by}", listed(placing.assignment.targets.keys()));
    let winner = candidates.iter().find(|candidate| candidate.verdict == Verdict::Holds);
    let losers = candidates.iter().filter(|candidate| candidate.verdict != Verdict::Holds);
    if let Some((loser, winner)) = losers.into_iter().next().zip(winner) {
        let why = against(loser.verdict, winner, loser);
        text += &format!("; {} does not hold: {why}", shown(&loser.matched.policy.key));
    }
    text
}

/// The clusters that an object is placed on.
pub(super) fn targets(read: &Read, key: &ObjectKey) -> BTreeSet<ClusterName> {
    Placing::of(read, key).assignment.targets.into_keys().collect()
}

/// What is wrong with the placement itself.
fn unplaced(read: &Read, placing: &Placing, account: &mut Account) {
    let Some((key, policy)) = placing.policy.as_ref().and_then(|key| Some((key, read.policies.get(key)?)))
    else {
        return;
    };
    // A member that was driven off for its silence is told of as such.
    for (cluster, why) in &placing.excluded {
        let silent = [karmada::TAINT_UNREACHABLE, karmada::TAINT_NOT_READY];
        if let Exclusion::Taint(taint) = why
            && silent.iter().any(|key| taint.starts_with(key))
            && let Some(since) = read.silence(cluster)
        {
            account.findings.push(dead(cluster, &since));
        }
    }
    let missing = admit::missing_clusters(read.members(), &policy.spec);
    if let Some(first) = missing.first() {
        account.findings.push(Finding::not_well(
            format!("{}: {first}", shown(key)),
            format!("the hub has {}: correct the name, or `tombolo join` it", listed(read.clusters.keys())),
        ));
    }
    if let Some(why) = &placing.assignment.unplaced {
        let mut reasons: BTreeMap<String, BTreeSet<&ClusterName>> = BTreeMap::new();
        for (cluster, why) in &placing.excluded {
            reasons.entry(why.to_string()).or_default().insert(cluster);
        }
        let reasons: Vec<_> =
            reasons.into_iter().map(|(why, clusters)| format!("{}: {why}", listed(clusters))).collect();
        let cause = format!("{} places it nowhere: {why} ({})", shown(key), reasons.join("; "));
        account
            .findings
            .push(Finding::not_well(cause, "change spec.placement of the policy, or the clusters' labels"));
    }
}

/// What became of an object in each cluster.
fn clusters(read: &Read, key: &ObjectKey, placing: &Placing, findings: &mut Vec<Finding>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, member) in read.view.members() {
        let Some(share) = placing.assignment.targets.get(name) else {
            let why = placing
                .excluded
                .get(name)
                .map_or("not placed there".to_owned(), |why| format!("not placed there: {why}"));
            rows.push(Row::new(State::Well, name.as_str(), why));
            continue;
        };
        let finding = if let Some(why) = placing.assignment.held_back(member) {
            held_back(placing, share, &why)
        } else if let Some(since) = read.silence(name) {
            dead(name, &since)
        } else {
            match &placing.policy {
                Some(policy) => outcome(read, key, policy, name),
                None => Finding::new(State::Well, "it goes along with what names it"),
            }
        };
        let share = share.replicas.map(|replicas| format!(", {replicas} replicas")).unwrap_or_default();
        rows.push(Row::new(finding.state, name.as_str(), format!("{}{share}", finding.cause)));
        if finding.state != State::Well {
            // What has a way out of its own names the cluster, or is about all of them.
            let cause = match &finding.way_out {
                Some(_) => finding.cause,
                None => format!("in {name}: {}", finding.cause),
            };
            findings.push(Finding { cause, ..finding });
        }
    }
    rows
}

fn held_back(placing: &Placing, share: &Share, why: &str) -> Finding {
    if share.held_back.as_deref() == Some(why) {
        return Finding::not_well(why, "explain that one for the way out");
    }
    let policy = placing.policy.as_ref().map(shown).unwrap_or_default();
    let way_out = if placing.assignment.waits.is_some() {
        "create them, or take them out of spec.dependentOverrides"
    } else {
        "take spec.suspension out of it to go on"
    };
    Finding::not_well(format!("{policy} holds it back: {why}"), way_out)
}

/// That a member does not answer.
pub(super) fn dead(cluster: &ClusterName, since: &str) -> Finding {
    Finding::not_well(
        format!("{cluster} is not ready {since}"),
        format!(
            "what is there stays as it is; bring it back, or leave it with `tombolo unjoin {cluster} --force`"
        ),
    )
}

/// What became of an object in a cluster, by what its policy says of it.
fn outcome(read: &Read, key: &ObjectKey, policy: &PolicyKey, cluster: &ClusterName) -> Finding {
    let Some(policy_read) = read.policies.get(policy) else {
        return Finding::new(State::Pending, "its policy was not read");
    };
    let status = &policy_read.status;
    let there = status.clusters.iter().find(|outcome| outcome.name == cluster.as_str());
    if let Some(why) = there.and_then(|there| failure(read, key, status, there)) {
        return refused(&why, key);
    }
    let matched = status.matched.unwrap_or_default();
    let current = status.observed_generation == policy_read.metadata.generation && matched > 0;
    if !current {
        return Finding::new(State::Pending, format!("the hub has not looked at {} yet", shown(policy)));
    }
    let propagated = of(&status.conditions, condition::PROPAGATED);
    if propagated.is_some_and(|propagated| propagated.status == "True") {
        return Finding::new(State::Well, "it is there");
    }
    let wanted = there.and_then(|there| there.wanted).unwrap_or(matched);
    match there.filter(|there| on_its_way(status, there) == 0) {
        // What could not be written is told, and it is not among that.
        Some(there) if tells_all(there) => Finding::new(State::Well, "it is there"),
        Some(ClusterOutcome { failed, message, .. }) => {
            let first = one_line(message.as_deref().unwrap_or("see the hub's log"));
            let cause = format!(
                "{failed} of the {wanted} objects of {} could not be written, the first: {first}",
                shown(policy)
            );
            Finding::new(State::NotWell, cause)
        }
        None => {
            let applied = there.map(|there| there.applied).unwrap_or_default();
            let cause = format!("{applied} of the {wanted} objects of {} are there", shown(policy));
            Finding::new(State::Pending, cause)
        }
    }
}

/// Whether a cluster's outcome names all that could not be written.
fn tells_all(there: &ClusterOutcome) -> bool {
    i32::try_from(there.failures.len()).is_ok_and(|told| told >= there.failed)
}

/// Why an object could not be written to a cluster: what the policy says of it. Where that is not told of all, an event on the object,
/// but none from before something failed.
fn failure(read: &Read, key: &ObjectKey, status: &PolicyStatus, there: &ClusterOutcome) -> Option<String> {
    let told = there.failures.iter().find(|failure| failure.object == key.to_string());
    let told = told.map(|failure| failure.message.as_str());
    let first = || there.message.as_deref()?.strip_prefix(&format!("{key}: "));
    let since = of(&status.conditions, condition::PROPAGATED).map(|found| found.last_transition_time.0);
    let event = || {
        let notes = read.failures.get(key).into_iter().flatten().rev();
        let recent = notes.filter(|(at, _)| *at >= since).map(|(_, note)| note);
        recent.filter(|_| !tells_all(there)).find_map(|note| note.strip_prefix(&format!("{}: ", there.name)))
    };
    let why = told.or_else(first).or_else(event);
    why.map(one_line)
}

/// That a member refuses an object, in its own words. Most of them say the way out too.
fn refused(why: &str, key: &ObjectKey) -> Finding {
    let mut finding = Finding::new(State::NotWell, why);
    if why.starts_with("the cluster does not serve the kind") {
        finding.cause += &format!(
            "; have the CustomResourceDefinition of {} propagated there by a ClusterPropagationPolicy, or install it",
            key.kind.kind
        );
    }
    finding
}

// === impl Placing ===

impl Placing {
    /// Asks the hub's own rules. What is where already counts for them: that is taken from the policy's status.
    fn of(read: &Read, key: &ObjectKey) -> Self {
        let mut world = World::new("".into());
        for member in read.view.members().keys() {
            world.set_known(&read.view, member);
            world.set_imports_known(&read.view, member);
        }
        let near = read.templates.iter().filter(|(other, _)| other.namespace == key.namespace);
        for (other, object) in near {
            world.apply_template(&read.view, other, object);
        }
        let policy = world.assignment(key).and_then(|assignment| assignment.policy.clone());
        let holding = policy.as_ref().map(|policy| holders(read, policy)).unwrap_or_default();
        for cluster in &holding {
            world.hold(&read.view, cluster, key, Some(Held::default()));
        }
        let assignment = world.assignment(key).cloned().unwrap_or_default();
        let placed = assignment.says.as_ref().filter(|_| policy.is_some());
        let placed = placed.map(|says| says.placement.place(read.view.members(), &holding));
        Self { policy, assignment, excluded: placed.map(|placed| placed.excluded).unwrap_or_default() }
    }
}

/// The clusters that have what a policy places, as far as its status tells.
fn holders(read: &Read, policy: &PolicyKey) -> BTreeSet<ClusterName> {
    let outcomes = read.policies.get(policy).into_iter().flat_map(|policy| &policy.status.clusters);
    let held = outcomes.filter(|outcome| outcome.applied > 0);
    held.filter_map(|outcome| outcome.name.parse().ok()).collect()
}
