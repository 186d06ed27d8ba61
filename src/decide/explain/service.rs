//! A service: who exports what, which ports are dropped, who imports it, and what its clusters say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Account, Finding, Part, Read, Row, State, listed,
    read::{conflict, of, one_line},
    template,
};
use crate::{
    api::names::{condition, reason},
    decide::{
        admit,
        copy::ObjectKey,
        exchange::{export_kind, exported_since, import_kind, object_key, withdrawn},
        ids::{ClusterName, ServiceKey},
        merge::{self, ConflictKind, Export, ExportedPort, Fate, Merged, PortMap},
        select::GroupKind,
        view::Offer,
    },
};

/// The service that an object is part of, if it is of more than one object.
pub(super) fn of_object(read: &Read, key: &ObjectKey) -> Option<ServiceKey> {
    let service = ServiceKey::parse(&key.namespace, &key.name).ok()?;
    let exchanged = read.exports.contains_key(&service) || read.imports.contains_key(&service);
    (is_part(key) && exchanged).then_some(service)
}

/// Whether an object is of a kind that services between clusters are made of.
pub(super) fn is_part(key: &ObjectKey) -> bool {
    [service_kind(), export_kind(), import_kind()].contains(&key.kind)
}

fn service_kind() -> GroupKind {
    GroupKind::new("v1", "Service")
}

/// Explains a service, asked for by one of its objects.
pub(super) fn account(read: &Read, asked: &ObjectKey, service: &ServiceKey) -> Account {
    let mut account = Account::default();
    if !read.templates.contains_key(asked) {
        account.findings.extend(lacking(asked));
    }
    exported(read, service, &mut account);
    silent(read, service, &mut account);
    imported(read, service, &mut account);
    let rows = exports(read, service);
    account.parts.insert(0, Part { title: "Exports".to_owned(), rows });
    account.parts.retain(|part| !part.rows.is_empty());
    if account.is_well() {
        let reached = read.imports.get(service).and_then(|import| {
            let conditions = &import.status.as_ref()?.conditions;
            Some(one_line(&of(conditions, condition::READY)?.message))
        });
        let cause = reached.unwrap_or_else(|| "it is exported".to_owned());
        account.findings.push(Finding::new(State::Well, cause));
    }
    account
}

/// That the object asked for is not there, though others of the service are.
fn lacking(asked: &ObjectKey) -> Option<Finding> {
    let ObjectKey { kind, namespace, name } = asked;
    let (cause, way_out) = match &*kind.kind {
        // A Service may be in the members only.
        "Service" => return None,
        "ServiceExport" => (
            "the hub has no ServiceExport of it",
            format!("export it with `tombolo export {name} -n {namespace}`, or in a member"),
        ),
        _ => (
            "nobody imports it by policy: the hub has no ServiceImport of it",
            format!("create ServiceImport {namespace}/{name} and a policy that places it"),
        ),
    };
    Some(Finding { state: State::Absent, ..Finding::not_well(cause, way_out) })
}

/// Takes over what is found of one of its objects.
fn take(account: &mut Account, of: &str, found: Account) {
    for finding in found.findings.into_iter().filter(|finding| finding.state != State::Well) {
        let cause = format!("its {of}: {}", finding.cause);
        account.findings.push(Finding { cause, ..finding });
    }
    let parts = found.parts.into_iter();
    account.parts.extend(parts.map(|part| Part { title: format!("{of}: {}", part.title), ..part }));
}

/// What is found of its ServiceExport.
fn exported(read: &Read, service: &ServiceKey, account: &mut Account) {
    let Some(export) = read.exports.get(service) else { return };
    let key = object_key(export_kind(), service);
    take(account, "ServiceExport", template::account(read, &key));
    let conditions = export.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let unmet = |kind| of(conditions, kind).filter(|found| found.status == "False");
    if let Some(valid) = unmet(condition::VALID) {
        account.findings.push(invalid(read, service, valid));
    } else if let Some(ready) = unmet(condition::READY) {
        let state = if ready.reason == reason::PENDING { State::Pending } else { State::NotWell };
        account
            .findings
            .push(Finding::new(state, format!("it is not exported: {}", one_line(&ready.message))));
    }
    if let Some(conflict) = conflict(conditions) {
        let cause = format!(
            "the clusters do not agree on it ({}): {}",
            conflict.reason.replace(',', ", "),
            one_line(&conflict.message).trim_end_matches('.')
        );
        account
            .findings
            .push(Finding::not_well(cause, "make the Services alike; until then the oldest export decides"));
    }
    account.part("ServiceExport: Conditions", said(conditions));
}

/// Why there is no Service that can be exported.
fn invalid(read: &Read, service: &ServiceKey, valid: &Condition) -> Finding {
    let message = one_line(&valid.message);
    if valid.reason == reason::INVALID_SERVICE_TYPE {
        let cause = format!("its Service cannot be exported: {message}");
        return Finding::not_well(cause, "change spec.type of the Service, or delete the ServiceExport");
    }
    let missing = format!("there is no Service to export ({message})");
    let template = object_key(service_kind(), service);
    if read.templates.contains_key(&template) {
        let found = template::account(read, &template);
        if let Some(worst) = found.worst().filter(|worst| worst.state == State::NotWell) {
            let way_out = worst.way_out.clone().unwrap_or_default();
            return Finding::not_well(
                format!("{missing}: Service {service} on the hub: {}", worst.cause),
                way_out,
            );
        }
        let services = template::targets(read, &template);
        let exports = template::targets(read, &object_key(export_kind(), service));
        let apart: Vec<_> = exports.difference(&services).collect();
        if !apart.is_empty() {
            let cause = format!(
                "{missing}: the ServiceExport is placed on {}, the Service on {}",
                listed(apart),
                listed(&services)
            );
            return Finding::not_well(cause, "let the policies place both on the same clusters");
        }
    }
    nowhere(read, service, missing)
}

/// That there is no Service, or that there is one in another namespace.
fn nowhere(read: &Read, service: &ServiceKey, missing: String) -> Finding {
    let elsewhere: Vec<_> = read
        .services
        .keys()
        .filter(|other| other.name == service.name && other.namespace != service.namespace)
        .map(|other| other.namespace.clone())
        .collect();
    if elsewhere.is_empty() {
        return Finding::not_well(missing, "create the Service, or delete the ServiceExport");
    }
    Finding::not_well(
        format!("{missing}: the hub has a Service {} in namespace {}", service.name, listed(elsewhere)),
        "a ServiceExport has to be in the namespace of its Service: move it there",
    )
}

/// Members that have a part in it and are silent, or not believed, and what that does to their endpoints.
fn silent(read: &Read, service: &ServiceKey, account: &mut Account) {
    let import = read.imports.get(service).and_then(|import| import.status.as_ref());
    let sources = import.into_iter().flat_map(|status| &status.clusters);
    let mut from: Vec<ClusterName> = sources.filter_map(|source| source.cluster.parse().ok()).collect();
    from.extend(template::targets(read, &object_key(export_kind(), service)));
    from.sort();
    from.dedup();
    let ready = import.and_then(|status| of(&status.conditions, condition::READY));
    let withdrawn = ready.map(|ready| withdrawn(&ready.message)).unwrap_or_default();
    let (mut kept, mut withheld) = (Vec::new(), Vec::new());
    for cluster in &from {
        let conditions = read.conditions(cluster.as_str());
        let unmet = |kind| of(conditions, kind).filter(|found| found.status != "True");
        let (rows, says) = if withdrawn.contains(cluster.as_str()) {
            (
                &mut withheld,
                "its endpoints are not ready where others serve; ports that nobody else serves are kept",
            )
        } else {
            (
                &mut kept,
                "its endpoints are kept as they were last known; later they are not ready, where others serve",
            )
        };
        let mut told = |kind, rows: &mut Vec<Row>, says| {
            let Some(found) = unmet(kind) else { return };
            let since = found.last_transition_time.0;
            let cause = format!("{kind} is {} since {since}: {}", found.status, one_line(&found.message));
            rows.push(Row::new(State::NotWell, cluster.as_str(), format!("{cause}; {says}")));
            account.findings.push(Finding::not_well(format!("{cluster}, which exports it: {cause}"), says));
        };
        told(condition::READY, rows, says);
        told(condition::AGENT_READY, rows, says);
        let says = "what is not believed is not used; the last good one stays";
        told(condition::DATA_TRUSTED, &mut withheld, says);
    }
    account.part("Kept endpoints", kept);
    account.part("Withheld endpoints", withheld);
}

/// What is found of its ServiceImport.
fn imported(read: &Read, service: &ServiceKey, account: &mut Account) {
    let Some(import) = read.imports.get(service) else {
        let cause = "nobody imports it yet: the hub has no ServiceImport of it";
        account.findings.push(Finding {
            way_out: Some(format!("create ServiceImport {service} and a policy that places it")),
            ..Finding::new(State::Pending, cause)
        });
        return;
    };
    take(account, "ServiceImport", template::account(read, &object_key(import_kind(), service)));
    let conditions = import.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let unserved = |ready: &Condition| format!("it is not served: {}", one_line(&ready.message));
    account.findings.extend(match of(conditions, condition::READY) {
        Some(ready) if ready.status == "True" => None,
        Some(ready) if !read.exports.contains_key(service) => Some(Finding::not_well(
            unserved(ready),
            format!("export it with `tombolo export {} -n {}`", service.name, service.namespace),
        )),
        Some(ready) => Some(Finding::new(State::Pending, unserved(ready))),
        None => Some(Finding::new(State::Pending, "the hub has not looked at its import yet")),
    });
    if let Some(conflict) = conflict(conditions) {
        let cause = format!("its ServiceImport: {}", one_line(&conflict.message).trim_end_matches('.'));
        let way_out = "give spec.type of the ServiceImport the type of the exports";
        account.findings.push(Finding::not_well(cause, way_out));
    }
    account.part("ServiceImport: Conditions", said(conditions));
}

fn said(conditions: &[Condition]) -> Vec<Row> {
    let row = |found: &Condition| {
        let wanted = if found.type_ == condition::CONFLICT { "False" } else { "True" };
        let state = if found.status == wanted { State::Well } else { State::NotWell };
        let text = format!("{} ({}): {}", found.status, found.reason, one_line(&found.message));
        Row::new(state, found.type_.as_str(), text)
    };
    conditions.iter().map(row).collect()
}

/// What each cluster exports by the hub's own objects, since when as the hub says, and which of it is dropped. Whose export decides is
/// left to conditions: the time may not be told of all.
fn exports(read: &Read, service: &ServiceKey) -> Vec<Row> {
    let exports = admit::exported(&read.view, service);
    let merged = merge::merge(&exports, &merge::AcceptedNames::new());
    let template = read.view.imports().get(service).map(|import| Offer::of(&import.body()));
    let ports_differ = |merged: &Merged| merged.conflicts.iter().any(|it| it.kind == ConflictKind::Port);
    let by_age = template.as_ref().is_none_or(|offer| offer.ports.is_empty())
        && merged.as_ref().is_some_and(ports_differ);
    let clusters = match (&template, &merged) {
        (Some(offer), Some(merged)) => {
            let template = merge::Template { service_type: offer.service_type, ports: offer.ports() };
            merge::import(&template, Some(merged)).clusters
        }
        (None, Some(merged)) => merged.clusters.clone(),
        (_, None) => return Vec::new(),
    };
    let conditions = read.exports.get(service).and_then(|export| Some(&*export.status.as_ref()?.conditions));
    let ready = conditions.and_then(|conditions| of(conditions, condition::READY));
    let since = ready.map(|ready| exported_since(&ready.message)).unwrap_or_default();
    let row = |export: &Export| {
        let ports = clusters.get(&export.cluster);
        let mut text = ports.map(|ports| ports_of(ports, by_age)).unwrap_or_default();
        if let Some(since) = since.get(export.cluster.as_str()) {
            text += &format!(", since {since}");
        }
        let is_dropped = |port: &ExportedPort| matches!(port.fate, Fate::Withheld(_)) && !by_age;
        let dropped = ports.into_iter().flatten().any(|(_, port)| is_dropped(port));
        let state = if dropped { State::NotWell } else { State::Well };
        Row::new(state, export.cluster.as_str(), text)
    };
    exports.iter().map(row).collect()
}

/// Ports in words, with what becomes of them unless that goes by the age of the exports.
fn ports_of(ports: &PortMap, by_age: bool) -> String {
    let shown = ports.iter().map(|(key, port)| {
        let name = if port.name.is_named() { format!("{} ", port.name) } else { String::new() };
        match &port.fate {
            Fate::Withheld(why) if !by_age => format!("{name}{key} dropped ({why})"),
            Fate::Served(_) | Fate::Withheld(_) => format!("{name}{key}"),
        }
    });
    listed(shown)
}
