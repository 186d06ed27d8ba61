//! What an agent makes of what it sees in its own cluster.
//!
//! Each part answers one question: [`export`] what a ServiceExport is worth, [`slices`] which slices are to be there, [`service`] what serves
//! a ServiceImport, [`import`] what is said on the ServiceImport, [`own`] what of an import this cluster serves itself.

pub mod export;
pub mod import;
pub mod own;
pub mod service;
pub mod slices;
#[cfg(test)]
mod tests;

/// In whose name an agent's fields are written; it never changes between releases.
pub const MANAGER: &str = "tombolo-agent";
