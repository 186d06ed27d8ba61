//! The rules: what Tombolo decides, apart from how it sees and acts.
//!
//! Everything here is a function from values to values: no clock, no I/O, no randomness, nothing asynchronous, and the
//! same answer, byte for byte, for the same input in whatever order (`tests/purity.rs` holds it to that). The shell
//! around it watches, asks and writes.
//!
//! Start at [`ids`] and [`ports`] for the words, then [`merge`]: one service out of its exports in many clusters.

pub mod action;
pub mod admit;
pub mod agent;
pub mod atlas;
pub mod change;
pub mod claims;
pub mod condition;
pub mod copy;
pub mod dead;
pub mod definition;
pub mod derived;
pub mod divide;
pub mod exchange;
pub mod explain;
pub mod fault;
pub mod fights;
pub mod freshness;
pub mod health;
pub mod ids;
pub mod imported;
pub mod lease;
pub mod merge;
pub mod overrides;
pub mod overview;
pub mod placement;
pub mod plan;
pub mod policies;
pub mod ports;
pub mod property;
pub mod record;
pub mod rotation;
pub mod select;
pub mod sum;
pub mod view;
pub mod world;
