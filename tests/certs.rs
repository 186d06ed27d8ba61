//! `tombolo certs`, with the settings that are kept in `webhook-certs/`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/webhook-certs");

/// A repository whose only folder is as `webhook-certs/`.
fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("certs");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("webhook-certs")).expect("a folder can be made");
    for file in [".gitignore", "README.md", "certs.yaml"] {
        fs::copy(Path::new(KEPT).join(file), root.join("webhook-certs").join(file)).expect("it is kept");
    }
    git(&root, &["init", "--quiet"]);
    root
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names are text")
}

#[test]
fn what_it_writes_is_for_its_owner_only_and_git_keeps_none_of_it() {
    let root = repository();
    let output =
        Command::new(env!("CARGO_BIN_EXE_tombolo")).arg("certs").current_dir(&root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in ["ca.crt", "tls.crt", "tls.key"] {
        let mode = fs::metadata(root.join("webhook-certs").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    git(&root, &["add", "--all"]);
    let kept = git(&root, &["ls-files"]);
    let kept: Vec<_> = kept.lines().collect();
    assert_eq!(kept, ["webhook-certs/.gitignore", "webhook-certs/README.md", "webhook-certs/certs.yaml"]);
}
