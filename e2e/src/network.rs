//! The network between a bed's nodes: a bridge in a network namespace of its own, and one link to the machine.
//!
//! Nothing leaves the machine: the bridge passes on to the machine only what is meant for the machine's own address on
//! this link, so that there is nothing that it could forward. The namespace is held open by a process of the bed; when that
//! ends, the kernel removes bridge, links, rules and routes.

use std::{net::IpAddr, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    addresses::{Addresses, machine_v4, machine_v6},
    process::{self, Process, run},
    wait::until,
};

/// The bridge inside the namespace.
const BRIDGE: &str = "bed";
/// The namespace's end of the link to the machine.
const UPLINK: &str = "uplink";

/// A bed's network.
#[derive(Debug)]
pub struct Network {
    number: u8,
    pub(crate) holder: Process,
}

// === impl Network ===

impl Network {
    /// Makes the bridge and the link to the machine.
    pub async fn start(number: u8, logs: &Path) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]);
        let mut holder = process::spawn("network", &logs.join("network.log"), command)?;
        let pid = holder.pid();
        until("the network namespace is there", Duration::from_secs(10), async || {
            holder.check()?;
            ensure!(namespace(pid)? != namespace(std::process::id())?, "not yet apart");
            Ok(())
        })
        .await?;
        let this = Self { number, holder };
        this.inside("ip", &format!("link add {BRIDGE} type bridge"))?;
        this.inside("ip", &format!("link set {BRIDGE} up"))?;
        let link = this.link();
        ip(&format!("link add {link} type veth peer name {UPLINK} netns {pid}"))?;
        this.filter()?;
        this.inside("ip", &format!("link set {UPLINK} master {BRIDGE} up"))?;
        ip(&format!("addr add {}/24 dev {link}", machine_v4(number)))?;
        // A machine without IPv6 still runs IPv4 beds; a dual-stack one fails later and says where.
        let _ = ip(&format!("addr add {}/64 dev {link} nodad", machine_v6(number)));
        ip(&format!("link set {link} up"))?;
        Ok(this)
    }

    /// The machine's end of the link.
    pub fn link(&self) -> String {
        format!("tombolo{}", self.number)
    }

    /// Plugs a node in: makes `eth0` in the network namespace of a process, and the machine's routes to its pods.
    pub fn plug(&self, node: &Addresses, name: &str, pid: u32) -> Result<()> {
        let holder = self.holder.pid();
        // Interface names end at 15 characters; the node's last address byte is unique within the bed.
        let port = format!("to-{name}");
        let port = &port[..port.len().min(15)];
        ip(&format!("link add eth0 netns {pid} type veth peer name {port} netns {holder}"))?;
        self.inside("ip", &format!("link set {port} master {BRIDGE} up"))?;
        for (address, pods) in node.node().into_iter().zip(node.pods()) {
            let prefix = if address.is_ipv4() { 24 } else { 64 };
            nsenter(pid, "ip", &format!("addr add {address}/{prefix} dev eth0{}", no_detection(address)))?;
            ip(&format!("route add {pods} via {address} dev {}", self.link()))?;
        }
        nsenter(pid, "ip", "link set lo up")?;
        nsenter(pid, "ip", "link set eth0 up")
    }

    /// Drops every frame to the machine that is not for its own address on this link.
    fn filter(&self) -> Result<()> {
        let (v4, v6) = (machine_v4(self.number), machine_v6(self.number));
        self.inside("nft", "add table bridge bed")?;
        self.inside(
            "nft",
            "add chain bridge bed forward { type filter hook forward priority 0; policy accept; }",
        )?;
        for rule in [
            "ether type != { ip, ip6, arp } drop".to_owned(),
            format!("ip daddr != {v4} drop"),
            // Neighbour discovery stays on the link by definition.
            format!("ip6 daddr != {{ {v6}, fe80::/10, ff02::/16 }} drop"),
        ] {
            self.inside("nft", &format!("add rule bridge bed forward oifname {UPLINK} {rule}"))?;
        }
        Ok(())
    }

    /// Runs a command in the namespace that the nodes are plugged into.
    pub fn inside(&self, program: &str, arguments: &str) -> Result<()> {
        nsenter(self.holder.pid(), program, arguments)
    }
}

/// Duplicate detection would leave an IPv6 address unusable for a second; these addresses are ours alone.
fn no_detection(address: IpAddr) -> &'static str {
    if address.is_ipv6() { " nodad" } else { "" }
}

fn ip(arguments: &str) -> Result<()> {
    run(Command::new("ip").args(arguments.split(' '))).map(drop)
}

/// Runs a command in the network namespace of a process.
pub fn nsenter(pid: u32, program: &str, arguments: &str) -> Result<()> {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{pid}/ns/net")).arg(program);
    // nft takes its rule as one argument, ip one word each.
    match program {
        "nft" => command.arg(arguments),
        _ => command.args(arguments.split(' ')),
    };
    run(&mut command).map(drop)
}

/// Which network namespace a process is in.
pub fn namespace(pid: u32) -> Result<String> {
    let link = std::fs::read_link(format!("/proc/{pid}/ns/net")).context("failed to read a namespace")?;
    Ok(link.to_string_lossy().into_owned())
}
