//! Waiting on conditions, with a deadline and with what was last seen in the error.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

/// Between two looks. Short: a bed's clusters answer in a millisecond or two.
const PAUSE: Duration = Duration::from_millis(50);

/// An error that waiting will not mend, such as a process that ended.
#[derive(Debug)]
pub struct Final(pub String);

impl fmt::Display for Final {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Final {}

/// Looks again and again until the probe succeeds, and gives back what it found. An error of the probe means "not yet"
/// unless it is [`Final`]; the last one is told when the deadline passes.
pub async fn until<T>(
    what: &str,
    patience: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        // A probe that hangs must not outlast the deadline.
        let left = patience.saturating_sub(started.elapsed());
        let last = match tokio::time::timeout(left, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(over)) if over.is::<Final>() => return Err(over.context(what.to_owned())),
            Ok(Err(not_yet)) => not_yet,
            Err(_) => anyhow!("the last look got no answer"),
        };
        if started.elapsed() + PAUSE >= patience {
            return Err(last.context(format!("{what}: not so after {:.0?}", started.elapsed())));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
