//! Real Kubernetes for Tombolo's tests and demos.
//!
//! A [`Bed`](bed::Bed) is a hub and members on this machine, made of upstream's own commands; it belongs to the process
//! that started it. Start reading at [`bed`]; below it, [`control_plane`] runs a cluster's API and [`process`] makes sure
//! that nothing outlives its owner.

pub mod addresses;
pub mod archipelago;
pub mod audit;
pub mod background;
pub mod bed;
pub mod bench;
pub mod browser;
pub mod cgroups;
pub mod conformance;
pub mod control_plane;
pub mod dns;
pub mod etcd;
pub mod fleet;
pub mod helm;
pub mod images;
pub mod kubeconfig;
pub mod kubectl;
pub mod membership;
pub mod network;
pub mod node;
pub mod packages;
pub mod pki;
pub mod ports;
pub mod process;
pub mod progress;
pub mod proxy;
pub mod record;
pub mod scene;
pub mod stage;
pub mod stories;
pub mod suite;
pub mod tombolo;
pub mod tools;
pub mod transcript;
pub mod wait;
