//! Runs Go, says how far a build is, and turns what Go prints into advice.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Instant,
};

use anyhow::{Context, Error, Result, anyhow, bail};

use super::{
    Source, Tool,
    module::{GoVersion, Module},
    names,
    surroundings::Surroundings,
};

/// How many of Go's last lines an error shows.
const SHOWN: usize = 20;

/// A Go that is new enough for one module.
pub(super) struct Go<'a> {
    surroundings: &'a Surroundings,
    program: PathBuf,
    /// What `go env` says of everything that decides what a build gives, the version on the first line.
    identity: String,
}

/// What a build has printed so far.
#[derive(Default)]
struct Output {
    packages: usize,
    downloads: usize,
    last: VecDeque<String>,
}

// === impl Go ===

impl<'a> Go<'a> {
    /// Finds Go, for a module that the tools are to be built from.
    pub(super) fn find(surroundings: &'a Surroundings, module: &Module, tools: &[Tool]) -> Result<Self> {
        let oldest = module.oldest_go()?;
        let names = names(tools);
        let elsewhere = if tools.iter().any(|tool| tool.source() == Source::Images) {
            String::new()
        } else {
            format!(", or point KUBEBUILDER_ASSETS at a directory with {names}")
        };
        let advice = format!("install it from your distribution or https://go.dev/dl{elsewhere}");
        let Some(program) = surroundings.go() else {
            bail!(
                "Go {oldest} or newer is needed to build {names} for the tests, and PATH has no `go`: {advice}"
            );
        };
        let mut go = Self { surroundings, program, identity: String::new() };
        // In the module's directory, since an older Go fetches itself the version that go.mod asks for.
        let output = go
            .command(&module.directory)
            .args(["env", "GOVERSION", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT"])
            .output()
            .with_context(|| format!("failed to run {}", go.program.display()))?;
        if !output.status.success() {
            let what = format!("failed to ask {} for its version", go.program.display());
            return Err(explain(&what, &String::from_utf8_lossy(&output.stderr)));
        }
        go.identity = String::from_utf8_lossy(&output.stdout).into_owned();
        if GoVersion::parse(go.version()).is_none_or(|version| version < oldest) {
            bail!(
                "Go {oldest} or newer is needed to build {names} for the tests, and {} is {}: {advice}",
                go.program.display(),
                go.version()
            );
        }
        Ok(go)
    }

    pub(super) fn version(&self) -> &str {
        self.identity.lines().next().unwrap_or_default()
    }

    /// Everything about Go that decides what a build gives.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(directory)
            .env("PATH", &self.surroundings.search)
            .envs(self.surroundings.variables.iter().map(|(name, value)| (name, value)))
            .env("CGO_ENABLED", "0")
            // Set rather than removed, which would let those of `go env -w` in. They could name another
            // go.mod, an overlay or build tags, none of which the cache's key knows.
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .stdin(Stdio::null());
        command
    }

    /// Builds the tools with one command, since they share most of their packages, into a directory. Blocks,
    /// without a limit of its own: it says every few seconds that it goes on, and ends with the terminal's
    /// interrupt.
    pub(super) fn build(&self, module: &Module, tools: &[Tool], into: &Path) -> Result<()> {
        // The slash makes Go take it for a directory even if there is one package only.
        let mut target = into.as_os_str().to_owned();
        target.push("/");
        let mut child = self
            .command(&module.directory)
            .args(["build", "-v"])
            .args(&module.flags)
            .arg("-o")
            .arg(target)
            .args(tools.iter().map(|tool| tool.package()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to run {}", self.program.display()))?;
        let stderr = child.stderr.take().expect("invariant: stderr was asked to be piped");
        let output = self.follow(BufReader::new(stderr));
        let status = child.wait().context("failed to wait for go build")?;
        if status.success() {
            return Ok(());
        }
        let what = format!("failed to build {} from {}", names(tools), module.origin(tools));
        Err(explain(&what, &output.last.into_iter().collect::<Vec<_>>().join("\n")))
    }

    /// Reads what `go build -v` prints until it ends, and says now and then how far it is.
    fn follow(&self, stderr: impl BufRead + Send + 'static) -> Output {
        let (lines, read) = mpsc::sync_channel(64);
        thread::spawn(move || {
            for line in stderr.split(b'\n').map_while(Result::ok) {
                if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let mut output = Output::default();
        let began = Instant::now();
        let mut next = began + self.surroundings.every;
        loop {
            match read.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(line) => output.read(line),
                Err(RecvTimeoutError::Disconnected) => return output,
                Err(RecvTimeoutError::Timeout) => {
                    self.surroundings.say(output.so_far(began.elapsed().as_secs()));
                    next = Instant::now() + self.surroundings.every;
                }
            }
        }
    }
}

// === impl Output ===

impl Output {
    fn read(&mut self, line: String) {
        if line.starts_with("go: downloading ") {
            self.downloads += 1;
        } else if !line.is_empty() && !line.contains([' ', ':', '#']) {
            // An import path and nothing else: `-v` names a package when it begins to compile it.
            self.packages += 1;
        } else {
            if self.last.len() == SHOWN {
                self.last.pop_front();
            }
            self.last.push_back(line);
        }
    }

    fn so_far(&self, seconds: u64) -> String {
        let downloads = match self.downloads {
            0 => String::new(),
            downloads => format!("{downloads} modules downloaded, "),
        };
        format!("still building after {seconds} s: {downloads}{} packages compiled", self.packages)
    }
}

/// What to do about a failure, with what Go printed as its cause.
fn explain(what: &str, printed: &str) -> Error {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| printed.contains(phrase));
    let advice = if says(&["no space left on device", "disk quota exceeded"]) {
        "the disk named below is full: a first build needs about 9 GB where `go env GOCACHE GOMODCACHE GOTMPDIR` says, and 1 GB in TOMBOLO_BED_CACHE"
    } else if says(&["signal: killed", "cannot allocate memory", "out of memory"]) {
        "there was too little memory: have about 4 GB free, or set GOMAXPROCS=1 to need less"
    } else if says(&[
        "dial tcp",
        "no such host",
        "connection refused",
        "connection reset",
        "i/o timeout",
        "proxyconnect",
        "TLS handshake timeout",
        "network is unreachable",
        "GOPROXY=off",
    ]) {
        "the first build fetches Go modules from the module proxy, which was not reached: connect to the network, or set GOPROXY to a proxy that is reachable"
    } else {
        "Go refused, for the reason below"
    };
    anyhow!("Go printed:\n{}", printed.trim_end()).context(format!("{what}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept_without_the_names_of_packages() {
        let mut output = Output::default();
        for line in ["go: downloading helm.sh/helm/v4 v4.3.1", "internal/cpu", "k8s.io/api/core/v1"] {
            output.read(line.to_owned());
        }
        for number in 0..SHOWN + 5 {
            output.read(format!("main.go:{number}:1: undefined: x"));
        }
        assert_eq!((output.downloads, output.packages, output.last.len()), (1, 2, SHOWN));
        assert_eq!(output.last[SHOWN - 1], "main.go:24:1: undefined: x");
        assert_eq!(output.so_far(20), "still building after 20 s: 1 modules downloaded, 2 packages compiled");
    }

    #[test]
    fn each_kind_of_failure_has_its_own_advice() {
        for (printed, advice) in [
            ("link: writing output: write /tmp/go-link-1: no space left on device", "TOMBOLO_BED_CACHE"),
            ("k8s.io/api/core/v1: /usr/lib/go/compile: signal: killed", "too little memory"),
            ("lookup modules.example on 127.0.0.53:53: no such host", "GOPROXY"),
            ("dial tcp 142.250.1.1:443: i/o timeout", "GOPROXY"),
            ("main.go:3:1: undefined: x", "reason below"),
        ] {
            let explained = explain("failed to build etcd", printed);
            assert!(explained.to_string().contains(advice), "{explained:#}");
            assert!(explained.root_cause().to_string().ends_with(printed), "{explained:#}");
        }
    }
}
