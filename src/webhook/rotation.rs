//! Keeps the webhook's certificates: in one Secret, the same for all replicas, made and rotated by whoever comes first.
//!
//! Every write carries the resourceVersion that was read, so replicas cannot undo each other's steps; who loses reads again.
//! The rules are in [`decide::rotation`](crate::decide::rotation).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt, api::PostParams, core::ObjectMeta};
use tokio_util::sync::CancellationToken;

use super::{
    authority::{Authority, facts},
    configuration::{self, Address},
    tls::{Loaded, Serving},
};
use crate::{
    decide::rotation::{Lifetimes, Material, Step, step},
    shell::{clock, health::Part},
};

/// The Secret that holds authorities, serving certificate and keys.
pub(crate) const SECRET: &str = "tombolo-webhook-certificates";
/// When the newest authority was written into both configurations: `<number>@<seconds>`.
const PUBLISHED: &str = "tombolo.dev/authority-published";
/// Before another try after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Steps in a row before something must be wrong.
const STEPS: usize = 10;

/// Keeps certificates for as long as the hub runs.
#[derive(Clone)]
pub struct Keeper {
    /// A client of the hub's API server.
    pub client: Client,
    /// Where the Secret is.
    pub namespace: String,
    /// How API servers reach the webhook.
    pub address: Address,
    /// Who we are to the API server.
    pub user: String,
    /// How long things live.
    pub lifetimes: Lifetimes,
    /// What is shown at handshakes.
    pub serving: Arc<Serving>,
}

// === impl Keeper ===

impl Keeper {
    /// Looks, steps and waits until told to stop.
    pub async fn run(self, part: &Part, stop: &CancellationToken) {
        loop {
            let pause = match self.settle().await {
                Ok(pause) => {
                    part.set(Ok(()));
                    pause.min(self.lifetimes.between_looks())
                }
                Err(e) => {
                    tracing::warn!("failed to keep the webhook's certificates, trying again: {e:#}");
                    self.serving.failed();
                    if self.serving.current().is_none() {
                        part.set(Err(format!("{e:#}")));
                    }
                    RETRY
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Does all steps that are due, and says how long there is nothing to do.
    async fn settle(&self) -> Result<Duration> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        for _ in 0..STEPS {
            let found =
                secrets.get_opt(SECRET).await.context("failed to read the Secret of the certificates")?;
            let mut secret = found.unwrap_or_default();
            let now = clock::seconds();
            let material = material(&secret)?;
            if let Err(e) = self.show(&secret, now) {
                // Whatever is wrong with it, the next step may be to replace it.
                tracing::warn!("failed to take the webhook's certificate, the old one stays: {e:#}");
                self.serving.failed();
            }
            if material.published.is_some() {
                configuration::ensure(&self.client, &self.address, text(&secret, "ca.crt")?, &self.user)
                    .await?;
            }
            match step(now, &material, self.lifetimes) {
                Step::Wait { until } => {
                    return Ok(Duration::from_secs(u64::try_from(until - now).unwrap_or_default().max(1)));
                }
                due => self.act(due, now, &material, &mut secret).await?,
            }
            self.save(&secrets, secret).await?;
        }
        anyhow::bail!("the certificates do not come to rest")
    }

    async fn act(&self, due: Step, now: i64, material: &Material, secret: &mut Secret) -> Result<()> {
        tracing::info!(step = ?due, "webhook certificates");
        match due {
            Step::Wait { .. } => {}
            Step::MakeAuthority => {
                let number = material.authorities.last().map_or(1, |(number, _)| number + 1);
                let authority = Authority::new(number, now, now + self.lifetimes.authority)?;
                let before = text(secret, "ca.crt").unwrap_or_default().to_owned();
                put(secret, "ca.crt", before + &authority.certificate);
                put(secret, "ca.key", authority.key);
            }
            Step::IssueServing { until } => {
                let authorities = certificates(text(secret, "ca.crt")?);
                let newest = authorities.last().context("an authority issues")?;
                let authority = Authority::restore(newest, text(secret, "ca.key")?)?;
                let pair = authority.issue(&self.address.names()?, now, until)?;
                put(secret, "tls.crt", pair.chain);
                put(secret, "tls.key", pair.key);
            }
            Step::Publish => {
                configuration::ensure(&self.client, &self.address, text(secret, "ca.crt")?, &self.user)
                    .await?;
                let (newest, _) = material.authorities.last().context("an authority is published")?;
                secret.annotations_mut().insert(PUBLISHED.to_owned(), format!("{newest}@{now}"));
            }
            Step::DropAuthorities => {
                let newest = certificates(text(secret, "ca.crt")?).pop().context("an authority stays")?;
                put(secret, "ca.crt", newest);
            }
        }
        Ok(())
    }

    /// Shows what the Secret holds from the next handshake on.
    fn show(&self, secret: &Secret, now: i64) -> Result<()> {
        let (Ok(chain), Ok(key)) = (text(secret, "tls.crt"), text(secret, "tls.key")) else { return Ok(()) };
        self.serving.replace(Loaded::new(chain.as_bytes(), key.as_bytes(), now)?);
        Ok(())
    }

    async fn save(&self, secrets: &Api<Secret>, mut secret: Secret) -> Result<()> {
        let params = PostParams { field_manager: Some("tombolo-hub".to_owned()), ..PostParams::default() };
        let saved = if secret.metadata.resource_version.is_some() {
            secrets.replace(SECRET, &params, &secret).await
        } else {
            secret.metadata = ObjectMeta { name: Some(SECRET.to_owned()), ..secret.metadata };
            secret.type_ = Some("Opaque".to_owned());
            secrets.create(&params, &secret).await
        };
        match saved {
            // Another replica was first: the next look sees what it did.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(()),
            saved => saved.map(drop).context("failed to write the Secret of the certificates"),
        }
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper")
            .field("address", &self.address)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// What a Secret holds, as far as the rules care.
fn material(secret: &Secret) -> Result<Material> {
    let mut material = Material::default();
    for certificate in text(secret, "ca.crt").map(certificates).unwrap_or_default() {
        let facts = facts(&certificate)?;
        material.authorities.push((facts.issuer, facts.validity));
    }
    if let Ok(chain) = text(secret, "tls.crt") {
        let facts = facts(chain)?;
        material.serving = Some((facts.issuer, facts.validity));
    }
    if let Some(noted) = secret.annotations().get(PUBLISHED) {
        let (number, since) =
            noted.split_once('@').context("the note of publication is not <number>@<seconds>")?;
        material.published = Some((number.parse()?, since.parse()?));
    }
    Ok(material)
}

fn text<'a>(secret: &'a Secret, key: &str) -> Result<&'a str> {
    let bytes =
        secret.data.as_ref().and_then(|data| data.get(key)).with_context(|| format!("{key} is missing"))?;
    std::str::from_utf8(&bytes.0).with_context(|| format!("{key} is no text"))
}

fn put(secret: &mut Secret, key: &str, value: String) {
    let data = secret.data.get_or_insert_with(BTreeMap::new);
    data.insert(key.to_owned(), ByteString(value.into_bytes()));
}

/// The certificates of a PEM text, one each.
fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    pem.split_inclusive(END)
        .filter(|part| part.contains(END))
        .map(|part| format!("{}\n", part.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_says_the_same_before_and_after_it_was_kept() {
        let (one, two) = (Authority::new(1, 100, 1_000).unwrap(), Authority::new(2, 700, 1_600).unwrap());
        let names = super::super::authority::Names::of_host("localhost").unwrap();
        let pair = one.issue(&names, 600, 900).unwrap();
        let mut secret = Secret::default();
        put(&mut secret, "ca.crt", one.certificate + &two.certificate);
        put(&mut secret, "tls.crt", pair.chain);
        secret.annotations_mut().insert(PUBLISHED.to_owned(), "1@101".to_owned());
        let material = material(&secret).unwrap();
        assert_eq!(material.authorities.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(material.serving.unwrap().0, 1);
        assert_eq!(material.published, Some((1, 101)));
    }
}
