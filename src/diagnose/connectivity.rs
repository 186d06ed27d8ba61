//! Whether pods of each member reach pods of the others: `tombolo check --connectivity`.
//!
//! [`dial`] is the only entry. In every member a pod listens, and when all do, another one dials those of the other members and leaves what came
//! of it as its termination message, so that the hub's own rights in members suffice: to make, get, list and delete pods.
//!
//! Invariant: whatever happens, the pods are deleted; they end by themselves after [`pod::LIFE`], and those that an earlier check
//! left behind are deleted at the beginning of the next.

pub mod outcome;
mod pod;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use futures::future::join_all;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio_util::sync::CancellationToken;

use self::{
    outcome::{Outcome, Peer},
    pod::Pods,
};
use super::{Finding, Severity};
use crate::{
    api::{Cluster, names::condition},
    membership::member,
    shell::client::client,
};

/// Where listeners listen.
pub const PORT: u16 = 8380;
/// As many as one pod dials: what it leaves behind has 4096 bytes at most.
const PEERS: usize = 20;

/// How it is found out.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image of the pods.
    pub image: String,
    /// Tombolo's namespace in members.
    pub namespace: String,
    /// How long a pod may take until it runs, or is done.
    pub patience: Duration,
    /// How long one connection may take.
    pub timeout: Duration,
}

/// What came of one pair of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Who dials.
    pub from: String,
    /// Who is dialled.
    pub to: String,
    /// Where.
    pub address: IpAddr,
    /// How, and what came of it.
    pub outcome: Outcome,
}

/// A member that takes part.
struct Member {
    name: String,
    pods: Pods,
}

/// Dials from every member to all others.
pub async fn dial(
    hub: &Client,
    options: &Options,
    say: &(dyn Fn(&str) + Sync),
    stop: &CancellationToken,
) -> Result<(Vec<Pair>, Vec<Finding>)> {
    let (members, mut found) = tokio::select! {
        () = stop.cancelled() => bail!("it was interrupted"),
        members = members(hub, options, say) => members?,
    };
    if members.len() < 2 {
        found.push(Finding::doubtful(
            "connectivity",
            format!("there is nothing to dial: {} members answer", members.len()),
            "",
        ));
        return Ok((Vec::new(), found));
    }
    let dialled = tokio::select! {
        () = stop.cancelled() => Err(anyhow::anyhow!("it was interrupted")),
        dialled = dialled(&members, options, say) => dialled,
    };
    say("deleting the pods");
    let left = join_all(members.iter().map(|member| member.pods.delete())).await;
    let (pairs, failures) = dialled?;
    found.extend(failures);
    for (member, left) in members.iter().zip(left) {
        if let Err(e) = left {
            let says = format!("{}: {e:#}", member.name);
            found.push(Finding::doubtful("clean-up", says, "its pods end by themselves after 5 minutes"));
        }
    }
    found.extend(findings(&pairs));
    Ok((pairs, found))
}

/// The members that can be asked; of the others it is said.
async fn members(
    hub: &Client,
    options: &Options,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(Vec<Member>, Vec<Finding>)> {
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let clusters =
        clusters.list(&ListParams::default()).await.context("failed to list the hub's Clusters")?;
    let (mut members, mut found) = (Vec::new(), Vec::new());
    for cluster in clusters {
        let name = cluster.name_any();
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let mut ready = conditions.filter(|it| it.type_ == condition::READY && it.status != "True");
        if let Some(silent) = ready.next() {
            let says = format!("{name} is left out, it does not answer: {}", silent.message);
            found.push(Finding::doubtful("connectivity", says, format!("tombolo explain cluster/{name}")));
            continue;
        }
        match way_into(hub, &cluster).await {
            Ok((url, client)) => {
                say(&format!("{name}: {url}"));
                members.push(Member { pods: Pods::of(client, &name, options), name });
            }
            Err(e) => {
                let way_out = format!("`tombolo join {name}` writes anew what the hub reaches it with");
                found.push(Finding::sick("connectivity", format!("{name} is left out: {e:#}"), way_out));
            }
        }
    }
    let (members, unusable) = swept(members).await;
    found.extend(unusable);
    Ok((members, found))
}

async fn way_into(hub: &Client, cluster: &Cluster) -> Result<(String, Client)> {
    let config = member::config(hub, cluster).await?;
    let client = client(&config, None).context("failed to set up its client")?;
    Ok((config.cluster_url.to_string(), client))
}

/// The members without what an earlier check left behind. Where that cannot be seen to, no pod could be made either.
async fn swept(members: Vec<Member>) -> (Vec<Member>, Vec<Finding>) {
    let swept = join_all(members.iter().map(|member| member.pods.sweep())).await;
    let (mut usable, mut found) = (Vec::new(), Vec::new());
    for (member, swept) in members.into_iter().zip(swept) {
        match swept {
            Ok(()) => usable.push(member),
            Err(e) => found.push(no_pod(&member.name, &e)),
        }
    }
    (usable, found)
}

async fn dialled(
    members: &[Member],
    options: &Options,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(Vec<Pair>, Vec<Finding>)> {
    say(&format!("starting a pod in each of {} members", members.len()));
    let listening = join_all(members.iter().map(|member| member.pods.listen(options))).await;
    let (mut addresses, mut found) = (BTreeMap::new(), Vec::new());
    for (member, listening) in members.iter().zip(listening) {
        match listening {
            Ok(at) => drop(addresses.insert(member.name.as_str(), at)),
            Err(e) => found.push(no_pod(&member.name, &e)),
        }
    }
    if addresses.len() < 2 {
        return Ok((Vec::new(), found));
    }
    say("dialling");
    let dialling = members.iter().filter(|member| addresses.contains_key(member.name.as_str()));
    let dialled = dialling.map(async |member| (member, from(member, &addresses, options).await));
    let mut pairs = Vec::new();
    for (member, dialled) in join_all(dialled).await {
        match dialled {
            Ok(of) => pairs.extend(of),
            Err(e) => found.push(no_pod(&member.name, &e)),
        }
    }
    pairs.sort_by(|a, b| (&a.from, &a.to, a.address).cmp(&(&b.from, &b.to, b.address)));
    Ok((pairs, found))
}

fn no_pod(member: &str, e: &anyhow::Error) -> Finding {
    let way_out = "see that the image can be pulled there (--image names another) and that the hub may make pods \
                   (`tombolo join --grant workloads`)";
    Finding::sick("connectivity", format!("no pod runs in {member}: {e:#}"), way_out)
}

/// What came of all that a member dials.
async fn from(
    member: &Member,
    addresses: &BTreeMap<&str, Vec<IpAddr>>,
    options: &Options,
) -> Result<Vec<Pair>> {
    let others = addresses.iter().filter(|(name, _)| **name != member.name);
    let peers: Vec<Peer> = others
        .flat_map(|(name, addresses)| {
            let peer = |address: &IpAddr| Peer {
                name: (*name).to_owned(),
                address: SocketAddr::new(*address, PORT),
            };
            addresses.iter().map(peer).collect::<Vec<_>>()
        })
        .collect();
    let mut pairs = Vec::new();
    for (number, peers) in peers.chunks(PEERS).enumerate() {
        let said = member.pods.dial(number, peers, options).await?;
        let outcomes = outcome::parse(&said);
        for peer in peers {
            let Some(outcome) = outcomes.get(peer) else {
                bail!("its pod says nothing of {}: {said}", peer.name)
            };
            pairs.push(Pair {
                from: member.name.clone(),
                to: peer.name.clone(),
                address: peer.address.ip(),
                outcome: outcome.clone(),
            });
        }
    }
    Ok(pairs)
}

/// What pairs mean.
fn findings(pairs: &[Pair]) -> Vec<Finding> {
    let mut found = Vec::new();
    for pair in pairs {
        let Pair { from, to, address, outcome } = pair;
        let ways = [("TCP", &outcome.tcp), ("UDP", &outcome.udp)];
        let failed: Vec<_> =
            ways.iter().filter_map(|(way, came)| Some((*way, came.as_ref().err()?.as_str()))).collect();
        let (severity, what) = match failed.as_slice() {
            [] => continue,
            [("UDP", why)] => (Severity::Doubtful, format!("by UDP, though by TCP they do: {why}")),
            [(way, why), ..] if failed.len() == 1 => (Severity::Sick, format!("by {way}: {why}")),
            [(_, why), ..] => (Severity::Sick, (*why).to_owned()),
        };
        let way_out = format!(
            "let packets from pods of {from} reach {address} in {to}, and answers back: look at routes, firewalls, tunnels and \
             NetworkPolicies between them"
        );
        let says = format!("pods of {from} do not reach pods of {to} at {address}: {what}");
        found.push(Finding { severity, about: "connectivity", says, way_out });
    }
    if found.is_empty() && !pairs.is_empty() {
        found.push(Finding::well("connectivity", format!("all {} ways between members work", pairs.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API server that answers by the path.
    fn answering(answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static) -> Client {
        let answer = move |request: Request<Body>| {
            let (code, body) = answer(request.uri().path());
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            std::future::ready(answer.map_err(std::io::Error::other))
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
            "message": message,
        });
        (code, status)
    }

    fn options() -> Options {
        let second = Duration::from_secs(1);
        Options { image: "i".into(), namespace: "n".into(), patience: second, timeout: second }
    }

    #[tokio::test]
    async fn a_member_whose_pods_may_not_be_seen_is_left_out_and_the_others_go_on() {
        let none = json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [] });
        let well = answering(move |_| (200, none.clone()));
        let narrow = answering(|_| refusal(403, "Forbidden", "pods is forbidden"));
        let member = |name: &str, client: Client| Member {
            name: name.to_owned(),
            pods: Pods::of(client, name, &options()),
        };
        let (usable, found) = swept(vec![member("a", narrow), member("b", well)]).await;
        assert_eq!(usable.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Sick);
        assert_eq!(found[0].says, "no pod runs in a: failed to list pods of a: pods is forbidden");
        assert!(found[0].way_out.contains("--grant workloads"));
    }

    #[tokio::test]
    async fn a_member_without_a_secret_is_a_finding_and_no_failure() {
        let spec = json!({
            "syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", "secretRef": { "namespace": "n", "name": "s" },
        });
        let hub = answering(move |path| match path.contains("secrets") {
            true => refusal(404, "NotFound", "there is none"),
            false => {
                let cluster = json!({
                    "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": "a" },
                    "spec": spec,
                });
                let kind = "ClusterList";
                (200, json!({ "apiVersion": "v1", "kind": kind, "metadata": {}, "items": [cluster] }))
            }
        });
        let (pairs, found) = dial(&hub, &options(), &|_| {}, &CancellationToken::new()).await.unwrap();
        assert!(pairs.is_empty());
        let said: Vec<_> = found.iter().map(|finding| (finding.severity, finding.says.as_str())).collect();
        assert!(said[0].1.starts_with("a is left out: Secret n/s, which spec.secretRef"), "{said:?}");
        assert_eq!(said[0].0, Severity::Sick);
        assert_eq!(said[1].1, "there is nothing to dial: 0 members answer");
    }

    fn pair(tcp: Result<Duration, &str>, udp: Result<Duration, &str>) -> Pair {
        let outcome = Outcome { tcp: tcp.map_err(ToOwned::to_owned), udp: udp.map_err(ToOwned::to_owned) };
        Pair { from: "a".into(), to: "b".into(), address: "10.0.0.1".parse().unwrap(), outcome }
    }

    #[test]
    fn a_pair_that_does_not_reach_each_other_is_named_with_the_way_out() {
        let fine = || Ok(Duration::from_millis(2));
        assert_eq!(findings(&[pair(fine(), fine())])[0].says, "all 1 ways between members work");
        let cut = findings(&[pair(Err("timed out"), Err("timed out")), pair(fine(), fine())]);
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0].severity, Severity::Sick);
        assert_eq!(cut[0].says, "pods of a do not reach pods of b at 10.0.0.1: timed out");
        assert!(cut[0].way_out.contains("let packets from pods of a reach 10.0.0.1 in b"));
        let udp = findings(&[pair(fine(), Err("no answer"))]);
        assert_eq!((udp.len(), udp[0].severity), (1, Severity::Doubtful));
        let tcp = findings(&[pair(Err("refused"), fine())]);
        assert!(tcp[0].severity == Severity::Sick && tcp[0].says.ends_with("by TCP: refused"), "{tcp:?}");
    }
}
