//! What joining writes to the hub, the first time and again.

use super::*;
use crate::membership::join::Agent;

fn request() -> Request {
    Request {
        name: "north".parse().unwrap(),
        labels: [("tier".to_owned(), "prod".to_owned())].into(),
        provider: Some("metal".to_owned()),
        region: Some("eu".to_owned()),
        zones: vec!["a".to_owned(), "b".to_owned()],
        api_endpoint: None,
        grant: None,
        skip_crds: false,
        take_over: false,
        agent: Agent::None,
        agent_image: String::new(),
        hub_namespace: "tombolo-system".to_owned(),
    }
}

fn found(clusters: Vec<Cluster>) -> Found {
    let pods = ["10.1.0.0/16".parse().unwrap(), "fd00::/48".parse().unwrap()];
    Found { member_uid: "m".to_owned(), clusters, pods: pods.to_vec(), ..Found::default() }
}

fn way() -> Config {
    Config::new("https://10.0.0.1:6443".parse().unwrap())
}

#[test]
fn a_cluster_has_what_was_asked_for() {
    let (request, found, way) = (request(), found(Vec::new()), way());
    let cluster = Wanted { request: &request, found: &found, way: &way }.cluster();
    let yaml = "
metadata:
  name: north
  labels: {tier: prod}
  annotations: {tombolo.dev/pod-cidrs: '10.1.0.0/16,fd00::/48'}
  finalizers: [tombolo.dev/member]
spec:
  id: m
  syncMode: Push
  apiEndpoint: https://10.0.0.1:6443
  secretRef: {namespace: tombolo-system, name: north}
  provider: metal
  region: eu
  zones: [a, b]
";
    assert_eq!(cluster, serde_saphyr::from_str(yaml).unwrap());
}

#[test]
fn joining_again_keeps_what_is_not_asked_for() {
    let (first, nobody, way) = (request(), found(Vec::new()), way());
    let mut cluster = Wanted { request: &first, found: &nobody, way: &way }.cluster();
    cluster.labels_mut().insert("team".to_owned(), "a".to_owned());
    cluster.spec.id = Some("property".to_owned());
    let again = found(vec![cluster.clone()]);
    assert_eq!(Wanted { request: &first, found: &again, way: &way }.cluster(), cluster);
    let bare = Request { labels: [].into(), provider: None, region: None, zones: Vec::new(), ..first };
    assert_eq!(Wanted { request: &bare, found: &again, way: &way }.cluster(), cluster);
    let unknown = Found { pods: Vec::new(), ..again };
    assert_eq!(Wanted { request: &bare, found: &unknown, way: &way }.cluster(), cluster, "its ranges stay");
}

#[test]
fn a_secret_goes_with_its_cluster() {
    let (request, found, way) = (request(), found(Vec::new()), way());
    let wanted = Wanted { request: &request, found: &found, way: &way };
    let credentials = Credentials { token: "t".to_owned(), authorities: None };
    let first = wanted.secret(None, &credentials, None);
    assert_eq!(first.metadata.owner_references, None);
    assert_eq!(first.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["token"]);
    let owned = wanted.secret(Some(&first), &credentials, Some("u"));
    assert_eq!(owned.owner_references()[0].uid, "u");
    assert_eq!(owned.owner_references()[0].api_version, "cluster.karmada.io/v1alpha1");
    assert_eq!(wanted.secret(Some(&owned), &credentials, Some("u")), owned);
}

#[test]
fn an_account_is_proven_by_the_way_that_the_hub_goes() {
    let (mut request, found, mut way) = (request(), found(Vec::new()), way());
    way.tls_server_name = Some("inside".to_owned());
    way.proxy_url = Some("http://10.0.0.9:3128".parse().unwrap());
    let credentials = Credentials { token: "t".to_owned(), authorities: None };
    let wanted = Wanted { request: &request, found: &found, way: &way };
    let config = wanted.proof(&credentials).unwrap();
    assert_eq!((config.tls_server_name, config.proxy_url), (None, None), "a Cluster has no place for them");
    assert!(wanted.in_vain().contains("without the tls-server-name and proxy-url"), "{}", wanted.in_vain());

    request.api_endpoint = Some("https://member.internal".to_owned());
    let wanted = Wanted { request: &request, found: &found, way: &way };
    assert_eq!(wanted.proof(&credentials).unwrap().tls_server_name.as_deref(), Some("inside"));
    assert_eq!(wanted.in_vain(), "the account's token does not work");
}
