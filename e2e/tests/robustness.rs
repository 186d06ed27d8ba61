//! What must never happen, on real API servers: idle writes, one member that holds up others, anything lost or left
//! behind by a hub that dies, deletions because nothing can be read, two writers.
//!
//! Each test has a bed of its own, since each breaks something.

#[path = "robustness/bad_member.rs"]
mod bad_member;
#[path = "robustness/credentials.rs"]
mod credentials;
#[path = "robustness/definitions.rs"]
mod definitions;
#[path = "robustness/frozen.rs"]
mod frozen;
#[path = "robustness/ground.rs"]
mod ground;
#[path = "robustness/hidden.rs"]
mod hidden;
#[path = "robustness/killed.rs"]
mod killed;
#[path = "robustness/quiet.rs"]
mod quiet;
#[path = "robustness/replicas.rs"]
mod replicas;
#[path = "robustness/rights.rs"]
mod rights;
#[path = "robustness/twins.rs"]
mod twins;
#[path = "services/ground.rs"]
#[allow(dead_code, reason = "the words of tests that share a bed; not all are needed here")]
mod words;

use std::process::ExitCode;

use anyhow::Result;
use tombolo_e2e::{
    bed::Spec,
    suite::{self, Alone, Needs, on_its_own_bed},
};

use self::{
    bad_member::{
        a_member_that_answers_500_holds_nobody_up_and_converges_when_it_returns,
        a_member_that_hangs_holds_nobody_up_and_converges_when_it_returns,
        a_member_that_is_slow_holds_nobody_up_and_converges_when_it_returns,
    },
    credentials::{
        a_hub_without_members_is_ready_and_quiet,
        a_token_that_expired_is_said_and_a_new_one_is_used_without_a_restart,
    },
    definitions::an_agent_without_the_definitions_waits_and_starts_by_itself_when_they_come,
    frozen::what_fails_to_follow_its_template_without_a_policy_is_told_by_its_cluster,
    hidden::an_api_server_that_lists_nothing_deletes_nothing,
    killed::a_hub_that_is_killed_ten_times_during_a_thousand_changes_leaves_exactly_what_is_desired,
    quiet::a_second_pass_writes_nothing,
    replicas::{
        a_replica_that_takes_over_moves_no_copy_that_it_has_not_read,
        two_replicas_never_write_both_and_the_second_takes_over_in_time,
    },
    rights::a_hub_that_may_not_read_deletes_nothing_and_goes_on_when_it_may,
    twins::{
        a_cluster_by_hand_that_leads_to_the_hub_or_to_another_hubs_member_is_refused,
        a_second_cluster_for_one_api_server_is_refused_and_costs_no_copy,
    },
};

/// Tests with the number of members that each needs.
macro_rules! tests {
    ($($members:literal: $test:ident),* $(,)?) => {
        vec![$((stringify!($test), Needs::Nothing, (|| {
            on_its_own_bed(stringify!($test), Spec::api($members).bare().audited(), $test)
        }) as fn() -> Result<()>)),*]
    };
}

fn main() -> ExitCode {
    let tests: Vec<Alone> = tests![
        2: a_second_pass_writes_nothing,
        3: a_member_that_hangs_holds_nobody_up_and_converges_when_it_returns,
        3: a_member_that_answers_500_holds_nobody_up_and_converges_when_it_returns,
        3: a_member_that_is_slow_holds_nobody_up_and_converges_when_it_returns,
        3: a_hub_that_is_killed_ten_times_during_a_thousand_changes_leaves_exactly_what_is_desired,
        2: a_hub_that_may_not_read_deletes_nothing_and_goes_on_when_it_may,
        2: an_api_server_that_lists_nothing_deletes_nothing,
        1: two_replicas_never_write_both_and_the_second_takes_over_in_time,
        3: a_replica_that_takes_over_moves_no_copy_that_it_has_not_read,
        1: a_second_cluster_for_one_api_server_is_refused_and_costs_no_copy,
        1: a_cluster_by_hand_that_leads_to_the_hub_or_to_another_hubs_member_is_refused,
        1: what_fails_to_follow_its_template_without_a_policy_is_told_by_its_cluster,
        1: an_agent_without_the_definitions_waits_and_starts_by_itself_when_they_come,
        1: a_token_that_expired_is_said_and_a_new_one_is_used_without_a_restart,
        0: a_hub_without_members_is_ready_and_quiet,
    ];
    suite::run_one_by_one(tests)
}
