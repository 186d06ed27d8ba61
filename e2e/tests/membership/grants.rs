//! What the hub's account can do, asked of the member's own authorizer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use tombolo::membership::grant::{Grant, Preset, read};
use tombolo_e2e::{bed::Bed, wait::until};

const PATIENCE: Duration = Duration::from_secs(30);
const VERBS: [&str; 11] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
];
const HUB: &str = "system:serviceaccount:tombolo-system:tombolo-hub";
/// What everybody may do who is known at all.
const ANYBODY: &str = "system:serviceaccount:default:default";

/// Verb, group, resource.
type Right = (String, String, String);

/// Every right that there is in a cluster, as far as it lists its resources.
fn universe(bed: &Bed) -> Result<Vec<Right>> {
    let listed = bed.kubectl("member8").run(&["api-resources", "--no-headers", "-o", "name"])?;
    let mut resources: BTreeSet<(String, String)> = listed
        .lines()
        .map(|name| name.split_once('.').unwrap_or((name, "")))
        .map(|(resource, group)| (resource.to_owned(), group.to_owned()))
        .collect();
    for (resource, group) in [
        ("serviceexports/status", "multicluster.x-k8s.io"),
        ("serviceimports/status", "multicluster.x-k8s.io"),
        ("pods/exec", ""),
        ("serviceaccounts/token", ""),
        ("users", ""),
        ("crontabs", "stable.example.com"),
    ] {
        resources.insert((resource.to_owned(), group.to_owned()));
    }
    ensure!(resources.len() > 50, "found only {resources:?}");
    let all = resources.iter().flat_map(|(resource, group)| {
        VERBS.iter().map(move |verb| ((*verb).to_owned(), group.clone(), resource.clone()))
    });
    Ok(all.collect())
}

/// Those of some rights that a user has, in a namespace that is nobody's in particular.
async fn allowed(client: &Client, user: &str, rights: &[Right]) -> Result<BTreeSet<Right>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let asked =
        stream::iter(
            rights.iter().map(|right| {
                let reviews = reviews.clone();
                async move {
                    anyhow::Ok(may(&reviews, user, right, "default", None).await?.then(|| right.clone()))
                }
            }),
        );
    asked.buffered(16).try_filter_map(|right| async move { Ok(right) }).try_collect().await
}

async fn may(
    reviews: &Api<SubjectAccessReview>,
    user: &str,
    (verb, group, resource): &Right,
    namespace: &str,
    name: Option<&str>,
) -> Result<bool> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, part)) => (resource.to_owned(), Some(part.to_owned())),
        None => (resource.clone(), None),
    };
    let resource_attributes = ResourceAttributes {
        verb: Some(verb.clone()),
        group: Some(group.clone()),
        resource: Some(resource),
        subresource,
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let groups = ["system:serviceaccounts", "system:authenticated"].map(str::to_owned).to_vec();
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        groups: Some(groups),
        resource_attributes: Some(resource_attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    Ok(reviews.create(&PostParams::default(), &review).await?.status.is_some_and(|status| status.allowed))
}

/// Those of some rights that rules give.
fn granted(rules: &[PolicyRule], rights: &[Right]) -> BTreeSet<Right> {
    let has = |list: Option<&Vec<String>>, word: &str| {
        list.is_some_and(|list| list.iter().any(|it| it == word || it == "*"))
    };
    let gives = |rule: &PolicyRule, (verb, group, resource): &Right| {
        rule.resource_names.is_none()
            && has(Some(&rule.verbs), verb)
            && has(rule.api_groups.as_ref(), group)
            && has(rule.resources.as_ref(), resource)
    };
    rights.iter().filter(|right| rules.iter().any(|rule| gives(rule, right))).cloned().collect()
}

pub(super) async fn the_hubs_account_can_do_exactly_what_it_was_granted(bed: Arc<Bed>) -> Result<()> {
    let client = &bed.member(8).client;
    let file = bed.dir().join("grant.yaml");
    let rules = "[{apiGroups: [stable.example.com], resources: [crontabs], verbs: [get, list]}]";
    std::fs::write(&file, rules)?;
    let path = file.display().to_string();
    let extra = read(rules).map_err(anyhow::Error::msg)?;
    let of = |preset, extra: &[PolicyRule]| Grant { preset, extra: extra.to_vec() };
    let steps: [(&[&str], Grant); 6] = [
        (&[], of(Preset::Workloads, &[])),
        (&["--grant", "services"], of(Preset::Services, &[])),
        (&[], of(Preset::Services, &[])),
        (&["--grant", &path], of(Preset::Services, &extra)),
        (&[], of(Preset::Services, &extra)),
        (&["--grant", "all"], of(Preset::All, &[])),
    ];
    for (flags, grant) in steps {
        bed.join("member8", &[flags, &["--wait=false"]].concat()).await?;
        let universe = universe(&bed)?;
        let anybody = allowed(client, ANYBODY, &universe).await?;
        let wanted: BTreeSet<_> = granted(&grant.rules(), &universe).union(&anybody).cloned().collect();
        until(&format!("the rights are those of {grant:?}"), PATIENCE, async || {
            let found = allowed(client, HUB, &universe).await?;
            let (more, less): (Vec<_>, Vec<_>) =
                (found.difference(&wanted).collect(), wanted.difference(&found).collect());
            ensure!(more.is_empty() && less.is_empty(), "more: {more:?}, less: {less:?}");
            Ok(())
        })
        .await?;
    }
    std::fs::remove_file(&file)?;
    bed.join("member8", &["--grant", "services", "--wait=false"]).await?;
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let right =
        |verb: &str, group: &str, resource: &str| (verb.to_owned(), group.to_owned(), resource.to_owned());
    for (right, name, wanted) in [
        (right("delete", "", "serviceaccounts"), "tombolo-hub", true),
        (right("delete", "", "serviceaccounts"), "default", false),
        (right("delete", "", "secrets"), "tombolo-hub", false),
        (right("get", "", "secrets"), "tombolo-hub", false),
        (right("delete", "apps", "deployments"), "tombolo-agent", true),
        (right("watch", "coordination.k8s.io", "leases"), "tombolo-agent", true),
        (right("delete", "coordination.k8s.io", "leases"), "another", false),
        (right("delete", "rbac.authorization.k8s.io", "clusterroles"), "tombolo-hub", true),
        (right("delete", "rbac.authorization.k8s.io", "clusterroles"), "cluster-admin", false),
    ] {
        until(&format!("{right:?} of {name} is {wanted}"), PATIENCE, async || {
            let found = may(&reviews, HUB, &right, "tombolo-system", Some(name)).await?;
            ensure!(found == wanted, "it is {found}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
