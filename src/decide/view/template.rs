//! What admission keeps of a Service, ServiceExport or ServiceImport on the hub: what policies select it by, its ports,
//! and, as a small text, what overrides may change.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{
    api::names::annotation,
    decide::{
        copy::strip,
        merge::{Created, ServiceType},
        ports::{Port, PortKey},
    },
};

/// As many ports as are looked at: each is compared with each.
pub const PORTS: usize = 1000;

/// What admission keeps of an object that the hub places in clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made; none if it is being made.
    pub created: Option<Created>,
    /// Whether it asks for port conflicts to be merged instead of refused.
    pub resolves: bool,
    /// The object as it would go to a member, as JSON: a tenth of what it takes as a tree.
    body: Box<str>,
}

/// What a Service, or a ServiceImport, offers in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Its ports, those that make sense, each with its place in the list.
    pub ports: Vec<(usize, Port)>,
    /// Whether it has an address of its own.
    pub service_type: ServiceType,
    /// Whether it stands for a name outside the cluster, and so cannot be exported.
    pub external_name: bool,
}

// === impl Template ===

impl Template {
    /// What is kept of an object.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let created = text("/metadata/creationTimestamp").and_then(|time| time.parse::<Timestamp>().ok());
        Self {
            labels: labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            created: created.map(Created::from),
            resolves: resolves(object),
            body: strip(object).to_string().into(),
        }
    }

    /// The object as it would go to a member.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Whether an object asks for port conflicts to be merged instead of refused.
pub fn resolves(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations");
    let rule = annotations.and_then(|annotations| annotations.get(annotation::PORT_CONFLICTS));
    rule.is_some_and(|rule| rule == annotation::PORT_CONFLICTS_RESOLVE)
}

// === impl Offer ===

impl Offer {
    /// What a Service or ServiceImport offers. Ports that make no sense, and those beyond [`PORTS`], are left out.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let headless = text("/spec/clusterIP") == Some("None") || text("/spec/type") == Some("Headless");
        let ports = object.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
        Self {
            ports: ports
                .take(PORTS)
                .enumerate()
                .filter_map(|(index, port)| Some((index, read(port)?)))
                .collect(),
            service_type: if headless { ServiceType::Headless } else { ServiceType::ClusterSetIp },
            external_name: text("/spec/type") == Some("ExternalName"),
        }
    }

    /// Its ports.
    pub fn ports(&self) -> Vec<Port> {
        self.ports.iter().map(|(_, port)| port.clone()).collect()
    }
}

fn read(port: &Value) -> Option<Port> {
    let text = |field: &str| port.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let number = port.get("port")?.as_u64()?;
    let port = u16::try_from(number).ok().filter(|number| *number != 0)?;
    let protocol = text("protocol").map_or(Ok(Default::default()), str::parse).ok()?;
    let name = text("name").unwrap_or_default().parse().ok()?;
    Some(Port { name, key: PortKey { port, protocol }, app_protocol: text("appProtocol").map(Into::into) })
}
