//! Imports: the derived Service of each, its addresses on the ServiceImport, and whether it is served.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{
    Agent,
    derived::{Made, Target},
    note_change,
    reconcile::{Look, Sight},
    versioned::Versioned,
};
use crate::{
    api::{
        ServiceImport,
        names::{annotation, kubernetes, mcs},
    },
    decide::{
        agent::{
            import::{
                Announcement, announced, announcement, is_by_hand, obstacle, pending, ready, says_where,
            },
            service::{self, choose},
        },
        condition::Verdict,
        definition::Definition,
        ids::ServiceKey,
        merge::IpFamily,
    },
    shell::{clock, queue::Done},
};

/// How long a derived Service outlives its import: one that is made again at once keeps it.
const AFTERLIFE: Duration = Duration::from_secs(2);

// === impl Agent ===

impl Agent {
    /// Sees to an import.
    pub(super) async fn import(&self, key: &ServiceKey, look: &Look) -> kube::Result<Done> {
        match (&look.import, &look.definition) {
            (Sight::There(import), Some(definition)) => {
                self.gone.lock().remove(key);
                self.serve(key, look, import, definition).await
            }
            (Sight::Absent, _) => self.outlive(key, look).await,
            _ => Ok(Done::Well),
        }
    }

    async fn serve(
        &self,
        key: &ServiceKey,
        look: &Look,
        import: &Arc<ServiceImport>,
        definition: &Definition,
    ) -> kube::Result<Done> {
        let not = async |verdict: Verdict| self.tell_import(import, definition, &verdict).await;
        if let Some(verdict) = obstacle(import) {
            return not(verdict).await.map(|()| Done::Well);
        }
        let Some(name) = choose(key, announced(import), |name| look.holder(key, name)) else {
            let names: Vec<_> = look.candidates.iter().map(|(name, _)| name.as_str()).collect();
            let names = names.join(" and ");
            let verdict =
                pending(format!("Services {names} are somebody else's: delete or rename one of them"));
            return not(verdict).await.map(|()| Done::Well);
        };
        let target = Target { key, import, definition, name: &name };
        match self.derive(&target).await {
            Ok(Made::There(service, missing)) => {
                self.announce_all(&target, look, import, &service, &missing).await.map(|()| Done::Well)
            }
            Ok(Made::Not(verdict)) => not(verdict).await.map(|()| Done::Well),
            Ok(Made::Waits(wait, verdict)) => {
                if let Some(verdict) = verdict {
                    not(verdict).await?;
                }
                Ok(Done::After(wait))
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                not(pending(format!("Service {name} cannot be written: {}", status.message))).await?;
                Err(kube::Error::Api(status))
            }
            Err(e) => Err(e),
        }
    }

    /// Says of an import what serves it now, and sees that nothing else of ours does.
    async fn announce_all(
        &self,
        target: &Target<'_>,
        look: &Look,
        import: &Arc<ServiceImport>,
        service: &Service,
        missing: &[IpFamily],
    ) -> kube::Result<()> {
        let Target { key, definition, name, .. } = *target;
        let announcement = announcement(import, service);
        let import = self.announce(import, &announcement).await?;
        let wrong = self.link(key, look, &import, name).await?;
        let mut verdict = ready(name, missing);
        if announcement.is_at_odds() {
            verdict = pending(self.at_odds(target, service).await);
        } else if let Some(wrong) = wrong {
            verdict.message += &wrong;
        }
        self.tell_import(&import, definition, &verdict).await?;
        for stray in look.derived(key).iter().filter(|stray| stray.name_any() != name) {
            self.delete_service(stray).await?;
        }
        Ok(())
    }

    /// Says on a ServiceImport what serves it and where, if it does not say so already.
    async fn announce(
        &self,
        import: &Arc<ServiceImport>,
        announcement: &Announcement,
    ) -> kube::Result<Arc<ServiceImport>> {
        if announcement.is_on(import) {
            return Ok(import.clone());
        }
        let mut annotations = json!({ mcs::DERIVED_SERVICE: announcement.derived });
        if let Some(addresses) = &announcement.cluster_ips {
            annotations[annotation::CLUSTER_IPS] = json!(addresses);
        }
        let mut apply = head(import);
        apply["metadata"]["annotations"] = annotations;
        let mut spec = json!({});
        if let Some(ips) = announcement.ips.as_ref().filter(|ips| !ips.is_empty()) {
            spec["ips"] = json!(ips);
        }
        if !announcement.families.is_empty() {
            spec["ipFamilies"] = json!(announcement.families);
        }
        apply["spec"] = spec;
        let written = self.imports(import).apply(&import.name_any(), apply).await?;
        Ok(self.wrote_import(written))
    }

    /// Links the slices that a user made for an import to its derived Service; says which belong to another one.
    async fn link(
        &self,
        key: &ServiceKey,
        look: &Look,
        import: &ServiceImport,
        derived: &str,
    ) -> kube::Result<Option<String>> {
        let mut wrong = Vec::new();
        let ours = [kubernetes::MANAGED_BY_HUB, kubernetes::MANAGED_BY_AGENT];
        for slice in look.slices.iter().filter(|_| is_by_hand(import)) {
            let label = |label: &str| slice.labels().get(label).map(String::as_str);
            if label(mcs::SERVICE_NAME) != Some(key.name.as_str())
                || label(kubernetes::MANAGED_BY).is_some_and(|by| ours.contains(&by))
            {
                continue;
            }
            match label(kubernetes::SERVICE_NAME) {
                None => self.link_slice(slice, derived).await?,
                Some(linked) if linked == derived => {}
                Some(linked) => wrong.push(format!("{} to {linked}", slice.name_any())),
            }
        }
        let label = kubernetes::SERVICE_NAME;
        Ok((!wrong.is_empty()).then(|| {
            wrong.truncate(3);
            format!("; EndpointSlices that belong elsewhere by their label {label}: {}", wrong.join(", "))
        }))
    }

    /// Writes the condition, and where the endpoints are, if that is new.
    async fn tell_import(
        &self,
        import: &ServiceImport,
        definition: &Definition,
        verdict: &Verdict,
    ) -> kube::Result<()> {
        let conditions =
            import.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let new = verdict.written(conditions, import.metadata.generation, clock::now());
        if new.is_none() && says_where(import, definition.says_where) {
            return Ok(());
        }
        let there = conditions.iter().find(|there| there.type_ == verdict.condition);
        let mut apply = head(import);
        apply["status"] = json!({ "conditions": [new.as_ref().or(there)] });
        if definition.says_where {
            apply["status"]["endpointSliceObjects"] = json!("Present");
        }
        let written = self.imports(import).apply_status(&import.name_any(), apply).await?;
        self.wrote_import(written);
        Ok(())
    }

    /// Removes the derived Service of an import that is gone, a little later and only if it really is.
    async fn outlive(&self, key: &ServiceKey, look: &Look) -> kube::Result<Done> {
        let derived = look.derived(key);
        let own = look.own(key);
        self.waiting.lock().remove(key);
        if derived.is_empty() && own.is_empty() {
            self.gone.lock().remove(key);
            return Ok(Done::Well);
        }
        let since = *self.gone.lock().entry(key.clone()).or_insert_with(Instant::now);
        if let Some(left) = AFTERLIFE.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            return Ok(Done::After(left));
        }
        let Some(definition) = self.live_definition::<ServiceImport>().await? else { return Ok(Done::Well) };
        let api = Versioned::<ServiceImport>::new(&self.reader, key.namespace.as_str(), definition.version);
        if api.has(key.name.as_str()).await? {
            return Ok(Done::After(AFTERLIFE));
        }
        // Made under another definition of that name, it went with that, and not because anybody wanted it gone.
        let (ours, orphans): (Vec<_>, Vec<_>) = derived
            .iter()
            .partition(|service| service::definition(service).as_deref() == Some(definition.uid.as_str()));
        for service in ours {
            self.delete_service(service).await?;
        }
        if orphans.is_empty() {
            self.write_slices(Vec::new(), &own).await?;
        }
        self.gone.lock().remove(key);
        Ok(Done::Well)
    }

    fn imports(&self, import: &ServiceImport) -> Versioned<ServiceImport> {
        Versioned::new(&self.writer, &import.namespace().unwrap_or_default(), import.version)
    }

    fn wrote_import(&self, written: ServiceImport) -> Arc<ServiceImport> {
        note_change(&written, "a ServiceImport is answered");
        self.metrics.wrote("serviceimports");
        let import = Arc::new(written.clone());
        self.take_answer(|seen| &mut seen.imports, written);
        import
    }
}

/// What every apply to a ServiceImport begins with. The UID lets it fail where the import is gone, instead of bringing it back.
fn head(import: &ServiceImport) -> serde_json::Value {
    json!({
        "apiVersion": ServiceImport::api_version(&import.version), "kind": "ServiceImport",
        "metadata": {
            "name": import.metadata.name, "namespace": import.metadata.namespace, "uid": import.metadata.uid,
        },
    })
}
