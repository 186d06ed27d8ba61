//! What those who run Tombolo see of it: metrics, logs and its inner state, of real processes on real API servers.

mod observability {
    pub(crate) mod alerts;
    pub(crate) mod changes;
}
#[path = "exchange/ground.rs"]
#[allow(dead_code, reason = "the fleet of tests that break it; not all is needed here")]
mod fleet;
#[path = "services/ground.rs"]
#[allow(dead_code, reason = "the words of tests that share a bed; not all are needed here")]
mod words;

use std::process::ExitCode;

use tombolo_e2e::{
    bed::Spec,
    suite::{self, Needs, on_its_own_bed},
};

use self::observability::{alerts::*, changes::*};

fn main() -> ExitCode {
    suite::run_one_by_one(vec![
        (
            "the_alerts_are_rules_that_go_off_when_they_should",
            Needs::Promtool,
            the_alerts_are_rules_that_go_off_when_they_should,
        ),
        (
            "a_change_is_followed_and_measured_from_the_agent_to_the_importer_and_costs_no_write",
            Needs::Nothing,
            || {
                let test =
                    a_change_is_followed_and_measured_from_the_agent_to_the_importer_and_costs_no_write;
                on_its_own_bed("changes", Spec::api(2).bare().audited(), test)
            },
        ),
    ])
}
