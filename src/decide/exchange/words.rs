//! What a ServiceExport in a member says of its fate: the conditions Ready and Conflict, in the KEP's words.

use super::{Exchange, Offered, seen::ExportSeen};
use crate::{
    api::names::{condition, reason},
    decide::{
        condition::Verdict,
        ids::{ClusterName, ServiceKey},
        merge::{self, Merged},
    },
};

// === impl Exchange ===

impl Exchange {
    /// The conditions of a ServiceExport, if they are not as they should be.
    pub(super) fn conditions(
        &self,
        cluster: &ClusterName,
        key: &ServiceKey,
        merged: Option<&Merged>,
    ) -> Option<(Box<str>, Vec<Verdict>)> {
        let export = self.services.get(key)?.exports.get(cluster)?;
        let mut wanted = vec![ready(export)];
        let part = merged.filter(|merged| merged.clusters.contains_key(cluster));
        let told = export.conditions.iter().any(|condition| condition.type_ == condition::CONFLICT);
        match part.map(|merged| merge::Condition::of(&merged.conflicts)) {
            Some(conflict) => wanted.push(Verdict {
                condition: condition::CONFLICT,
                met: conflict.status,
                reason: conflict.reason.into(),
                message: conflict.message,
            }),
            None if told => wanted.push(Verdict {
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
}

pub(super) fn ready(export: &ExportSeen) -> Verdict {
    let (met, reason, message) = match &export.offered {
        Offered::Service(_) => {
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
    };
    Verdict { condition: condition::READY, met, reason: reason.into(), message }
}
