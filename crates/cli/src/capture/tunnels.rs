//! Tunnels: what IP carries other than TCP.

use wireseal_tcp_ao::ip::PROTOCOL_TCP;

use super::layers::{CISCO_METADATA, Layer, Next, Rest, Stop, fits_ethernet, three_octets};
use super::scope::Network;
use super::skipped::{Skipped, Unreadable};

/// EtherTypes in GRE: ERSPAN types I and II, and III.
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

impl<'a> Rest<'a> {
    /// What an IP protocol number says.
    pub(super) fn transport(&mut self, protocol: u8) -> Next {
        match protocol {
            // After an authentication header over IPv4.
            PROTOCOL_TCP => {
                self.stop = Stop::Tcp;
                None
            }
            4 | 41 => Some(Layer::Ip),
            17 => self.udp(),
            47 => self.gre(),
            // An authentication header (RFC 4302 §2); IPv6's were read with the others.
            51 => {
                let [next, length] = self.array()?;
                self.take(usize::from(length) * 4 + 6)?;
                Some(Layer::Transport(next))
            }
            // EtherIP (RFC 3378): a version of 3 and reserved bits.
            97 => {
                self.take(2)?;
                Some(Layer::Ethernet)
            }
            115 => {
                let session = self.array::<4>()?;
                if session == [0; 4] { self.skip(Skipped::L2tpControl) } else { self.l2tpv3(protocol) }
            }
            // MPLS in IP (RFC 4023), and a frame after segment routing (RFC 8986 §4.9).
            137 => Some(Layer::Mpls),
            143 => Some(Layer::Ethernet),
            _ => self.skip(Skipped::IpProtocol(protocol)),
        }
    }

    /// After the session, a cookie of 0, 4 or 8 octets and perhaps a sublayer of 4 (RFC 3931 §4.1): no field says which, so a frame is
    /// looked for.
    fn l2tpv3(&mut self, protocol: u8) -> Next {
        let frame =
            [0, 4, 8, 12].into_iter().find(|start| self.octets.get(*start..).is_some_and(fits_ethernet));
        let Some(start) = frame else { return self.skip(Skipped::IpProtocol(protocol)) };
        self.take(start)?;
        Some(Layer::Ethernet)
    }

    /// GRE (RFC 1701, 2784 and 2890), and its version 1 for PPTP (RFC 2637 §4.1).
    fn gre(&mut self) -> Next {
        let flags = self.number()?;
        let protocol = self.number()?;
        let has = |flag: u16| flags & flag != 0;
        let has_sequence = has(0x1000);
        if flags & 7 == 1 {
            self.take(4)?;
            if !has_sequence {
                // An acknowledgment.
                return self.skip(Skipped::IpProtocol(47));
            }
            self.take(if has(0x0080) { 8 } else { 4 })?;
            return Some(Layer::Ppp);
        }
        for is_present in [has(0xc000), has(0x2000), has_sequence] {
            self.take(if is_present { 4 } else { 0 })?;
        }
        if has(0x4000) {
            // Routes, the last one with a length of 0.
            while let [_, _, _, length] = self.array()?
                && length > 0
            {
                self.take(length.into())?;
            }
        }
        match protocol {
            ERSPAN if !has_sequence => Some(Layer::Ethernet),
            ERSPAN | ERSPAN_III => self.erspan(),
            CISCO_METADATA => {
                // The type comes first here, unlike in Ethernet.
                let ether_type = self.number()?;
                self.take(6)?;
                Some(Layer::EtherType(ether_type))
            }
            _ => Some(Layer::EtherType(protocol)),
        }
    }

    /// ERSPAN types II and III (draft-foschiano-erspan-03 §4.2, §4.3).
    fn erspan(&mut self) -> Next {
        let version_and_vlan = self.number()?;
        let truncated = self.number()?;
        let layer = match version_and_vlan >> 12 {
            1 => {
                self.take(4)?;
                // The tag was taken off, and its number is here.
                let (vlan, is_taken_off) = (version_and_vlan & 0x0fff, matches!(truncated >> 11 & 3, 1 | 2));
                if vlan > 0 && is_taken_off {
                    self.scope = self.scope.with(Network::Vlan(vlan));
                }
                Layer::Ethernet
            }
            2 => {
                let [.., frame_type, options] = self.array::<8>()?;
                if options & 1 != 0 {
                    self.take(8)?;
                }
                if frame_type >> 2 & 0x1f == 2 { Layer::Ip } else { Layer::Ethernet }
            }
            version => return self.unreadable(Unreadable::Erspan(version as u8)),
        };
        if truncated & 0x0400 != 0 {
            // The switch sent only the start of the frame.
            self.missing += usize::from(u16::MAX);
        }
        Some(layer)
    }

    /// UDP: a tunnel if it has a tunnel's port and header.
    fn udp(&mut self) -> Next {
        const UDP: Skipped = Skipped::IpProtocol(17);
        let Some((&[_, _, high, low, _, _, _, _], content)) = self.octets.split_first_chunk() else {
            return self.skip(UDP);
        };
        self.octets = content;
        match (u16::from_be_bytes([high, low]), content) {
            // VXLAN (RFC 7348 §5), also on Linux's own port, perhaps with a group policy.
            (4789 | 8472, [0x08 | 0x88, _, _, _, _, _, _, 0, ..]) => self.vxlan(None),
            // Receivers ignore the reserved bits, and some senders give a next protocol as VXLAN-GPE does.
            (4789 | 8472, [flags, _, _, 1..=5, _, _, _, 0, ..]) if flags & 0x0c == 0x0c => {
                self.vxlan(Some(content[3]))
            }
            (4789 | 8472, [flags, _, _, _, _, _, _, _, inner @ ..])
                if flags & 0x08 != 0 && fits_ethernet(inner) =>
            {
                self.vxlan(None)
            }
            // VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe-13 §3.1): with a VNI, perhaps with a next protocol, and for operation.
            (4790, [0x08 | 0x09, _, _, _, _, _, _, 0, ..]) => self.vxlan(None),
            (4790, [0x0c | 0x0d, _, _, next, _, _, _, 0, ..]) => self.vxlan(Some(*next)),
            // Geneve (RFC 8926 §3.4), version 0.
            (6081, [0..0x40, control, 0x06..=0xff, _, _, _, _, 0, ..]) if control & 0x3f == 0 => {
                let [length, _, high, low, a, b, c, _] = self.array()?;
                self.take(usize::from(length & 0x3f) * 4)?;
                self.scope = self.scope.with(Network::Virtual(three_octets([a, b, c])));
                Some(Layer::EtherType(u16::from_be_bytes([high, low])))
            }
            // GTP-U (3GPP TS 29.281 §5.1), version 1.
            (2152, [0x30..0x40, message, _, _, _, _, _, _, ..]) => self.gtp(content[0], *message),
            // L2TP (RFC 2661 §3.1, RFC 3931 §4.1.2.1).
            (1701, [flags, version, ..]) => self.l2tp(u16::from_be_bytes([*flags, *version])),
            _ => self.skip(UDP),
        }
    }

    fn vxlan(&mut self, next: Option<u8>) -> Next {
        let [_, _, _, _, a, b, c, _] = self.array()?;
        self.scope = self.scope.with(Network::Virtual(three_octets([a, b, c])));
        next.map_or(Some(Layer::Ethernet), |next| self.next_protocol(next))
    }

    fn gtp(&mut self, flags: u8, message: u8) -> Next {
        const USER_PACKET: u8 = 255;
        if message != USER_PACKET {
            return self.skip(Skipped::GtpMessage(message));
        }
        self.take(8)?;
        if flags & 0x07 != 0 {
            let [.., mut extension] = self.array::<4>()?;
            // Each in units of four octets, the last of which says what follows.
            while flags & 0x04 != 0 && extension != 0 {
                let [length] = self.array()?;
                let rest = self.take((usize::from(length) * 4).saturating_sub(1))?;
                extension = rest.last().copied().unwrap_or(0);
            }
        }
        match self.octets.first() {
            Some(0x40..0x50 | 0x60..0x70) => Some(Layer::Ip),
            _ if fits_ethernet(self.octets) => Some(Layer::Ethernet),
            Some(_) => self.skip(Skipped::GtpMessage(message)),
            None => self.too_short(),
        }
    }

    fn l2tp(&mut self, flags: u16) -> Next {
        let has = |flag: u16| flags & flag != 0;
        match flags & !0xcb00 {
            2 | 3 if has(0x8000) => self.skip(Skipped::L2tpControl),
            2 => {
                // Length, then tunnel and session, sequence numbers, and padding.
                self.take(if has(0x4000) { 8 } else { 6 })?;
                self.take(if has(0x0800) { 4 } else { 0 })?;
                if has(0x0200) {
                    let padding = self.number()?;
                    self.take(padding.into())?;
                }
                Some(Layer::Ppp)
            }
            3 if flags == 3 => {
                self.take(8)?;
                self.l2tpv3(17)
            }
            _ => self.skip(Skipped::IpProtocol(17)),
        }
    }
}
