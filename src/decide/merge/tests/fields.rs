//! What is taken from the oldest export, and how a disagreement reads.

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Merges an export with a younger one that differs in one thing.
fn check(
    older: impl FnOnce(&mut ServiceSpec),
    younger: impl FnOnce(&mut ServiceSpec),
    reason: &str,
    message: &str,
) -> ServiceSpec {
    let exports = [with("member2", 2, younger), with("member1", 1, older)];
    let merged = fresh(&exports);
    assert_eq!(
        merged.condition(),
        Condition { status: true, reason: reason.to_owned(), message: message.to_owned() }
    );
    let expected =
        ServiceSpec { ip_families: merged.service.ip_families.clone(), ..exports[1].service.clone() };
    assert_eq!(merged.service, expected);
    merged.service
}

#[test]
fn a_type_conflict_reads_as_the_kep_writes_it() {
    let headless = |name, second| with(name, second, |service| service.service_type = ServiceType::Headless);
    let plain = |name, second| with(name, second, |_| {});
    let merged = fresh(&[
        plain("cluster-1", 1),
        headless("cluster-2", 2),
        plain("cluster-3", 3),
        headless("cluster-4", 4),
        plain("cluster-5", 5),
    ]);
    let conflict = &merged.conflicts[0];
    assert_eq!(
        conflict.message,
        r#"Conflicting type. Using "ClusterSetIP" from oldest service export in "cluster-1". 2/5 clusters disagree."#
    );
    assert_eq!((conflict.kind, conflict.winner.as_str()), (ConflictKind::Type, "cluster-1"));
    assert_eq!((conflict.disagreeing.len(), conflict.of), (2, 5));
}

#[test]
fn session_affinity_is_the_oldest_exports() {
    check(
        |_| {},
        |younger| younger.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 10800 },
        "SessionAffinityConflict",
        r#"Conflicting sessionAffinity. Using "None" from oldest service export in "member1". 1/2 clusters disagree."#,
    );
}

#[test]
fn the_affinity_timeout_is_the_oldest_exports() {
    check(
        |older| older.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 60 },
        |younger| younger.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 90 },
        "SessionAffinityConfigConflict",
        r#"Conflicting sessionAffinityConfig. Using "timeoutSeconds: 60" from oldest service export in "member1". 1/2 clusters disagree."#,
    );
}

#[test]
fn the_internal_traffic_policy_is_the_oldest_exports() {
    check(
        |older| older.internal_traffic_policy = InternalTrafficPolicy::Local,
        |_| {},
        "InternalTrafficPolicyConflict",
        r#"Conflicting internalTrafficPolicy. Using "Local" from oldest service export in "member1". 1/2 clusters disagree."#,
    );
}

#[test]
fn the_traffic_distribution_is_the_oldest_exports_also_if_it_has_none() {
    check(
        |_| {},
        |younger| younger.traffic_distribution = Some("PreferClose".into()),
        "TrafficDistributionConflict",
        r#"Conflicting trafficDistribution. Using none from oldest service export in "member1". 1/2 clusters disagree."#,
    );
}

#[test]
fn labels_and_annotations_are_the_oldest_exports_as_a_whole() {
    let service = check(
        |older| older.labels = map(&[("a", "1"), ("b", "2")]),
        |younger| younger.labels = map(&[("a", "1"), ("c", "3")]),
        "LabelsConflict",
        r#"Conflicting exportedLabels. Using "a=1, b=2" from oldest service export in "member1". 1/2 clusters disagree."#,
    );
    assert!(!service.labels.contains_key("c"));
    let service = check(
        |_| {},
        |younger| younger.annotations = map(&[("c", "3")]),
        "AnnotationsConflict",
        r#"Conflicting exportedAnnotations. Using none from oldest service export in "member1". 1/2 clusters disagree."#,
    );
    assert!(service.annotations.is_empty());
}

#[test]
fn label_pairs_that_only_read_alike_are_a_conflict() {
    let merged = fresh(&[
        with("a", 1, |service| service.labels = map(&[("x", "1, y=2")])),
        with("b", 2, |service| service.labels = map(&[("x", "1"), ("y", "2")])),
    ]);
    assert_eq!(reasons(&merged), "LabelsConflict");
}

#[test]
fn all_conflicts_are_told_at_once_in_a_fixed_order() {
    let everything = with("b", 2, |service| {
        service.service_type = ServiceType::Headless;
        service.ports = ports_of("http 81/TCP");
        service.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 1 };
        service.internal_traffic_policy = InternalTrafficPolicy::Local;
        service.traffic_distribution = Some("PreferClose".into());
        service.ip_families = vec![IpFamily::V6];
        service.labels = map(&[("a", "1")]);
        service.annotations = map(&[("a", "1")]);
    });
    let timeout = with("c", 3, |service| {
        service.session_affinity = SessionAffinity::ClientIp { timeout_seconds: 2 };
        service.ip_families = vec![IpFamily::V4];
    });
    let plain = with("a", 1, |service| service.ip_families = vec![IpFamily::V4]);
    let merged = fresh(&[everything.clone(), timeout.clone(), plain]);
    assert_eq!(
        reasons(&merged),
        "PortConflict,TypeConflict,SessionAffinityConflict,LabelsConflict,AnnotationsConflict,\
         InternalTrafficPolicyConflict,TrafficDistributionConflict,IPFamilyConflict"
    );
    let merged = fresh(&[everything, timeout]);
    assert_eq!(
        reasons(&merged),
        "PortConflict,TypeConflict,SessionAffinityConfigConflict,LabelsConflict,AnnotationsConflict,\
         InternalTrafficPolicyConflict,TrafficDistributionConflict,IPFamilyConflict"
    );
    assert_eq!(merged.condition().message.matches("1/2 clusters disagree.").count(), 8);
}

#[test]
fn a_message_stays_short_however_much_is_exported() {
    let long = |text: &str| map(&[("a", &text.repeat(100_000))]);
    let ports =
        |number: u16| (1..500).map(|n| format!("p{n} {}/TCP", n + number)).collect::<Vec<_>>().join(", ");
    let exports = [
        with("a", 1, |service| (service.labels, service.ports) = (long("é"), ports_of(&ports(0)))),
        with("b", 2, |service| (service.labels, service.ports) = (long("\n"), ports_of(&ports(1)))),
    ];
    let message = fresh(&exports).condition().message;
    assert!(message.len() < 3000, "{}", message.len());
    assert!(message.contains("é…\" from oldest"), "{message}");
    assert!(message.contains("and 494 more."), "{message}");
}

#[test]
fn families_are_those_that_all_exports_have_in_the_oldest_ones_order() {
    const V4: IpFamily = IpFamily::V4;
    const V6: IpFamily = IpFamily::V6;
    /// The families of exports from the oldest on, the merged ones, and how many exports are at odds with them.
    type Row = (&'static [&'static [IpFamily]], &'static [IpFamily], usize);
    let table: &[Row] = &[
        (&[&[V4]], &[V4], 0),
        (&[&[V6, V4], &[V4, V6]], &[V6, V4], 0),
        (&[&[V4], &[V4, V6]], &[V4], 0),
        // One that shares none takes none away.
        (&[&[V4], &[V6]], &[V4], 1),
        (&[&[V4, V6], &[V4], &[V6]], &[V4], 1),
        // Nor does one that lacks the first of the oldest: importers have an address of that family for life.
        (&[&[V4, V6], &[V6]], &[V4, V6], 1),
        (&[&[V4, V6], &[V6], &[V4], &[V4]], &[V4], 1),
        // Unknown families limit nothing.
        (&[&[], &[V6], &[V4, V6]], &[V6], 0),
        (&[&[V4], &[]], &[V4], 0),
        (&[&[], &[]], &[], 0),
        (&[&[V4, V4]], &[V4], 0),
    ];
    for (families, expected, apart) in table {
        let exports = families.iter().zip(1..).map(|(families, second)| {
            with(&format!("c{second}"), second, |service| service.ip_families = families.to_vec())
        });
        let merged = fresh(&exports.collect::<Vec<_>>());
        assert_eq!(merged.service.ip_families, *expected, "{families:?}");
        let found = merged.conflicts.first().map_or(0, |conflict| conflict.disagreeing.len());
        assert_eq!(found, *apart, "{families:?}");
    }
}

#[test]
fn a_family_conflict_names_the_oldest_export_with_known_families() {
    let of = |name, second, families: &[IpFamily]| {
        with(name, second, |service| service.ip_families = families.to_vec())
    };
    let merged = fresh(&[of("a", 1, &[]), of("b", 2, &[IpFamily::V4]), of("c", 3, &[IpFamily::V6])]);
    assert_eq!(
        merged.condition().message,
        r#"Conflicting ipFamilies. Using "IPv4" from oldest service export in "b". 1/3 clusters disagree."#
    );
}
