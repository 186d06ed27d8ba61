//! A ServiceExport on the hub: its labels and annotations end up on Services of other clusters, so they must be some
//! that Kubernetes takes and nobody else's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    Request, Verdict,
    conflicts::{self, About, Rule, Subject},
    decoded, name_fault, ready,
    state::{Change, Part, State},
};
use crate::{
    api::ServiceExport,
    decide::{
        fault::Path,
        ids::{ServiceKey, ServiceName},
        ports,
        select::labels,
        view::{Offer, Template, View},
    },
};

/// As much as labels and annotations may take up together: half of what an object may have of them, as the imported
/// Service has some of its own.
const BYTES: usize = 128 * 1024;
/// Keys under Kubernetes' domains that are for users.
const FOR_USERS: &str = "app.kubernetes.io";
const RESERVED: [&str; 4] = ["kubernetes.io", "k8s.io", "x-k8s.io", "tombolo.dev"];

/// What is wrong with the object by itself.
pub(super) fn form(request: &Request, object: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    name_fault::<ServiceName>(request, object, &mut verdict);
    let Some(export) = decoded::<ServiceExport>(object, &mut verdict) else {
        return verdict;
    };
    let spec = Path::root("spec");
    let (of_labels, of_annotations) = (spec.field("exportedLabels"), spec.field("exportedAnnotations"));
    let (exported_labels, annotations) = (&export.spec.exported_labels, &export.spec.exported_annotations);
    labels::check(exported_labels, &of_labels, &mut verdict.faults);
    for key in annotations.keys() {
        // Unlike a label's, the prefix of an annotation's key may have capitals.
        let fault = labels::key_fault_of("an annotation", &key.to_lowercase());
        verdict.faults.extend(fault.map(|message| of_annotations.key(key).fault(message)));
    }
    for (path, map) in [(of_labels, exported_labels), (of_annotations, annotations)] {
        for key in map.keys() {
            verdict.faults.extend(reserved(key).map(|message| path.key(key).fault(message)));
        }
    }
    let size = size(exported_labels) + size(annotations);
    if size > BYTES {
        let message = format!("must not have more than {BYTES} bytes with spec.exportedLabels, not {size}");
        verdict.fault("spec.exportedAnnotations", message);
    }
    verdict
}

/// What is wrong with it beside what the hub holds.
pub(super) fn beside(view: &View, request: &Request, object: &Value, verdict: &mut Verdict) {
    let Ok(key) = ServiceKey::parse(&request.namespace, request.object_name()) else { return };
    if !ready(view, verdict) {
        return;
    }
    let (template, old) = (Template::of(object), request.old_object.as_ref().map(Template::of));
    let before = State::after(view, Change::Template(Part::Export, &key, old.as_ref()));
    let after = State::after(view, Change::Template(Part::Export, &key, Some(&template)));
    let subject = Subject { about: About::Export, rule: Rule::of(template.resolves) };
    conflicts::judge(&before, &after, &BTreeSet::from([key.clone()]), subject, verdict);
    exportable(&after, &key, verdict);
}

/// What is exported in vain: the KEP wants a condition for it, not a refusal.
fn exportable(state: &State<'_>, key: &ServiceKey, verdict: &mut Verdict) {
    let Some(service) = state.template(Part::Service, key) else {
        verdict.warn(format!(
            "there is no Service {key} on the hub; only clusters that have one of their own export it"
        ));
        return;
    };
    let offer = Offer::of(&service.body());
    if offer.external_name {
        verdict.warn(format!("Service {key} is of type ExternalName, which cannot be exported"));
    } else if let Some(import) = state.import_ports(key).filter(|_| state.exports(key).is_empty()) {
        // It is placed nowhere yet, so that nothing can conflict. It will.
        for conflict in ports::conflicts(&offer.ports(), &import) {
            let text = conflict.between("in the Service", "in the ServiceImport on the hub");
            verdict.warn(format!("wherever a policy places {key}, it will conflict: {text}"));
        }
    }
}

/// Why a key is somebody else's, if it is.
fn reserved(key: &str) -> Option<String> {
    let prefix = key.split_once('/')?.0.to_lowercase();
    let within = |domain: &&&str| {
        prefix.strip_suffix(**domain).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    };
    let domain = RESERVED.iter().find(within).filter(|_| prefix != FOR_USERS)?;
    Some(format!("must not be under {domain}, which is reserved; use {FOR_USERS} or a domain of your own"))
}

fn size(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}
