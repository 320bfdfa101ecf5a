//! What to check, and what the capture does not show.

use std::net::IpAddr;

use cidr::IpCidr;

use super::hints::{IsnHint, NatHint};

/// What to check, and what is known besides the capture.
#[derive(Clone, Default, Debug)]
pub struct VerifyOptions {
    /// Only connections with one of these peers at either end; empty for all.
    pub peers: Vec<IpCidr>,
    /// Only connections with one of these ports at either end; empty for all.
    pub ports: Vec<u16>,
    /// The ISNs of connections that began before the capture.
    pub isns: Vec<IsnHint>,
    /// Address translations on the path.
    pub nat: Vec<NatHint>,
    /// Whether to fill [`ConnectionReport::segments`](super::report::ConnectionReport::segments).
    pub keep_segments: bool,
    /// How much is tried on segments that fail.
    pub limits: SearchLimits,
}

/// How much is tried on the segments that fail in one capture. The default is what `wireseal verify` tries.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// For how many segments an explanation is searched; those already found are tried on all others anyway.
    pub searches: u32,
    /// For how many of these every size is tried, which takes thousands of MACs each.
    pub size_searches: u32,
    /// How many values of the MSS, and how many lengths of the payload, are tried for one of them.
    pub sizes: usize,
    /// How many SNEs are tried when `--isn` gives the ISNs but not the wraps since.
    pub snes: u32,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { searches: 4000, size_searches: 64, sizes: usize::MAX, snes: 65_536 }
    }
}

impl VerifyOptions {
    /// Whether a segment between these ends is to be checked.
    pub(super) fn select(&self, source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> bool {
        let is_peer = |address: IpAddr| self.peers.iter().any(|peer| peer.contains(&address.to_canonical()));
        (self.peers.is_empty() || is_peer(source) || is_peer(destination))
            && (self.ports.is_empty() || ports.iter().any(|port| self.ports.contains(port)))
    }
}
