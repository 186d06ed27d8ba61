//! Membership: how a cluster becomes a member of a hub, how the hub reaches it, and how it leaves.
//!
//! [`mod@join`] is what `tombolo join` does: [`check`] looks at both clusters and judges, then what [`account`], [`definitions`]
//! and [`agent`] describe is written, with the rights of a [`grant`]. [`member`] makes the hub's way in from Cluster and Secret;
//! [`mod@leave`] undoes what join did, when the hub's finalizer says so.
//! Invariant: nothing is written before every check has passed, and doing it again changes nothing. Start at [`mod@join`].

pub mod account;
pub mod agent;
pub mod check;
pub mod definitions;
pub mod grant;
pub mod join;
pub mod leave;
pub mod member;
pub mod report;
pub(crate) mod write;
