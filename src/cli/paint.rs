//! What is printed: colours and a width on a terminal, plain lines elsewhere.

use std::{
    collections::BTreeSet,
    env,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use serde::Serialize;
use terminal_size::{Width, terminal_size_of};

use crate::shell::log::colours_unwanted;

/// As wide as a terminal is that does not say how wide it is.
const WIDTH: usize = 80;
/// Narrower than that nothing is broken.
const NARROWEST: usize = 40;

/// How a text is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// A title.
    Title,
    /// All is well.
    Good,
    /// Not yet.
    Waiting,
    /// Something is not well.
    Bad,
}

/// Where things are printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// Whether there are colours.
    pub colours: bool,
    /// The columns of the terminal that somebody looks at; none where nobody does.
    pub columns: Option<usize>,
}

/// A text in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

/// A table as kubectl prints them.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

/// Says on a terminal what a command is about, once it takes longer than somebody waits without asking. In a pipe it says nothing.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    terminal: bool,
}

/// Whether a [`Progress`] is to be seen on the terminal: what is printed next takes its place.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Goes to the beginning of a terminal's line and clears it.
const ERASE: &str = "\r\x1b[K";
/// As long as somebody waits without asking.
const PATIENCE: Duration = Duration::from_secs(2);

// === impl Progress ===

impl Progress {
    /// Begins to count.
    pub fn new() -> Self {
        Self { began: Instant::now(), terminal: io::stderr().is_terminal() }
    }

    /// Does something, and says what it is about whenever nothing is heard of it for long.
    pub async fn during<T>(text: &str, work: impl Future<Output = T>) -> T {
        let mut progress = Self::new();
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(PATIENCE, &mut work).await {
                Ok(done) => return done,
                Err(_) => progress.say(text),
            }
        }
    }

    /// What it is about now, in place of what it said before.
    pub fn say(&mut self, text: &str) {
        if self.terminal && self.began.elapsed() >= PATIENCE {
            draw(&format!("{ERASE}{}", shortened(text, WIDTH - 1)));
            SHOWN.store(true, Ordering::Relaxed);
        }
    }

    /// Takes back what it said.
    pub fn done(&mut self) {
        erase();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

// === impl Tone ===

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Title => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Waiting => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }

    /// Of what a condition says; `bad` is what it should not say.
    pub fn of(said: &str, bad: &str) -> Self {
        match said {
            "" => Self::Plain,
            "Unknown" => Self::Bad,
            said if said == bad => Self::Bad,
            _ => Self::Good,
        }
    }
}

// === impl Paint ===

impl Paint {
    /// As standard output asks for it. NO_COLOR is respected (no-color.org).
    pub fn of_stdout() -> Self {
        let terminal = io::stdout().is_terminal();
        let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let own = terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into());
        let columns = terminal.then(|| asked.or(own).unwrap_or(WIDTH).max(NARROWEST));
        Self { colours: terminal && !colours_unwanted(), columns }
    }

    /// A text in its tone.
    pub fn text(self, tone: Tone, text: &str) -> String {
        if self.colours && tone != Tone::Plain && !text.is_empty() {
            format!("{}{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    /// Whether somebody looks at a terminal.
    pub fn is_terminal(self) -> bool {
        self.columns.is_some()
    }

    /// The width that lines are broken at; none where nobody looks.
    pub fn width(self) -> Option<usize> {
        self.columns
    }
}

// === impl Cell ===

impl Cell {
    /// A text as it is.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    /// A text in a tone.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

// === impl Table ===

impl Table {
    /// A table with these titles.
    pub fn new(titles: &[&str]) -> Self {
        Self { rows: vec![titles.iter().map(|title| Cell::toned(Tone::Title, *title)).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there are titles only.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// The lines, none wider than that. What does not fit is cut, in the widest columns first.
    pub fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = (0..columns).map(widest).collect();
        let gaps = GAP * columns.saturating_sub(1);
        while let Some(width) = width
            && widths.iter().sum::<usize>() + gaps > width
        {
            let Some(most) = widths.iter_mut().max().filter(|most| **most > 1) else { break };
            *most -= 1;
        }
        self.rows.iter().map(|row| line(row, &widths, paint)).collect()
    }
}

/// Between two columns.
const GAP: usize = 2;

fn line(row: &[Cell], widths: &[usize], paint: Paint) -> String {
    let mut line = String::new();
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
    for (index, (cell, width)) in row.iter().zip(widths).enumerate().take(last + 1) {
        let text = shortened(&cell.text, *width);
        let rest = if index == last { 0 } else { width + GAP - text.chars().count() };
        line += &paint.text(cell.tone, &text);
        line += &" ".repeat(rest);
    }
    line
}

/// A text of at most so many characters; what is cut shows by a `…`.
pub fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Breaks a text that begins in a column between words into lines, those after the first indented.
pub fn wrapped(text: &str, width: Option<usize>, column: usize, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let (mut lines, mut length, mut first) = (String::new(), column, true);
    for word in text.split_whitespace() {
        let long = word.chars().count();
        if !first && length + 1 + long > width {
            lines += &format!("\n{}", " ".repeat(indent));
            length = indent;
        } else if !first {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += long;
        first = false;
    }
    lines
}

/// How long ago something was, as kubectl says it.
pub fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// As JSON, in lines.
pub fn json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).context("failed to write JSON")? + "\n")
}

/// As YAML.
pub fn yaml(value: &impl Serialize) -> Result<String> {
    // By way of JSON: so both say the same.
    let value = serde_json::to_value(value).context("failed to write YAML")?;
    serde_saphyr::to_string(&value).context("failed to write YAML")
}

/// Prints a text. Whoever reads may stop reading: then there is nobody to print for, which is told by false.
pub fn print(text: &str) -> Result<bool> {
    erase();
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("failed to print"),
    }
}

/// Says in a line how a command goes. Where nobody can read it any more, what is being done goes on all the same.
pub fn say(line: &str) {
    drop(print(&format!("{line}\n")));
}

/// The same in a tone.
pub fn say_in(tone: Tone, line: &str) {
    say(&Paint::of_stdout().text(tone, line));
}

/// The same beside what is printed.
pub fn note(line: &str) {
    erase();
    draw(&format!("{line}\n"));
}

/// Tells a warning of an API server beside what is printed, as kubectl does: each once.
pub fn warn(warning: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if TOLD.lock().insert(warning.to_owned()) {
        note(&format!("Warning: {warning}"));
    }
}

/// Takes back what a [`Progress`] said, if it is to be seen.
fn erase() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        draw(ERASE);
    }
}

fn draw(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Paint = Paint { colours: false, columns: None };
    const COLOURED: Paint = Paint { colours: true, columns: Some(80) };

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "READY", "MESSAGE"]);
        table.row([
            Cell::plain("member1"),
            Cell::toned(Tone::Good, "True"),
            Cell::plain("a long story of what happened"),
        ]);
        table.row([Cell::plain("m2"), Cell::default(), Cell::default()]);
        table
    }

    #[test]
    fn columns_stand_below_each_other_and_lines_have_no_blanks_at_their_ends() {
        let lines = table().lines(PLAIN, None);
        assert_eq!(lines, ["NAME     READY  MESSAGE", "member1  True   a long story of what happened", "m2"]);
    }

    #[test]
    fn what_is_too_wide_is_cut_in_the_widest_column() {
        let lines = table().lines(PLAIN, Some(30));
        assert_eq!(lines, ["NAME     READY  MESSAGE", "member1  True   a long story …", "m2"]);
    }

    #[test]
    fn colours_take_no_room() {
        let lines = table().lines(COLOURED, None);
        assert_eq!(lines[1], "member1  \x1b[32mTrue\x1b[0m   a long story of what happened");
        assert!(!table().lines(PLAIN, None).concat().contains('\x1b'));
    }

    #[test]
    fn long_texts_are_broken_between_words_and_indented() {
        assert_eq!(wrapped("one two three four", Some(9), 0, 2), "one two\n  three\n  four");
        assert_eq!(wrapped("one two", Some(9), 4, 2), "one\n  two", "it begins further right");
        assert_eq!(wrapped("one two", None, 0, 2), "one two");
        assert_eq!(wrapped("averyverylongword x", Some(5), 0, 2), "averyverylongword\n  x");
    }

    #[test]
    fn what_is_printed_takes_the_place_of_what_a_command_is_about() {
        let began = Instant::now().checked_sub(PATIENCE).unwrap();
        let mut progress = Progress { began, terminal: true };
        progress.say("asking");
        print("").unwrap();
        assert!(!SHOWN.load(Ordering::Relaxed));
    }

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let ages = [-1, 5, 119, 120, 7_199, 7_200, 172_800].map(age);
        assert_eq!(ages, ["0s", "5s", "119s", "2m", "119m", "2h", "2d"]);
    }
}
