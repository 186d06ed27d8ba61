//! Tombolo ties Kubernetes clusters together: a Service exported in one cluster is served in others as a local
//! `derived-` Service, as policies on the hub say.
//!
//! ```text
//!             hub API server                                  member API server
//!   templates, policies, Clusters                   copies, ServiceExport, ServiceImport, slices
//!            │          ▲                                 ▲            │         ▲
//!            ▼          │ status                          │            ▼         │ derived-, slices
//!        ┌──────────────────┐   server-side apply         │        ┌────────────────┐
//!        │   tombolo hub    │─────────────────────────────┘        │  tombolo agent │
//!        └──────────────────┘   (one link a member)                └────────────────┘
//! ```
//!
//! Start at [`cli`], which names every command. [`hub`] and [`agent`] are the two roles; [`shell`] is what they share to
//! reach the outside world.

// These end a program whose reader is gone, in the midst of what it does; `cli::paint` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod agent;
pub mod api;
pub mod cli;
pub mod decide;
pub mod diagnose;
pub mod hub;
pub mod membership;
pub mod shell;
pub mod webhook;
