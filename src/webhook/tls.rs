//! The certificate that the webhook shows, exchanged while it serves.
//!
//! [`Serving`] is what rustls asks at every handshake. What replaces its certificate is checked first: one that is garbage, does
//! not fit its key or has expired is refused, and the old one stays.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::shell::metrics;

/// Why a certificate and key cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum BadPair {
    /// The certificate file holds none, or not in PEM.
    #[error("failed to read the certificate: {0}")]
    Certificate(String),
    /// The key file holds none, or not in PEM.
    #[error("failed to read the private key: {0}")]
    Key(String),
    /// The two do not belong together.
    #[error("the certificate and the private key do not belong together: {0}")]
    Mismatch(#[source] rustls::Error),
    /// It is of no use any more.
    #[error("the certificate expired at {until} (seconds since 1970), and it is {now}")]
    Expired {
        /// The end of its life.
        until: i64,
        /// The time of the check.
        now: i64,
    },
}

/// A certificate with its key, checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    key: Arc<CertifiedKey>,
    /// The beginning of its life, in seconds since 1970.
    pub from: i64,
    /// The end of its life, in seconds since 1970.
    pub until: i64,
}

/// What is shown at handshakes; nothing at first.
pub struct Serving {
    current: ArcSwapOption<Loaded>,
    metrics: metrics::Webhook,
}

// === impl Loaded ===

impl Loaded {
    /// Reads a chain and its key, and makes sure that they can serve now.
    pub fn new(chain: &[u8], key: &[u8], now: i64) -> Result<Self, BadPair> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|e| BadPair::Certificate(e.to_string()))?;
        let first = chain.first().ok_or_else(|| BadPair::Certificate("there is none in it".to_owned()))?;
        let (_, parsed) =
            X509Certificate::from_der(first).map_err(|e| BadPair::Certificate(e.to_string()))?;
        let (from, until) =
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| BadPair::Key(e.to_string()))?;
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(BadPair::Mismatch)?;
        if until <= now {
            return Err(BadPair::Expired { until, now });
        }
        Ok(Self { key: Arc::new(key), from, until })
    }

    /// Whether it shows the same certificate as another.
    pub fn same_as(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

// === impl Serving ===

impl Serving {
    /// Shows nothing yet; says in metrics until when it will do.
    pub fn new(metrics: metrics::Webhook) -> Self {
        Self { current: ArcSwapOption::empty(), metrics }
    }

    /// Notes that what should be shown next is of no use.
    pub fn failed(&self) {
        self.metrics.certificate_failed();
    }

    /// The certificate that is shown now.
    pub fn current(&self) -> Option<Arc<Loaded>> {
        self.current.load_full()
    }

    /// Shows another certificate from the next handshake on. Gives back whether that is a change.
    pub fn replace(&self, loaded: Loaded) -> bool {
        let news = self.current.load().as_ref().is_none_or(|current| !current.same_as(&loaded));
        if news {
            tracing::info!(until = loaded.until, "webhook certificate in use");
            self.metrics.certificate(loaded.from, loaded.until);
            self.current.store(Some(Arc::new(loaded)));
        }
        news
    }

    /// The server's side of TLS with whatever certificate is current.
    pub fn config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load().as_ref().map(|loaded| loaded.key.clone())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = self.current.load().as_ref().map(|loaded| loaded.until);
        f.debug_struct("Serving").field("until", &until).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::authority::{Authority, Names};

    const NOW: i64 = 1_800_000_000;

    fn pair(until: i64) -> (Vec<u8>, Vec<u8>) {
        let authority = Authority::new(1, NOW - 100, NOW + 1000).unwrap();
        let pair = authority.issue(&Names::of_host("localhost").unwrap(), NOW - 50, until).unwrap();
        (pair.chain.into_bytes(), pair.key.into_bytes())
    }

    #[test]
    fn a_pair_that_fits_and_lives_is_taken() {
        let (chain, key) = pair(NOW + 500);
        let loaded = Loaded::new(&chain, &key, NOW).unwrap();
        assert_eq!((loaded.from, loaded.until), (NOW - 50, NOW + 500));
    }

    #[test]
    fn what_cannot_serve_is_refused_and_what_served_stays() {
        let (chain, key) = pair(NOW + 500);
        let (other, other_key) = pair(NOW + 600);
        let serving = Serving::new(crate::shell::metrics::Metrics::default().webhook);
        assert!(serving.replace(Loaded::new(&chain, &key, NOW).unwrap()));
        for (chain, key, now, complaint) in [
            (&b"garbage"[..], &key[..], NOW, "failed to read the certificate"),
            (&chain, b"garbage", NOW, "failed to read the private key"),
            (&chain, &other_key, NOW, "do not belong together"),
            (&other, &key, NOW, "do not belong together"),
            (&chain, &key, NOW + 501, "expired"),
        ] {
            let refused = Loaded::new(chain, key, now).unwrap_err().to_string();
            assert!(refused.contains(complaint), "{refused} should say {complaint}");
        }
        assert_eq!(serving.current().unwrap().until, NOW + 500);
    }

    #[test]
    fn the_same_certificate_again_is_no_news() {
        let (chain, key) = pair(NOW + 500);
        let serving = Serving::new(crate::shell::metrics::Metrics::default().webhook);
        assert!(serving.replace(Loaded::new(&chain, &key, NOW).unwrap()));
        assert!(!serving.replace(Loaded::new(&chain, &key, NOW).unwrap()));
        let (chain, key) = pair(NOW + 700);
        assert!(serving.replace(Loaded::new(&chain, &key, NOW).unwrap()));
    }
}
