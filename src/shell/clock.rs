//! The time, asked in one place: what decides gets it as a value.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use k8s_openapi::jiff::Timestamp;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds since 1970.
pub fn seconds() -> i64 {
    i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX)
}

/// The time as conditions have it.
pub fn now() -> Timestamp {
    Timestamp::from_second(seconds()).unwrap_or_default()
}

/// Milliseconds since 1970.
pub fn milliseconds() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970.
pub fn microseconds() -> i64 {
    i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX)
}

/// Time that never steps back, counted from the first time that somebody asked.
pub fn monotonic() -> Duration {
    START.elapsed()
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A time near another, up to a fifth shorter or longer, so that not everybody does everything at the same moment.
pub fn jittered(time: Duration) -> Duration {
    // The clock's last digits are random enough for that.
    let part = f64::from(since_1970().subsec_nanos() % 1000) / 1000.0;
    time.mul_f64(0.4f64.mul_add(part, 0.8))
}
