//! Membership: how a cluster becomes a member of a hub, how the hub reaches it, and how it leaves.
//!
//! [`member`] makes the way into a member from its Cluster and Secret.
//! Invariant: nothing is written before every check has passed, and doing it again changes nothing.

pub mod leave;
pub mod member;
