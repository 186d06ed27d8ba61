//! Imports: the derived Service of each, its addresses on the ServiceImport, and whether it is served.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Service;
use kube::{Resource, ResourceExt};
use kube_runtime::events::{Event, EventType};
use serde_json::json;

use super::{Agent, exports::now, reconcile::Look, versioned::Versioned, watches::Definition};
use crate::{
    api::{
        ServiceImport,
        names::{annotation, kubernetes, mcs},
    },
    decide::{
        agent::{
            condition::Verdict,
            import::{
                Addresses, Announcement, addresses, announced, announcement, is_by_hand, not_supported,
                obstacle, pending, ready, says_where, wanted_families,
            },
            service::{self, Plan, choose, corrected, fresh, must_go},
        },
        ids::ServiceKey,
        merge::IpFamily,
    },
    shell::queue::Done,
};

/// How long a derived Service outlives its import: one that is made again at once keeps it.
const AFTERLIFE: Duration = Duration::from_secs(2);
/// As many attempts follow from what an API server refuses: families, and addresses.
const ATTEMPTS: usize = 5;
/// How long an address is waited for that nobody has: API servers free it a moment after its Service is gone, or later if they fail to.
const RELEASE: Duration = Duration::from_secs(30);
/// Between two attempts to get it, at first; and when that should have been enough.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(500);
/// What an API server says of an address that is not free.
const ALLOCATED: &str = "provided IP is already allocated";
/// What an API server says of a family that it has no addresses of.
const NOT_CONFIGURED: &str = "not configured on this cluster";

/// What became of a derived Service.
enum Made {
    /// It is there; families that are wanted and missing.
    There(Arc<Service>, Vec<IpFamily>),
    /// It is not, or not as it is to be.
    Not(Verdict),
    /// Its address is not free yet: it is to be tried again then.
    Waits(Duration),
}

// === impl Agent ===

impl Agent {
    /// Sees to an import.
    pub(super) async fn import(&self, key: &ServiceKey, look: &Look) -> kube::Result<Done> {
        match (&look.import, &look.definition) {
            (Some(Some(import)), Some(definition)) => {
                self.gone.lock().remove(key);
                self.serve(key, look, import, definition).await
            }
            (Some(None), _) => self.outlive(key, look).await,
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
        let not = async |verdict: Verdict| {
            self.tell_import(import, definition, &verdict).await.map(|()| Done::Well)
        };
        if let Some(verdict) = obstacle(import) {
            return not(verdict).await;
        }
        let Some(name) = choose(key, announced(import), |name| look.holder(key, name)) else {
            let names =
                look.candidates.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" and ");
            return not(pending(format!(
                "Services {names} are somebody else's: delete or rename one of them"
            )))
            .await;
        };
        let (service, missing) = match self.derive(key, look, import, definition, &name).await {
            Ok(Made::There(service, missing)) => (service, missing),
            Ok(Made::Not(verdict)) => return not(verdict).await,
            Ok(Made::Waits(wait)) => {
                if wait == LATER {
                    not(pending(format!("Service {name} waits until the address that it had is free again")))
                        .await?;
                }
                return Ok(Done::After(wait));
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                let verdict = pending(format!("Service {name} cannot be written: {}", status.message));
                self.tell_import(import, definition, &verdict).await?;
                return Err(kube::Error::Api(status));
            }
            Err(e) => return Err(e),
        };
        let announcement = announcement(import, &service);
        let import = self.announce(import, &announcement).await?;
        let wrong = self.link(key, look, &import, &name).await?;
        let mut verdict = ready(&name, &missing);
        if announcement.is_at_odds() {
            verdict = pending(self.at_odds(key, &import, definition, &service).await);
        } else if let Some(wrong) = wrong {
            verdict.message += &wrong;
        }
        self.tell_import(&import, definition, &verdict).await?;
        for stray in look.derived(key).iter().filter(|stray| stray.name_any() != name) {
            self.delete_service(stray).await?;
        }
        Ok(Done::Well)
    }

    /// Makes the derived Service what it is to be, as far as the API server lets us.
    async fn derive(
        &self,
        key: &ServiceKey,
        look: &Look,
        import: &ServiceImport,
        definition: &Definition,
        name: &str,
    ) -> kube::Result<Made> {
        let wanted = wanted_families(import);
        let mut there = look.derived(key).into_iter().find(|service| service.name_any() == name);
        let mut given = match addresses(import, &wanted) {
            Addresses::Any => Vec::new(),
            Addresses::Kept(addresses) | Addresses::Preset(addresses) => addresses,
        };
        for _ in 0..ATTEMPTS {
            let (families, missing): (Vec<_>, Vec<_>) = {
                let unsupported = self.unsupported.lock();
                let headless = service::is_headless(&import.spec);
                wanted.iter().partition(|family| headless || !unsupported.contains(family))
            };
            if families.is_empty() && !missing.is_empty() {
                return Ok(Made::Not(not_supported(&wanted)));
            }
            let plan = Plan {
                key,
                name,
                definition: &definition.uid,
                spec: &import.spec,
                families: &families,
                addresses: &given,
            };
            let outcome = match &there {
                Some(service) if service.metadata.deletion_timestamp.is_some() => {
                    return Ok(Made::Not(pending(format!(
                        "Service {name} is being deleted; it is made again then"
                    ))));
                }
                Some(service) if must_go(service, &plan) => {
                    self.delete_service(service).await?;
                    there = None;
                    continue;
                }
                Some(service) => match corrected(service, &plan) {
                    Some(service) => self.replace_service(&service).await,
                    None => return Ok(Made::There(service.clone(), missing)),
                },
                None => self.create_service(&fresh(&plan)).await,
            };
            match outcome {
                Ok(service) => {
                    self.waiting.lock().remove(key);
                    return Ok(Made::There(service, missing));
                }
                Err(kube::Error::Api(status)) if status.code == 422 => {
                    if !self.learn(&status.message) {
                        // The address may have been given to another Service meanwhile, or is not one of this cluster's.
                        if given.is_empty() || !status.message.contains("spec.clusterIP") {
                            return Err(kube::Error::Api(status));
                        }
                        if let Some(wait) = self.release(key, &given, &status.message) {
                            return Ok(Made::Waits(wait));
                        }
                        self.note_new_address(import, name, &status.message).await;
                        given.clear();
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Made::Not(pending(format!("Service {name} was refused {ATTEMPTS} times"))))
    }

    /// Whether an address that was refused is worth waiting for, and how long until the next attempt: no Service has it, so that the API
    /// server is about to free it.
    fn release(&self, key: &ServiceKey, addresses: &[String], refusal: &str) -> Option<Duration> {
        let taken = || self.seen.lock().services.any(|service| has_any(service, addresses));
        if !refusal.contains(ALLOCATED) || taken() {
            return None;
        }
        let since = *self.waiting.lock().entry(key.clone()).or_insert_with(Instant::now);
        let waited = since.elapsed();
        if waited > RELEASE {
            self.waiting.lock().remove(key);
            return None;
        }
        Some(if waited < Duration::from_secs(1) { SOON } else { LATER })
    }

    /// Tells users that an address could not be kept, or given.
    async fn note_new_address(&self, import: &ServiceImport, name: &str, why: &str) {
        let note = format!("Service {name} gets another address than it was to have: {why}");
        tracing::warn!(namespace = import.namespace(), "{note}");
        let event = Event {
            type_: EventType::Warning,
            reason: "AddressNotAvailable".to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: "Derive".to_owned(),
            secondary: None,
        };
        if let Err(e) = self.events.publish(&event, &import.object_ref(&import.version)).await {
            tracing::debug!("failed to write an event: {e}");
        }
    }

    /// Learns from a refusal which families the cluster lacks; says whether there was something to learn.
    fn learn(&self, refusal: &str) -> bool {
        let mut unsupported = self.unsupported.lock();
        let refused = |family: &IpFamily| refusal.contains(&format!("\"{family}\": {NOT_CONFIGURED}"));
        let new: Vec<_> = [IpFamily::V4, IpFamily::V6].into_iter().filter(refused).collect();
        new.into_iter().fold(false, |learnt, family| unsupported.insert(family) || learnt)
    }

    /// Why a user's addresses are not those of the derived Service.
    async fn at_odds(
        &self,
        key: &ServiceKey,
        import: &ServiceImport,
        definition: &Definition,
        service: &Service,
    ) -> String {
        let (name, asked) = (service.name_any(), import.spec.ips.join(", "));
        let given =
            service.spec.as_ref().and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default().join(", ");
        let plan = Plan {
            key,
            name: &name,
            definition: &definition.uid,
            spec: &import.spec,
            families: &[],
            addresses: &import.spec.ips,
        };
        let why = match self.objection(&fresh(&plan)).await {
            Some(objection) => objection,
            None => {
                "an address stays for the life of its Service: delete the Service to change it".to_owned()
            }
        };
        format!("spec.ips asks for {asked}, and Service {name} has {given}: {why}")
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
        let new = verdict.written(conditions, now());
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

    /// Removes the derived Service of an import that is gone, a little later and only if it really is (DESIGN.md 9.1).
    async fn outlive(&self, key: &ServiceKey, look: &Look) -> kube::Result<Done> {
        let derived = look.derived(key);
        let own = look.own(key);
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
        self.metrics.wrote("serviceimports");
        let import = Arc::new(written.clone());
        self.seen.lock().imports.take(written, false);
        import
    }
}

/// Whether a Service has one of these addresses.
fn has_any(service: &Service, addresses: &[String]) -> bool {
    let there = service.spec.iter().flat_map(|spec| spec.cluster_ips.iter().flatten());
    there.into_iter().any(|there| addresses.contains(there))
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
