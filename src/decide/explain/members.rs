//! A service that members share without the hub's objects: who exports it, who imports it, and what is amiss.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    Account, Finding, Read, Row, State, listed,
    read::{of, one_line},
    service::is_part,
    template,
};
use crate::{
    api::{ServiceExport, ServiceImport, names::condition},
    decide::{
        copy::ObjectKey,
        exchange::service_key,
        ids::ServiceKey,
        overview::{Found, MemberRead, TOLD},
    },
};

/// Explains an object that is part of no service of the hub, with what members share under its name.
pub(super) fn account(read: &Read, key: &ObjectKey) -> Account {
    match shared(read, key) {
        // Policies may place a Service that is exported in members only.
        Some(shared) if read.templates.contains_key(key) => {
            let mut account = template::account(read, key);
            account.findings.extend(shared.findings);
            account.parts.extend(shared.parts);
            account
        }
        Some(shared) => shared,
        None => template::account(read, key),
    }
}

/// The members that could not be asked, a sentence each.
pub(super) fn unasked(read: &Read) -> Vec<String> {
    rows_unasked(read).into_iter().map(|row| format!("{} {}", row.of, row.text)).collect()
}

/// What members share under a name; none if none of those that were asked has it.
fn shared(read: &Read, key: &ObjectKey) -> Option<Account> {
    let service = ServiceKey::parse(&key.namespace, &key.name).ok().filter(|_| is_part(key))?;
    let exports = rows(read, |found| {
        let mut exports = found.exports.iter();
        exports.find(|export| service_key(&export.metadata).as_ref() == Some(&service)).map(exported)
    });
    let imports = rows(read, |found| {
        let mut imports = found.imports.iter();
        imports.find(|import| service_key(&import.metadata).as_ref() == Some(&service)).map(imported)
    });
    if exports.is_empty() && imports.is_empty() {
        return None;
    }
    let who = |rows: &[Row]| listed(rows.iter().map(|row| row.of.clone()));
    let shared = format!(
        "members share it without any policy of the hub (exported by {}, imported by {})",
        who(&exports),
        who(&imports)
    );
    let unasked = rows_unasked(read);
    let mut account = Account::default();
    let mut find = |state, why: String| {
        account.findings.push(Finding::new(state, format!("{shared}: {why}")));
    };
    for row in exports.iter().chain(&imports).filter(|row| row.state != State::Well) {
        find(row.state, format!("in {}: {}", row.of, row.text));
    }
    for row in &unasked {
        find(row.state, format!("{} {}", row.of, row.text));
    }
    if imports.is_empty() {
        find(
            State::Pending,
            "every member with the namespace imports it, where the hub's flags say so".to_owned(),
        );
    }
    account.findings.push(Finding::new(State::Well, shared));
    account.part("In members: Exports", exports);
    account.part("In members: Imports", imports);
    account.part("In members: Not asked", unasked);
    Some(account)
}

/// A row for each member in which something is found.
fn rows(read: &Read, find: impl Fn(&Found) -> Option<(State, String)>) -> Vec<Row> {
    let rows = read.asked.iter().filter_map(|member| {
        let (state, text) = find(member.found.as_ref().ok()?)?;
        Some(Row::new(state, member.name.as_str(), text))
    });
    rows.collect()
}

fn rows_unasked(read: &Read) -> Vec<Row> {
    let unasked = read.asked.iter().filter_map(|member| Some((member, member.found.as_ref().err()?)));
    let row = |(member, why): (&MemberRead, &String)| {
        Row::new(State::NotWell, member.name.as_str(), format!("could not be asked: {why}"))
    };
    unasked.map(row).collect()
}

fn exported(export: &ServiceExport) -> (State, String) {
    let conditions = export.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let amiss = TOLD.iter().find_map(|told| {
        let words = told.amiss(conditions)?;
        let is_said = of(conditions, told.condition).is_some();
        Some((if is_said { State::NotWell } else { State::Pending }, words))
    });
    amiss.unwrap_or_else(|| (State::Well, message(conditions)))
}

fn imported(import: &ServiceImport) -> (State, String) {
    let status = import.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let unmet = [condition::EXCHANGED, condition::READY].into_iter().filter_map(|kind| of(conditions, kind));
    if let Some(unmet) = unmet.into_iter().find(|found| found.status == "False") {
        return (State::NotWell, one_line(&unmet.message));
    }
    if of(conditions, condition::READY).is_none() {
        return (State::Pending, "its agent has said nothing of it yet".to_owned());
    }
    let from = status.into_iter().flat_map(|status| &status.clusters);
    let from: Vec<_> = from.map(|source| source.cluster.as_str()).collect();
    (State::Well, if from.is_empty() { message(conditions) } else { format!("from {}", listed(from)) })
}

fn message(conditions: &[Condition]) -> String {
    of(conditions, condition::READY).map(|ready| one_line(&ready.message)).unwrap_or_default()
}
