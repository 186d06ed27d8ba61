//! What documents show of a terminal: the ```` ```console ```` blocks of a Markdown file, with the commands in them and what each is
//! shown to print.
//!
//! - A command begins with `$ `. It goes on where its line ends with a backslash, and where it opens a heredoc (`<<EOF`), up to its end.
//! - The lines up to the next command are what it prints. If there are none, nothing is said about it.
//! - A comment `<!-- test: … -->` on the line before a block is a [`Note`]: what a test has to know and a reader has not.
//!
//! [`shown`] says what counts as the same output, [`Shell`] runs the commands.

mod shell;
pub mod shown;

use anyhow::{Context, Result, bail, ensure};

pub use self::shell::{Ended, Shell};

/// A block of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of the document that it begins at, from 1.
    pub line: usize,
    /// What a test has to know.
    pub note: Option<Note>,
    /// Everything in it.
    pub lines: Vec<String>,
}

/// What a test has to know of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// `fails`: its last command does, as it is shown.
    Fails,
    /// `given FILE`: what is in the file was applied on the hub before.
    Given(String),
    /// `output of COMMAND`: all of it is what the command prints, `$` or not.
    OutputOf(String),
}

/// A command and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The line of the document that it begins at, from 1.
    pub line: usize,
    /// The command, which may be of many lines.
    pub text: String,
    /// What it prints; nothing is said about that if it is empty.
    pub output: Vec<String>,
}

/// The blocks of a document.
///
/// # Errors
///
/// If a block is never closed, a note is not understood, or a block of another language would hide commands from a test.
pub fn blocks(document: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().zip(1..);
    let mut before = "";
    while let Some((text, line)) = lines.next() {
        let Some(language) = text.strip_prefix("```") else {
            before = text;
            continue;
        };
        ensure!(
            !["sh", "bash", "shell"].contains(&language),
            "line {line}: commands are in ```console blocks, not in ```{language} ones"
        );
        let inside: Vec<String> =
            lines.by_ref().map(|(text, _)| text.to_owned()).take_while(|text| text != "```").collect();
        ensure!(
            document.lines().nth(line + inside.len()) == Some("```"),
            "line {line}: the block never ends"
        );
        if language == "console" {
            let note = Note::before(before).with_context(|| format!("line {}", line - 1))?;
            blocks.push(Block { line, note, lines: inside });
        }
        before = "";
    }
    Ok(blocks)
}

// === impl Note ===

impl Note {
    fn before(line: &str) -> Result<Option<Self>> {
        let Some(text) = line.strip_prefix("<!-- test: ") else {
            return Ok(None);
        };
        let text = text.strip_suffix(" -->").context("the note does not end on its line")?;
        Ok(Some(match text.split_once(' ') {
            None if text == "fails" => Self::Fails,
            Some(("given", file)) => Self::Given(file.to_owned()),
            Some(("output", rest)) if rest.starts_with("of ") => Self::OutputOf(rest[3..].to_owned()),
            _ => bail!("nobody knows what a note {text:?} means"),
        }))
    }
}

// === impl Block ===

impl Block {
    /// The commands of it.
    ///
    /// # Errors
    ///
    /// If something stands before the first, or a heredoc does not end.
    pub fn commands(&self) -> Result<Vec<Command>> {
        let mut commands: Vec<Command> = Vec::new();
        let mut lines = self.lines.iter().zip(self.line + 1..);
        while let Some((text, line)) = lines.next() {
            let Some(first) = text.strip_prefix("$ ") else {
                let command = commands.last_mut();
                let command = command.with_context(|| format!("line {line}: no command prints this"))?;
                command.output.push(text.clone());
                continue;
            };
            let mut whole = first.to_owned();
            let mut last = first;
            while last.ends_with('\\') {
                let (next, _) = lines.next().with_context(|| format!("line {line}: it does not go on"))?;
                whole = format!("{whole}\n{next}");
                last = next;
            }
            if let Some(end) = heredoc(last) {
                loop {
                    let (next, _) = lines.next().with_context(|| format!("line {line}: {end} is missing"))?;
                    whole = format!("{whole}\n{next}");
                    if next == end {
                        break;
                    }
                }
            }
            commands.push(Command { line, text: whole, output: Vec::new() });
        }
        Ok(commands)
    }
}

/// The word that ends the heredoc which a line opens.
fn heredoc(line: &str) -> Option<&str> {
    let word = line.split_once("<<")?.1.split_whitespace().next()?;
    Some(word.trim_matches(['\'', '"']))
}

// === impl Command ===

impl Command {
    /// Whether it only looks, so that it can be run again until it shows what is to come.
    pub fn looks(&self) -> bool {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        match words.first() {
            Some(&"kubectl") => words.contains(&"get") || words.contains(&"--rm"),
            Some(&"tombolo") => ["status", "explain", "check"].contains(words.get(1).unwrap_or(&"")),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(inside: &str) -> Result<Vec<Command>> {
        blocks(&format!("# A title\n\n```console\n{inside}\n```\n"))?[0].commands()
    }

    #[test]
    fn a_command_goes_on_after_a_backslash_and_through_a_heredoc() {
        let found =
            commands("$ one \\\n    two\nsaid\n$ cat - <<'EOF'\n$ no command\nEOF\nalso said").unwrap();
        let expected = [
            (4, "one \\\n    two", vec!["said".to_owned()]),
            (7, "cat - <<'EOF'\n$ no command\nEOF", vec!["also said".to_owned()]),
        ];
        let expected = expected.map(|(line, text, output)| Command { line, text: text.to_owned(), output });
        assert_eq!(found, expected);
    }

    #[test]
    fn what_no_command_prints_is_a_mistake() {
        for (inside, why) in
            [("said", "line 4: no command"), ("$ a <<E\nb", "E is missing"), ("$ a \\", "does not go on")]
        {
            let error = format!("{:#}", commands(inside).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_note_is_of_the_block_that_follows_at_once() {
        let text = "<!-- test: fails -->\n```console\n$ a\n```\n\n```console\n$ b\n```\n<!-- test: given a.yaml -->\n```console\n```";
        let notes: Vec<_> = blocks(text).unwrap().into_iter().map(|block| block.note).collect();
        assert_eq!(notes, [Some(Note::Fails), None, Some(Note::Given("a.yaml".to_owned()))]);
        assert!(blocks("<!-- test: fialed -->\n```console\n```").is_err());
    }

    #[test]
    fn blocks_that_a_test_would_overlook_are_mistakes() {
        assert!(blocks("```bash\nrm -r x\n```").is_err());
        assert!(blocks("```console\n$ a").is_err());
        assert_eq!(blocks("```yaml\na: b\n```").unwrap(), []);
    }

    #[test]
    fn only_what_changes_nothing_is_run_again() {
        let looks = |text: &str| Command { line: 1, text: text.to_owned(), output: vec![] }.looks();
        assert!(looks("kubectl --context member2 get svc") && looks("tombolo explain svc/a | head -1"));
        assert!(looks("kubectl run -i --rm request") && looks("tombolo status"));
        assert!(!looks("kubectl apply -f get.yaml") && !looks("tombolo join status"));
    }
}
