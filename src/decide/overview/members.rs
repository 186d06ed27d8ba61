//! Services that members share without the hub's objects: exported in a member, imported wherever the namespace is.

use std::collections::BTreeMap;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde::Serialize;

use super::{
    Listed,
    services::{place, said},
};
use crate::{
    api::{ServiceExport, ServiceImport, names::condition},
    decide::explain::{of as find, one_line},
};

/// What was read in a member itself, or why nothing was.
#[derive(Clone, Debug)]
pub struct MemberRead {
    /// Its name.
    pub name: String,
    /// What it has.
    pub found: Result<Found, String>,
}

/// What a member has.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// ServiceExports.
    pub exports: Vec<ServiceExport>,
    /// ServiceImports.
    pub imports: Vec<ServiceImport>,
}

/// A condition of a member's export.
#[derive(Clone, Copy, Debug)]
pub(in crate::decide) struct Told {
    pub(in crate::decide) condition: &'static str,
    /// What it says where something is amiss.
    bad: &'static str,
    /// Who has to say something, if anybody.
    speaker: Option<&'static str>,
}

/// The conditions of a member's export, what matters most first.
pub(in crate::decide) const TOLD: [Told; 3] = [
    Told { condition: condition::VALID, bad: "False", speaker: Some("its agent") },
    Told { condition: condition::READY, bad: "False", speaker: Some("the hub") },
    // Nobody has to say that there is none.
    Told { condition: condition::CONFLICT, bad: "True", speaker: None },
];

/// A service that members share and of which the hub has neither export nor import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberService {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The members that export it.
    pub exported_by: Vec<String>,
    /// The members that import it.
    pub imported_by: Vec<String>,
    /// Whether all that export it have a Service to export.
    pub valid: String,
    /// Whether it reaches others.
    pub ready: String,
    /// Whether the members do not agree.
    pub conflict: String,
    /// Since when the oldest export is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// What is not well, in words.
    pub message: String,
}

/// The services that members share without the hub's objects; none if members were not asked.
pub(super) fn services(listed: &Listed) -> Option<Vec<MemberService>> {
    let members = listed.members.as_ref()?;
    let exports = listed.exports.iter().map(|export| &export.metadata);
    let own: Vec<_> = exports.chain(listed.imports.iter().map(|import| &import.metadata)).map(key).collect();
    let mut services: BTreeMap<(String, String), MemberService> = BTreeMap::new();
    for member in members {
        let Ok(found) = &member.found else { continue };
        for export in found.exports.iter().filter(|export| !own.contains(&key(&export.metadata))) {
            let key = key(&export.metadata);
            services.entry(key).or_default().exports(&member.name, export);
        }
        for import in found.imports.iter().filter(|import| !own.contains(&key(&import.metadata))) {
            services.entry(key(&import.metadata)).or_default().imported_by.push(member.name.clone());
        }
    }
    let named =
        services.into_iter().map(|((namespace, name), service)| MemberService { namespace, name, ..service });
    Some(named.collect())
}

/// Members that could not be asked, a sentence each.
pub(super) fn unasked(listed: &Listed) -> Vec<String> {
    let members = listed.members.iter().flatten();
    let said = members.filter_map(|member| Some((&member.name, member.found.as_ref().err()?)));
    said.map(|(name, why)| format!("cluster/{name}: it could not be asked: {why}")).collect()
}

fn key(metadata: &kube::core::ObjectMeta) -> (String, String) {
    let (namespace, name, _) = place(metadata);
    (namespace, name)
}

// === impl Told ===

impl Told {
    /// What is amiss, if anything is, in words.
    pub(in crate::decide) fn amiss(self, conditions: &[Condition]) -> Option<String> {
        match (find(conditions, self.condition), self.speaker) {
            (Some(found), _) if found.status == self.bad => Some(one_line(&found.message)),
            (None, Some(speaker)) => Some(format!("{speaker} has said nothing of it yet")),
            _ => None,
        }
    }
}

// === impl MemberService ===

impl MemberService {
    /// Takes note of a member's export.
    fn exports(&mut self, member: &str, export: &ServiceExport) {
        let conditions = export.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let first = self.exported_by.is_empty();
        self.exported_by.push(member.to_owned());
        let (_, _, since) = place(&export.metadata);
        self.since = [self.since, since].into_iter().flatten().min();
        for (told, into) in TOLD.iter().zip([&mut self.valid, &mut self.ready, &mut self.conflict]) {
            let now = said(conditions, told.condition);
            // Of several members the worst counts: silence, where somebody has to speak, is worse than that all is well.
            if first || now == told.bad || (*into != told.bad && now.is_empty() == told.speaker.is_some()) {
                *into = now;
            }
            if let Some(words) = told.amiss(conditions).filter(|_| self.message.is_empty()) {
                self.message = format!("{member}: {words}");
            }
        }
    }

    /// Whether it is as it should be.
    pub fn is_well(&self) -> bool {
        self.message.is_empty()
    }
}
