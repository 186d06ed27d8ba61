//! `tombolo export` and `tombolo unexport`: offers a Service to the other clusters, and takes that back.
//!
//! Against a member it writes that member's ServiceExport; against the hub ([`hub`]) all that policies need: export, import and a policy
//! for each. Which of both it is, the API server tells by the kinds that it serves.

mod hub;
mod progress;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
    core::ObjectMeta,
};

use self::progress::follow;
use super::{
    paint::{self, Progress, say},
    patience::patience,
    side::Side,
};
use crate::{
    api::{ServiceExport, mcs::Version, names::condition},
    decide::{
        copy::{Ownership, ownership},
        exchange::{export_kind, object_key},
        ids::{ClusterName, ServiceKey},
    },
    membership::write::words,
    shell::{
        client::{attended, client},
        connection::{self, Target},
    },
};

/// The field manager of what these commands write; it never changes between releases.
const MANAGER: &str = "tombolo-export";
/// Flags of `tombolo export`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    service: ServiceArgs,
    /// A cluster that exports it, as it is called on the hub; can be given several times, or with commas. On the hub only; without it those
    /// that the hub's Service goes to.
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    from: Vec<ClusterName>,
    /// A cluster that imports it; can be given several times, or with commas. On the hub only; without it all.
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    to: Vec<ClusterName>,
    /// Wait until all clusters that import it reach it; in a member, until it is offered to them.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    wait: bool,
    /// How long to wait: in seconds, or as in 90s or 2m.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = patience)]
    timeout: Duration,
}

/// Flags of `tombolo unexport`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct UnexportArgs {
    #[command(flatten)]
    service: ServiceArgs,
}

/// Flags that say which Service of which cluster is meant.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct ServiceArgs {
    /// The Service.
    #[arg(value_name = "SERVICE")]
    name: String,
    /// Its namespace; without it the context's.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// The kubeconfig of the hub or of a member; without it $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context; without it the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// What that cluster is, where it is both the hub and a member.
    #[arg(long, value_enum, value_name = "SIDE")]
    on: Option<Side>,
}

/// What is said of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    /// The type of the condition.
    what: String,
    holds: bool,
    reason: String,
    why: String,
}

/// A Service, and where it is.
struct Place {
    client: Client,
    /// Tells no warnings.
    quiet: Client,
    key: ServiceKey,
    side: Side,
}

/// Tells what admission warns of. What is not there yet is what these commands make next, or wait for and tell themselves.
fn warn(warning: &str) {
    if !warning.contains(" yet") {
        paint::warn(warning);
    }
}

// === impl Args ===

impl Args {
    /// Exports the Service, and tells how it goes.
    pub async fn run(self) -> Result<()> {
        let place = Progress::during("asking the cluster", self.service.find()).await?;
        let patience = self.wait.then_some(self.timeout);
        match place.side {
            Side::Hub => {
                Progress::during("asking the hub", hub::export(&place, &self.from, &self.to)).await?;
            }
            Side::Member => {
                ensure!(
                    self.from.is_empty() && self.to.is_empty(),
                    "--from and --to are the hub's to say, and this is a member: every cluster with the namespace imports what a member \
                     exports, unless the hub has a ServiceImport with a policy"
                );
                place.export().await?;
            }
        }
        let Some(patience) = patience else { return Ok(()) };
        Progress::during("waiting for the export", follow(&place, &self.from, &self.to, patience)).await
    }
}

// === impl UnexportArgs ===

impl UnexportArgs {
    /// Takes the export back.
    pub async fn run(self) -> Result<()> {
        Progress::during("asking the cluster", async {
            let place = self.service.find().await?;
            match place.side {
                Side::Hub => hub::unexport(&place).await,
                Side::Member => place.unexport().await,
            }
        })
        .await
    }
}

// === impl ServiceArgs ===

impl ServiceArgs {
    async fn find(&self) -> Result<Place> {
        let target =
            Target { kubeconfig: self.kubeconfig.as_deref(), context: self.context.as_deref(), prefix: "--" };
        let config = connection::way(target).await.context("failed to find the cluster")?;
        let namespace = self.namespace.as_deref().unwrap_or(&config.default_namespace);
        let key = ServiceKey::parse(namespace, &self.name);
        let key = key.with_context(|| format!("{namespace}/{} cannot be a Service", self.name))?;
        let quiet = client(&config, None).context("failed to set up the client")?;
        let client = attended(&config, warn).context("failed to set up the client")?;
        let Some(side) = Side::of(&client, self.on).await? else {
            bail!(
                "this cluster knows no ServiceExports: make it a member with `tombolo join`, or install the definitions with `tombolo \
                 crds --for member | kubectl apply --server-side --force-conflicts -f -`"
            );
        };
        Ok(Place { client, quiet, key, side })
    }
}

// === impl Place ===

impl Place {
    fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.key.namespace.as_str())
    }

    fn exports(&self) -> Api<ServiceExport> {
        // Every cluster that has the API serves this version of it; the newer one may be missing.
        Api::namespaced_with(self.client.clone(), self.key.namespace.as_str(), &Version::V1Alpha1)
    }

    /// The Service itself; none if it is not here. One that cannot be exported is refused.
    async fn service(&self) -> Result<Option<Service>> {
        let found = self.namespaced::<Service>().get_opt(self.key.name.as_str()).await.map_err(words);
        let found = found.with_context(|| format!("failed to read Service {}", self.key))?;
        let type_ = found.as_ref().and_then(|it| it.spec.as_ref()?.type_.as_deref());
        ensure!(
            type_ != Some("ExternalName"),
            "Service {} is of type ExternalName, which has no endpoints: it cannot be exported",
            self.key
        );
        Ok(found)
    }

    /// Exports a Service of a member.
    async fn export(&self) -> Result<()> {
        let key = &self.key;
        ensure!(
            self.service().await?.is_some(),
            "there is no Service {key} in this cluster: make it first, or name another with --namespace, --context or --kubeconfig"
        );
        let export = ServiceExport {
            version: Version::V1Alpha1,
            metadata: ObjectMeta {
                name: Some(key.name.to_string()),
                namespace: Some(key.namespace.to_string()),
                ..ObjectMeta::default()
            },
            ..ServiceExport::default()
        };
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match self.exports().create(&params, &export).await {
            Ok(_) => say(&format!("Service {key} is exported")),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                say(&format!("Service {key} is exported already"));
            }
            Err(e) => return Err(words(e)).with_context(|| format!("failed to export Service {key}")),
        }
        Ok(())
    }

    /// Takes the export of a member's Service back.
    async fn unexport(&self) -> Result<()> {
        let key = &self.key;
        let found = self.exports().get_opt(key.name.as_str()).await.map_err(words);
        let found = found.with_context(|| format!("failed to read ServiceExport {key}"))?;
        ensure!(
            !found.is_some_and(|found| is_copy(&found, key)),
            "ServiceExport {key} is the hub's copy, which puts it back if it is deleted here: take it back on the hub, with `tombolo \
             unexport {} -n {} --context HUB`; nothing was changed",
            key.name,
            key.namespace
        );
        match self.exports().delete(key.name.as_str(), &DeleteParams::default()).await {
            Ok(_) => say(&format!(
                "Service {key} is exported no more; clusters that import it lose its endpoints of this one"
            )),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                say(&format!("Service {key} is not exported"));
            }
            Err(e) => return Err(words(e)).with_context(|| format!("failed to delete ServiceExport {key}")),
        }
        Ok(())
    }

    /// What is said of the export by its own conditions.
    async fn said(&self) -> Result<Vec<Said>> {
        let key = &self.key;
        let export = self.exports().get_opt(key.name.as_str()).await.map_err(words);
        let export = export.with_context(|| format!("failed to read ServiceExport {key}"))?;
        let Some(export) = export else { bail!("ServiceExport {key} was deleted meanwhile") };
        let conditions = export.status.map(|status| status.conditions).unwrap_or_default();
        // Causes first.
        let known = [condition::VALID, condition::CONFLICT, condition::READY];
        let found = |what: &str| conditions.iter().find(|it| it.type_ == what);
        Ok(known.into_iter().filter_map(found).map(Said::of).collect())
    }
}

/// Whether a hub placed an export in a member, whichever hub that is.
fn is_copy(export: &ServiceExport, key: &ServiceKey) -> bool {
    let object = object_key(export_kind(), key);
    ownership(export.annotations(), &object, "") != Ownership::None
}

// === impl Said ===

impl Said {
    fn of(condition: &Condition) -> Self {
        Self {
            what: condition.type_.clone(),
            holds: condition.status == "True",
            reason: condition.reason.clone(),
            why: condition.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::names::annotation, decide::copy::Origin};

    #[test]
    fn an_export_that_a_hub_placed_is_told_from_ones_own() {
        let key = ServiceKey::parse("shop", "serve").unwrap();
        let object = object_key(export_kind(), &key);
        let origin = Origin { hub: "some-hub".into(), template: "1".into(), crd: None, object };
        let mut export = ServiceExport::default();
        assert!(!is_copy(&export, &key));
        export.annotations_mut().insert(annotation::ORIGIN.to_owned(), origin.text());
        assert!(is_copy(&export, &key));
        // A clone by another name proves nothing.
        assert!(!is_copy(&export, &ServiceKey::parse("shop", "other").unwrap()));
    }
}
