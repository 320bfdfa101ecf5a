//! The headers around a TCP segment, in whatever order they come: frames, tags, labels, PPP and IP. Tunnels are in `tunnels`.
//!
//! Written here because no maintained crate reads all of them without an allocation per packet: etherparse, which the tests compare with,
//! knows Ethernet, VLANs and IP.

use std::net::{IpAddr, Ipv4Addr};

use wireseal_tcp_ao::ip::{IPV6_HEADER_LENGTH, IpHeader, PROTOCOL_TCP};
use wireseal_tcp_ao::{ParseError, checksum};

use super::scope::{Network, Scope};
use super::skipped::{Skipped, Unreadable};

/// A TCP segment as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedSegment<'a> {
    /// The source address.
    pub source: IpAddr,
    /// The final destination, after any routing header.
    pub destination: IpAddr,
    /// The virtual network it was in.
    pub scope: Scope,
    /// The recorded octets from the TCP header on; possibly less than a header.
    pub octets: &'a [u8],
    /// How many more octets it had on the wire; 0 unless the capture cut it off.
    pub missing: usize,
}

/// An IP fragment as recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// From its IP header to the end of its payload.
    pub(super) packet: &'a [u8],
    /// How many more octets it had on the wire.
    pub(super) missing: usize,
    pub(super) scope: Scope,
    /// The IP protocol number of the whole packet.
    pub(super) protocol: u8,
}

/// What a packet carries in the end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Core<'a> {
    Tcp(CapturedSegment<'a>),
    Fragment(Fragment<'a>),
    Other(Skipped),
    Unreadable(Unreadable),
}

/// What the next octets are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layer {
    /// A frame from its destination address on.
    Ethernet,
    /// What an EtherType says.
    EtherType(u16),
    /// IEEE 802.2, perhaps with SNAP.
    Llc,
    /// IPv4 or IPv6.
    Ip,
    /// What an IP protocol number says.
    Transport(u8),
    /// A label stack.
    Mpls,
    /// PPP, perhaps in HDLC-like framing.
    Ppp,
    /// Cisco's HDLC.
    Hdlc,
    /// A frame relay address and what follows.
    FrameRelay,
}

/// How many layers of a packet are looked into. A frame in a tunnel needs four or five.
pub(super) const MOST_LAYERS: usize = 32;

/// The part of a packet that was not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'a> {
    /// What was recorded.
    pub(super) octets: &'a [u8],
    /// How many more octets it had on the wire.
    pub(super) missing: usize,
    pub(super) scope: Scope,
    /// Those of the innermost IP header so far.
    pub(super) addresses: [IpAddr; 2],
}

/// The next layer, or the end.
pub(super) type Next<'a> = Result<Layer, Core<'a>>;

// IEEE 802.1Q, 802.1ad, and older values for stacked tags.
pub(super) const VLAN: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
/// IEEE 802.1ah's I-TAG.
const SERVICE_TAG: u16 = 0x88e7;
const MACSEC: u16 = 0x88e5;
/// Cisco's metadata with a security group tag.
pub(super) const CISCO_METADATA: u16 = 0x8909;
/// Cisco's VN-Tag and IEEE 802.1BR's E-Tag.
const VN_TAG: u16 = 0x8926;
const E_TAG: u16 = 0x893f;
/// IEEE 802.2 in frames of more than 1,500 octets.
const JUMBO_LLC: u16 = 0x8870;
const NSH: u16 = 0x894f;
const TRANSPARENT_BRIDGING: u16 = 0x6558;
const PPP_IN_GRE: u16 = 0x880b;
/// Values up to this one are the length of a frame of IEEE 802.3.
const LONGEST_8023: u16 = 1500;

impl<'a> Rest<'a> {
    pub(super) const fn new(octets: &'a [u8], missing: usize, scope: Scope) -> Self {
        Self { octets, missing, scope, addresses: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); 2] }
    }

    /// Reads layer after layer, from `layer` on.
    pub(super) fn walk(mut self, mut layer: Layer) -> Core<'a> {
        for _ in 0..MOST_LAYERS {
            match self.open(layer) {
                Ok(next) => layer = next,
                Err(core) => return core,
            }
        }
        Core::Unreadable(Unreadable::TooDeep)
    }

    fn open(&mut self, layer: Layer) -> Next<'a> {
        match layer {
            Layer::Ethernet => {
                self.take(12)?;
                self.length_or_type()
            }
            Layer::EtherType(ether_type) => self.ether_type(ether_type),
            Layer::Llc => self.llc(),
            Layer::Ip => self.ip(),
            Layer::Transport(protocol) => self.transport(protocol),
            Layer::Mpls => self.mpls(),
            Layer::Ppp => self.ppp(),
            Layer::Hdlc => {
                // Address and control; the protocol is an EtherType.
                let [_, _, protocol @ ..] = self.array::<4>()?;
                Ok(Layer::EtherType(u16::from_be_bytes(protocol)))
            }
            Layer::FrameRelay => self.frame_relay(),
        }
    }

    /// The packet ends within a header.
    pub(super) const fn too_short(&self) -> Core<'a> {
        Core::Unreadable(match self.missing {
            0 => Unreadable::TooShort,
            missing => Unreadable::CutOff { missing },
        })
    }

    /// Takes the next `count` octets.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Core<'a>> {
        let (taken, rest) = self.octets.split_at_checked(count).ok_or(self.too_short())?;
        self.octets = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Core<'a>> {
        let (taken, rest) = self.octets.split_first_chunk().ok_or(self.too_short())?;
        self.octets = rest;
        Ok(*taken)
    }

    pub(super) fn number(&mut self) -> Result<u16, Core<'a>> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads IPv4 or IPv6, up to the segment if it is TCP.
    ///
    /// The payload ends where IP's length field says, so padding is left out. If that field is 0, because the network card was to split a
    /// large send after it was recorded, the payload ends with the packet.
    #[inline]
    pub(super) fn ip(&mut self) -> Next<'a> {
        let Self { octets: packet, missing: unrecorded, scope, .. } = *self;
        // Matched by reference, because moving a header takes longer than reading it.
        let header = &IpHeader::read(packet);
        let header = match header {
            Ok(header) => header,
            Err(ParseError::IpTooShort) if unrecorded > 0 || packet.is_empty() => {
                return Err(self.too_short());
            }
            Err(error) => return Err(Core::Unreadable(Unreadable::Ip(*error))),
        };
        let IpHeader { source, destination, protocol, payload_offset, is_fragment, .. } = *header;
        // A length field of 0, which in IPv6 does not count the header: a network card was to split a large send.
        let says_no_length = header.total_length == if source.is_ipv4() { 0 } else { IPV6_HEADER_LENGTH };
        let end = if says_no_length { packet.len() + unrecorded } else { header.total_length };
        let missing = end.saturating_sub(packet.len());
        let (Some(octets), true) = (packet.get(payload_offset..end - missing), missing <= unrecorded) else {
            return Err(Core::Unreadable(Unreadable::Ip(ParseError::IpLength)));
        };
        if is_fragment {
            let packet = &packet[..end - missing];
            return Err(Core::Fragment(Fragment { packet, missing, scope, protocol }));
        }
        if protocol == PROTOCOL_TCP {
            return Err(Core::Tcp(CapturedSegment { source, destination, scope, octets, missing }));
        }
        (self.octets, self.missing, self.addresses) = (octets, missing, [source, destination]);
        Ok(Layer::Transport(protocol))
    }

    /// An EtherType, or the length of a frame with IEEE 802.2.
    fn length_or_type(&mut self) -> Next<'a> {
        Ok(match self.number()? {
            0..=LONGEST_8023 => Layer::Llc,
            ether_type => Layer::EtherType(ether_type),
        })
    }

    fn ether_type(&mut self, ether_type: u16) -> Next<'a> {
        match ether_type {
            IPV4 | IPV6 => Ok(Layer::Ip),
            _ if VLAN.contains(&ether_type) => {
                // Number 0 means no VLAN, only a priority.
                if let number @ 1.. = self.number()? & 0x0fff {
                    self.scope = self.scope.with(Network::Vlan(number));
                }
                self.length_or_type()
            }
            _ if MPLS.contains(&ether_type) => Ok(Layer::Mpls),
            JUMBO_LLC => Ok(Layer::Llc),
            PPPOE_SESSION => {
                // Version, code, session and length (RFC 2516 §4).
                self.take(6)?;
                Ok(Layer::Ppp)
            }
            SERVICE_TAG => {
                let [_, number @ ..] = self.array::<4>()?;
                self.scope = self.scope.with(Network::ServiceInstance(three_octets(number)));
                Ok(Layer::Ethernet)
            }
            CISCO_METADATA => {
                let [_version, length] = self.array()?;
                self.take(usize::from(length) * 4)?;
                self.length_or_type()
            }
            VN_TAG | E_TAG => {
                self.take(if ether_type == VN_TAG { 4 } else { 6 })?;
                self.length_or_type()
            }
            MACSEC => {
                let [flags, ..] = self.array::<6>()?;
                // Encrypted, or with a changed text (IEEE 802.1AE §9.5).
                if flags & 0x0c != 0 {
                    return Err(Core::Other(Skipped::EtherType(MACSEC)));
                }
                if flags & 0x20 != 0 {
                    self.take(8)?;
                }
                self.length_or_type()
            }
            NSH => {
                let [_, length, _, next] = self.array()?;
                // In units of four octets, with the four that were read (RFC 8300 §2.2).
                self.take((usize::from(length & 0x3f) * 4).saturating_sub(4))?;
                next_protocol(next)
            }
            TRANSPARENT_BRIDGING => Ok(Layer::Ethernet),
            PPP_IN_GRE => Ok(Layer::Ppp),
            _ => Err(Core::Other(Skipped::EtherType(ether_type))),
        }
    }

    fn llc(&mut self) -> Next<'a> {
        match self.array()? {
            [0xaa, 0xaa, 0x03] => self.snap(),
            // IP has a service access point of its own (IEEE 802.2).
            [0x06, 0x06, 0x03] => Ok(Layer::Ip),
            [destination, ..] => Err(Core::Other(Skipped::Llc(destination))),
        }
    }

    /// The organization and its protocol (RFC 1042, RFC 2427 §4.2).
    fn snap(&mut self) -> Next<'a> {
        let [a, b, c, protocol @ ..] = self.array::<5>()?;
        let protocol = u16::from_be_bytes(protocol);
        match [a, b, c] {
            [0, 0, 0 | 0xf8] => Ok(Layer::EtherType(protocol)),
            // Bridged Ethernet, with and without a frame check sequence.
            [0x00, 0x80, 0xc2] if matches!(protocol, 1 | 7) => Ok(Layer::Ethernet),
            organization => Err(Core::Other(Skipped::Snap(three_octets(organization), protocol))),
        }
    }

    /// A label stack (RFC 3032), and below it IP or a pseudowire. No field says which.
    fn mpls(&mut self) -> Next<'a> {
        /// With so many octets, an Ethernet frame shows what it is.
        const MOST_OF_FRAME: usize = 32;
        loop {
            let [_, _, bottom, _] = self.array()?;
            if bottom & 1 != 0 {
                break;
            }
        }
        let Some(first) = self.octets.first() else { return Err(self.too_short()) };
        // Ethernet without a control word is told from IP, and from a control word, by its EtherType (RFC 8469 §4).
        match first >> 4 {
            4 | 6 if !self.fits_ip() && fits_ethernet(self.octets) => Ok(Layer::Ethernet),
            4 | 6 => Ok(Layer::Ip),
            // A control word of zeros and a sequence number (RFC 4385 §3, RFC 4448 §4.6).
            0 => {
                let inner = self.octets.get(4..).unwrap_or_default();
                let has_control_word = self.octets.starts_with(&[0, 0]) && fits_ethernet(inner);
                if !has_control_word && fits_ethernet(self.octets) {
                    return Ok(Layer::Ethernet);
                }
                self.take(4)?;
                let is_ip = matches!(self.octets.first(), Some(0x40..0x50 | 0x60..0x70)) && self.fits_ip();
                match () {
                    () if has_control_word => Ok(Layer::Ethernet),
                    () if is_ip => Ok(Layer::Ip),
                    () if self.missing > 0 && inner.len() < MOST_OF_FRAME => Err(self.too_short()),
                    () => Err(Core::Unreadable(Unreadable::Pseudowire)),
                }
            }
            _ if fits_ethernet(self.octets) => Ok(Layer::Ethernet),
            _ if self.missing > 0 && self.octets.len() < MOST_OF_FRAME => Err(self.too_short()),
            1 => Err(Core::Other(Skipped::PseudowireControl)),
            _ => Err(Core::Unreadable(Unreadable::Pseudowire)),
        }
    }

    /// Whether the octets are surely an IP packet: IPv4 by its header's checksum, IPv6 if it fills the rest, perhaps but for a frame check
    /// sequence.
    fn fits_ip(&self) -> bool {
        match IpHeader::read(self.octets) {
            Ok(header) if header.source.is_ipv4() => {
                let length = usize::from(self.octets[0] & 0x0f) * 4;
                self.octets.get(..length).is_some_and(|header| checksum::ipv4_header(header) == 0)
            }
            Ok(header) => {
                matches!((self.octets.len() + self.missing).checked_sub(header.total_length), Some(0 | 4))
            }
            Err(ParseError::IpTooShort) => self.missing > 0,
            Err(_) => false,
        }
    }

    /// PPP (RFC 1661), with address and control of RFC 1662 or without.
    fn ppp(&mut self) -> Next<'a> {
        if self.octets.first() == Some(&0xff) {
            self.take(2)?;
        }
        let [first] = self.array()?;
        // One octet if its lowest bit is set (RFC 1661 §6.5).
        let protocol = match first & 1 {
            0 => u16::from_be_bytes([first, self.array::<1>()?[0]]),
            _ => first.into(),
        };
        match protocol {
            0x0021 | 0x0057 => Ok(Layer::Ip),
            0x0281 | 0x0283 => Ok(Layer::Mpls),
            _ => Err(Core::Other(Skipped::PppProtocol(protocol))),
        }
    }

    /// Frame relay with an address of two to four octets, then RFC 2427 or Cisco's encapsulation, an EtherType.
    fn frame_relay(&mut self) -> Next<'a> {
        const UNNUMBERED_INFORMATION: u8 = 0x03;
        let address = self.octets.iter().take(4).position(|octet| octet & 1 != 0).ok_or(self.too_short())?;
        self.take(address + 1)?;
        let [control] = self.array()?;
        if control != UNNUMBERED_INFORMATION {
            let [second] = self.array()?;
            return Ok(Layer::EtherType(u16::from_be_bytes([control, second])));
        }
        let nlpid = match self.array()? {
            // Padding.
            [0] => self.array::<1>()?[0],
            [nlpid] => nlpid,
        };
        match nlpid {
            0xcc | 0x8e => Ok(Layer::Ip),
            0x80 => self.snap(),
            0xcf => Ok(Layer::Ppp),
            _ => Err(Core::Other(Skipped::Nlpid(nlpid))),
        }
    }
}

/// Whether the octets are a plausible Ethernet frame: with a known EtherType, and IP of the version it says, or with a length that fits.
pub(super) fn fits_ethernet(frame: &[u8]) -> bool {
    let mut place = 12;
    let number = |place: usize| Some(u16::from_be_bytes(*frame.get(place..)?.first_chunk()?));
    while number(place).is_some_and(|ether_type| VLAN.contains(&ether_type)) {
        place += 4;
    }
    let Some(content) = frame.get(place + 2..) else { return false };
    let version = content.first().map(|first| first >> 4);
    match number(place) {
        Some(IPV4) => version == Some(4),
        Some(IPV6) => version == Some(6),
        // ARP and LLDP.
        Some(PPPOE_SESSION | SERVICE_TAG | MACSEC | CISCO_METADATA | 0x0806 | 0x88cc) => true,
        Some(ether_type) if MPLS.contains(&ether_type) => true,
        Some(length @ 3..=LONGEST_8023) => {
            content.len() >= length.into() && content.starts_with(&[content[1]])
        }
        _ => false,
    }
}

/// VXLAN-GPE and NSH (RFC 8300 §11.2.5).
pub(super) fn next_protocol<'a>(next: u8) -> Next<'a> {
    match next {
        1 | 2 => Ok(Layer::Ip),
        3 => Ok(Layer::Ethernet),
        4 => Ok(Layer::EtherType(NSH)),
        5 => Ok(Layer::Mpls),
        _ => Err(Core::Other(Skipped::NextProtocol(next))),
    }
}

pub(super) const fn three_octets([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}
