//! What an account may do, asked of the API server.

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::ServiceAccount,
    rbac::v1::PolicyRule,
};
use kube::{Api, api::PostParams};

use super::Look;

/// A ServiceAccount.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

// === impl Look ===

impl Look<'_> {
    /// Whether there is such an account.
    pub(super) async fn has(&self, account: Account<'_>) -> Result<bool> {
        let Account { namespace, name } = account;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let found = accounts.get_opt(name).await;
        Ok(found.with_context(|| format!("failed to read ServiceAccount {namespace}/{name}"))?.is_some())
    }

    /// The first right that an account lacks, in a namespace or in all of them, in words.
    pub(super) async fn lacks(
        &self,
        account: Account<'_>,
        rules: &[PolicyRule],
        within: Option<&str>,
    ) -> Result<Option<String>> {
        let Account { namespace, name } = account;
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let groups = ["system:serviceaccounts", "system:authenticated"].map(ToOwned::to_owned);
        let own = format!("system:serviceaccounts:{namespace}");
        for attributes in rules.iter().flat_map(|rule| asked(rule, within)) {
            let shown = shown(&attributes);
            let spec = SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(groups.iter().chain([&own]).cloned().collect()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await;
            let answer = answer.context("failed to ask what an account may do")?;
            if !answer.status.is_some_and(|status| status.allowed) {
                return Ok(Some(format!("ServiceAccount {namespace}/{name} may not {shown}")));
            }
        }
        Ok(None)
    }
}

/// What a rule allows, each as a question.
fn asked(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let (groups, resources) = (rule.api_groups.iter().flatten(), rule.resources.iter().flatten());
    let name = rule.resource_names.iter().flatten().next();
    let pairs = groups.flat_map(|group| resources.clone().map(move |resource| (group, resource)));
    pairs
        .flat_map(|(group, resource)| {
            let (resource, sub) = match resource.split_once('/') {
                Some((resource, sub)) => (resource, Some(sub.to_owned())),
                None => (resource.as_str(), None),
            };
            rule.verbs.iter().map(move |verb| ResourceAttributes {
                group: Some(group.clone()),
                resource: Some(resource.to_owned()),
                subresource: sub.clone(),
                verb: Some(verb.clone()),
                name: name.cloned(),
                namespace: namespace.map(ToOwned::to_owned),
                ..ResourceAttributes::default()
            })
        })
        .collect()
}

fn shown(right: &ResourceAttributes) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let sub = right.subresource.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
    let group = Some(text(&right.group)).filter(|group| !group.is_empty());
    let group = group.map(|group| format!(" of {group}")).unwrap_or_default();
    let place = right.namespace.as_ref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
    format!("{} {}{sub}{group}{place}", text(&right.verb), text(&right.resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_asked_about_verb_by_verb() {
        let rule: PolicyRule = serde_saphyr::from_str(
            "{apiGroups: [a.example], resources: [bs, cs/status], resourceNames: [one], verbs: [get, patch]}",
        )
        .unwrap();
        let asked: Vec<_> = asked(&rule, None).iter().map(shown).collect();
        assert_eq!(
            asked,
            [
                "get bs of a.example",
                "patch bs of a.example",
                "get cs/status of a.example",
                "patch cs/status of a.example"
            ]
        );
    }

    #[test]
    fn a_right_in_a_namespace_is_asked_about_there() {
        let rule: PolicyRule =
            serde_saphyr::from_str("{apiGroups: [''], resources: [secrets], verbs: [create]}").unwrap();
        let asked = asked(&rule, Some("tombolo-system"));
        assert_eq!(asked[0].namespace.as_deref(), Some("tombolo-system"));
        assert_eq!(shown(&asked[0]), "create secrets in namespace tombolo-system");
    }
}
