//! What of the hub's objects a policy's selectors match, without looking at all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Verdict,
    state::{Part, object},
};
use crate::{
    api::propagation::ResourceSelector,
    decide::{
        fault::Path,
        ids::{ServiceKey, ServiceName},
        select::{By, Object, Pattern, Resources, by_name},
        view::{Template, View},
    },
};

/// The selectors of a policy.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    view: &'a View,
    /// The policy's namespace; none for a cluster-wide one.
    own: Option<&'a str>,
    selectors: Vec<Resources>,
    /// Whether the policy has none, and so speaks of everything.
    everything: bool,
}

// === impl Selection ===

impl<'a> Selection<'a> {
    /// The selectors of a policy in a namespace, or in none. Those with faults match nothing.
    pub(super) fn new(view: &'a View, namespace: &'a str, selectors: &[ResourceSelector]) -> Self {
        let own = Some(namespace).filter(|namespace| !namespace.is_empty());
        let path = Path::root("spec");
        let compiled = selectors.iter().filter_map(|s| Resources::compile(s, own, &path, &mut Vec::new()));
        Self { view, own, selectors: compiled.collect(), everything: selectors.is_empty() }
    }

    /// Each selector, in order. Only if none has a fault, their places are those in the policy.
    pub(super) fn selectors(&self) -> &[Resources] {
        &self.selectors
    }

    /// The namespace that a selector is about; none if it is about several.
    pub(super) fn namespace<'s>(&'s self, selector: &'s Resources) -> Option<&'s str> {
        self.own.or(match &selector.namespace {
            Some(Pattern::Plain(namespace)) => Some(namespace),
            Some(Pattern::Glob(_)) | None => None,
        })
    }

    /// The services, exported or not, whose objects of that kind one of the selectors matches.
    pub(super) fn services(&self, part: Part) -> BTreeSet<&'a ServiceKey> {
        if self.everything {
            return in_namespace(self.templates(part), self.own).map(|(key, _)| key).collect();
        }
        self.selectors.iter().flat_map(|selector| self.matches(part, selector)).map(|(key, _)| key).collect()
    }

    /// The objects of a kind that a selector matches.
    pub(super) fn matches<'s>(
        &'s self,
        part: Part,
        selector: &'s Resources,
    ) -> impl Iterator<Item = (&'a ServiceKey, &'a Template)> + use<'a, 's> {
        let (templates, namespace) = (self.templates(part), self.namespace(selector));
        let of_kind = selector.kind == *part.kind();
        // A selector by name looks it up.
        let named = match (&selector.by, namespace) {
            (By::Name(name), Some(namespace)) => Some(ServiceKey::parse(namespace, name).ok()),
            _ => None,
        };
        let one = named.iter().flatten().filter_map(|key| templates.get_key_value(key)).collect::<Vec<_>>();
        let all =
            (of_kind && named.is_none()).then(|| in_namespace(templates, namespace)).into_iter().flatten();
        let candidates = one.into_iter().chain(all);
        candidates.filter(move |(key, template)| selector.rank(&object(part, key, template)).is_some())
    }

    /// Whether a Namespace selector matches any.
    pub(super) fn matches_a_namespace(&self, selector: &Resources) -> bool {
        self.view.namespaces().any(|(name, namespace)| {
            selector
                .rank(&Object { kind: &selector.kind, namespace: "", name, labels: &namespace.labels })
                .is_some()
        })
    }

    /// Refuses to select by name what leads into a member.
    pub(super) fn refuse_ways_in(&self, verdict: &mut Verdict) {
        for (index, selector) in self.selectors.iter().enumerate() {
            let (Some(name), Some(namespace)) = (by_name(selector), self.namespace(selector)) else {
                continue;
            };
            if let Some(cluster) = self.view.leads_into(&selector.kind, namespace, name) {
                let path = Path::root("spec");
                let path = path.field("resourceSelectors");
                let path = path.index(index);
                verdict.more_faults(vec![path.field("name").fault(format!(
                    "Secret {namespace}/{name} cannot be selected: Cluster {cluster} names it as the way into that cluster"
                ))]);
            }
        }
    }

    /// Whether any cluster exports a service, or the hub asks for it.
    pub(super) fn is_exported(&self, key: &ServiceKey) -> bool {
        self.view.exports().contains_key(key) || self.view.records(key).is_some()
    }

    fn templates(&self, part: Part) -> &'a BTreeMap<ServiceKey, Template> {
        match part {
            Part::Service => self.view.services(),
            Part::Export => self.view.exports(),
            Part::Import => self.view.imports(),
        }
    }
}

/// The entries of a namespace, or all.
fn in_namespace<'m, T>(
    map: &'m BTreeMap<ServiceKey, T>,
    namespace: Option<&str>,
) -> impl Iterator<Item = (&'m ServiceKey, &'m T)> + use<'m, T> {
    // No name sorts before this one.
    let first: Option<ServiceName> = "0".parse().ok();
    let namespace = namespace.map(str::parse);
    let from = match (&namespace, first) {
        (Some(Ok(namespace)), Some(name)) => Some(ServiceKey { namespace: Clone::clone(namespace), name }),
        _ => None,
    };
    let all = from.is_none() && namespace.is_none();
    let range = from.clone().map(|from| map.range(from..)).into_iter().flatten();
    let range =
        range.take_while(move |(key, _)| from.as_ref().is_some_and(|from| key.namespace == from.namespace));
    range.chain(all.then(|| map.iter()).into_iter().flatten())
}
