//! `tombolo join`: makes a cluster a member of the hub.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Error, Result, anyhow};
use kube::Client;

use super::paint::{self, Progress};
use crate::{
    api::names::object,
    decide::{ids::ClusterName, select::labels},
    membership::{
        agent,
        grant::{self, Grant, Preset},
        join::{Agent, Ends, Request, join},
        report,
    },
    shell::{
        client::client,
        connection::{self, Target},
    },
};

/// How long the hub may take to report.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `tombolo join`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// The member's name on the hub.
    #[arg(value_name = "NAME")]
    name: ClusterName,
    /// The member's kubeconfig, with an administrator's rights; without it $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The member's context; without it the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    hub: HubArgs,
    /// A label of the member, for placement; can be given several times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Where the member is, for placement.
    #[arg(long)]
    region: Option<String>,
    /// A zone that the member is in, for placement; can be given several times.
    #[arg(long = "zone", value_name = "ZONE")]
    zones: Vec<String>,
    /// Who runs the member, for placement.
    #[arg(long)]
    provider: Option<String>,
    /// What the hub may do there: services, workloads, all, or a file with rules of your own, which are added to services or to
    /// what another --grant names. Without it workloads, or what was granted before.
    #[arg(long = "grant", value_name = "services|workloads|all|FILE")]
    grants: Vec<String>,
    /// Do not install the Multi-Cluster Services API's definitions.
    #[arg(long)]
    skip_crds: bool,
    /// Take the member from another hub.
    #[arg(long)]
    take_over: bool,
    /// Where the hub reaches the member's API server, if not where the kubeconfig says.
    #[arg(long, value_name = "URL")]
    api_endpoint: Option<String>,
    /// What becomes of the agent's manifests.
    #[arg(long, value_enum, default_value_t = Agent::Deploy)]
    agent: Agent,
    /// The agent's image.
    #[arg(long, default_value = agent::IMAGE, value_name = "IMAGE")]
    agent_image: String,
    /// Wait until the hub says that the member is ready.
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    wait: bool,
}

/// Flags that say where the hub is.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct HubArgs {
    /// The hub's kubeconfig; without it $KUBECONFIG, ~/.kube/config or the pod's own service account.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: Option<PathBuf>,
    /// The hub's context; without it the current one.
    #[arg(long, value_name = "NAME")]
    hub_context: Option<String>,
    /// Tombolo's own namespace on the hub.
    #[arg(long, default_value = object::NAMESPACE, value_name = "NAME")]
    hub_namespace: String,
}

// === impl Args ===

impl Args {
    /// Joins, and waits for the hub's word if it is asked for.
    pub async fn run(self) -> Result<()> {
        let print = self.agent == Agent::Print;
        // What is printed for `kubectl apply` is not to be mixed with what is told.
        let say = move |line: &str| if print { paint::note(line) } else { paint::say(line) };
        let (grant, wait) = (grant_of(&self.grants)?, self.wait);
        let ends = self.ends().await?;
        let request = self.request(grant);
        let what = format!("making {} a member", request.name);
        Progress::during(&what, join(&ends, &request, &say)).await?;
        if print {
            paint::print(&agent::yaml(&agent::manifests(&request.agent_image))?)?;
        }
        let name = &request.name;
        if let Err(why) = report::running(&ends.hub, &request.hub_namespace).await? {
            say(&format!("{name} joined; no hub runs ({why}): it is ready when one does"));
        } else if wait {
            let what = format!("waiting until the hub says that {name} is ready");
            let ready = report::ready(&ends.hub, name.as_str(), PATIENCE);
            say(&match Progress::during(&what, ready).await? {
                Ok(()) => format!("{name} joined and is ready"),
                Err(why) => format!("{name} joined; the hub has not reported that it is ready yet: {why}"),
            });
        } else {
            say(&format!("{name} joined"));
        }
        Ok(())
    }

    /// What is wrong with the command line, though each word of it may be.
    pub fn fault(&self) -> Option<String> {
        preset_of(&self.grants).err()
    }

    async fn ends(&self) -> Result<Ends> {
        let hub = self.hub.connect().await?;
        let member =
            Target { kubeconfig: self.kubeconfig.as_deref(), context: self.context.as_deref(), prefix: "--" };
        let way = connection::way(member).await.context("failed to find the member")?;
        let member = client(&way, None).context("failed to set up the member's client")?;
        Ok(Ends { hub, member, way })
    }

    fn request(self, grant: Option<Grant>) -> Request {
        Request {
            grant,
            name: self.name,
            labels: self.labels.into_iter().collect(),
            provider: self.provider,
            region: self.region,
            zones: self.zones,
            api_endpoint: self.api_endpoint,
            skip_crds: self.skip_crds,
            take_over: self.take_over,
            agent: self.agent,
            agent_image: self.agent_image,
            hub_namespace: self.hub.hub_namespace,
        }
    }
}

// === impl HubArgs ===

impl HubArgs {
    async fn connect(&self) -> Result<Client> {
        let target = Target {
            kubeconfig: self.hub_kubeconfig.as_deref(),
            context: self.hub_context.as_deref(),
            prefix: "--hub-",
        };
        let config = connection::way(target).await.context("failed to find the hub")?;
        client(&config, None).context("failed to set up the hub's client")
    }
}

/// A label as one writes it.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    match labels::key_fault_of("a label", key).or_else(|| labels::value_fault_of("a label", value)) {
        Some(fault) => Err(fault),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}

/// What several --grant say together; nothing if there is none.
fn grant_of(given: &[String]) -> Result<Option<Grant>> {
    let preset = preset_of(given).map_err(Error::msg)?.unwrap_or(Preset::Services);
    let mut extra = Vec::new();
    for file in given.iter().filter(|text| Preset::named(text).is_none()) {
        extra.extend(rules(Path::new(file))?);
    }
    Ok((!given.is_empty()).then_some(Grant { preset, extra }))
}

/// The one that is named of those that there are.
fn preset_of(given: &[String]) -> Result<Option<Preset>, String> {
    let mut named = given.iter().filter_map(|text| Preset::named(text));
    let first = named.next();
    match named.all(|other| Some(other) == first) {
        true => Ok(first),
        false => Err("--grant: name one of services, workloads and all".to_owned()),
    }
}

fn rules(path: &Path) -> Result<Vec<k8s_openapi::api::rbac::v1::PolicyRule>> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("--grant: {shown} is none of services, workloads and all, and no file"))?;
    grant::read(&text).map_err(|why| anyhow!("--grant: {shown}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_add_up() {
        let given =
            |words: &[&str]| grant_of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&[]).unwrap(), None);
        assert_eq!(given(&["all"]).unwrap().unwrap().preset, Preset::All);
        let file = std::env::temp_dir().join(format!("tombolo-grant-{}.yaml", std::process::id()));
        fs::write(&file, "- {apiGroups: [a.example], resources: [bs], verbs: [get]}").unwrap();
        let path = file.to_str().unwrap();
        let alone = given(&[path]).unwrap().unwrap();
        assert_eq!((alone.preset, alone.extra.len()), (Preset::Services, 1));
        assert_eq!(given(&[path, "workloads"]).unwrap().unwrap().preset, Preset::Workloads);
        fs::remove_file(&file).unwrap();
        let said = |words: &[&str]| format!("{:#}", given(words).unwrap_err());
        assert_eq!(said(&["all", "services"]), "--grant: name one of services, workloads and all");
        assert!(
            said(&["most"]).starts_with("--grant: most is none of services, workloads and all, and no file")
        );
    }

    #[test]
    fn labels_are_checked_before_anything_is_done() {
        assert_eq!(label("a/b=c"), Ok(("a/b".to_owned(), "c".to_owned())));
        for bad in ["a", "=b", "a b=c", "a=b c"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
