//! The way into a member, from Clusters and Secrets as users write them.

use k8s_openapi::ByteString;

use super::*;
use crate::webhook::authority::Authority;

const LINK: &str = "apiEndpoint: 'https://10.0.0.1:6443', secretRef: {namespace: anywhere, name: any}";

fn cluster(spec: &str) -> Cluster {
    let text =
        format!("{{metadata: {{name: member1}}, spec: {{syncMode: Push, {}}}}}", spec.replace("LINK", LINK));
    serde_saphyr::from_str(&text).unwrap()
}

fn secret(keys: &[(&str, &str)]) -> Secret {
    let data = keys.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret { data: Some(data.collect()), ..Secret::default() }
}

fn refusal(spec: &str, keys: &[(&str, &str)]) -> String {
    config_of(&cluster(spec), &secret(keys)).unwrap_err().to_string()
}

#[test]
fn karmadas_own_secret_gives_a_way_in() {
    let authorities = [1, 2].map(|n| Authority::new(n, 0, 1_000_000).unwrap().certificate).concat();
    let config =
        config_of(&cluster("LINK"), &secret(&[("token", "abc\n"), ("caBundle", &authorities)])).unwrap();
    assert_eq!(config.cluster_url, "https://10.0.0.1:6443");
    assert_eq!(config.root_cert.unwrap().len(), 2);
    assert!(!config.accept_invalid_certs && !config.default_retry);
    let shown = serde_json::to_value(&config.auth_info).unwrap();
    assert_eq!(shown["token"], "abc");
}

#[test]
fn without_authorities_those_of_the_machine_are_asked_and_none_if_told_so() {
    let config = config_of(&cluster("LINK"), &secret(&[("token", "abc")])).unwrap();
    assert!(config.root_cert.is_none() && !config.accept_invalid_certs);
    let spec = "LINK, insecureSkipTLSVerification: true, proxyURL: 'http://proxy:3128'";
    let config = config_of(&cluster(spec), &secret(&[("token", "abc"), ("caBundle", "junk")])).unwrap();
    assert!(config.root_cert.is_none() && config.accept_invalid_certs);
    assert_eq!(config.proxy_url.unwrap(), "http://proxy:3128/");
}

#[test]
fn what_is_wrong_is_named_with_its_secret_and_key() {
    for (keys, said) in [
        (&[][..], "key token: is missing or empty"),
        (&[("Token", "abc"), ("ca", "x")], "key token: is missing or empty; it has Token, ca"),
        (&[("token", " \n")], "key token: is missing or empty; it has token"),
        (&[("token", "a\nb")], "key token: is no token: it has characters that a header cannot have"),
        (&[("token", "abc"), ("ca.crt", "x")], "key caBundle: is missing; it has ca.crt, token"),
        (&[("token", "abc"), ("caBundle", "x")], "key caBundle: holds no certificate: it must be PEM"),
    ] {
        assert_eq!(refusal("LINK", keys), format!("Secret anywhere/any of Cluster member1, {said}"));
    }
    let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
    assert!(
        refusal("LINK", &[("token", "abc"), ("caBundle", broken)]).contains("key caBundle: is not PEM: ")
    );
}

#[test]
fn what_is_wrong_with_a_cluster_is_named_by_its_field() {
    for (spec, said) in [
        (
            "apiEndpoint: 'https://a'",
            "spec.secretRef: is missing: namespace and name of the Secret that holds token and caBundle",
        ),
        ("secretRef: {namespace: a, name: b}", "spec.apiEndpoint: is missing: the URL of its API server"),
        (
            "apiEndpoint: 'http://a', secretRef: {namespace: a, name: b}",
            "spec.apiEndpoint: \"http://a\" must begin with https:// and name a host",
        ),
        ("LINK, proxyURL: 'a b'", "spec.proxyURL: \"a b\" is no URL"),
    ] {
        assert_eq!(refusal(spec, &[("token", "abc")]), format!("Cluster member1: {said}"));
    }
    let pull: Cluster =
        serde_saphyr::from_str("{metadata: {name: member1}, spec: {syncMode: Pull}}").unwrap();
    let said = config_of(&pull, &Secret::default()).unwrap_err().to_string();
    assert_eq!(said, "Cluster member1: spec.syncMode: must be Push: Tombolo writes to members itself");
}
