//! Two replicas of the hub, one Secret.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    net::{IpAddr, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    core::v1::Secret,
};
use kube::{
    Api, Client,
    api::{WatchEvent, WatchParams},
    core::ResourceExt,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tombolo_e2e::{
    bed::{Bed, Spec},
    tombolo::{Component, binary},
    wait::until,
};

use crate::{LIFETIMES, PATIENCE, kept, load};

/// How long a handshake may take; API servers give up after five seconds.
const SLOWEST: Duration = Duration::from_secs(5);

/// The Secret that the replicas share.
const SECRET: &str = "tombolo-webhook-certificates";
/// Each step of making an authority and a certificate, of renewing the certificate once or twice and of changing to another
/// authority is one write.
const MOST_WRITES: usize = 12;

/// What a Service is to replicas in production: one address, and each connection goes to the next of them.
struct Front {
    address: SocketAddr,
    hubs: Arc<OnceLock<[SocketAddr; 2]>>,
}

/// Everything that was ever stored under a name, in order.
struct History<K>(Arc<Mutex<Vec<K>>>);

pub(crate) async fn two_hubs_share_one_secret_and_follow_a_rotation_without_one_failed_request(
    _: Arc<Bed>,
) -> Result<()> {
    let bed = Bed::start(Spec::api(0).bare(), None).await?;
    bed.prepare_hub()?;
    let client = &bed.hub.client;
    let secrets = History::of(Api::<Secret>::namespaced(client.clone(), "tombolo-system"), SECRET).await?;
    let configurations =
        History::of(Api::<ValidatingWebhookConfiguration>::all(client.clone()), "tombolo").await?;
    let front = Front::open(bed.hub.addresses.api()).await?;
    let mut flags = LIFETIMES.map(str::to_owned).to_vec();
    flags.push(format!("--webhook-url=https://{}", front.address));
    let program = tokio::task::spawn_blocking(binary).await??;
    let (one, two) = futures::try_join!(
        bed.start_hub(&program, "tombolo-hub", &flags),
        bed.start_hub(&program, "tombolo-hub-2", &flags)
    )?;
    let hubs = [&one, &two].map(Component::webhook);
    let [Some(first), Some(second)] = hubs else { anyhow::bail!("a hub has a webhook, not {hubs:?}") };
    front.hubs.set([first, second]).ok().context("it is set once")?;

    rotate(client, [first, second]).await?;
    for hub in [&one, &two] {
        let metrics = hub.says("/metrics").await?;
        let answered = "tombolo_webhook_requests_total{route=\"validate\",kind=";
        ensure!(metrics.contains(answered), "one of the hubs was never asked: {metrics}");
    }
    let steps = secrets.seen();
    eprintln!("the Secret was written {} times", steps.len());
    let content = |secret: &Secret| format!("{:?} {:?}", secret.data, secret.annotations());
    let different: BTreeSet<_> = steps.iter().map(content).collect();
    ensure!(different.len() == steps.len(), "the Secret was written back to what it had been");
    ensure!(steps.len() <= MOST_WRITES, "the Secret was written {} times", steps.len());
    let written = configurations.seen();
    let bundles: BTreeSet<_> = written.iter().map(|found| format!("{:?}", bundles(found))).collect();
    eprintln!("a configuration was written {} times, with {} bundles", written.len(), bundles.len());
    ensure!(written.len() <= bundles.len() + 1, "the hubs write over each other's configuration");
    tokio::task::spawn_blocking(move || drop((one, two, bed))).await.map_err(Into::into)
}

/// Waits for another authority to take over, and sees that both hubs can be trusted at every moment until then.
async fn rotate(client: &Client, hubs: [SocketAddr; 2]) -> Result<()> {
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // One that starts slowly may see the first renewal a moment later than the other.
    until("both hubs serve one certificate", PATIENCE, async || follow(client, hubs).await).await?;
    let first = kept(client, "ca.crt").await?;
    let workers: Vec<_> =
        (0..2).map(|_| tokio::spawn(load(client.clone(), stop.clone(), count.clone()))).collect();
    let looking = tokio::spawn(look(client.clone(), hubs, stop.clone()));
    let rotated = until("another authority took over", PATIENCE, async || {
        ensure!(!kept(client, "ca.crt").await?.contains(first.trim()), "the first is still trusted");
        follow(client, hubs).await
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let (looks, mut failures) = looking.await??;
    for worker in workers {
        failures.extend(worker.await??);
    }
    rotated?;
    let count = count.load(Ordering::Relaxed);
    eprintln!(
        "{count} requests and {looks} looks at both hubs during the rotation, {} failed",
        failures.len()
    );
    ensure!(count > 500 && looks > 50, "only {count} requests and {looks} looks were made");
    ensure!(failures.is_empty(), "{} failed, such as: {}", failures.len(), failures[0]);
    Ok(())
}

/// Fails unless both hubs serve what the Secret holds, and all configurations trust it.
async fn follow(client: &Client, hubs: [SocketAddr; 2]) -> Result<()> {
    let held = CertificateDer::from_pem_slice(kept(client, "tls.crt").await?.as_bytes())?;
    let trusted: Vec<_> = trusted(client).await?.into_iter().collect();
    let [bundle] = &trusted[..] else { anyhow::bail!("there are {} different bundles", trusted.len()) };
    for hub in hubs {
        ensure!(served(hub, bundle).await? == held, "{hub} serves another certificate than the Secret holds");
    }
    Ok(())
}

/// Verifies both hubs by what API servers trust, again and again until told to stop; gives back how often, and what failed.
async fn look(client: Client, hubs: [SocketAddr; 2], stop: Arc<AtomicBool>) -> Result<(usize, Vec<String>)> {
    let (mut looks, mut failures) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        for bundle in trusted(&client).await? {
            for hub in hubs {
                failures.extend(served(hub, &bundle).await.err().map(|e| format!("{hub}: {e:#}")));
            }
        }
        looks += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok((looks, failures))
}

/// The bundles of authorities that API servers trust: one, but for the moment between two writes.
async fn trusted(client: &Client) -> Result<BTreeSet<Vec<u8>>> {
    let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone()).get("tombolo").await?;
    let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone()).get("tombolo").await?;
    let mutating = mutating.webhooks.into_iter().flatten().map(|webhook| webhook.client_config);
    Ok(bundles(&validating).into_iter().chain(mutating.filter_map(bundle)).collect())
}

fn bundles(configuration: &ValidatingWebhookConfiguration) -> BTreeSet<Vec<u8>> {
    let webhooks = configuration.webhooks.iter().flatten();
    webhooks.filter_map(|webhook| bundle(webhook.client_config.clone())).collect()
}

fn bundle(config: WebhookClientConfig) -> Option<Vec<u8>> {
    config.ca_bundle.map(|bundle| bundle.0)
}

/// The certificate that a webhook shows, if it verifies.
async fn served(address: SocketAddr, trusted: &[u8]) -> Result<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(trusted) {
        roots.add(authority?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tokio::task::spawn_blocking(move || {
        let mut connection = ClientConnection::new(Arc::new(config), ServerName::from(address.ip()))?;
        let mut socket = TcpStream::connect_timeout(&address, SLOWEST)?;
        socket.set_read_timeout(Some(SLOWEST))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let shown =
            connection.peer_certificates().and_then(<[_]>::first).context("it shows no certificate")?;
        Ok(shown.clone().into_owned())
    })
    .await?
}

// === impl Front ===

impl Front {
    async fn open(host: IpAddr) -> Result<Self> {
        let listener = TcpListener::bind((host, 0)).await.context("failed to listen")?;
        let (address, hubs) = (listener.local_addr()?, Arc::new(OnceLock::<[SocketAddr; 2]>::new()));
        let known = hubs.clone();
        tokio::spawn(async move {
            for turn in 0_usize.. {
                let Ok((mut from, _)) = listener.accept().await else { return };
                let Some(hubs) = known.get() else { continue };
                let hub = hubs[turn % hubs.len()];
                tokio::spawn(async move {
                    let mut to = tokio::net::TcpStream::connect(hub).await?;
                    tokio::io::copy_bidirectional(&mut from, &mut to).await
                });
            }
        });
        Ok(Self { address, hubs })
    }
}

// === impl History ===

impl<K> History<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    async fn of(api: Api<K>, name: &str) -> Result<Self> {
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = api.watch(&params, "0").await?.boxed();
        let history = Self(Arc::default());
        let seen = history.0.clone();
        tokio::spawn(async move {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Added(found) | WatchEvent::Modified(found) = event {
                    seen.lock().expect("nobody panics with it").push(found);
                }
            }
            Ok::<_, kube::Error>(())
        });
        Ok(history)
    }

    fn seen(&self) -> Vec<K> {
        self.0.lock().expect("nobody panics with it").clone()
    }
}
