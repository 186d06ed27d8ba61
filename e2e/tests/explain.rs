//! `tombolo status`, `tombolo explain` and `tombolo plan` against a hub with three members: prepared faults, each of which the first line of the
//! explanation has to name, with the field and the way out. Each has a namespace of its own; member3 is there to be lost.

mod explain {
    pub(crate) mod faults;
    pub(crate) mod ground;
    pub(crate) mod plan;
    pub(crate) mod services;
    pub(crate) mod status;
}

use std::process::ExitCode;

use tombolo_e2e::{bed::Spec, suite, tests};

use self::explain::{faults::*, plan::*, services::*, status::*};

/// As many tests at a time: they mostly wait.
const AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    suite::run_at_a_time(
        AT_A_TIME,
        Spec::api(3).joined().audited(),
        tests![
            fault_01_a_policy_in_the_wrong_namespace,
            fault_02_a_policy_that_loses_against_another,
            fault_03_no_policy_selects_it,
            fault_04_a_cluster_that_there_is_not,
            fault_05_a_suspended_policy,
            fault_06_a_kind_that_the_member_lacks,
            fault_07_a_right_that_the_hub_lacks_in_the_member,
            fault_08_an_object_of_somebody_else_is_there_already,
            fault_09_the_member_refuses_it,
            fault_10_a_member_that_does_not_answer,
            fault_11_ports_that_differ_between_clusters,
            fault_12_a_service_of_type_external_name,
            fault_13_a_service_that_is_placed_elsewhere,
            fault_14_an_export_in_the_wrong_namespace,
            what_is_well_is_said_to_be_so,
            //
            a_status_in_json_and_yaml_has_all_parts,
            a_status_fits_a_terminal_and_is_whole_and_has_no_colours_in_a_pipe,
            a_watched_status_shows_a_change,
            on_a_terminal_there_are_colours_and_lines_are_broken,
            exit_codes_are_as_they_are_documented,
            a_status_of_members_shows_what_they_share_without_the_hub,
            it_is_a_plugin_of_kubectl,
            //
            a_plan_of_a_story_says_what_goes_where_and_writes_nothing,
            a_plan_of_a_policy_says_what_moves_and_what_stays_without_it,
            a_plan_says_what_would_be_refused_and_the_way_out,
            a_plan_knows_namespaces_and_kinds_that_the_file_brings_along,
        ],
    )
}
