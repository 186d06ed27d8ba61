//! What a member's Cluster and Secret on the hub are to be: what was there, with what is asked for.

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Config, Resource, ResourceExt, config::AuthInfo};

use super::{Credentials, Request, shown};
use crate::{
    api::{
        Cluster,
        cluster::{ClusterSpec, SecretReference, SyncMode},
        names::{annotation, finalizer, karmada, label},
    },
    membership::{check::Found, member},
};

/// What is to be on the hub.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) request: &'a Request,
    pub(super) found: &'a Found,
    pub(super) way: &'a Config,
}

// === impl Wanted ===

impl Wanted<'_> {
    /// Where the hub reaches the member's API server.
    pub(super) fn endpoint(&self) -> String {
        let given = self.request.api_endpoint.clone();
        given.unwrap_or_else(|| self.way.cluster_url.to_string().trim_end_matches('/').to_owned())
    }

    /// The way by which the account is proven: the very one that the hub will go. Another endpoint may be reachable from the hub only; then
    /// it is ours, with its token.
    pub(super) fn proof(&self, credentials: &Credentials) -> Result<Config, member::Error> {
        if self.request.api_endpoint.is_none() {
            return member::config_of(&self.cluster(), &self.secret(None, credentials, None));
        }
        let token = Some(credentials.token.clone().into());
        let mut config = self.way.clone();
        config.auth_info = AuthInfo { token, ..AuthInfo::default() };
        Ok(config)
    }

    /// What is said if that fails.
    pub(super) fn in_vain(&self) -> String {
        let ours_alone = [
            ("tls-server-name", self.way.tls_server_name.is_some()),
            ("proxy-url", self.way.proxy_url.is_some()),
        ];
        let ours_alone: Vec<_> = ours_alone.into_iter().filter_map(|(key, is)| is.then_some(key)).collect();
        if ours_alone.is_empty() || self.request.api_endpoint.is_some() {
            return "the account's token does not work".to_owned();
        }
        format!(
            "the hub goes to {} without the {} that you go by, and that does not work; name an endpoint that the hub reaches by \
             --api-endpoint",
            self.endpoint(),
            ours_alone.join(" and ")
        )
    }

    /// The member's id: the one that it joined by, for as long as it is a member.
    pub(super) fn id(&self) -> String {
        let before = self.found.cluster(&self.request.name).and_then(|cluster| cluster.spec.id.clone());
        before.unwrap_or_else(|| self.found.id().to_owned())
    }

    /// The member's Cluster. Nothing that is not asked for goes: a region that went would move workloads.
    pub(super) fn cluster(&self) -> Cluster {
        let Request { name, labels, provider, region, zones, .. } = self.request;
        let (found, id) = (self.found.cluster(name), self.id());
        let mut cluster =
            found.cloned().unwrap_or_else(|| Cluster::new(name.as_str(), ClusterSpec::default()));
        let spec = &mut cluster.spec;
        spec.sync_mode = SyncMode::Push;
        spec.id = Some(id);
        spec.api_endpoint = Some(self.endpoint());
        spec.secret_ref =
            Some(SecretReference { namespace: self.request.hub_namespace.clone(), name: name.to_string() });
        for (field, given) in [(&mut spec.provider, provider), (&mut spec.region, region)] {
            if given.is_some() {
                field.clone_from(given);
            }
        }
        if !zones.is_empty() {
            (spec.zone, spec.zones) = (None, zones.clone());
        }
        if !labels.is_empty() {
            cluster.labels_mut().extend(labels.clone());
        }
        if !self.found.pods.is_empty() {
            cluster.annotations_mut().insert(annotation::POD_CIDRS.to_owned(), shown(&self.found.pods));
        }
        if !cluster.finalizers().iter().any(|it| it == finalizer::MEMBER) {
            cluster.finalizers_mut().push(finalizer::MEMBER.to_owned());
        }
        cluster
    }

    /// The Secret that the hub reaches the member by. It goes with the Cluster of that UID.
    pub(super) fn secret(
        &self,
        found: Option<&Secret>,
        credentials: &Credentials,
        owner: Option<&str>,
    ) -> Secret {
        let name = self.request.name.to_string();
        let mut secret = found.cloned().unwrap_or_default();
        secret.metadata.name = Some(name.clone());
        secret.metadata.namespace = Some(self.request.hub_namespace.clone());
        secret.labels_mut().insert(label::MEMBER.to_owned(), name.clone());
        let token = (karmada::SECRET_TOKEN, Some(&credentials.token));
        let authorities = (karmada::SECRET_CA_BUNDLE, credentials.authorities.as_ref());
        let data = [token, authorities]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), ByteString(value?.as_bytes().to_vec()))));
        secret.data = Some(data.collect());
        secret.type_.get_or_insert_with(|| "Opaque".to_owned());
        if let Some(uid) = owner {
            let owner = OwnerReference {
                api_version: Cluster::api_version(&()).into_owned(),
                kind: Cluster::kind(&()).into_owned(),
                name,
                uid: uid.to_owned(),
                ..OwnerReference::default()
            };
            secret.metadata.owner_references = Some(vec![owner]);
        }
        secret
    }
}

#[cfg(test)]
mod tests;
