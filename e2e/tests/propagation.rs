//! Propagation on real API servers: each rule by a test that is named by it. Each has a namespace of its own, so that they run side
//! by side on one hub with three members.

mod propagation {
    pub(crate) mod arrival;
    pub(crate) mod deletion;
    pub(crate) mod dependencies;
    pub(crate) mod drift;
    pub(crate) mod kinds;
    pub(crate) mod never;
    pub(crate) mod overrides;
    pub(crate) mod ownership;
    pub(crate) mod placement;
    pub(crate) mod priority;
    pub(crate) mod replicas;
    pub(crate) mod scenarios;
    pub(crate) mod status;
    pub(crate) mod strip;
}

use std::{process::ExitCode, sync::Arc};

use anyhow::Result;
use tokio::sync::OnceCell;
use tombolo_e2e::{
    bed::{Bed, Spec},
    fleet,
    scene::Scene,
    suite, tests,
};

use self::propagation::{
    arrival::*, deletion::*, dependencies::*, drift::*, kinds::*, never::*, overrides::*, ownership::*,
    placement::*, priority::*, replicas::*, scenarios::*, status::*, strip::*,
};

/// As many tests at a time: they mostly wait.
const AT_A_TIME: usize = 6;

static REGISTERED: OnceCell<()> = OnceCell::const_new();

/// A scene in a namespace of its own, on a hub whose members are ready.
pub(crate) async fn scene(bed: &Arc<Bed>, namespace: &str) -> Result<Scene> {
    REGISTERED.get_or_try_init(|| fleet::register_all(bed)).await?;
    Scene::open(bed, namespace).await
}

fn main() -> ExitCode {
    suite::run_at_a_time(
        AT_A_TIME,
        Spec::api(3),
        tests![
            a_changed_template_changes_its_copies,
            a_namespace_is_made_with_the_labels_that_it_has_on_the_hub,
            a_namespace_that_is_not_to_be_propagated_is_not_made,
            an_object_of_the_whole_cluster_arrives,
            the_manifests_of_the_introduction_arrive_in_exactly_the_named_members,
            //
            a_copied_crd_is_let_go_and_not_deleted,
            a_copied_crd_is_deleted_where_its_policy_asks_for_it,
            a_copied_namespace_is_let_go_and_not_deleted,
            a_copy_that_lost_our_label_goes_with_its_template_all_the_same,
            a_crd_is_never_written_over_a_newer_one,
            a_policy_that_asks_for_it_takes_its_copies_along,
            copies_that_are_to_be_preserved_outlive_their_template,
            copies_that_are_to_be_preserved_outlive_their_template_and_policy_together,
            what_a_policy_says_of_deletion_counts_though_it_never_reached_the_member,
            policy_and_template_deleted_together_leave_nothing,
            without_its_policy_a_copy_stays_follows_its_template_and_goes_with_it,
            //
            what_a_workload_names_goes_along_and_goes_when_it_is_no_longer_named,
            what_a_workload_names_follows_it_to_another_member,
            what_a_policy_of_its_own_places_does_not_go_with_a_workload,
            what_a_preserved_workload_names_is_preserved_with_it,
            //
            a_changed_copy_is_put_right,
            a_deleted_copy_is_made_again,
            a_fight_is_slowed_down_counted_and_reported,
            a_removed_label_of_ours_is_put_back,
            fields_of_others_stay,
            //
            a_custom_kind_and_its_objects_converge_when_they_come_together,
            a_kind_is_followed_in_another_version_when_that_which_was_watched_is_no_longer_served,
            a_kind_that_a_member_lacks_is_said_and_sent_when_it_comes,
            a_kind_that_nobody_selects_and_nobody_holds_is_no_longer_watched,
            a_member_gets_objects_in_a_version_that_it_serves,
            no_object_is_deleted_because_its_kind_was_deleted_and_made_again_on_the_hub,
            //
            what_every_cluster_makes_by_itself_is_never_sent,
            what_a_controller_owns_is_never_sent,
            //
            an_override_may_not_change_what_an_object_is,
            an_override_that_cannot_be_applied_is_said,
            overrides_change_labels_annotations_images_and_fields_per_cluster,
            overrides_hold_from_when_they_come_until_they_go,
            what_waits_for_an_override_is_sent_when_it_is_there,
            //
            a_child_that_inherited_our_marks_is_not_touched,
            a_clone_with_our_marks_is_not_touched,
            a_template_that_says_so_itself_overwrites_what_is_there,
            a_different_object_is_taken_where_conflicts_overwrite,
            a_different_object_stays_where_conflicts_abort_and_it_is_said_why,
            an_equal_object_of_a_user_is_kept_current_and_survives_shrinking,
            an_equal_object_of_a_user_survives_the_deletion_of_its_template,
            //
            placements_grow_shrink_and_move,
            a_suspended_policy_sends_nothing_until_it_is_resumed,
            a_policy_is_suspended_for_single_clusters,
            labels_of_clusters_decide_and_may_change,
            the_first_group_of_clusters_that_fits_is_taken,
            spreading_takes_as_many_clusters_as_asked_for,
            //
            a_name_counts_more_than_a_label_and_a_label_more_than_all,
            a_namespaced_policy_counts_more_than_one_of_the_whole_hub,
            a_higher_priority_wins,
            a_template_that_no_longer_matches_keeps_its_copies,
            what_a_policy_no_longer_selects_stays_and_what_it_selects_now_arrives,
            //
            replicas_that_an_autoscaler_set_stay,
            replicas_that_are_to_be_retained_stay,
            replicas_are_divided_by_weight_and_divided_again,
            //
            roles_bindings_and_pods_arrive_and_go_with_their_templates,
            a_policy_may_have_a_name_that_is_too_long_for_a_label,
            what_a_workload_names_comes_and_goes_as_propagate_deps_is_switched,
            a_placement_switches_between_one_group_of_clusters_and_several,
            provider_region_and_zones_of_clusters_decide_and_may_change,
            an_empty_suspension_resumes_a_policy,
            of_cluster_wide_policies_a_name_counts_more_than_a_label_and_a_label_more_than_all,
            what_a_cluster_wide_policy_no_longer_selects_stays_and_what_it_selects_now_arrives,
            a_cluster_role_moves_with_its_policy_outlives_it_and_follows_the_next,
            an_override_points_at_the_image_of_one_container,
            the_images_of_a_pod_are_overridden_in_all_its_containers,
            an_override_policy_without_selectors_changes_everything_of_its_namespace_and_nothing_else,
            a_cluster_wide_override_changes_the_labels_of_a_namespace,
            documents_in_a_config_map_are_overridden_as_json_and_as_yaml,
            without_weights_replicas_are_divided_evenly,
            completions_of_a_job_are_divided_with_its_parallelism,
            //
            a_failure_is_said_in_the_members_own_words_and_once,
            a_policy_says_where_its_objects_are,
            one_object_that_a_member_refuses_does_not_cut_it_off,
            //
            a_template_with_owners_and_finalizers_leaves_no_loop_and_no_stuck_copy,
            addresses_and_node_ports_of_a_service_are_each_clusters_own,
            the_selector_of_a_job_is_each_clusters_own,
            the_volume_of_a_claim_is_each_clusters_own,
        ],
    )
}
