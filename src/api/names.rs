//! Labels, annotations, condition types and reasons: every word by which objects speak to each other.
//!
//! They are part of the contract between releases; none may change its meaning.

/// What the local Service of an import is called by, before its name.
pub const DERIVED_PREFIX: &str = "derived-";

/// What Tombolo's own objects are called.
pub mod object {
    /// Tombolo's own namespace: on the hub unless told otherwise, in a member always.
    pub const NAMESPACE: &str = "tombolo-system";
    /// On the hub: the Secret that holds its id, and the Lease of the replica that writes. In a member: the hub's
    /// ServiceAccount, its token and its roles.
    pub const HUB: &str = "tombolo-hub";
    /// Key of the hub's id in its Secret.
    pub const HUB_ID: &str = "id";
    /// In a member: the ConfigMap that says whose member it is.
    pub const MARKER: &str = "tombolo-member";
    /// Key of the marker: the hub's id.
    pub const MARKER_HUB: &str = "hub";
    /// Key of the marker: the cluster's name on that hub.
    pub const MARKER_CLUSTER: &str = "cluster";
    /// Its key for the cluster's own id, which is the same for as long as it is a member.
    pub const MARKER_ID: &str = "id";
    /// In a member: the agent's Deployment, ServiceAccount, roles and Lease.
    pub const AGENT: &str = "tombolo-agent";
}

/// Tombolo's own finalizers; there is one.
pub mod finalizer {
    /// On a Cluster: it goes when the hub has left the member.
    pub const MEMBER: &str = "tombolo.dev/member";
}

/// What our own labels and annotations begin with.
pub const PREFIX: &str = "tombolo.dev/";

/// Tombolo's own labels. A label only selects; it never proves ownership.
pub mod label {
    /// On every copy, imported slice and ServiceImport that the hub wrote in a member; its value is the hub's id.
    pub const HUB: &str = "tombolo.dev/hub";
    /// On source slices: what a cluster's own pods offer.
    pub const SOURCE: &str = "tombolo.dev/source";
    /// On a derived Service: the ServiceImport that it serves.
    pub const IMPORT: &str = "tombolo.dev/import";
    /// On a Secret of the hub that `tombolo join` made: the Cluster whose token it holds.
    pub const MEMBER: &str = "tombolo.dev/member";
}

/// Tombolo's own annotations.
pub mod annotation {
    /// Proof of ownership: format number, hub id, template UID, and the object's own group, kind, namespace and name.
    pub const ORIGIN: &str = "tombolo.dev/origin";
    /// On a copy that was there before us: kept current, let go in the end, never deleted.
    pub const ADOPTED: &str = "tombolo.dev/adopted";
    /// Hash of what was applied last.
    pub const APPLIED: &str = "tombolo.dev/applied";
    /// On a ServiceExport in a member: the Service behind it, as its agent sees it, with a format number.
    pub const EXPORT_RECORD: &str = "tombolo.dev/export-record";
    /// On a ServiceImport in a member: addresses that a re-made derived Service gets again.
    pub const CLUSTER_IPS: &str = "tombolo.dev/cluster-ips";
    /// On a derived Service: proof that it is one, naming itself, its ServiceImport and the UID of that kind's definition.
    pub const DERIVED: &str = "tombolo.dev/derived";
    /// On a ServiceImport that the hub wrote in a member: the families that are wanted, the preferred one first, such as `IPv4,IPv6`;
    /// empty where the exports say nothing.
    pub const IP_FAMILIES: &str = "tombolo.dev/ip-families";
    /// On a ServiceImport that the hub wrote in a member: for each merged port its accepted name and the cluster that gave it.
    pub const PORT_NAMES: &str = "tombolo.dev/port-names";
    /// On a ServiceImport that the hub wrote in a member: the clusters, with commas between them, that have a ServiceExport and offer no
    /// Service by it. It is kept for them too.
    pub const KEPT_FOR: &str = "tombolo.dev/kept-for";
    /// On a ServiceImport that the hub wrote in a member: of each cluster of which its ports do not tell, those that it serves, such as
    /// `{"member2":[[80,"TCP"]]}`.
    pub const SERVED_PORTS: &str = "tombolo.dev/served-ports";
    /// On an imported slice: its cluster is silent; `kept` as it was, or `withdrawn` since other clusters serve.
    pub const STALE: &str = "tombolo.dev/stale";
    /// On an imported slice whose endpoints are withdrawn: which of them served before, in their order, as `1` or `0`.
    pub const SERVED: &str = "tombolo.dev/served";
    /// On a source slice, and on the imported ones that are made of it: the change of endpoints that they were last written for, as an id
    /// and the milliseconds since 1970 when the agent saw it. It is followed by that, and never written for its own sake.
    pub const CHANGE: &str = "tombolo.dev/change";
    /// On an imported slice: the origin of the export that it is made by, where that is a copy which goes with its template.
    pub const EXPORT_TEMPLATE: &str = "tombolo.dev/export-template";
    /// On a ServiceExport, ServiceImport, Service or Namespace: what is done about port conflicts.
    pub const PORT_CONFLICTS: &str = "tombolo.dev/port-conflicts";
    /// Value of `tombolo.dev/port-conflicts`: merged as KEP-1645 has it instead of refused.
    pub const PORT_CONFLICTS_RESOLVE: &str = "resolve";
    /// On a policy, and stamped on its copies: what becomes of them when the policy goes.
    pub const ON_POLICY_DELETION: &str = "tombolo.dev/on-policy-deletion";
    /// Value of `tombolo.dev/on-policy-deletion`: they go too.
    pub const ON_POLICY_DELETION_DELETE: &str = "delete";
    /// On a copy: it stays when its template goes.
    pub const PRESERVE_ON_DELETION: &str = "tombolo.dev/preserve-on-deletion";
    /// On a copy that is there only because another object there names it: it goes when nothing does any more.
    pub const DEPENDENCY: &str = "tombolo.dev/dependency";
    /// On a copy: which kinds of policies placed it, by their CustomResourceDefinitions. Made anew, they remove nothing of before.
    pub const POLICIES: &str = "tombolo.dev/policies";
    /// On a copy: the policy that placed it, as `namespace/name`, or `name` where it is cluster-wide. It is looked at before what it no longer
    /// places is removed.
    pub const POLICY: &str = "tombolo.dev/policy";
    /// On a copy: the replicas that it was given, where they are not simply those of its template.
    pub const REPLICAS: &str = "tombolo.dev/replicas";
    /// On a Cluster: the kinds that were ever applied there.
    pub const KINDS: &str = "tombolo.dev/kinds";
    /// On a Cluster: the API server that it leads to, by the UID of the kube-system there, since the hub began to use it.
    pub const API_SERVER: &str = "tombolo.dev/api-server";
    /// On a Cluster: the ranges that its endpoints must be in.
    pub const ENDPOINT_CIDRS: &str = "tombolo.dev/endpoint-cidrs";
    /// On a Cluster: it may be deleted though it still exports.
    pub const DELETE_WHILE_EXPORTING: &str = "tombolo.dev/delete-while-exporting";
    /// On a Cluster: the ranges that its pods have their addresses from.
    pub const POD_CIDRS: &str = "tombolo.dev/pod-cidrs";
    /// On a Cluster that is to go: `"true"` deletes the copies there instead of letting them go.
    pub const DELETE_COPIES: &str = "tombolo.dev/delete-copies";
    /// On a Cluster that is to go: `"true"` does not wait for a member that does not answer.
    pub const FORCE_UNJOIN: &str = "tombolo.dev/force-unjoin";
    /// On the hub's ClusterRole in a member: which rights it was given, so that joining again gives the same.
    pub const GRANT: &str = "tombolo.dev/grant";
    /// On the hub's ClusterRole in a member: the rules that it was given besides.
    pub const GRANT_RULES: &str = "tombolo.dev/grant-rules";
    /// On the hub's ServiceAccount in a member: the id of the hub that it was made for.
    pub const JOINED_BY: &str = "tombolo.dev/joined-by";
}

/// Labels, annotations and taints of Karmada that mean here what they mean there.
pub mod karmada {
    /// Annotation of a template: what happens to an object of the same name in a member, whatever its policy says.
    pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
    /// Label, or annotation, of a template: `"true"` leaves `spec.replicas` to the member.
    pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
    /// Label on a Namespace: `"true"` does not make it in members.
    pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
    /// Taint of a Cluster that says it is not ready.
    pub const TAINT_NOT_READY: &str = "cluster.karmada.io/not-ready";
    /// Taint of a Cluster that does not answer.
    pub const TAINT_UNREACHABLE: &str = "cluster.karmada.io/unreachable";
    /// Taint of a Cluster that nothing new is to be placed on.
    pub const TAINT_UNSCHEDULABLE: &str = "cluster.karmada.io/unschedulable";
    /// Karmada's notes on what it propagates; they mean nothing in a member that it does not serve.
    pub const BOOKKEEPING: [&str; 8] = [
        "karmada.io/managed",
        "policy.karmada.io/applied-cluster-overrides",
        "policy.karmada.io/applied-overrides",
        "resourcetemplate.karmada.io/claimed-by",
        "resourcetemplate.karmada.io/generation",
        "resourcetemplate.karmada.io/managed-annotations",
        "resourcetemplate.karmada.io/managed-labels",
        "resourcetemplate.karmada.io/uid",
    ];
    /// What Karmada's notes begin with, where all of a prefix are such.
    pub const BOOKKEEPING_PREFIXES: [&str; 8] = [
        "binding.karmada.io/",
        "clusterpropagationpolicy.karmada.io/",
        "clusterresourcebinding.karmada.io/",
        "endpointslice.karmada.io/",
        "multiclusterservice.karmada.io/",
        "propagationpolicy.karmada.io/",
        "resourcebinding.karmada.io/",
        "work.karmada.io/",
    ];
    /// Key of a member's token in its Secret.
    pub const SECRET_TOKEN: &str = "token";
    /// Key of a member's certificate authorities in its Secret.
    pub const SECRET_CA_BUNDLE: &str = "caBundle";
}

/// Labels and annotations of the Multi-Cluster Services API.
pub mod mcs {
    /// Prefix that belongs to the API; users' labels and annotations under it are not exported.
    pub const PREFIX: &str = "multicluster.kubernetes.io/";
    /// Label on an imported slice: the ServiceImport that it belongs to.
    pub const SERVICE_NAME: &str = "multicluster.kubernetes.io/service-name";
    /// Label on an imported slice: the cluster that it comes from.
    pub const SOURCE_CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
    /// Annotation on a ServiceImport: the local Service that serves it.
    pub const DERIVED_SERVICE: &str = "multicluster.kubernetes.io/derived-service";
    /// Label on the API's CRDs: the release that they come from.
    pub const RELEASE_VERSION: &str = "multicluster.x-k8s.io/release-version";
    /// Label on the API's CRDs: counts changes of the schema, so that nobody goes back.
    pub const SCHEMA_REVISION: &str = "multicluster.x-k8s.io/crd-schema-revision";
}

/// Labels and annotations of Kubernetes itself.
pub mod kubernetes {
    /// On an EndpointSlice: the Service that it belongs to. Set at birth, never changed.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// On an EndpointSlice or Service: kube-proxy ignores it.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// On an EndpointSlice: who writes it.
    pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`] on what the hub writes.
    pub const MANAGED_BY_HUB: &str = "hub.tombolo.dev";
    /// Value of [`MANAGED_BY`] on what an agent writes.
    pub const MANAGED_BY_AGENT: &str = "agent.tombolo.dev";
    /// Value of [`MANAGED_BY`] of Kubernetes' own controller.
    pub const ENDPOINT_SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
    /// What Kubernetes and kubectl note on an object of any kind about the cluster that it is in.
    pub const BOOKKEEPING: [&str; 7] = [
        "batch.kubernetes.io/job-tracking",
        "deprecated.daemonset.template.generation",
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubernetes.io/metadata.name",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    ];
    /// What such notes begin with, where all of a prefix are such.
    pub const BOOKKEEPING_PREFIXES: [&str; 2] = ["deployment.kubernetes.io/", "pv.kubernetes.io/"];
}

/// Condition types.
pub mod condition {
    /// Of a ServiceExport: there is a Service that can be exported.
    pub const VALID: &str = "Valid";
    /// Of a ServiceExport: it reached the hub. Of a ServiceImport: it is served. Of a Cluster: it answers.
    pub const READY: &str = "Ready";
    /// Of a ServiceExport: the clusters do not agree on the Service.
    pub const CONFLICT: &str = "Conflict";
    /// Of a ServiceImport that a user made in a member: False while the service would be imported there.
    pub const EXCHANGED: &str = "Exchanged";
    /// Of a policy: everything that it places is where it should be.
    pub const PROPAGATED: &str = "Propagated";
    /// Of a Cluster that is being deleted: what is still to be done in the member.
    pub const LEAVING: &str = "Leaving";
    /// Of a Cluster: everything that was read of it is believed.
    pub const DATA_TRUSTED: &str = "DataTrusted";
    /// Of a Cluster from which something could not be removed: all copies without a template are gone.
    pub const COPIES_REMOVED: &str = "CopiesRemoved";
    /// Of a Cluster to which something could not be written: all copies that no policy selects any more are as their templates say.
    pub const COPIES_CURRENT: &str = "CopiesCurrent";
    /// Of a Cluster: its agent's Lease is fresh.
    pub const AGENT_READY: &str = "AgentReady";
    /// Of a Cluster: the list of kinds in its status is complete.
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
}

/// Reasons of events.
pub mod event {
    /// On a template: a copy could not be written to a member.
    pub const PROPAGATION_FAILED: &str = "PropagationFailed";
    /// On a Cluster: something of the member is not believed any more.
    pub const DATA_REFUSED: &str = "DataRefused";
    /// On a Cluster: everything of the member is believed again.
    pub const DATA_BELIEVED: &str = "DataBelieved";
    /// On a ServiceImport in a member: its derived Service gets another address than it was to have.
    pub const ADDRESS_NOT_AVAILABLE: &str = "AddressNotAvailable";
    /// On a ServiceImport in a member: the service became headless, or ceased to be.
    pub const TYPE_CHANGED: &str = "TypeChanged";
}

/// Reasons of conditions. Several reasons of one condition are joined by commas.
pub mod reason {
    /// Valid=True.
    pub const VALID: &str = "Valid";
    /// Valid=False: there is no Service of that name.
    pub const NO_SERVICE: &str = "NoService";
    /// Valid=False: a Service of that type cannot be exported.
    pub const INVALID_SERVICE_TYPE: &str = "InvalidServiceType";

    /// Ready=True of a ServiceExport: pushed.
    pub const EXPORTED: &str = "Exported";
    /// Ready=True.
    pub const READY: &str = "Ready";
    /// Ready=False or Unknown: not yet.
    pub const PENDING: &str = "Pending";
    /// Ready=False of a ServiceExport: it was tried, in vain.
    pub const FAILED: &str = "Failed";
    /// Ready=False of a ServiceExport: the hub exports nothing of its namespace.
    pub const EXCLUDED: &str = "Excluded";
    /// Ready=False of a ServiceImport: the cluster has no address of a family that is wanted.
    pub const IP_FAMILY_NOT_SUPPORTED: &str = "IPFamilyNotSupported";

    /// Exchanged=False of a ServiceImport: it is a user's own.
    pub const USERS_OWN: &str = "UsersOwn";

    /// Conflict=False.
    pub const NO_CONFLICTS: &str = "NoConflicts";
    /// Conflict=True: ports.
    pub const PORT_CONFLICT: &str = "PortConflict";
    /// Conflict=True: ClusterSetIP in one cluster, Headless in another.
    pub const TYPE_CONFLICT: &str = "TypeConflict";
    /// Conflict=True: session affinity.
    pub const SESSION_AFFINITY_CONFLICT: &str = "SessionAffinityConflict";
    /// Conflict=True: session affinity's timeout.
    pub const SESSION_AFFINITY_CONFIG_CONFLICT: &str = "SessionAffinityConfigConflict";
    /// Conflict=True: exported labels.
    pub const LABELS_CONFLICT: &str = "LabelsConflict";
    /// Conflict=True: exported annotations.
    pub const ANNOTATIONS_CONFLICT: &str = "AnnotationsConflict";
    /// Conflict=True: internal traffic policy.
    pub const INTERNAL_TRAFFIC_POLICY_CONFLICT: &str = "InternalTrafficPolicyConflict";
    /// Conflict=True: traffic distribution.
    pub const TRAFFIC_DISTRIBUTION_CONFLICT: &str = "TrafficDistributionConflict";
    /// Conflict=True: address families.
    pub const IP_FAMILY_CONFLICT: &str = "IPFamilyConflict";

    /// Leaving=True of a Cluster: all is done in the member but the removal of our own account.
    pub const LAST_STEP: &str = "LastStep";

    /// Propagated=True: everything is where it should be.
    pub const PROPAGATED: &str = "Propagated";
    /// Propagated=True: the policy holds for no object.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// Propagated=False: the policy has faults and takes no part.
    pub const INVALID: &str = "Invalid";
    /// Propagated=False: the hub does not serve a kind that the policy selects.
    pub const KIND_NOT_SERVED: &str = "KindNotServed";
    /// The hub may not read a kind that the policy selects, or that what it selects depends on.
    pub const KIND_FORBIDDEN: &str = "KindForbidden";
    /// Propagated=False: suspended, or waiting for overrides.
    pub const HELD_BACK: &str = "HeldBack";
    /// Propagated=False: no clusters meet the placement.
    pub const UNPLACED: &str = "Unplaced";

    /// AgentReady=True of a Cluster.
    pub const AGENT_READY: &str = "AgentReady";
    /// AgentReady=False of a Cluster: nobody renews its agent's Lease.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// AgentReady=False of a Cluster: there is no Lease of an agent.
    pub const NO_AGENT: &str = "NoAgent";

    /// DataTrusted=True of a Cluster.
    pub const ALL_BELIEVED: &str = "AllBelieved";
    /// DataTrusted=False of a Cluster: something of it is not believed.
    pub const REFUSED: &str = "Refused";

    /// CopiesRemoved=True of a Cluster.
    pub const ALL_REMOVED: &str = "AllRemoved";
    /// CopiesCurrent=True of a Cluster.
    pub const ALL_CURRENT: &str = "AllCurrent";

    /// Ready=True of a Cluster.
    pub const CLUSTER_READY: &str = "ClusterReady";
    /// Ready=False of a Cluster: its API server says that it is not ready.
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
    /// Ready=Unknown of a Cluster: its API server does not answer.
    pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
    /// Ready=False of a Cluster: it leads to the hub itself.
    pub const CLUSTER_IS_HUB: &str = "ClusterIsHub";
    /// Ready=False of a Cluster: it is the same cluster as another member.
    pub const CLUSTER_DUPLICATED: &str = "ClusterDuplicated";
    /// Ready=False of a Cluster: the hub may not find out which cluster it is.
    pub const CLUSTER_NOT_IDENTIFIED: &str = "ClusterNotIdentified";
    /// Ready=False of a Cluster: it is a member of another hub.
    pub const CLUSTER_OF_ANOTHER_HUB: &str = "ClusterOfAnotherHub";
    /// Ready=False of a Cluster: what it or its Secret says is no way into it.
    pub const CLUSTER_CONFIG_INVALID: &str = "ClusterConfigInvalid";
    /// Ready=False of a Cluster: its token is no longer accepted.
    pub const CREDENTIALS_EXPIRED: &str = "CredentialsExpired";
}
