//! Who may become a member and who may not, and why.

use super::*;

fn cluster(name: &str, id: Option<&str>) -> Cluster {
    let mut cluster = Cluster::new(name, crate::api::cluster::ClusterSpec::default());
    cluster.spec.id = id.map(str::to_owned);
    cluster
}

fn found() -> Found {
    Found {
        hub_uid: "h".to_owned(),
        member_uid: "m".to_owned(),
        hub_id: Some("ours".into()),
        clusters: vec![cluster("east", Some("e")), cluster("west", None)],
        ..Found::default()
    }
}

fn marked(hub: &str, cluster: &str) -> Option<Marker> {
    Some(Marker { hub: hub.to_owned(), cluster: cluster.to_owned(), id: None })
}

fn said(name: &str, found: &Found) -> String {
    refusal(&name.parse().unwrap(), false, found).unwrap_or_default()
}

#[test]
fn a_cluster_that_nobody_has_may_join_and_join_again() {
    assert_eq!(said("north", &found()), "");
    let mut again = found();
    again.clusters.push(cluster("north", Some("m")));
    again.marker = marked("ours", "north");
    let mut secret = Secret::default();
    secret.labels_mut().insert(label::MEMBER.to_owned(), "north".to_owned());
    again.secret = Some(secret);
    assert_eq!(said("north", &again), "");
    again.property = Some("renamed".to_owned());
    assert_eq!(said("north", &again), "", "it got a ClusterProperty after it had joined");
}

#[test]
fn a_cluster_whose_property_is_gone_is_still_known_by_the_id_that_it_joined_by() {
    let mut again = found();
    again.clusters.push(cluster("north", Some("blue")));
    assert!(said("north", &again).contains("is another cluster (spec.id blue, this one is m)"));
    again.marker = marked("ours", "north").map(|marker| Marker { id: Some("blue".to_owned()), ..marker });
    assert_eq!(said("north", &again), "");
    assert_eq!(again.id(), "blue");
}

#[test]
fn an_id_that_is_no_dns_name_is_refused_in_a_sentence() {
    for id in ["Blue", "a b", &"a".repeat(128)] {
        let said = said("north", &Found { property: Some(id.to_owned()), ..found() });
        assert!(said.starts_with("its ClusterProperty cluster.clusterset.k8s.io says "), "{said}");
        assert!(said.contains("such as m, of less than 128 characters; correct it"), "{said}");
    }
    assert_eq!(said("north", &Found { property: Some("eu-1.blue".to_owned()), ..found() }), "");
}

#[test]
fn the_hub_is_not_its_own_member() {
    let found = Found { member_uid: "h".to_owned(), ..found() };
    assert!(said("north", &found).starts_with("this is the hub itself"));
}

#[test]
fn a_cluster_is_a_member_once_by_its_id_its_property_or_its_mark() {
    let by_id = Found { member_uid: "e".to_owned(), ..found() };
    let by_property = Found { property: Some("e".to_owned()), ..found() };
    let by_mark = Found { marker: marked("ours", "west"), ..found() };
    for (found, other) in [(by_id, "east"), (by_property, "east"), (by_mark, "west")] {
        let said = said("north", &found);
        assert!(said.contains(&format!("already, as {other};")), "{said}");
    }
    let given_up = Found { marker: marked("ours", "gone"), ..found() };
    assert_eq!(said("north", &given_up), "", "its Cluster is gone");
}

#[test]
fn a_name_that_another_cluster_has_is_not_given_twice() {
    assert!(
        said("east", &found())
            .starts_with("Cluster east on the hub is another cluster (spec.id e, this one is m)")
    );
    assert_eq!(said("west", &found()), "", "it was written by hand, without an id");
    let mut going = found();
    going.clusters[1].metadata.deletion_timestamp =
        Some(serde_json::from_str("\"2026-11-16T08:00:00Z\"").unwrap());
    assert!(said("west", &going).starts_with("Cluster west is being deleted"));
}

#[test]
fn a_member_of_another_hub_is_taken_over_only_if_one_says_so() {
    let theirs = Found { marker: marked("theirs", "north"), ..found() };
    assert!(
        said("north", &theirs).starts_with("this cluster is a member of another hub (id theirs), as north;")
    );
    assert_eq!(refusal(&"north".parse().unwrap(), true, &theirs), None);
    let new_hub = Found { hub_id: None, ..theirs };
    assert!(said("north", &new_hub).contains("another hub"), "a hub without an id has no members");
}

#[test]
fn two_controllers_of_one_api_are_refused_with_the_way_out() {
    let found =
        Found { controllers: vec![("X (Deployment a/b)".to_owned(), "turn it off".to_owned())], ..found() };
    let said = said("north", &found);
    assert!(said.starts_with("X (Deployment a/b) serves") && said.ends_with("turn it off"), "{said}");
}

#[test]
fn a_secret_of_somebody_else_is_not_written_over() {
    let mut secret = Secret::default();
    secret.metadata.namespace = Some("tombolo-system".to_owned());
    secret.metadata.name = Some("north".to_owned());
    let mut found = Found { secret: Some(secret), ..found() };
    assert!(said("north", &found).starts_with("Secret tombolo-system/north on the hub is not one"));
    let mut by_hand = cluster("north", None);
    by_hand.spec.secret_ref = Some(crate::api::cluster::SecretReference {
        namespace: "tombolo-system".to_owned(),
        name: "north".to_owned(),
    });
    found.clusters.push(by_hand);
    assert_eq!(said("north", &found), "", "its Cluster names it");
}
