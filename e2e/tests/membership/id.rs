//! By which id a cluster is a member.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use kube::Api;
use serde_json::json;
use tombolo::api::Cluster;
use tombolo_e2e::{bed::Bed, wait::until};

use super::refused;

const PATIENCE: Duration = Duration::from_secs(60);
const PROPERTY: &str = "clusterproperty/cluster.clusterset.k8s.io";

pub(super) async fn k1_an_id_that_a_user_gave_stays_though_its_property_is_deleted(
    bed: Arc<Bed>,
) -> Result<()> {
    let member = bed.kubectl("member9");
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let approved =
        json!({ "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/2149" });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "clusterproperties.about.k8s.io", "annotations": approved },
        "spec": {
            "group": "about.k8s.io", "scope": "Cluster",
            "names": { "kind": "ClusterProperty", "plural": "clusterproperties", "singular": "clusterproperty" },
            "versions": [{ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    member.apply(&definition.to_string())?;
    member.run(&["wait", "--for=condition=Established", "crd/clusterproperties.about.k8s.io"])?;
    let says = |value: &str| {
        json!({ "apiVersion": "about.k8s.io/v1beta1", "kind": "ClusterProperty",
                "metadata": { "name": "cluster.clusterset.k8s.io" }, "spec": { "value": value } })
        .to_string()
    };
    member.apply(&says("Not_An_Id"))?;
    let complaint = refused(&bed, &["join", "member9", "--context", "member9"]).await?;
    ensure!(complaint.contains("says \"Not_An_Id\", which is no id"), "it said {complaint}");

    member.apply(&says("blue"))?;
    bed.join("member9", &["--wait=false"]).await?;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    ensure!(clusters.get("member9").await?.spec.id.as_deref() == Some("blue"), "its id is another");
    let value = ["get", PROPERTY, "-o", "jsonpath={.spec.value}"];
    ensure!(member.run(&value)? == "blue", "it is the user's");
    member.run(&["delete", PROPERTY])?;
    until("the property is there again", PATIENCE, async || {
        let found = member.run(&value)?;
        ensure!(found == "blue", "it says {found}");
        Ok(())
    })
    .await?;
    bed.join("member9", &["--wait=false"]).await.map(drop)
}
