//! Beds without nodes: what every later test stands on. No root is needed.

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{ConfigMap, Namespace, Pod, Secret, Service, ServiceAccount},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    core::ObjectMeta,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tombolo_e2e::{
    bed::{Bed, Spec},
    control_plane::ControlPlane,
    suite, tests,
    wait::until,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    suite::run(
        Spec::api(2),
        tests![
            a_deployment_on_the_hub_stays_a_template,
            a_pod_gets_its_service_account_by_admission,
            an_authority_of_one_cluster_is_worth_nothing_in_another,
            an_owned_object_on_the_hub_goes_with_its_owner,
            a_namespace_deleted_on_the_hub_goes_away,
            a_service_account_has_no_rights_until_it_is_given_some,
            the_same_name_in_two_clusters_is_two_objects,
            tombolos_hub_and_agents_run_and_say_so_in_their_logs,
            two_beds_at_once_do_not_disturb_each_other,
            with_dual_stack_services_have_two_families_and_the_last_member_only_ipv6,
        ],
    )
}

fn object<T: DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    serde_json::from_value(value).context("a manifest of this test is wrong")
}

async fn namespace(cluster: &ControlPlane, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.create(&PostParams::default(), &object(json!({ "metadata": { "name": name } }))?).await?;
    // What controllers give every namespace; pods are refused before.
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), name);
    until(&format!("{name} has its default service account"), PATIENCE, async || {
        Ok(accounts.get("default").await?)
    })
    .await
    .map(drop)
}

fn deployment() -> Result<Deployment> {
    object(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "example.invalid/web:1" }] },
            },
        },
    }))
}

async fn a_deployment_on_the_hub_stays_a_template(bed: Arc<Bed>) -> Result<()> {
    for cluster in [&bed.hub, bed.member(1)] {
        namespace(cluster, "templates").await?;
        let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "templates");
        deployments.create(&PostParams::default(), &deployment()?).await?;
    }
    let sets =
        |cluster: &ControlPlane| -> Api<ReplicaSet> { Api::namespaced(cluster.client.clone(), "templates") };
    let in_member = sets(bed.member(1));
    until("the member's Deployment has a ReplicaSet", PATIENCE, async || {
        ensure!(!in_member.list(&ListParams::default()).await?.items.is_empty(), "none yet");
        Ok(())
    })
    .await?;
    let in_hub = sets(&bed.hub).list(&ListParams::default()).await?.items;
    ensure!(in_hub.is_empty(), "the hub made a ReplicaSet of a template");
    Ok(())
}

async fn a_namespace_deleted_on_the_hub_goes_away(bed: Arc<Bed>) -> Result<()> {
    namespace(&bed.hub, "short-lived").await?;
    let maps: Api<ConfigMap> = Api::namespaced(bed.hub.client.clone(), "short-lived");
    maps.create(&PostParams::default(), &object(json!({ "metadata": { "name": "content" } }))?).await?;
    let namespaces: Api<Namespace> = Api::all(bed.hub.client.clone());
    namespaces.delete("short-lived", &DeleteParams::default()).await?;
    until("the namespace is gone", PATIENCE, async || {
        ensure!(namespaces.get_opt("short-lived").await?.is_none(), "it is still there");
        Ok(())
    })
    .await
}

async fn an_owned_object_on_the_hub_goes_with_its_owner(bed: Arc<Bed>) -> Result<()> {
    namespace(&bed.hub, "owners").await?;
    let maps: Api<ConfigMap> = Api::namespaced(bed.hub.client.clone(), "owners");
    let owner =
        maps.create(&PostParams::default(), &object(json!({ "metadata": { "name": "owner" } }))?).await?;
    let reference =
        json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid }]);
    let owned = json!({ "metadata": { "name": "owned", "ownerReferences": reference } });
    maps.create(&PostParams::default(), &object(owned)?).await?;
    maps.delete("owner", &DeleteParams::default()).await?;
    until("the owned object is collected", PATIENCE, async || {
        ensure!(maps.get_opt("owned").await?.is_none(), "it is still there");
        Ok(())
    })
    .await
}

async fn a_pod_gets_its_service_account_by_admission(bed: Arc<Bed>) -> Result<()> {
    let member = bed.member(1);
    namespace(member, "admitted").await?;
    let pods: Api<Pod> = Api::namespaced(member.client.clone(), "admitted");
    let pod = json!({
        "metadata": { "name": "plain" },
        "spec": { "containers": [{ "name": "one", "image": "example.invalid/one:1" }] },
    });
    let spec = pods.create(&PostParams::default(), &object(pod)?).await?.spec.context("a pod has a spec")?;
    ensure!(spec.service_account_name.as_deref() == Some("default"), "got {:?}", spec.service_account_name);
    let tolerations = spec.tolerations.unwrap_or_default();
    ensure!(
        tolerations.iter().any(|t| t.key.as_deref() == Some("node.kubernetes.io/not-ready")),
        "no tolerations"
    );
    Ok(())
}

/// A client that shows a service account's token and trusts a given authority.
async fn token_client(cluster: &ControlPlane, authority: &str, token: &str) -> Result<Client> {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{ "name": "it", "cluster": {
            "server": cluster.server, "certificate-authority-data": k8s_openapi::ByteString(authority.as_bytes().to_vec()),
        } }],
        "users": [{ "name": "it", "user": { "token": token } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
    });
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig.to_string())?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Gives a service account of the default namespace a lasting token, as `tombolo join` will.
async fn token(cluster: &ControlPlane, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "default");
    accounts.create(&PostParams::default(), &object(json!({ "metadata": { "name": account } }))?).await?;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "default");
    let annotations = BTreeMap::from([("kubernetes.io/service-account.name", account)]);
    let secret = json!({
        "metadata": { "name": account, "annotations": annotations },
        "type": "kubernetes.io/service-account-token",
    });
    secrets.create(&PostParams::default(), &object(secret)?).await?;
    until("the token controller fills the Secret", PATIENCE, async || {
        let data = secrets.get(account).await?.data.unwrap_or_default();
        Ok(String::from_utf8(data.get("token").context("no token yet")?.0.clone())?)
    })
    .await
}

async fn a_service_account_has_no_rights_until_it_is_given_some(bed: Arc<Bed>) -> Result<()> {
    for cluster in bed.clusters() {
        let token = token(cluster, "nobody").await?;
        let client = token_client(cluster, &cluster.authority.certificate, &token).await?;
        let secrets: Api<Secret> = Api::all(client);
        let refused = secrets.list(&ListParams::default()).await.err().context("it may read all Secrets")?;
        ensure!(matches!(&refused, kube::Error::Api(status) if status.is_forbidden()), "{refused}");
    }
    Ok(())
}

async fn an_authority_of_one_cluster_is_worth_nothing_in_another(bed: Arc<Bed>) -> Result<()> {
    let (one, other) = (bed.member(1), bed.member(2));
    let client = token_client(one, &other.authority.certificate, "unused").await?;
    let refused = client
        .apiserver_version()
        .await
        .err()
        .context("member1 showed a certificate of member2's authority")?;
    let text = format!("{:#}", anyhow::Error::from(refused));
    ensure!(text.to_lowercase().contains("certificate"), "another error than expected: {text}");
    Ok(())
}

async fn the_same_name_in_two_clusters_is_two_objects(bed: Arc<Bed>) -> Result<()> {
    for (cluster, value) in bed.clusters().zip(["zero", "one", "two"]) {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some("same".to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
            ..ConfigMap::default()
        };
        maps.create(&PostParams::default(), &map).await?;
    }
    for (cluster, value) in bed.clusters().zip(["zero", "one", "two"]) {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
        let data = maps.get("same").await?.data.unwrap_or_default();
        ensure!(data["value"] == value, "{} has {data:?}", cluster.name);
    }
    Ok(())
}

async fn tombolos_hub_and_agents_run_and_say_so_in_their_logs(bed: Arc<Bed>) -> Result<()> {
    for log in ["hub/tombolo-hub", "member1/tombolo-agent", "member2/tombolo-agent"] {
        let text = std::fs::read_to_string(bed.dir().join(format!("logs/{log}.log")))?;
        ensure!(text.contains("connected") && text.contains("v1.36."), "{log}: {text}");
    }
    Ok(())
}

async fn two_beds_at_once_do_not_disturb_each_other(bed: Arc<Bed>) -> Result<()> {
    let second = Bed::start(Spec::api(1).bare(), None).await?;
    let maps = |bed: &Bed| -> Api<ConfigMap> { Api::namespaced(bed.hub.client.clone(), "default") };
    let map: ConfigMap = object(json!({ "metadata": { "name": "only-in-the-second-bed" } }))?;
    maps(&second).create(&PostParams::default(), &map).await?;
    ensure!(maps(&bed).get_opt("only-in-the-second-bed").await?.is_none(), "it is in the first bed as well");
    let folder = second.dir().to_owned();
    tokio::task::spawn_blocking(move || drop(second)).await?;
    ensure!(!folder.exists(), "{} is still there", folder.display());
    for cluster in bed.clusters() {
        cluster.client.apiserver_version().await.context("the first bed went with the second")?;
    }
    Ok(())
}

async fn with_dual_stack_services_have_two_families_and_the_last_member_only_ipv6(_: Arc<Bed>) -> Result<()> {
    let bed = Bed::start(Spec { dual_stack: true, ..Spec::api(2) }.bare(), None).await?;
    let service: Service = object(json!({
        "metadata": { "name": "both" },
        "spec": { "ipFamilyPolicy": "PreferDualStack", "ports": [{ "port": 80 }] },
    }))?;
    for (member, families) in [(bed.member(1), &["IPv4", "IPv6"][..]), (bed.member(2), &["IPv6"])] {
        let services: Api<Service> = Api::namespaced(member.client.clone(), "default");
        let spec = services.create(&PostParams::default(), &service).await?.spec.unwrap_or_default();
        let given = spec.ip_families.unwrap_or_default();
        ensure!(given == families, "{} gives {given:?} instead of {families:?}", member.name);
    }
    tokio::task::spawn_blocking(move || drop(bed)).await?;
    Ok(())
}
