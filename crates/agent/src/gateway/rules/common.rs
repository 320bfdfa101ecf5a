//! What the rules of nftables and iptables share: calling their programs, and knowing what these put into the kernel.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cidr::IpCidr;
use libc::{NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN};
use netlink_packet_core::{NetlinkBuffer, NlaBuffer};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use crate::config::Config;
use crate::error::Error;
use crate::gateway::queues::{HEADERS, write_headers};

/// `NFT_MSG_NEWGEN`, the answer, and `NFTA_GEN_ID`, its first attribute.
const ANSWER: u16 = (NFNL_SUBSYS_NFTABLES as u16) << 8 | 15;
const NUMBER: u16 = 1;

/// What was put into the kernel, to compare with what is read back.
pub(super) struct Put {
    /// Transactions that it took.
    pub(super) transactions: u32,
    /// What each printed line of a rule contains, and how many such lines there must be.
    pub(super) rule: &'static str,
    pub(super) rules: usize,
    /// Lines that must be printed word by word.
    pub(super) known: Vec<String>,
}

/// Whether this kernel has IPv6, and it is not switched off.
pub(super) fn has_ipv6() -> bool {
    Path::new("/proc/self/net/if_inet6").exists()
}

/// Whether this network namespace tracks connections. Only then can NAT redirect packets. A rule must not ask, because using connection
/// tracking in a rule switches it on.
pub(super) fn tracks_connections() -> bool {
    fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").is_ok_and(|count| count.trim() != "0")
}

/// The peers' networks of one IP version, without those that lie in others.
pub(super) fn networks(config: &Config, is_ipv4: bool) -> impl Iterator<Item = IpCidr> {
    let peers = config.peers.iter().map(|(peer, _)| peer.canonical().remote);
    outermost(peers.filter(|network| network.is_ipv4() == is_ipv4).collect()).into_iter()
}

/// The range of these numbers as text.
pub(super) fn range(numbers: &Range<u16>, between: char) -> String {
    match numbers.len() {
        1 => numbers.start.to_string(),
        _ => format!("{}{between}{}", numbers.start, numbers.end - 1),
    }
}

/// The networks that lie in no other, in the order of their addresses.
pub(super) fn outermost(mut networks: Vec<IpCidr>) -> Vec<IpCidr> {
    // A network sorts before those in it.
    networks.sort();
    networks.dedup_by(|network, around| around.contains(&network.first_address()));
    networks
}

/// Runs a program with this input; returns what it prints. An error has the first line of its standard error.
pub(super) fn call(program: &str, arguments: &[&str], input: &str) -> Result<String, Error> {
    let output = run(program, arguments, input).map_err(|error| {
        Error::Rules(match error.kind() {
            ErrorKind::NotFound => format!("{program} is not installed"),
            _ => format!("{program}: {error}"),
        })
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // nft quotes the rule that the kernel refuses.
    if said.contains("No such file or directory") && said.contains(" queue num ") {
        return Err(Error::Rules(format!(
            "{program}: this kernel's nf_tables has no queues (CONFIG_NFT_QUEUE)"
        )));
    }
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim();
    let advice = match said.contains("not permitted") || said.contains("Permission denied") {
        true => " (it needs CAP_NET_ADMIN)",
        false => "",
    };
    Err(Error::Rules(format!("{program}: {said}{advice}")))
}

fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // It has ended early, and its standard error says why.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    child.wait_with_output()
}

/// The number of the kernel's ruleset in nf_tables, which every transaction changes (`linux/netfilter/nf_tables.h`).
pub(super) struct Generation(Socket);

impl Generation {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// The number in this network namespace; `None` if the kernel does not say, for instance because it has no nf_tables.
    pub(super) fn now(&self) -> Option<u32> {
        let mut request = [0; HEADERS];
        write_headers(&mut request, NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN, 0, 0);
        self.0.send(&request, 0).ok()?;
        let mut answer = Vec::with_capacity(4096);
        // The kernel has answered when `send` returns.
        self.0.recv(&mut answer, libc::MSG_DONTWAIT).ok()?;
        let message = NetlinkBuffer::new_checked(&answer).ok()?;
        let attribute = NlaBuffer::new_checked(answer.get(HEADERS..)?).ok()?;
        let is_answer = message.message_type() == ANSWER && attribute.kind() == NUMBER;
        is_answer.then_some(u32::from_be_bytes(*attribute.value().first_chunk()?))
    }
}
