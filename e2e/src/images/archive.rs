//! Writes an image as an OCI image layout in a tar archive, which `ctr images import` reads.
//!
//! The same image gives the same bytes on any day: entries are sorted, belong to root and have no times.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, bail};
use ring::digest;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::{Entry, Image};

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Writes the image's archive. It appears under its name when it is whole.
///
/// # Errors
///
/// If a file of the image cannot be read, a name is not valid, or the archive cannot be written.
pub fn pack(image: &Image, to: &Path) -> Result<()> {
    let bytes =
        archive(image).with_context(|| format!("failed to pack the image {}", image.names.join(", ")))?;
    write_whole(to, &bytes).with_context(|| format!("failed to write {}", to.display()))
}

/// The name that containerd stores an image by and the kubelet's is looked up by: `jeremyot/serve:1` is
/// `docker.io/jeremyot/serve:1`.
///
/// # Errors
///
/// If the name is empty or has a digest.
pub fn stored_name(name: &str) -> Result<String> {
    if name.is_empty() || name.contains('@') {
        bail!("{name:?} is not the name and tag of an image");
    }
    let (registry, rest) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
        Some(_) => ("docker.io", name.to_owned()),
        None => ("docker.io", format!("library/{name}")),
    };
    let tag = if rest.contains(':') { "" } else { ":latest" };
    Ok(format!("{registry}/{rest}{tag}"))
}

/// Writes a file under another name first, so that nobody sees a part of it.
pub(super) fn write_whole(to: &Path, bytes: &[u8]) -> Result<()> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut partial = to.as_os_str().to_owned();
    partial.push(format!(".partial-{}-{number}", process::id()));
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, to));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
    }
    Ok(written?)
}

/// The SHA-256 in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn archive(image: &Image) -> Result<Vec<u8>> {
    let layer = layer(&image.entries)?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": image.entrypoint,
            "Cmd": image.cmd,
            "Env": image.env,
            "User": image.user,
            "WorkingDir": "/",
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))] },
    })
    .to_string()
    .into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer)],
    })
    .to_string()
    .into_bytes();
    let manifests = image
        .names
        .iter()
        .map(|name| {
            let mut named = descriptor(MANIFEST, &manifest);
            named["platform"] = json!({ "architecture": architecture(), "os": "linux" });
            named["annotations"] = json!({ "io.containerd.image.name": stored_name(name)? });
            Ok(named)
        })
        .collect::<Result<Vec<Value>>>()?;
    let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();

    let mut tar = Builder::new(Vec::new());
    file(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    file(&mut tar, "index.json", 0o644, index.as_bytes())?;
    for blob in [&manifest, &config, &layer] {
        file(&mut tar, format!("blobs/sha256/{}", sha256(blob)), 0o644, blob)?;
    }
    Ok(tar.into_inner()?)
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(blob)), "size": blob.len() })
}

/// This machine's architecture by Go's name, which images use.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer(entries: &BTreeMap<PathBuf, Entry>) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    // Paths are ordered by their components, so that a directory is before what is in it.
    for (path, entry) in with_parents(entries) {
        let path = path.strip_prefix("/").unwrap_or(path);
        match entry {
            Entry::File { from, mode } => {
                let bytes = fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
                file(&mut tar, path, *mode, &bytes)?;
            }
            Entry::Text(text) => file(&mut tar, path, 0o644, text.as_bytes())?,
            Entry::Link(target) => {
                tar.append_link(&mut header(EntryType::Symlink, 0o777), path, target)?;
            }
            Entry::Dir(mode) => {
                tar.append_data(&mut header(EntryType::Directory, *mode), path, std::io::empty())?;
            }
        }
    }
    Ok(tar.into_inner()?)
}

/// The entries, and the directories above them that are not among them.
fn with_parents(entries: &BTreeMap<PathBuf, Entry>) -> BTreeMap<&Path, &Entry> {
    let mut all: BTreeMap<&Path, &Entry> = entries
        .keys()
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|above| above.file_name().is_some())
        .map(|above| (above, &Entry::Dir(0o755)))
        .collect();
    all.extend(entries.iter().map(|(path, entry)| (path.as_path(), entry)));
    all
}

fn file(tar: &mut Builder<Vec<u8>>, path: impl AsRef<Path>, mode: u32, bytes: &[u8]) -> Result<()> {
    let mut header = header(EntryType::Regular, mode);
    header.set_size(bytes.len() as u64);
    Ok(tar.append_data(&mut header, path, bytes)?)
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn text(text: &str) -> Entry {
        Entry::Text(text.to_owned())
    }

    fn image() -> Image {
        Image {
            names: vec!["jeremyot/serve:1".to_owned(), "tombolo.dev/serve:1".to_owned()],
            entries: BTreeMap::from([
                ("/usr/bin/tool".into(), text("tool")),
                ("/usr/bin-not".into(), text("")),
                ("/bin".into(), Entry::Link("usr/bin".into())),
                ("/tmp".into(), Entry::Dir(0o1777)),
            ]),
            entrypoint: vec!["/bin/tool".to_owned()],
            cmd: vec!["--flag".to_owned()],
            env: vec!["PATH=/bin".to_owned()],
            user: "1:2".to_owned(),
        }
    }

    fn unpacked(tar: &[u8]) -> BTreeMap<String, (Header, Vec<u8>)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                let path = entry.path().unwrap().display().to_string();
                (path, (entry.header().clone(), bytes))
            })
            .collect()
    }

    /// The blob that a descriptor names, checked against what it says.
    fn blob(files: &BTreeMap<String, (Header, Vec<u8>)>, descriptor: &Value) -> Vec<u8> {
        let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = files[&format!("blobs/sha256/{hash}")].1.clone();
        assert_eq!(sha256(&bytes), hash);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    #[test]
    fn an_archive_leads_from_each_stored_name_to_configuration_and_layer() {
        let files = unpacked(&archive(&image()).unwrap());
        let index: Value = serde_json::from_slice(&files["index.json"].1).unwrap();
        let names: Vec<&str> = index["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|named| named["annotations"]["io.containerd.image.name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["docker.io/jeremyot/serve:1", "tombolo.dev/serve:1"]);

        let manifest: Value = serde_json::from_slice(&blob(&files, &index["manifests"][1])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&files, &manifest["config"])).unwrap();
        assert_eq!(
            config["config"],
            json!({ "Entrypoint": ["/bin/tool"], "Cmd": ["--flag"], "Env": ["PATH=/bin"], "User": "1:2", "WorkingDir": "/" })
        );
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(unpacked(&blob(&files, &manifest["layers"][0])).len(), 6);
    }

    #[test]
    fn a_layers_directories_come_before_what_is_in_them() {
        let layer = layer(&image().entries).unwrap();
        let mut archive = tar::Archive::new(layer.as_slice());
        let paths: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(paths, ["bin", "tmp", "usr", "usr/bin", "usr/bin/tool", "usr/bin-not"]);
    }

    #[test]
    fn a_layer_says_nothing_of_when_and_by_whom_it_was_made() {
        for (path, (header, _)) in unpacked(&layer(&image().entries).unwrap()) {
            let facts = (header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap());
            assert_eq!(facts, (0, 0, 0), "{path}");
        }
        assert_eq!(archive(&image()).unwrap(), archive(&image()).unwrap());
    }

    #[test]
    fn kinds_and_permissions_are_kept() {
        let files = unpacked(&layer(&image().entries).unwrap());
        let facts = |path: &str| {
            let header = &files[path].0;
            (header.entry_type(), header.mode().unwrap())
        };
        assert_eq!(facts("tmp"), (EntryType::Directory, 0o1777));
        assert_eq!(facts("usr"), (EntryType::Directory, 0o755));
        assert_eq!(facts("bin"), (EntryType::Symlink, 0o777));
        assert_eq!(files["bin"].0.link_name().unwrap().unwrap(), Path::new("usr/bin"));
        assert_eq!(facts("usr/bin/tool"), (EntryType::Regular, 0o644));
    }

    #[test]
    fn names_are_stored_as_containerd_looks_them_up() {
        for (name, stored) in [
            ("jeremyot/serve:0a40de8", "docker.io/jeremyot/serve:0a40de8"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("localhost/x:1", "localhost/x:1"),
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1", "docker.io/library/busybox:1"),
        ] {
            assert_eq!(stored_name(name).unwrap(), stored);
        }
        assert!(stored_name("").is_err());
        assert!(stored_name("a@sha256:00").is_err());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_leaves_no_archive() {
        let mut image = image();
        let from = PathBuf::from("/nonexistent/program");
        image.entries.insert("/x".into(), Entry::File { from, mode: 0o755 });
        let to = std::env::temp_dir().join(format!("tombolo-no-archive-{}.tar", process::id()));
        let error = format!("{:#}", pack(&image, &to).unwrap_err());
        assert!(error.contains("/nonexistent/program") && error.contains("jeremyot/serve:1"), "{error}");
        assert!(!to.exists());
    }

    #[test]
    fn whoever_reads_an_archive_goes_on_reading_the_same_one_when_it_is_written_again() {
        let to = std::env::temp_dir().join(format!("tombolo-whole-{}", process::id()));
        write_whole(&to, b"first").unwrap();
        let reader = fs::File::open(&to).unwrap();
        write_whole(&to, b"second").unwrap();
        let read = std::io::read_to_string(reader).unwrap();
        assert_eq!((read.as_str(), fs::read(&to).unwrap().as_slice()), ("first", b"second".as_slice()));
        fs::remove_file(to).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_put_in_its_place_leaves_nothing_behind() {
        let dir = std::env::temp_dir().join(format!("tombolo-nothing-{}", process::id()));
        let taken = dir.join("taken");
        fs::create_dir_all(taken.join("by-a-directory")).unwrap();
        write_whole(&taken, b"").unwrap_err();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(dir).unwrap();
    }
}
