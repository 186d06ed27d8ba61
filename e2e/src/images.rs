//! The images that a bed's pods run, packed from this machine's files: no registry is in reach.
//!
//! [`all`] says what is in them, [`provide`] packs those that are not in a cache yet. `archive` writes the
//! form that `ctr images import` reads, `host` takes programs with their libraries from this machine, and
//! `cache` knows which archives are still good.

mod archive;
mod cache;
mod host;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

pub use archive::{pack, stored_name};
pub use cache::provide;

/// The sandbox image: what containerd's `sandbox_image` must say.
pub const PAUSE: &str = "registry.k8s.io/pause:3.10";
/// The clusters' DNS server.
pub const COREDNS: &str = "registry.k8s.io/coredns/coredns:v1.15.0";
/// Answers HTTP with one message, by the name that Karmada's and the MCS API's documents use.
pub const SERVE: &str = "jeremyot/serve:0a40de8";
/// Asks an HTTP server once a second, by the name that the same documents use.
pub const REQUEST: &str = "jeremyot/request:0a40de8";
/// Answers over TCP, UDP and HTTP with who it is and what it got.
pub const ECHO: &str = "tombolo.dev/echo:1";
/// Tombolo itself.
pub const TOMBOLO: &str = tombolo::membership::agent::IMAGE;
/// The MCS API conformance suite's server.
pub const SOCAT: &str = "alpine/socat:1.7.4.4";
/// The MCS API conformance suite's client.
pub const NETSHOOT: &str = "nicolaka/netshoot:v0.15";

/// An image of one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// What pods call it; short names are stored as containerd looks them up, see [`stored_name`].
    pub names: Vec<String>,
    /// What is in it, by path from the root. Directories above an entry need not be named.
    pub entries: BTreeMap<PathBuf, Entry>,
    /// What runs, with its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, unless a pod gives others.
    pub cmd: Vec<String>,
    /// The environment, each as `NAME=value`.
    pub env: Vec<String>,
    /// The user, as `uid` or `uid:gid`; empty for root.
    pub user: String,
}

/// Something at a path of an image. All belongs to root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A copy of a file of this machine.
    File {
        /// Where the file is on this machine; links are followed.
        from: PathBuf,
        /// Its permissions in the image.
        mode: u32,
    },
    /// A file with this text, readable by all.
    Text(String),
    /// A symbolic link to this target.
    Link(PathBuf),
    /// A directory with these permissions.
    Dir(u32),
}

/// Where the programs are that are built for images. All must be static.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Upstream's CoreDNS.
    pub coredns: PathBuf,
    /// `e2e/images/echo`.
    pub echo: PathBuf,
    /// `e2e/images/pause`.
    pub pause: PathBuf,
    /// `e2e/images/request`.
    pub request: PathBuf,
    /// `e2e/images/serve`.
    pub serve: PathBuf,
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What every image with a shell has besides it: the tools that the conformance suite's scripts call, and
/// what people reach for when they look around in a pod.
const TOOLS: &[&str] = &[
    "awk", "base64", "basename", "cat", "chmod", "cp", "cut", "date", "dd", "dirname", "env", "expr",
    "false", "find", "getent", "grep", "head", "hostname", "id", "ip", "ls", "mkdir", "mktemp", "mv", "od",
    "printf", "readlink", "rm", "sed", "seq", "sleep", "sort", "stat", "tail", "tee", "timeout", "tr",
    "true", "wc", "xargs",
];

/// All images that beds need.
///
/// # Errors
///
/// If a program of this machine, or a library of one, is not found.
pub fn all(programs: &Programs) -> Result<Vec<Image>> {
    Ok(vec![
        Image {
            // As upstream's.
            user: "65535:65535".to_owned(),
            ..of_one_program(PAUSE, "/pause", &programs.pause)
        },
        // Root, unlike upstream's: whose program has the capability for port 53 in an attribute of its file.
        of_one_program(COREDNS, "/coredns", &programs.coredns),
        of_one_program(SERVE, "/serve", &programs.serve),
        of_one_program(REQUEST, "/request", &programs.request),
        of_one_program(ECHO, "/echo", &programs.echo),
        Image { entrypoint: vec!["socat".to_owned()], ..with_shell(SOCAT, &[("socat", "socat")])? },
        Image {
            cmd: vec!["/bin/sh".to_owned()],
            ..with_shell(
                NETSHOOT,
                &[
                    ("curl", "curl"),
                    ("dig", "dig"),
                    // Debian's nc is an alternative, which need not be this one.
                    ("nc", "nc.openbsd"),
                    ("nslookup", "nslookup"),
                    ("ping", "ping"),
                    ("socat", "socat"),
                    ("ss", "ss"),
                ],
            )?
        },
    ])
}

/// Tombolo's own image as this checkout makes it, under the name that charts and `tombolo join` use. The released one is static; this has
/// the libraries that the binary loads.
///
/// # Errors
///
/// If a library of it is not found.
pub fn tombolo(binary: &Path) -> Result<Image> {
    let from = binary.to_str().context("the binary has a name in UTF-8")?;
    Ok(Image {
        names: vec![TOMBOLO.to_owned()],
        // A path that is absolute is found as it is.
        entries: host::with_libraries([("tombolo", from)], Path::new("/usr/local/bin"))?,
        entrypoint: vec!["/usr/local/bin/tombolo".to_owned()],
        user: "65532:65532".to_owned(),
        ..Image::default()
    })
}

fn of_one_program(name: &str, at: &str, from: &Path) -> Image {
    let program = Entry::File { from: from.to_owned(), mode: 0o755 };
    Image {
        names: vec![name.to_owned()],
        entries: BTreeMap::from([(at.into(), program)]),
        entrypoint: vec![at.to_owned()],
        env: vec![format!("PATH={PATH}")],
        ..Image::default()
    }
}

/// An image with a shell, its tools, and more programs: each by its name in the image and on this machine.
///
/// The tools are Debian's and not busybox's: the shell of busybox-static, and even its `timeout` and `env`,
/// run their own `nslookup` and `nc` before those in PATH, and the conformance suite reads BIND's output.
fn with_shell(name: &str, more: &[(&str, &str)]) -> Result<Image> {
    let tools = TOOLS.iter().map(|&name| (name, name));
    let programs = tools.chain([("sh", "dash")]).chain(more.iter().copied());
    let mut entries = host::with_libraries(programs, Path::new("/usr/bin"))?;
    for (path, target) in [("/bin", "usr/bin"), ("/sbin", "usr/bin"), ("/usr/sbin", "bin")] {
        entries.insert(path.into(), Entry::Link(target.into()));
    }
    for (path, mode) in [("/root", 0o700), ("/tmp", 0o1777), ("/var/tmp", 0o1777)] {
        entries.insert(path.into(), Entry::Dir(mode));
    }
    for (path, text) in [
        ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"),
        ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ] {
        entries.insert(path.into(), Entry::Text(text.to_owned()));
    }
    let authorities = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if authorities.is_file() {
        let from = authorities.to_owned();
        entries.insert(authorities.into(), Entry::File { from, mode: 0o644 });
    }
    Ok(Image { names: vec![name.to_owned()], entries, env: vec![format!("PATH={PATH}")], ..Image::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_one_program_runs_it() {
        let image = of_one_program(SERVE, "/serve", Path::new("/built/serve"));
        assert_eq!(image.entrypoint, ["/serve"]);
        let program = Entry::File { from: "/built/serve".into(), mode: 0o755 };
        assert_eq!(image.entries, BTreeMap::from([("/serve".into(), program)]));
    }

    #[test]
    fn an_image_with_a_shell_has_it_where_the_links_of_a_merged_usr_lead() {
        // Only programs that every Debian has.
        let image = with_shell("tombolo.dev/test:1", &[("also", "cat")]).unwrap();
        for tool in TOOLS.iter().chain(&["sh", "also"]) {
            let path = Path::new("/usr/bin").join(tool);
            assert!(matches!(image.entries[&path], Entry::File { mode: 0o755, .. }), "{tool}");
        }
        assert_eq!(image.entries[Path::new("/bin")], Entry::Link("usr/bin".into()));
        assert_eq!(image.entries[Path::new("/tmp")], Entry::Dir(0o1777));
    }

    #[test]
    fn nothing_of_an_image_is_below_a_link() {
        let entries = with_shell("tombolo.dev/test:1", &[]).unwrap().entries;
        for path in entries.keys() {
            for above in path.ancestors().skip(1) {
                assert!(!matches!(entries.get(above), Some(Entry::Link(_))), "{}", path.display());
            }
        }
    }
}
