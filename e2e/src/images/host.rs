//! Programs of this machine, with the libraries that they load.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::Entry;
use crate::packages;

/// The entries for programs, each given as its name in `dir` and its name on this machine, and for their
/// libraries and loader under the paths they have here.
pub(super) fn with_libraries<'a>(
    programs: impl IntoIterator<Item = (&'a str, &'a str)>,
    dir: &Path,
) -> Result<BTreeMap<PathBuf, Entry>> {
    let mut entries = BTreeMap::new();
    let mut command = Command::new("ldd");
    // Its messages are read below.
    command.env("LC_ALL", "C");
    for (name, here) in programs {
        let from = packages::find(here)
            .with_context(|| format!("failed to pack the program {here}: it is not on this machine"))?;
        command.arg(&from);
        entries.insert(dir.join(name), Entry::File { from, mode: 0o755 });
    }
    let output = command.output().context("failed to run ldd")?;
    if !output.status.success() {
        bail!("failed to run {command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    for library in libraries(&String::from_utf8_lossy(&output.stdout))? {
        let from = PathBuf::from(library);
        entries.insert(from.clone(), Entry::File { from, mode: 0o755 });
    }
    Ok(entries)
}

/// The paths in the output of ldd.
fn libraries(output: &str) -> Result<Vec<&str>> {
    let mut paths = Vec::new();
    // Lines that are not indented name the program whose libraries follow.
    for line in output.lines().filter(|line| line.starts_with('\t')) {
        let found = line.trim().split(" (0x").next().unwrap_or_default();
        let (name, path) = found.split_once(" => ").unwrap_or((found, found));
        if path == "not found" {
            bail!("failed to find the library {name}, which a program for an image needs");
        }
        // What has no path comes from the kernel (linux-vdso), or is no library ("statically linked").
        if path.starts_with('/') {
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_read_from_ldds_output() {
        let output = "/usr/bin/dash:\n\
            \tlinux-vdso.so.1 (0x00007f0e21871000)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0e20e1e000)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f0e21873000)\n\
            /usr/bin/static:\n\
            \tstatically linked\n";
        assert_eq!(
            libraries(output).unwrap(),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
    }

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let error = libraries("\tlibgone.so.1 => not found\n").unwrap_err();
        assert!(error.to_string().contains("libgone.so.1"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = with_libraries([("x", "no-such-program")], Path::new("/bin")).unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }

    #[test]
    fn a_shell_is_packed_under_its_name_in_the_image_with_libc_and_the_loader() {
        let entries = with_libraries([("sh", "dash")], Path::new("/usr/bin")).unwrap();
        let paths: Vec<_> = entries.keys().map(|path| path.display().to_string()).collect();
        assert!(paths.iter().any(|path| path == "/usr/bin/sh"), "{paths:?}");
        assert!(paths.iter().any(|path| path.ends_with("/libc.so.6")), "{paths:?}");
        assert!(paths.iter().any(|path| path.contains("/ld-linux")), "{paths:?}");
    }
}
