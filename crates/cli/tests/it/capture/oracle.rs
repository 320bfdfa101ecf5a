//! Packets as etherparse reads them.

use std::net::IpAddr;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId};
use proptest::prelude::*;
use wireseal::capture::{Content, Packet};

#[derive(Clone, Debug)]
struct Recipe {
    is_ipv6: bool,
    vlans: usize,
    is_tcp: bool,
    payload: Vec<u8>,
    padding: usize,
    /// Octets that are overwritten, by place.
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

fn of(octets: &[u8]) -> Content<'_> {
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

    /// What etherparse takes for a whole segment is the same one here.
    #[test]
    fn segments_are_those_of_etherparse(recipe in recipe()) {
        let octets = recipe.octets();
        let sliced = SlicedPacket::from_ethernet(&octets);
        let content = of(&octets);
        if recipe.changes.is_empty() {
            prop_assert_eq!(matches!(content, Content::Tcp(_)), recipe.is_tcp);
        }
        let Ok(sliced) = sliced else { return Ok(()) };
        let ends = addresses(&sliced);
        match (sliced.transport, content) {
            (Some(TransportSlice::Tcp(tcp)), Content::Tcp(segment)) => {
                prop_assert_eq!(segment.octets, tcp.slice());
                prop_assert_eq!(Some([segment.source, segment.destination]), ends);
                prop_assert_eq!(segment.missing, 0);
            }
            (Some(TransportSlice::Tcp(_)), content) => {
                prop_assert!(false, "{content:?}");
            }
            (Some(TransportSlice::Udp(_)) | None, Content::Tcp(_)) => {
                prop_assert!(false, "{content:?} of {octets:02x?}");
            }
            _ => {}
        }
    }
}
