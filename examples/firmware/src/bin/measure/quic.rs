//! A client's first packet: derived keys, sealed, opened.

use core::hint::black_box;

use firmware::initial;
use wireseal_quic::{
    ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing, PacketNumberCounter, Sealer,
    Version,
};

use crate::bench::Bench;

/// RFC 9001 appendix A: the destination connection ID that the client chose.
const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// Seals an Initial packet of 1,200 octets, and opens it.
pub fn measure(bench: &mut Bench) {
    let Ok(destination) = ConnectionId::new(&CONNECTION_ID) else { return };
    let keys = bench
        .step(("QUIC", "derive Initial keys"), || InitialKeys::new(Version::V1, black_box(&destination)));
    let mut sealer = Sealer::new(keys.client, PacketNumberCounter::new());
    let Ok(source) = ConnectionId::new(&[]) else { return };
    let header =
        LongHeader { version: Version::V1, packet_type: LongType::Initial, destination, source, token: &[] };
    let mut datagram = [0; 1200];
    let number_length = NumberLength::Two;
    // First octet, version, connection IDs, token, length and number; the tag.
    let payload = datagram.len() - (1 + 4 + 9 + 1 + 1 + 2 + 2) - 16;
    let Ok(number_offset) = header.encode(&mut datagram, number_length, payload) else { return };
    let sealed = bench.step(("QUIC", "seal an Initial packet of 1,200 octets"), || {
        sealer.seal(Outgoing { packet: &mut datagram, number_offset, number_length })
    });
    let opened = bench.step(("QUIC", "derive its keys from its header, and open it"), || {
        initial::open(&mut datagram).is_some()
    });
    assert!(sealed.is_ok() && opened);
}
