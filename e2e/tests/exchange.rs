//! Multi-cluster Services through faults: members that lie, hubs and agents that are killed, kinds that vanish. Each test has a bed of
//! its own, with a hub and agents that it can stop and start.

mod exchange {
    pub(crate) mod chaos;
    pub(crate) mod families;
    pub(crate) mod forced;
    pub(crate) mod ground;
    pub(crate) mod hostile;
    pub(crate) mod restarts;
}
#[path = "services/ground.rs"]
#[allow(dead_code, reason = "the words of tests that share a bed; not all are needed here")]
mod words;

use std::process::ExitCode;

use anyhow::Result;
use tombolo_e2e::{
    bed::Spec,
    suite::{self, Alone, Needs, on_its_own_bed},
};

use self::exchange::{chaos::*, families::*, forced::*, hostile::*, restarts::*};

/// Tests with the number of members that each needs.
macro_rules! tests {
    ($($members:literal: $test:ident),* $(,)?) => {
        vec![$((stringify!($test), Needs::Nothing, (|| {
            on_its_own_bed(stringify!($test), Spec::api($members).bare().audited(), $test)
        }) as fn() -> Result<()>)),*]
    };
}

fn main() -> ExitCode {
    let mut tests: Vec<Alone> = tests![
        3: what_a_hostile_member_says_is_refused_counted_and_told_and_nobody_else_is_hurt,
        2: ranges_that_change_on_the_cluster_count_at_once,
        2: an_export_in_a_namespace_that_takes_no_part_is_counted_told_and_imported_by_nobody,
        3: e2_an_address_outlives_restarts_reinstalls_and_a_move_to_another_cluster,
        3: a_hub_restarted_while_the_oldest_exporter_is_unreachable_changes_nothing,
        3: a_tainted_member_keeps_what_it_imports_and_offers_what_it_exports_though_it_does_not_answer,
        2: a_record_of_a_newer_format_withdraws_nothing,
        2: definitions_deleted_and_made_again_on_the_hub_or_in_a_member_delete_no_derived_service,
        2: a_member_whose_own_users_export_leaves_only_if_forced_and_then_without_derived_services,
        3: a_member_that_died_and_is_given_up_is_reached_by_nobody_any_more,
        2: exports_whose_definition_an_exporter_loses_and_gets_again_withdraw_nothing,
        2: a_member_that_leaves_keeps_no_derived_service_and_nobody_reaches_it_any_more,
        3: after_random_deaths_services_are_what_the_rules_compute_and_no_address_has_changed,
    ];
    let name = "b8_e1_e5_f11_g14_families_are_those_of_the_exports_that_an_importer_has";
    tests.push((name, Needs::Nothing, || {
        let both = Spec { dual_stack: true, ..Spec::api(3).bare() };
        let test = b8_e1_e5_f11_g14_families_are_those_of_the_exports_that_an_importer_has;
        on_its_own_bed("families", both, test)
    }));
    suite::run_one_by_one(tests)
}
