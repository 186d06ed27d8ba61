//! Tombolo's own certificate authority for the webhook: makes authorities and serving certificates.

use std::net::IpAddr;

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD as BASE64};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::decide::rotation::Validity;

/// What the common name of our authorities begins with; their number follows.
const NAME: &str = "tombolo-webhook-";

/// An authority with its key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, as PEM.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
}

/// A serving certificate with its chain and key, as PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub chain: String,
    /// Its key.
    pub key: String,
}

/// Under which names and addresses the webhook is called.
#[derive(Debug, Clone)]
pub struct Names(Vec<SanType>);

/// What a certificate says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The number of the authority that issued it; an authority's own number for itself. Numbers count up.
    pub issuer: u64,
    /// When it is valid.
    pub validity: Validity,
}

// === impl Names ===

impl Names {
    /// A host name or an address.
    pub fn of_host(host: &str) -> Result<Self> {
        Self::of_hosts(&[host])
    }

    /// Host names and addresses.
    pub fn of_hosts(hosts: &[impl AsRef<str>]) -> Result<Self> {
        let name = |host: &str| {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            Ok(match bare.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => {
                    SanType::DnsName(bare.try_into().with_context(|| format!("{host:?} is no host name"))?)
                }
            })
        };
        hosts.iter().map(|host| name(host.as_ref())).collect::<Result<_>>().map(Self)
    }

    /// The names of a Service inside its cluster.
    pub fn of_service(namespace: &str, name: &str) -> Result<Self> {
        let short = format!("{name}.{namespace}.svc");
        let mut names = Vec::new();
        for name in [format!("{short}.cluster.local"), short] {
            names.push(SanType::DnsName(name.try_into().context("a Service has a legal name")?));
        }
        Ok(Self(names))
    }
}

// === impl Authority ===

impl Authority {
    /// Makes a new authority.
    pub fn new(number: u64, from: i64, until: i64) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{NAME}{number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        dated(&mut params, from, until)?;
        let key = KeyPair::generate().context("failed to make a key")?;
        let certificate = params.self_signed(&key).context("failed to sign an authority")?.pem();
        let text = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate, key: text })
    }

    /// Restores an authority that was kept.
    pub fn restore(certificate: &str, key: &str) -> Result<Self> {
        let pair = KeyPair::from_pem(key).context("failed to read the authority's key")?;
        let issuer = Issuer::from_ca_cert_pem(certificate, pair).context("failed to read the authority")?;
        Ok(Self { issuer, certificate: certificate.to_owned(), key: key.to_owned() })
    }

    /// Issues a serving certificate.
    pub fn issue(&self, names: &Names, from: i64, until: i64) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tombolo-webhook");
        params.subject_alt_names.clone_from(&names.0);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        dated(&mut params, from, until)?;
        let key = KeyPair::generate().context("failed to make a key")?;
        let chain = params.signed_by(&key, &self.issuer).context("failed to sign a certificate")?.pem();
        Ok(Pair { chain, key: key.serialize_pem() })
    }
}

/// What the first certificate of a PEM text says of itself.
pub fn facts(pem: &str) -> Result<Facts> {
    let certificate =
        CertificateDer::from_pem_slice(pem.as_bytes()).context("failed to read a certificate")?;
    let (_, parsed) = X509Certificate::from_der(&certificate).context("failed to read a certificate")?;
    let name = parsed.issuer().iter_common_name().next().and_then(|name| name.as_str().ok());
    let issuer = name.and_then(|name| name.strip_prefix(NAME)?.parse().ok());
    let issuer = issuer.context("the certificate is not by one of Tombolo's authorities")?;
    let (from, until) = (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
    Ok(Facts { issuer, validity: Validity { from, until } })
}

/// A certificate as PEM.
pub fn pem(der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line)).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

fn dated(params: &mut CertificateParams, from: i64, until: i64) -> Result<()> {
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |seconds: i64| {
        let seconds = u64::try_from(seconds).context("a time before 1970")?;
        Ok::<_, anyhow::Error>(epoch + std::time::Duration::from_secs(seconds))
    };
    (params.not_before, params.not_after) = (at(from)?, at(until)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_written_as_pem_is_read_as_it_was() {
        let certificate = Authority::new(7, 1_000, 2_000).unwrap().certificate;
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        assert_eq!(CertificateDer::from_pem_slice(pem(&der).as_bytes()).unwrap(), der);
    }

    #[test]
    fn a_restored_authority_issues_what_the_first_one_would() {
        let first = Authority::new(7, 1_000, 2_000).unwrap();
        assert_eq!(
            facts(&first.certificate).unwrap(),
            Facts { issuer: 7, validity: Validity { from: 1_000, until: 2_000 } }
        );
        let restored = Authority::restore(&first.certificate, &first.key).unwrap();
        let pair = restored
            .issue(&Names::of_service("tombolo-system", "tombolo-hub").unwrap(), 1_100, 1_500)
            .unwrap();
        assert_eq!(
            facts(&pair.chain).unwrap(),
            Facts { issuer: 7, validity: Validity { from: 1_100, until: 1_500 } }
        );
    }
}
