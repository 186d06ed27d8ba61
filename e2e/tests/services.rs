//! Multi-cluster Services on real API servers: a hub, three members and their agents. Services have no selector and slices are made by
//! hand, as there are no pods here. Each test has a namespace of its own.

mod services {
    pub(crate) mod automatic;
    pub(crate) mod by_policy;
    pub(crate) mod ground;
    pub(crate) mod merge;
    pub(crate) mod repair;
}

use std::process::ExitCode;

use tombolo_e2e::{bed::Spec, suite, tests};

use self::services::{automatic::*, by_policy::*, merge::*, repair::*};

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
            f1_to_f4_f10_slices_say_where_they_are_from_and_keep_what_dns_needs,
            d2_a_headless_service_is_imported_without_an_address,
            //
            the_walk_through_imports_in_member2_and_nowhere_else,
            a_placement_that_moves_takes_the_import_along,
            withdrawn_on_the_hub_it_goes_everywhere,
            //
            g1_g15_a_conflict_is_told_on_all_exports_and_its_end_too,
            g5_g7_ports_are_a_union_and_a_losing_one_is_withheld,
            //
            one_endpoint_change_is_one_write_and_one_more_in_each_importer,
            imported_slices_that_somebody_edits_or_deletes_are_put_right,
            an_import_that_a_user_made_stays_the_users,
        ],
    )
}
