//! Kubernetes' quantities, as far as to tell whether two are the same: `1000m` is `1`.

use serde_json::Value;

/// A quantity's suffixes and what they stand for, as powers of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// And as powers of 1024.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Quantities are not finer than this power of ten.
const FINEST: i32 = -9;

/// Whether two values, texts or numbers, are the same quantity. What is not exact in nano is equal to nothing.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let nano = |value: &Value| parse(&text(value)?);
    nano(a).is_some_and(|a| nano(b) == Some(a))
}

/// A quantity in nano.
fn parse(text: &str) -> Option<i128> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (factor, exponent) = match BINARY.iter().position(|binary| *binary == suffix) {
        Some(power) => (1024_i128.checked_pow(u32::try_from(power).ok()? + 1)?, 0),
        None => (1, decimal(suffix)?),
    };
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_sub(FINEST)?;
    let scale = 10_i128.checked_pow(shift.unsigned_abs())?;
    let value = digits.checked_mul(factor)?.checked_mul(sign)?;
    match shift {
        0.. => value.checked_mul(scale),
        _ => (value % scale == 0).then(|| value / scale),
    }
}

fn decimal(suffix: &str) -> Option<i32> {
    match DECIMAL.iter().find(|(name, _)| *name == suffix) {
        Some((_, exponent)) => Some(*exponent),
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok(),
    }
}
