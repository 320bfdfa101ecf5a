//! Tunnels: what IP carries other than TCP.

use wireseal_tcp_ao::ip::PROTOCOL_TCP;

use super::layers::{
    CISCO_METADATA, CapturedSegment, Core, Layer, Next, Rest, fits_ethernet, next_protocol, three_octets,
};
use super::scope::Network;
use super::skipped::{Skipped, Unreadable};

/// EtherTypes in GRE: ERSPAN types I and II, and III.
const ERSPAN: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

impl<'a> Rest<'a> {
    /// What an IP protocol number says.
    pub(super) fn transport(&mut self, protocol: u8) -> Next<'a> {
        match protocol {
            // After an authentication header over IPv4.
            PROTOCOL_TCP => {
                let Self { octets, missing, scope, addresses: [source, destination] } = *self;
                Err(Core::Tcp(CapturedSegment { source, destination, scope, octets, missing }))
            }
            4 | 41 => Ok(Layer::Ip),
            17 => self.udp(),
            47 => self.gre(),
            // An authentication header (RFC 4302 §2); IPv6's were read with the others.
            51 => {
                let [next, length] = self.array()?;
                self.take(usize::from(length) * 4 + 6)?;
                Ok(Layer::Transport(next))
            }
            // EtherIP (RFC 3378): a version of 3 and reserved bits.
            97 => {
                self.take(2)?;
                Ok(Layer::Ethernet)
            }
            115 => {
                let session = self.array::<4>()?;
                if session == [0; 4] { Err(Core::Other(Skipped::L2tpControl)) } else { self.l2tpv3(protocol) }
            }
            // MPLS in IP (RFC 4023), and a frame after segment routing (RFC 8986 §4.9).
            137 => Ok(Layer::Mpls),
            143 => Ok(Layer::Ethernet),
            _ => Err(Core::Other(Skipped::IpProtocol(protocol))),
        }
    }

    /// After the session, a cookie of 0, 4 or 8 octets and perhaps a sublayer of 4 (RFC 3931 §4.1): no field says which, so a frame is
    /// looked for.
    fn l2tpv3(&mut self, protocol: u8) -> Next<'a> {
        let frame =
            [0, 4, 8, 12].into_iter().find(|start| self.octets.get(*start..).is_some_and(fits_ethernet));
        let start = frame.ok_or(Core::Other(Skipped::IpProtocol(protocol)))?;
        self.take(start)?;
        Ok(Layer::Ethernet)
    }

    /// GRE (RFC 1701, 2784 and 2890), and its version 1 for PPTP (RFC 2637 §4.1).
    fn gre(&mut self) -> Next<'a> {
        let flags = self.number()?;
        let protocol = self.number()?;
        let has = |flag: u16| flags & flag != 0;
        let has_sequence = has(0x1000);
        if flags & 7 == 1 {
            self.take(4)?;
            if !has_sequence {
                // An acknowledgment.
                return Err(Core::Other(Skipped::IpProtocol(47)));
            }
            self.take(if has(0x0080) { 8 } else { 4 })?;
            return Ok(Layer::Ppp);
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
            ERSPAN if !has_sequence => Ok(Layer::Ethernet),
            ERSPAN | ERSPAN_III => self.erspan(),
            CISCO_METADATA => {
                // The type comes first here, unlike in Ethernet.
                let ether_type = self.number()?;
                self.take(6)?;
                Ok(Layer::EtherType(ether_type))
            }
            _ => Ok(Layer::EtherType(protocol)),
        }
    }

    /// ERSPAN types II and III (draft-foschiano-erspan-03 §4.2, §4.3).
    fn erspan(&mut self) -> Next<'a> {
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
            version => return Err(Core::Unreadable(Unreadable::Erspan(version as u8))),
        };
        if truncated & 0x0400 != 0 {
            // The switch sent only the start of the frame.
            self.missing += usize::from(u16::MAX);
        }
        Ok(layer)
    }

    /// UDP: a tunnel if it has a tunnel's port and header.
    fn udp(&mut self) -> Next<'a> {
        let udp = Core::Other(Skipped::IpProtocol(17));
        let Some((&[_, _, high, low, _, _, _, _], content)) = self.octets.split_first_chunk() else {
            return Err(udp);
        };
        self.octets = content;
        match (u16::from_be_bytes([high, low]), content) {
            // VXLAN (RFC 7348 §5), also on Linux's own port, perhaps with a group policy.
            (4789 | 8472, [0x08 | 0x88, _, _, _, _, _, _, 0, ..]) => self.vxlan(None),
            // VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe-13 §3.1): with a VNI, perhaps with a next protocol, and for operation.
            (4790, [0x08 | 0x09, _, _, _, _, _, _, 0, ..]) => self.vxlan(None),
            (4790, [0x0c | 0x0d, _, _, next, _, _, _, 0, ..]) => self.vxlan(Some(*next)),
            // Geneve (RFC 8926 §3.4), version 0.
            (6081, [0..0x40, control, 0x06..=0xff, _, _, _, _, 0, ..]) if control & 0x3f == 0 => {
                let [length, _, high, low, a, b, c, _] = self.array()?;
                self.take(usize::from(length & 0x3f) * 4)?;
                self.scope = self.scope.with(Network::Virtual(three_octets([a, b, c])));
                Ok(Layer::EtherType(u16::from_be_bytes([high, low])))
            }
            // GTP-U (3GPP TS 29.281 §5.1), version 1.
            (2152, [0x30..0x40, message, _, _, _, _, _, _, ..]) => self.gtp(content[0], *message),
            // L2TP (RFC 2661 §3.1, RFC 3931 §4.1.2.1).
            (1701, [flags, version, ..]) => self.l2tp(u16::from_be_bytes([*flags, *version])),
            _ => Err(udp),
        }
    }

    fn vxlan(&mut self, next: Option<u8>) -> Next<'a> {
        let [_, _, _, _, a, b, c, _] = self.array()?;
        self.scope = self.scope.with(Network::Virtual(three_octets([a, b, c])));
        next.map_or(Ok(Layer::Ethernet), next_protocol)
    }

    fn gtp(&mut self, flags: u8, message: u8) -> Next<'a> {
        const USER_PACKET: u8 = 255;
        if message != USER_PACKET {
            return Err(Core::Other(Skipped::GtpMessage(message)));
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
            Some(0x40..0x50 | 0x60..0x70) => Ok(Layer::Ip),
            _ if fits_ethernet(self.octets) => Ok(Layer::Ethernet),
            Some(_) => Err(Core::Other(Skipped::GtpMessage(message))),
            None => Err(self.too_short()),
        }
    }

    fn l2tp(&mut self, flags: u16) -> Next<'a> {
        let has = |flag: u16| flags & flag != 0;
        match flags & !0xcb00 {
            2 | 3 if has(0x8000) => Err(Core::Other(Skipped::L2tpControl)),
            2 => {
                // Length, then tunnel and session, sequence numbers, and padding.
                self.take(if has(0x4000) { 8 } else { 6 })?;
                self.take(if has(0x0800) { 4 } else { 0 })?;
                if has(0x0200) {
                    let padding = self.number()?;
                    self.take(padding.into())?;
                }
                Ok(Layer::Ppp)
            }
            3 if flags == 3 => {
                self.take(8)?;
                self.l2tpv3(17)
            }
            _ => Err(Core::Other(Skipped::IpProtocol(17))),
        }
    }
}
