//! The hub's webhook: is the API server told to ask it, by whom does it know it, and how long do certificates last?

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    core::v1::Secret,
};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use x509_parser::pem::Pem;

use super::{Finding, Look};
use crate::{
    decide::rotation::Validity,
    shell::clock,
    webhook::{configuration, rotation},
};

/// What ends sooner is told: Tombolo renews its own much earlier.
const SOON: i64 = 7 * 24 * 3600;
/// The Secret that cert-manager keeps the certificate in, by the chart.
const OF_CERT_MANAGER: &str = "tombolo-hub-tls";
const MISSING: &str = "`helm upgrade` of the hub's chart brings it back, and the hub fills it; a hub that may make it itself does so within \
                       seconds, or its log says why";
const EMPTY: &str = "the hub fills it within seconds while it runs; its log says why it does not";
const RENEW: &str = "the hub renews its own; certificates that you bring must be renewed by you";

/// A configuration of webhooks, of one of both kinds.
trait Configuration: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// How each of its webhooks is called.
    fn calls(&self) -> Vec<&WebhookClientConfig>;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn calls(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn calls(&self) -> Vec<&WebhookClientConfig> {
        self.webhooks.iter().flatten().map(|webhook| &webhook.client_config).collect()
    }
}

// === impl Look ===

impl Look<'_> {
    /// Whether the API server is told to ask the webhook, and by whom it knows it.
    pub(super) async fn webhooks(&self) -> Result<Vec<Finding>> {
        let mut found = Vec::new();
        for name in [configuration::NAME, configuration::POLICIES] {
            found.extend(self.configured::<ValidatingWebhookConfiguration>(name).await?);
            found.extend(self.configured::<MutatingWebhookConfiguration>(name).await?);
        }
        if found.is_empty() {
            found.push(Finding::well("webhook", "configured"));
        }
        Ok(found)
    }

    async fn configured<K: Configuration>(&self, name: &str) -> Result<Option<Finding>> {
        let api: Api<K> = Api::all(self.client.clone());
        let what = format!("{} {name}", K::kind(&()));
        let there = api.get_opt(name).await.with_context(|| format!("failed to read {what}"))?;
        Ok(judge(&what, there.as_ref(), clock::seconds()))
    }

    /// Whether the hub keeps its certificates itself. It may have done so once, and now others are brought: then the API server knows the
    /// webhook by these.
    pub(super) async fn keeps_certificates(&self) -> Result<bool> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        let own = match secrets.get_opt(rotation::SECRET).await {
            Err(kube::Error::Api(status)) if status.is_forbidden() => None,
            secret => secret.with_context(|| format!("failed to read Secret {}", rotation::SECRET))?,
        };
        let own = own.map(|secret| secret.data.unwrap_or_default().remove("ca.crt").unwrap_or_default());
        let Some(own) = own else { return Ok(false) };
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let there = configurations.get_opt(configuration::NAME).await;
        let there =
            there.with_context(|| format!("failed to read the configuration {}", configuration::NAME))?;
        Ok(is_known_by(there.as_ref(), &own.0))
    }

    /// How long the certificate lasts that the webhook shows, where it is in a Secret that may be read.
    pub(super) async fn certificate(&self) -> Result<Vec<Finding>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        let mut lasting = Vec::new();
        for name in [rotation::SECRET, OF_CERT_MANAGER] {
            let secret = match secrets.get_opt(name).await {
                Err(kube::Error::Api(status)) if status.is_forbidden() => None,
                secret => secret.with_context(|| format!("failed to read Secret {name}"))?,
            };
            let data = secret.and_then(|secret| secret.data?.remove("tls.crt"));
            // Authorities in between may follow it.
            let first = data.and_then(|chain| validities(&chain.0).into_iter().next());
            lasting.extend(first.map(|validity| (validity, name)));
        }
        // Who changed from the one way to the other has both, and shows the one that is renewed.
        let shown = lasting.into_iter().max_by_key(|(validity, _)| validity.until);
        let told = shown.and_then(|(validity, name)| {
            ending(
                &format!("the webhook's certificate (Secret {}/{name})", self.namespace),
                validity,
                clock::seconds(),
            )
        });
        Ok(told.into_iter().collect())
    }
}

/// What is amiss with a configuration.
fn judge<K: Configuration>(what: &str, there: Option<&K>, now: i64) -> Option<Finding> {
    let Some(there) = there else {
        return Some(Finding::sick("webhook", format!("{what} is not there"), MISSING));
    };
    let calls = there.calls();
    if calls.is_empty() {
        return Some(Finding::sick("webhook", format!("{what} has no webhooks"), EMPTY));
    }
    // While authorities overlap, the newest is the one that goes on.
    let newest = |bundle: &[u8]| validities(bundle).into_iter().max_by_key(|validity| validity.until);
    let bundles = calls.iter().filter_map(|call| newest(&call.ca_bundle.as_ref()?.0));
    let first = bundles.min_by_key(|validity| validity.until)?;
    ending(&format!("{what}: its authority's certificate"), first, now)
}

/// Whether the API server knows the webhook by one of these authorities, or by none at all yet.
fn is_known_by<K: Configuration>(there: Option<&K>, authorities: &[u8]) -> bool {
    let all =
        |pem: &[u8]| Pem::iter_from_buffer(pem).filter_map(Result::ok).map(|pem| pem.contents).collect();
    let own: Vec<_> = all(authorities);
    let mut known =
        there.iter().flat_map(|there| there.calls()).filter_map(|call| call.ca_bundle.as_ref()).peekable();
    known.peek().is_none() || known.any(|bundle| all(&bundle.0).iter().any(|one| own.contains(one)))
}

/// How long the certificates of a PEM text are valid, in their order.
fn validities(pem: &[u8]) -> Vec<Validity> {
    let parsed = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let valid = parsed.filter_map(|pem| {
        let validity = pem.parse_x509().ok()?.validity().clone();
        Some(Validity { from: validity.not_before.timestamp(), until: validity.not_after.timestamp() })
    });
    valid.collect()
}

fn ending(what: &str, validity: Validity, now: i64) -> Option<Finding> {
    let Validity { from, until } = validity;
    // What does not live long is renewed late by its nature.
    let soon = SOON.min((until - from) / 6);
    match until - now {
        ..=0 => Some(Finding::sick("webhook", format!("{what} has ended"), RENEW)),
        left if left < soon => {
            let says = format!("{what} ends in {} hours", left / 3600);
            Some(Finding::doubtful("webhook", says, RENEW))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnose::Severity,
        webhook::authority::{Authority, Names},
    };

    const DAY: i64 = 24 * 3600;

    #[test]
    fn a_certificate_that_ends_is_told_in_time_by_how_long_it_lives() {
        let year = Validity { from: 0, until: 360 * DAY };
        assert_eq!(ending("it", year, 350 * DAY), None);
        assert_eq!(ending("it", year, 354 * DAY).unwrap().severity, Severity::Doubtful);
        assert_eq!(ending("it", year, 360 * DAY).unwrap().says, "it has ended");
        let days = Validity { from: 0, until: 6 * DAY };
        assert_eq!(ending("it", days, 4 * DAY), None);
        assert_eq!(ending("it", days, 5 * DAY + 3600).unwrap().says, "it ends in 23 hours");
    }

    #[test]
    fn a_configuration_has_to_be_there_with_webhooks_and_an_authority_that_lasts() {
        let judged = |there: Option<&MutatingWebhookConfiguration>| judge("it", there, 100 * DAY);
        let missing = judged(None).unwrap();
        assert!(
            missing.severity == Severity::Sick && missing.way_out.contains("helm upgrade"),
            "{missing:?}"
        );
        let mut there = MutatingWebhookConfiguration::default();
        assert_eq!(judged(Some(&there)).unwrap().says, "it has no webhooks");
        let authority = |number, until| Authority::new(number, 0, until).unwrap().certificate;
        let mut holds = |bundle: String| {
            let call = serde_json::json!({ "caBundle": k8s_openapi::ByteString(bundle.into_bytes()) });
            let webhook = serde_json::json!({ "name": "a.b.c", "clientConfig": call,
                "sideEffects": "None", "admissionReviewVersions": ["v1"] });
            there.webhooks = Some(vec![serde_json::from_value(webhook).unwrap()]);
            judged(Some(&there))
        };
        assert_eq!(holds(authority(1, 300 * DAY)), None);
        assert_eq!(
            holds(authority(1, 101 * DAY)).unwrap().says,
            "it: its authority's certificate ends in 24 hours"
        );
        // The old one may end, for another has taken its place.
        assert_eq!(holds(authority(1, 101 * DAY) + &authority(2, 300 * DAY)), None);
    }

    #[test]
    fn a_chain_is_as_good_as_its_first_certificate() {
        let authority = Authority::new(1, 0, 300 * DAY).unwrap();
        let pair = authority.issue(&Names::of_host("localhost").unwrap(), 0, 30 * DAY).unwrap();
        let chain = validities((pair.chain + &authority.certificate).as_bytes());
        assert_eq!(chain[0].until, 30 * DAY);
    }
}
