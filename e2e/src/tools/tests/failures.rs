//! Every failure says what to do.

use std::{fs, path::PathBuf};

use super::{Scratch, assert_says};
use crate::tools::{Entry, Surroundings, Tool, Tools};

fn real_modules() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn failure(surroundings: &Surroundings, wanted: &[Tool]) -> String {
    format!("{:#}", Tools::provide_in(surroundings, wanted).expect_err("it must fail"))
}

#[test]
fn without_go_the_error_says_where_to_get_it() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    surroundings.search = scratch.0.clone().into();
    surroundings.e2e = real_modules();
    assert_says(
        &failure(&surroundings, &[Tool::Kubectl]),
        &[
            "Go 1.26 or newer is needed to build kubectl",
            "PATH has no `go`",
            "https://go.dev/dl",
            "KUBEBUILDER_ASSETS",
        ],
    );
}

#[test]
fn too_old_a_go_is_named_with_its_version() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let go = scratch.executable("bin/go", "#!/bin/sh\necho go1.20\n");
    surroundings.search = go.parent().unwrap().into();
    assert_says(
        &failure(&surroundings, &[Tool::Echo]),
        &["Go 1.26 or newer is needed", &format!("{} is go1.20", go.display()), "https://go.dev/dl"],
    );
}

#[test]
fn without_a_network_the_error_speaks_of_the_module_proxy() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    surroundings.e2e = real_modules();
    surroundings.variables = vec![
        ("GOPROXY", "http://127.0.0.1:9".into()),
        ("GOMODCACHE", scratch.0.join("modules").into()),
        ("GOFLAGS", "-mod=mod".into()),
    ];
    assert_says(
        &failure(&surroundings, &[Tool::Helm]),
        &[
            "failed to build helm from helm.sh/helm/v4 v",
            "set GOPROXY",
            "127.0.0.1:9: connect: connection refused",
        ],
    );
}

#[test]
fn nothing_is_built_that_go_sum_does_not_vouch_for() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let go_mod = fs::read_to_string(real_modules().join("kubernetes/helm/go.mod")).unwrap();
    let copy = scratch.write("kubernetes/helm/go.mod", &go_mod);
    surroundings.variables = vec![("GOFLAGS", "-mod=mod".into())];
    assert_says(&failure(&surroundings, &[Tool::Helm]), &["failed to build helm", "missing go.sum entry"]);
    assert_eq!(fs::read_to_string(copy).unwrap(), go_mod);
    assert!(!scratch.0.join("kubernetes/helm/go.sum").exists());
}

#[test]
fn a_failed_compilation_shows_what_the_compiler_said() {
    let scratch = Scratch::new();
    let (surroundings, _) = scratch.surroundings();
    scratch.write("images/echo/main.go", "package main\n\nfunc main() { nonsense() }\n");
    assert_says(
        &failure(&surroundings, &[Tool::Echo]),
        &["failed to build echo", "main.go:3:15: undefined: nonsense"],
    );
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    // Permissions do not stop root; a file where a directory should be stops everyone.
    surroundings.cache = scratch.write("cache", "");
    assert_says(
        &failure(&surroundings, &[Tool::Echo]),
        &["the cache in", &scratch.0.join("cache").display().to_string(), "set TOMBOLO_BED_CACHE"],
    );
}

#[test]
fn a_full_disk_is_named() {
    let entry = Entry { directory: PathBuf::from("/cache/images-0") };
    let error = entry.unwritable(std::io::ErrorKind::StorageFull.into());
    assert_says(&format!("{error:#}"), &["the disk with /cache/images-0 is full", "TOMBOLO_BED_CACHE"]);
}

#[test]
fn kubebuilder_assets_that_do_not_exist_are_an_error() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    surroundings.assets = Some(scratch.0.join("nowhere"));
    assert_says(
        &failure(&surroundings, &[Tool::Kubectl]),
        &["KUBEBUILDER_ASSETS names", "nowhere", "not a directory", "unset it"],
    );
}

#[test]
fn what_kubebuilder_assets_lack_is_what_must_be_built() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    scratch.executable("assets/etcd", "");
    scratch.write("assets/kubelet", "not executable");
    surroundings.assets = Some(scratch.0.join("assets"));
    surroundings.search = scratch.0.clone().into();
    surroundings.e2e = real_modules();
    assert_says(
        &failure(&surroundings, &[Tool::Etcd, Tool::Kubelet, Tool::Kubectl]),
        &["needed to build kubelet, kubectl for the tests"],
    );
}
