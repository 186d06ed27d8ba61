//! `tombolo join`, without its flags: makes a cluster a member of a hub.
//!
//! [`join`] is the only entry. All that can be refused is refused before the first write; each step says in one line what it
//! changed; doing it again repairs what is amiss and otherwise changes nothing.

mod cluster;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config, ResourceExt, api::DeleteParams, core::DynamicObject};
use tokio::time::Instant;

use self::cluster::Wanted;
use super::{
    account::{self, MANAGED_BY, Owner},
    agent,
    check::{Found, refusal},
    definitions::outdated,
    grant::Grant,
    write::{Tally, api_of, apply, described, put},
};
use crate::{
    api::{
        Cluster,
        crds::{self, Role},
        names::{annotation, object},
    },
    decide::{
        admit::{cidr, overlaps},
        ids::ClusterName,
    },
    hub::identity,
    shell::client::client,
    webhook::authority::pem,
};

/// How long the member's controllers may take to fill in a token, and its API server to know of rights.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
/// What all looks before the first write may take.
const LOOKING: Duration = Duration::from_secs(60);

/// What is asked for. What is left open stays as it was when the cluster joined before.
#[derive(Clone, Debug)]
pub struct Request {
    /// The member's name.
    pub name: ClusterName,
    /// Labels of its Cluster, besides those that are there.
    pub labels: BTreeMap<String, String>,
    /// Who runs it.
    pub provider: Option<String>,
    /// Where it is.
    pub region: Option<String>,
    /// The zones that it is in.
    pub zones: Vec<String>,
    /// Where the hub reaches its API server, if not where the kubeconfig says.
    pub api_endpoint: Option<String>,
    /// What the hub may do there.
    pub grant: Option<Grant>,
    /// Leaves the Multi-Cluster Services API's definitions to others.
    pub skip_crds: bool,
    /// Takes it from another hub.
    pub take_over: bool,
    /// What becomes of the agent's manifests.
    pub agent: Agent,
    /// The agent's image.
    pub agent_image: String,
    /// Tombolo's own namespace on the hub.
    pub hub_namespace: String,
}

/// What becomes of the agent's manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Agent {
    /// They are applied in the member.
    Deploy,
    /// They are printed.
    Print,
    /// The agent is somebody else's business.
    None,
}

/// Both ends of what is to be tied together.
#[derive(Clone)]
pub struct Ends {
    /// The hub.
    pub hub: Client,
    /// The member, as an administrator sees it.
    pub member: Client,
    /// The way to the member.
    pub way: Config,
}

/// What a member is reached by.
struct Credentials {
    token: String,
    /// Authorities as PEM; none stands for those of the machine.
    authorities: Option<String>,
}

/// A join under way.
struct Joining<'a> {
    ends: &'a Ends,
    request: &'a Request,
    found: &'a Found,
    say: &'a dyn Fn(&str),
}

/// Makes a cluster a member and says how it goes.
pub async fn join(ends: &Ends, request: &Request, say: &dyn Fn(&str)) -> Result<()> {
    let looking = Found::look(&ends.hub, &request.hub_namespace, &ends.member, &request.name);
    let looked = tokio::time::timeout(LOOKING, looking).await;
    let found = looked.with_context(|| format!("the clusters did not answer within {LOOKING:?}"))??;
    if let Some(why) = refusal(&request.name, request.take_over, &found) {
        bail!("{} cannot join: {why}", request.name);
    }
    let joining = Joining { ends, request, found: &found, say };
    joining.check().await?;
    let hub_id = joining.prepare_hub().await?;
    let credentials = joining.account(&hub_id).await?;
    joining.definitions().await?;
    joining.agent().await?;
    joining.register(&credentials).await
}

// === impl Joining ===

impl Joining<'_> {
    fn line(&self, text: &str) {
        (self.say)(text);
    }

    /// What else can be refused: by the hub's admission, and since a name is taken. Then what is worth a warning.
    async fn check(&self) -> Result<()> {
        let (name, found) = (&self.request.name, self.found);
        let clusters: Api<Cluster> = Api::all(self.ends.hub.clone());
        put(&clusters, found.cluster(name), &self.wanted().cluster(), true)
            .await
            .context("the hub would not take the Cluster")?;
        let role = account::cluster_role(&Grant::default())?;
        for object in [account::account(""), account::marker("", "", ""), account::token(), role] {
            self.free(&object, "remove it first").await?;
        }
        if self.request.agent == Agent::Deploy {
            // The first is the namespace, which is anybody's.
            for object in &agent::manifests(&self.request.agent_image)[1..] {
                self.free(object, "remove it, or leave it with --agent none").await?;
            }
        }
        let pods = if found.pods.is_empty() { "unknown".to_owned() } else { shown(&found.pods) };
        self.line(&format!("checked: {name} is Kubernetes {}; addresses of its pods: {pods}", found.version));
        self.warn();
        Ok(())
    }

    /// Says where pods of other members can have the addresses of this one's.
    fn warn(&self) {
        let ranges = |cluster: &Cluster| {
            let ranges = cidr::list(cluster.annotations().get(annotation::POD_CIDRS)?).ok()?;
            Some((cluster.name_any(), ranges))
        };
        let others: Vec<_> = self.found.clusters.iter().filter_map(ranges).collect();
        let others = others.iter().map(|(name, ranges)| (name.as_str(), &ranges[..]));
        for warning in overlaps(self.request.name.as_str(), &self.found.pods, others) {
            self.line(&format!("Warning: {warning}"));
        }
    }

    /// Fails where an object of the member is there and was not made by join.
    async fn free(&self, object: &DynamicObject, way_out: &str) -> Result<()> {
        let found = api_of(&self.ends.member, object)?.get_opt(&object.name_any()).await;
        let found = found.with_context(|| format!("failed to read {}", described(object)))?;
        let ours =
            |found: &DynamicObject| found.labels().get(MANAGED_BY.0).is_some_and(|by| by == MANAGED_BY.1);
        ensure!(
            found.is_none_or(|found| ours(&found)),
            "{} in the member was not made by `tombolo join`; {way_out}",
            described(object)
        );
        Ok(())
    }

    async fn prepare_hub(&self) -> Result<String> {
        let (hub, namespace) = (&self.ends.hub, &self.request.hub_namespace);
        let mut tally = Tally::default();
        tally.apply(hub, &account::namespace(namespace)).await?;
        let id = identity::hub_id(hub, namespace).await?;
        self.line(&format!("hub {id}: namespace {namespace}: {tally}"));
        Ok(id.to_string())
    }

    /// The hub's account in the member, and what one reaches the member by with it.
    async fn account(&self, hub_id: &str) -> Result<Credentials> {
        let (member, name) = (&self.ends.member, self.request.name.as_str());
        let taken = self.found.marker.as_ref().filter(|marker| marker.hub != hub_id);
        if let Some(marker) = taken {
            // The token that the other hub has is worth nothing without its Secret.
            self.forget_token().await?;
            self.line(&format!("taken over from hub {}, where it was {}", marker.hub, marker.cluster));
        }
        let grant = self.request.grant.clone().or_else(|| self.found.grant.clone()).unwrap_or_default();
        let mut tally = Tally::default();
        tally.apply(member, &account::namespace(object::NAMESPACE)).await?;
        tally.apply(member, &account::marker(hub_id, name, &self.wanted().id())).await?;
        let own = tally.apply(member, &account::account(hub_id)).await?;
        let own = Owner::account(own.uid().context("a ServiceAccount has a UID")?);
        let role = tally.apply(member, &account::cluster_role(&grant)?).await?;
        let role = Owner::cluster_role(role.uid().context("a ClusterRole has a UID")?);
        for object in [
            account::cluster_binding(&role),
            account::role(&own),
            account::role_binding(&own),
            account::token(),
        ] {
            tally.apply(member, &object).await?;
        }
        let besides = if grant.extra.is_empty() { "" } else { " and rules of your own" };
        self.line(&format!("account with the rights of {}{besides}: {tally}", grant.preset.name()));
        let credentials = self.credentials().await?;
        self.prove(&credentials).await?;
        self.line("the account works");
        Ok(credentials)
    }

    async fn forget_token(&self) -> Result<()> {
        let secrets: Api<Secret> = Api::namespaced(self.ends.member.clone(), object::NAMESPACE);
        match secrets.delete(object::HUB, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(e) => Err(e).context("failed to remove the other hub's token"),
        }
    }

    /// Waits until the member's controllers have filled in the token.
    async fn credentials(&self) -> Result<Credentials> {
        let secrets: Api<Secret> = Api::namespaced(self.ends.member.clone(), object::NAMESPACE);
        let started = Instant::now();
        loop {
            let secret = secrets.get(object::HUB).await.context("failed to read the account's token")?;
            let text = |key: &str| String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok();
            if let Some(token) = text("token").filter(|token| !token.is_empty()) {
                return Ok(Credentials { token, authorities: self.authorities(text("ca.crt")) });
            }
            ensure!(
                started.elapsed() < PATIENCE,
                "the member's kube-controller-manager has not filled Secret {}/{} within {PATIENCE:?}; is it running?",
                object::NAMESPACE,
                object::HUB
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The authorities of the endpoint that the hub will use: those by which we reached it ourselves. The cluster's own where
    /// we did not check, or where the hub goes another way.
    fn authorities(&self, own: Option<String>) -> Option<String> {
        let Config { root_cert, accept_invalid_certs, .. } = &self.ends.way;
        if self.request.api_endpoint.is_some() || *accept_invalid_certs {
            return own;
        }
        root_cert.as_ref().map(|all| all.iter().map(|der| pem(der)).collect())
    }

    /// Uses the token once, in the way that the hub will: the right cluster answers, and it has its rights.
    async fn prove(&self, credentials: &Credentials) -> Result<()> {
        let config = self.wanted().proof(credentials)?;
        let client = client(&config, None).context("failed to set up a client with the account's token")?;
        let (system, started) = (Api::<k8s_openapi::api::core::v1::Namespace>::all(client), Instant::now());
        loop {
            match system.get("kube-system").await {
                Ok(found) => {
                    let same = found.uid().as_deref() == Some(&self.found.member_uid);
                    ensure!(
                        same,
                        "{} leads to another cluster than the kubeconfig",
                        self.wanted().endpoint()
                    );
                    return Ok(());
                }
                // Rights and tokens take a moment to be known.
                Err(kube::Error::Api(status))
                    if [401, 403].contains(&status.code) && started.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(e) => return Err(e).context(self.wanted().in_vain()),
            }
        }
    }

    async fn definitions(&self) -> Result<()> {
        if self.request.skip_crds {
            return Ok(());
        }
        let mut tally = Tally::default();
        for ours in crds::definitions(Role::Member) {
            let found = self.found.definitions.iter().find(|found| found.name_any() == ours.name_any());
            if outdated(found, &ours) {
                let object = serde_json::from_value(serde_json::to_value(&ours)?)?;
                let (_, outcome) = apply(&self.ends.member, &object).await?;
                tally.add(ours.name_any(), outcome);
            }
        }
        self.line(&format!("definitions of the Multi-Cluster Services API: {tally}"));
        Ok(())
    }

    async fn agent(&self) -> Result<()> {
        if self.request.agent == Agent::Deploy {
            let mut tally = Tally::default();
            for object in agent::manifests(&self.request.agent_image) {
                tally.apply(&self.ends.member, &object).await?;
            }
            self.line(&format!("agent {}: {tally}", self.request.agent_image));
        }
        Ok(())
    }

    /// Writes Secret and Cluster to the hub; the Secret goes with the Cluster.
    async fn register(&self, credentials: &Credentials) -> Result<()> {
        let (hub, name, found) = (&self.ends.hub, &self.request.name, self.found);
        let secrets: Api<Secret> = Api::namespaced(hub.clone(), &self.request.hub_namespace);
        let clusters: Api<Cluster> = Api::all(hub.clone());
        let wanted = self.wanted();
        let owner = found.cluster(name).and_then(ResourceExt::uid);
        let secret = wanted.secret(found.secret.as_ref(), credentials, owner.as_deref());
        let (secret, kept) = put(&secrets, found.secret.as_ref(), &secret, false).await?;
        let (cluster, made) = put(&clusters, found.cluster(name), &wanted.cluster(), false).await?;
        let owned = wanted.secret(Some(&secret), credentials, cluster.uid().as_deref());
        put(&secrets, Some(&secret), &owned, false).await?;
        let mut tally = Tally::default();
        tally.add(format!("Secret {}/{name}", self.request.hub_namespace), kept);
        tally.add(format!("Cluster {name}"), made);
        self.line(&format!("on the hub: {tally}"));
        Ok(())
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { request: self.request, found: self.found, way: &self.ends.way }
    }
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends").field("member", &self.way.cluster_url).finish_non_exhaustive()
    }
}

fn shown(ranges: &[cidr::Cidr]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
