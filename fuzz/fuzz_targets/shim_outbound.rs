//! One packet from a stack, a new shim, an MTU and the room before the packet: the result is signed, fits, and the peer accepts it.
//!
//! Input: four octets (two of MTU, one for how much smaller the stack's MTU is, one of room) and the packet, which is sent after a
//! handshake unless it is a SYN.
#![no_main]

use std::net::IpAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_fuzz::{hosts, slow};
use wireseal_tcp_ao::shim::{HashKey, OPTION_ROOM, PeerSlot, Shim, ShimConfig, ShimSlot};
use wireseal_tcp_ao::{ConnectionIdentifier, MktSet, Peer};

type ShimOf = Shim<Vec<PeerSlot>, Vec<ShimSlot>>;

/// A shim that protects all addresses.
fn shim(config: ShimConfig, send_id: u8, recv_id: u8) -> ShimOf {
    let mkts =
        MktSet::from_mkts([hosts::mkt(0, send_id, recv_id, TcpAoAlgorithm::Aes128Cmac)]).expect("one key");
    // Some IPv6 addresses are IPv4-mapped.
    let everything = "::/0".parse().expect("a network");
    let peer = Peer { connections: ConnectionIdentifier::between(everything, everything), mkts };
    Shim::new(config, HashKey::new([7; 16]), vec![peer.into()], vec![ShimSlot::EMPTY, ShimSlot::EMPTY])
        .expect("one peer")
}

/// Opens the connection of a segment other than a SYN, with a handshake between both shims.
fn connect(sender: &mut ShimOf, receiver: &mut ShimOf, packet: &[u8]) -> Option<()> {
    let found = slow::tcp_packet(packet).filter(|found| !found.is_routed_on && found.tcp.len() >= 20)?;
    let (source, destination) = (&found.tcp[..2], &found.tcp[2..4]);
    let mut step = |is_forth: bool, flags, numbers: (u32, u32)| {
        let (a, b) = if is_forth { found.addresses } else { (found.addresses.1, found.addresses.0) };
        let ports = if is_forth { [source, destination] } else { [destination, source] };
        let (sequence, acknowledgment) = (numbers.0.to_be_bytes(), numbers.1.to_be_bytes());
        let fields = [0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
        let tcp = [&ports.concat()[..], &sequence, &acknowledgment, &fields].concat();
        let ip = match (a, b) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                [&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0][..], &a.octets(), &b.octets()].concat()
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                [&[0x60, 0, 0, 0, 0, 20, 6, 64][..], &a.octets(), &b.octets()].concat()
            }
            _ => return None,
        };
        let mut buffer = [&[0; OPTION_ROOM][..], &ip, &tcp].concat();
        let (from, to) =
            if is_forth { (&mut *sender, &mut *receiver) } else { (&mut *receiver, &mut *sender) };
        let range = from.outbound(Duration::ZERO, &mut buffer, OPTION_ROOM).ok()?;
        to.inbound(Duration::ZERO, &mut buffer[range]).ok().map(|_| ())
    };
    step(true, 0x02, (0x1000, 0))?;
    step(false, 0x12, (0x2000, 0x1001))?;
    step(true, 0x10, (0x1001, 0x2001))
}

fuzz_target!(|input: &[u8]| {
    let [high, low, smaller, room, packet @ ..] = input else { return };
    let mtu = usize::from(u16::from_be_bytes([*high, *low]));
    let config = ShimConfig { stack_mtu: mtu.saturating_sub(usize::from(*smaller)), ..ShimConfig::new(mtu) };
    let (mut sender, mut receiver) = (shim(config, 1, 2), shim(config, 2, 1));
    // The peer refuses packets that are routed on or have a home address.
    if slow::tcp_packet(packet).is_some_and(|found| found.is_routed_on) {
        return;
    }
    if let Some(flags) = slow::tcp_packet(packet).and_then(|found| found.tcp.get(13).copied()) {
        // SYN together with RST means nothing (RFC 9293 §3.10.7), so no peer accepts them.
        match flags & 0x16 {
            0x06 | 0x16 => return,
            0x02 => {}
            _ => drop(connect(&mut sender, &mut receiver, packet)),
        }
    }
    let connections = sender.connections().count();
    let room = usize::from(*room);
    let mut buffer = [&vec![0xa5; room][..], packet].concat();
    let Ok(range) = sender.outbound(Duration::ZERO, &mut buffer, room) else {
        assert_eq!(sender.connections().count(), connections, "a refused packet opens nothing");
        return;
    };
    let sent = &mut buffer[range];
    let Some(found) = slow::tcp_packet(sent) else {
        assert!(packet.starts_with(sent), "what is not TCP passes as it is");
        return;
    };
    assert!(!found.is_fragment && sent.len() <= mtu);
    slow::assert_checksums(sent);
    let (before, on_link) =
        (parts(slow::tcp_packet(packet).expect("it was TCP before").tcp), parts(found.tcp));
    assert_eq!((before.fixed, before.payload.len()), (on_link.fixed, on_link.payload.len()));
    assert!(slow::ao(on_link.options).expect("options that are well formed").is_some());
    assert_eq!(sender.connections().count(), 1);
    let delivered = receiver.inbound(Duration::ZERO, sent).expect("the peer verifies it");
    let delivered = parts(slow::tcp_packet(&sent[delivered]).expect("still TCP").tcp);
    assert!(before.payload.starts_with(delivered.payload) && before.fixed == delivered.fixed);
    assert_eq!(before.others(), delivered.others());
});

/// A segment in parts: the fixed part, options, payload.
struct Parts<'a> {
    fixed: [u8; 17],
    options: &'a [u8],
    payload: &'a [u8],
}

impl Parts<'_> {
    /// The options except the MSS, which depends on the path, SACK blocks and Fast Open cookies, which are dropped to make room, and Multipath
    /// TCP's MP_CAPABLE (RFC 8684 §3.1), which is taken out.
    fn others(&self) -> Vec<(u8, Vec<u8>)> {
        let (options, is_well_formed) = slow::options(self.options);
        assert!(is_well_formed);
        let is_offer = |(kind, _, data): &(u8, _, &[u8])| {
            *kind == 30 && data.first().is_some_and(|first| first >> 4 == 0)
        };
        let others =
            options.into_iter().filter(|option| ![2, 5, 34].contains(&option.0) && !is_offer(option));
        others.map(|(kind, _, data)| (kind, data.to_vec())).collect()
    }
}

fn parts(tcp: &[u8]) -> Parts<'_> {
    let (header, payload) = tcp.split_at(usize::from(tcp[12] >> 4) * 4);
    let mut fixed = [0; 17];
    fixed[..12].copy_from_slice(&header[..12]);
    fixed[12..15].copy_from_slice(&header[13..16]);
    fixed[15..].copy_from_slice(&header[18..20]);
    Parts { fixed, options: &header[20..], payload }
}
