//! What a policy selects is found without looking at everything.

use std::collections::BTreeSet;

use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::{Hub, store};
use crate::{
    api::propagation::ResourceSelector,
    decide::{
        admit::{
            selection::Selection,
            state::{Part, object},
        },
        fault::Path,
        select::Resources,
    },
};

const NAMES: [&str; 6] = ["0", "a", "a-b", "ab", "b", "zz"];

fn any_selector() -> impl Strategy<Value = Value> {
    let kind = select(
        &[("v1", "Service"), ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"), ("v1", "Secret")][..],
    );
    let name = prop_oneof![2 => select(&NAMES[..]).prop_map(Value::from), 1 => Just(json!("a*")), 2 => Just(Value::Null)];
    let namespace = prop_oneof![
        3 => select(&NAMES[..]).prop_map(Value::from),
        1 => Just(json!("{a,b}")),
        1 => Just(Value::Null)
    ];
    let labels = prop_oneof![Just(Value::Null), Just(json!({"matchLabels": {"x": "1"}}))];
    (kind, name, namespace, labels).prop_map(|((api_version, kind), name, namespace, labels)| {
        json!({"apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace, "labelSelector": labels})
    })
}

fn any_service() -> impl Strategy<Value = Value> {
    let kind = select(&[("v1", "Service"), ("multicluster.x-k8s.io/v1beta1", "ServiceExport")][..]);
    (kind, select(&NAMES[..]), select(&NAMES[..]), 0..2u8).prop_map(
        |((api_version, kind), namespace, name, label)| {
            let labels = json!({"x": label.to_string()});
            let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        },
    )
}

proptest! {
    #[test]
    fn a_selection_is_what_its_selectors_match(
        stored in prop::collection::vec(any_service(), 0..30),
        selectors in prop::collection::vec(any_selector(), 0..4),
        own in prop_oneof![Just(""), select(&NAMES[..])],
    ) {
        let mut hub = Hub::empty();
        stored.into_iter().for_each(|object| store(&mut hub.view, object));
        let mut selectors: Vec<ResourceSelector> = serde_json::from_value(json!(selectors)).unwrap();
        if !own.is_empty() {
            selectors.iter_mut().for_each(|selector| selector.namespace = Some(own.to_owned()));
        }
        let selection = Selection::new(&hub.view, own, &selectors);
        let namespace = Some(own).filter(|own| !own.is_empty());
        let compiled: Vec<_> = selectors
            .iter()
            .map(|selector| Resources::compile(selector, namespace, &Path::root("spec"), &mut Vec::new()).unwrap())
            .collect();
        for (part, templates) in [(Part::Service, hub.view.services()), (Part::Export, hub.view.exports())] {
            let all = templates.iter().filter(|(key, template)| {
                let object = object(part, key, template);
                let here = own.is_empty() || own == key.namespace.as_str();
                let any = compiled.iter().any(|selector| selector.rank(&object).is_some());
                here && (compiled.is_empty() || any)
            });
            let all: BTreeSet<_> = all.map(|(key, _)| key).collect();
            prop_assert_eq!(selection.services(part), all);
        }
    }
}
