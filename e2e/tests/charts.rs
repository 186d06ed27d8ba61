//! The charts: well made, refusing what makes no sense, taken by real API servers, and enough for Tombolo to work with the rights
//! that they give and no others.
//!
//! `member3` is where manifests are tried, of which only definitions are kept; the story plays on the hub and the first two members.

#[path = "charts/definitions.rs"]
mod definitions;
#[path = "charts/rendered.rs"]
mod rendered;
#[path = "charts/story.rs"]
mod story;

use std::process::ExitCode;

use definitions::the_readme_renews_definitions_that_an_older_chart_brought;
use rendered::{
    an_api_server_takes_what_the_charts_make_strictly, an_empty_list_of_namespaces_is_said_to_the_hub_as_one,
    both_charts_are_well_made_whatever_is_switched_on, no_role_has_a_wildcard_unless_one_asks_for_all,
    pods_run_without_root_and_without_rights_on_their_node,
    prometheus_shows_a_token_that_the_hubs_own_api_server_knows,
    replicas_that_share_no_node_do_not_hold_up_their_successors, the_agents_chart_makes_what_join_makes,
    the_charts_hold_the_version_of_this_checkout, the_readmes_name_every_value_with_its_default,
    the_rule_that_the_chart_makes_has_the_alerts_that_are_tested,
    values_that_make_no_sense_are_refused_in_clear_words,
};
use story::tombolo_works_with_exactly_the_charts_rights_and_nothing_is_forbidden;
use tombolo_e2e::{bed::Spec, suite, tests};

fn main() -> ExitCode {
    suite::run(
        Spec::api(3).bare().with_audited_accounts(),
        tests![
            both_charts_are_well_made_whatever_is_switched_on,
            values_that_make_no_sense_are_refused_in_clear_words,
            an_empty_list_of_namespaces_is_said_to_the_hub_as_one,
            no_role_has_a_wildcard_unless_one_asks_for_all,
            pods_run_without_root_and_without_rights_on_their_node,
            prometheus_shows_a_token_that_the_hubs_own_api_server_knows,
            replicas_that_share_no_node_do_not_hold_up_their_successors,
            the_rule_that_the_chart_makes_has_the_alerts_that_are_tested,
            the_agents_chart_makes_what_join_makes,
            the_charts_hold_the_version_of_this_checkout,
            the_readmes_name_every_value_with_its_default,
            an_api_server_takes_what_the_charts_make_strictly,
            the_readme_renews_definitions_that_an_older_chart_brought,
            tombolo_works_with_exactly_the_charts_rights_and_nothing_is_forbidden,
        ],
    )
}
