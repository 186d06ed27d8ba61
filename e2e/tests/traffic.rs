//! Real traffic through multi-cluster Services: pods, kube-proxy and CoreDNS in three members, a hub and their agents. Needs root.
//!
//! Each test has a namespace of its own on one bed; what cannot share it starts its own.

mod traffic {
    pub(crate) mod fields;
    pub(crate) mod ground;
    pub(crate) mod off;
    pub(crate) mod rows;
    pub(crate) mod spec_import;
    pub(crate) mod spec_traffic;
    pub(crate) mod stories;
}

use std::{process::ExitCode, sync::Arc};

use anyhow::Result;
use tombolo_e2e::{
    bed::{Bed, Spec},
    suite::{self, Outcome, Test},
    tests,
};

use self::traffic::{fields::*, off, rows::*, spec_import::*, spec_traffic::*, stories::*};

/// Tests that cannot share the bed, each with what its own is made of.
macro_rules! aside {
    ($(($spec:expr, $test:ident)),* $(,)?) => {
        vec![$((stringify!($test), (|_| Box::pin(suite::aside(stringify!($test), $spec, $test))) as fn(Arc<Bed>) -> Outcome)),*]
    };
}

/// As many tests at a time: they mostly wait.
const AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let own_beds = aside![
        (Spec::nodes(3), story_004_the_request_pod_in_member2_prints_member1s_line_every_second),
        (Spec::api(3), story_004_derives_a_service_in_member2_alone_though_member3_has_the_definitions_too),
        (Spec::nodes(2).bare(), story_002_two_clusters_by_hand_share_one_address_without_any_hub),
        (off::spec(), without_automatic_imports_each_spec_that_expects_one_fails),
        (
            Spec { dual_stack: true, ..Spec::nodes(3) }.joined(),
            with_dual_stack_both_families_are_served_where_there_are_both
        ),
        (Spec::api(2), k1_k3_a_cluster_is_known_by_its_property_and_no_two_may_have_one),
        (Spec::api(1), k2_k4_k5_a_member_says_in_which_clusterset_it_is_for_as_long_as_it_is),
    ];
    let shared = tests![
        story_000_an_exported_service_answers_by_its_name_in_the_other_cluster,
        story_002_two_clusters_that_export_share_one_address_and_local_names_stay_local,
        //
        traffic_distribution_prefers_the_own_zone_and_falls_back,
        internal_traffic_policy_local_reaches_the_own_pods_alone,
        session_affinity_holds_across_clusters,
        a_losing_port_is_refused_while_the_clusters_other_ports_serve,
        //
        h1_i1_the_name_in_clusterset_local_is_the_clusterset_ip,
        h2_names_of_cluster_local_are_as_they_were_before_the_import,
        h3_the_zone_says_which_version_of_the_names_it_has,
        h4_a_cluster_alone_has_no_name,
        h5_reverse_names_are_those_of_the_clusters_own_services,
        h6_the_longest_name_there_is_resolves_and_answers,
        i2_i3_each_named_port_has_a_record_and_comes_with_the_address,
        j1_j4_a_headless_name_is_the_ready_endpoints_and_without_any_there_is_none,
        j2_j3_j6_an_endpoint_is_called_by_host_and_source_cluster,
        j5_each_endpoint_has_a_record_for_each_named_port,
    ];
    // A bed of one's own every few tests, so that not all of them are there at once.
    let mut others = [shared, specs()].concat().into_iter();
    let mut tests: Vec<Test> = others.by_ref().take(AT_A_TIME / 2).collect();
    for own in own_beds {
        tests.push(own);
        tests.extend(others.by_ref().take(AT_A_TIME - 1));
    }
    tests.extend(others);
    suite::run_at_a_time(AT_A_TIME, Spec::nodes(3).joined(), tests)
}

/// One for each spec of the conformance suite, under its number.
fn specs() -> Vec<Test> {
    tests![
        spec_01_an_import_is_there_as_long_as_one_cluster_exports,
        spec_02_only_exported_labels_and_annotations_come_along,
        spec_03_of_conflicting_labels_and_annotations_the_older_set_is_taken,
        spec_04_a_cluster_ip_service_becomes_a_clusterset_ip_import_in_each_cluster,
        spec_05_the_session_affinity_is_the_services,
        spec_06_the_internal_traffic_policy_is_the_services,
        spec_07_the_traffic_distribution_is_the_services,
        spec_08_there_is_an_address_for_each_family,
        spec_09_the_ports_are_the_services,
        spec_10_ports_are_a_union_and_a_difference_is_a_conflict,
        spec_11_of_conflicting_ports_the_older_export_s_is_taken,
        spec_12_a_headless_service_becomes_a_headless_import_in_each_cluster,
        spec_13_a_headless_import_has_no_address,
        spec_14_an_external_name_is_not_exported,
        spec_15_of_conflicting_headlessness_the_older_export_s_is_taken,
        spec_16_a_service_that_is_not_exported_is_not_reached,
        spec_17_an_exported_service_is_reached_by_its_name_from_everywhere,
        spec_18_of_two_clusters_only_the_one_that_exports_is_reached,
        spec_19_of_one_port_name_with_two_numbers_the_older_number_is_served_by_its_cluster,
        spec_20_a_port_of_one_cluster_alone_is_served_by_it_alone,
        spec_21_each_importer_has_slices_with_the_labels_and_loses_them_with_the_export,
        spec_22_the_name_is_the_clusterset_ip,
        spec_23_a_service_has_one_srv_record_a_port,
        spec_24_names_of_cluster_local_are_of_the_local_service_alone,
        spec_25_a_headless_name_is_all_ready_pods_of_all_clusters,
        spec_26_a_pod_of_a_stateful_set_has_a_name_with_its_cluster,
        spec_27_a_headless_service_has_an_srv_record_a_pod_and_port,
    ]
}

async fn without_automatic_imports_each_spec_that_expects_one_fails(bed: Arc<Bed>) -> Result<()> {
    off::each_spec_that_expects_an_import_fails(bed, specs()).await
}
