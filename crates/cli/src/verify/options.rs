//! What to check, and what the capture does not show: ISNs, and addresses that were rewritten.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use cidr::IpCidr;
use wireseal_tcp_ao::{Endpoint, Isn};

/// What to check, and hints that the capture lacks.
#[derive(Clone, Debug)]
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
    /// How many connections are live at most, at half a kilobyte each if their segments are good. If there are more, the state of some is given up.
    pub most_connections: usize,
}

/// Everything is checked, without hints and with the limits of `wireseal verify`.
impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            ports: Vec::new(),
            isns: Vec::new(),
            nat: Vec::new(),
            keep_segments: false,
            limits: SearchLimits::default(),
            most_connections: 1_000_000,
        }
    }
}

/// How much is tried on the segments that fail in one capture. The default is what `wireseal verify` tries.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// How many segments are searched for an explanation; explanations found before are tried on every segment.
    pub searches: u32,
    /// How many of these are tried with every size, at thousands of MACs each.
    pub size_searches: u32,
    /// How many values of the MSS, and how many lengths of the payload, are tried for one of them.
    pub sizes: usize,
    /// How many SNEs are tried when `--isn` gives the ISNs but not the wraps since.
    pub snes: u32,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { searches: 4000, size_searches: 128, sizes: usize::MAX, snes: 65_536 }
    }
}

impl VerifyOptions {
    /// Whether to check a segment between these ends.
    pub(super) fn select(&self, source: IpAddr, destination: IpAddr, ports: [u16; 2]) -> bool {
        let is_peer = |address: IpAddr| self.peers.iter().any(|peer| peer.contains(&address.to_canonical()));
        (self.peers.is_empty() || is_peer(source) || is_peer(destination))
            && (self.ports.is_empty() || ports.iter().any(|port| self.ports.contains(port)))
    }
}

/// A hint on the command line that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HintError {
    /// `--isn` needs two ends and two numbers.
    #[error(
        "expected FLOW=ISN,ISN, such as 192.0.2.1:50000-192.0.2.2:179=1000,0x9000 (the ISN of the first end, then \
         that of the second)"
    )]
    Isn,
    /// `--nat` needs two addresses of one family, with two ports or none.
    #[error("expected INSIDE=OUTSIDE, such as 10.0.0.1=198.51.100.1 or 10.0.0.1:50000=198.51.100.1:6000")]
    Nat,
}

/// The ISNs of a connection that began before the capture: `192.0.2.1:50000-192.0.2.2:179=1000,0x9000`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsnHint {
    ends: [Endpoint; 2],
    isns: [Isn; 2],
}

impl IsnHint {
    /// The ISNs of the connection between these ends, in the order of the ends, if the hint is for it.
    pub(super) fn isns(&self, ends: &[Endpoint; 2]) -> Option<[Isn; 2]> {
        let [first, second] = self.isns;
        if self.ends == *ends {
            Some([first, second])
        } else if self.ends == [ends[1], ends[0]] {
            Some([second, first])
        } else {
            None
        }
    }
}

impl FromStr for IsnHint {
    type Err = HintError;

    fn from_str(text: &str) -> Result<Self, HintError> {
        let read = || {
            let (flow, isns) = text.split_once('=')?;
            let (first, second) = flow.split_once('-')?;
            let (first_isn, second_isn) = isns.split_once(',')?;
            Some(Self {
                ends: [endpoint(first)?, endpoint(second)?],
                isns: [isn(first_isn)?, isn(second_isn)?],
            })
        };
        read().ok_or(HintError::Isn)
    }
}

/// As written on the command line.
impl fmt::Display for IsnHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ends: [first, second], isns: [first_isn, second_isn] } = self;
        write!(f, "{first}-{second}={},{}", first_isn.0, second_isn.0)
    }
}

/// `ADDRESS:PORT`, or `[ADDRESS]:PORT`.
pub(crate) fn endpoint(text: &str) -> Option<Endpoint> {
    Some(Endpoint::from(text.trim().parse::<SocketAddr>().ok()?))
}

/// A 32-bit number, decimal or `0x...`.
pub(crate) fn isn(text: &str) -> Option<Isn> {
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().map(Isn)
}

/// An address, or address and port, and what it is on the other side of a translation: `10.0.0.1=198.51.100.1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NatHint {
    /// As the end itself sees it.
    inside: Address,
    /// As its peer sees it.
    outside: Address,
}

/// An address, with or without a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Address {
    address: IpAddr,
    port: Option<u16>,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let whole =
            |address: SocketAddr| Self { address: address.ip().to_canonical(), port: Some(address.port()) };
        let alone = |address: IpAddr| Self { address: address.to_canonical(), port: None };
        text.parse().map(whole).or_else(|_| text.parse().map(alone)).ok()
    }

    fn is_of(&self, end: &Endpoint) -> bool {
        self.address == end.address() && self.port.is_none_or(|port| port == end.port())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl NatHint {
    /// The end's address on the other side of the translation, if the hint is about it.
    pub(super) fn other_side(&self, end: &Endpoint) -> Option<Endpoint> {
        let other = [(self.outside, self.inside), (self.inside, self.outside)];
        let (_, other) = other.into_iter().find(|(seen, _)| seen.is_of(end))?;
        Some(Endpoint::new(other.address, other.port.unwrap_or(end.port())))
    }
}

impl FromStr for NatHint {
    type Err = HintError;

    fn from_str(text: &str) -> Result<Self, HintError> {
        let (inside, outside) = text.split_once('=').ok_or(HintError::Nat)?;
        let [inside, outside] = [inside, outside].map(Address::parse);
        let (Some(inside), Some(outside)) = (inside, outside) else { return Err(HintError::Nat) };
        let one_family = inside.address.is_ipv4() == outside.address.is_ipv4();
        if !one_family || inside.port.is_some() != outside.port.is_some() {
            return Err(HintError::Nat);
        }
        Ok(Self { inside, outside })
    }
}

/// As written on the command line.
impl fmt::Display for NatHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.inside, self.outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isns_follow_the_order_of_the_ends() {
        let hint: IsnHint = "192.0.2.1:50000-192.0.2.2:179=1000,0xffff0000".parse().unwrap();
        let (first, second) = (Endpoint::new([192, 0, 2, 1], 50_000), Endpoint::new([192, 0, 2, 2], 179));
        assert_eq!(hint.isns(&[first, second]), Some([Isn(1000), Isn(0xffff_0000)]));
        assert_eq!(hint.isns(&[second, first]), Some([Isn(0xffff_0000), Isn(1000)]));
        assert_eq!(hint.isns(&[first, first]), None);
        assert_eq!(hint.to_string(), "192.0.2.1:50000-192.0.2.2:179=1000,4294901760");
        assert!("[2001:db8::1]:5-[2001:db8::2]:179=1,2".parse::<IsnHint>().is_ok());
    }

    #[test]
    fn malformed_hints_are_refused() {
        for text in [
            "",
            "192.0.2.1:1-192.0.2.2:2",
            "192.0.2.1:1=1,2",
            "192.0.2.1-192.0.2.2=1,2",
            "a:1-b:2=1,2",
            "192.0.2.1:1-192.0.2.2:2=1",
            "192.0.2.1:1-192.0.2.2:2=1,4294967296",
        ] {
            assert_eq!(text.parse::<IsnHint>(), Err(HintError::Isn), "{text}");
        }
        for text in ["", "10.0.0.1", "10.0.0.1=2001:db8::1", "10.0.0.1:5=198.51.100.1", "10.0.0.1=x"] {
            assert_eq!(text.parse::<NatHint>(), Err(HintError::Nat), "{text}");
        }
    }

    #[test]
    fn translations_work_both_ways() {
        let hint: NatHint = "10.0.0.1=198.51.100.1".parse().unwrap();
        let inside = Endpoint::new([10, 0, 0, 1], 5);
        let outside = Endpoint::new([198, 51, 100, 1], 5);
        assert_eq!(hint.other_side(&inside), Some(outside));
        assert_eq!(hint.other_side(&outside), Some(inside));
        let hint: NatHint = "10.0.0.1:5=198.51.100.1:6".parse().unwrap();
        assert_eq!(hint.other_side(&inside), Some(Endpoint::new([198, 51, 100, 1], 6)));
        assert_eq!(hint.other_side(&outside), None);
        assert_eq!(hint.to_string(), "10.0.0.1:5=198.51.100.1:6");
    }
}
