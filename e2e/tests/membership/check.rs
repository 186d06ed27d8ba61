//! `tombolo check`, on clusters that are well and on ones that are not.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tombolo_e2e::{
    bed::{Bed, Spec},
    wait::until,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the check of a cluster, which must be well or not, and say all that.
async fn says(bed: &Bed, cluster: &str, well: bool, words: &[&str]) -> Result<()> {
    let output = bed.tombolo(&["check", "--context", cluster]).await?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success() == well, "{cluster} is not as expected: {said}");
    for words in words {
        ensure!(said.contains(words), "{cluster} does not say {words:?}: {said}");
    }
    Ok(())
}

pub(super) async fn a_check_names_what_is_amiss_and_what_to_do(_: Arc<Bed>) -> Result<()> {
    let bed = Arc::new(Bed::start(Spec::api(1).joined(), None).await?);
    let (hub, member) = (bed.kubectl("hub"), bed.kubectl("member1"));
    let well =
        ["✓ hub: it runs", "✓ admission: a policy with a mistake is refused", "✓ members: all 1 are well"];
    until("the hub is well", PATIENCE, async || says(&bed, "hub", true, &well).await).await?;
    let well = [
        "✓ agent: it runs",
        "✓ rights: ",
        "✓ membership: it is member1 of hub ",
        "! DNS: there is no ConfigMap",
    ];
    says(&bed, "member1", true, &well).await?;

    // In the member: a right is taken away, another controller comes, and DNS does not know the zone, then does.
    member.run(&["-n", "tombolo-system", "delete", "rolebinding/tombolo-hub"])?;
    let less = json!([{ "op": "remove", "path": "/rules/0" }]).to_string();
    member.run(&["patch", "clusterrole/tombolo-hub", "--type=json", "-p", &less])?;
    member.run(&["create", "deployment", "submariner-lighthouse-agent", "--image=none.example/none"])?;
    member.run(&[
        "-n",
        "kube-system",
        "create",
        "configmap",
        "coredns",
        "--from-literal=Corefile=.:53 {}",
    ])?;
    let sick = [
        "✗ rights: ServiceAccount tombolo-system/tombolo-hub may not ",
        "✗ rights: ServiceAccount tombolo-system/tombolo-hub may not get leases of coordination.k8s.io in namespace tombolo-system",
        "✗ controllers: Submariner's Lighthouse (Deployment default/submariner-lighthouse-agent)",
        "! DNS: CoreDNS does not answer clusterset.local",
        "3 things do not work",
    ];
    // The API server learns of changed rights a moment later.
    until("the member is sick", PATIENCE, async || says(&bed, "member1", false, &sick).await).await?;
    let zone = json!({ "data": { "Corefile": ".:53 {\n  multicluster clusterset.local\n}" } }).to_string();
    member.run(&["-n", "kube-system", "patch", "configmap/coredns", "--type=merge", "-p", &zone])?;
    member.run(&["-n", "kube-system", "create", "serviceaccount", "coredns"])?;
    let sick = "✗ DNS: CoreDNS is told to answer clusterset.local and cannot (SERVFAIL): ServiceAccount kube-system/coredns may not list \
                serviceimports of multicluster.x-k8s.io";
    says(&bed, "member1", false, &[sick, "docs/dns.md"]).await?;
    let read = "--resource=serviceimports.multicluster.x-k8s.io,endpointslices.discovery.k8s.io,namespaces";
    member.run(&["create", "clusterrole", "dns", "--verb=list,watch", read])?;
    let account = "--serviceaccount=kube-system:coredns";
    member.run(&["create", "clusterrolebinding", "dns", "--clusterrole=dns", account])?;
    let well = ["✓ DNS: CoreDNS answers clusterset.local"];
    until("its DNS is well", PATIENCE, async || says(&bed, "member1", false, &well).await).await?;

    // On the hub: an account without rights, and a member that is not there, whose pods have the addresses of the other's.
    hub.run(&["-n", "tombolo-system", "create", "serviceaccount", "tombolo-hub"])?;
    hub.run(&["annotate", "cluster/member1", "tombolo.dev/pod-cidrs=10.9.0.0/16"])?;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "gone", "namespace": "tombolo-system" },
                         "stringData": { "token": "none" } });
    let spec = json!({ "syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", "insecureSkipTLSVerification": true,
                       "secretRef": { "namespace": "tombolo-system", "name": "gone" } });
    let annotations = json!({ "tombolo.dev/pod-cidrs": "10.9.8.0/24" });
    let cluster = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                          "metadata": { "name": "gone", "annotations": annotations }, "spec": spec });
    hub.apply(&secret.to_string())?;
    hub.apply(&cluster.to_string())?;
    let sick = [
        "✗ members: gone: Ready is ",
        "! pod networks: ",
        "gone",
        "✗ rights: ServiceAccount tombolo-system/tombolo-hub may not get clusters of cluster.karmada.io",
        "✗ rights: ServiceAccount tombolo-system/tombolo-hub may not create leases of coordination.k8s.io in namespace tombolo-system",
    ];
    until("the hub has a sick member", PATIENCE, async || says(&bed, "hub", false, &sick).await).await?;
    tokio::task::spawn_blocking(move || drop(bed)).await.context("the bed did not end")
}
