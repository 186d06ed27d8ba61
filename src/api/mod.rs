//! The wire types: every kind that users, hub and agents write to an API server, and nothing that decides.
//!
//! [`mcs`] is the Multi-Cluster Services API; [`propagation`], [`placement`], [`overrides`] and [`cluster`] are Karmada's
//! kinds, field for field; [`names`] holds each label, annotation, condition and reason. [`crds`] makes the
//! CustomResourceDefinitions from these types, [`support`] says what Tombolo does with each field of a policy.
//! Invariant: what a newer release or another tool wrote still decodes here. Start at [`propagation`].

pub mod cluster;
pub mod crds;
mod kind;
pub mod mcs;
pub mod names;
pub mod overrides;
pub mod placement;
pub mod propagation;
mod schema;
pub mod support;
#[cfg(test)]
mod tests;
mod wire;

pub use cluster::Cluster;
pub use mcs::{ServiceExport, ServiceImport};
pub use overrides::{ClusterOverridePolicy, OverridePolicy};
pub use propagation::{ClusterPropagationPolicy, PropagationPolicy};
