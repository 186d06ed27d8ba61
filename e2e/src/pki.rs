//! Certificates: every cluster has an authority of its own, as real ones do.
//!
//! [`Authority::issue`] makes the key pairs of the components; keys are P-256 and live as long as a bed may.

use std::{
    fs,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate authority and the folder that its files are in.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's certificate, as PEM.
    pub certificate: String,
    folder: PathBuf,
}

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Path of the PEM certificate.
    pub cert: PathBuf,
    /// Path of the PEM key, readable by its owner only.
    pub key: PathBuf,
}

/// Whom a certificate speaks for: the user name and groups that Kubernetes reads from it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The user.
    pub user: &'a str,
    /// The group, if any.
    pub group: Option<&'a str>,
}

// === impl Authority ===

impl Authority {
    /// Makes a new authority and writes `<name>.crt` and `<name>.key` into the folder.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("failed to make a key")?;
        let certificate = params.self_signed(&key).context("failed to sign the authority")?.pem();
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        write(&folder.join(format!("{name}.crt")), &certificate)?;
        write(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
        Ok(Self { issuer: Issuer::new(params, key), certificate, folder: folder.to_owned() })
    }

    /// Path of the authority's own certificate and key.
    pub fn files(&self, name: &str) -> Pair {
        Pair { cert: self.folder.join(format!("{name}.crt")), key: self.folder.join(format!("{name}.key")) }
    }

    /// Issues a certificate that serves and calls, writes `<file>.crt` and `<file>.key`.
    pub fn issue(
        &self,
        file: &str,
        subject: Subject<'_>,
        names: &[&str],
        addresses: &[IpAddr],
    ) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished(subject.user, subject.group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        for name in names {
            params.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
        }
        params.subject_alt_names.extend(addresses.iter().copied().map(SanType::IpAddress));
        let key = KeyPair::generate().context("failed to make a key")?;
        let cert = params.signed_by(&key, &self.issuer).with_context(|| format!("failed to sign {file}"))?;
        let pair = self.files(file);
        write(&pair.cert, &cert.pem())?;
        write(&pair.key, &key.serialize_pem())?;
        Ok(pair)
    }
}

/// Makes a key pair without a certificate, for signing service account tokens; the "certificate" is the public key.
pub fn signing_key(folder: &Path, file: &str) -> Result<Pair> {
    let key = KeyPair::generate().context("failed to make a key")?;
    let pair = Pair { cert: folder.join(format!("{file}.pub")), key: folder.join(format!("{file}.key")) };
    write(&pair.cert, &key.public_key_pem())?;
    write(&pair.key, &key.serialize_pem())?;
    Ok(pair)
}

fn distinguished(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name
}

/// Writes a file that only its owner may read.
pub fn write(path: &Path, content: &str) -> Result<()> {
    use std::io::Write;
    let _ = fs::remove_file(path);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .with_context(|| format!("failed to write {}", path.display()))
}
