//! `tombolo explain KIND/NAME`: why an object of the hub is where it is, or is not. The first line names the cause. Members are asked only
//! for a service that they may share without the hub's objects.

mod kinds;
mod read;

use std::process::ExitCode;

use anyhow::{Context, Error, Result, bail};
use clap::ValueEnum;
use tokio_util::sync::CancellationToken;

use super::{
    NOT_WELL,
    paint::{self, Paint, Progress, Tone, wrapped},
    target::HubFlags,
};
use crate::{
    decide::explain::{Explanation, Row, State, explain},
    hub::served::discover,
};

/// Flags of `tombolo explain`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// What is to be explained: KIND/NAME or KIND NAME, as kubectl takes them; also cluster/NAME and policies.
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// The object's namespace; without it that of the context.
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// How it is printed.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// End with 3 if it is not well, or not yet.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    hub: HubFlags,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

// === impl Args ===

impl Args {
    /// Explains an object.
    pub async fn run(self, stop: CancellationToken) -> Result<ExitCode> {
        let explained = tokio::select! {
            () = stop.cancelled() => bail!("it was interrupted"),
            explained = Progress::during("asking the hub", self.explained()) => explained?,
        };
        let text = match self.output {
            Format::Text => shown(&explained, Paint::of_stdout()),
            Format::Json => paint::json(&explained)?,
            Format::Yaml => paint::yaml(&explained)?,
        };
        paint::print(&text)?;
        Ok(match explained.state {
            State::Absent => ExitCode::FAILURE,
            State::Pending | State::NotWell if self.exit_code => NOT_WELL.into(),
            State::Well | State::Pending | State::NotWell => ExitCode::SUCCESS,
        })
    }

    /// What is wrong with the command line, though each word of it may be.
    pub fn fault(&self) -> Option<String> {
        self.asked().err()
    }

    /// The kind and the name that are asked for.
    fn asked(&self) -> Result<(&str, &str), String> {
        let asked = match self.what.as_slice() {
            [kind, name] => (kind.as_str(), name.as_str()),
            words => words.iter().find_map(|word| word.split_once('/')).unwrap_or_default(),
        };
        if asked.0.is_empty() || asked.1.is_empty() {
            let given = self.what.join(" ");
            return Err(format!(
                "KIND/NAME: {given:?} lacks a kind or a name; write it as in serviceexport/serve or `serviceexport serve`"
            ));
        }
        Ok(asked)
    }

    async fn explained(&self) -> Result<Explanation> {
        let (kind, name) = self.asked().map_err(Error::msg)?;
        let (hub, own) = self.hub.connect().await?;
        let served = discover(&hub).await.context("failed to ask the hub for its kinds")?;
        let kind = kinds::find(&hub, &served, kind).await?;
        let namespace = self.namespace.clone().unwrap_or(own);
        let asked = read::Asked { hub, served, namespace, system: self.hub.hub_namespace.clone() };
        let subject = asked.subject(&kind, name);
        let read = asked.read(&subject).await?;
        Ok(explain(&read, &subject))
    }
}

/// As text: the cause first, then all that was found.
fn shown(explained: &Explanation, paint: Paint) -> String {
    let width = paint.width();
    let headline = wrapped(&explained.headline(), width, 0, 2);
    let mut text =
        headline.lines().map(|line| paint.text(tone(explained.state), line) + "\n").collect::<String>();
    for part in &explained.parts {
        text += &format!("\n{}\n", paint.text(Tone::Title, &part.title));
        let widest = part.rows.iter().map(|row| row.of.chars().count()).max().unwrap_or_default();
        // A long name has a line of its own, so that there is room for what is said.
        let column = widest.min(28);
        for row in &part.rows {
            text += &row_shown(row, column, paint, width);
        }
    }
    text
}

fn row_shown(row: &Row, column: usize, paint: Paint, width: Option<usize>) -> String {
    let mark = match row.state {
        State::Well => "✓",
        State::Pending => "…",
        State::NotWell | State::Absent => "✗",
    };
    // The mark, and two blanks on both sides of the column.
    let indent = column + 6;
    let length = row.of.chars().count();
    let gap = if length > column && width.is_some() {
        format!("\n{}", " ".repeat(indent))
    } else {
        " ".repeat((column + 2).saturating_sub(length).max(2))
    };
    let text = wrapped(&row.text, width, indent, indent);
    format!("  {} {}{gap}{}\n", paint.text(tone(row.state), mark), row.of, text)
}

fn tone(state: State) -> Tone {
    match state {
        State::Well => Tone::Good,
        State::Pending => Tone::Waiting,
        State::NotWell | State::Absent => Tone::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::explain::Part;

    fn explanation() -> Explanation {
        let row = |state, of: &str, text: &str| Row { state, of: of.to_owned(), text: text.to_owned() };
        Explanation {
            object: "ConfigMap shop/one".to_owned(),
            state: State::NotWell,
            cause: "in member1: no".to_owned(),
            way_out: Some("do it".to_owned()),
            parts: vec![Part {
                title: "Clusters".to_owned(),
                rows: vec![
                    row(State::NotWell, "member1", &"word ".repeat(20)),
                    row(State::Well, "m2", "it is there"),
                ],
            }],
        }
    }

    #[test]
    fn in_a_pipe_the_first_line_is_the_cause_and_there_are_no_colours() {
        let text = shown(&explanation(), Paint { colours: false, columns: None });
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("ConfigMap shop/one is not well: in member1: no; do it"));
        assert_eq!(lines.nth(1), Some("Clusters"));
        assert_eq!(text.lines().last(), Some("  ✓ m2       it is there"));
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn on_a_terminal_nothing_is_wider_than_it() {
        let text = shown(&explanation(), Paint { colours: false, columns: Some(80) });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\n             word"), "{text}");
        let coloured = shown(&explanation(), Paint { colours: true, columns: Some(80) });
        assert!(coloured.starts_with("\x1b[31mConfigMap"), "{coloured}");
    }
}
