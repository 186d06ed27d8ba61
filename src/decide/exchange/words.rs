//! What a ServiceExport in a member says of its fate: the conditions Ready and Conflict, in the KEP's words.

use super::{Exchange, Offered, plan::ConditionWanted, seen::ExportSeen};
use crate::{
    api::names::{condition, reason},
    decide::{
        ids::{ClusterName, ServiceKey},
        merge::{self, Merged},
        record::Unreadable,
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
    ) -> Option<(Box<str>, Vec<ConditionWanted>)> {
        let export = self.services.get(key)?.exports.get(cluster)?;
        let mut wanted = vec![ready(export)];
        let part = merged.filter(|merged| merged.clusters.contains_key(cluster));
        let told = export.conditions.iter().any(|condition| condition.type_ == condition::CONFLICT);
        match part.map(|merged| merge::Condition::of(&merged.conflicts)) {
            Some(conflict) => wanted.push(ConditionWanted {
                type_: condition::CONFLICT,
                status: conflict.status,
                reason: conflict.reason,
                message: conflict.message,
            }),
            None if told => wanted.push(ConditionWanted {
                type_: condition::CONFLICT,
                status: false,
                reason: reason::NO_CONFLICTS.to_owned(),
                message: String::new(),
            }),
            None => {}
        }
        let met = wanted.iter().all(|wanted| export.conditions.iter().any(|found| wanted.is_met_by(found)));
        (!met).then(|| (export.uid.clone(), wanted))
    }
}

fn ready(export: &ExportSeen) -> ConditionWanted {
    let (status, reason, message) = match &export.offered {
        Offered::Service(_) => {
            (true, reason::EXPORTED, "the Service is offered to the clusters that import it".to_owned())
        }
        Offered::Nothing => {
            (false, reason::PENDING, "there is no Service to export; the condition Valid says why".to_owned())
        }
        Offered::Pending => {
            (false, reason::PENDING, "the cluster's agent has not looked at it yet".to_owned())
        }
        Offered::Unreadable(why @ (Unreadable::Newer(_) | Unreadable::Garbage(_))) => {
            (false, reason::FAILED, why.to_string())
        }
    };
    ConditionWanted { type_: condition::READY, status, reason: reason.to_owned(), message }
}
