//! Beds with nodes: real pods, kube-proxy and CoreDNS. Needs root.

use std::{
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tombolo_e2e::{
    bed::{Bed, Spec},
    images,
    kubectl::Kubectl,
    network::{self, Network},
    process::{self, Process, run},
    suite::{self, Needs},
    tests,
    wait::{Final, until},
};

const PATIENCE: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    // They mostly wait.
    suite::run_at_a_time(
        4,
        Spec::nodes(2).bare(),
        tests![
            a_deployment_gets_ready_and_exec_and_logs_work,
            a_pod_of_one_member_reaches_a_pod_of_another,
            a_pod_resolves_names_of_its_cluster,
            a_service_is_served_by_kube_proxy,
            the_documents_programs_print_the_documents_lines,
            the_conformance_suites_images_hold_the_commands_that_it_calls,
            no_packet_of_a_bed_leaves_the_machine,
            a_second_bed_with_a_host_cluster_does_not_disturb_the_first,
            with_dual_stack_pods_reach_each_other_by_both_families,
        ],
    )
}

/// A pod that runs until the bed ends, for commands to be run in.
async fn shell(kubectl: &Kubectl, name: &str) -> Result<()> {
    kubectl.run(&["run", name, "--image", images::NETSHOOT, "--command", "--", "sleep", "infinity"])?;
    ready(kubectl, &format!("pod/{name}")).await
}

/// Runs a command in the pod `shell` until it ends well: a busy machine may lose a packet. What it prints is final.
async fn answer(kubectl: &Kubectl, command: &str) -> Result<String> {
    until(&format!("`{command}` is answered"), PATIENCE, async || {
        let said = kubectl.run(&["exec", "shell", "--", "sh", "-c", command])?;
        ensure!(!said.is_empty(), "it prints nothing");
        Ok(said)
    })
    .await
}

/// Has curl run in the pod `shell`, and fails unless it finds nobody: what did not get as far as to be run is run again.
async fn unreached(kubectl: &Kubectl, curl: &str) -> Result<()> {
    // Nobody is there to connect to, or nobody answers in time.
    const NOBODY: [&str; 2] = ["7", "28"];
    let script = format!("{curl}; echo ended with $?");
    until(&format!("`{curl}` is run"), PATIENCE, async || {
        let said = kubectl.run(&["exec", "shell", "--", "sh", "-c", &script])?;
        let (answer, end) = said.trim_end().rsplit_once("ended with ").context("it did not end")?;
        ensure!(answer.is_empty() && NOBODY.contains(&end), Final(format!("it said {said:?}")));
        Ok(())
    })
    .await
}

async fn ready(kubectl: &Kubectl, pod: &str) -> Result<()> {
    until(&format!("{pod} is ready"), PATIENCE, async || {
        let ready = r#"{.status.conditions[?(@.type=="Ready")].status}"#;
        let state = kubectl.run(&["get", pod, "-o", &format!("jsonpath={ready}")])?;
        ensure!(state == "True", "Ready is {state:?}");
        Ok(())
    })
    .await
}

/// The echo server as a Deployment and, on port 80, as a Service; gives back the pod's addresses.
async fn echo(kubectl: &Kubectl, name: &str) -> Result<Vec<String>> {
    kubectl.run(&["create", "deployment", name, "--image", images::ECHO])?;
    kubectl.run(&["expose", &format!("deployment/{name}"), "--port=80", "--target-port=8080"])?;
    kubectl.run(&["rollout", "status", &format!("deployment/{name}"), "--timeout=180s"])?;
    let addresses = "jsonpath={.items[0].status.podIPs[*].ip}";
    let addresses = kubectl.run(&["get", "pods", "-l", &format!("app={name}"), "-o", addresses])?;
    Ok(addresses.split_whitespace().map(str::to_owned).collect())
}

async fn a_deployment_gets_ready_and_exec_and_logs_work(bed: Arc<Bed>) -> Result<()> {
    let member = bed.kubectl("member1").in_namespace("exec-and-logs")?;
    member.run(&[
        "create",
        "deployment",
        "talker",
        "--image",
        images::NETSHOOT,
        "--",
        "sh",
        "-c",
        "echo spoken; sleep infinity",
    ])?;
    member.run(&["rollout", "status", "deployment/talker", "--timeout=180s"])?;
    let host = member.run(&["exec", "deployment/talker", "--", "hostname"])?;
    ensure!(host.starts_with("talker-"), "exec answered {host:?}");
    until("the log is there", PATIENCE, async || {
        let log = member.run(&["logs", "deployment/talker"])?;
        ensure!(log.trim() == "spoken", "logs are {log:?}");
        Ok(())
    })
    .await
}

async fn a_pod_of_one_member_reaches_a_pod_of_another(bed: Arc<Bed>) -> Result<()> {
    let there = bed.kubectl("member1").in_namespace("across")?;
    let here = bed.kubectl("member2").in_namespace("across")?;
    let address = echo(&there, "echo").await?.remove(0);
    shell(&here, "shell").await?;
    let own = here.run(&["get", "pod/shell", "-o", "jsonpath={.status.podIP}"])?;
    let said = answer(&here, &format!("curl -s -m 5 http://{address}:8080/")).await?;
    ensure!(
        said.contains(&format!("\"remote\":\"{own}\"")),
        "the pod's own address is not what arrived: {said}"
    );
    for nc in ["nc -N -w 2", "nc -u -w 2"] {
        let answer = answer(&here, &format!("echo hello | {nc} {address} 7000")).await?;
        ensure!(answer.contains(&address) && answer.contains("hello"), "{nc} got {answer:?}");
    }
    Ok(())
}

async fn a_pod_resolves_names_of_its_cluster(bed: Arc<Bed>) -> Result<()> {
    for (name, service) in [("member1", "10.65.0.1"), ("member2", "10.66.0.1")] {
        let member = bed.kubectl(name).in_namespace("names")?;
        shell(&member, "shell").await?;
        let answer = answer(&member, "nslookup kubernetes.default.svc.cluster.local").await?;
        ensure!(answer.contains(&format!("Address: {service}")), "{name} answers {answer}");
        let unknown = member.run(&["exec", "shell", "--", "nslookup", "nothing.default.svc.cluster.local."]);
        let unknown = format!("{:#}", unknown.err().context("a name that does not exist resolved")?);
        ensure!(unknown.contains("exit code 1"), "{unknown}");
    }
    Ok(())
}

async fn a_service_is_served_by_kube_proxy(bed: Arc<Bed>) -> Result<()> {
    let member = bed.kubectl("member2").in_namespace("served")?;
    echo(&member, "echo").await?;
    shell(&member, "shell").await?;
    until("the Service answers", PATIENCE, async || {
        let answer =
            member.run(&["exec", "shell", "--", "curl", "-s", "-m", "2", "http://echo.served/through"])?;
        ensure!(answer.contains("\"path\":\"/through\""), "{answer}");
        Ok(())
    })
    .await
}

async fn the_documents_programs_print_the_documents_lines(bed: Arc<Bed>) -> Result<()> {
    let member = bed.kubectl("member1").in_namespace("documents")?;
    let message = r#"--message='hello from cluster member1 (Node: {{env "NODE_NAME"}} Pod: {{env "POD_NAME"}} Address: {{addr}})'"#;
    let overrides = serde_json::json!({ "spec": { "containers": [{
        "name": "serve", "image": images::SERVE, "args": [message],
        "env": [
            { "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        ],
    }] } });
    member.run(&["run", "serve", "--image", images::SERVE, "--overrides", &overrides.to_string()])?;
    ready(&member, "pod/serve").await?;
    let address = member.run(&["get", "pod/serve", "-o", "jsonpath={.status.podIP}"])?;
    let address_of = format!("--address={address}:8080");
    let request = ["run", "-i", "--rm", "--restart=Never", "--image", images::REQUEST, "request", "--"];
    let line = [&request[..], &["--duration=3s", "--timeout=3s", &address_of]].concat();
    let expected =
        format!("'hello from cluster member1 (Node: member1-control-plane Pod: serve Address: {address})'");
    // A busy machine may lose a request, or take a second for two.
    until("the line is printed every second", PATIENCE, async || {
        let lines = member.run(&line)?;
        let count = lines.lines().filter(|line| line.ends_with(&expected)).count();
        ensure!(count >= 2, "expected the line {expected} every second, got:\n{lines}");
        Ok(())
    })
    .await
}

async fn the_conformance_suites_images_hold_the_commands_that_it_calls(bed: Arc<Bed>) -> Result<()> {
    let member = bed.kubectl("member2").in_namespace("conformance")?;
    for (pod, image, commands) in [
        (
            "netshoot",
            images::NETSHOOT,
            &["nslookup -version", "dig -v", "nc -h", "curl --version", "socat -V", "awk 1 /dev/null"][..],
        ),
        ("socat", images::SOCAT, &["socat -V", "ip addr", "hostname -i", "awk 1 /dev/null"]),
    ] {
        member.run(&["run", pod, "--image", image, "--command", "--", "sh", "-c", "sleep infinity"])?;
        ready(&member, &format!("pod/{pod}")).await?;
        for command in commands {
            member
                .run(&["exec", pod, "--", "sh", "-c", command])
                .with_context(|| format!("{image}: {command}"))?;
        }
    }
    Ok(())
}

/// Plays the world outside: a network namespace of the test's own, one link away from the machine, that counts what
/// arrives at its address.
struct Outside {
    process: Process,
    /// The first three bytes of the addresses on the link: those of others that run at the same time differ.
    range: String,
}

impl Outside {
    async fn start(bed: &Bed) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]);
        let process = process::spawn("outside", &bed.dir().join("logs/outside.log"), command)?;
        let (pid, own) = (process.pid(), std::process::id());
        let this = Self { process, range: format!("198.{}.{}", 18 + (own >> 8) % 2, own % 256) };
        let link = format!("out{own}");
        until("the outside is apart", PATIENCE, async || {
            ensure!(network::namespace(pid)? != network::namespace(std::process::id())?, "not yet");
            Ok(())
        })
        .await?;
        let ip = |arguments: &str| run(Command::new("ip").args(arguments.split(' ')));
        ip(&format!("link add {link} type veth peer name eth0 netns {pid}"))?;
        ip(&format!("addr add {}.1/24 dev {link}", this.range))?;
        ip(&format!("link set {link} up"))?;
        network::nsenter(pid, "ip", &format!("addr add {}/24 dev eth0", this.address()))?;
        network::nsenter(pid, "ip", "link set eth0 up")?;
        network::nsenter(pid, "nft", "add table ip seen")?;
        network::nsenter(pid, "nft", "add chain ip seen input { type filter hook input priority 0; }")?;
        let rule = format!("add rule ip seen input ip daddr {} udp dport 9 counter", this.address());
        network::nsenter(pid, "nft", &rule)?;
        Ok(this)
    }

    fn address(&self) -> String {
        format!("{}.2", self.range)
    }

    fn packets(&self) -> Result<u64> {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.process.pid()))
            .args(["nft", "list", "chain", "ip", "seen", "input"]);
        let rules = run(&mut command)?;
        let count = rules.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next());
        Ok(count.context("the rule is gone")?.parse()?)
    }
}

/// The test does all it can to get a packet out: the machine is told to forward what comes from the bed, and the node is
/// given a route. Only the bed's own filter is in the way, as the end of the test proves by opening it.
async fn no_packet_of_a_bed_leaves_the_machine(bed: Arc<Bed>) -> Result<()> {
    let outside = Outside::start(&bed).await?;
    let member = bed.kubectl("member1").in_namespace("prison")?;
    shell(&member, "shell").await?;
    let bridge = bed.network().context("a bed with nodes has a network")?;
    let machine = bed.member(1).addresses.api();
    std::fs::write(format!("/proc/sys/net/ipv4/conf/{}/forwarding", bridge.link()), "1")?;
    run(bed.node("member1")?.command("ip").args([
        "route",
        "add",
        &format!("{}.0/24", outside.range),
        "via",
        &machine.to_string(),
    ]))?;
    let send = format!("for i in 1 2 3; do echo out | nc -u -w 1 {} 9; done", outside.address());
    let from_pod = || member.run(&["exec", "shell", "--", "sh", "-c", &send]).map(drop);

    run(Command::new("sh").args(["-c", &send]))?;
    let seen = outside.packets()?;
    ensure!(seen > 0, "the counter does not work: the machine itself reaches the outside");
    from_pod()?;
    ensure!(outside.packets()? == seen, "{} packets of a pod arrived outside", outside.packets()? - seen);

    let open = format!("insert rule bridge bed forward ip daddr {} accept", outside.address());
    bridge.inside("nft", &open)?;
    from_pod()?;
    ensure!(outside.packets()? > seen, "even with the filter open nothing arrives: this test proves nothing");
    Ok(())
}

async fn a_second_bed_with_a_host_cluster_does_not_disturb_the_first(bed: Arc<Bed>) -> Result<()> {
    let second = Bed::start(Spec { host: true, ..Spec::nodes(1) }.bare(), None).await?;
    let links = [&second, &*bed].map(|bed| bed.network().map(Network::link));
    ensure!(links[0] != links[1], "both beds have the network {links:?}");
    let host = second.kubectl("host").in_namespace("beside")?;
    let address = echo(&host, "echo").await?.remove(0);
    let near = second.kubectl("member1").in_namespace("beside")?;
    let far = bed.kubectl("member1").in_namespace("beside")?;
    let get = format!("curl -s -m 3 http://{address}:8080/");
    for (kubectl, reaches) in [(&near, true), (&far, false)] {
        shell(kubectl, "shell").await?;
        if reaches {
            answer(kubectl, &get).await?;
        } else {
            unreached(kubectl, &get).await?;
        }
    }
    let folder = second.dir().to_owned();
    tokio::task::spawn_blocking(move || drop(second)).await?;
    ensure!(!folder.exists(), "{} is still there", folder.display());
    let answer = answer(&far, "nslookup kubernetes.default.svc.cluster.local").await?;
    ensure!(answer.contains("Address: 10.65.0.1"), "the first bed suffered: {answer}");
    Ok(())
}

async fn with_dual_stack_pods_reach_each_other_by_both_families(_: Arc<Bed>) -> Result<()> {
    Needs::Ipv6.or_ignore()?;
    let bed = Bed::start(Spec { dual_stack: true, ..Spec::nodes(2) }.bare(), None).await?;
    let both = bed.kubectl("member1").in_namespace("families")?;
    let addresses = echo(&both, "echo").await?;
    ensure!(addresses.len() == 2, "a pod of the dual-stack member has {addresses:?}");
    let only = bed.kubectl("member2").in_namespace("families")?;
    shell(&only, "shell").await?;
    shell(&both, "shell").await?;
    let own = only.run(&["get", "pod/shell", "-o", "jsonpath={.status.podIPs[*].ip}"])?;
    ensure!(own.contains(':') && !own.contains(' '), "a pod of the IPv6-only member has {own}");
    for (kubectl, host) in [
        (&both, addresses[0].clone()),
        (&both, format!("[{}]", addresses[1])),
        (&only, format!("[{}]", addresses[1])),
    ] {
        let answer = answer(kubectl, &format!("curl -s -m 5 http://{host}:8080/")).await?;
        ensure!(answer.contains("\"hostname\":\"echo-"), "{host} answers {answer}");
    }
    let answer = answer(&only, "nslookup kubernetes.default.svc.cluster.local").await?;
    ensure!(answer.contains("Address: fd00:40:2::1"), "IPv6-only DNS answers {answer}");
    tokio::task::spawn_blocking(move || drop(bed)).await?;
    Ok(())
}
