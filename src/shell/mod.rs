//! What both roles share to reach the outside world: the connection to an API server, health, logs and shutdown.
//!
//! Nothing here decides anything about services or policies. [`connection`] is where to start reading.

pub mod asked;
pub mod client;
pub mod clock;
pub mod connection;
pub mod guard;
pub mod health;
pub mod lease;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod queue;
pub mod shutdown;
pub mod trouble;
