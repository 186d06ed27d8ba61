//! How long a command waits, as kubectl takes it: `60s`, `2m`, `1m30s`; plain seconds too.

use std::time::Duration;

/// The units, each with what it is of.
const UNITS: [(&str, Duration); 4] = [
    ("ms", Duration::from_millis(1)),
    ("s", Duration::from_secs(1)),
    ("m", Duration::from_secs(60)),
    ("h", Duration::from_secs(3_600)),
];

/// Reads a time to wait.
pub fn patience(text: &str) -> Result<Duration, String> {
    read(text).ok_or_else(|| "write it in seconds, or as in 90s, 2m or 1m30s".to_owned())
}

fn read(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (mut rest, mut whole) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u32 = rest[..unit].parse().ok()?;
        rest = &rest[unit..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| **name == rest[..end])?;
        whole = whole.checked_add(unit.checked_mul(number)?)?;
        rest = &rest[end..];
    }
    (!text.is_empty()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_as_kubectl_takes_them_and_as_plain_seconds() {
        for (text, seconds) in [("60", 60), ("60s", 60), ("2m", 120), ("1m30s", 90), ("1h", 3_600), ("0", 0)]
        {
            assert_eq!(patience(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(patience("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "-1s", "1d", "1 m", "1m30", "99999999999s"] {
            assert!(patience(bad).is_err(), "{bad}");
        }
    }
}
