//! The derived Service of an import, made what it is to be as far as the API server lets us: what it refuses is learnt from, or waited for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Service;
use kube::{Resource, core::Status};
use kube_runtime::events::{Event, EventType};

use super::Agent;
use crate::{
    api::{ServiceImport, names::event},
    decide::{
        agent::{
            import::{Addresses, addresses, is_served_by, not_supported, pending, wanted_families},
            service::{Plan, corrected, family, fresh, is_headless, must_go, turns},
        },
        condition::Verdict,
        definition::Definition,
        ids::ServiceKey,
        merge::IpFamily,
    },
};

/// As many attempts follow from what an API server refuses: families, and addresses.
const ATTEMPTS: usize = 5;
/// How long an address is waited for that nobody has: API servers free it a moment after its Service is gone, or later if they fail to.
const RELEASE: Duration = Duration::from_secs(30);
/// Between two attempts to get it, at first; and when that should have been enough.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(500);
/// What an API server says of an address that is not free.
const ALLOCATED: &str = "provided IP is already allocated";

/// What is derived.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) key: &'a ServiceKey,
    pub(super) import: &'a ServiceImport,
    pub(super) definition: &'a Definition,
    /// The Service's name.
    pub(super) name: &'a str,
}

/// What became of a derived Service.
pub(super) enum Made {
    /// It is there; families that are wanted and missing.
    There(Arc<Service>, Vec<IpFamily>),
    /// It is not, or not as it is to be.
    Not(Verdict),
    /// Its address is not free yet: it is to be tried again then, and this may be said meanwhile.
    Waits(Duration, Option<Verdict>),
}

// === impl Target ===

impl<'a> Target<'a> {
    fn plan(&self, traffic: Option<&'a str>, families: &'a [IpFamily], addresses: &'a [String]) -> Plan<'a> {
        let Target { key, import, definition, name } = *self;
        Plan { key, name, definition: &definition.uid, spec: &import.spec, traffic, families, addresses }
    }

    fn wanted_traffic(&self) -> Option<&'a str> {
        self.import.spec.traffic_distribution.as_deref()
    }
}

// === impl Agent ===

impl Agent {
    /// Makes the derived Service what it is to be.
    pub(super) async fn derive(&self, target: &Target<'_>) -> kube::Result<Made> {
        let Target { key, import, name, .. } = *target;
        let wanted = wanted_families(import);
        let mut given = match addresses(import, &wanted) {
            Addresses::Any => Vec::new(),
            Addresses::Kept(addresses) | Addresses::Preset(addresses) => addresses,
        };
        let headless = is_headless(&import.spec);
        for _ in 0..ATTEMPTS {
            let (families, missing): (Vec<_>, Vec<_>) = {
                let (lacking, now) = (self.lacking.lock(), Instant::now());
                wanted.iter().partition(|family| headless || !lacking.has(**family, now))
            };
            if families.is_empty() && !missing.is_empty() {
                return Ok(Made::Not(not_supported(&wanted)));
            }
            let there = self.seen.lock().services.get(key.namespace.as_str(), name);
            let there = there.filter(|service| is_served_by(key, Some(import), service));
            if there.as_ref().is_some_and(|service| service.metadata.deletion_timestamp.is_some()) {
                let words = format!("Service {name} is being deleted; it is made again then");
                return Ok(Made::Not(pending(words)));
            }
            // Without those of them that are refused it can be tried again.
            let asked = if headless { Vec::new() } else { families.clone() };
            let of_given: Vec<_> = given.iter().filter_map(|address| family(address)).collect();
            let families = if wanted.is_empty() && given.len() > 1 { of_given } else { families };
            let turns = there.as_ref().is_some_and(|there| turns(there, &import.spec));
            let traffic = self.lacking.lock().traffic(target.wanted_traffic(), Instant::now());
            match self.attempt(there, &target.plan(traffic, &families, &given)).await {
                Ok(service) => {
                    if turns {
                        self.note_new_type(target).await;
                    }
                    self.waiting.lock().remove(key);
                    return Ok(Made::There(service, missing));
                }
                Err(kube::Error::Api(status)) if status.code == 422 => {
                    if self.lacking.lock().learn_traffic(&status.message, traffic, Instant::now()) {
                        tracing::info!(import = %key, "this cluster does not know its trafficDistribution: {}", status.message);
                        continue;
                    }
                    if self.lacking.lock().learn(&status.message, &asked, Instant::now()) {
                        continue;
                    }
                    if let Some(made) = self.refused(target, &mut given, status).await? {
                        return Ok(made);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(Made::Not(pending(format!("Service {name} was refused {ATTEMPTS} times"))))
    }

    async fn attempt(&self, there: Option<Arc<Service>>, plan: &Plan<'_>) -> kube::Result<Arc<Service>> {
        match there {
            Some(service) if must_go(&service, plan) => {
                self.delete_service(&service).await?;
                self.make(plan).await
            }
            Some(service) => match corrected(&service, plan) {
                Some(service) => self.replace_service(&service).await,
                None => Ok(service),
            },
            None => self.make(plan).await,
        }
    }

    /// Makes a derived Service; where it is to have two addresses, the second is given to it then.
    async fn make(&self, plan: &Plan<'_>) -> kube::Result<Arc<Service>> {
        let service = self.create_service(&fresh(plan)).await?;
        match corrected(&service, plan) {
            Some(whole) => self.replace_service(&whole).await,
            None => Ok(service),
        }
    }

    /// Gives up an address that was refused, or waits for it; nothing is given back where the next attempt may succeed.
    async fn refused(
        &self,
        target: &Target<'_>,
        given: &mut Vec<String>,
        status: Box<Status>,
    ) -> kube::Result<Option<Made>> {
        // The address may have been given to another Service meanwhile, or is not one of this cluster's.
        if given.is_empty() || !status.message.contains("spec.clusterIP") {
            return Err(kube::Error::Api(status));
        }
        if let Some(waits) = self.release(target, given, &status.message) {
            return Ok(Some(waits));
        }
        self.note_new_address(target, &status.message).await;
        given.clear();
        Ok(None)
    }

    /// Whether an address that was refused is worth waiting for: no Service has it, so that the API server is about to free it.
    fn release(&self, target: &Target<'_>, addresses: &[String], refusal: &str) -> Option<Made> {
        let taken = || self.seen.lock().services.any(|service| has_any(service, addresses));
        if !refusal.contains(ALLOCATED) || taken() {
            return None;
        }
        let since = *self.waiting.lock().entry(target.key.clone()).or_insert_with(Instant::now);
        match since.elapsed() {
            waited if waited < Duration::from_secs(1) => Some(Made::Waits(SOON, None)),
            waited if waited < RELEASE => {
                let words =
                    format!("Service {} waits until the address that it had is free again", target.name);
                Some(Made::Waits(LATER, Some(pending(words))))
            }
            _ => {
                self.waiting.lock().remove(target.key);
                None
            }
        }
    }

    /// Tells users that an address could not be kept, or given.
    async fn note_new_address(&self, target: &Target<'_>, why: &str) {
        let name = target.name;
        let note = format!("Service {name} gets another address than it was to have: {why}");
        self.note(target, EventType::Warning, event::ADDRESS_NOT_AVAILABLE, note).await;
    }

    /// Tells users that a service became headless, or ceased to be (KEP-1645: by an event too).
    async fn note_new_type(&self, target: &Target<'_>) {
        let Target { import, name, .. } = *target;
        let now = if is_headless(&import.spec) {
            "headless: it has no address any more"
        } else {
            "one with an address of its own"
        };
        let note = format!("the exporting clusters made the service {now}; Service {name} is made anew");
        self.note(target, EventType::Normal, event::TYPE_CHANGED, note).await;
    }

    async fn note(&self, target: &Target<'_>, type_: EventType, reason: &str, note: String) {
        let Target { key, import, .. } = *target;
        tracing::warn!(import = %key, "{note}");
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: "Derive".to_owned(),
            secondary: None,
        };
        if let Err(e) = self.events.publish(&event, &import.object_ref(&import.version)).await {
            tracing::debug!("failed to write an event: {e}");
        }
    }

    /// Why a user's addresses are not those of the derived Service.
    pub(super) async fn at_odds(&self, target: &Target<'_>, service: &Service) -> String {
        let Target { import, name, .. } = *target;
        let asked = import.spec.ips.join(", ");
        let given = service.spec.as_ref().and_then(|spec| spec.cluster_ips.clone()).unwrap_or_default();
        let traffic = self.lacking.lock().traffic(target.wanted_traffic(), Instant::now());
        let why = match self.objection(&fresh(&target.plan(traffic, &[], &import.spec.ips))).await {
            Some(objection) => objection.message,
            None => {
                "an address stays for the life of its Service: delete the Service to change it".to_owned()
            }
        };
        format!("spec.ips asks for {asked}, and Service {name} has {}: {why}", given.join(", "))
    }
}

/// Whether a Service has one of these addresses.
fn has_any(service: &Service, addresses: &[String]) -> bool {
    let there = service.spec.iter().flat_map(|spec| spec.cluster_ips.iter().flatten());
    there.into_iter().any(|there| addresses.contains(there))
}
