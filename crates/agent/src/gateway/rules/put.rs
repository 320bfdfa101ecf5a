//! What is put into the kernel, whichever program does it.

use std::fs;
use std::ops::Range;
use std::path::Path;

use cidr::IpCidr;

use super::tree::outermost;
use crate::Config;

/// What was put into the kernel, for a comparison with what is found there.
pub(super) struct Put {
    /// How many transactions it took.
    pub(super) transactions: u32,
    /// What a line contains that the program prints of a rule, and how many there must be.
    pub(super) rule: &'static str,
    pub(super) rules: usize,
    /// Lines that it must print word by word.
    pub(super) known: Vec<String>,
}

/// Whether this kernel has IPv6, and it is not switched off.
pub(super) fn has_ipv6() -> bool {
    Path::new("/proc/self/net/if_inet6").exists()
}

/// Whether this network namespace tracks connections. Only there can NAT lead packets elsewhere, and a rule that asks connection tracking
/// would switch it on.
pub(crate) fn tracks_connections() -> bool {
    fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").is_ok_and(|count| count.trim() != "0")
}

/// The networks of the peers of one version of IP, without those that lie in others.
pub(super) fn networks(config: &Config, is_ipv4: bool) -> impl Iterator<Item = IpCidr> {
    let peers = config.peers.iter().map(|(peer, _)| peer.canonical().remote);
    outermost(peers.filter(|network| network.is_ipv4() == is_ipv4).collect()).into_iter()
}

/// The first and the last of these numbers.
pub(super) fn range(numbers: &Range<u16>, between: char) -> String {
    match numbers.len() {
        1 => numbers.start.to_string(),
        _ => format!("{}{between}{}", numbers.start, numbers.end - 1),
    }
}
