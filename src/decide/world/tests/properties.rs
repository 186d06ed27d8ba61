//! Whatever happens, in whatever order: the same state gives the same answer, and whoever is concerned is told.

use proptest::prelude::*;

use super::*;

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 2] = ["x", "y"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Cluster { name: usize, tainted: bool, leaving: bool },
    NoCluster(usize),
    Policy { name: usize, form: usize, clusters: Vec<usize>, more: usize },
    NoPolicy(usize),
    Override { clusters: Vec<usize> },
    NoOverride,
    Template { kind: usize, name: usize, content: usize },
    NoTemplate { kind: usize, name: usize },
    Hold { cluster: usize, kind: usize, name: usize, stamps: usize },
    NoHold { cluster: usize, kind: usize, name: usize },
    Lead,
}

const KINDS: [&str; 2] = ["ConfigMap", "Deployment"];
/// Members may have copies of a kind that the hub cannot read, and policies may select it.
const UNREAD: &str = "CronJob";
const HELD: [&str; 3] = [KINDS[0], KINDS[1], UNREAD];

fn event() -> impl Strategy<Value = Event> {
    let clusters = || prop::collection::vec(0..3usize, 0..3);
    prop_oneof![
        2 => (0..3usize, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(name, tainted, leaving)| Event::Cluster { name, tainted, leaving }),
        1 => (0..3usize).prop_map(Event::NoCluster),
        4 => (0..3usize, 0..6usize, clusters(), 0..8usize).prop_map(|(name, form, clusters, more)| Event::Policy { name, form, clusters, more }),
        2 => (0..3usize).prop_map(Event::NoPolicy),
        1 => clusters().prop_map(|clusters| Event::Override { clusters }),
        1 => Just(Event::NoOverride),
        4 => (0..2usize, 0..2usize, 0..4usize).prop_map(|(kind, name, content)| Event::Template { kind, name, content }),
        2 => (0..2usize, 0..2usize).prop_map(|(kind, name)| Event::NoTemplate { kind, name }),
        4 => (0..3usize, 0..3usize, 0..2usize, 0..4usize).prop_map(|(cluster, kind, name, stamps)| Event::Hold { cluster, kind, name, stamps }),
        2 => (0..3usize, 0..3usize, 0..2usize).prop_map(|(cluster, kind, name)| Event::NoHold { cluster, kind, name }),
        1 => Just(Event::Lead),
    ]
}

fn names(clusters: &[usize]) -> Vec<&'static str> {
    clusters.iter().map(|index| CLUSTERS[*index]).collect()
}

fn some_policy(name: usize, form: usize, clusters: &[usize], more: usize) -> PropagationPolicy {
    let selectors = match form {
        0 => all_of("ConfigMap"),
        1 => all_of("Deployment"),
        4 => all_of(UNREAD),
        5 => json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "x" }]),
        2 => json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "x" }]),
        _ => {
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "labelSelector": { "matchLabels": { "l": "1" } } }])
        }
    };
    let extra = match more {
        0 => json!({ "spec": { "propagateDeps": true } }),
        1 => {
            json!({ "spec": { "priority": 5, "suspension": { "dispatchingOnClusters": { "clusterNames": ["a"] } } } })
        }
        2 => json!({ "spec": { "dependentOverrides": ["o"] } }),
        3 => {
            json!({ "spec": { "placement": { "spreadConstraints": [{ "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 }] } } })
        }
        4 => json!({ "spec": { "preserveResourcesOnDeletion": true } }),
        5 => {
            json!({ "spec": { "propagateDeps": true, "dependentOverrides": ["o"], "conflictResolution": "Overwrite" } })
        }
        6 => {
            json!({ "spec": { "propagateDeps": true, "suspension": { "dispatchingOnClusters": { "clusterNames": ["b"] } } } })
        }
        _ => json!({}),
    };
    policy(["p", "q", "r"][name], selectors, on(&names(clusters)), extra)
}

fn some_template(content: usize) -> Value {
    match content {
        0 => json!({ "spec": { "replicas": 4 } }),
        1 => json!({ "metadata": { "labels": { "l": "1" } } }),
        2 => {
            json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "envFrom": [{ "configMapRef": { "name": "y" } }] }] } } } })
        }
        _ => json!({ "data": { "k": "v" } }),
    }
}

fn some_stamps(stamps: usize) -> Held {
    Held { preserve: stamps == 1, delete_with_policy: stamps == 2, dependency: stamps == 3, replicas: None }
}

impl Stage {
    /// Lets something happen, and gives back who was told.
    fn happens(&mut self, event: &Event) -> Dirty {
        match event {
            Event::Cluster { name, tainted, leaving } => {
                let mut more = json!({});
                if *tainted {
                    more["spec"]["taints"] = json!([{ "key": "k", "effect": "NoSchedule" }]);
                }
                if *leaving {
                    more["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                self.view.apply_cluster(cluster(CLUSTERS[*name], more));
                self.changed()
            }
            Event::NoCluster(name) => {
                self.view.delete_cluster(CLUSTERS[*name]);
                let mut dirty = self.changed();
                dirty.extend(self.world.forget_member(&self.view, &cluster_name(CLUSTERS[*name])));
                // Its copies become known again when it comes back.
                dirty.extend(self.world.set_known(&self.view, &cluster_name(CLUSTERS[*name])));
                dirty
            }
            Event::Policy { name, form, clusters, more } => {
                self.policy(some_policy(*name, *form, clusters, *more))
            }
            Event::NoPolicy(name) => self.no_policy(["p", "q", "r"][*name]),
            Event::Override { clusters } => {
                let object = json!({
                    "metadata": { "namespace": "shop", "name": "o" },
                    "spec": { "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop" }],
                              "overrideRules": [{ "targetCluster": { "clusterNames": names(clusters) },
                                  "overriders": { "labelsOverrider": [{ "operator": "add", "value": { "over": "ridden" } }] } }] },
                });
                self.view.apply_override_policy(serde_json::from_value(object).unwrap());
                self.changed()
            }
            Event::NoOverride => {
                self.view
                    .delete_override_policy(&PolicyKey { namespace: Some("shop".into()), name: "o".into() });
                self.changed()
            }
            Event::Template { kind, name, content } => {
                self.template(KINDS[*kind], NAMES[*name], some_template(*content))
            }
            Event::NoTemplate { kind, name } => {
                self.world.delete_template(&self.view, &key_of(KINDS[*kind], NAMES[*name]))
            }
            Event::Hold { cluster, kind, name, stamps } => {
                // A copy can only be in a cluster that is there.
                if !self.view.members().contains_key(CLUSTERS[*cluster]) {
                    return Dirty::new();
                }
                let mut dirty =
                    self.hold(CLUSTERS[*cluster], HELD[*kind], NAMES[*name], some_stamps(*stamps));
                // The link itself looks at every copy that it sees.
                dirty.insert((cluster_name(CLUSTERS[*cluster]), key_of(HELD[*kind], NAMES[*name])));
                dirty
            }
            Event::NoHold { cluster, kind, name } => {
                let (cluster, key) = (cluster_name(CLUSTERS[*cluster]), key_of(HELD[*kind], NAMES[*name]));
                let mut dirty = self.world.hold(&self.view, &cluster, &key, None);
                dirty.insert((cluster, key));
                dirty
            }
            Event::Lead => {
                let mut dirty = self.world.set_leads(&self.view, true);
                // Every member is read anew then.
                for name in CLUSTERS {
                    dirty.extend(self.world.set_known(&self.view, &cluster_name(name)));
                }
                dirty
            }
        }
    }

    fn known() -> Self {
        let mut stage = Self::new();
        for name in CLUSTERS {
            stage.world.set_known(&stage.view, &cluster_name(name));
        }
        stage
    }

    /// What is to be where, in full.
    fn picture(&self) -> BTreeMap<(ClusterName, ObjectKey), String> {
        let mut picture = BTreeMap::new();
        for cluster in CLUSTERS {
            for kind in KINDS {
                for name in NAMES {
                    let pair = (cluster_name(cluster), key_of(kind, name));
                    let said = match self.world.desired(&self.view, &pair.0, &pair.1, None) {
                        Desired::Present(wanted) => wanted.render("v1", None).body.to_string(),
                        other => format!("{other:?}"),
                    };
                    picture.insert(pair, said);
                }
            }
        }
        picture
    }

    /// The same state, come to by the shortest way.
    fn rebuilt(&self) -> World {
        let mut world = World::new("hub".into());
        world.set_policy_kinds("p".into());
        for kind in KINDS {
            let version = if kind == "Deployment" { "apps/v1" } else { "v1" };
            world.open_kind(kind_of(kind), version.into(), None);
        }
        for cluster in CLUSTERS {
            world.set_known(&self.view, &cluster_name(cluster));
        }
        for (key, clusters) in &self.world.held {
            for (cluster, held) in clusters {
                world.hold(&self.view, cluster, key, Some(held.clone()));
            }
        }
        for (key, template) in &self.world.templates {
            let mut object = template.body();
            object["metadata"]["uid"] = json!(&*template.uid);
            world.apply_template(&self.view, key, &object);
        }
        for kind in KINDS {
            let all = self.world.keys_of(&kind_of(kind)).cloned().collect();
            world.retain_templates(&self.view, &kind_of(kind), &all);
        }
        world
    }
}

proptest! {
    #[test]
    fn the_same_state_gives_the_same_answer_however_it_came_about(events in prop::collection::vec(event(), 0..40)) {
        let mut stage = Stage::known();
        for event in &events {
            stage.happens(event);
        }
        let grown = stage.picture();
        for key in stage.world.templates.keys() {
            prop_assert!(stage.world.is_settled(&stage.view, key), "{key} is not assigned as policies say");
        }
        stage.world = stage.rebuilt();
        prop_assert_eq!(grown, stage.picture());
    }

    #[test]
    fn whoever_is_concerned_by_a_change_is_told(events in prop::collection::vec(event(), 0..40)) {
        let mut stage = Stage::known();
        for event in &events {
            let before = stage.picture();
            let told = stage.happens(event);
            for (pair, said) in stage.picture() {
                // What was unknown, or becomes it, is left alone; what has no copy and is to have none too.
                let copied = stage.world.held.get(&pair.1).is_some_and(|held| held.contains_key(&pair.0));
                let matters = copied || said.starts_with('{');
                if before[&pair] != said && !said.starts_with("Unknown") && matters {
                    prop_assert!(told.contains(&pair), "{event:?}: {pair:?} was {} and is {said}", before[&pair]);
                }
            }
        }
    }
}
