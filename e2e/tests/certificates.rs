//! The webhook's certificates: made, rotated and exchanged while admission goes on.

#[path = "certificates/replicas.rs"]
mod replicas;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::PostParams};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use replicas::two_hubs_share_one_secret_and_follow_a_rotation_without_one_failed_request;
use tombolo::api::{PropagationPolicy, propagation::PropagationSpec};
use tombolo_e2e::{
    bed::{Bed, Spec},
    process::run,
    suite, tests,
    tombolo::binary,
    wait::{Final, until},
};

const PATIENCE: Duration = Duration::from_secs(120);
/// So short that everything is rotated within a test.
const LIFETIMES: [&str; 3] =
    ["--webhook-authority-lifetime=60", "--webhook-certificate-lifetime=30", "--webhook-overlap=5"];

fn main() -> ExitCode {
    let spec = Spec { hub_flags: LIFETIMES.map(str::to_owned).to_vec(), ..Spec::api(0) };
    suite::run(
        spec,
        tests![
            serving_certificate_and_authority_rotate_under_load_without_one_failed_request,
            a_certificate_from_files_is_exchanged_when_they_change_and_what_cannot_serve_is_not_taken,
            two_hubs_share_one_secret_and_follow_a_rotation_without_one_failed_request,
        ],
    )
}

/// A policy as somebody would write it, for dry runs.
fn policy() -> Result<PropagationPolicy> {
    let spec: PropagationSpec = serde_json::from_value(serde_json::json!({
        "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "some" }],
        "placement": { "clusterAffinity": { "clusterNames": ["*"] } },
    }))?;
    Ok(PropagationPolicy::new("some", spec))
}

/// Asks for admission again and again until told to stop; gives back how often, and what failed.
async fn load(client: Client, stop: Arc<AtomicBool>, count: Arc<AtomicUsize>) -> Result<Vec<String>> {
    let policies: Api<PropagationPolicy> = Api::namespaced(client, "default");
    let (dry, policy) = (PostParams { dry_run: true, ..PostParams::default() }, policy()?);
    let mut failures = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if let Err(e) = policies.create(&dry, &policy).await {
            failures.push(format!("{e:#}"));
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(failures)
}

/// The PEM text of a key of the Secret that holds the certificates.
async fn kept(client: &Client, key: &str) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "tombolo-system");
    let secret = secrets.get("tombolo-webhook-certificates").await?;
    let value =
        secret.data.and_then(|mut data| data.remove(key)).with_context(|| format!("{key} is missing"))?;
    Ok(String::from_utf8(value.0)?)
}

async fn serving_certificate_and_authority_rotate_under_load_without_one_failed_request(
    bed: Arc<Bed>,
) -> Result<()> {
    let client = &bed.hub.client;
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (first_serving, first_authority) = (kept(client, "tls.crt").await?, kept(client, "ca.crt").await?);
    let workers: Vec<_> =
        (0..4).map(|_| tokio::spawn(load(client.clone(), stop.clone(), count.clone()))).collect();
    let rotated = async {
        until("the serving certificate is another", PATIENCE, async || {
            ensure!(kept(client, "tls.crt").await? != first_serving, "it is the first one");
            Ok(())
        })
        .await?;
        until("both authorities are trusted", PATIENCE, async || {
            let authorities = kept(client, "ca.crt").await?;
            ensure!(
                authorities.starts_with(&first_authority) && authorities.len() > first_authority.len(),
                "one only"
            );
            Ok(())
        })
        .await?;
        until("the first authority is forgotten", PATIENCE, async || {
            ensure!(!kept(client, "ca.crt").await?.contains(first_authority.trim()), "it is still there");
            Ok(())
        })
        .await
    }
    .await;
    stop.store(true, Ordering::Relaxed);
    let mut failures = Vec::new();
    for worker in workers {
        failures.extend(worker.await??);
    }
    rotated?;
    let count = count.load(Ordering::Relaxed);
    eprintln!("{count} requests during the rotations, {} failed", failures.len());
    ensure!(count > 1000, "only {count} requests were made");
    ensure!(failures.is_empty(), "{} of {count} requests failed, such as: {}", failures.len(), failures[0]);
    Ok(())
}

/// Makes development certificates in a folder.
fn certs(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("certs.yaml"), "hosts: [127.0.0.1]\ndays: 2\n")?;
    run(Command::new(binary()?).arg("certs").arg("--dir").arg(folder)).map(drop)
}

/// A certificate whose time is over, and its key.
fn expired() -> Result<(Vec<u8>, Vec<u8>)> {
    let mut params = CertificateParams::new(["localhost".to_owned()])?;
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate.into_bytes(), key.serialize_pem().into_bytes()))
}

async fn a_certificate_from_files_is_exchanged_when_they_change_and_what_cannot_serve_is_not_taken(
    bed: Arc<Bed>,
) -> Result<()> {
    let folder: PathBuf = bed.dir().join("state/brought");
    certs(&folder)?;
    let file = |name: &str| folder.join(name);
    let flag = |flag: &str, name: &str| format!("{flag}={}", file(name).display());
    let flags = vec![
        flag("--tls-cert-file", "tls.crt"),
        flag("--tls-key-file", "tls.key"),
        flag("--webhook-ca-file", "ca.crt"),
    ];
    let own = Bed::start(Spec { hub_flags: flags, ..Spec::api(0) }, None).await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(own.hub.client.clone(), "default");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let policy = policy()?;
    let expiry = async || -> Result<String> {
        let metrics = own.hub_process().context("Tombolo runs")?.says("/metrics").await?;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("tombolo_webhook_certificate_expiry_timestamp_seconds "));
        Ok(line.context("no such metric")?.to_owned())
    };
    let log = || fs::read_to_string(own.dir().join("logs/hub/tombolo-hub.log"));
    policies.create(&dry, &policy).await.context("with the first certificate")?;
    let first = expiry().await?;

    let (good, good_key) = (fs::read(file("tls.crt"))?, fs::read(file("tls.key"))?);
    let (old, old_key) = expired()?;
    for (certificate, key, complaint) in [
        (&b"garbage"[..], &good_key[..], "failed to read the certificate"),
        (&good, b"garbage", "failed to read the private key"),
        (&good, &old_key, "do not belong together"),
        (&old, &old_key, "expired"),
    ] {
        fs::write(file("tls.crt"), certificate)?;
        fs::write(file("tls.key"), key)?;
        until("the hub complains", PATIENCE, async || {
            ensure!(log()?.contains(complaint), "its log does not say {complaint:?}");
            Ok(())
        })
        .await?;
        policies.create(&dry, &policy).await.context(complaint)?;
        ensure!(expiry().await? == first, "the certificate in use changed");
        fs::write(file("tls.crt"), &good)?;
        fs::write(file("tls.key"), &good_key)?;
    }
    let metrics = own.hub_process().context("Tombolo runs")?.says("/metrics").await?;
    ensure!(!metrics.contains("tombolo_webhook_certificate_failures_total 0"), "failures are not counted");

    fs::write(folder.join("certs.yaml"), "hosts: [127.0.0.1]\ndays: 5\n")?;
    run(Command::new(binary()?).arg("certs").arg("--dir").arg(&folder))?;
    // By another authority, too: API servers have to hear of it before they are shown what it signed.
    until("the new certificate is in use", PATIENCE, async || {
        let refused = |e| Final(format!("refused while certificates are exchanged: {e}"));
        policies.create(&dry, &policy).await.map_err(refused)?;
        ensure!(expiry().await? != first, "it is the first one");
        Ok(())
    })
    .await?;
    policies.create(&dry, &policy).await.context("with the new certificate")?;
    tokio::task::spawn_blocking(move || drop(own)).await?;
    Ok(())
}
