//! The admission webhook: HTTPS, certificates and the configurations that bring requests here. What is answered is decided in
//! [`decide::admit`](crate::decide::admit).
//!
//! Start at [`server`]; [`rotation`] and [`files`] keep the certificates that [`tls`] shows.

pub mod authority;
pub mod configuration;
pub mod files;
pub mod review;
pub mod rotation;
pub mod server;
pub mod tls;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{Api, Client, api::PostParams};
use tokio_util::sync::CancellationToken;

use self::{configuration::Address, files::Files, rotation::Keeper, server::SharedView, tls::Serving};
use crate::{
    decide::rotation::Lifetimes,
    shell::{health::Readiness, metrics},
};

/// Flags of the webhook.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Where the webhook listens.
    #[arg(long, default_value = "[::]:9443", value_name = "ADDRESS:PORT")]
    webhook_address: SocketAddr,
    /// How API servers reach the webhook where the hub runs outside their cluster, such as https://10.0.0.1:9443; the same
    /// for all replicas.
    #[arg(long, value_name = "URL", conflicts_with = "webhook_service")]
    webhook_url: Option<String>,
    /// The Service by which API servers reach the webhook, in Tombolo's own namespace.
    #[arg(long, value_name = "NAME", default_value = "tombolo-hub")]
    webhook_service: String,
    /// A serving certificate of your own, with its chain; it is read again when it changes.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key_file", "webhook_ca_file"])]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// The authorities that API servers verify that certificate with.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    webhook_ca_file: Option<PathBuf>,
    /// How long Tombolo's own serving certificates live, in seconds; renewed after two thirds.
    #[arg(long, value_name = "SECONDS", default_value_t = 90 * 86_400, value_parser = clap::value_parser!(i64).range(30..))]
    webhook_certificate_lifetime: i64,
    /// How long Tombolo's own authorities live, in seconds; renewed after two thirds.
    #[arg(long, value_name = "SECONDS", default_value_t = 730 * 86_400, value_parser = clap::value_parser!(i64).range(60..))]
    webhook_authority_lifetime: i64,
    /// How long API servers and replicas may take to notice a new authority, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(i64).range(5..))]
    webhook_overlap: i64,
}

// === impl Args ===

impl Args {
    /// Serves the webhook until told to stop, with certificates of its own or brought ones.
    pub async fn run(
        self,
        client: &Client,
        namespace: &str,
        view: SharedView,
        readiness: &Readiness,
        metrics: &metrics::Webhook,
        stop: CancellationToken,
    ) -> Result<()> {
        let lifetimes = Lifetimes {
            authority: self.webhook_authority_lifetime,
            serving: self.webhook_certificate_lifetime,
            overlap: self.webhook_overlap,
        };
        if let Some(fault) = lifetimes.fault() {
            anyhow::bail!(
                "--webhook-certificate-lifetime, --webhook-authority-lifetime, --webhook-overlap: {fault}"
            );
        }
        let serving = Arc::new(Serving::new(metrics.clone()));
        let part = readiness.part("webhook certificate");
        let address = match &self.webhook_url {
            Some(url) => Address::Url(url.clone()),
            None => Address::Service {
                namespace: namespace.to_owned(),
                name: self.webhook_service.clone(),
                port: 443,
            },
        };
        let Some(user) = stop.run_until_cancelled(whoami(client)).await.transpose()? else { return Ok(()) };
        let certificates = async {
            match (&self.tls_cert_file, &self.tls_key_file, &self.webhook_ca_file) {
                (Some(certificate), Some(key), Some(authorities)) => {
                    let [certificate, key, authorities] = [certificate, key, authorities].map(Clone::clone);
                    let files = Files { certificate, key, authorities };
                    files.run(client, &address, &user, &serving, &part, &stop).await;
                }
                _ => {
                    let keeper = Keeper {
                        client: client.clone(),
                        namespace: namespace.to_owned(),
                        address: address.clone(),
                        user: user.clone(),
                        lifetimes,
                        serving: serving.clone(),
                    };
                    keeper.run(&part, &stop).await;
                }
            }
            Ok(())
        };
        let served =
            server::serve(self.webhook_address, serving.clone(), view, metrics.clone(), stop.clone());
        tokio::try_join!(certificates, served).map(drop)
    }
}

/// Who we are to the API server, so that what we write does not pass through our own webhook.
async fn whoami(client: &Client) -> Result<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    loop {
        match reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(review) => {
                let user = review.status.and_then(|status| status.user_info).and_then(|user| user.username);
                return user.context("the API server does not know who we are");
            }
            Err(e) => tracing::warn!("failed to ask the API server who we are, trying again: {e:#}"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
