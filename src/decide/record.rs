//! The export record: what a member's agent says of the Service behind a ServiceExport, as the annotation that the hub reads.
//!
//! It is a contract between releases: a record of a newer format is not read as less than it says, but as nothing that can be judged
//! ([`Unreadable::Newer`]), so that it withdraws nothing. What a ServiceExport says itself (exported labels, its age) is not in it.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    merge::{InternalTrafficPolicy, IpFamily, ServiceSpec, ServiceType, SessionAffinity},
    ports::{Port, PortKey},
    select::labels::key_fault_of,
};

/// The format that is written.
pub const FORMAT: u32 = 1;
/// As many ports as are read: each is compared with each.
const PORTS: usize = 1000;
/// The longest text that is read; an API server stores 256 KiB of annotations.
const LONGEST: usize = 256 << 10;
/// The longest word.
const WORD: usize = 63;
/// What Kubernetes knows as a preference of near endpoints.
const TRAFFIC_DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
/// As long as Kubernetes lets affinity last.
const AFFINITY: std::ops::RangeInclusive<u32> = 1..=86400;

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It has a format of a newer release: the cluster is unknown for this service, not absent.
    Newer(u32),
    /// It makes no sense, for this reason.
    Garbage(String),
    /// It is not there any more, though the agent said that there is one: somebody replaced the export as a whole.
    Missing,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// A record as it is written. The order of the fields is the order in the text.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    format: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    headless: bool,
    #[serde(default)]
    ports: Vec<WirePort>,
    /// Seconds of affinity by the client's address; none is no affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_ip_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    internal_traffic_local: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traffic_distribution: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ip_families: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePort {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    port: u16,
    protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    app_protocol: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The record of a Service. Labels and annotations are the ServiceExport's own and not part of it.
pub fn write(service: &ServiceSpec) -> String {
    let ports = service.ports.iter().map(|port| WirePort {
        name: port.name.to_string(),
        port: port.key.port,
        protocol: port.key.protocol.to_string(),
        app_protocol: port.app_protocol.as_deref().map(str::to_owned),
    });
    let wire = Wire {
        format: FORMAT,
        headless: service.service_type == ServiceType::Headless,
        ports: ports.collect(),
        client_ip_seconds: match service.session_affinity {
            SessionAffinity::None => None,
            SessionAffinity::ClientIp { timeout_seconds } => Some(timeout_seconds),
        },
        internal_traffic_local: service.internal_traffic_policy == InternalTrafficPolicy::Local,
        traffic_distribution: service.traffic_distribution.as_deref().map(str::to_owned),
        ip_families: service.ip_families.iter().map(ToString::to_string).collect(),
    };
    serde_json::to_string(&wire).unwrap_or_default()
}

/// Reads a record, which may be anything: a member wrote it.
pub fn read(text: &str) -> Result<ServiceSpec, Unreadable> {
    let garbage = |why: &dyn fmt::Display| Unreadable::Garbage(why.to_string());
    if text.len() > LONGEST {
        return Err(garbage(&format_args!("it has {} bytes, {LONGEST} are allowed", text.len())));
    }
    // The format first: nothing else of a newer one need be what we expect.
    let Format { format } = serde_json::from_str(text).map_err(|e| garbage(&e))?;
    if format != FORMAT {
        return Err(Unreadable::Newer(format));
    }
    let wire: Wire = serde_json::from_str(text).map_err(|e| garbage(&e))?;
    if wire.ports.len() > PORTS {
        return Err(garbage(&format_args!("it has {} ports, {PORTS} are allowed", wire.ports.len())));
    }
    let ports = wire.ports.into_iter().map(WirePort::read).collect::<Result<_, _>>()?;
    let mut ip_families = Vec::new();
    for family in &wire.ip_families {
        let family = match family.as_str() {
            "IPv4" => IpFamily::V4,
            "IPv6" => IpFamily::V6,
            other => return Err(garbage(&format_args!("{:?} is no family", short(other)))),
        };
        if !ip_families.contains(&family) {
            ip_families.push(family);
        }
    }
    if let Some(seconds) = wire.client_ip_seconds.filter(|seconds| !AFFINITY.contains(seconds)) {
        return Err(garbage(&format_args!("affinity cannot last {seconds} seconds")));
    }
    let word = |text: &String| text.len() <= WORD && text.chars().all(|c| c.is_ascii_alphanumeric());
    if let Some(text) = wire.traffic_distribution.as_ref().filter(|text| !word(text)) {
        return Err(garbage(&format_args!("{:?} is no trafficDistribution", short(text))));
    }
    Ok(ServiceSpec {
        service_type: if wire.headless { ServiceType::Headless } else { ServiceType::ClusterSetIp },
        ports,
        session_affinity: wire
            .client_ip_seconds
            .map_or(SessionAffinity::None, |timeout_seconds| SessionAffinity::ClientIp { timeout_seconds }),
        internal_traffic_policy: if wire.internal_traffic_local {
            InternalTrafficPolicy::Local
        } else {
            InternalTrafficPolicy::Cluster
        },
        // A word that this release does not know would be refused wherever the service is imported.
        traffic_distribution: wire
            .traffic_distribution
            .filter(|word| TRAFFIC_DISTRIBUTIONS.contains(&word.as_str()))
            .map(Arc::from),
        ip_families,
        ..ServiceSpec::default()
    })
}

fn short(text: &str) -> String {
    text.chars().take(20).collect()
}

// === impl WirePort ===

impl WirePort {
    fn read(self) -> Result<Port, Unreadable> {
        let garbage = |why: &dyn fmt::Display| Unreadable::Garbage(why.to_string());
        let name = self.name.parse().map_err(|e| garbage(&e))?;
        let protocol = self.protocol.parse().map_err(|e| garbage(&e))?;
        if self.port == 0 {
            return Err(garbage(&"there is no port 0"));
        }
        if let Some(fault) =
            self.app_protocol.as_deref().and_then(|text| key_fault_of("an appProtocol", &text.to_lowercase()))
        {
            return Err(garbage(&fault));
        }
        let key = PortKey { port: self.port, protocol };
        Ok(Port { name, key, app_protocol: self.app_protocol.map(Arc::from) })
    }
}

// === impl Unreadable ===

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(format) => {
                write!(f, "the record has format {format}, this release reads {FORMAT}: update the hub")
            }
            Self::Garbage(why) => write!(f, "the record makes no sense: {why}"),
            Self::Missing => f.write_str("the record was taken away: the cluster's agent writes it again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ports::Protocol;

    fn spec() -> ServiceSpec {
        let port = |name: &str, port, protocol| Port {
            name: name.parse().unwrap(),
            key: PortKey { port, protocol },
            app_protocol: (port == 443).then(|| "https".into()),
        };
        ServiceSpec {
            service_type: ServiceType::Headless,
            ports: vec![port("", 53, Protocol::Udp), port("web", 443, Protocol::Tcp)],
            session_affinity: SessionAffinity::ClientIp { timeout_seconds: 60 },
            internal_traffic_policy: InternalTrafficPolicy::Local,
            traffic_distribution: Some("PreferClose".into()),
            ip_families: vec![IpFamily::V6, IpFamily::V4],
            ..ServiceSpec::default()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for spec in [spec(), ServiceSpec::default()] {
            assert_eq!(read(&write(&spec)), Ok(spec));
        }
    }

    #[test]
    fn the_text_of_a_format_never_changes() {
        assert_eq!(
            write(&spec()),
            r#"{"format":1,"headless":true,"ports":[{"port":53,"protocol":"UDP"},{"name":"web","port":443,"protocol":"TCP","appProtocol":"https"}],"clientIpSeconds":60,"internalTrafficLocal":true,"trafficDistribution":"PreferClose","ipFamilies":["IPv6","IPv4"]}"#
        );
    }

    #[test]
    fn a_newer_format_is_unknown_whatever_else_it_holds() {
        assert_eq!(read(r#"{"format":2,"ports":"all"}"#), Err(Unreadable::Newer(2)));
    }

    #[test]
    fn a_preference_of_near_endpoints_that_kubernetes_does_not_know_is_left_out_and_the_rest_is_read() {
        for (word, known) in [
            ("PreferClose", true),
            ("PreferSameZone", true),
            ("PreferSameNode", true),
            ("PreferSameRack", false),
            ("preferclose", false),
        ] {
            let text = write(&ServiceSpec { traffic_distribution: Some(word.into()), ..spec() });
            let wanted = ServiceSpec { traffic_distribution: known.then(|| word.into()), ..spec() };
            assert_eq!(read(&text), Ok(wanted));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_short_reason() {
        let huge = format!(r#"{{"format":1,"ipFamilies":["{}"]}}"#, "x".repeat(10_000));
        let long = "x".repeat(LONGEST + 1);
        let ports =
            format!(r#"{{"format":1,"ports":[{}]}}"#, vec![r#"{"port":1,"protocol":"TCP"}"#; 1001].join(","));
        let table = [
            "",
            "{}",
            "null",
            r#"{"format":1,"ports":[{"port":0,"protocol":"TCP"}]}"#,
            r#"{"format":1,"ports":[{"port":70000,"protocol":"TCP"}]}"#,
            r#"{"format":1,"ports":[{"port":1,"protocol":"tcp"}]}"#,
            r#"{"format":1,"ports":[{"name":"Web","port":1,"protocol":"TCP"}]}"#,
            r#"{"format":1,"ports":[{"port":1,"protocol":"TCP","appProtocol":"a b"}]}"#,
            r#"{"format":1,"clientIpSeconds":0}"#,
            r#"{"format":1,"trafficDistribution":"to me, to me"}"#,
            &huge,
            &long,
            &ports,
        ];
        for text in table {
            match read(text) {
                Err(Unreadable::Garbage(why)) => assert!(why.len() < 300, "{why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
