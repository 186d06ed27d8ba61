//! How commands end: when whoever reads what they print is gone, and at Ctrl-C.

use std::{
    fs,
    io::{Read, Write, pipe},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const TOMBOLO: &str = env!("CARGO_BIN_EXE_tombolo");
const SIGINT: i32 = 2;
/// No look may take that long: an API server that says nothing is given up after ten seconds.
const SOON: Duration = Duration::from_secs(5);

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// A command that Ctrl-C reaches: whoever runs the tests in the background of a shell has them ignore it.
fn interruptible(arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(TOMBOLO).args(arguments).stdout(Stdio::null());
    command
}

/// Sends Ctrl-C until the command ends.
fn interrupted(mut running: Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        let sent = Command::new("kill").args(["-INT", &running.id().to_string()]).output();
        sent.expect("a signal can be sent");
        thread::sleep(Duration::from_millis(100));
        if let Some(ended) = running.try_wait().expect("it can be asked") {
            return ended;
        }
        if began.elapsed() > SOON {
            running.kill().expect("it can be killed");
            panic!("Ctrl-C does not end it");
        }
    }
}

#[test]
fn what_nobody_reads_is_no_failure() {
    let folder = folder("unread");
    fs::write(folder.join("certs.yaml"), "hosts: [127.0.0.1]\ndays: 1\n").expect("a file can be written");
    let certs = ["certs", "--dir", folder.to_str().expect("it is text")];
    for line in [&["version"][..], &["crds"], &["completion", "bash"], &certs] {
        let (reader, writer) = pipe().expect("there are pipes");
        drop(reader);
        let ended = Command::new(TOMBOLO).args(line).stdout(writer).output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.is_empty(), "{line:?} ends with {}: {said}", ended.status);
    }
    assert!(folder.join("tls.key").exists(), "it did not go on");
}

#[test]
fn a_plan_that_waits_for_standard_input_ends_at_ctrl_c() {
    let mut running = interruptible(&["plan", "-f", "-"]).stdin(Stdio::piped()).spawn().expect("it runs");
    let mut input = running.stdin.take().expect("it was asked for");
    // No pipe holds that much: when all is written, somebody reads.
    input.write_all(&vec![b'#'; 2 << 20]).expect("it is read");
    assert_eq!(interrupted(running).signal(), Some(SIGINT));
}

/// A hub that says nothing, and a kubeconfig that leads there.
fn silent(name: &str) -> (TcpListener, PathBuf) {
    let hub = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let kubeconfig = folder(name).join("kubeconfig");
    let server = format!("http://{}", hub.local_addr().expect("it has one"));
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: hub, clusters: [{{name: hub, cluster: {{server: \"{server}\"}}}}], \
         users: [{{name: me, user: {{}}}}], contexts: [{{name: hub, context: {{cluster: hub, user: me}}}}]}}"
    );
    fs::write(&kubeconfig, text).expect("a file can be written");
    (hub, kubeconfig)
}

#[test]
fn what_only_a_hub_knows_is_not_asked_of_a_member() {
    let (member, kubeconfig) = silent("member");
    let groups = r#"{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "multicluster.x-k8s.io", "versions": []}]}"#;
    thread::spawn(move || {
        for mut asked in member.incoming().flatten() {
            let _asked = asked.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let _answered = write!(asked, "{head}\r\nContent-Length: {}\r\n\r\n{groups}", groups.len());
        }
    });
    let file = folder("member").join("one.yaml");
    fs::write(&file, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}")
        .expect("a file can be written");
    let file = file.to_str().expect("it is text");
    for line in [&["status"][..], &["explain", "svc/serve"], &["plan", "-f", file], &["unjoin", "m"]] {
        let mut command = Command::new(TOMBOLO);
        let ended = command.args(line).env("KUBECONFIG", &kubeconfig).output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{line:?}: {said}");
        assert!(
            said.contains("context hub (http://127.0.0.1:") && said.contains("is no hub"),
            "{line:?}: {said}"
        );
        assert!(said.contains("--hub-context"), "{line:?}: {said}");
    }
}

#[test]
fn on_a_terminal_every_command_says_what_it_waits_for() {
    let (hub, kubeconfig) = silent("terminal");
    let file = folder("terminal").join("one.yaml");
    fs::write(&file, "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}")
        .expect("a file can be written");
    let plan = format!("plan -f {}", file.display());
    let all = [
        "status",
        "explain svc/serve",
        "check",
        "join m",
        "unjoin m",
        "export serve",
        "unexport serve",
        &plan,
    ];
    let waiting = all.map(|line| {
        // It lends the command a terminal.
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--command", &format!("{TOMBOLO} {line}"), "/dev/null"]);
        let terminal = terminal.env("KUBECONFIG", &kubeconfig).stdin(Stdio::null()).stdout(Stdio::piped());
        (line, terminal.spawn().expect("it runs"))
    });
    for (line, mut running) in waiting {
        let mut said = running.stdout.take().expect("it was asked for");
        let (mut text, mut byte) = (String::new(), [0]);
        while !text.ends_with("ing ") && said.read(&mut byte).expect("it is read") > 0 {
            text.push(char::from(byte[0]));
        }
        running.kill().expect("it can be killed");
        running.wait().expect("it ends");
        assert!(text.starts_with("\r\u{1b}["), "{line}: {text}");
    }
    drop(hub);
}

#[test]
fn what_asks_a_hub_that_says_nothing_ends_at_ctrl_c() {
    for line in [&["status"][..], &["status", "--watch"], &["check"], &["explain", "svc/serve"]] {
        let (hub, kubeconfig) = silent("silent");
        let mut command = interruptible(line);
        let running = command.env("KUBECONFIG", &kubeconfig).stderr(Stdio::null()).spawn().expect("it runs");
        // From then on it waits for an answer.
        let _connection = hub.accept().expect("it asks");
        let ended = interrupted(running);
        assert_eq!(ended.code(), Some(1), "{line:?} ends with {ended}");
    }
}
