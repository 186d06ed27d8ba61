//! The reference page: metrics, flags, labels, annotations, conditions and events, made from the code. `tombolo crds --write` renews it with
//! the other generated files.

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use crate::{
    api::names::{condition, reason},
    shell::metrics::Metrics,
};

/// Where it is, below the repository's root.
pub const PATH: &str = "docs/reference.md";
/// What the names are called, and what each means, is said there alone.
const NAMES: &str = include_str!("../api/names.rs");
/// The modules of names that are told, with their titles.
const TOLD: [(&str, &str); 7] = [
    ("label", "Tombolo's labels"),
    ("annotation", "Tombolo's annotations"),
    ("finalizer", "Finalizers"),
    ("mcs", "Labels and annotations of the Multi-Cluster Services API"),
    ("condition", "Conditions"),
    ("reason", "Reasons of conditions"),
    ("event", "Events"),
];

/// A name and its meaning.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    value: &'a str,
    meaning: String,
}

/// The whole page.
pub fn markdown() -> String {
    let mut page = "# Reference\n\nGenerated from the code by `cargo run -- crds --write`.\n".to_owned();
    page += &metrics();
    page += &flags();
    for (module, title) in TOLD {
        page += &format!("\n## {title}\n\n| name | meaning |\n|---|---|\n");
        for Name { value, meaning } in names(NAMES, module) {
            page += &row(&[format!("`{value}`"), meaning]);
        }
    }
    // These have no names of their own.
    page += &format!(
        "\nOn a ServiceExport of the hub, an event also tells when clusters begin to disagree on the service, with the first reason of its \
         condition {}, and `{}` when they agree again.\n",
        condition::CONFLICT,
        reason::NO_CONFLICTS
    );
    page
}

fn metrics() -> String {
    let mut page = "\n## Metrics\n\nAt `/metrics` of the hub and of agents. A histogram has `_bucket`, `_sum` and `_count`.\n\n\
                    | name | type | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for one in Metrics::default().described() {
        let labels: Vec<_> = one.labels.iter().map(|label| format!("`{label}`")).collect();
        page +=
            &row(&[format!("`{}`", one.name), one.kind.to_owned(), labels.join(", "), one.help.to_owned()]);
    }
    page
}

fn flags() -> String {
    let mut page = "\n## Flags\n".to_owned();
    let mut whole = Cli::command();
    // Only then it is known which command has which of the flags that all have.
    whole.build();
    section(&mut page, "of every command", whole.get_arguments().filter(|arg| arg.is_global_set()));
    for command in
        whole.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        section(&mut page, &format!("`tombolo {}`", command.get_name()), own(command));
    }
    page
}

/// The arguments that a command has for itself.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    let told = |arg: &&Arg| {
        !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version"
    };
    command.get_arguments().filter(told)
}

fn section<'a>(page: &mut String, title: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let mut rows = String::new();
    for arg in arguments {
        let values: Vec<_> =
            arg.get_value_names().unwrap_or_default().iter().map(|name| name.to_string()).collect();
        let taken = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
        let name = match arg.get_long() {
            Some(long) if arg.is_require_equals_set() => format!("--{long}[={taken}]"),
            Some(long) if taken.is_empty() => format!("--{long}"),
            Some(long) => format!("--{long} {taken}"),
            None => taken,
        };
        let short = arg.get_short().map(|short| format!("-{short}"));
        let aliases = arg.get_visible_aliases().unwrap_or_default().into_iter();
        let names = short.into_iter().chain([name]).chain(aliases.map(|alias| format!("--{alias}")));
        let names = names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let environment =
            arg.get_env().map(|name| format!("`{}`", name.to_string_lossy())).unwrap_or_default();
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default =
            Some(defaults.join(",")).filter(|text| !text.is_empty() && arg.get_action().takes_values());
        let default = default.map(|text| format!("`{text}`")).unwrap_or_default();
        let help = arg.get_help().map(|help| help.to_string().replace('\n', " ")).unwrap_or_default();
        rows += &row(&[names, environment, default, help + &values_of(arg)]);
    }
    if !rows.is_empty() {
        *page +=
            &format!("\n### {title}\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n{rows}");
    }
}

/// A row of a table. A bar would end its cell, in code too.
fn row(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The values that there are to choose from, in words. That a flag is true or false its help says.
fn values_of(arg: &Arg) -> String {
    let all = arg.get_possible_values();
    let shown = all.iter().filter(|value| !value.is_hide_set());
    let named: Vec<_> = shown.map(|value| format!("`{}`", value.get_name())).collect();
    let open = !arg.get_action().takes_values() || named.is_empty() || named == ["`true`", "`false`"];
    if open { String::new() } else { format!(". One of {}", named.join(", ")) }
}

/// The names of a module: each text constant with what is written over it.
fn names<'a>(source: &'a str, module: &str) -> Vec<Name<'a>> {
    let begin = format!("pub mod {module} {{");
    let lines = source.lines().skip_while(|line| *line != begin).skip(1).take_while(|line| *line != "}");
    let (mut names, mut meaning) = (Vec::new(), Vec::new());
    for line in lines.map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            meaning.push(words);
            continue;
        }
        let value = line
            .strip_prefix("pub const ")
            .and_then(|rest| rest.split_once(": &str = \"")?.1.strip_suffix("\";"));
        if let Some(value) = value {
            names.push(Name { value, meaning: meaning.join(" ").replace("[`", "`").replace("`]", "`") });
        }
        meaning.clear();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_what_is_written_over_them() {
        let source = "pub mod other {\n    /// No.\n    pub const X: &str = \"x\";\n}\n\npub mod label {\n    /// On a copy:\n    /// see \
                      [`Y`].\n    pub const HUB: &str = \"tombolo.dev/hub\";\n    pub const N: [&str; 1] = [\"n\"];\n}\n";
        let expected = [Name { value: "tombolo.dev/hub", meaning: "On a copy: see `Y`.".to_owned() }];
        assert_eq!(names(source, "label"), expected);
    }

    #[test]
    fn a_flag_is_told_with_all_its_names_and_the_values_that_there_are() {
        let page = flags();
        for part in [
            "| `--hub-context NAME`, `--context` |",
            "| `-A`, `--all-namespaces` |",
            "| `-R`, `--recursive` |",
        ] {
            assert!(page.contains(part), "there is no {part}: {page}");
        }
        let status = page.split("### ").find(|part| part.starts_with("`tombolo status`")).unwrap();
        let output = status.lines().find(|line| line.contains("`-o`, `--output OUTPUT`")).unwrap();
        assert!(output.ends_with("One of `table`, `wide`, `json`, `yaml` |"), "{output}");
        assert!(!page.contains("One of `true`"), "{page}");
        assert!(page.contains("| `--wait[=BOOL]` |"), "{page}");
    }

    #[test]
    fn every_row_has_as_many_cells_as_its_table_whatever_is_in_them() {
        let page = markdown();
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut columns = 0;
        for line in page.lines() {
            if columns == 0 && line.starts_with('|') {
                columns = cells(line);
            } else if !line.starts_with('|') {
                columns = 0;
            }
            assert!(columns == 0 || cells(line) == columns, "{line}");
        }
        assert!(page.contains("`--grant services\\|workloads\\|all\\|FILE`"), "{page}");
    }

    #[test]
    fn every_module_that_is_told_has_names_and_each_has_a_meaning() {
        for (module, _) in TOLD {
            let names = names(NAMES, module);
            assert!(!names.is_empty(), "{module} has none");
            assert!(names.iter().all(|name| !name.meaning.is_empty()), "{names:?}");
        }
    }
}
