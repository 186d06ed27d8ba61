//! The derived Service of an import: whose a Service is, what it is called, and what it is to look like.
//!
//! Ownership is the annotation [`annotation::DERIVED`], which names the Service itself: what a user cloned, or called so, is never touched.

use k8s_openapi::{
    api::core::v1::{ClientIPConfig, Service, ServicePort, ServiceSpec, SessionAffinityConfig},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::{
    api::{
        mcs::{ServiceImportSpec, ServiceImportType},
        names::{annotation, label},
    },
    decide::{
        derived::{hashed_name, plain_name},
        ids::ServiceKey,
        merge::IpFamily,
    },
};

/// The format of the proof that is written; a newer one is as good a proof.
const FORMAT: u32 = 1;

/// Who has a name that a derived Service could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody.
    Free,
    /// The import itself.
    Ours,
    /// Somebody else.
    Foreign,
}

/// Proof that a Service is derived from an import.
#[derive(Serialize, Deserialize)]
struct Proof {
    format: u32,
    namespace: String,
    service: String,
    import: String,
    /// The UID of the definition of ServiceImports when the Service was made.
    #[serde(default)]
    definition: String,
}

/// What a derived Service is made of.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The import.
    pub key: &'a ServiceKey,
    /// The Service's name.
    pub name: &'a str,
    /// The UID of the definition of ServiceImports.
    pub definition: &'a str,
    /// What is imported.
    pub spec: &'a ServiceImportSpec,
    /// Which endpoints it is to prefer, in a word that the cluster knows.
    pub traffic: Option<&'a str>,
    /// The families that it is to have, as far as the cluster has them; none leaves that to the cluster.
    pub families: &'a [IpFamily],
    /// The addresses that it is to have; none leaves that to the cluster.
    pub addresses: &'a [String],
}

/// The import that a Service is derived from, if it is.
pub fn is_derived(service: &Service) -> Option<ServiceKey> {
    let proof = proof(service)?;
    let meta = &service.metadata;
    let itself =
        meta.namespace.as_ref() == Some(&proof.namespace) && meta.name.as_ref() == Some(&proof.service);
    itself.then(|| ServiceKey::parse(&proof.namespace, &proof.import).ok())?
}

/// Whether a Service has no word of which import it is derived from, or none that can be read.
pub fn is_unproven(service: &Service) -> bool {
    proof(service).is_none()
}

/// The UID of the definition of ServiceImports when a derived Service was made.
pub fn definition(service: &Service) -> Option<String> {
    proof(service).map(|proof| proof.definition)
}

fn proof(service: &Service) -> Option<Proof> {
    let text = service.metadata.annotations.as_ref()?.get(annotation::DERIVED)?;
    serde_json::from_str(text).ok()
}

/// What the derived Service of an import is called: as announced before, as it is called already, or by the first name that is free.
/// None if others have both names.
pub fn choose(key: &ServiceKey, announced: Option<&str>, holder: impl Fn(&str) -> Holder) -> Option<String> {
    let names: Vec<String> = plain_name(key).into_iter().chain([hashed_name(key)]).collect();
    let announced =
        names.iter().find(|name| announced == Some(name.as_str()) && holder(name) != Holder::Foreign);
    let ours = || names.iter().find(|name| holder(name) == Holder::Ours);
    let free = || names.iter().find(|name| holder(name) == Holder::Free);
    announced.or_else(ours).or_else(free).cloned()
}

/// Whether an import has no address of its own.
pub fn is_headless(spec: &ServiceImportSpec) -> bool {
    spec.type_ == ServiceImportType::Headless
}

/// The Service to be made. One that is to have two addresses gets the first one: an API server that refuses the second of two forgets to
/// free the first (Kubernetes 1.36). [`corrected`] gives it the other.
pub fn fresh(plan: &Plan<'_>) -> Service {
    let headless = is_headless(plan.spec);
    let mut families = plan.families.to_vec();
    let addresses: &[String] = if headless { &[] } else { plan.addresses };
    // The first address decides which family is the first.
    if let Some(first) = addresses.first().and_then(|address| family(address)) {
        families.sort_by_key(|family| *family != first);
        if addresses.len() > 1 {
            families = vec![first];
        }
    }
    let mut spec = ServiceSpec { ip_family_policy: policy(families.len()), ..body(plan) };
    spec.ip_families = names(&families);
    if headless {
        spec.cluster_ip = Some("None".to_owned());
        // Without a word about it, one without a selector would be given both families, whichever the cluster has.
        spec.ip_family_policy = spec.ip_family_policy.or_else(|| policy(1));
    } else if let Some(first) = addresses.first() {
        spec.cluster_ip = Some(first.clone());
        spec.cluster_ips = Some(vec![first.clone()]);
    }
    let metadata = ObjectMeta {
        namespace: Some(plan.key.namespace.to_string()),
        name: Some(plan.name.to_owned()),
        ..ObjectMeta::default()
    };
    Service { metadata: marked(metadata, plan), spec: Some(spec), status: None }
}

/// The Service to be put in place of the one that is there; none if that is as it is to be.
pub fn corrected(there: &Service, plan: &Plan<'_>) -> Option<Service> {
    let live = there.spec.clone().unwrap_or_default();
    let mut spec = ServiceSpec {
        cluster_ip: live.cluster_ip.clone(),
        cluster_ips: live.cluster_ips.clone(),
        ip_families: live.ip_families.clone(),
        ip_family_policy: live.ip_family_policy.clone(),
        ..body(plan)
    };
    let families = kept_families(&live, plan.families);
    if families != families_of(&live) {
        spec.ip_family_policy = policy(families.len());
        let there = live.cluster_ips.unwrap_or_default();
        let added =
            plan.addresses.iter().filter(|address| !there.contains(address) && !is_headless(plan.spec));
        let added =
            added.filter(|address| family(address).is_some_and(|family| families[1..].contains(&family)));
        spec.cluster_ips = Some(there.iter().chain(added).take(families.len()).cloned().collect());
        spec.ip_families = names(&families);
    }
    let live = there.spec.clone().unwrap_or_default();
    let metadata = marked(ObjectMeta { managed_fields: None, ..there.metadata.clone() }, plan);
    let same = metadata.labels == there.metadata.labels
        && metadata.annotations == there.metadata.annotations
        && essence(&spec) == essence(&live);
    (!same).then_some(Service { metadata, spec: Some(spec), status: None })
}

/// Whether a derived Service has to go before it can be what it is to be: an address cannot be given, taken away or changed in place.
pub fn must_go(there: &Service, plan: &Plan<'_>) -> bool {
    let live = there.spec.clone().unwrap_or_default();
    let families = families_of(&live);
    let none_left = !plan.families.is_empty()
        && !families.is_empty()
        && !families.iter().any(|family| plan.families.contains(family));
    turns(there, plan.spec) || none_left || live.type_.as_deref() == Some("ExternalName")
}

/// Whether a derived Service becomes headless, or ceases to be.
pub fn turns(there: &Service, import: &ServiceImportSpec) -> bool {
    let address = there.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    (address == Some("None")) != is_headless(import)
}

/// The families that a Service has.
pub fn families_of(spec: &ServiceSpec) -> Vec<IpFamily> {
    spec.ip_families.iter().flatten().filter_map(|family| super::export::family_of(family)).collect()
}

/// The family of an address.
pub fn family(address: &str) -> Option<IpFamily> {
    let address: std::net::IpAddr = address.parse().ok()?;
    Some(if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 })
}

/// The families that a Service can have of those that are wanted, without changing its first one, which is for life.
fn kept_families(live: &ServiceSpec, wanted: &[IpFamily]) -> Vec<IpFamily> {
    let there = families_of(live);
    if wanted.is_empty() {
        return there;
    }
    let kept = there.iter().enumerate().filter(|(place, family)| *place == 0 || wanted.contains(family));
    let mut kept: Vec<_> = kept.map(|(_, family)| *family).collect();
    let added: Vec<_> = wanted.iter().filter(|family| !kept.contains(family)).copied().collect();
    kept.extend(added);
    kept
}

fn names(families: &[IpFamily]) -> Option<Vec<String>> {
    Some(families.iter().map(ToString::to_string).collect()).filter(|names: &Vec<_>| !names.is_empty())
}

fn policy(families: usize) -> Option<String> {
    match families {
        0 => None,
        1 => Some("SingleStack".to_owned()),
        _ => Some("PreferDualStack".to_owned()),
    }
}

fn marked(metadata: ObjectMeta, plan: &Plan<'_>) -> ObjectMeta {
    let proof = Proof {
        format: FORMAT,
        namespace: plan.key.namespace.to_string(),
        service: plan.name.to_owned(),
        import: plan.key.name.to_string(),
        definition: plan.definition.to_owned(),
    };
    let mut labels = metadata.labels.unwrap_or_default();
    labels.insert(label::IMPORT.to_owned(), plan.key.name.to_string());
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(annotation::DERIVED.to_owned(), serde_json::to_string(&proof).unwrap_or_default());
    ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..metadata }
}

/// What an import says of its Service, in a Service's own words and with what an API server would add.
fn body(plan: &Plan<'_>) -> ServiceSpec {
    let import = plan.spec;
    let ports = import.ports.iter().map(|port| ServicePort {
        name: port.name.clone(),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        port: port.port,
        target_port: Some(IntOrString::Int(port.port)),
        app_protocol: port.app_protocol.clone(),
        ..ServicePort::default()
    });
    let sticky = import.session_affinity.as_deref() == Some("ClientIP") && !is_headless(import);
    let timeout =
        import.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    let sticky_config = SessionAffinityConfig {
        client_ip: Some(ClientIPConfig { timeout_seconds: Some(timeout.unwrap_or(10_800)) }),
    };
    ServiceSpec {
        type_: Some("ClusterIP".to_owned()),
        ports: Some(ports.collect()).filter(|ports: &Vec<_>| !ports.is_empty()),
        session_affinity: Some(if sticky { "ClientIP" } else { "None" }.to_owned()),
        session_affinity_config: sticky.then_some(sticky_config),
        internal_traffic_policy: Some(
            import.internal_traffic_policy.clone().unwrap_or_else(|| "Cluster".to_owned()),
        ),
        traffic_distribution: plan.traffic.map(str::to_owned),
        ..ServiceSpec::default()
    }
}

/// What of a Service counts where two are compared: all that sends traffic somewhere.
fn essence(spec: &ServiceSpec) -> ServiceSpec {
    let filled = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    ServiceSpec {
        type_: spec.type_.clone(),
        ports: spec.ports.clone().filter(|ports| !ports.is_empty()),
        selector: spec.selector.clone().filter(|selector| !selector.is_empty()),
        session_affinity: spec.session_affinity.clone(),
        session_affinity_config: spec.session_affinity_config.clone(),
        internal_traffic_policy: spec.internal_traffic_policy.clone(),
        traffic_distribution: spec.traffic_distribution.clone(),
        external_ips: filled(&spec.external_ips),
        external_name: spec.external_name.clone().filter(|name| !name.is_empty()),
        ip_families: filled(&spec.ip_families),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.filter(|publish| *publish),
        ..ServiceSpec::default()
    }
}
