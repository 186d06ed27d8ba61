//! Membership as users meet it: `tombolo join` and `unjoin` on real clusters.
//!
//! Tests run side by side on one bed, so each has members of its own.

#[path = "membership/check.rs"]
mod check;
#[path = "membership/grants.rs"]
mod grants;
#[path = "membership/id.rs"]
mod id;
#[path = "membership/join.rs"]
mod join;
#[path = "membership/leave.rs"]
mod leave;
#[path = "membership/refusals.rs"]
mod refusals;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use check::a_check_names_what_is_amiss_and_what_to_do;
use grants::the_hubs_account_can_do_exactly_what_it_was_granted;
use id::k1_an_id_that_a_user_gave_stays_though_its_property_is_deleted;
use join::{
    a_cluster_written_by_hand_with_karmadas_secret_gives_a_working_way_in,
    a_user_with_one_kubeconfig_names_the_member_by_its_context_and_prints_the_agents_manifests,
    a1_join_makes_what_it_says_and_a_second_join_changes_nothing,
    pods_with_addresses_of_another_members_pods_are_warned_about,
};
use leave::{
    a_member_that_exports_is_not_left_unless_forced, leaving_removes_what_join_made_with_the_hubs_own_rights,
    unjoining_what_is_no_member_names_the_members,
};
use refusals::{
    a_cluster_with_another_controller_of_the_api_is_refused_and_nothing_is_written,
    a_member_of_another_hub_is_refused_and_taken_over_only_if_one_says_so,
    a4_the_hub_itself_and_a_second_name_for_a_member_are_refused,
};
use tombolo_e2e::{
    bed::{Bed, Spec},
    suite, tests,
};

fn main() -> ExitCode {
    suite::run(
        Spec::api(9),
        tests![
            a1_join_makes_what_it_says_and_a_second_join_changes_nothing,
            a4_the_hub_itself_and_a_second_name_for_a_member_are_refused,
            a_member_of_another_hub_is_refused_and_taken_over_only_if_one_says_so,
            a_cluster_with_another_controller_of_the_api_is_refused_and_nothing_is_written,
            a_cluster_written_by_hand_with_karmadas_secret_gives_a_working_way_in,
            the_hubs_account_can_do_exactly_what_it_was_granted,
            leaving_removes_what_join_made_with_the_hubs_own_rights,
            pods_with_addresses_of_another_members_pods_are_warned_about,
            a_user_with_one_kubeconfig_names_the_member_by_its_context_and_prints_the_agents_manifests,
            a_member_that_exports_is_not_left_unless_forced,
            unjoining_what_is_no_member_names_the_members,
            k1_an_id_that_a_user_gave_stays_though_its_property_is_deleted,
            a_check_names_what_is_amiss_and_what_to_do,
        ],
    )
}

/// Runs `tombolo`, which must fail, and gives back its complaint.
async fn refused(bed: &Bed, arguments: &[&str]) -> Result<String> {
    let output = bed.tombolo(arguments).await?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "tombolo {} was not refused", arguments.join(" "));
    Ok(complaint)
}
