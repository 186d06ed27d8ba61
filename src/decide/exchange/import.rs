//! Which members import a service, and what their ServiceImport says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    Exchange, Offered, Part, Service,
    seen::{ExportSeen, ImportSeen, Whose, export_kind, import_kind, object_key, write_names},
};
use crate::{
    api::{
        mcs::{
            ClientIpConfig, ServiceImportSpec, ServiceImportType, ServicePort, SessionAffinityConfig, Version,
        },
        names::{annotation, label, mcs},
    },
    decide::{
        copy::{CREATE_ONLY, Origin, hash, is_bookkeeping},
        definition::Dialect,
        ids::{ClusterName, ServiceKey},
        imported::{read_told, write_told},
        merge::{
            Export, Import, Merged, PortMap, ServiceSpec, ServiceType, SessionAffinity, Template, fitted_to,
            import,
        },
        view::{Offer, View},
        world::World,
    },
};

/// Whether a member is to import a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wants {
    /// Nobody can tell yet: nothing is touched.
    Unknown(&'static str),
    /// A ServiceImport that is there stays as it is, and endpoints follow: it is out of use for nobody.
    AsIs(&'static str),
    /// It would import by itself now, but members have it of a ServiceImport on the hub that seems to be gone: until that is certain what
    /// is there stays as it is.
    Doubtful(Box<Origin>),
    /// It is not to.
    No,
    /// It is to, since it has the namespace and somebody exports the service.
    Automatic,
    /// It is to, as this ServiceImport on the hub says, with all that overrides change for the member.
    ByPolicy(Box<Value>),
}

/// A ServiceImport as it is to be in a member.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) spec: ServiceImportSpec,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
}

// === impl Exchange ===

impl Exchange {
    /// Whether a member is to import a service.
    pub(super) fn wants(&self, view: &View, world: &World, cluster: &ClusterName, key: &ServiceKey) -> Wants {
        if !view.is_synced() {
            return Wants::Unknown("the hub has not read everything yet");
        }
        let Some(member) = view.members().get(cluster) else {
            return Wants::Unknown("the cluster is no member");
        };
        if member.leaving {
            return Wants::No;
        }
        for kind in [import_kind(), export_kind()] {
            let followed = world.kind(&kind).map(crate::decide::world::Kind::is_synced);
            if view.propagations().kinds().contains(&kind) && followed != Some(true) {
                return Wants::AsIs("the hub has not read all templates yet");
            }
        }
        let (import, export) = (object_key(import_kind(), key), object_key(export_kind(), key));
        if view.imports().contains_key(key) {
            let Some(assignment) = world.assignment(&import).filter(|one| one.policy.is_some()) else {
                return Wants::AsIs("no policy places its ServiceImport");
            };
            if assignment.frozen || assignment.held_back(member).is_some() {
                return Wants::AsIs("its policy is held back");
            }
            return match world.for_member(view, cluster, &import) {
                Some(Ok(template)) => Wants::ByPolicy(Box::new(template)),
                Some(Err(_)) => Wants::AsIs("an override cannot be applied to its ServiceImport"),
                None => Wants::No,
            };
        }
        let placed = world.assignment(&export).is_some_and(|one| one.policy.is_some());
        if view.exports().contains_key(key) && placed {
            return Wants::No;
        }
        self.automatic(view, cluster, key)
    }

    fn automatic(&self, view: &View, cluster: &ClusterName, key: &ServiceKey) -> Wants {
        let namespace = key.namespace.as_str();
        let allowed =
            self.rules.automatic && self.takes_part(namespace) && self.rules.allowed.is_match(namespace);
        let there = self.members.get(cluster).is_some_and(|member| member.namespaces.contains(namespace));
        if !allowed || !there {
            return Wants::No;
        }
        let service = self.services.get(key);
        let exports = service.map(|service| &service.exports).into_iter().flatten();
        let mut exports = exports.filter(|(cluster, _)| self.takes_part_in(view, cluster, key)).peekable();
        if exports.peek().is_none() {
            return Wants::No;
        }
        let imported = service.is_some_and(|service| service.imports.contains_key(cluster));
        // Whoever exports nothing keeps an import that is there, and never makes one. Nor does a copy of an export of the hub's: who was to
        // import it was said there, and the end of that is no invitation to all others while the copy is on its way out.
        let invites = |export: &ExportSeen| export.template.is_none() && export.service().is_some();
        if !imported && !exports.any(|(_, export)| invites(export)) {
            return Wants::No;
        }
        self.doubted(cluster, key).map_or(Wants::Automatic, |origin| Wants::Doubtful(Box::new(origin)))
    }

    /// The ServiceImport of the hub's that a member has a service of, where it is not known for certain that it is gone. Who has none yet
    /// asks the others, unless one of them imports it by itself: what one member says holds nobody up who imports it, since that may be
    /// hostile.
    fn doubted(&self, cluster: &ClusterName, key: &ServiceKey) -> Option<Origin> {
        if self.released.contains(key) {
            return None;
        }
        let imports = &self.services.get(key)?.imports;
        let own = imports.get(cluster).and_then(|seen| seen.origin(&self.hub, key));
        let others = || imports.values().filter_map(|seen| seen.origin(&self.hub, key));
        let by_itself = |origin: &Origin| origin.template.is_empty();
        match own {
            Some(own) => Some(own).filter(|own| !by_itself(own)),
            None if others().any(|other| by_itself(&other)) => None,
            None => others().next(),
        }
    }

    /// The service as a member imports it, and what became of its ports.
    pub(super) fn import(merged: Option<&Merged>, wants: &Wants) -> Option<Import> {
        match wants {
            Wants::ByPolicy(template) => {
                let offer = Offer::of(template);
                Some(import(&Template { service_type: offer.service_type, ports: offer.ports() }, merged))
            }
            Wants::Automatic => merged.map(|merged| {
                let template = Template { service_type: merged.service.service_type, ports: Vec::new() };
                import(&template, Some(merged))
            }),
            Wants::Unknown(_) | Wants::AsIs(_) | Wants::Doubtful(_) | Wants::No => None,
        }
    }

    /// The ServiceImport of a member.
    pub(super) fn wanted(
        &self,
        world: &World,
        key: &ServiceKey,
        import: &Import,
        merged: Option<&Merged>,
        wants: &Wants,
        kept_for: &BTreeSet<ClusterName>,
    ) -> Wanted {
        let template = match wants {
            Wants::ByPolicy(_) => {
                world.template(&object_key(import_kind(), key)).map(|template| template.uid.clone())
            }
            _ => None,
        };
        let origin = Origin {
            hub: self.hub.clone(),
            template: template.unwrap_or_default(),
            crd: world.kind(&import_kind()).and_then(|kind| kind.crd.clone()),
            object: object_key(import_kind(), key),
        };
        let mut labels = import.service.labels.clone();
        labels.retain(|name, _| !is_bookkeeping(name));
        labels.insert(label::HUB.to_owned(), self.hub.to_string());
        let mut annotations = import.service.annotations.clone();
        annotations.retain(|name, _| !is_bookkeeping(name));
        let families: Vec<_> = import.service.ip_families.iter().map(ToString::to_string).collect();
        annotations.insert(annotation::IP_FAMILIES.to_owned(), families.join(","));
        annotations.insert(annotation::ORIGIN.to_owned(), origin.text());
        let accepted = merged.map_or_else(|| "[]".to_owned(), |merged| write_names(&merged.accepted));
        annotations.insert(annotation::PORT_NAMES.to_owned(), accepted);
        annotations
            .extend(write_told(&import.told()).map(|told| (annotation::SERVED_PORTS.to_owned(), told)));
        annotations.extend(note_of(kept_for));
        Wanted { spec: spec(&import.service), labels, annotations }
    }
}

/// The clusters that an import is kept for, as it says so.
fn note_of(kept_for: &BTreeSet<ClusterName>) -> Option<(String, String)> {
    let names: Vec<_> = kept_for.iter().map(ClusterName::as_str).collect();
    (!names.is_empty()).then(|| (annotation::KEPT_FOR.to_owned(), names.join(",")))
}

fn spec(service: &ServiceSpec) -> ServiceImportSpec {
    let (affinity, config) = match service.session_affinity {
        SessionAffinity::None => ("None", None),
        SessionAffinity::ClientIp { timeout_seconds } => {
            let timeout_seconds = i32::try_from(timeout_seconds).ok();
            let client_ip = Some(ClientIpConfig { timeout_seconds });
            ("ClientIP", Some(SessionAffinityConfig { client_ip }))
        }
    };
    let ports = service.ports.iter().map(|port| ServicePort {
        name: Some(port.name.to_string()).filter(|name| !name.is_empty()),
        protocol: Some(port.key.protocol.to_string()),
        app_protocol: port.app_protocol.as_deref().map(str::to_owned),
        port: port.key.port.into(),
    });
    ServiceImportSpec {
        ports: ports.collect(),
        ips: Vec::new(),
        type_: match service.service_type {
            ServiceType::ClusterSetIp => ServiceImportType::ClusterSetIP,
            ServiceType::Headless => ServiceImportType::Headless,
        },
        session_affinity: Some(affinity.to_owned()),
        session_affinity_config: config,
        ip_families: Vec::new(),
        // As Kubernetes defaults it on the Service: readers compare the two.
        internal_traffic_policy: Some(service.internal_traffic_policy.to_string()),
        traffic_distribution: service.traffic_distribution.as_deref().map(str::to_owned),
    }
}

// === impl Wanted ===

impl Wanted {
    /// A ServiceImport as it was found, but for the clusters that it is kept for.
    pub(super) fn as_found(seen: &ImportSeen, kept_for: &BTreeSet<ClusterName>) -> Self {
        // The agent's own words are not the hub's to apply.
        let others =
            [annotation::APPLIED, annotation::CLUSTER_IPS, annotation::KEPT_FOR, mcs::DERIVED_SERVICE];
        let mut annotations = seen.annotations.clone();
        annotations.retain(|name, _| !others.contains(&name.as_str()));
        annotations.extend(note_of(kept_for));
        Self { spec: seen.spec.clone(), labels: seen.labels.clone(), annotations }
    }

    /// The same without what a cluster has no words for.
    pub(super) fn in_words_of(mut self, dialect: Dialect) -> Self {
        if !dialect.traffic {
            (self.spec.internal_traffic_policy, self.spec.traffic_distribution) = (None, None);
        }
        self
    }

    /// Whether a ServiceImport is so already.
    pub(super) fn is_met_by(&self, seen: &ImportSeen) -> bool {
        let has = |all: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| {
            wanted.iter().all(|(name, value)| all.get(name) == Some(value))
        };
        seen.spec == self.spec
            && has(&seen.labels, &self.labels)
            && has(&seen.annotations, &self.annotations)
            && seen.annotations.get(annotation::APPLIED) == Some(&self.sum())
    }

    /// Whether a port gets another name than it has.
    pub(super) fn renames(&self, seen: &ImportSeen) -> bool {
        let other = |port: &ServicePort| {
            let same = |old: &&ServicePort| old.port == port.port && old.protocol == port.protocol;
            seen.spec.ports.iter().find(same).is_some_and(|old| old.name != port.name)
        };
        self.spec.ports.iter().any(other)
    }

    /// What is applied; the version is the member's.
    pub(super) fn object(&self, key: &ServiceKey, version: Version, uid: Option<&str>) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(annotation::APPLIED.to_owned(), self.sum());
        let mut metadata = json!({
            "name": key.name.as_str(), "namespace": key.namespace.as_str(), "labels": self.labels, "annotations": annotations,
        });
        match uid {
            Some(uid) => metadata["uid"] = json!(uid),
            // One that somebody made meanwhile is theirs: it is not merged into.
            None => metadata["resourceVersion"] = json!(CREATE_ONLY),
        }
        json!({ "apiVersion": version, "kind": "ServiceImport", "metadata": metadata, "spec": self.spec })
    }

    /// Tells what was applied from what was before, where less is applied now.
    fn sum(&self) -> String {
        hash(&json!([self.spec, self.labels, self.annotations])).into()
    }
}

/// What becomes of a cluster's ports where a ServiceImport stays as it is: by the names that it has.
pub(super) fn kept_ports(found: &ImportSeen, export: &Export) -> PortMap {
    let imported = Offer::of(&json!({ "spec": found.spec })).ports();
    let told = read_told(&found.annotations, &export.cluster);
    fitted_to(&imported, &export.service.ports, told.as_ref())
}

/// The clusters that a ServiceImport is kept for though they offer nothing: those whose exports say so, and those of which nothing is known
/// that it was kept for already. One whose agent has not looked yet is about to say more, and counts where the import has no other ground.
pub(super) fn kept_for(
    exchange: &Exchange,
    view: &View,
    key: &ServiceKey,
    seen: Option<&ImportSeen>,
    grounded: bool,
) -> BTreeSet<ClusterName> {
    let exports = exchange.services.get(key).into_iter().flat_map(|service| &service.exports);
    let exports = exports.filter(|(cluster, _)| exchange.takes_part_in(view, cluster, key));
    let idle = exports.filter(|(_, export)| match export.offered {
        Offered::Service(_) | Offered::Excluded => false,
        Offered::Pending => !grounded,
        Offered::Nothing | Offered::Unreadable(_) | Offered::Refused(_) => true,
    });
    let idle = idle.map(|(cluster, _)| cluster.clone());
    let unknown = unknown_of(exchange, view, key, seen);
    idle.chain(waits_for(exchange, view, key, seen)).filter(|cluster| !unknown.contains(cluster)).collect()
}

/// The clusters that a ServiceImport is kept for and whose exports were not read.
pub(super) fn waits_for(
    exchange: &Exchange,
    view: &View,
    key: &ServiceKey,
    seen: Option<&ImportSeen>,
) -> BTreeSet<ClusterName> {
    let mut noted = seen.map(ImportSeen::kept_for).unwrap_or_default();
    noted.retain(|cluster| {
        exchange.takes_part_in(view, cluster, key) && !exchange.knows(cluster, Part::Exports)
    });
    noted
}

/// The clusters that a ServiceImport is made of and of which nothing is known.
pub(super) fn unknown_of(
    exchange: &Exchange,
    view: &View,
    key: &ServiceKey,
    seen: Option<&ImportSeen>,
) -> BTreeSet<ClusterName> {
    let named = seen.map(|seen| seen.clusters.iter()).into_iter().flatten();
    named.filter(|cluster| exchange.is_unknown(view, cluster, key)).cloned().collect()
}

/// Whether the hub may write to what is there.
pub(super) fn may_write(service: Option<&Service>, cluster: &ClusterName) -> bool {
    let seen = service.and_then(|service| service.imports.get(cluster));
    seen.is_none_or(|seen| matches!(seen.whose, Whose::Ours { .. }))
}

/// Whether all of a member's own imports and slices are known.
pub(super) fn is_readable(exchange: &Exchange, cluster: &ClusterName) -> bool {
    [Part::Imports, Part::Imported, Part::Namespaces].into_iter().all(|part| exchange.knows(cluster, part))
}
