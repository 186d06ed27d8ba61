//! The agent on real API servers: what it makes of exports and imports, with no hub at all.
//!
//! Most tests share the first member, each in a namespace of its own; those that stop agents or take definitions away have the others.
//! The clusters have both families, but for the last, which has IPv6 only.

mod agent {
    pub(crate) mod exports;
    pub(crate) mod ground;
    pub(crate) mod imports;
    pub(crate) mod lifetime;
    pub(crate) mod own;
}

use std::process::ExitCode;

use tombolo_e2e::{bed::Spec, suite, tests};

use self::agent::{exports::*, imports::*, lifetime::*, own::*};

/// As many tests at a time: they mostly wait.
const AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    suite::run_at_a_time(
        AT_A_TIME,
        Spec { dual_stack: true, ..Spec::api(3).bare().audited() },
        tests![
            b10_an_external_name_is_no_service_to_export,
            b11_an_export_without_a_service_says_so_and_recovers_when_it_comes,
            b11_a_service_deleted_and_made_again_is_withdrawn_and_comes_back,
            b12_a_valid_export_says_so_in_two_writes_and_its_record_follows_the_service,
            a_derived_service_cannot_be_exported,
            an_export_deleted_while_its_record_is_being_written_stays_deleted,
            source_slices_follow_and_what_somebody_edits_or_deletes_is_put_right,
            f7_slices_of_many_endpoints_are_split_and_a_service_without_any_has_an_empty_one,
            one_endpoint_change_is_one_write,
            b5_deleting_an_export_removes_its_source_slices,
            d1_an_import_made_by_hand_gets_a_derived_service_whose_address_it_shows,
            a_derived_service_follows_its_import_and_what_somebody_edits_is_put_right,
            d2_a_headless_import_gets_a_headless_service_and_may_change_its_type,
            e2_a_derived_service_that_a_user_deletes_comes_back_with_the_same_address,
            e4_addresses_are_in_the_order_of_the_families_and_the_first_stays,
            e6_a_family_that_the_cluster_lacks_is_said_to_be_not_supported,
            a_users_own_service_of_that_name_is_left_alone_and_another_name_is_taken,
            a_derived_service_goes_a_little_after_its_import,
            addresses_that_a_user_presets_are_used_where_the_range_allows_and_left_alone_where_not,
            an_import_without_ports_waits_for_them,
            slices_made_by_hand_are_linked_once_and_never_taken_from_another_service,
            what_this_cluster_exports_and_imports_is_served_by_its_own_endpoints_too,
            its_own_endpoints_follow_while_its_export_cannot_be_written,
            a_restart_writes_nothing_and_what_changed_meanwhile_is_seen_to,
            two_agents_do_the_work_once_and_the_second_takes_over,
            definitions_deleted_and_made_again_delete_no_derived_service,
        ],
    )
}
