//! What an agent says on a ServiceImport: which Service serves it, at which addresses, and whether it is served.

use k8s_openapi::api::core::v1::Service;

use super::service::{families_of, family, is_derived, is_headless, is_unproven};
use crate::{
    api::{
        ServiceImport,
        mcs::{EndpointSliceObjects, ServiceImportType},
        names::{annotation, condition, label, mcs, reason},
    },
    decide::{
        condition::Verdict,
        copy::{ObjectKey, Ownership, ownership},
        exchange::import_kind,
        ids::ServiceKey,
        merge::IpFamily,
    },
};

/// Which addresses a derived Service is to get when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Whatever the cluster gives it.
    Any,
    /// Those that it had before, if they are still free.
    Kept(Vec<String>),
    /// Those that the user asks for.
    Preset(Vec<String>),
}

/// What is announced on a ServiceImport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The Service.
    pub derived: String,
    /// The addresses that it gets again if somebody deletes it.
    pub cluster_ips: Option<String>,
    /// `spec.ips`; none leaves what the user said.
    pub ips: Option<Vec<String>>,
    /// `spec.ipFamilies`.
    pub families: Vec<String>,
}

/// Whether a ServiceImport is a user's own, not a hub's: that is said by an origin that names the object itself, which a clone's does not.
pub fn is_by_hand(import: &ServiceImport) -> bool {
    let Some(annotations) = &import.metadata.annotations else { return true };
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
    let (namespace, name) = (text(&import.metadata.namespace), text(&import.metadata.name));
    let itself = ObjectKey { kind: import_kind(), namespace, name };
    // Which hub's does not matter here.
    matches!(ownership(annotations, &itself, ""), Ownership::None)
}

fn note<'a>(import: &'a ServiceImport, key: &str) -> Option<&'a str> {
    import.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The Service that a ServiceImport says it is served by.
pub fn announced(import: &ServiceImport) -> Option<&str> {
    note(import, mcs::DERIVED_SERVICE)
}

/// Whether a Service is the derived one of an import. One that lost its proof is told by what the import says of it, its name and addresses,
/// and by the label that it still has.
pub fn is_served_by(key: &ServiceKey, import: Option<&ServiceImport>, service: &Service) -> bool {
    let told = |import: &ServiceImport| {
        let there = service.spec.iter().flat_map(|spec| spec.cluster_ips.iter().flatten());
        let (there, kept): (Vec<_>, _) = (there.collect(), kept(import));
        let labels = service.metadata.labels.as_ref();
        is_unproven(service)
            && service.metadata.namespace == import.metadata.namespace
            && service.metadata.name.as_deref() == announced(import)
            && labels.and_then(|labels| labels.get(label::IMPORT)).is_some_and(|of| of == key.name.as_str())
            && !kept.is_empty()
            && there.into_iter().eq(&kept)
    };
    is_derived(service).as_ref() == Some(key) || import.is_some_and(told)
}

/// The families that are wanted, the preferred one first; none where nothing is said.
pub fn wanted_families(import: &ServiceImport) -> Vec<IpFamily> {
    let said: Vec<&str> = if is_by_hand(import) {
        import.spec.ip_families.iter().map(String::as_str).collect()
    } else {
        note(import, annotation::IP_FAMILIES).unwrap_or_default().split(',').map(str::trim).collect()
    };
    let mut families = Vec::new();
    for family in said.into_iter().filter_map(super::export::family_of) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    families
}

/// The addresses that the derived Service of an import is to get when it is made, those of a wanted family.
pub fn addresses(import: &ServiceImport, families: &[IpFamily]) -> Addresses {
    let kept: Vec<String> = kept(import);
    if is_by_hand(import) && !import.spec.ips.is_empty() && import.spec.ips != kept {
        return Addresses::Preset(import.spec.ips.clone());
    }
    let usable = |address: &String| {
        family(address).is_some_and(|family| families.is_empty() || families.contains(&family))
    };
    let kept: Vec<_> = kept.into_iter().filter(usable).collect();
    if kept.is_empty() { Addresses::Any } else { Addresses::Kept(kept) }
}

fn kept(import: &ServiceImport) -> Vec<String> {
    let text = note(import, annotation::CLUSTER_IPS).unwrap_or_default();
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

/// What is to be announced of the Service that serves an import.
pub fn announcement(import: &ServiceImport, derived: &Service) -> Announcement {
    let spec = derived.spec.clone().unwrap_or_default();
    let given: Vec<String> =
        spec.cluster_ips.clone().unwrap_or_default().into_iter().filter(|ip| ip != "None").collect();
    let headless = is_headless(&import.spec);
    let kept = kept(import);
    let by_user = is_by_hand(import) && !import.spec.ips.is_empty() && import.spec.ips != kept;
    let cluster_ips = if given.is_empty() { kept } else { given.clone() };
    Announcement {
        derived: derived.metadata.name.clone().unwrap_or_default(),
        cluster_ips: Some(cluster_ips.join(",")).filter(|text| !text.is_empty()),
        ips: match () {
            () if by_user && import.spec.ips != given => None,
            () if headless => Some(Vec::new()),
            () => Some(given),
        },
        families: families_of(&spec).iter().map(ToString::to_string).collect(),
    }
}

// === impl Announcement ===

impl Announcement {
    /// Whether a ServiceImport says all this already.
    pub fn is_on(&self, import: &ServiceImport) -> bool {
        note(import, mcs::DERIVED_SERVICE) == Some(self.derived.as_str())
            && note(import, annotation::CLUSTER_IPS) == self.cluster_ips.as_deref()
            && self.ips.as_ref().is_none_or(|ips| *ips == import.spec.ips)
            && self.families == import.spec.ip_families
    }

    /// Whether the user asks for other addresses than there are.
    pub fn is_at_odds(&self) -> bool {
        self.ips.is_none()
    }
}

/// What keeps an import from being served before anything is tried.
pub fn obstacle(import: &ServiceImport) -> Option<Verdict> {
    match &import.spec.type_ {
        ServiceImportType::Other(other) => {
            Some(pending(format!("spec.type: this release does not know {other:?}: update Tombolo")))
        }
        ServiceImportType::ClusterSetIP if import.spec.ports.is_empty() => Some(pending(
            "spec.ports: there are none yet, and a Service with an address has at least one".to_owned(),
        )),
        _ => None,
    }
}

/// It is not served yet, for a reason.
pub fn pending(message: String) -> Verdict {
    Verdict { condition: condition::READY, met: false, reason: reason::PENDING.into(), message }
}

/// None of the families that are wanted is one of this cluster's.
pub fn not_supported(wanted: &[IpFamily]) -> Verdict {
    let wanted = wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    Verdict {
        condition: condition::READY,
        met: false,
        reason: reason::IP_FAMILY_NOT_SUPPORTED.into(),
        message: format!("{wanted} is wanted, and this cluster has no Service addresses of that family"),
    }
}

/// It is served, perhaps by fewer families than are wanted.
pub fn ready(derived: &str, missing: &[IpFamily]) -> Verdict {
    let mut message = format!("served by Service {derived}");
    if !missing.is_empty() {
        let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        message += &format!("; this cluster has no Service addresses of {missing}");
    }
    Verdict { condition: condition::READY, met: true, reason: reason::READY.into(), message }
}

/// Whether a status says already where the endpoints are, where the installed definition has a word for it.
pub fn says_where(import: &ServiceImport, has_field: bool) -> bool {
    let said = import.status.as_ref().and_then(|status| status.endpoint_slice_objects.as_ref());
    !has_field || said == Some(&EndpointSliceObjects::Present)
}
