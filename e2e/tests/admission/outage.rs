//! While the webhook does not answer, and before it does.

use std::{fs, sync::Arc, time::Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    bed::{Bed, Spec},
    kubectl::Kubectl,
    process::Identity,
    tombolo::binary,
    tools::Tool,
    wait::until,
};

use crate::said::{PATIENCE, ask, run};

/// On a bed of its own: nobody else could write a policy meanwhile.
pub(crate) async fn without_the_webhook_services_are_made_policies_are_refused_and_deleted(
    _: Arc<Bed>,
) -> Result<()> {
    let bed = Bed::start(Spec::api(0), None).await?;
    let hub = bed.hub_process().and_then(|hub| Identity::of(hub.pid())).context("the bed has a hub")?;

    // It hangs: the API server waits for as long as the configuration says, and no longer.
    hub.signal(Signal::STOP);
    write(&bed, "hung", "context deadline exceeded").await?;

    hub.signal(Signal::CONT);
    until("policies are admitted again", PATIENCE, async || {
        run(&bed, &["create", "-f", "-"], policy("back")).await
    })
    .await?;

    // It is gone.
    hub.signal(Signal::KILL);
    until("the hub is gone", PATIENCE, async || {
        ensure!(!hub.is_alive(), "it is still there");
        Ok(())
    })
    .await?;
    write(&bed, "gone", "connection refused").await?;

    // What Tombolo itself writes does not need its webhook.
    let own = bed.dir().join("state/hub/tombolo-hub.kubeconfig");
    let manifest = bed.dir().join("state/own.json");
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": { "name": "own" },
        "spec": { "syncMode": "Push" },
    });
    fs::write(&manifest, cluster.to_string())?;
    let kubectl = Kubectl::new(bed.tools.path(Tool::Kubectl), own);
    kubectl.run(&["create", "-f", &manifest.to_string_lossy()]).context("as Tombolo's hub")?;

    // What is only warned about can be deleted, with a namespace or without; what may be refused cannot.
    bed.kubectl("hub").run(&["delete", "propagationpolicy", "back"])?;
    let refused = bed.kubectl("hub").run(&["delete", "cluster", "own"]);
    let refused = format!("{:#}", refused.err().context("a Cluster was deleted that nobody looked at")?);
    ensure!(refused.contains("connection refused"), "{refused}");
    tokio::task::spawn_blocking(move || drop(bed)).await.map_err(Into::into)
}

/// A hub on an API server that does not know its kinds yet cannot have read them.
pub(crate) async fn a_hub_is_ready_only_when_it_has_read_every_kind(_: Arc<Bed>) -> Result<()> {
    let bed = Bed::start(Spec::api(0).bare(), None).await?;
    let program = tokio::task::spawn_blocking(binary).await??;
    let log = bed.dir().join("logs/hub/tombolo-hub.log");
    let prepare = async {
        until("the hub has tried to read policies", PATIENCE, async || {
            let said = fs::read_to_string(&log)?;
            ensure!(
                said.contains("the watch broke") && said.contains("clusterpropagationpolicies"),
                "{said}"
            );
            Ok(())
        })
        .await?;
        bed.prepare_hub()?;
        anyhow::Ok(Instant::now())
    };
    let start = async {
        let hub = bed.start_hub(&program, "tombolo-hub", &[]).await?;
        anyhow::Ok((hub, Instant::now()))
    };
    let (prepared, (hub, ready)) = futures::try_join!(prepare, start)?;
    ensure!(prepared < ready, "it was ready before its kinds were there");
    tokio::task::spawn_blocking(move || drop((hub, bed))).await.map_err(Into::into)
}

async fn write(bed: &Bed, name: &str, why: &str) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] },
    });
    run(bed, &["create", "-f", "-"], &service).await.context("Services do not depend on Tombolo")?;
    let said = ask(bed, &["create", "-f", "-"], policy(name)).await?;
    ensure!(!said.done, "a policy was stored that nobody had checked: {}", said.text);
    let expected =
        said.text.contains("failed calling webhook \"mutate.tombolo.dev\"") && said.text.contains(why);
    ensure!(expected, "another error than {why}: {}", said.text);
    Ok(())
}

fn policy(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": { "name": name },
        "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": name }] },
    })
}
