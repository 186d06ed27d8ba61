//! The rows. Where several places have the same fields, their rows are written once.

use super::{Row, Support, When};

/// A row, its path below the part it is in, or a part whose rows several places share.
enum Entry {
    Field(&'static str, When, Support, bool, &'static str),
    Part(&'static str, &'static [Entry]),
}

/// The rows of PropagationPolicy and ClusterPropagationPolicy.
pub(super) fn propagation() -> Vec<Row> {
    expand("spec", PROPAGATION)
}

/// The rows of OverridePolicy and ClusterOverridePolicy.
pub(super) fn overrides() -> Vec<Row> {
    expand("spec", OVERRIDE)
}

/// The rows of Cluster.
pub(super) fn cluster() -> Vec<Row> {
    expand("spec", CLUSTER)
}

const fn acted(path: &'static str, note: &'static str) -> Entry {
    Entry::Field(path, When::Set, Support::Acted, false, note)
}

const fn whole(path: &'static str, note: &'static str) -> Entry {
    Entry::Field(path, When::Set, Support::Acted, true, note)
}

const fn warned(path: &'static str, when: When, reason: &'static str) -> Entry {
    Entry::Field(path, when, Support::Warned(reason), matches!(when, When::Set), "")
}

const fn refused(path: &'static str, when: When, reason: &'static str) -> Entry {
    Entry::Field(path, when, Support::Refused(reason), matches!(when, When::Set), "")
}

const GLOB: &str = "A name, or a glob where it has `*`, `?`, `[` or `{`.";

static SELECTOR: &[Entry] = &[
    acted("apiVersion", "Only the group counts, whatever the version."),
    acted("kind", ""),
    acted("namespace", "A name or a glob. In a namespaced policy only its own, which is filled in."),
    acted("name", "A name or a glob. With it, `labelSelector` does not count."),
    whole("labelSelector", "As everywhere in Kubernetes; one that makes no sense is refused."),
];

static AFFINITY: &[Entry] = &[
    whole(
        "labelSelector",
        "The Cluster's labels, as everywhere in Kubernetes; one that makes no sense is refused.",
    ),
    whole("fieldSelector", "Keys `provider`, `region` and `zone`, by `In` and `NotIn`; others are refused."),
    acted("clusterNames", GLOB),
    acted("exclude", GLOB),
];

static OVERRIDERS: &[Entry] = &[
    whole("plaintext", "A JSON patch. Type, name, namespace, owners and finalizers cannot be changed."),
    whole("imageOverrider", ""),
    whole("commandOverrider", ""),
    whole("argsOverrider", ""),
    whole("labelsOverrider", ""),
    whole("annotationsOverrider", ""),
    whole(
        "fieldOverrider",
        "Changes inside a string that holds JSON or YAML; its comments and layout are lost, as in Karmada.",
    ),
];

static PROPAGATION: &[Entry] = &[
    acted("resourceSelectors", "At least one."),
    Entry::Part("resourceSelectors[]", SELECTOR),
    warned("association", When::Set, "it has no effect, in Karmada neither; use `propagateDeps`"),
    acted(
        "propagateDeps",
        "ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims that a workload names.",
    ),
    acted("placement", "Absent: all clusters."),
    acted("placement.clusterAffinity", "Not together with `clusterAffinities`."),
    Entry::Part("placement.clusterAffinity", AFFINITY),
    acted("placement.clusterAffinities", "In order: the first group that will do is taken."),
    acted("placement.clusterAffinities[].affinityName", "Unique in its policy."),
    Entry::Part("placement.clusterAffinities[]", AFFINITY),
    refused(
        "placement.clusterAffinities[].overflowAffinities",
        When::Set,
        "Tombolo does not know how much room clusters have, so nothing overflows; list the groups in `clusterAffinities`",
    ),
    acted("placement.clusterTolerations", ""),
    acted("placement.clusterTolerations[].key", ""),
    acted("placement.clusterTolerations[].operator", "`Equal` or `Exists`; others are refused."),
    acted("placement.clusterTolerations[].value", ""),
    acted("placement.clusterTolerations[].effect", ""),
    warned(
        "placement.clusterTolerations[].tolerationSeconds",
        When::Set,
        "Tombolo does not count the seconds; the taint is tolerated for as long as it is there",
    ),
    acted("placement.spreadConstraints", "With any other field, `cluster` must be among them."),
    acted("placement.spreadConstraints[].spreadByField", ""),
    refused(
        "placement.spreadConstraints[].spreadByLabel",
        When::Set,
        "Tombolo spreads by `spreadByField` only: cluster, region, zone or provider",
    ),
    acted("placement.spreadConstraints[].maxGroups", ""),
    acted("placement.spreadConstraints[].minGroups", "1 is filled in."),
    acted("placement.replicaScheduling", "Absent: each cluster gets all replicas."),
    acted("placement.replicaScheduling.replicaSchedulingType", ""),
    acted("placement.replicaScheduling.replicaDivisionPreference", "Absent: `Weighted`."),
    refused(
        "placement.replicaScheduling.replicaDivisionPreference",
        When::Is("Aggregated"),
        "Tombolo does not know how much room clusters have; use `Weighted`",
    ),
    acted("placement.replicaScheduling.weightPreference", "Absent: all clusters weigh the same."),
    acted(
        "placement.replicaScheduling.weightPreference.staticWeightList",
        "What does not divide goes to the largest remainders.",
    ),
    acted("placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster", ""),
    Entry::Part("placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster", AFFINITY),
    acted("placement.replicaScheduling.weightPreference.staticWeightList[].weight", "1 or more."),
    refused(
        "placement.replicaScheduling.weightPreference.dynamicWeight",
        When::Set,
        "Tombolo does not know how much room clusters have; use `staticWeightList`",
    ),
    refused(
        "placement.workloadAffinity",
        When::Set,
        "Tombolo places each object by itself; name the clusters in `clusterAffinity`",
    ),
    acted(
        "priority",
        "Looked at anew with every change. Any PropagationPolicy goes before any ClusterPropagationPolicy.",
    ),
    acted("preemption", "The strongest policy holds at all times, also one that came later."),
    warned(
        "preemption",
        When::Is("Always"),
        "it has no effect: the policy of the highest priority holds in any case",
    ),
    acted("dependentOverrides", "Nothing is sent until all of them exist."),
    acted("schedulerName", ""),
    refused(
        "schedulerName",
        When::IsNot("default-scheduler"),
        "Tombolo chooses the clusters itself; leave it out",
    ),
    refused(
        "failover",
        When::Set,
        "Tombolo does not move workloads by itself; list the groups to fall back to in `clusterAffinities`",
    ),
    acted(
        "conflictResolution",
        "`Abort` is filled in. What already is as the template says is adopted in any case.",
    ),
    acted("activationPreference", "Absent: a change takes effect at once."),
    refused(
        "activationPreference",
        When::Is("Lazy"),
        "a change of a policy takes effect at once; hold it back by `suspension`",
    ),
    acted("suspension", ""),
    acted("suspension.dispatching", "Not together with `dispatchingOnClusters`."),
    acted("suspension.dispatchingOnClusters", ""),
    acted("suspension.dispatchingOnClusters.clusterNames", ""),
    acted("preserveResourcesOnDeletion", "Stamped on each copy, so that it holds when the policy is gone."),
    warned("schedulePriority", When::Set, "it has no effect: nothing waits for its clusters to be chosen"),
];

static OVERRIDE: &[Entry] = &[
    acted("resourceSelectors", "Absent: everything that the policy may change."),
    Entry::Part("resourceSelectors[]", SELECTOR),
    acted(
        "overrideRules",
        "In order. The least specific policy is applied first, ClusterOverridePolicies before all others.",
    ),
    acted("overrideRules[].targetCluster", "Absent: all clusters."),
    Entry::Part("overrideRules[].targetCluster", AFFINITY),
    acted(
        "overrideRules[].overriders",
        "By kind: image, command, args, labels, annotations, field, plaintext.",
    ),
    Entry::Part("overrideRules[].overriders", OVERRIDERS),
    acted("targetCluster", "Older form. Not together with `overrideRules`."),
    Entry::Part("targetCluster", AFFINITY),
    acted("overriders", "Older form. Not together with `overrideRules`."),
    Entry::Part("overriders", OVERRIDERS),
];

static CLUSTER: &[Entry] = &[
    acted("id", "Filled in by `tombolo join`. Two Clusters for one API server are refused."),
    acted("syncMode", "`Push` is filled in."),
    refused("syncMode", When::Is("Pull"), "Tombolo writes to members itself; use `Push`"),
    acted("apiEndpoint", ""),
    whole("secretRef", "A Secret with `token` and `caBundle`; a change of it is picked up."),
    warned(
        "impersonatorSecretRef",
        When::Set,
        "it has no effect: Tombolo has no proxy that would act as somebody else",
    ),
    acted("insecureSkipTLSVerification", ""),
    refused("proxyURL", When::Set, "Tombolo does not reach members through proxies yet"),
    refused("proxyHeader", When::Set, "Tombolo does not reach members through proxies yet"),
    acted("provider", "For `fieldSelector` and `spreadConstraints`."),
    acted("region", "For `fieldSelector` and `spreadConstraints`."),
    acted("zone", "Older form. Counts where `zones` is absent."),
    acted("zones", "For `fieldSelector` and `spreadConstraints`."),
    acted("taints", ""),
    acted("taints[].key", ""),
    acted("taints[].value", ""),
    acted("taints[].effect", ""),
    acted("taints[].timeAdded", "For people: nothing is counted from it."),
    warned(
        "resourceModels",
        When::Set,
        "it has no effect: Tombolo does not count how much room clusters have",
    ),
];

// === impl Entry ===

fn expand(prefix: &str, entries: &[Entry]) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in entries {
        match entry {
            Entry::Field(path, when, support, whole, note) => rows.push(Row {
                path: format!("{prefix}.{path}"),
                when: *when,
                support: *support,
                whole: *whole,
                note,
            }),
            Entry::Part(path, entries) => rows.extend(expand(&format!("{prefix}.{path}"), entries)),
        }
    }
    rows
}
