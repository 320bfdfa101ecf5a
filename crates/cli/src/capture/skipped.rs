//! What packets hold that is not judged, by the numbers and names of the registries.

use std::fmt;

use serde::ser::{SerializeMap, Serializer};
use wireseal_tcp_ao::ParseError;

use crate::text::grouped;

/// What a packet holds that has no TCP segment to judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// A protocol with this EtherType.
    EtherType(u16),
    /// A protocol with this destination service access point of IEEE 802.2.
    Llc(u8),
    /// A protocol with this organization (24 bits) and number of SNAP.
    Snap(u32, u16),
    /// A protocol with this IP protocol number.
    IpProtocol(u8),
    /// A protocol with this PPP number.
    PppProtocol(u16),
    /// A protocol with this number of ISO/IEC TR 9577, as in frame relay (RFC 2427).
    Nlpid(u8),
    /// An address family of a BSD loopback interface.
    AddressFamily(u32),
    /// A GTP-U message that is no user's packet.
    GtpMessage(u8),
    /// A next protocol of VXLAN-GPE or NSH (RFC 8300 §11.2.5).
    NextProtocol(u8),
    /// A pseudowire's control message (RFC 4385 §5).
    PseudowireControl,
    /// An L2TP control message.
    L2tpControl,
    /// A packet of nflog without its payload.
    NflogWithoutPayload,
    /// Fragments of an IP packet that could not be put together.
    Fragment {
        /// The IP protocol number of the whole packet.
        protocol: u8,
        /// Why not.
        why: Incomplete,
    },
    /// Headers that cannot be read.
    Unreadable(Unreadable),
}

/// Why the fragments of an IP packet were not put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incomplete {
    /// Others are not in the capture, or came more than 60 seconds later.
    Missing,
    /// The capture has only part of one.
    CutOff,
    /// They overlap and differ (RFC 5722 §4).
    Overlap,
    /// Their lengths contradict each other.
    Length,
    /// Too many fragments waited for others.
    TooMany,
}

impl Incomplete {
    const fn words(self) -> &'static str {
        match self {
            Self::Missing => "without the rest of their packet",
            Self::CutOff => "of which the capture has only a part",
            Self::Overlap => "that overlap",
            Self::Length => "whose lengths contradict each other",
            Self::TooMany => "beyond what is kept at a time",
        }
    }
}

/// Why a packet's headers cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// The link layer is unknown (its LINKTYPE number).
    #[error("{}", Skipped::Unreadable(*self))]
    LinkType(u16),
    /// The capture cut the packet off within its headers.
    #[error("cut off within its headers, {missing} octets missing")]
    CutOff {
        /// How many more octets it had on the wire.
        missing: usize,
    },
    /// The packet was recorded whole but ends within a header below IP.
    #[error("the packet ends within a header")]
    TooShort,
    /// The IP headers are inconsistent.
    #[error("{0}")]
    Ip(ParseError),
    /// The TCP header is inconsistent.
    #[error("the TCP header is inconsistent")]
    Tcp,
    /// An ERSPAN header of an unknown version.
    #[error("unknown ERSPAN version {0}")]
    Erspan(u8),
    /// What an MPLS pseudowire carries cannot be told.
    #[error("an MPLS pseudowire that carries neither Ethernet nor IP")]
    Pseudowire,
    /// There are more encapsulations than are looked into.
    #[error("too many encapsulations")]
    TooDeep,
}

/// How many kinds are counted apart.
const KINDS: usize = 12;

/// How many packets were skipped, by what they are.
#[derive(Clone, Debug, Default)]
pub struct SkippedCounts {
    kinds: Vec<(Skipped, u64)>,
    others: u64,
}

impl SkippedCounts {
    /// Counts packets.
    #[inline]
    pub fn add(&mut self, skipped: Skipped, packets: u64) {
        // How much is missing does not make a kind of its own.
        let skipped = match skipped {
            Skipped::Unreadable(Unreadable::CutOff { .. }) => {
                Skipped::Unreadable(Unreadable::CutOff { missing: 0 })
            }
            skipped => skipped,
        };
        let is_full = self.kinds.len() == KINDS;
        match self.kinds.iter_mut().find(|(kind, _)| *kind == skipped) {
            Some((_, count)) => *count += packets,
            None if is_full => self.others += packets,
            None => self.kinds.push((skipped, packets)),
        }
    }

    /// The kinds, the most frequent first, and then what is of other kinds, as `None`. Each has a count above 0.
    #[must_use]
    pub fn kinds(&self) -> Vec<(Option<Skipped>, u64)> {
        let mut kinds: Vec<_> = self.kinds.iter().map(|(kind, count)| (Some(*kind), *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds.push((None, self.others));
        kinds.retain(|(_, count)| *count > 0);
        kinds
    }
}

/// An array of objects with the members `what`, `number`, `name` and `packets`.
impl serde::Serialize for SkippedCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Kind(Option<Skipped>, u64);
        impl serde::Serialize for Kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let (what, number, name) = match self.0 {
                    None => ("other kinds", None, None),
                    Some(skipped) => skipped.parts(),
                };
                let mut map = serializer.serialize_map(Some(4))?;
                map.serialize_entry("what", what)?;
                map.serialize_entry("number", &number)?;
                map.serialize_entry("name", &name)?;
                map.serialize_entry("packets", &self.1)?;
                map.end()
            }
        }
        serializer.collect_seq(self.kinds().into_iter().map(|(kind, count)| Kind(kind, count)))
    }
}

impl Skipped {
    /// Which numbers its number is of, or what it is if there are none; its number; and its name, if it is known.
    fn parts(self) -> (&'static str, Option<u32>, Option<&'static str>) {
        let named = |what, number: u32, names: &[(u32, &'static str)]| {
            let name = names.iter().find(|(known, _)| *known == number).map(|(_, name)| *name);
            (what, Some(number), name)
        };
        match self {
            Self::EtherType(number) => named("EtherType", number.into(), ETHER_TYPES),
            Self::Llc(number) => named("LLC SAP", number.into(), LLC_SAPS),
            Self::Snap(organization, number) => {
                let name =
                    (organization == CISCO).then(|| named("", number.into(), CISCO_PROTOCOLS).2).flatten();
                ("SNAP protocol", Some(number.into()), name)
            }
            Self::IpProtocol(number) => named("IP protocol", number.into(), IP_PROTOCOLS),
            Self::PppProtocol(number) => named("PPP protocol", number.into(), PPP_PROTOCOLS),
            Self::Nlpid(number) => named("NLPID", number.into(), NLPIDS),
            Self::AddressFamily(number) => named("address family", number, &[(7, "OSI"), (23, "IPX")]),
            Self::GtpMessage(number) => named("GTP-U message", number.into(), GTP_MESSAGES),
            Self::NextProtocol(number) => ("next protocol", Some(number.into()), None),
            Self::PseudowireControl => ("pseudowire control", None, None),
            Self::L2tpControl => ("L2TP control", None, None),
            Self::NflogWithoutPayload => ("nflog without a packet", None, None),
            Self::Fragment { protocol, why } => {
                let (_, number, _) = Self::IpProtocol(protocol).parts();
                ("IP fragment", number, Some(why.words()))
            }
            Self::Unreadable(why) => match why {
                Unreadable::LinkType(number) => ("link type", Some(number.into()), link_type_name(number)),
                Unreadable::Erspan(version) => ("ERSPAN version", Some(version.into()), None),
                Unreadable::CutOff { .. } => ("cut off within the headers", None, None),
                Unreadable::TooShort => ("ends within a header", None, None),
                Unreadable::Ip(_) => ("inconsistent IP header", None, None),
                Unreadable::Tcp => ("inconsistent TCP header", None, None),
                Unreadable::Pseudowire => ("pseudowire of unknown content", None, None),
                Unreadable::TooDeep => ("too many encapsulations", None, None),
            },
        }
    }

    /// So many packets of it: `12 packets of ARP (EtherType 0x0806)`.
    pub(crate) fn counted(self, packets: u64) -> String {
        let (is_one, packets) = (packets == 1, grouped(packets));
        let packet = if is_one { "packet" } else { "packets" };
        match self {
            Self::Fragment { protocol, why } => {
                let fragment = if is_one { "IP fragment" } else { "IP fragments" };
                format!("{packets} {fragment} of {}, {}", Self::IpProtocol(protocol), why.words())
            }
            Self::Unreadable(Unreadable::LinkType(_) | Unreadable::Erspan(_)) => {
                format!("{packets} {packet} with {self}, which cannot be read")
            }
            Self::Unreadable(Unreadable::CutOff { .. }) => {
                format!("{packets} {packet} cut off within the headers")
            }
            Self::Unreadable(Unreadable::TooShort) => {
                format!("{packets} {packet} ending within a header")
            }
            Self::Unreadable(Unreadable::TooDeep) => format!("{packets} {packet} in too many encapsulations"),
            Self::Unreadable(Unreadable::Ip(_) | Unreadable::Tcp) => {
                format!("{packets} {packet} with an {self}")
            }
            Self::Unreadable(Unreadable::Pseudowire) => format!("{packets} {packet} in an MPLS {self}"),
            _ => format!("{packets} {packet} of {self}"),
        }
    }
}

/// `ARP (EtherType 0x0806)`, or without a name `EtherType 0x1234`.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number, name) = self.parts();
        let number = number.map(|number| match self {
            Self::EtherType(_) | Self::PppProtocol(_) | Self::Snap(..) => format!(" 0x{number:04x}"),
            Self::Llc(_) | Self::Nlpid(_) => format!(" 0x{number:02x}"),
            _ => format!(" {number}"),
        });
        let number = number.unwrap_or_default();
        match (self, name) {
            // The registry's names do not say that they are of link types.
            (Self::Unreadable(_), Some(name)) => write!(f, "{what}{number} ({name})"),
            (_, Some(name)) => write!(f, "{name} ({what}{number})"),
            (_, None) => write!(f, "{what}{number}"),
        }
    }
}

/// The name of a LINKTYPE number, without `LINKTYPE_`.
fn link_type_name(number: u16) -> Option<&'static str> {
    /// draft-ietf-opsawg-pcaplinktype: number and name on each line.
    const NAMES: &str = include_str!("link_types.txt");
    let mut names = NAMES.lines().filter_map(|line| line.split_once(' '));
    names.find(|(known, _)| known.parse() == Ok(number)).map(|(_, name)| name)
}

/// The organization in Cisco's SNAP headers.
const CISCO: u32 = 0x00_000c;

const ETHER_TYPES: &[(u32, &str)] = &[
    (0x0000, "keepalive"),
    (0x2000, "CDP"),
    (0x2001, "NHRP"),
    (0x22f3, "TRILL"),
    (0x0806, "ARP"),
    (0x8035, "RARP or SLARP"),
    (0x8137, "IPX"),
    (0x86dd, "IPv6"),
    (0x8809, "slow protocols, such as LACP"),
    (0x880b, "PPP"),
    (0x8863, "PPPoE discovery"),
    (0x888e, "IEEE 802.1X"),
    (0x8892, "PROFINET"),
    (0x88a4, "EtherCAT"),
    (0x88cc, "LLDP"),
    (0x88e5, "MACsec"),
    (0x88f7, "PTP"),
    (0x8902, "CFM"),
    (0x8903, "FabricPath"),
    (0x8906, "FCoE"),
    (0x8914, "FCoE initialization"),
    (0x9000, "loopback test"),
    (0xfefe, "OSI"),
];

const LLC_SAPS: &[(u32, &str)] = &[
    (0x42, "spanning tree"),
    (0xaa, "SNAP"),
    (0xe0, "IPX"),
    (0xf0, "NetBIOS"),
    (0xfe, "OSI, such as IS-IS"),
    (0xff, "IPX"),
];

const CISCO_PROTOCOLS: &[(u32, &str)] =
    &[(0x010b, "PVST+"), (0x0111, "UDLD"), (0x2000, "CDP"), (0x2003, "VTP"), (0x2004, "DTP")];

const IP_PROTOCOLS: &[(u32, &str)] = &[
    (0, "hop-by-hop options"),
    (1, "ICMP"),
    (2, "IGMP"),
    (4, "IPv4"),
    (6, "TCP"),
    (17, "UDP"),
    (33, "DCCP"),
    (41, "IPv6"),
    (46, "RSVP"),
    (47, "GRE"),
    (50, "ESP"),
    (51, "AH"),
    (58, "ICMPv6"),
    (59, "no next header"),
    (60, "destination options"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (97, "EtherIP"),
    (103, "PIM"),
    (108, "IPComp"),
    (112, "VRRP"),
    (115, "L2TP"),
    (124, "IS-IS"),
    (132, "SCTP"),
    (136, "UDP-Lite"),
    (137, "MPLS"),
    (143, "Ethernet"),
];

const PPP_PROTOCOLS: &[(u32, &str)] = &[
    (0x0023, "OSI"),
    (0x002d, "Van Jacobson's compressed TCP"),
    (0x002f, "Van Jacobson's uncompressed TCP"),
    (0x0031, "bridging"),
    (0x003d, "multilink"),
    (0x00fd, "compressed packets"),
    (0x8021, "IPCP"),
    (0x8023, "OSINLCP"),
    (0x8031, "BCP"),
    (0x8057, "IPV6CP"),
    (0x80fd, "CCP"),
    (0x8281, "MPLSCP"),
    (0xc021, "LCP"),
    (0xc023, "PAP"),
    (0xc025, "LQR"),
    (0xc223, "CHAP"),
];

const NLPIDS: &[(u32, &str)] = &[(0x08, "Q.933"), (0x81, "CLNP"), (0x82, "ES-IS"), (0x83, "IS-IS")];

const GTP_MESSAGES: &[(u32, &str)] =
    &[(1, "echo request"), (2, "echo response"), (26, "error indication"), (254, "end marker")];
