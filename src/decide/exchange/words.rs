//! What a ServiceExport in a member says of its fate: the conditions Ready and Conflict, in the KEP's words.

use super::{Exchange, Offered, import::unknown_of, seen::ExportSeen};
use crate::{
    api::names::{condition, reason},
    decide::{
        condition::Verdict,
        ids::{ClusterName, ServiceKey},
        merge::{self, Merged},
        record::Unreadable,
        view::View,
    },
};

// === impl Exchange ===

impl Exchange {
    /// The conditions of a ServiceExport, if they are not as they should be.
    pub(super) fn conditions(
        &self,
        view: &View,
        cluster: &ClusterName,
        key: &ServiceKey,
        merged: Option<&Merged>,
    ) -> Option<(Box<str>, Vec<Verdict>)> {
        let export = self.services.get(key)?.exports.get(cluster)?;
        if export.offered == Offered::Unreadable(Unreadable::Missing) {
            // All that was said holds until its record is there again.
            return None;
        }
        let mut wanted = vec![ready(export)];
        let part = merged.filter(|merged| merged.clusters.contains_key(cluster));
        let told = export.conditions.iter().find(|condition| condition.type_ == condition::CONFLICT);
        match part.map(|merged| merge::Condition::of(&merged.conflicts)) {
            // Who it is with may be the one that is unknown: then nobody can tell that it ended.
            _ if told.is_some_and(|told| told.status == "True") && self.is_frozen(view, key) => {
                wanted.extend(told.map(|told| Verdict {
                    condition: condition::CONFLICT,
                    met: true,
                    reason: told.reason.clone().into(),
                    message: told.message.clone(),
                }));
            }
            Some(conflict) => wanted.push(Verdict {
                condition: condition::CONFLICT,
                met: conflict.status,
                reason: conflict.reason.into(),
                message: conflict.message,
            }),
            None if told.is_some() => wanted.push(Verdict {
                condition: condition::CONFLICT,
                met: false,
                reason: reason::NO_CONFLICTS.into(),
                message: String::new(),
            }),
            None => {}
        }
        let met = wanted.iter().all(|wanted| wanted.is_among(&export.conditions));
        (!met).then(|| (export.uid.clone(), wanted))
    }

    /// Whether a cluster that matters to a service is unknown now: one that an importer has it of, or, while nobody imports it, any that was
    /// in use and not read. Who never was, such as a Cluster that leads to the hub, exports nothing, and who is silent may be so for good.
    pub(super) fn is_frozen(&self, view: &View, key: &ServiceKey) -> bool {
        let imports = self.services.get(key).into_iter().flat_map(|service| service.imports.values());
        let imports: Vec<_> = imports.filter(|seen| seen.is_ours()).collect();
        if imports.is_empty() {
            let mut used = view.members().keys().filter(|cluster| view.server_of(cluster).is_some());
            return used.any(|cluster| self.is_unread(view, cluster, key) && !self.is_silent(cluster));
        }
        imports.into_iter().any(|seen| !unknown_of(self, view, key, Some(seen)).is_empty())
    }
}

pub(super) fn ready(export: &ExportSeen) -> Verdict {
    let (met, reason, message) = match &export.offered {
        // It is still offered as it was: the agent is about to write down again what somebody took away.
        Offered::Service(_) | Offered::Unreadable(Unreadable::Missing) => {
            (true, reason::EXPORTED, "the Service is offered to the clusters that import it".to_owned())
        }
        Offered::Nothing => {
            (false, reason::PENDING, "there is no Service to export; the condition Valid says why".to_owned())
        }
        Offered::Pending => {
            (false, reason::PENDING, "the cluster's agent has not looked at it yet".to_owned())
        }
        Offered::Unreadable(why) => (false, reason::FAILED, why.to_string()),
        Offered::Refused(why) => (false, reason::FAILED, why.to_string()),
        Offered::Excluded => (
            false,
            reason::EXCLUDED,
            "its namespace takes no part: it is Tombolo's own, or the hub's --excluded-namespaces have it"
                .to_owned(),
        ),
    };
    Verdict { condition: condition::READY, met, reason: reason.into(), message }
}
