//! Feeds arbitrary text and JSON to globs, resource selectors and cluster selectors, and to the policies made of them.
//!
//! Whatever comes, nothing may panic or hang; a selector either compiles or has faults that say where; and a pattern
//! matches only what begins as it does.

#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tombolo::{
    api::{placement::ClusterAffinity, propagation::PropagationSpec, propagation::ResourceSelector},
    decide::{
        fault::{Fault, Path},
        policies::{Propagations, validate},
        select::{Clusters, GroupKind, Member, Names, Object, Pattern, Resources},
    },
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    pattern: &'a str,
    others: Vec<&'a str>,
    name: &'a str,
    namespace: &'a str,
    api_version: &'a str,
    kind: &'a str,
    labels: BTreeMap<String, String>,
    requirements: Vec<(&'a str, &'a str, Vec<&'a str>)>,
    zones: Vec<String>,
    /// A selector, an affinity or a spec as JSON.
    json: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    globs(&input);
    resources(&input);
    clusters(&input);
    policies(&input);
});

impl Input<'_> {
    fn requirements(&self) -> Vec<Value> {
        let requirement = |(key, operator, values): &(&str, &str, Vec<&str>)| {
            // Arbitrary text is seldom an operator.
            let known = ["In", "NotIn", "Exists", "DoesNotExist"];
            let operator =
                operator.bytes().next().map_or(*operator, |byte| known[usize::from(byte) % known.len()]);
            json!({ "key": key, "operator": operator, "values": values })
        };
        self.requirements.iter().map(requirement).collect()
    }
}

fn globs(input: &Input<'_>) {
    let patterns: Vec<Pattern> = input.others.iter().filter_map(|text| Pattern::parse(text).ok()).collect();
    let any = patterns.iter().any(|pattern| pattern.matches(input.name));
    assert_eq!(Names::new(patterns).matches(input.name), any);

    if let Ok(pattern) = Pattern::parse(input.pattern) {
        let matches = pattern.matches(input.name);
        assert!(!matches || input.name.starts_with(pattern.literal_prefix()));
        assert_eq!(Pattern::parse(pattern.as_str()).map(|again| again.matches(input.name)), Ok(matches));
        if let Pattern::Plain(text) = &pattern {
            assert_eq!(matches, &**text == input.name);
        }
    }
    // A name in which everything is escaped stands for itself, if it is a glob at all.
    let escaped: String = input.name.chars().flat_map(|c| ['\\', c]).collect();
    if let Ok(pattern @ Pattern::Glob(_)) = Pattern::parse(&escaped) {
        assert!(pattern.matches(input.name), "{escaped:?}");
    }
}

fn resources(input: &Input<'_>) {
    let mut selectors = Vec::from_iter(serde_json::from_str::<ResourceSelector>(input.json));
    selectors.extend(serde_json::from_value::<ResourceSelector>(json!({
        "apiVersion": input.api_version,
        "kind": input.kind,
        "namespace": input.namespace,
        "name": input.pattern,
        "labelSelector": { "matchLabels": input.labels, "matchExpressions": input.requirements() },
    })));
    let kind = GroupKind::new(input.api_version, input.kind);
    let object = Object { kind: &kind, namespace: input.namespace, name: input.name, labels: &input.labels };
    for selector in selectors {
        for own in [None, Some(input.namespace)] {
            let mut faults = Vec::new();
            let compiled = Resources::compile(&selector, own, &Path::root("selector"), &mut faults);
            judged(compiled.is_some(), &faults);
            if compiled.is_some_and(|compiled| compiled.rank(&object).is_some()) {
                assert_eq!(GroupKind::new(&selector.api_version, &selector.kind), kind);
            }
        }
    }
}

fn clusters(input: &Input<'_>) {
    let mut affinities = Vec::from_iter(serde_json::from_str::<ClusterAffinity>(input.json));
    affinities.extend(serde_json::from_value::<ClusterAffinity>(json!({
        "clusterNames": input.others,
        "exclude": [input.pattern],
        "labelSelector": { "matchLabels": input.labels, "matchExpressions": input.requirements() },
        "fieldSelector": { "matchExpressions": input.requirements() },
    })));
    let member = Member {
        name: input.name.parse().unwrap_or_else(|_| "member1".parse().expect("it is a cluster's name")),
        labels: input.labels.clone(),
        provider: input.zones.first().cloned(),
        region: input.zones.last().cloned(),
        zones: input.zones.iter().cloned().collect(),
        taints: Vec::new(),
        leaving: false,
        delete_copies: false,
        endpoint_ranges: None,
        secrets: Vec::new(),
    };
    for affinity in affinities {
        let mut faults = Vec::new();
        let compiled = Clusters::compile(&affinity, &Path::root("affinity"), &mut faults);
        judged(compiled.is_some(), &faults);
        compiled
            .inspect(|compiled| assert_eq!(compiled.matches(&member), compiled.mismatch(&member).is_none()));
    }
}

/// A policy that has no faults takes part in matching, and no other does.
fn policies(input: &Input<'_>) {
    let Ok(spec) = serde_json::from_str::<PropagationSpec>(input.json) else { return };
    let scope = validate::Scope { namespace: None, system_namespace: "tombolo-system" };
    let faults = validate::validate_propagation(&spec, scope);
    let mut index = Propagations::new("tombolo-system");
    index.apply(&Default::default(), &spec);
    judged(index.policies().count() == 1, &faults);
    let kind = GroupKind::new(input.api_version, input.kind);
    let object = Object { kind: &kind, namespace: input.namespace, name: input.name, labels: &input.labels };
    assert_eq!(index.winner(&object).is_some(), !index.explain(&object).is_empty());
}

fn judged(compiled: bool, faults: &[Fault]) {
    assert_eq!(compiled, faults.is_empty(), "{faults:?}");
    assert!(faults.iter().all(|fault| !fault.path.is_empty() && !fault.message.is_empty()));
}
