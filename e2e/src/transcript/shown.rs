//! What counts as the same output.
//!
//! Line by line, with four freedoms:
//! - `…` stands for anything in a line; a line that is nothing else, for any number of lines;
//! - blanks, however many, are one: columns are as wide as what is in them;
//! - a duration (`5s`, `1m3s`, `25.7s`) is as good as any other, and so is an IPv4 address;
//! - a warning of something that has not been seen yet may come where none is shown: to admission that is a matter of milliseconds.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Stands for whatever was printed.
const ANY: char = '…';

/// What of a document was not printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The first line of what is shown, from 0, that has no counterpart.
    pub line: usize,
}

/// Compares what a document shows with what was printed.
///
/// # Errors
///
/// If they differ.
pub fn compare(shown: &[String], printed: &str) -> Result<(), Mismatch> {
    let pattern: Vec<String> = shown.iter().map(|line| normal(line)).collect();
    let warns =
        |line: &&str| line.starts_with("Warning: ") && (line.ends_with(" yet") || line.contains(" just now"));
    let shows_warnings = shown.iter().any(|line| warns(&line.as_str()));
    let printed: Vec<String> =
        printed.lines().filter(|line| shows_warnings || !warns(line)).map(normal).collect();
    // After each line of the pattern: how many printed lines can have been used up by then.
    let mut used = vec![0];
    for (line, wanted) in pattern.iter().enumerate() {
        used = if wanted.chars().eq([ANY]) {
            (used[0]..=printed.len()).collect()
        } else {
            let fits = |&at: &usize| printed.get(at).is_some_and(|found| like(wanted, found));
            used.into_iter().filter(fits).map(|at| at + 1).collect()
        };
        if used.is_empty() {
            return Err(Mismatch { line });
        }
    }
    // Blank lines at the end are nobody's business.
    let over = |at: &usize| printed[*at..].iter().all(String::is_empty);
    if used.iter().any(over) { Ok(()) } else { Err(Mismatch { line: shown.len() }) }
}

/// Whether a line is as a pattern with wildcards says.
fn like(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// A line without what varies from run to run.
fn normal(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(without_what_varies).collect();
    // A time stamp is padded.
    words.join(" ").replace("[ ", "[")
}

fn without_what_varies(word: &str) -> String {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == ':';
    let mut text = String::new();
    let mut rest = word;
    while let Some(from) = rest.find(inside) {
        let (before, found) = rest.split_at(from);
        let (token, after) = found.split_at(found.find(|c| !inside(c)).unwrap_or(found.len()));
        let bare = token.trim_end_matches(['.', ':']);
        text += before;
        text += if bare.parse::<Ipv4Addr>().is_ok() {
            "<address>"
        } else if bare.parse::<SocketAddrV4>().is_ok() {
            "<address>:<port>"
        } else if is_duration(bare) {
            "<duration>"
        } else {
            bare
        };
        text += &token[bare.len()..];
        rest = after;
    }
    text + rest
}

/// Whether a word is numbers with units of time, such as `1m30s`.
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = ["ms", "s", "m", "h", "d"].into_iter().find_map(|unit| number.strip_prefix(unit));
        match unit {
            Some(after) if number.len() < rest.len() => rest = after,
            _ => return false,
        }
    }
    !word.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(shown: &str, printed: &str) -> Result<(), usize> {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        compare(&shown, printed).map_err(|mismatch| mismatch.line)
    }

    #[test]
    fn a_warning_may_come_where_none_is_shown_and_is_compared_where_one_is() {
        assert_eq!(same("created", "Warning: not yet\ncreated"), Ok(()));
        assert_eq!(same("Warning: nothing yet\ncreated", "Warning: not yet\ncreated"), Err(0));
        assert_eq!(same("Warning: … yet\ncreated", "created"), Err(0));
    }

    #[test]
    fn durations_addresses_and_the_width_of_columns_do_not_count() {
        let shown = "NAME    AGE\nserve   2s";
        assert_eq!(same(shown, "NAME   AGE\nserve  1m30s\n"), Ok(()));
        assert_eq!(
            same("[   0.0s] at 10.0.0.1, (10.0.0.1:80)", "[ 125.3s] at 10.1.2.3, (10.9.9.9:1)"),
            Ok(())
        );
        assert_eq!(same("10.0.0.0/24", "10.7.0.0/16"), Err(0));
        assert_eq!(same("80/TCP 2s", "81/TCP 2s"), Err(0));
        assert_eq!(same("serve 2s", "serve 2x"), Err(0));
        assert_eq!(same("v1.36.4", "v1.36.5"), Err(0));
    }

    #[test]
    fn a_wildcard_stands_for_a_part_of_a_line_or_for_lines() {
        assert_eq!(same("hub …: already there", "hub c51b: namespace x: already there"), Ok(()));
        assert_eq!(same("pod serve-…-… is …", "pod serve-5bd4-bhrg9 is ready"), Ok(()));
        assert_eq!(same("pod serve-… is", "pod serve-5bd4 is not"), Err(0));
        assert_eq!(same("a\n…\nz", "a\nz"), Ok(()));
        assert_eq!(same("a\n…\nz", "a\nb\nz\nc\nz"), Ok(()));
        assert_eq!(same("…\nz", "a\nb"), Err(1));
    }

    #[test]
    fn what_is_printed_beyond_what_is_shown_counts() {
        assert_eq!(same("a", "a\n\n"), Ok(()));
        assert_eq!(same("a", "a\nWarning: b"), Err(1));
        assert_eq!(same("a\nb", "a"), Err(1));
        assert_eq!(same("aba", "ab"), Err(0));
        assert_eq!(same("ab…ba", "aba"), Err(0));
    }

    #[test]
    fn a_duration_has_numbers_and_units() {
        for (word, is) in [
            ("5s", true),
            ("1m30s", true),
            ("25.7s", true),
            ("4d2h", true),
            ("s", false),
            ("5", false),
            ("5s5", false),
            ("", false),
        ] {
            assert_eq!(is_duration(word), is, "{word}");
        }
    }
}
