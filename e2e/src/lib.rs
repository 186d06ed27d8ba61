//! Real Kubernetes for Tombolo's tests and demos.

pub mod progress;
