//! The record of a member's kinds, which its Cluster carries: what was ever written there, so that it is read after a restart.

use std::collections::BTreeSet;

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    api::{Cluster, names::annotation},
    decide::{select::GroupKind, view::recorded},
    hub::link::session::Session,
};

// === impl Session ===

impl Session {
    /// Reads which kinds the Cluster has on record; says whether it could.
    pub(super) async fn read_record(&self) -> bool {
        let due = self.kinds.state.lock().record_due;
        let clusters: Api<Cluster> = Api::all(self.engine.hub.clone());
        let Ok(cluster) = clusters.get(self.name.as_str()).await else { return false };
        let mut state = self.kinds.state.lock();
        state.take_record(recorded(&cluster));
        // Whoever asked meanwhile asked for another.
        state.record_read = due;
        true
    }

    /// Puts a kind on the Cluster's record. Only the leader may; others watch what is there.
    pub(super) async fn record(&self, kind: &GroupKind) -> bool {
        if !self.engine.claim.holds() {
            return false;
        }
        match self.write_record(kind).await {
            Ok(kinds) => {
                self.kinds.state.lock().take_record(kinds);
                true
            }
            Err(e) => {
                tracing::warn!(member = %self.name, %kind, "failed to record a kind on the Cluster, trying again: {e}");
                false
            }
        }
    }

    async fn write_record(&self, kind: &GroupKind) -> kube::Result<BTreeSet<GroupKind>> {
        let clusters: Api<Cluster> = Api::all(self.engine.writer.clone());
        let cluster = clusters.get(self.name.as_str()).await?;
        let mut kinds = recorded(&cluster);
        if kinds.insert(kind.clone()) {
            let text = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let patch = json!({ "metadata": {
                "resourceVersion": cluster.metadata.resource_version, "annotations": { annotation::KINDS: text },
            } });
            clusters.patch(self.name.as_str(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(kinds)
    }
}
