//! The programs that a bed's nodes need, from Debian packages.
//!
//! [`ensure`] looks for them and installs what is missing.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::progress;

/// Where CNI plugins are looked for: Debian's place first.
pub const CNI_DIRS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

const LOCK: &str = "/run/lock/tombolo-e2e-packages.lock";
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Tells a policy that this module left behind when it was killed from one that others put there.
const POLICY_TEXT: &str =
    "#!/bin/sh\n# tombolo-e2e: no service starts while its packages install.\nexit 101\n";

/// Something that the node level runs or packs into images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Program(&'static str),
    CniPlugin(&'static str),
}

const NEEDS: &[(Need, &str)] = &[
    (Need::Program("containerd"), "containerd"),
    (Need::Program("containerd-shim-runc-v2"), "containerd"),
    (Need::Program("ctr"), "containerd"),
    (Need::Program("runc"), "runc"),
    (Need::CniPlugin("bridge"), "containernetworking-plugins"),
    (Need::CniPlugin("host-local"), "containernetworking-plugins"),
    (Need::CniPlugin("loopback"), "containernetworking-plugins"),
    (Need::CniPlugin("portmap"), "containernetworking-plugins"),
    (Need::CniPlugin("ptp"), "containernetworking-plugins"),
    (Need::Program("nft"), "nftables"),
    (Need::Program("ip"), "iproute2"),
    (Need::Program("conntrack"), "conntrack"),
    (Need::Program("nsenter"), "util-linux"),
    (Need::Program("unshare"), "util-linux"),
    (Need::Program("setpriv"), "util-linux"),
    (Need::Program("mount"), "mount"),
    (Need::Program("umount"), "mount"),
    (Need::Program("ldd"), "libc-bin"),
    (Need::Program("dash"), "dash"),
    (Need::Program("socat"), "socat"),
    (Need::Program("dig"), "bind9-dnsutils"),
    (Need::Program("nslookup"), "bind9-dnsutils"),
    (Need::Program("nc.openbsd"), "netcat-openbsd"),
    (Need::Program("curl"), "curl"),
    (Need::Program("ping"), "iputils-ping"),
    // What else images with a shell are made of: present on nearly every Debian.
    (Need::Program("awk"), "mawk"),
    (Need::Program("sleep"), "coreutils"),
    (Need::Program("find"), "findutils"),
    (Need::Program("grep"), "grep"),
    (Need::Program("hostname"), "hostname"),
    (Need::Program("sed"), "sed"),
];

const CHROMIUM: &str = "chromium";
/// What pages are tested in.
const BROWSER: &[(Need, &str)] = &[(Need::Program(CHROMIUM), "chromium")];
const PROMTOOL: &str = "promtool";
/// What alert rules are tested with.
const RULES: &[(Need, &str)] = &[(Need::Program(PROMTOOL), "prometheus")];

/// Makes sure that all programs are there, and installs Debian packages for those that are not.
///
/// Packages' services are not started: beds run their own containerd.
///
/// # Errors
///
/// Names what is missing and the packages that have it, if they cannot be installed.
pub fn ensure() -> Result<()> {
    ensure_on(&Host, NEEDS)
}

/// Makes sure that there is a browser, and says where it is.
///
/// # Errors
///
/// Says why there is none.
pub fn browser() -> Result<PathBuf> {
    ensure_on(&Host, BROWSER)?;
    find(CHROMIUM).context("a program that was installed is to be found")
}

/// Makes sure that there is the program that checks rules of Prometheus, and says where it is.
///
/// # Errors
///
/// Says why there is none.
pub fn promtool() -> Result<PathBuf> {
    ensure_on(&Host, RULES)?;
    find(PROMTOOL).context("a program that was installed is to be found")
}

/// The path of a program, looked for where root's `PATH` has it.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's PATH, and with it sudo's, may lack the last two.
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// What [`ensure`] needs of a machine.
trait Machine {
    fn has(&self, need: Need) -> bool;
    fn is_root(&self) -> bool;
    fn has_apt(&self) -> bool;
    /// Held while packages install: beds that start at the same time wait here.
    fn lock(&self) -> Result<Option<File>>;
    fn install(&self, packages: &BTreeSet<&str>) -> Result<()>;
}

fn ensure_on(machine: &impl Machine, needs: &[(Need, &'static str)]) -> Result<()> {
    let missing = Missing::on(machine, needs);
    if missing.is_empty() {
        return Ok(());
    }
    if !machine.has_apt() {
        bail!(
            "{} missing, and there is no apt-get to install the Debian {}",
            missing.programs(),
            missing.packages()
        );
    }
    if !machine.is_root() {
        bail!("{} missing, and installing the Debian {} needs root", missing.programs(), missing.packages());
    }
    let _lock = machine.lock()?;
    // Whoever held the lock may have installed them.
    let missing = Missing::on(machine, needs);
    if missing.is_empty() {
        return Ok(());
    }
    progress::say(format_args!("installing the Debian {}", missing.packages()));
    machine.install(&missing.packages)?;
    let left = Missing::on(machine, needs);
    if !left.is_empty() {
        bail!("{} missing even after apt-get installed the Debian {}", left.programs(), left.packages());
    }
    Ok(())
}

/// What a machine lacks, in the words of messages.
#[derive(Debug)]
struct Missing {
    needs: Vec<Need>,
    packages: BTreeSet<&'static str>,
}

// === impl Missing ===

impl Missing {
    fn on(machine: &impl Machine, needs: &[(Need, &'static str)]) -> Self {
        let missing = || needs.iter().filter(|(need, _)| !machine.has(*need));
        Self {
            needs: missing().map(|(need, _)| *need).collect(),
            packages: missing().map(|(_, package)| *package).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    fn programs(&self) -> String {
        let names: Vec<String> = self
            .needs
            .iter()
            .map(|need| match need {
                Need::Program(name) => (*name).to_owned(),
                Need::CniPlugin(name) => format!("CNI plugin {name}"),
            })
            .collect();
        format!("{} {}", names.join(", "), if names.len() == 1 { "is" } else { "are" })
    }

    fn packages(&self) -> String {
        let names: Vec<&str> = self.packages.iter().copied().collect();
        format!("package{} {}", if names.len() == 1 { "" } else { "s" }, names.join(" "))
    }
}

/// This machine.
struct Host;

// === impl Host ===

impl Machine for Host {
    fn has(&self, need: Need) -> bool {
        match need {
            Need::Program(name) => find(name).is_some(),
            Need::CniPlugin(name) => CNI_DIRS.iter().any(|dir| Path::new(dir).join(name).is_file()),
        }
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn has_apt(&self) -> bool {
        find("apt-get").is_some()
    }

    fn lock(&self) -> Result<Option<File>> {
        let lock = File::create(LOCK).with_context(|| format!("failed to create {LOCK}"))?;
        if lock.try_lock().is_err() {
            progress::say("waiting for another bed that installs packages");
            lock.lock().with_context(|| format!("failed to lock {LOCK}"))?;
        }
        Ok(Some(lock))
    }

    fn install(&self, packages: &BTreeSet<&str>) -> Result<()> {
        let _policy = NoServices::set(Path::new(POLICY))?;
        let install = || {
            apt_get(["install", "-y", "--no-install-recommends"].into_iter().chain(packages.iter().copied()))
        };
        // Package lists may be absent or name files that are gone: then they are read anew.
        if install().is_ok() {
            return Ok(());
        }
        progress::say("updating the package lists");
        apt_get(["update"])?;
        install()
    }
}

fn apt_get<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args([
            "-q",
            "-o",
            "DPkg::Lock::Timeout=300",
            "-o",
            "Acquire::Retries=2",
            "-o",
            "Acquire::http::Timeout=30",
        ])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    let output = command.output().context("failed to run apt-get")?;
    if !output.status.success() {
        bail!("failed to run {command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Keeps packages from starting their services, until dropped.
struct NoServices {
    /// The policy to remove; none where another one was there, which stays.
    ours: Option<PathBuf>,
}

// === impl NoServices ===

impl NoServices {
    fn set(policy: &Path) -> Result<Self> {
        let left_behind = fs::read_to_string(policy).is_ok_and(|text| text == POLICY_TEXT);
        if left_behind {
            return Ok(Self { ours: Some(policy.to_owned()) });
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy) {
            Ok(mut file) => {
                let set = Self { ours: Some(policy.to_owned()) };
                file.write_all(POLICY_TEXT.as_bytes())
                    .with_context(|| format!("failed to write {}", policy.display()))?;
                Ok(set)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { ours: None }),
            Err(error) => Err(error).with_context(|| format!("failed to create {}", policy.display())),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = &self.ours
            && let Err(error) = fs::remove_file(policy)
        {
            progress::say(format_args!("failed to remove {}: {error}", policy.display()));
        }
    }
}

#[cfg(test)]
mod tests;
