//! Several Clusters that lead to one API server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::{ByteString, api::core::v1::Secret, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use serde_json::json;
use tombolo::api::Cluster;
use tombolo_e2e::{bed::Bed, fleet, wait::until};

use super::ground::{
    OURS, PATIENCE, again, changes, condition, create_namespace, hub, maps, marks, place, put, stop, told,
    until_says,
};

/// Long enough for a Cluster to begin several sessions.
const A_WHILE: Duration = Duration::from_secs(8);

/// The copies in the member, by name: their UIDs.
async fn copies(bed: &Bed) -> Result<BTreeMap<String, Option<String>>> {
    let all = maps(&bed.member(1).client, "shop").list(&ListParams::default().labels(OURS)).await?;
    Ok(all.into_iter().map(|map| (map.name_any(), map.uid())).collect())
}

pub(crate) async fn a_second_cluster_for_one_api_server_is_refused_and_costs_no_copy(
    bed: Arc<Bed>,
) -> Result<()> {
    let first = hub(&bed, &[]).await?;
    fleet::register_all(&bed).await?;
    create_namespace(&bed.hub.client, "shop").await?;
    place(&bed.hub.client, "shop", "all", &["member1".to_owned()]).await?;
    for number in 0..5 {
        put(&bed.hub.client, "shop", &format!("object-{number}"), "all", "1").await?;
    }
    let member = &bed.member(1).client;
    for number in 0..5 {
        until_says(member, "shop", &format!("object-{number}"), "1").await?;
    }
    let (held, before) = (copies(&bed).await?, marks(&bed)?);
    let nothing_was_lost = async || {
        let mut lost = changes(&bed, &before)?;
        lost.retain(|(cluster, request)| cluster == "member1" && request.verb.starts_with("delete"));
        ensure!(lost.is_empty(), "it deleted: {}", told(&lost));
        let now = copies(&bed).await?;
        ensure!(now == held, "there were {held:?}, and there are {now:?}");
        Ok(())
    };

    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    // Of Clusters of one second the name decides.
    let made = clusters.get("member1").await?.creation_timestamp().context("it was made")?;
    until("a second lies between", PATIENCE, async || {
        ensure!(Timestamp::now().as_second() > made.0.as_second() + 1, "it does not");
        Ok(())
    })
    .await?;
    let secrets: Api<Secret> = Api::namespaced(bed.hub.client.clone(), "tombolo-system");
    let data = secrets.get("member1").await?.data;
    let metadata = ObjectMeta { name: Some("twins".to_owned()), ..ObjectMeta::default() };
    let own = Secret { metadata, data: data.clone(), ..Secret::default() };
    secrets.create(&PostParams::default(), &own).await?;
    for twin in ["aaa", "zzz"] {
        let cluster = serde_json::from_value(json!({
            "metadata": { "name": twin },
            "spec": {
                "syncMode": "Push", "apiEndpoint": bed.member(1).server,
                "secretRef": { "namespace": "tombolo-system", "name": "twins" },
            },
        }))?;
        clusters.create(&PostParams::default(), &cluster).await?;
    }
    let says_nothing = async || {
        let none = Patch::Merge(json!({ "status": { "conditions": [] } }));
        for twin in ["aaa", "zzz"] {
            clusters.patch_status(twin, &PatchParams::default(), &none).await?;
        }
        anyhow::Ok(())
    };
    let are_refused = async |for_what: &str| {
        for twin in ["aaa", "zzz"] {
            until(&format!("{twin} is refused"), PATIENCE, async || {
                let (truth, reason, _) = condition(&bed.hub.client, twin).await?;
                ensure!(truth == "False" && reason == for_what, "it says {truth} {reason}");
                Ok(())
            })
            .await?;
        }
        tokio::time::sleep(A_WHILE).await;
        nothing_was_lost().await
    };
    are_refused("ClusterDuplicated").await?;

    stop(first).await?;
    says_nothing().await?;
    let second = again(&bed, &[]).await?;
    put(&bed.hub.client, "shop", "object-0", "all", "2").await?;
    until_says(member, "shop", "object-0", "2").await?;
    are_refused("ClusterDuplicated").await?;

    // The one that has it does not answer: whoever may be the same waits.
    stop(second).await?;
    says_nothing().await?;
    let token = |data: &Option<BTreeMap<String, ByteString>>| Patch::Merge(json!({ "data": data }));
    let mut expired = data.clone();
    expired.iter_mut().flatten().for_each(|(key, value)| {
        if key == "token" {
            *value = ByteString(b"expired".to_vec());
        }
    });
    secrets.patch("member1", &PatchParams::default(), &token(&expired)).await?;
    let _third = again(&bed, &[]).await?;
    are_refused("ClusterNotIdentified").await?;
    secrets.patch("member1", &PatchParams::default(), &token(&data)).await?;
    fleet::until_ready(&bed.hub.client, "member1", "True").await?;
    are_refused("ClusterDuplicated").await?;

    // The one that is too many goes, and takes nothing along.
    clusters.delete("aaa", &DeleteParams::default()).await?;
    until("it is gone", PATIENCE, async || {
        ensure!(clusters.get_opt("aaa").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    nothing_was_lost().await?;
    put(&bed.hub.client, "shop", "object-1", "all", "2").await?;
    until_says(member, "shop", "object-1", "2").await
}

pub(crate) async fn a_cluster_by_hand_that_leads_to_the_hub_or_to_another_hubs_member_is_refused(
    bed: Arc<Bed>,
) -> Result<()> {
    let _hub = hub(&bed, &[]).await?;
    let (kubectl, member) = (bed.kubectl("member1"), &bed.member(1).client);
    create_namespace(member, "tombolo-system").await?;
    let marks_it = ["--from-literal=hub=another0", "--from-literal=cluster=theirs"];
    kubectl
        .run(&[&["-n", "tombolo-system", "create", "configmap", "tombolo-member"], &marks_it[..]].concat())?;
    create_namespace(&bed.hub.client, "shop").await?;
    create_namespace(member, "shop").await?;
    place(&bed.hub.client, "shop", "all", &[]).await?;
    put(&bed.hub.client, "shop", "object", "all", "1").await?;
    let before = marks(&bed)?;
    // Its Secret of that name has the hub's id.
    fleet::register_by(&bed, &bed.hub, "to-itself", &json!({})).await?;
    fleet::register(&bed, bed.member(1), &json!({})).await?;
    for (name, why) in [("hub", "ClusterIsHub"), ("member1", "ClusterOfAnotherHub")] {
        until(&format!("{name} is refused"), PATIENCE, async || {
            let (truth, reason, _) = condition(&bed.hub.client, name).await?;
            ensure!(truth == "False" && reason == why, "it says {truth} {reason}");
            Ok(())
        })
        .await?;
    }
    tokio::time::sleep(A_WHILE).await;
    let clusters: Api<Cluster> = Api::all(bed.hub.client.clone());
    let status = clusters.get("member1").await?.status.unwrap_or_default();
    let says_how = status.conditions.iter().any(|it| it.message.contains("tombolo join member1 --take-over"));
    ensure!(says_how, "it says {status:?}");
    let mut written = changes(&bed, &before)?;
    written.retain(|(cluster, request)| cluster != "hub" || request.object_ref.name == "object");
    ensure!(written.is_empty(), "it wrote: {}", told(&written));
    // The hub itself goes as a member without ado, and is not touched.
    clusters.delete("hub", &DeleteParams::default()).await?;
    until("it is gone", PATIENCE, async || {
        ensure!(clusters.get_opt("hub").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let object = maps(&bed.hub.client, "shop").get("object").await?;
    ensure!(!object.labels().contains_key(OURS), "{object:?}");
    Ok(())
}
