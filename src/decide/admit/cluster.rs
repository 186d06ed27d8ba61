//! A Cluster: how a member is reached, what may be placed there, and whether it may go.

use std::collections::BTreeSet;

use http::Uri;
use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

use super::{
    Request, Verdict,
    cidr::{self, Cidr},
    decoded, name_fault, supported,
};
use crate::{
    api::{
        Cluster,
        cluster::{ClusterSpec, SecretReference, SyncMode},
        names::annotation,
    },
    decide::{fault::Shown, ids::ClusterName, select::labels, view::View},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What is wrong with the object by itself.
pub(super) fn form(request: &Request, object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    name_fault::<ClusterName>(request, object, &mut verdict);
    supported(request, object, &mut verdict);
    let Some(cluster) = decoded::<Cluster>(object, &mut verdict) else {
        return verdict;
    };
    link(&cluster.spec, &mut verdict);
    taints(&cluster.spec.taints, &mut verdict);
    let annotations = cluster.metadata.annotations.unwrap_or_default();
    for key in [annotation::ENDPOINT_CIDRS, annotation::POD_CIDRS] {
        let faults = annotations.get(key).and_then(|ranges| cidr::list(ranges).err());
        for fault in faults.unwrap_or_default() {
            verdict.fault(format!("metadata.annotations[{key}]"), fault);
        }
    }
    verdict
}

/// What is wrong with it beside the other Clusters.
pub(super) fn beside(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let id = object.pointer("/spec/id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let twin = id.and_then(|id| view.clusters_of_id(id).find(|twin| twin.as_str() != request.object_name()));
    if let Some(twin) = twin {
        let way_out = "a cluster can be a member once only; delete that one first";
        verdict.fault("spec.id", format!("Cluster {twin} has the same: {way_out}"));
    }
    let pods = object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(annotation::POD_CIDRS));
    if let Some(Ok(pods)) = pods.and_then(Value::as_str).map(cidr::list) {
        overlaps(request.object_name(), &pods, view.pod_ranges())
            .into_iter()
            .for_each(|said| verdict.warn(said));
    }
}

/// What is to be said where pods of a cluster can have the addresses of pods of another: a sentence for each other.
pub fn overlaps<'a>(
    name: &str,
    pods: &[Cidr],
    others: impl IntoIterator<Item = (&'a str, &'a [Cidr])>,
) -> Vec<String> {
    let mut said = Vec::new();
    for (other, theirs) in others.into_iter().filter(|(other, _)| *other != name) {
        let pairs = pods.iter().flat_map(|mine| theirs.iter().map(move |their| (mine, their)));
        let mut common = pairs.filter(|(mine, their)| mine.overlaps(**their));
        if let Some((mine, their)) = common.next() {
            let more = common.count();
            let more = if more == 0 { String::new() } else { format!(", and {more} more such pairs") };
            said.push(format!(
                "pods of cluster {name} have addresses of {mine}, pods of cluster {other} of {their}{more}: these ranges \
                 overlap, so traffic between the two can reach the wrong pod; give one of them another range"
            ));
        }
    }
    said
}

fn link(spec: &ClusterSpec, verdict: &mut Verdict) {
    if let SyncMode::Other(other) = &spec.sync_mode {
        verdict.fault("spec.syncMode", format!("must be Push, not {}", Shown(other)));
    }
    let push = spec.sync_mode == SyncMode::Push;
    match spec.api_endpoint.as_deref().map(https_url) {
        Some(Err(why)) => verdict.fault("spec.apiEndpoint", why),
        None if push => verdict.fault(
            "spec.apiEndpoint",
            "must be set where syncMode is Push: the URL of the cluster's API server, such as https://10.0.0.1:6443",
        ),
        _ => {}
    }
    match &spec.secret_ref {
        Some(SecretReference { namespace, name }) => {
            for (field, value) in [("namespace", namespace), ("name", name)] {
                if value.is_empty() {
                    verdict.fault(format!("spec.secretRef.{field}"), "must be set");
                }
            }
        }
        None if push => verdict.fault(
            "spec.secretRef",
            "must be set where syncMode is Push: the Secret that `tombolo join` makes, with token and caBundle",
        ),
        None => {}
    }
    if spec.insecure_skip_tls_verification {
        verdict.warn(
            "spec.insecureSkipTLSVerification: whoever is between hub and member can read the token and pose as the \
             member; put the authority into the Secret's caBundle instead",
        );
    }
}

fn taints(taints: &[Taint], verdict: &mut Verdict) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = format!("spec.taints[{index}]");
        // Taints are written as labels are, and called what they are.
        if let Some(why) = labels::key_fault_of("a taint", &taint.key) {
            verdict.fault(format!("{at}.key"), why);
        }
        if let Some(why) = taint.value.as_deref().and_then(|value| labels::value_fault_of("a taint", value)) {
            verdict.fault(format!("{at}.value"), why);
        }
        if !EFFECTS.contains(&taint.effect.as_str()) {
            let message = format!("must be one of {}, not {}", EFFECTS.join(", "), Shown(&taint.effect));
            verdict.fault(format!("{at}.effect"), message);
        }
        if !seen.insert((&taint.key, &taint.effect)) {
            let message = format!(
                "must be unique: there is a taint {} with effect {} already",
                taint.key, taint.effect
            );
            verdict.fault(at, message);
        }
    }
}

/// Whether a text is the address of an API server. Else why not.
fn https_url(text: &str) -> Result<(), String> {
    let example = "such as https://10.0.0.1:6443";
    let uri: Uri = text.parse().map_err(|_| format!("must be a URL {example}"))?;
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") => {
            return Err("must begin with https://, or the token would cross the network in clear".to_owned());
        }
        _ => return Err(format!("must be a URL {example}")),
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("must not hold a user or password; they belong in the Secret".to_owned());
    }
    if uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
        return Err(format!("must be a URL {example}, without a query"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_is_reached_by_https() {
        for good in
            ["https://10.0.0.1:6443", "https://api.example", "https://[fd00::1]:6443", "https://a.b/k8s/c1"]
        {
            assert_eq!(https_url(good), Ok(()), "{good}");
        }
        let bad = [
            "",
            "10.0.0.1:6443",
            "http://a",
            "ftp://a",
            "https://",
            "https://u:p@a",
            "https://a?b=c",
            "a b",
            "/x",
        ];
        for bad in bad {
            assert!(https_url(bad).is_err(), "{bad:?}");
        }
    }
}
