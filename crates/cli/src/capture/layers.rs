//! The headers around a TCP segment, in whatever order they come: frames, tags, labels, PPP and IP. Tunnels are in `tunnels`.
//!
//! Written here because no maintained crate reads all of them without an allocation per packet: etherparse, which the tests compare with,
//! knows Ethernet, VLANs and IP.

use wireseal_tcp_ao::ip::{IPV6_HEADER_LENGTH, IpHeader, PROTOCOL_TCP};
use wireseal_tcp_ao::{ParseError, checksum};

use super::content::{CapturedSegment, Content};
use super::scope::{Network, Scope};
use super::skipped::{Skipped, Unreadable};

/// Why a packet is not looked into further.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// At a TCP segment that does not follow its IP header at once.
    Tcp,
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
    /// From the innermost IP header on.
    pub(super) ip: &'a [u8],
    pub(super) stop: Stop,
}

/// The next layer; `None` at the end, whose reason is in [`Rest::stop`]. It fits a register.
pub(super) type Next = Option<Layer>;

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
        Self { octets, missing, scope, ip: &[], stop: Stop::Unreadable(Unreadable::TooShort) }
    }

    /// Reads layer after layer, from `next` on. At a fragment, the rest is the fragment, from its IP header on.
    #[inline]
    pub(super) fn walk(&mut self, mut next: Next) -> Content<'a> {
        for _ in 0..MOST_LAYERS {
            let Some(Layer::Ip) = next else {
                let Some(layer) = next else { return self.stopped() };
                next = self.open(layer);
                continue;
            };
            // Passed by reference, because moving addresses takes longer than reading them.
            let header = &IpHeader::read(self.octets);
            next = match header {
                Ok(header) if !self.enter(header) => {
                    return Content::Unreadable(Unreadable::Ip(ParseError::IpLength));
                }
                Ok(IpHeader { is_fragment: true, protocol, payload_offset, .. }) => {
                    self.octets = &self.ip[..payload_offset + self.octets.len()];
                    return Content::Fragment { protocol: *protocol };
                }
                Ok(IpHeader { protocol: PROTOCOL_TCP, .. }) => return self.segment_of(header),
                Ok(header) => Some(Layer::Transport(header.protocol)),
                Err(ParseError::IpTooShort) if self.missing > 0 || self.octets.is_empty() => self.too_short(),
                Err(error) => self.unreadable(Unreadable::Ip(*error)),
            };
        }
        Content::Unreadable(Unreadable::TooDeep)
    }

    fn stopped(&self) -> Content<'a> {
        match self.stop {
            Stop::Tcp => self.segment_of(&IpHeader::read(self.ip)),
            Stop::Other(skipped) => Content::Other(skipped),
            Stop::Unreadable(why) => Content::Unreadable(why),
        }
    }

    /// The rest of the packet as a segment after this header.
    #[inline]
    fn segment_of(&self, header: &Result<IpHeader, ParseError>) -> Content<'a> {
        let Self { octets, missing, scope, .. } = *self;
        match header {
            Ok(IpHeader { source, destination, .. }) => Content::Tcp(CapturedSegment {
                source: *source,
                destination: *destination,
                scope,
                octets,
                missing,
            }),
            Err(error) => Content::Unreadable(Unreadable::Ip(*error)),
        }
    }

    /// Goes on with an IP packet's payload; `false` if its length cannot be right.
    ///
    /// The payload ends where IP's length field says, so padding is left out. If that field is 0, because the network card was to split a
    /// large send after it was recorded, the payload ends with the packet.
    #[inline]
    fn enter(&mut self, header: &IpHeader) -> bool {
        let Self { octets: packet, missing: unrecorded, .. } = *self;
        // It does not count the header in IPv6.
        let says_no_length =
            header.total_length == if header.source.is_ipv4() { 0 } else { IPV6_HEADER_LENGTH };
        let end = if says_no_length { packet.len() + unrecorded } else { header.total_length };
        let missing = end.saturating_sub(packet.len());
        match packet.get(header.payload_offset..end - missing) {
            Some(payload) if missing <= unrecorded => {
                (self.ip, self.octets, self.missing) = (packet, payload, missing);
                true
            }
            _ => false,
        }
    }

    #[inline(never)]
    fn open(&mut self, layer: Layer) -> Next {
        match layer {
            Layer::Ethernet => {
                self.take(12)?;
                self.length_or_type()
            }
            Layer::EtherType(ether_type) => self.ether_type(ether_type),
            Layer::Llc => self.llc(),
            // Read by `walk` itself.
            Layer::Ip => Some(Layer::Ip),
            Layer::Transport(protocol) => self.transport(protocol),
            Layer::Mpls => self.mpls(),
            Layer::Ppp => self.ppp(),
            Layer::Hdlc => {
                // Address and control; the protocol is an EtherType.
                let [_, _, protocol @ ..] = self.array::<4>()?;
                Some(Layer::EtherType(u16::from_be_bytes(protocol)))
            }
            Layer::FrameRelay => self.frame_relay(),
        }
    }

    /// It holds something else than TCP.
    pub(super) const fn skip(&mut self, skipped: Skipped) -> Next {
        self.stop = Stop::Other(skipped);
        None
    }

    pub(super) const fn unreadable(&mut self, why: Unreadable) -> Next {
        self.stop = Stop::Unreadable(why);
        None
    }

    /// It ends within a header.
    pub(super) const fn too_short(&mut self) -> Next {
        self.unreadable(match self.missing {
            0 => Unreadable::TooShort,
            missing => Unreadable::CutOff { missing },
        })
    }

    /// Takes the next `count` octets.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let Some((taken, rest)) = self.octets.split_at_checked(count) else {
            self.too_short();
            return None;
        };
        self.octets = rest;
        Some(taken)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let Some((taken, rest)) = self.octets.split_first_chunk() else {
            self.too_short();
            return None;
        };
        self.octets = rest;
        Some(*taken)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.array()?))
    }

    /// An EtherType, or the length of a frame with IEEE 802.2.
    fn length_or_type(&mut self) -> Next {
        Some(match self.number()? {
            0..=LONGEST_8023 => Layer::Llc,
            ether_type => Layer::EtherType(ether_type),
        })
    }

    fn ether_type(&mut self, ether_type: u16) -> Next {
        match ether_type {
            IPV4 | IPV6 => Some(Layer::Ip),
            _ if VLAN.contains(&ether_type) => {
                // Number 0 means no VLAN, only a priority.
                if let number @ 1.. = self.number()? & 0x0fff {
                    self.scope = self.scope.with(Network::Vlan(number));
                }
                self.length_or_type()
            }
            _ if MPLS.contains(&ether_type) => Some(Layer::Mpls),
            JUMBO_LLC => Some(Layer::Llc),
            PPPOE_SESSION => {
                // Version, code, session and length (RFC 2516 §4).
                self.take(6)?;
                Some(Layer::Ppp)
            }
            SERVICE_TAG => {
                let [_, number @ ..] = self.array::<4>()?;
                self.scope = self.scope.with(Network::ServiceInstance(three_octets(number)));
                Some(Layer::Ethernet)
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
                    return self.skip(Skipped::EtherType(MACSEC));
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
                self.next_protocol(next)
            }
            TRANSPARENT_BRIDGING => Some(Layer::Ethernet),
            PPP_IN_GRE => Some(Layer::Ppp),
            _ => self.skip(Skipped::EtherType(ether_type)),
        }
    }

    fn llc(&mut self) -> Next {
        match self.array()? {
            [0xaa, 0xaa, 0x03] => self.snap(),
            // IP has a service access point of its own (IEEE 802.2).
            [0x06, 0x06, 0x03] => Some(Layer::Ip),
            [destination, ..] => self.skip(Skipped::Llc(destination)),
        }
    }

    /// The organization and its protocol (RFC 1042, RFC 2427 §4.2).
    fn snap(&mut self) -> Next {
        let [a, b, c, protocol @ ..] = self.array::<5>()?;
        let protocol = u16::from_be_bytes(protocol);
        match [a, b, c] {
            [0, 0, 0 | 0xf8] => Some(Layer::EtherType(protocol)),
            // Bridged Ethernet, with and without a frame check sequence.
            [0x00, 0x80, 0xc2] if matches!(protocol, 1 | 7) => Some(Layer::Ethernet),
            organization => self.skip(Skipped::Snap(three_octets(organization), protocol)),
        }
    }

    /// A label stack (RFC 3032), and below it IP or a pseudowire. No field says which.
    fn mpls(&mut self) -> Next {
        /// With so many octets, an Ethernet frame shows what it is.
        const MOST_OF_FRAME: usize = 32;
        loop {
            let [_, _, bottom, _] = self.array()?;
            if bottom & 1 != 0 {
                break;
            }
        }
        let Some(first) = self.octets.first() else { return self.too_short() };
        // Ethernet without a control word is told from IP, and from a control word, by its EtherType (RFC 8469 §4).
        match first >> 4 {
            4 | 6 if !self.fits_ip() && fits_ethernet(self.octets) => Some(Layer::Ethernet),
            4 | 6 => Some(Layer::Ip),
            // A control word of zeros and a sequence number (RFC 4385 §3, RFC 4448 §4.6).
            0 => {
                let inner = self.octets.get(4..).unwrap_or_default();
                let has_control_word = self.octets.starts_with(&[0, 0]) && fits_ethernet(inner);
                if !has_control_word && fits_ethernet(self.octets) {
                    return Some(Layer::Ethernet);
                }
                self.take(4)?;
                let is_ip = matches!(self.octets.first(), Some(0x40..0x50 | 0x60..0x70)) && self.fits_ip();
                match () {
                    () if has_control_word => Some(Layer::Ethernet),
                    () if is_ip => Some(Layer::Ip),
                    () if self.missing > 0 && inner.len() < MOST_OF_FRAME => self.too_short(),
                    () => self.unreadable(Unreadable::Pseudowire),
                }
            }
            _ if fits_ethernet(self.octets) => Some(Layer::Ethernet),
            _ if self.missing > 0 && self.octets.len() < MOST_OF_FRAME => self.too_short(),
            1 => self.skip(Skipped::PseudowireControl),
            _ => self.unreadable(Unreadable::Pseudowire),
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

    /// The next protocol of VXLAN-GPE and NSH (RFC 8300 §11.2.5).
    pub(super) const fn next_protocol(&mut self, next: u8) -> Next {
        match next {
            1 | 2 => Some(Layer::Ip),
            3 => Some(Layer::Ethernet),
            4 => Some(Layer::EtherType(NSH)),
            5 => Some(Layer::Mpls),
            _ => self.skip(Skipped::NextProtocol(next)),
        }
    }

    /// PPP (RFC 1661), with address and control of RFC 1662 or without.
    fn ppp(&mut self) -> Next {
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
            0x0021 | 0x0057 => Some(Layer::Ip),
            0x0281 | 0x0283 => Some(Layer::Mpls),
            _ => self.skip(Skipped::PppProtocol(protocol)),
        }
    }

    /// Frame relay with an address of two to four octets, then RFC 2427 or Cisco's encapsulation, an EtherType.
    fn frame_relay(&mut self) -> Next {
        const UNNUMBERED_INFORMATION: u8 = 0x03;
        let Some(address) = self.octets.iter().take(4).position(|octet| octet & 1 != 0) else {
            return self.too_short();
        };
        self.take(address + 1)?;
        let [control] = self.array()?;
        if control != UNNUMBERED_INFORMATION {
            let [second] = self.array()?;
            return Some(Layer::EtherType(u16::from_be_bytes([control, second])));
        }
        let nlpid = match self.array()? {
            // Padding.
            [0] => self.array::<1>()?[0],
            [nlpid] => nlpid,
        };
        match nlpid {
            0xcc | 0x8e => Some(Layer::Ip),
            0x80 => self.snap(),
            0xcf => Some(Layer::Ppp),
            _ => self.skip(Skipped::Nlpid(nlpid)),
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

pub(super) const fn three_octets([a, b, c]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, a, b, c])
}
