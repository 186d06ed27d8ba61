//! What the grants give and what they do not, and rules that users write.

use std::collections::BTreeSet;

use super::*;

fn may(preset: Preset, verb: &str, group: &str, resource: &str) -> bool {
    Grant { preset, extra: Vec::new() }.rules().iter().any(|rule| {
        let has = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref().is_some_and(|list| list.iter().any(|it| it == word || it == "*"))
        };
        rule.resource_names.is_none()
            && has(&rule.api_groups, group)
            && has(&rule.resources, resource)
            && has(&Some(rule.verbs.clone()), verb)
    })
}

#[test]
fn only_all_has_a_wildcard() {
    let wild = |rules: &[PolicyRule]| serde_json::to_string(rules).unwrap().contains('*');
    for preset in [Preset::Services, Preset::Workloads] {
        assert!(!wild(&Grant { preset, extra: Vec::new() }.rules()), "{preset:?}");
    }
    assert!(!wild(&housekeeping()));
    assert!(may(Preset::All, "bind", "rbac.authorization.k8s.io", "clusterroles"));
}

#[test]
fn services_touch_no_workload_and_workloads_cannot_raise_their_own_rights() {
    for (verb, group, resource, services, workloads) in [
        ("patch", "multicluster.x-k8s.io", "serviceexports", true, true),
        ("patch", "multicluster.x-k8s.io", "serviceexports/status", true, true),
        ("update", "discovery.k8s.io", "endpointslices", true, true),
        ("create", "", "namespaces", true, true),
        ("delete", "", "namespaces", false, false),
        ("delete", "", "services", true, true),
        ("create", "", "services", false, true),
        ("create", "apps", "deployments", false, true),
        ("list", "", "secrets", false, true),
        ("list", "", "pods", false, true),
        ("watch", "apiextensions.k8s.io", "customresourcedefinitions", true, true),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions", false, true),
        ("delete", "apiextensions.k8s.io", "customresourcedefinitions", false, false),
        ("create", "rbac.authorization.k8s.io", "clusterroles", false, false),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles", false, false),
        ("impersonate", "", "users", false, false),
        ("get", "", "nodes", false, false),
    ] {
        assert_eq!(may(Preset::Services, verb, group, resource), services, "services: {verb} {resource}");
        assert_eq!(may(Preset::Workloads, verb, group, resource), workloads, "workloads: {verb} {resource}");
    }
}

#[test]
fn no_right_is_given_twice_within_a_preset() {
    for rights in [SERVICES, WORKLOADS] {
        let mut seen = BTreeSet::new();
        for (group, resources, verbs) in rights {
            for resource in *resources {
                for verb in *verbs {
                    assert!(seen.insert((group, resource, verb)), "{verb} {resource}.{group}");
                }
            }
        }
    }
}

#[test]
fn what_can_be_removed_is_named() {
    for rule in housekeeping() {
        let removes = rule.verbs.iter().any(|verb| verb == "delete");
        assert_eq!(removes, rule.resource_names.is_some(), "{rule:?}");
    }
}

#[test]
fn a_users_rules_come_as_a_list_or_as_a_role() {
    let list = "- {apiGroups: [stable.example.com], resources: [crontabs], verbs: [get, list, watch, create, patch, delete]}";
    let rules = read(list).unwrap();
    assert_eq!(rules[0].resources.as_deref(), Some(&["crontabs".to_owned()][..]));
    let role = format!("kind: ClusterRole\nmetadata: {{name: any}}\nrules:\n{list}\n");
    assert_eq!(read(&role).unwrap(), rules);
    let grant = Grant { preset: Preset::Services, extra: rules.clone() };
    assert_eq!(grant.rules().last(), rules.last());
    assert_eq!(read("- {nonResourceURLs: [/metrics], verbs: [get]}").unwrap().len(), 1);
}

#[test]
fn a_rule_that_gives_nothing_is_refused_where_it_stands() {
    for (text, said) in [
        ("[]", "holds no rule"),
        ("just text", "must be a list of rules or a ClusterRole"),
        ("{kind: Pod}", "must be a list of rules or a ClusterRole, not \"Pod\""),
        ("{kind: ClusterRole}", "rules: is missing"),
        (
            "- {apiGroups: [''], resources: [pods], verb: [get]}",
            "rules[0]: verb: a rule has apiGroups, nonResourceURLs, resourceNames, resources, verbs only",
        ),
        ("- {apiGroups: [''], resources: [pods]}", "rules[0]: verbs: must name at least one"),
        (
            "- {resources: [pods], verbs: [get]}",
            "rules[0]: apiGroups: is missing; the group of Pods and so on is \"\"",
        ),
        ("- {apiGroups: [''], verbs: [get]}", "rules[0]: resources: must name at least one"),
        (
            "- {apiGroups: [''], resources: [pods], nonResourceURLs: [/x], verbs: [get]}",
            "rules[0]: has either nonResourceURLs, or apiGroups and resources",
        ),
    ] {
        assert_eq!(read(text), Err(said.to_owned()), "{text}");
    }
    assert!(read("a: [").unwrap_err().starts_with("is not YAML: "));
}

#[test]
fn presets_are_found_by_their_names() {
    for preset in Preset::value_variants() {
        assert_eq!(Preset::named(preset.name()), Some(*preset));
        assert_eq!(preset.to_possible_value().unwrap().get_name(), preset.name());
    }
    assert_eq!(Preset::named("some"), None);
}

#[test]
fn the_documentation_shows_the_table_of_the_code() {
    let page = include_str!("../../../docs/members.md");
    assert!(page.contains(&markdown()), "docs/members.md: put in\n{}", markdown());
}
