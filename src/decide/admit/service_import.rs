//! A ServiceImport on the hub: everything that its schema promises and does not check (`multicluster.x-k8s.io` has no
//! enums, ranges or uniqueness), and what the hub cannot give.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Request, Verdict,
    conflicts::{self, About, Rule, Subject},
    decoded, name_fault, ready,
    state::{Change, Part, State},
};
use crate::{
    api::{
        ServiceImport,
        mcs::{ServiceImportSpec, ServiceImportType, ServicePort},
    },
    decide::{
        fault::Shown,
        ids::{PortName, ServiceKey, ServiceName},
        ports::{Port, PortKey, Protocol, duplicates},
        select::labels,
        view::{Offer, PORTS, Template, View},
    },
};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// What is wrong with the object by itself.
pub(super) fn form(request: &Request, object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    name_fault::<ServiceName>(request, object, &mut verdict);
    let Some(import) = decoded::<ServiceImport>(object, &mut verdict) else {
        return verdict;
    };
    let spec = &import.spec;
    ports(&spec.ports, &mut verdict);
    if let ServiceImportType::Other(other) = &spec.type_ {
        verdict.fault("spec.type", one_of(&["ClusterSetIP", "Headless"], other));
    }
    addresses(spec, &mut verdict);
    affinity(spec, &mut verdict);
    traffic(spec, &mut verdict);
    from_the_merge(spec, &mut verdict);
    verdict
}

/// What is wrong with it beside what the hub holds.
pub(super) fn beside(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let Ok(key) = ServiceKey::parse(&request.namespace, request.object_name()) else { return };
    if !ready(view, verdict) {
        return;
    }
    let (offer, template) = (Offer::of(object), Template::of(object));
    let old = request.old_object.as_ref().map(Template::of);
    let before = State::after(view, Change::Template(Part::Import, &key, old.as_ref()));
    let after = State::after(view, Change::Template(Part::Import, &key, Some(&template)));
    let subject = Subject { about: About::Import(&offer), rule: Rule::of(template.resolves) };
    conflicts::judge(&before, &after, &BTreeSet::from([key.clone()]), subject, verdict);
    unexported(&after, &key, &offer, verdict);
}

/// What is imported and not exported.
fn unexported(state: &State<'_>, key: &ServiceKey, offer: &Offer, verdict: &mut Verdict) {
    let exports = state.exports(key);
    if exports.is_empty() {
        verdict.warn(format!("no cluster exports {key} yet; it has no endpoints until one does"));
        return;
    }
    let exported: BTreeSet<_> =
        exports.values().flat_map(|export| &export.ports).map(|port| port.key).collect();
    for (index, port) in offer.ports.iter().filter(|(_, port)| !exported.contains(&port.key)) {
        verdict.warn(format!("spec.ports[{index}]: no cluster exports {} of {key} yet", port.key));
    }
    let other = exports.iter().find(|(_, export)| export.service_type != offer.service_type);
    if let Some((cluster, export)) = other {
        let (wanted, exported) = (offer.service_type, export.service_type);
        verdict.warn(format!("spec.type: {wanted}, but cluster {cluster} exports {key} as {exported}"));
    }
}

fn ports(ports: &[ServicePort], verdict: &mut Verdict) {
    if ports.len() > PORTS {
        verdict.fault("spec.ports", format!("must not have more than {PORTS} ports, not {}", ports.len()));
        return;
    }
    let (mut good, mut places) = (Vec::new(), Vec::new());
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        if port.name.is_none() && ports.len() > 1 {
            verdict.fault(format!("{at}.name"), "must be set, as there are several ports");
        }
        if let Some(port) = read(port, &at, verdict) {
            good.push(port);
            places.push(index);
        }
    }
    for conflict in duplicates(&good) {
        let (here, index) = (&conflict.here, places.get(conflict.index).copied().unwrap_or(conflict.index));
        let first = good.iter().position(|port| *port == conflict.there);
        let first = first.and_then(|first| places.get(first)).copied().unwrap_or_default();
        let at = format!("spec.ports[{index}]");
        // Two ports without names are told so above.
        if here.name == conflict.there.name && here.name.is_named() {
            let message = format!("must be unique: spec.ports[{first}] is called {:?} too", here.name);
            verdict.fault(format!("{at}.name"), message);
        }
        if here.key == conflict.there.key {
            verdict.fault(
                format!("{at}.port"),
                format!("must be unique: spec.ports[{first}] is {} too", here.key),
            );
        }
    }
}

/// A port that could be one; what is wrong with it otherwise.
fn read(port: &ServicePort, at: &str, verdict: &mut Verdict) -> Option<Port> {
    let number = u16::try_from(port.port).ok().filter(|number| *number != 0);
    if number.is_none() {
        verdict.fault(format!("{at}.port"), format!("must be between 1 and 65535, not {}", port.port));
    }
    let name: Result<PortName, _> = port.name.as_deref().unwrap_or_default().parse();
    if let Err(error) = &name {
        verdict.fault(format!("{at}.name"), error.to_string());
    }
    let protocol: Result<Protocol, _> = port.protocol.as_deref().map_or(Ok(Protocol::Tcp), str::parse);
    if protocol.is_err() {
        let given = port.protocol.as_deref().unwrap_or_default();
        verdict.fault(format!("{at}.protocol"), one_of(&["TCP", "UDP", "SCTP"], given));
    }
    // The same rule as for keys of labels.
    if let Some(given) = port.app_protocol.as_deref().filter(|app| labels::key_fault(app).is_some()) {
        let message = format!("must be a name such as http or kubernetes.io/h2c, not {}", Shown(given));
        verdict.fault(format!("{at}.appProtocol"), message);
    }
    let key = PortKey { port: number?, protocol: protocol.ok()? };
    Some(Port { name: name.ok()?, key, app_protocol: port.app_protocol.as_deref().map(Into::into) })
}

fn addresses(spec: &ServiceImportSpec, verdict: &mut Verdict) {
    if !spec.ips.is_empty() {
        let why = if spec.type_ == ServiceImportType::Headless {
            "must be empty: a Headless import has no address of its own"
        } else {
            "must be empty: each importing cluster gives the import an address of its own; leave it out"
        };
        verdict.fault("spec.ips", why);
    }
    let mut seen = BTreeSet::new();
    for (index, family) in spec.ip_families.iter().enumerate() {
        let at = format!("spec.ipFamilies[{index}]");
        if !FAMILIES.contains(&family.as_str()) {
            verdict.fault(at, one_of(&FAMILIES, family));
        } else if !seen.insert(family) {
            verdict.fault(at, format!("must be unique: {family} is there already"));
        }
    }
}

fn affinity(spec: &ServiceImportSpec, verdict: &mut Verdict) {
    let affinity = spec.session_affinity.as_deref();
    if let Some(other) = affinity.filter(|affinity| !AFFINITIES.contains(affinity)) {
        verdict.fault("spec.sessionAffinity", one_of(&AFFINITIES, other));
    }
    let timeout = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    if let Some(seconds) = timeout.and_then(|client| client.timeout_seconds)
        && !(1..=86_400).contains(&seconds)
    {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        verdict.fault(at, format!("must be between 1 and 86400, not {seconds}"));
    }
}

fn traffic(spec: &ServiceImportSpec, verdict: &mut Verdict) {
    let fields = [
        ("spec.internalTrafficPolicy", &spec.internal_traffic_policy, &TRAFFIC_POLICIES[..]),
        ("spec.trafficDistribution", &spec.traffic_distribution, &DISTRIBUTIONS[..]),
    ];
    for (field, value, allowed) in fields {
        if let Some(other) = value.as_deref().filter(|value| !allowed.contains(value)) {
            verdict.fault(field, one_of(allowed, other));
        }
    }
}

/// Affinity, traffic fields and families are what the exports have, whatever an import asks for.
fn from_the_merge(spec: &ServiceImportSpec, verdict: &mut Verdict) {
    let set = [
        ("spec.sessionAffinity", spec.session_affinity.as_deref() == Some("ClientIP")),
        ("spec.internalTrafficPolicy", spec.internal_traffic_policy.is_some()),
        ("spec.trafficDistribution", spec.traffic_distribution.is_some()),
        ("spec.ipFamilies", !spec.ip_families.is_empty()),
    ];
    for (field, _) in set.into_iter().filter(|(_, set)| *set) {
        verdict.warn(format!(
            "{field}: has no effect here, it is taken from the exported Services; set it there"
        ));
    }
}

fn one_of(allowed: &[&str], given: &str) -> String {
    let given = Shown(given);
    match allowed {
        [first, second] => format!("must be {first} or {second}, not {given}"),
        _ => format!("must be one of {}, not {given}", allowed.join(", ")),
    }
}
