//! Free ports, and what to do when somebody else takes one first.

use std::net::{IpAddr, SocketAddr, TcpListener};

use anyhow::{Context, Result};

use crate::progress::say;

/// What programs say when another one has their port.
const TAKEN: &str = "address already in use";
/// Ports tried before giving up.
const TRIES: usize = 5;

/// A port that is free on an address right now.
pub fn free(address: IpAddr) -> Result<u16> {
    let listener = TcpListener::bind(SocketAddr::new(address, 0))
        .with_context(|| format!("failed to find a free port on {address}"))?;
    Ok(listener.local_addr().context("failed to read the port")?.port())
}

/// Starts something on a port; on another one if the port was taken between choice and bind.
pub async fn on_one<T>(
    mut choose: impl FnMut() -> Result<u16>,
    mut start: impl AsyncFnMut(u16) -> Result<T>,
) -> Result<T> {
    let mut tries = 1;
    loop {
        let port = choose()?;
        match start(port).await {
            Err(e) if tries < TRIES && format!("{e:#}").to_lowercase().contains(TAKEN) => {
                say(format_args!("port {port} was taken meanwhile, trying another one"));
                tries += 1;
            }
            done => return done,
        }
    }
}
