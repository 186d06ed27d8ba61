//! The status page in a real browser: against a real hub with two members, and drawn of fleets of 10 and 60 clusters that are only
//! objects in memory ([`tombolo_e2e::archipelago`]), since so many API servers are too much for one machine; those are served by the
//! hub's own page without a hub. Pictures are kept in `target/screenshots`.

mod page {
    pub(crate) mod drawn;
    pub(crate) mod ground;
    pub(crate) mod guarded;
    pub(crate) mod live;
    pub(crate) mod terminal;
}

use std::process::ExitCode;

use tombolo_e2e::{
    bed::Spec,
    suite::{self, Needs},
    tests,
};

use self::page::{drawn::*, guarded::*, live::*, terminal::*};

fn main() -> ExitCode {
    // Pictures say the same wherever they are taken.
    let flags = ["--status-page", "--stale-after=3", "--lost-after=3600", "--lease-identity=tombolo-hub-0"];
    let flags = flags.map(str::to_owned).to_vec();
    suite::run_needing(
        Needs::Browser,
        Spec { hub_flags: flags, ..Spec::api(2) }.joined(),
        tests![
            fleets_of_10_and_60_are_drawn_in_dark_and_light,
            the_same_clusters_are_at_the_same_places,
            everything_is_reached_by_keys,
            a_filter_leaves_what_it_names,
            what_clusters_say_stays_text,
            a_lost_connection_is_said_and_mended,
            //
            members_and_services_are_shown_and_changes_come_by_themselves,
            only_so_many_may_look_at_a_time,
            whoever_may_not_is_not_let_in,
            a_replica_that_does_not_lead_says_so_and_a_browser_can_log_in,
            status_and_explain_are_pictured_in_a_terminal_of_80_columns,
            a_member_that_falls_silent_is_seen,
        ],
    )
}
