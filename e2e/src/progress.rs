//! Says on standard error what is being done, with the seconds since the process began.
//!
//! Anything that may take longer than two seconds says so through [`say`] before it starts.

use std::{fmt::Display, sync::LazyLock, time::Instant};

static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Prints one line of progress.
pub fn say(line: impl Display) {
    eprintln!("[{:6.1}s] {line}", STARTED.elapsed().as_secs_f64());
}
