//! A service as a bridge between clusters: who exports it, who imports it and reaches whom. It is what the status page draws.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde::Serialize;

use super::{
    Exchange, Offered, Service, is_member,
    seen::{ExportSeen, import_kind, object_key},
    words::ready,
};
use crate::{
    api::names::condition,
    decide::{
        atlas::plain,
        ids::{ClusterName, ServiceKey},
        merge::{Fate, Merged, PortMap},
        view::View,
        world::World,
    },
};

/// A service between clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bridge {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How it is: the worst of what its ends say.
    pub state: Footing,
    /// Its ports, such as `http 80/TCP`.
    pub ports: Vec<String>,
    /// What its exporters do not agree on, in one word each; nothing if they agree.
    pub reason: String,
    /// What is not well, in words.
    pub message: String,
    /// Where it comes from.
    pub exporters: Vec<Exporter>,
    /// Where it is used.
    pub importers: Vec<Importer>,
}

/// How a service, or one of its ends, is; the worse the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Footing {
    /// As it should be.
    #[default]
    Well,
    /// Something is still to come.
    Waiting,
    /// A cluster of it is silent: its endpoints are as they were last known.
    Silent,
    /// Its exporters do not agree.
    Conflict,
    /// Somebody has to do something.
    Failed,
}

/// A cluster that exports a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exporter {
    /// Its name.
    pub cluster: String,
    /// How it is.
    pub state: Footing,
    /// Since when it exports it.
    pub since: String,
    /// How many endpoints it offers.
    pub endpoints: usize,
    /// How many of them are ready.
    pub ready: usize,
    /// Ports that are not served for it, and why.
    pub withheld: Vec<String>,
    /// What is not well, in words.
    pub message: String,
}

/// A cluster that imports a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Importer {
    /// Its name.
    pub cluster: String,
    /// How it is.
    pub state: Footing,
    /// The clusters whose endpoints it has.
    pub reaches: Vec<String>,
    /// What is not well, in words.
    pub message: String,
}

// === impl Exchange ===

impl Exchange {
    /// The services that clusters export or import.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.keys()
    }

    /// A service as a bridge between clusters.
    pub fn bridge(&self, view: &View, world: &World, key: &ServiceKey) -> Bridge {
        let service = self.services.get(key);
        let merged = self.merged(view, key);
        let exports = service.iter().flat_map(|service| &service.exports);
        let exporters: Vec<_> = exports
            .filter(|(name, _)| self.takes_part_in(view, name, key))
            .map(|(name, export)| self.exporter(name, export, service, merged.as_ref()))
            .collect();
        let importers: Vec<_> =
            self.bound(view, world, key).iter().map(|name| self.importer(name, key)).collect();
        let conflict = merged.as_ref().map(Merged::condition).filter(|told| told.status);
        let ends = exporters.iter().map(|end| end.state).chain(importers.iter().map(|end| end.state));
        let worst = ends.max().unwrap_or_default();
        let (state, message) = match &conflict {
            Some(told) => (worst.max(Footing::Conflict), plain(&told.message)),
            None if exporters.is_empty() => {
                (worst.max(Footing::Waiting), "no cluster exports it yet".to_owned())
            }
            None if importers.is_empty() => (worst.max(Footing::Waiting), "no cluster imports it".to_owned()),
            None => (worst, String::new()),
        };
        Bridge {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            state,
            ports: merged.iter().flat_map(|merged| &merged.service.ports).map(ToString::to_string).collect(),
            reason: conflict.map(|told| told.reason).unwrap_or_default(),
            message,
            exporters,
            importers,
        }
    }

    /// The clusters that import a service, or are to.
    fn bound(&self, view: &View, world: &World, key: &ServiceKey) -> BTreeSet<ClusterName> {
        let seen = self.services.get(key).into_iter().flat_map(|service| service.imports.keys());
        let placed = world.assignment(&object_key(import_kind(), key));
        let placed = placed.into_iter().flat_map(|placed| placed.targets.keys());
        seen.chain(placed).filter(|name| is_member(view, name)).cloned().collect()
    }

    fn exporter(
        &self,
        name: &ClusterName,
        export: &ExportSeen,
        service: Option<&Service>,
        merged: Option<&Merged>,
    ) -> Exporter {
        let told = ready(export);
        let from = merged.into_iter().flat_map(|merged| merged.clusters.keys());
        let (state, message) = match &export.offered {
            Offered::Service(_) if self.is_withdrawn(name, from) => {
                (Footing::Silent, "lost: its endpoints are not ready where others serve".to_owned())
            }
            Offered::Service(_) if self.is_silent(name) => {
                (Footing::Silent, "silent: its endpoints are as they were last known".to_owned())
            }
            Offered::Service(_) => (Footing::Well, String::new()),
            Offered::Pending => (Footing::Waiting, told.message),
            Offered::Nothing => {
                let valid = export.conditions.iter().find(|told| told.type_ == condition::VALID);
                (Footing::Failed, valid.map_or(told.message, |valid| plain(&valid.message)))
            }
            Offered::Unreadable(_) | Offered::Refused(_) | Offered::Excluded => {
                (Footing::Failed, plain(&told.message))
            }
        };
        let slices = service.and_then(|service| service.sources.get(name)).into_iter().flatten();
        let (endpoints, ready) = slices
            .fold((0, 0), |(all, ready), (_, slice)| (all + slice.endpoints.len(), ready + ready_of(slice)));
        let ports = merged.and_then(|merged| merged.clusters.get(name));
        Exporter {
            cluster: name.to_string(),
            state,
            since: export.created.to_string(),
            endpoints,
            ready,
            withheld: ports.map(withheld).unwrap_or_default(),
            message,
        }
    }

    fn importer(&self, name: &ClusterName, key: &ServiceKey) -> Importer {
        let reached = self.reached_in(name, key);
        let theirs = self.has_import(name, key) && !self.is_imported(name, key);
        let state = match &reached {
            Err(_) if theirs => Footing::Failed,
            _ if self.is_silent(name) => Footing::Silent,
            Err(_) => Footing::Waiting,
            Ok(_) => Footing::Well,
        };
        let message = match &reached {
            Err(why) => (*why).to_owned(),
            Ok(_) if state == Footing::Silent => "silent: nobody knows whether it still has them".to_owned(),
            Ok(_) => String::new(),
        };
        let reaches = reached.iter().flatten().map(ToString::to_string).collect();
        Importer { cluster: name.to_string(), state, reaches, message }
    }
}

/// How many endpoints of a slice are ready; one that says nothing is.
fn ready_of(slice: &EndpointSlice) -> usize {
    let ready = slice.endpoints.iter().filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    });
    ready.count()
}

fn withheld(ports: &PortMap) -> Vec<String> {
    let withheld = ports.iter().filter_map(|(key, port)| match &port.fate {
        Fate::Withheld(why) if port.name.is_named() => Some(format!("{} {key}: {why}", port.name)),
        Fate::Withheld(why) => Some(format!("{key}: {why}")),
        Fate::Served(_) => None,
    });
    withheld.collect()
}
