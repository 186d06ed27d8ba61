//! While the webhook does not answer.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::json;
use tombolo_e2e::{
    bed::{Bed, Spec},
    process::Identity,
    wait::until,
};

use crate::said::{PATIENCE, ask, run};

/// On a bed of its own: nobody else could write a policy meanwhile.
pub(crate) async fn without_the_webhook_services_are_made_and_policies_are_refused(
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
    tokio::task::spawn_blocking(move || drop(bed)).await.map_err(Into::into)
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
