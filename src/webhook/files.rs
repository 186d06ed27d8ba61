//! Certificates that somebody else brings, such as cert-manager: read from files, again and again.
//!
//! Files are read by the clock, not by file events: a mounted Secret changes by a renamed symbolic link, which watchers of a file
//! do not see. It changes for each replica at another time, up to some minutes apart, so that for a while API servers have to trust
//! the authorities of all of them: whoever has new ones adds them, and shows its certificate a little later.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use kube::Client;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_util::sync::CancellationToken;

use super::{
    authority::pem,
    configuration::{self, Address},
    tls::{Loaded, Serving},
};
use crate::shell::{clock, health::Part};

/// Between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long authorities stay trusted that are not in our own files: by then every replica has the same.
const FOREIGN: i64 = 600;
/// How long authorities are trusted before what they signed is shown: API servers have to hear of them first.
const SETTLING: i64 = 5;

/// Why nothing is shown yet.
const SETTLES: &str =
    "API servers were told of the certificate's authority a moment ago: it is shown when they know it";

/// Authorities, in DER.
type Authorities = BTreeSet<Vec<u8>>;

/// Where the certificate, its key and its authorities are.
#[derive(Debug)]
pub struct Files {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities that API servers verify it with.
    pub authorities: PathBuf,
}

/// Which authorities API servers are to trust, as one replica sees it.
#[derive(Debug, Default)]
struct Trust {
    /// Our own, and since when API servers were told of them.
    own: Option<(Authorities, i64)>,
    /// Those that only others have, and since when that is so.
    foreign: BTreeMap<Vec<u8>, i64>,
}

// === impl Trust ===

impl Trust {
    /// What API servers are to trust, given our own authorities and what they trust now.
    fn wanted(&mut self, own: &Authorities, trusted: &Authorities, now: i64) -> Authorities {
        self.foreign.retain(|authority, _| trusted.contains(authority) && !own.contains(authority));
        for authority in trusted.difference(own) {
            self.foreign.entry(authority.clone()).or_insert(now);
        }
        let staying = self.foreign.iter().filter(|(_, since)| now - **since < FOREIGN);
        own.iter().chain(staying.map(|(authority, _)| authority)).cloned().collect()
    }

    /// Notes that API servers were told of our own authorities, and which they trusted before.
    fn told(&mut self, own: Authorities, before: &Authorities, now: i64) {
        if self.own.as_ref().is_none_or(|(told, _)| *told != own) {
            let settled = own.is_subset(before);
            self.own = Some((own, if settled { now - SETTLING } else { now }));
        }
    }

    /// Whether API servers have heard of our own authorities by now.
    fn has_settled(&self, now: i64) -> bool {
        self.own.as_ref().is_some_and(|(_, since)| now - since >= SETTLING)
    }
}

// === impl Files ===

impl Files {
    /// Reads and shows them until told to stop. What cannot serve is complained about once, and the old one stays.
    pub async fn run(
        &self,
        client: &Client,
        address: &Address,
        user: &str,
        serving: &Arc<Serving>,
        part: &Part,
        stop: &CancellationToken,
    ) {
        let (mut complaint, mut trust) = (String::new(), Trust::default());
        loop {
            match self.load(client, address, user, serving, &mut trust).await {
                Ok(()) => {
                    complaint.clear();
                    let shown = serving.current().is_some();
                    part.set(shown.then_some(()).ok_or_else(|| SETTLES.to_owned()));
                }
                Err(e) => {
                    let said = format!("{e:#}");
                    serving.failed();
                    if complaint != said {
                        tracing::warn!(
                            "failed to take the certificate from files, the old one stays: {said}"
                        );
                    }
                    if serving.current().is_none() {
                        part.set(Err(said.clone()));
                    }
                    complaint = said;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
    }

    async fn load(
        &self,
        client: &Client,
        address: &Address,
        user: &str,
        serving: &Serving,
        trust: &mut Trust,
    ) -> Result<()> {
        let loaded = Loaded::new(&read(&self.certificate)?, &read(&self.key)?, clock::seconds())?;
        let own = authorities(&read(&self.authorities)?)
            .with_context(|| format!("failed to read {}", self.authorities.display()))?;
        ensure!(!own.is_empty(), "there is no authority in {}", self.authorities.display());
        // What cannot be read there is of no use to anybody.
        let trusted = configuration::trusted(client).await?;
        let trusted = authorities(&trusted).unwrap_or_default();
        let wanted = trust.wanted(&own, &trusted, clock::seconds());
        let bundle: String = wanted.iter().map(|authority| pem(authority)).collect();
        configuration::ensure(client, address, &bundle, user).await?;
        trust.told(own, &trusted, clock::seconds());
        if trust.has_settled(clock::seconds()) {
            serving.replace(loaded);
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

/// The authorities of a PEM text.
fn authorities(text: &[u8]) -> Result<Authorities> {
    let all = CertificateDer::pem_slice_iter(text).map(|one| Ok(one?.to_vec()));
    all.collect::<Result<_, rustls::pki_types::pem::Error>>().context("it is no list of certificates in PEM")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Authorities {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn replicas_whose_files_change_one_after_the_other_trust_each_others_authorities_meanwhile() {
        let [mut first, mut second] = [Trust::default(), Trust::default()];
        let (old, new) = (of(&["old"]), of(&["new"]));
        assert_eq!(second.wanted(&old, &old, 0), old);
        let both = first.wanted(&new, &old, 0);
        assert_eq!(both, of(&["old", "new"]), "who has the new one first keeps the old one");
        for now in 0..90 {
            assert_eq!(second.wanted(&old, &both, now), both, "who has the old one yet keeps the new one");
            assert_eq!(first.wanted(&new, &both, now), both);
        }
        assert_eq!(second.wanted(&new, &both, 90), both);
        assert_eq!(first.wanted(&new, &both, FOREIGN), new, "an authority that nobody has goes");
        assert_eq!(second.wanted(&new, &new, FOREIGN), new);
    }

    #[test]
    fn a_certificate_is_shown_only_when_its_authority_is_known() {
        let (mut trust, old) = (Trust::default(), of(&["old"]));
        trust.told(old.clone(), &old, 0);
        assert!(trust.has_settled(0), "it was known before this replica began");
        trust.told(of(&["new"]), &old, 100);
        assert!(!trust.has_settled(100 + SETTLING - 1));
        trust.told(of(&["new"]), &of(&["old", "new"]), 100 + SETTLING);
        assert!(trust.has_settled(100 + SETTLING));
    }

    #[test]
    fn a_replica_that_begins_with_an_authority_of_its_own_waits_before_it_shows_anything() {
        for before in [of(&[]), of(&["old"])] {
            let mut trust = Trust::default();
            trust.told(of(&["new"]), &before, 100);
            assert!(!trust.has_settled(100 + SETTLING - 1));
            assert!(trust.has_settled(100 + SETTLING));
        }
    }

    #[test]
    fn garbage_is_no_authority() {
        assert!(authorities(b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n").is_err());
        assert!(authorities(b"nothing").unwrap().is_empty());
    }
}
