//! What is looked at in every cluster.

use anyhow::{Context, Result};
use http::{Method, Request, header::DATE};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition, jiff::fmt::rfc2822,
};
use kube::{Api, Client, ResourceExt, client::Body};

use super::Finding;
use crate::{
    api::crds::{Role, definitions},
    membership::definitions::outdated,
    shell::{clock, connection},
};

/// More than that apart, clocks make Leases and certificates look older or younger than they are.
const SKEW: i64 = 5;

/// Whether the API server answers and is new enough.
pub(super) async fn api_server(client: &Client) -> Finding {
    match connection::look(client).await {
        Ok(version) => Finding::well("API server", format!("Kubernetes {version}")),
        Err(e) => Finding::sick("API server", format!("{e:#}"), ""),
    }
}

/// Whether the API server's clock and that of this machine agree.
pub(super) async fn clock(client: &Client) -> Result<Vec<Finding>> {
    let request = Request::builder().method(Method::GET).uri("/version").body(Body::empty())?;
    let before = clock::seconds();
    let answer = client.send(request).await.context("failed to ask the API server for its time")?;
    let after = clock::seconds();
    let date = answer.headers().get(DATE).context("the API server does not say what time it is")?;
    let theirs = rfc2822::parse(date.to_str()?)?.timestamp().as_second();
    Ok(vec![skew(theirs, before, after)])
}

/// What a time means that was said between two moments.
fn skew(theirs: i64, before: i64, after: i64) -> Finding {
    let apart = if theirs < before { before - theirs } else { (theirs - after).max(0) };
    if apart <= SKEW {
        return Finding::well("clock", "the API server's agrees with this machine's");
    }
    let way = if theirs < before { "behind" } else { "ahead of" };
    Finding::doubtful(
        "clock",
        format!("the API server's is {apart} s {way} this machine's"),
        "set both by NTP: Leases and certificates are judged by them",
    )
}

/// Whether the definitions are there, and new enough.
pub(super) async fn definitions_of(client: &Client, role: Role, way_out: &str) -> Result<Vec<Finding>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let (mut missing, mut old) = (Vec::new(), Vec::new());
    for ours in definitions(role) {
        let name = ours.name_any();
        let found =
            api.get_opt(&name).await.with_context(|| format!("failed to read the definition {name}"))?;
        match found {
            None => missing.push(name),
            Some(found) if outdated(Some(&found), &ours) => old.push(name),
            Some(_) => {}
        }
    }
    let mut found = Vec::new();
    if !missing.is_empty() {
        found.push(Finding::sick("definitions", format!("{} not there", list(&missing)), way_out));
    }
    if !old.is_empty() {
        found.push(Finding::doubtful("definitions", format!("{} of an older release", list(&old)), way_out));
    }
    if found.is_empty() {
        found.push(Finding::well("definitions", "all there"));
    }
    Ok(found)
}

fn list(names: &[String]) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::Severity;

    #[test]
    fn clocks_may_differ_by_a_few_seconds() {
        for (theirs, severity, words) in [
            (100, Severity::Well, "agrees"),
            (95, Severity::Well, "agrees"),
            (107, Severity::Well, "agrees"),
            (90, Severity::Doubtful, "10 s behind"),
            (132, Severity::Doubtful, "30 s ahead of"),
        ] {
            let found = skew(theirs, 100, 102);
            assert!(found.severity == severity && found.says.contains(words), "{theirs}: {found:?}");
        }
    }
}
