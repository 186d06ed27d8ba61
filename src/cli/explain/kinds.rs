//! Kinds as users write them: `deploy`, `deployments`, `Deployment.apps`.

use anyhow::{Context, Result};

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

/// The kind that is meant.
pub(super) fn find(served: &Served, text: &str) -> Result<GroupKind> {
    let lower = text.to_lowercase();
    let (name, group) = lower.split_once('.').map_or((&*lower, None), |(name, group)| (name, Some(group)));
    let name = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, name)| name);
    let mut found: Vec<_> = served
        .kinds()
        .filter(|(kind, version)| {
            let named = kind.kind.to_lowercase() == name || version.resource.plural == name;
            // `deployments.v1.apps` is how kubectl takes a version.
            let grouped = |group: &str| *kind.group == *group || group.ends_with(&format!(".{}", kind.group));
            named && group.is_none_or(grouped)
        })
        .map(|(kind, _)| kind.clone())
        .collect();
    // Of several the core's, or the first.
    found.sort();
    found.into_iter().next().with_context(|| {
        format!("KIND/NAME: the hub serves no kind {text}; `kubectl api-resources` lists what it serves")
    })
}
