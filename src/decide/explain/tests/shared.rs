//! Explanations of objects that share a policy: what became of one is not what became of another.

use super::*;

/// ConfigMaps `one` and `two` under one policy, of which member1 has some and could not take others.
fn sharing(applied: usize, failures: &[(&str, &str)]) -> Read {
    let mut read = read(&["member1"]);
    for name in ["one", "two"] {
        read.add_template(config_map(name));
    }
    let told: Vec<_> =
        failures.iter().map(|(object, message)| json!({ "object": object, "message": message })).collect();
    let first = failures.first().map(|(object, message)| format!("{object}: {message}"));
    let outcome = json!({
        "name": "member1", "wanted": 2, "applied": applied, "failed": failures.len(), "message": first, "failures": told,
    });
    let message = format!("{} of 2 could not be written", failures.len());
    let said = condition("Propagated", "False", "Failed", &message);
    let status = json!({ "status": { "matched": 2, "clusters": [outcome], "conditions": [said] } });
    add(&mut read, [with(policy("p", "*", &["member1"]), status)]);
    read
}

/// As a status is of which not all failures are told.
fn told_in_part(applied: usize, failures: &[(&str, &str)]) -> Read {
    let mut read = sharing(applied, failures);
    read.policies.values_mut().for_each(|policy| policy.status.clusters[0].failures.clear());
    read
}

fn of(read: &Read, name: &str) -> String {
    let headline = explain(read, &Subject::Object(key("ConfigMap", name))).headline();
    headline.strip_prefix(&format!("ConfigMap shop/{name} ")).unwrap_or(&headline).to_owned()
}

const ONE: (&str, &str) = ("ConfigMap shop/one", "too large");
const TWO: (&str, &str) = ("ConfigMap shop/two", "the house says no");

#[test]
fn each_of_several_that_failed_says_its_own_reason_without_any_event() {
    let read = sharing(0, &[ONE, TWO]);
    assert_eq!(of(&read, "one"), "is not well: in member1: too large");
    assert_eq!(of(&read, "two"), "is not well: in member1: the house says no");
}

#[test]
fn what_is_there_is_well_though_another_object_of_its_policy_failed() {
    let mut read = sharing(1, &[TWO]);
    assert_eq!(of(&read, "one"), "is well: it is in member1 by PropagationPolicy shop/p");
    // It failed too, and was mended since.
    let later = Some("2026-11-16T12:00:01Z".parse().unwrap());
    read.add_failure(key("ConfigMap", "one"), later, "member1: too large".to_owned());
    assert_eq!(of(&read, "one"), "is well: it is in member1 by PropagationPolicy shop/p");
    assert_eq!(of(&read, "two"), "is not well: in member1: the house says no");
}

#[test]
fn where_not_all_failures_are_told_nothing_is_on_its_way_that_has_failed() {
    let mut read = told_in_part(0, &[ONE, TWO]);
    let first = "2 of the 2 objects of PropagationPolicy shop/p could not be written, the first: ConfigMap shop/one: too large";
    assert_eq!(of(&read, "two"), format!("is not well: in member1: {first}"));
    let event = |at: &str| (Some(at.parse().unwrap()), "member1: the house says no".to_owned());
    let (before, note) = event("2026-11-16T11:59:59Z");
    read.add_failure(key("ConfigMap", "two"), before, note);
    assert_eq!(of(&read, "two"), format!("is not well: in member1: {first}"), "it is of an earlier failure");
    let (since, note) = event(SINCE);
    read.add_failure(key("ConfigMap", "two"), since, note);
    assert_eq!(of(&read, "two"), "is not well: in member1: the house says no");
}

#[test]
fn what_is_still_to_come_is_on_its_way_beside_what_failed() {
    let read = sharing(0, &[TWO]);
    assert_eq!(
        of(&read, "one"),
        "is on its way: in member1: 0 of the 2 objects of PropagationPolicy shop/p are there"
    );
}
