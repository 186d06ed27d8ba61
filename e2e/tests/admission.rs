//! Admission as users meet it: real kubectl, a real API server, real TLS to the webhook. What is refused or warned about is kept as
//! files, see `e2e/admission/README.md`.

#[path = "admission/corpus.rs"]
mod corpus;
#[path = "admission/gallery.rs"]
mod gallery;
#[path = "admission/malformed.rs"]
mod malformed;
#[path = "admission/mutation.rs"]
mod mutation;
#[path = "admission/outage.rs"]
mod outage;
#[path = "admission/said.rs"]
mod said;
#[path = "admission/single.rs"]
mod single;
#[path = "admission/unknown.rs"]
mod unknown;

use std::process::ExitCode;

use corpus::{
    every_refused_manifest_gets_exactly_its_message, every_warned_manifest_gets_exactly_its_warnings,
};
use gallery::every_manifest_of_the_stories_and_of_the_gallery_applies;
use malformed::{
    a_connection_that_is_not_used_for_a_while_is_not_closed_by_the_webhook,
    whatever_is_sent_to_the_webhook_it_answers_and_goes_on,
};
use mutation::the_same_is_filled_in_whichever_way_it_is_written_and_nothing_more;
use outage::{
    a_hub_is_ready_only_when_it_has_read_every_kind,
    without_the_webhook_services_are_made_policies_are_refused_and_deleted,
};
use single::{
    a_dry_run_says_the_same_and_stores_nothing, a_name_of_63_characters_is_fine,
    a_namespace_with_the_rule_gives_it_to_its_exports_and_imports,
    a_service_that_nobody_exports_is_stored_as_it_was_written,
    labels_and_annotations_to_export_have_a_size_limit,
};
use tombolo_e2e::{bed::Spec, suite, tests};
use unknown::fields_that_this_release_does_not_know_are_kept_to_the_byte;

fn main() -> ExitCode {
    suite::run(
        // Its clusters are names only: a hub that brought something to them would find them unwell.
        Spec { hub_flags: vec!["--propagation=false".to_owned()], ..Spec::api(0) },
        tests![
            every_refused_manifest_gets_exactly_its_message,
            every_warned_manifest_gets_exactly_its_warnings,
            every_manifest_of_the_stories_and_of_the_gallery_applies,
            the_same_is_filled_in_whichever_way_it_is_written_and_nothing_more,
            a_namespace_with_the_rule_gives_it_to_its_exports_and_imports,
            a_dry_run_says_the_same_and_stores_nothing,
            a_name_of_63_characters_is_fine,
            a_service_that_nobody_exports_is_stored_as_it_was_written,
            labels_and_annotations_to_export_have_a_size_limit,
            whatever_is_sent_to_the_webhook_it_answers_and_goes_on,
            a_connection_that_is_not_used_for_a_while_is_not_closed_by_the_webhook,
            fields_that_this_release_does_not_know_are_kept_to_the_byte,
            without_the_webhook_services_are_made_policies_are_refused_and_deleted,
            a_hub_is_ready_only_when_it_has_read_every_kind,
        ],
    )
}
