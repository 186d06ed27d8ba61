//! Holds `src/decide` to its promise: values in, values out. A decision that could see a clock, a network, a file, chance
//! or the order of a hash table could not be repeated, and so not be tested by properties.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words and paths that no decision may use, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("tokio", "the shell runs tasks and hands decisions their input"),
    ("futures", "the shell waits and hands decisions their input"),
    ("async", "a decision does not wait: make it a plain function"),
    ("await", "a decision does not wait: make it a plain function"),
    ("kube_runtime", "watch in the shell, decide on what it has seen"),
    ("Client", "talk to API servers in the shell, decide on what it has seen"),
    ("Api", "talk to API servers in the shell, decide on what it has seen"),
    ("Instant", "take the time as an argument"),
    ("SystemTime", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    ("Utc::now", "take the time as an argument"),
    ("sleep", "a decision does not wait"),
    ("thread", "a decision does not run beside another"),
    ("rand", "a decision is the same every time: derive what must differ from names"),
    ("fastrand", "a decision is the same every time: derive what must differ from names"),
    ("getrandom", "a decision is the same every time: derive what must differ from names"),
    ("HashMap", "its order differs from run to run: use BTreeMap"),
    ("HashSet", "its order differs from run to run: use BTreeSet"),
    ("RandomState", "it differs from run to run"),
    ("fs", "read files in the shell"),
    ("File", "read files in the shell"),
    ("env", "read the environment in the shell"),
    ("process", "run programs in the shell"),
    ("TcpStream", "talk to the network in the shell"),
    ("TcpListener", "talk to the network in the shell"),
    ("UdpSocket", "talk to the network in the shell"),
    ("UnixStream", "talk to the network in the shell"),
    ("println", "give the text back"),
    ("eprintln", "give the text back"),
    ("tracing", "give back what there is to say, and let the shell log it"),
];

/// Why a source text is not pure: each forbidden word with its line.
fn impurities(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let code = without_texts(line);
        for (word, advice) in FORBIDDEN.iter().filter(|(word, _)| uses(&code, word)) {
            found.push(format!("line {}: `{word}`: {advice}", number + 1));
        }
    }
    found
}

/// A line without what stands in quotes: messages may use any word.
fn without_texts(line: &str) -> String {
    let line = line.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

/// Whether a word occurs, and not as a part of a longer one.
fn uses(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(in_word) && !after.starts_with(in_word)
    })
}

/// All Rust files under a directory, in order.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn decisions_use_no_clock_no_network_no_files_no_chance_and_no_hash_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/decide");
    let files = sources(&root);
    assert!(files.contains(&root.join("merge.rs")), "found only {files:?}");
    let found: Vec<_> = files
        .iter()
        .flat_map(|file| {
            let name = file.strip_prefix(&root).unwrap().display().to_string();
            let found = impurities(&fs::read_to_string(file).unwrap());
            found.into_iter().map(move |found| format!("src/decide/{name}, {found}"))
        })
        .collect();
    assert!(found.is_empty(), "src/decide must be pure:\n{}", found.join("\n"));
}

#[test]
fn what_is_not_pure_is_found_in_whatever_form_it_comes() {
    for line in [
        "use tokio::sync::watch;",
        "use kube::{Api, Client};",
        "    let client: kube::Client = todo!();",
        "let api = kube::Api::<Pod>::all(client);",
        "use kube_runtime::watcher;",
        "use kube::runtime::watcher; use futures::StreamExt;",
        "use std::time::Instant;",
        "use std::{collections::HashMap, time::SystemTime};",
        "let set = std::collections::HashSet::new();",
        "pub async fn decide() {}",
        "let x = ask().await;",
        "let at = Timestamp::now();",
        "let n: u8 = rand::random();",
        "std::fs::read(path)",
        "use std::{fs, io};",
        "let s = std::net::TcpStream::connect(a);",
        "std::env::var(\"HOME\")",
        "let at = given.unwrap_or_else(Timestamp::now);",
        r#"say("a \" b", Instant::elapsed(), "c")"#,
        r#"if c == '"' { thread::spawn(f) }"#,
    ] {
        assert!(!impurities(line).is_empty(), "{line}");
    }
}

#[test]
fn what_is_pure_is_left_alone_and_so_are_comments() {
    for line in [
        "use std::collections::{BTreeMap, BTreeSet};",
        "    /// Also what a Client or tokio would do now.",
        "//! HashMap",
        "SessionAffinity::ClientIp { timeout_seconds: 1 }",
        "use kube::core::{ApiResource, Selector};",
        "let operand = known && nowhere;",
        "fn step(now: i64) -> State { State::now(now) }",
        r#"&["sessionAffinity: must be ClientIP or None, not \"Client\""],"#,
        "use std::net::IpAddr;",
    ] {
        assert_eq!(impurities(line), [""; 0], "{line}");
    }
}
