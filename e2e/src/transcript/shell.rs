//! One shell for a whole document: what a command leaves (folder, variables) is there for the next.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// Nothing that a document shows takes longer.
const PATIENCE: Duration = Duration::from_secs(240);
/// What the shell says after a command, with the command's exit code.
const OVER: &str = "<<<over>>>";

/// A running bash, which ends with this value.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether it says that all went well.
    pub well: bool,
    /// What it printed, complaints included.
    pub printed: String,
}

// === impl Shell ===

impl Shell {
    /// Starts one by a command that says where it runs and in what environment.
    pub fn start(mut command: Command) -> Result<Self> {
        command.args(["--noprofile", "--norc"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("failed to start bash")?;
        let (mut input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.context("its output is piped")?);
        let (sender, lines) = sync_channel(1024);
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut input = input.take().context("its input is piped")?;
        // As on a terminal, where both go to one place.
        writeln!(input, "exec 2>&1")?;
        Ok(Self { child, input, lines })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    ///
    /// If the shell itself ends, or the command does not.
    pub fn run(&mut self, command: &str) -> Result<Ended> {
        // What follows is not for the command to read.
        let text = format!("{{\n{command}\n}} </dev/null\nprintf '{OVER}%s\\n' \"$?\"\n");
        // In one piece: a command may end the shell before it has read what follows.
        self.input.write_all(text.as_bytes()).context("the shell ended")?;
        let mut printed = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    if let Some((rest, code)) = line.split_once(OVER) {
                        printed += rest;
                        return Ok(Ended { well: code == "0", printed });
                    }
                    printed = printed + &line + "\n";
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("it prints nothing more and does not end:\n{printed}")
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the shell ended:\n{printed}"),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(shell: &mut Shell, command: &str) -> (bool, String) {
        let Ended { well, printed } = shell.run(command).unwrap();
        (well, printed)
    }

    #[test]
    fn a_document_has_one_shell() {
        let mut shell = Shell::start(Command::new("bash")).unwrap();
        assert_eq!(said(&mut shell, "cd /; x=1"), (true, String::new()));
        assert_eq!(said(&mut shell, "pwd; echo $x; echo no >&2"), (true, "/\n1\nno\n".to_owned()));
        assert_eq!(said(&mut shell, "cat; printf open; false"), (false, "open".to_owned()));
        assert_eq!(said(&mut shell, "cat <<EOF\na $x\nEOF"), (true, "a 1\n".to_owned()));
        assert!(shell.run("exit 3").unwrap_err().to_string().contains("the shell ended"));
    }
}
