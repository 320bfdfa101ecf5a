//! The first header of a packet, by link type (draft-ietf-opsawg-pcaplinktype).

use super::layers::{Core, Layer, Next, Rest, fits_ethernet};
use super::skipped::{Skipped, Unreadable};

pub(super) const ETHERNET: u16 = 1;
const NULL: u16 = 0;
const PPP: u16 = 9;
const PPP_HDLC: u16 = 50;
const PPP_ETHER: u16 = 51;
const ATM_RFC1483: u16 = 100;
/// LINKTYPE_RAW, the values that BSD and OpenBSD use for it, LINKTYPE_IPV4 and LINKTYPE_IPV6.
const RAW: [u16; 5] = [101, 12, 14, 228, 229];
const C_HDLC: u16 = 104;
const FRELAY: u16 = 107;
const LOOP: u16 = 108;
const LINUX_SLL: u16 = 113;
const PPP_PPPD: u16 = 166;
const JUNIPER_PPPOE: u16 = 167;
const JUNIPER_ETHER: u16 = 178;
const JUNIPER_PPP: u16 = 179;
const JUNIPER_FRELAY: u16 = 180;
const JUNIPER_CHDLC: u16 = 181;
const PPP_WITH_DIR: u16 = 204;
const C_HDLC_WITH_DIR: u16 = 205;
const FRELAY_WITH_DIR: u16 = 206;
const MPLS: u16 = 219;
const IPNET: u16 = 226;
const NFLOG: u16 = 239;
const LINUX_SLL2: u16 = 276;

impl<'a> Rest<'a> {
    /// The layer that a packet of this link type begins with, after what only the recording program wrote.
    pub(super) fn link_layer(&mut self, link_type: u16) -> Next<'a> {
        match link_type {
            ETHERNET => Ok(Layer::Ethernet),
            NULL | LOOP => {
                // In the byte order of the recording machine (LINKTYPE_LOOP: network byte order).
                let family = self.array()?;
                let [big, little] = [u32::from_be_bytes(family), u32::from_le_bytes(family)];
                let is_ip = is_ip_family(big) || is_ip_family(little);
                if is_ip { Ok(Layer::Ip) } else { Err(Core::Other(Skipped::AddressFamily(big.min(little)))) }
            }
            PPP => Ok(Layer::Ppp),
            PPP_HDLC => match self.octets {
                // Cisco's HDLC, to one or to all.
                [0x0f | 0x8f, ..] => Ok(Layer::Hdlc),
                _ => Ok(Layer::Ppp),
            },
            PPP_ETHER => Ok(Layer::EtherType(0x8864)),
            ATM_RFC1483 => Ok(Layer::Llc),
            _ if RAW.contains(&link_type) => Ok(Layer::Ip),
            C_HDLC => Ok(Layer::Hdlc),
            FRELAY => Ok(Layer::FrameRelay),
            LINUX_SLL => {
                self.take(14)?;
                self.cooked_type()
            }
            LINUX_SLL2 => {
                let mut header = Rest { octets: self.take(20)?, ..*self };
                header.cooked_type()
            }
            PPP_PPPD => {
                // A direction instead of the address, then the control octet.
                if let [0 | 1, 0x03, ..] = self.octets {
                    self.take(2)?;
                }
                Ok(Layer::Ppp)
            }
            JUNIPER_ETHER | JUNIPER_PPPOE => self.juniper(Layer::Ethernet),
            JUNIPER_PPP => self.juniper(Layer::Ppp),
            JUNIPER_FRELAY => self.juniper(Layer::FrameRelay),
            JUNIPER_CHDLC => self.juniper(Layer::Hdlc),
            PPP_WITH_DIR | C_HDLC_WITH_DIR | FRELAY_WITH_DIR => {
                self.take(1)?;
                Ok(match link_type {
                    PPP_WITH_DIR => Layer::Ppp,
                    C_HDLC_WITH_DIR => Layer::Hdlc,
                    _ => Layer::FrameRelay,
                })
            }
            MPLS => Ok(Layer::Mpls),
            IPNET => {
                self.take(24)?;
                Ok(Layer::Ip)
            }
            NFLOG => self.nflog(),
            _ => Err(Core::Unreadable(Unreadable::LinkType(link_type))),
        }
    }

    /// The protocol of Linux's cooked captures: an EtherType, or 4 for IEEE 802.2.
    fn cooked_type(&mut self) -> Next<'a> {
        Ok(match self.number()? {
            0x0004 => Layer::Llc,
            ether_type => Layer::EtherType(ether_type),
        })
    }

    /// Junos's header: the octets "MGC", flags, and extensions with their length if the flags say so.
    fn juniper(&mut self, link: Layer) -> Next<'a> {
        const WITHOUT_LINK_LAYER: u8 = 0x02;
        const EXTENSIONS: u8 = 0x80;
        let [b'M', b'G', b'C', flags] = self.array()? else {
            return Err(Core::Unreadable(Unreadable::TooShort));
        };
        if flags & EXTENSIONS != 0 {
            let length = self.number()?;
            self.take(length.into())?;
        }
        // Four octets with the protocol, then the packet. Some versions of Junos set the flag on frames as well.
        let is_frame = matches!(link, Layer::Ethernet) && fits_ethernet(self.octets);
        if flags & WITHOUT_LINK_LAYER == 0 || is_frame {
            return Ok(link);
        }
        let protocol = u32::from_le_bytes(self.array()?);
        match self.octets {
            [0x40..0x50 | 0x60..0x70, ..] => Ok(Layer::Ip),
            _ if self.missing > 0 && self.octets.len() < 16 => Err(self.too_short()),
            // MPLS, with or without IP below it.
            _ if matches!(protocol, 3 | 5 | 7) => Ok(Layer::Mpls),
            _ => Err(Core::Other(Skipped::AddressFamily(protocol))),
        }
    }

    /// A header of four octets, then attributes in the byte order of the recording machine. One of them is the packet, from its IP header
    /// on.
    fn nflog(&mut self) -> Next<'a> {
        self.take(4)?;
        for number in [u16::from_le_bytes, u16::from_be_bytes] {
            let mut rest = *self;
            while let Some(&[a, b, c, d]) = rest.octets.first_chunk() {
                const PAYLOAD: u16 = 9;
                let (length, kind) = (usize::from(number([a, b])), number([c, d]));
                if kind == PAYLOAD {
                    // It is the last one and may be cut off.
                    self.octets = &rest.octets[4..length.clamp(4, rest.octets.len().max(4))];
                    return Ok(Layer::Ip);
                }
                if length < 4 || rest.take(length.next_multiple_of(4)).is_err() {
                    break;
                }
            }
        }
        Err(if self.missing > 0 { self.too_short() } else { Core::Other(Skipped::NflogWithoutPayload) })
    }
}

/// AF_INET, and AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin.
const fn is_ip_family(family: u32) -> bool {
    matches!(family, 2 | 10 | 23 | 24 | 28 | 30)
}
