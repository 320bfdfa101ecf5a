//! The packets that every library seals and opens.

use wireseal_quic::{AeadAlgorithm, ConnectionId, LongHeader, LongType, NumberLength, Version};

/// The payloads that the benches seal and open, in octets: small packets, the smallest Initial, and what Ethernet carries.
pub(crate) const PAYLOADS: [usize; 5] = [64, 256, 1200, 1350, 1440];

/// The destination connection ID that all keys come from, that of RFC 9001 appendix A.
pub(super) const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
/// The first octet of a short header: fixed bit, and a packet number of four octets.
pub(super) const FIRST: u8 = 0x43;
/// Where the packet number is.
pub(super) const NUMBER: usize = 9;
/// Where the payload is.
pub(super) const PAYLOAD: usize = 13;

/// The first octet of an Initial packet: long header, fixed bit, and a packet number of four octets.
pub(super) const INITIAL_FIRST: u8 = 0xc3;
/// Where the packet number of [`initial_packet`] is.
pub(super) const INITIAL_NUMBER: usize = 18;

/// A packet to seal, with `payload` octets of payload and room for its tag.
pub(crate) fn packet(payload: usize) -> Vec<u8> {
    let mut packet = vec![FIRST];
    packet.extend_from_slice(&CONNECTION_ID);
    packet.extend_from_slice(&[0; 4]);
    packet.extend((0..payload).map(|i| (i * 31) as u8));
    packet.extend_from_slice(&[0; AeadAlgorithm::TAG_LENGTH]);
    packet
}

/// An Initial packet to seal, with room for its tag.
pub(super) fn initial_packet() -> Vec<u8> {
    let payload = 100;
    let mut packet = vec![0; INITIAL_NUMBER + 4 + payload + 16];
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: ConnectionId::new(&CONNECTION_ID).expect("eight octets"),
        source: ConnectionId::new(&[]).expect("no octets"),
        token: &[],
    };
    assert_eq!(header.encode(&mut packet, NumberLength::Four, payload), Ok(INITIAL_NUMBER));
    packet
}
