//! Selectors, compiled: which objects a policy speaks of, and which clusters.
//!
//! [`Resources`] is one of a policy's `resourceSelectors`, [`Clusters`] a `clusterAffinity` or `targetCluster`. Both are
//! made by a `compile` that reports every fault with its field path; admission and the hub call the same one. What
//! Karmada takes as a plain name may here be a glob ([`Pattern`]).

mod cluster;
pub mod labels;
mod pattern;
mod resource;

pub use cluster::{Clusters, Member, Mismatch};
pub use pattern::{Names, Pattern};
pub(in crate::decide) use resource::{By, by_name};
pub use resource::{GroupKind, Object, Rank, Resources};

#[cfg(test)]
mod tests;
