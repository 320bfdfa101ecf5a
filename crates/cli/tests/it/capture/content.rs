//! What packets carry, by link type, compared with etherparse.

use std::net::IpAddr;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId};
use proptest::prelude::*;
use wireseal::capture::{Content, Packet, Skipped, Unreadable};
use wireseal_tcp_ao::ParseError;

const ETHERNET: u16 = 1;
const RAW: u16 = 101;

/// An IP packet with a TCP segment of `payload` octets.
fn tcp(is_ipv6: bool, payload: usize) -> Vec<u8> {
    let builder = if is_ipv6 {
        PacketBuilder::ipv6([0x20; 16], [0x21; 16], 64)
    } else {
        PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
    };
    let mut packet = Vec::new();
    builder.tcp(50_000, 179, 7, 1024).write(&mut packet, &vec![0xaa; payload]).unwrap();
    packet
}

/// An IPv4 packet with a UDP datagram of `payload` octets.
fn udp(payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(50_000, 443);
    builder.write(&mut packet, &vec![0xbb; payload]).unwrap();
    packet
}

fn of(link_type: u16, octets: &[u8], original_length: usize) -> Content<'_> {
    Content::of(&Packet { number: 1, time: None, link_type, octets, original_length })
}

fn whole(link_type: u16, octets: &[u8]) -> Content<'_> {
    of(link_type, octets, octets.len())
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[0x02; 12], &ether_type.to_be_bytes()[..], payload].concat()
}

/// A VLAN tag in front of the payload.
fn tagged(inner_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 7], &inner_type.to_be_bytes()[..], payload].concat()
}

fn ether_type(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

#[test]
fn every_link_type() {
    for packet in [tcp(false, 30), tcp(true, 30)] {
        let is_ipv4 = packet[0] >> 4 == 4;
        let kind = ether_type(&packet);
        let sll = |kind: u16| [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0], &kind.to_be_bytes()[..]].concat();
        let sll2 = |kind: u16| [&kind.to_be_bytes()[..], &[0; 18]].concat();
        let vlan = tagged(kind, &packet);
        let mut packets = vec![
            (ETHERNET, ethernet(kind, &packet)),
            (ETHERNET, ethernet(0x8100, &vlan)),
            (ETHERNET, ethernet(0x88a8, &tagged(0x8100, &vlan))),
            (ETHERNET, ethernet(0x9100, &tagged(0x9100, &tagged(0x8100, &vlan)))),
            (113, [sll(kind), packet.clone()].concat()),
            (113, [sll(0x8100), vlan.clone()].concat()),
            (276, [sll2(kind), packet.clone()].concat()),
            (276, [sll2(0x8100), vlan].concat()),
        ];
        packets.extend([12, 14, RAW].map(|link_type| (link_type, packet.clone())));
        packets.push((if is_ipv4 { 228 } else { 229 }, packet.clone()));
        let families: &[u32] = if is_ipv4 { &[2] } else { &[10, 23, 24, 28, 30] };
        for family in families {
            for family in [family.to_be_bytes(), family.to_le_bytes()] {
                packets.extend([0, 108].map(|link_type| (link_type, [&family[..], &packet].concat())));
            }
        }
        let header = if is_ipv4 { 20 } else { 40 };
        for (link_type, mut octets) in packets {
            // A short frame's padding, or a frame check sequence.
            octets.extend([0xff; 6]);
            let Content::Tcp(segment) = whole(link_type, &octets) else {
                panic!("link type {link_type}: {:?}", whole(link_type, &octets));
            };
            assert_eq!(segment.octets, &packet[header..]);
            assert_eq!(segment.missing, 0);
            let source: IpAddr = if is_ipv4 { [192, 0, 2, 1].into() } else { [0x20; 16].into() };
            assert_eq!(segment.source, source);
            assert_ne!(segment.destination, source);
        }
    }
}

#[test]
fn what_is_not_tcp_is_named() {
    let mut icmp = tcp(false, 0);
    icmp[9] = 1;
    let mut esp = tcp(true, 40);
    esp[6] = 50;
    for (link_type, octets, skipped, words) in [
        (RAW, icmp, Skipped::IpProtocol(1), "ICMP (IP protocol 1)"),
        (RAW, udp(40), Skipped::IpProtocol(17), "UDP (IP protocol 17)"),
        (RAW, esp, Skipped::IpProtocol(50), "ESP (IP protocol 50)"),
        (ETHERNET, ethernet(0x0806, &[0; 28]), Skipped::EtherType(0x0806), "ARP (EtherType 0x0806)"),
        (ETHERNET, ethernet(0x1234, &[0; 28]), Skipped::EtherType(0x1234), "EtherType 0x1234"),
        (ETHERNET, ethernet(60, &[0x42; 60]), Skipped::Llc(0x42), "spanning tree (LLC SAP 0x42)"),
        (
            ETHERNET,
            ethernet(0x8100, &tagged(0x0806, &[0; 28])),
            Skipped::EtherType(0x0806),
            "ARP (EtherType 0x0806)",
        ),
        (0, vec![0, 0, 0, 7, 1, 2, 3], Skipped::AddressFamily(7), "OSI (address family 7)"),
    ] {
        assert_eq!(whole(link_type, &octets), Content::Other(skipped), "link type {link_type}");
        assert_eq!(skipped.to_string(), words);
    }
    assert_eq!(whole(189, &[0; 60]), Content::Unreadable(Unreadable::LinkType(189)));
    assert_eq!(Unreadable::LinkType(189).to_string(), "link type 189 (USB_LINUX)");
    assert_eq!(Unreadable::LinkType(65_535).to_string(), "link type 65535");
}

#[test]
fn a_segment_is_cut_off_by_as_many_octets_as_are_missing() {
    for packet in [tcp(false, 30), tcp(true, 30)] {
        let header = packet.len() - 50;
        let frame = ethernet(ether_type(&packet), &packet);
        for recorded in 0..frame.len() {
            let missing = frame.len() - recorded;
            let content = of(ETHERNET, &frame[..recorded], frame.len());
            if recorded < 14 + header {
                let cut = Unreadable::CutOff { missing };
                assert_eq!(content, Content::Unreadable(cut), "{recorded}");
            } else {
                let Content::Tcp(segment) = content else { panic!("{content:?}") };
                assert_eq!((segment.octets, segment.missing), (&frame[14 + header..recorded], missing));
            }
            // Only the frame's padding is missing.
            let padded = of(ETHERNET, &frame, frame.len() + 10);
            assert!(matches!(padded, Content::Tcp(segment) if segment.missing == 0));
        }
    }
}

/// The header claims more than there was on the wire.
#[test]
fn lengths_that_do_not_fit_the_packet() {
    for packet in [tcp(false, 30), tcp(true, 30)] {
        for recorded in 40..packet.len() {
            let content = whole(RAW, &packet[..recorded]);
            assert_eq!(content, Content::Unreadable(Unreadable::Ip(ParseError::IpLength)));
        }
    }
    for length in 1..20 {
        let mut packet = tcp(false, 30);
        packet[3] = length;
        assert!(matches!(whole(RAW, &packet), Content::Unreadable(Unreadable::Ip(_))));
    }
    assert_eq!(whole(RAW, &[0x50; 40]), Content::Unreadable(Unreadable::Ip(ParseError::IpVersion(5))));
    assert_eq!(whole(RAW, &[]), Content::Unreadable(Unreadable::TooShort));
}

/// Recorded before the network card split a large send: the length fields are 0.
#[test]
fn sends_larger_than_a_length_field_can_say() {
    for (mut packet, field) in [(tcp(false, 1000), 2), (tcp(true, 1000), 4)] {
        let header = packet.len() - 1020;
        packet[field..field + 2].fill(0);
        packet.resize(100_000, 0xaa);
        let Content::Tcp(segment) = whole(RAW, &packet) else { panic!("{:?}", whole(RAW, &packet)) };
        assert_eq!((segment.octets.len(), segment.missing), (100_000 - header, 0));
        let Content::Tcp(segment) = of(RAW, &packet[..90], 100_000) else { panic!("cut off") };
        assert_eq!((segment.octets.len(), segment.missing), (90 - header, 99_910));
    }
}

#[test]
fn fragments_are_told_apart() {
    let mut first = tcp(false, 40);
    first[6] = 0x20;
    let mut later = udp(40);
    later[7] = 9;
    // "Don't fragment" alone does not make a fragment.
    let mut packet = tcp(false, 40);
    packet[6] = 0x40;
    assert_eq!(whole(RAW, &first), Content::Fragment { protocol: 6 });
    assert_eq!(whole(RAW, &later), Content::Fragment { protocol: 17 });
    assert_eq!(of(RAW, &later[..30], later.len()), Content::Fragment { protocol: 17 });
    assert!(matches!(whole(RAW, &packet), Content::Tcp(_)));

    let whole_packet = tcp(true, 40);
    let with_fragment_header = |offset_and_more: u16| {
        let [high, low] = offset_and_more.to_be_bytes();
        let mut packet = [&whole_packet[..40], &[6, 0, high, low, 1, 2, 3, 4], &whole_packet[40..]].concat();
        packet[5] += 8;
        packet[6] = 44;
        packet
    };
    let packets = [(0x0001, Content::Fragment { protocol: 6 }), (0x0048, Content::Fragment { protocol: 6 })];
    for (field, content) in packets {
        assert_eq!(whole(RAW, &with_fragment_header(field)), content);
    }
    // An atomic fragment is a whole packet (RFC 6946).
    assert!(matches!(whole(RAW, &with_fragment_header(0)), Content::Tcp(_)));
}

/// Past a routing header, the final destination is what the TCP checksum and MAC are computed with.
#[test]
fn extension_headers_are_walked() {
    let packet = tcp(true, 40);
    let hop_by_hop = [43, 0, 1, 4, 0, 0, 0, 0];
    let routing = [&[6, 2, 2, 1, 0, 0, 0, 0][..], &[0x33; 16]].concat();
    let mut octets = [&packet[..40], &hop_by_hop, &routing, &packet[40..]].concat();
    octets[6] = 0;
    octets[5] += 32;
    let Content::Tcp(segment) = whole(RAW, &octets) else { panic!("{:?}", whole(RAW, &octets)) };
    assert_eq!(segment.destination, IpAddr::from([0x33; 16]));
    assert_eq!(segment.octets, &packet[40..]);
    // Cut off within the extension headers.
    for recorded in 40..72 {
        let cut = Unreadable::CutOff { missing: octets.len() - recorded };
        assert_eq!(of(RAW, &octets[..recorded], octets.len()), Content::Unreadable(cut));
    }
}

#[derive(Clone, Debug)]
struct Recipe {
    is_ipv6: bool,
    vlans: usize,
    is_tcp: bool,
    payload: Vec<u8>,
    padding: usize,
    /// Octets to overwrite, by place.
    changes: Vec<(usize, u8)>,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let changes = prop::collection::vec((0..100_usize, any::<u8>()), 0..3);
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    (any::<bool>(), 0..3_usize, any::<bool>(), payload, 0..8_usize, changes).prop_map(
        |(is_ipv6, vlans, is_tcp, payload, padding, changes)| Recipe {
            is_ipv6,
            vlans,
            is_tcp,
            payload,
            padding,
            changes,
        },
    )
}

impl Recipe {
    fn octets(&self) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [3; 6]);
        let id = VlanId::try_new(7).unwrap();
        let v4 = ([192, 0, 2, 1], [198, 51, 100, 2], 9);
        let v6 = ([0x20; 16], [0x26; 16], 9);
        let step = match (self.vlans, self.is_ipv6) {
            (0, false) => ethernet.ipv4(v4.0, v4.1, v4.2),
            (0, true) => ethernet.ipv6(v6.0, v6.1, v6.2),
            (1, false) => ethernet.single_vlan(id).ipv4(v4.0, v4.1, v4.2),
            (1, true) => ethernet.single_vlan(id).ipv6(v6.0, v6.1, v6.2),
            (_, false) => ethernet.double_vlan(id, id).ipv4(v4.0, v4.1, v4.2),
            (_, true) => ethernet.double_vlan(id, id).ipv6(v6.0, v6.1, v6.2),
        };
        let mut octets = Vec::new();
        if self.is_tcp {
            step.tcp(1000, 179, 5, 6).write(&mut octets, &self.payload).unwrap();
        } else {
            step.udp(1000, 443).write(&mut octets, &self.payload).unwrap();
        }
        octets.extend(vec![0; self.padding]);
        for (place, octet) in &self.changes {
            if let Some(place) = octets.get_mut(*place) {
                *place = *octet;
            }
        }
        octets
    }
}

fn of_ethernet(octets: &[u8]) -> Content<'_> {
    Content::of(&Packet { number: 1, time: None, link_type: 1, octets, original_length: octets.len() })
}

fn addresses(sliced: &SlicedPacket<'_>) -> Option<[IpAddr; 2]> {
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            Some([ip.header().source_addr().into(), ip.header().destination_addr().into()])
        }
        Some(NetSlice::Ipv6(ip)) => {
            Some([ip.header().source_addr().into(), ip.header().destination_addr().into()])
        }
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Where etherparse finds a whole segment, the same is found here.
    #[test]
    fn segments_are_those_of_etherparse(recipe in recipe()) {
        let octets = recipe.octets();
        let sliced = SlicedPacket::from_ethernet(&octets);
        let content = of_ethernet(&octets);
        if recipe.changes.is_empty() {
            prop_assert_eq!(matches!(content, Content::Tcp(_)), recipe.is_tcp);
        }
        let Ok(sliced) = sliced else { return Ok(()) };
        let ends = addresses(&sliced);
        match (&sliced.transport, content) {
            (Some(TransportSlice::Tcp(tcp)), Content::Tcp(segment)) => {
                prop_assert_eq!(segment.octets, tcp.slice());
                prop_assert_eq!(Some([segment.source, segment.destination]), ends);
                prop_assert_eq!(segment.missing, 0);
            }
            (Some(TransportSlice::Tcp(_)), content) => {
                prop_assert!(false, "{content:?}");
            }
            (Some(TransportSlice::Udp(_)), Content::Tcp(_)) => {
                prop_assert!(false, "{content:?} of {octets:02x?}");
            }
            // etherparse does not look into tunnels.
            (None, Content::Tcp(_)) => {
                prop_assert!(!sliced.is_ip_payload_fragmented(), "{content:?} of {octets:02x?}");
            }
            _ => {}
        }
    }
}
