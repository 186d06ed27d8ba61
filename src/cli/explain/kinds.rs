//! Kinds as users write them: `deploy`, `deployments`, `Deployment.apps`.

use anyhow::{Context, Result};
use kube::{Client, core::discovery::v2::APIGroupDiscovery};

use crate::{decide::select::GroupKind, hub::served::Served};

/// What kubectl users are used to, and what our own kinds are called for short.
const SHORT: [(&str, &str); 20] = [
    ("cm", "configmap"),
    ("cpp", "clusterpropagationpolicy"),
    ("crd", "customresourcedefinition"),
    ("cronjobs", "cronjob"),
    ("deploy", "deployment"),
    ("ds", "daemonset"),
    ("export", "serviceexport"),
    ("import", "serviceimport"),
    ("ing", "ingress"),
    ("member", "cluster"),
    ("netpol", "networkpolicy"),
    ("ns", "namespace"),
    ("policy", "propagationpolicy"),
    ("pp", "propagationpolicy"),
    ("pvc", "persistentvolumeclaim"),
    ("sa", "serviceaccount"),
    ("sts", "statefulset"),
    ("svc", "service"),
    ("svcex", "serviceexport"),
    ("svcim", "serviceimport"),
];

/// The kind that is meant. What is called neither so nor by a name of ours may be short for one, as the hub says.
pub(super) async fn find(hub: &Client, served: &Served, text: &str) -> Result<GroupKind> {
    if let Some(found) = named(served, text) {
        return Ok(found);
    }
    let found = short_for(hub, text).await.and_then(|plural| named(served, &plural));
    found.with_context(|| {
        format!("KIND/NAME: the hub serves no kind {text}; `kubectl api-resources` lists what it serves")
    })
}

/// What a short name stands for, such as `horizontalpodautoscalers.autoscaling`.
async fn short_for(hub: &Client, text: &str) -> Option<String> {
    let (core, groups) =
        tokio::try_join!(hub.list_core_api_versions_aggregated(), hub.list_api_groups_aggregated()).ok()?;
    let groups: Vec<_> = core.items.into_iter().chain(groups.items).collect();
    resource(&groups, &text.to_lowercase())
}

fn resource(groups: &[APIGroupDiscovery], short: &str) -> Option<String> {
    groups.iter().find_map(|group| {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref());
        let resources = group.versions.iter().flat_map(|version| &version.resources);
        let mut called = resources.filter(|resource| resource.short_names.iter().any(|own| own == short));
        let plural = called.find_map(|resource| resource.resource.as_deref())?;
        Some(
            name.filter(|name| !name.is_empty())
                .map_or_else(|| plural.to_owned(), |name| format!("{plural}.{name}")),
        )
    })
}

/// The kind of a name, of several the core's or the first.
fn named(served: &Served, text: &str) -> Option<GroupKind> {
    let lower = text.to_lowercase();
    let (name, group) = lower.split_once('.').map_or((&*lower, None), |(name, group)| (name, Some(group)));
    let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, name)| name);
    let found = served.kinds().filter(|(kind, version)| {
        let named = kind.kind.to_lowercase() == name || version.resource.plural == name;
        // `deployments.v1.apps` is how kubectl takes a version.
        let grouped = |group: &str| *kind.group == *group || group.ends_with(&format!(".{}", kind.group));
        named && group.is_none_or(grouped)
    });
    found.map(|(kind, _)| kind.clone()).min()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_name_is_what_the_api_server_says_that_it_is() {
        let group = |name: &str, resource: &str, short: &[&str]| {
            let resources = json!([{ "resource": resource, "shortNames": short }]);
            json!({ "metadata": { "name": name }, "versions": [{ "version": "v1", "resources": resources }] })
        };
        let groups = json!([
            group("", "pods", &["po"]),
            group("autoscaling", "horizontalpodautoscalers", &["hpa"]),
            group("rules.example", "gadgets", &["gd", "gad"]),
        ]);
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(groups).unwrap();
        assert_eq!(resource(&groups, "po").as_deref(), Some("pods"));
        assert_eq!(resource(&groups, "hpa").as_deref(), Some("horizontalpodautoscalers.autoscaling"));
        assert_eq!(resource(&groups, "gad").as_deref(), Some("gadgets.rules.example"));
        assert_eq!(resource(&groups, "no"), None);
    }
}
