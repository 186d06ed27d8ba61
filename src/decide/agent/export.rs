//! What a ServiceExport is worth: whether there is a Service that can be exported, and what others are told of it.

use k8s_openapi::api::core::v1::{Service, ServicePort};

use super::service::is_derived;
use crate::{
    api::names::{condition, reason},
    decide::{
        condition::Verdict,
        ids::ServiceKey,
        merge::{InternalTrafficPolicy, IpFamily, ServiceSpec, ServiceType, SessionAffinity},
        ports::{Port, PortKey},
    },
};

/// For how long a client stays with its endpoint where nothing is said.
const STICKY_SECONDS: u32 = 10_800;

/// What is exported; or why nothing is.
pub fn judge(key: &ServiceKey, service: Option<&Service>) -> Result<ServiceSpec, Verdict> {
    let invalid = |reason: &'static str, message| Verdict {
        condition: condition::VALID,
        met: false,
        reason: reason.into(),
        message,
    };
    let Some(service) = service else {
        let message = format!("there is no Service {key}: make it, or delete the ServiceExport");
        return Err(invalid(reason::NO_SERVICE, message));
    };
    let spec = service.spec.clone().unwrap_or_default();
    if spec.type_.as_deref() == Some("ExternalName") {
        let message = format!(
            "Service {key} has type ExternalName: it has no endpoints in this cluster that others could reach"
        );
        return Err(invalid(reason::INVALID_SERVICE_TYPE, message));
    }
    if let Some(import) = is_derived(service) {
        let message = format!(
            "Service {key} is derived from ServiceImport {import}: export the Service behind it in the clusters that have it"
        );
        return Err(invalid(reason::INVALID_SERVICE_TYPE, message));
    }
    Ok(exported(service))
}

/// What a valid export's condition says, and what of the Service has another effect where it is imported.
pub fn valid(service: &ServiceSpec) -> Verdict {
    let mut message = "the Service can be exported".to_owned();
    if service.traffic_distribution.as_deref() == Some("PreferSameNode") {
        message += "; trafficDistribution PreferSameNode prefers the own zone where it is imported, not the own node";
    }
    Verdict { condition: condition::VALID, met: true, reason: reason::VALID.into(), message }
}

/// What others are told of a Service.
pub(super) fn exported(service: &Service) -> ServiceSpec {
    let spec = service.spec.clone().unwrap_or_default();
    let headless = spec.cluster_ip.as_deref() == Some("None");
    let timeout = spec.session_affinity_config.and_then(|config| config.client_ip?.timeout_seconds);
    let timeout = timeout.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(STICKY_SECONDS);
    let mut ip_families: Vec<IpFamily> = Vec::new();
    for family in spec.ip_families.iter().flatten().filter_map(|family| family_of(family)) {
        if !ip_families.contains(&family) {
            ip_families.push(family);
        }
    }
    ServiceSpec {
        service_type: if headless { ServiceType::Headless } else { ServiceType::ClusterSetIp },
        ports: spec.ports.iter().flatten().filter_map(port).collect(),
        session_affinity: match spec.session_affinity.as_deref() {
            Some("ClientIP") => SessionAffinity::ClientIp { timeout_seconds: timeout },
            _ => SessionAffinity::None,
        },
        internal_traffic_policy: match spec.internal_traffic_policy.as_deref() {
            Some("Local") => InternalTrafficPolicy::Local,
            _ => InternalTrafficPolicy::Cluster,
        },
        traffic_distribution: spec.traffic_distribution.filter(|text| !text.is_empty()).map(Into::into),
        ip_families,
        ..ServiceSpec::default()
    }
}

fn port(port: &ServicePort) -> Option<Port> {
    let number = u16::try_from(port.port).ok().filter(|number| *number != 0)?;
    let protocol = port.protocol.as_deref().map_or(Ok(Default::default()), str::parse).ok()?;
    let app = port.app_protocol.as_deref().filter(|app| !app.is_empty());
    Some(Port {
        name: port.name.as_deref().unwrap_or_default().parse().ok()?,
        key: PortKey { port: number, protocol },
        app_protocol: app.map(Into::into),
    })
}

/// A family by Kubernetes' word for it.
pub(super) fn family_of(text: &str) -> Option<IpFamily> {
    match text {
        "IPv4" => Some(IpFamily::V4),
        "IPv6" => Some(IpFamily::V6),
        _ => None,
    }
}
