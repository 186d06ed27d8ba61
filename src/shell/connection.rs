//! The connection to one API server: found by a kubeconfig or from inside a pod, checked for its version, watched.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{client, health::Part};

/// Between two looks at the API server.
const INTERVAL: Duration = Duration::from_secs(2);
/// What one look may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The oldest Kubernetes that works: `trafficDistribution` is on from there.
const OLDEST: Version = Version { major: 1, minor: 31 };

/// Flags of the connection.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Path of a kubeconfig; without it $KUBECONFIG, ~/.kube/config or the pod's own service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without it the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which cluster is meant, and by which flags it was named.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Path of a kubeconfig, if one was given.
    pub kubeconfig: Option<&'a Path>,
    /// Context, if one was given.
    pub context: Option<&'a str>,
    /// What the flags are called before `kubeconfig` and `context`, for messages.
    pub prefix: &'static str,
}

/// A Kubernetes version, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    major: u32,
    minor: u32,
}

/// Keeps looking at the API server and says whether it answers, for as long as it is asked.
pub async fn keep(role: &str, client: &Client, part: &Part) -> Infallible {
    loop {
        let state = match tokio::time::timeout(TIMEOUT, look(client)).await {
            Ok(state) => state.map_err(|e| format!("{e:#}")),
            Err(_) => Err(format!("it did not answer within {TIMEOUT:?}")),
        };
        if part.set(state.clone().map(drop)) {
            match state {
                Ok(version) => tracing::info!(role, version, "connected"),
                Err(reason) => tracing::warn!(role, reason, "not ready"),
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// A client of the cluster that the flags name. It never retries by itself: whoever calls decides that.
pub async fn connect(args: &Args) -> Result<Client> {
    client::client(&config(args).await?, None).context("failed to set up the client")
}

/// The way to the cluster that the flags name.
pub async fn config(args: &Args) -> Result<Config> {
    let Args { kubeconfig, context } = args;
    way(Target { kubeconfig: kubeconfig.as_deref(), context: context.as_deref(), prefix: "--" }).await
}

/// The way to a cluster: by the kubeconfig that is given, or as kubectl finds it, or by the pod's own service account.
pub async fn way(target: Target<'_>) -> Result<Config> {
    let Target { kubeconfig, context, prefix } = target;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("{prefix}kubeconfig: failed to read {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .with_context(|| format!("{prefix}kubeconfig: {} does not lead to a cluster", path.display()))
        }
        None if context.is_some() => Config::from_kubeconfig(&options)
            .await
            .with_context(|| format!("{prefix}context: failed to use it")),
        None => Config::infer()
            .await
            .with_context(|| format!("failed to find a cluster: give {prefix}kubeconfig, or run in a pod")),
    }
}

/// The name of the context by which a cluster is found, if it is found by one.
pub fn context(target: Target<'_>) -> Option<String> {
    let current = || {
        let found = target.kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        found.ok()?.current_context
    };
    target.context.map(str::to_owned).or_else(current)
}

/// One look: the version of an API server that answers and is new enough.
pub async fn look(client: &Client) -> Result<String> {
    let info = client.apiserver_version().await.context("failed to reach the API server")?;
    let version = Version::parse(&info.major, &info.minor)
        .with_context(|| format!("the API server has a version that makes no sense: {}", info.git_version))?;
    if version < OLDEST {
        bail!(
            "the API server is {}; Kubernetes {}.{} or newer is needed",
            info.git_version,
            OLDEST.major,
            OLDEST.minor
        );
    }
    Ok(info.git_version)
}

// === impl Version ===

impl Version {
    /// Providers write minor versions such as `31+`.
    fn parse(major: &str, minor: &str) -> Option<Self> {
        let digits = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        Some(Self { major: digits(major)?, minor: digits(minor)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number_and_providers_suffixes_do_not_matter() {
        let parse = |major, minor| Version::parse(major, minor).unwrap();
        assert!(parse("1", "9") < OLDEST, "9 is less than 31");
        assert!(parse("1", "30+") < OLDEST);
        assert!(parse("1", "31+") >= OLDEST);
        assert!(parse("2", "0") >= OLDEST);
        assert_eq!(Version::parse("", "31"), None);
    }
}
