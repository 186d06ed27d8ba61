//! Services under a steady load of requests from another cluster, every failed one counted, while things change and fail. Needs root.
//!
//! The figures are printed, and stand in docs/reliability.md. What only changes workloads runs side by side; what stops parts of the bed
//! runs alone, and puts it right again.

mod reliability {
    pub(crate) mod changes;
    pub(crate) mod ground;
    pub(crate) mod load;
    pub(crate) mod outages;
}

use std::process::ExitCode;

use tombolo_e2e::{bed::Spec, suite, tests};

use self::reliability::{changes::*, outages::*};

fn main() -> ExitCode {
    suite::run_at_a_time(
        4,
        Spec::nodes(3).bare(),
        tests![
            scaling_1_3_0_2_fails_no_request_while_there_is_a_pod,
            a_rolling_update_fails_no_request,
            a_move_by_one_edit_of_a_policy_keeps_the_address,
            a_move_by_two_edits_of_a_policy_fails_no_request,
            hub_and_agents_that_restart_and_stay_away_fail_no_request,
            a_silent_api_server_changes_nothing_and_a_member_without_power_is_left_out_in_time,
        ],
    )
}
