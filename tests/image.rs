//! The image is what the charts run. There is no Docker where the tests run, so what the Dockerfile promises is held to what it is about.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("it is in the repository")
}

/// What follows a word at the beginning of a line.
fn after<'t>(text: &'t str, word: &str) -> &'t str {
    let mut lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(word));
    let found = lines.next().unwrap_or_else(|| panic!("no line begins with {word:?}"));
    found.trim()
}

#[test]
fn the_image_is_built_by_the_toolchain_that_everything_is_tested_with() {
    let (image, toolchain) = (read("Dockerfile"), read("rust-toolchain.toml"));
    let channel = after(&toolchain, "channel =").trim_matches('"');
    assert_eq!(after(&image, "FROM rust:"), format!("{channel}-alpine AS build"));
    assert_eq!(after(&image, "ENV RUSTUP_TOOLCHAIN="), channel);
}

#[test]
fn the_image_runs_as_the_user_that_the_charts_name() {
    let image = read("Dockerfile");
    let (user, group) = after(&image, "USER ").split_once(':').unwrap();
    for chart in ["hub", "agent"] {
        let deployment = read(&format!("charts/tombolo-{chart}/templates/deployment.yaml"));
        assert_eq!(after(&deployment, "runAsUser:"), user, "{chart}");
        assert_eq!(after(&deployment, "runAsGroup:"), group, "{chart}");
    }
}

#[test]
fn the_image_exposes_the_ports_that_are_served_where_nothing_else_is_said() {
    let image = read("Dockerfile");
    let (webhook, health) = after(&image, "EXPOSE ").split_once(' ').unwrap();
    assert!(read("src/webhook/mod.rs").contains(&format!("default_value = \"[::]:{webhook}\"")));
    assert!(read("src/shell/health.rs").contains(&format!("default_value = \"[::]:{health}\"")));
}

#[test]
fn the_build_of_the_image_is_given_every_member_of_the_workspace() {
    let (left_out, cargo) = (read(".dockerignore"), read("Cargo.toml"));
    let members = after(&cargo, "members =").trim_matches(['[', ']']);
    let members = members.split(',').map(|member| member.trim().trim_matches('"'));
    let needed = members.chain(["src", "benches", "charts", "Cargo.toml", "Cargo.lock"]);
    for needed in needed.filter(|needed| *needed != ".") {
        assert!(!left_out.lines().any(|line| line.trim_matches('/') == needed), "{needed} is left out");
    }
    // What is large and no part of it.
    assert!([".git", "target"].iter().all(|large| left_out.lines().any(|line| line == *large)));
}
