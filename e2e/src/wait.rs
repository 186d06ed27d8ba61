//! Waiting on conditions, with a deadline and with what was last seen in the error.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

/// Between two looks at least. Short: a bed's clusters answer in a millisecond or two.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two looks at most, where not even more is asked for.
const LONG_PAUSE: Duration = Duration::from_secs(1);

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
/// unless it is [`Final`]; the last one is told when the deadline passes. Looks that take long are as far apart as they take: who waits
/// leaves the machine to what is waited for.
pub async fn until<T>(what: &str, patience: Duration, probe: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    until_every(PAUSE, what, patience, probe).await
}

/// The same with looks that are so far apart at least: for those who wait in great numbers.
pub async fn until_every<T>(
    least: Duration,
    what: &str,
    patience: Duration,
    mut probe: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    let mut last = anyhow!("the first look got no answer");
    loop {
        // A probe that hangs must not outlast the deadline.
        let (look, left) = (Instant::now(), patience.saturating_sub(started.elapsed()));
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(over)) if over.is::<Final>() => return Err(over.context(what.to_owned())),
            Ok(Err(not_yet)) => last = not_yet,
            Err(_) => {}
        }
        let pause = pause(least, look.elapsed());
        if started.elapsed() + pause >= patience {
            return Err(last.context(format!("{what}: not so after {:.0?}", started.elapsed())));
        }
        tokio::time::sleep(pause).await;
    }
}

/// How far apart two looks are, by what is asked for and what the first took.
fn pause(least: Duration, took: Duration) -> Duration {
    took.min(LONG_PAUSE).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_last_seen_is_told_even_if_the_last_look_hangs() {
        let mut looks = 0;
        let error = until("it rains", Duration::from_millis(200), async || {
            looks += 1;
            if looks > 1 {
                std::future::pending::<()>().await;
            }
            Err::<(), _>(anyhow!("the sky is blue"))
        });
        let error = format!("{:#}", error.await.unwrap_err());
        assert!(error.starts_with("it rains: not so after") && error.ends_with("the sky is blue"), "{error}");
    }

    #[test]
    fn looks_that_take_long_are_as_far_apart_as_they_take_and_no_more_than_a_second() {
        for (least, took, apart) in
            [(50, 2, 50), (50, 250, 250), (50, 7000, 1000), (500, 2, 500), (2000, 2, 2000)]
        {
            let [least, took, apart] = [least, took, apart].map(Duration::from_millis);
            assert_eq!(pause(least, took), apart, "a look of {took:?}, {least:?} apart at least");
        }
    }

    #[tokio::test]
    async fn an_error_that_waiting_will_not_mend_ends_the_waiting() {
        let hopeless = until("it rains", Duration::from_secs(3600), async || {
            Err::<(), _>(Final("no sky".to_owned()).into())
        });
        assert_eq!(format!("{:#}", hopeless.await.unwrap_err()), "it rains: no sky");
    }
}
