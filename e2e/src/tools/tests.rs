//! Provides tools in surroundings of the tests' own: an `e2e` directory with one little program, and an
//! empty cache.

mod failures;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use super::{Entry, Go, Module, Source, State, Surroundings, Tool, Tools};

const PROGRAM: &str = "package main\n\nfunc main() { println(\"echo\") }\n";

/// A directory that goes with the test.
struct Scratch(PathBuf);

/// The lines said so far.
type Said = Arc<Mutex<Vec<String>>>;

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tombolo-tools-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Written by another process: a child that a test beside this one forks would inherit our open file for
    /// a moment, in which Linux refuses to run it.
    fn executable(&self, path: &str, content: &str) -> PathBuf {
        let text = self.write(&format!("{path}.text"), content);
        let path = self.0.join(path);
        let status = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(status.unwrap().success());
        path
    }

    /// Surroundings with one program, `echo`, and Go as this process has it.
    fn surroundings(&self) -> (Surroundings, Said) {
        self.write("images/go.mod", "module echo.test\n\ngo 1.26.0\n");
        self.write("images/echo/main.go", PROGRAM);
        let said = Said::default();
        let voice = Arc::clone(&said);
        let surroundings = Surroundings {
            cache: self.0.join("cache"),
            assets: None,
            e2e: self.0.clone(),
            every: Duration::from_secs(10),
            voice: Box::new(move |line| voice.lock().unwrap().push(line)),
            ..Surroundings::of_process().unwrap()
        };
        (surroundings, said)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn taken(said: &Said) -> Vec<String> {
    std::mem::take(&mut said.lock().unwrap())
}

fn assert_says(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "{phrase:?} is not in: {text}");
    }
}

fn runs(program: &Path) {
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "echo\n");
}

#[test]
fn a_tool_is_built_once_and_the_second_time_nothing_is_said() {
    let scratch = Scratch::new();
    let (surroundings, said) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo, Tool::Echo]).unwrap();
    runs(tools.path(Tool::Echo));
    let lines = taken(&said).join("\n");
    assert_says(&lines, &["building echo from", "with go1.", "built echo in"]);
    let built = fs::metadata(tools.path(Tool::Echo)).unwrap().modified().unwrap();

    let again = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    assert_eq!(again.path(Tool::Echo), tools.path(Tool::Echo));
    assert_eq!(fs::metadata(again.path(Tool::Echo)).unwrap().modified().unwrap(), built);
    assert_eq!(taken(&said), Vec::<String>::new());
    let kept: Vec<_> = fs::read_dir(tools.path(Tool::Echo).parent().unwrap())
        .unwrap()
        .map(|found| found.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("building-"))
        .collect();
    assert_eq!(kept, Vec::<String>::new(), "the workspace is gone");
}

#[test]
fn a_changed_source_is_built_beside_the_old_one() {
    let scratch = Scratch::new();
    let (surroundings, _) = scratch.surroundings();
    let old = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    scratch.write("images/echo/main.go", &PROGRAM.replace("echo", "news"));
    let new = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    runs(old.path(Tool::Echo));
    let output = Command::new(new.path(Tool::Echo)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "news\n");
}

#[test]
fn the_users_goflags_do_not_change_what_is_built() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let tagged = "//go:build tagged\n\npackage main\n\nfunc init() { println(\"tagged\") }\n";
    scratch.write("images/echo/tagged.go", tagged);
    surroundings.variables = vec![("GOFLAGS", "-tags=tagged".into())];
    runs(Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap().path(Tool::Echo));
}

#[test]
fn a_corrupt_tool_is_said_so_and_built_again() {
    let scratch = Scratch::new();
    let (surroundings, said) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    let path = tools.path(Tool::Echo);
    let whole = fs::read(path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for corrupt in [&whole[..whole.len() / 2], &flipped, b""] {
        taken(&said);
        fs::write(path, corrupt).unwrap();
        Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
        assert!(fs::read(path).unwrap() == whole, "the same sources give the same tool");
        runs(path);
        assert_says(
            &taken(&said).join("\n"),
            &["removing", "content is not what was built", "building echo"],
        );
    }
}

#[test]
fn a_corrupt_tool_is_gone_even_if_it_cannot_be_built_again() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    fs::write(tools.path(Tool::Echo), "").unwrap();
    surroundings.variables = vec![("GOCACHE", "off".into())];
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap_err();
    assert!(!tools.path(Tool::Echo).exists());
}

#[test]
fn a_tool_without_its_hash_or_its_mode_is_built_again() {
    let scratch = Scratch::new();
    let (surroundings, said) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    let path = tools.path(Tool::Echo);
    taken(&said);

    fs::remove_file(path.with_added_extension("sha256")).unwrap();
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    assert_says(&taken(&said).join("\n"), &["its hash cannot be read", "building echo"]);

    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    assert_says(&taken(&said).join("\n"), &["not executable", "building echo"]);
    runs(path);
}

#[test]
fn of_several_at_once_one_builds_and_all_have_the_tool() {
    let scratch = Scratch::new();
    let all: Vec<_> = (0..4).map(|_| scratch.surroundings()).collect();
    thread::scope(|scope| {
        for (surroundings, _) in &all {
            scope.spawn(|| {
                let tools = Tools::provide_in(surroundings, &[Tool::Echo]).unwrap();
                runs(tools.path(Tool::Echo));
            });
        }
    });
    let built: usize = all
        .iter()
        .map(|(_, said)| taken(said).iter().filter(|line| line.starts_with("building")).count())
        .sum();
    assert_eq!(built, 1);
}

#[test]
fn a_process_that_waits_for_another_says_so() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let entry = {
        let module = Module::read(Source::Images, &surroundings.e2e).unwrap();
        let go = Go::find(&surroundings, &module, &[Tool::Echo]).unwrap();
        Entry::of(&surroundings.cache, &module, &go)
    };
    let lock = entry.lock(&surroundings, &[Tool::Echo]).unwrap();
    let (voice, heard) = mpsc::channel();
    surroundings.voice = Box::new(move |line| voice.send(line).unwrap());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| Tools::provide_in(&surroundings, &[Tool::Echo]));
        let line = heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_says(&line, &["waiting for another process", "echo"]);
        assert_eq!(entry.state(Tool::Echo), State::Missing);
        drop(lock);
        runs(waiting.join().unwrap().unwrap().path(Tool::Echo));
    });
}

#[test]
fn a_whole_tool_is_used_while_another_process_builds() {
    let scratch = Scratch::new();
    let (mut surroundings, _) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    let lock = fs::File::open(tools.path(Tool::Echo).with_file_name("lock")).unwrap();
    lock.try_lock().unwrap();
    // It would wait for ever if it waited: this test holds the lock.
    surroundings.voice = Box::new(|line| panic!("{line}"));
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
}

#[test]
fn what_a_killed_build_left_is_removed_by_the_next() {
    let scratch = Scratch::new();
    let (surroundings, _) = scratch.surroundings();
    let tools = Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    let entry = tools.path(Tool::Echo).parent().unwrap();
    fs::create_dir(entry.join("building-1")).unwrap();
    fs::write(entry.join("building-1/echo"), "half").unwrap();
    fs::remove_file(tools.path(Tool::Echo)).unwrap();
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    assert!(!entry.join("building-1").exists());
}

#[test]
fn a_long_build_says_how_far_it_is() {
    let scratch = Scratch::new();
    let (mut surroundings, said) = scratch.surroundings();
    surroundings.every = Duration::from_millis(1);
    Tools::provide_in(&surroundings, &[Tool::Echo]).unwrap();
    assert_says(&taken(&said).join("\n"), &["still building after 0 s: ", " packages compiled"]);
}

#[test]
fn tools_in_kubebuilder_assets_are_used_and_need_no_go() {
    let scratch = Scratch::new();
    let (mut surroundings, said) = scratch.surroundings();
    let etcd = scratch.executable("assets/etcd", "");
    let kubectl = scratch.executable("assets/kubectl", "");
    surroundings.assets = Some(scratch.0.join("assets"));
    let go = std::mem::replace(&mut surroundings.search, scratch.0.clone().into());
    let tools = Tools::provide_in(&surroundings, &[Tool::Kubectl, Tool::Etcd]).unwrap();
    assert_eq!((tools.path(Tool::Etcd), tools.path(Tool::Kubectl)), (&*etcd, &*kubectl));

    // What is not there is built, and so are our own programs even if something has their name.
    scratch.executable("assets/echo", "");
    surroundings.search = go;
    let tools = Tools::provide_in(&surroundings, &[Tool::Kubectl, Tool::Echo]).unwrap();
    assert_eq!(tools.path(Tool::Kubectl), kubectl);
    runs(tools.path(Tool::Echo));
    assert_says(&taken(&said).join("\n"), &["building echo from"]);
}

#[test]
#[should_panic(expected = "invariant: helm is asked for only where it was provided")]
fn a_tool_that_was_not_wanted_is_not_given() {
    let scratch = Scratch::new();
    Tools::provide_in(&scratch.surroundings().0, &[]).unwrap().path(Tool::Helm);
}
