//! Multi-cluster Services on real API servers: a hub, three members and their agents. Services have no selector and slices are made by
//! hand, as there are no pods here. Each test has a namespace of its own.

mod services {
    pub(crate) mod automatic;
    pub(crate) mod by_policy;
    pub(crate) mod command;
    pub(crate) mod ground;
    pub(crate) mod merge;
    pub(crate) mod repair;
    pub(crate) mod rows;
}

use std::process::ExitCode;

use tombolo_e2e::{bed::Spec, suite, tests};

use self::services::{automatic::*, by_policy::*, command::*, merge::*, repair::*, rows::*};

/// As many tests at a time: they mostly wait.
const AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    suite::run_at_a_time(
        AT_A_TIME,
        Spec::api(3).joined().audited(),
        tests![
            c1_c2_one_export_is_imported_in_every_member_with_the_namespace,
            c3_a_namespace_that_comes_later_gets_the_import_and_one_that_goes_loses_it,
            c4_f5_the_import_and_its_slices_go_with_the_last_export,
            b3_a_service_without_an_export_of_its_own_is_not_part_of_it,
            b11_a_deleted_service_is_withdrawn_and_keeps_its_address_until_it_is_back,
            an_export_that_is_made_again_at_once_keeps_the_address,
            e3_f1_to_f4_f10_slices_say_where_they_are_from_and_keep_what_dns_needs,
            d2_a_headless_service_is_imported_without_an_address,
            //
            the_walk_through_imports_in_member2_and_nowhere_else,
            a_placement_that_moves_takes_the_import_along,
            withdrawn_on_the_hub_it_goes_everywhere,
            //
            exported_on_the_hub_by_one_command_it_is_reachable_where_it_was_sent_and_nowhere_else,
            exported_in_a_member_by_one_command_it_is_offered_and_taken_back_by_another,
            an_export_that_cannot_be_is_refused_before_anything_is_written,
            a_command_that_waits_ends_when_it_is_interrupted,
            //
            g1_g15_a_conflict_is_told_on_all_exports_and_its_end_too,
            g5_g7_ports_are_a_union_and_a_losing_one_is_withheld,
            //
            one_endpoint_change_is_one_write_and_one_more_in_each_importer,
            imported_slices_that_somebody_edits_or_deletes_are_put_right,
            a_source_slice_that_loses_its_label_withdraws_nothing_and_gets_it_again,
            a_derived_service_that_loses_its_annotation_keeps_name_and_address,
            an_import_of_the_hubs_that_somebody_edits_or_deletes_is_put_right,
            a_slice_that_an_importer_refuses_keeps_no_others_back,
            labels_of_imported_slices_that_somebody_edits_are_put_right_and_keep_nobody_back,
            c5_an_import_that_a_user_made_stays_the_users,
            //
            a2_b2_b4_c6_g16_all_exports_of_a_name_in_a_namespace_are_one_service_everywhere,
            a6_b1_d3_nothing_is_exported_by_itself_and_local_services_stay_as_they_are,
            a7_a_namespace_is_not_made_for_the_sake_of_an_import,
            b6_affinity_and_traffic_fields_are_the_services,
            b7_g13_only_exported_labels_and_annotations_are_imported_and_the_oldest_set_wins,
            b13_c7_c8_c9_export_and_import_say_how_they_are,
            d4_g9_headlessness_is_the_oldests_and_changes_when_it_leaves,
            g2_g3_g10_g11_g12_all_that_differs_is_told_at_once_the_oldest_wins_and_its_end_is_told,
            g4_the_import_goes_on_with_what_is_left_when_the_winner_leaves,
            g6_a_named_and_an_unnamed_port_make_a_service_whose_ports_all_have_names,
            g8_port_names_that_swap_between_clusters_lead_to_the_older_ones_pods_only,
            g8_every_importer_serves_the_same_of_a_cluster_that_cluster_itself_too,
            f6_f8_slices_are_in_the_services_namespace_of_every_importer_the_exporter_too,
        ],
    )
}
