//! `tombolo completion` and `tombolo man`: what a shell and `man` want to know of the command line, made from it.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;

use super::paint;

/// Flags of `tombolo completion`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Flags of `tombolo man`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct ManArgs {
    /// The folder that the pages are written into, one a command.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

// === impl CompletionArgs ===

impl CompletionArgs {
    /// Prints the script that completes the command line in a shell.
    pub fn run(&self, mut command: Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "tombolo", &mut script);
        paint::print(&String::from_utf8(script).context("a script is text")?).map(drop)
    }
}

// === impl ManArgs ===

impl ManArgs {
    /// Writes the pages.
    pub fn run(&self, command: Command) -> Result<()> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
        clap_mangen::generate_to(command, folder)
            .with_context(|| format!("failed to write the pages into {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tombolo", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(
                    script.contains(command.get_name()),
                    "{shell} does not complete {}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn the_names_that_kubectl_has_for_the_hub_are_completed_and_helped_with() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "tombolo", &mut script);
        let script = String::from_utf8(script).unwrap();
        let begin = script.find("tombolo__subcmd__status)\n            opts=").unwrap();
        let words = script[begin..].lines().nth(1).unwrap();
        assert!(words.contains("--context") && words.contains("--kubeconfig"), "{words}");
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("status").unwrap().render_help().to_string();
        assert!(help.contains("[alias: --context]"), "{help}");
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = std::env::temp_dir().join(format!("tombolo-man-{}", std::process::id()));
        ManArgs { folder: folder.clone() }.run(Cli::command()).unwrap();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = fs::read_to_string(folder.join(format!("tombolo-{}.1", command.get_name()))).unwrap();
            assert!(page.contains(".SH OPTIONS"), "{page}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
