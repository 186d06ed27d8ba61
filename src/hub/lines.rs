//! The connections on which links watch their Clusters and Secrets, and on which templates and copies are watched, kind by kind. Each watch is
//! a stream, and an API server allows about a hundred on one connection; what comes after waits without a word.

use std::sync::Arc;

use anyhow::Result;
use kube::{Client, Config};
use parking_lot::Mutex;

use crate::{
    decide::ids::ClusterName,
    shell::client::{client, client_of},
};

/// As many links or kinds share a connection. A link has two watches, and begins them anew before the old ones have ended.
const LINKS: usize = 20;

/// A client that some links share, for as long as one of them has it.
pub type Line = Arc<Client>;

/// Connections that watch one API server.
#[expect(missing_debug_implementations, reason = "clients have none")]
pub struct Lines {
    config: Config,
    member: Option<ClusterName>,
    lines: Mutex<Vec<Line>>,
}

// === impl Lines ===

impl Lines {
    /// Connections to an API server, of which there is none yet.
    pub fn new(config: Config) -> Self {
        Self { config, member: None, lines: Mutex::default() }
    }

    /// The same to that of a member, which metrics name.
    pub fn of(member: &ClusterName, config: Config) -> Self {
        Self { config, member: Some(member.clone()), lines: Mutex::default() }
    }

    /// A connection for one more link or kind.
    pub fn take(&self) -> Result<Line> {
        take(&mut self.lines.lock(), || match &self.member {
            Some(member) => client_of(member, &self.config, None),
            None => client(&self.config, None),
        })
    }
}

/// One that is shared by few enough, or a new one; those that nobody has any more are dropped.
fn take<T>(lines: &mut Vec<Arc<T>>, new: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    lines.retain(|line| Arc::strong_count(line) > 1);
    // One is our own.
    if let Some(line) = lines.iter().find(|line| Arc::strong_count(line) <= LINKS) {
        return Ok(line.clone());
    }
    let line = Arc::new(new()?);
    lines.push(line.clone());
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_shared_by_so_many_links_and_no_more_and_goes_with_the_last() {
        let mut lines: Vec<Arc<()>> = Vec::new();
        let mut links: Vec<_> = (0..300).map(|_| take(&mut lines, || Ok(())).unwrap()).collect();
        assert_eq!(lines.len(), 300 / LINKS);
        assert!(lines.iter().all(|line| Arc::strong_count(line) == LINKS + 1));
        links.truncate(50);
        links.push(take(&mut lines, || Ok(())).unwrap());
        assert_eq!(lines.len(), 3, "fifty links have three, and one of them has room for one more");
    }
}
