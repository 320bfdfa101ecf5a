//! QUIC: Initial keys, a Retry, and a key update, against the examples of RFC 9001.

use core::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, ConnectionId, InitialKeys, LongHeader, LongType, Now,
    NumberLength, OneRtt, OneRttSealer, Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace,
    Retry, Sealer, ShortHeader, TrafficSecret, Version,
};

/// RFC 9001 appendix A: the destination connection ID that the client chose.
const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// RFC 9001 appendix A.3: the server's first packet.
const SERVER_INITIAL: [u8; 135] = [
    0xcf, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5, 0x00, 0x40,
    0x75, 0xc0, 0xd9, 0x5a, 0x48, 0x2c, 0xd0, 0x99, 0x1c, 0xd2, 0x5b, 0x0a, 0xac, 0x40, 0x6a, 0x58, 0x16,
    0xb6, 0x39, 0x41, 0x00, 0xf3, 0x7a, 0x1c, 0x69, 0x79, 0x75, 0x54, 0x78, 0x0b, 0xb3, 0x8c, 0xc5, 0xa9,
    0x9f, 0x5e, 0xde, 0x4c, 0xf7, 0x3c, 0x3e, 0xc2, 0x49, 0x3a, 0x18, 0x39, 0xb3, 0xdb, 0xcb, 0xa3, 0xf6,
    0xea, 0x46, 0xc5, 0xb7, 0x68, 0x4d, 0xf3, 0x54, 0x8e, 0x7d, 0xde, 0xb9, 0xc3, 0xbf, 0x9c, 0x73, 0xcc,
    0x3f, 0x3b, 0xde, 0xd7, 0x4b, 0x56, 0x2b, 0xfb, 0x19, 0xfb, 0x84, 0x02, 0x2f, 0x8e, 0xf4, 0xcd, 0xd9,
    0x37, 0x95, 0xd7, 0x7d, 0x06, 0xed, 0xbb, 0x7a, 0xaf, 0x2f, 0x58, 0x89, 0x18, 0x50, 0xab, 0xbd, 0xca,
    0x3d, 0x20, 0x39, 0x8c, 0x27, 0x64, 0x56, 0xcb, 0xc4, 0x21, 0x58, 0x40, 0x7d, 0xd0, 0x74, 0xee,
];

/// RFC 9001 appendix A.4.
const RETRY: [u8; 36] = [
    0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5, 0x74, 0x6f,
    0x6b, 0x65, 0x6e, 0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24,
    0x96, 0xba,
];

/// RFC 9001 appendix A.5: a traffic secret for ChaCha20-Poly1305, and a PING protected with it.
const SECRET: [u8; 32] = [
    0x9a, 0xc3, 0x12, 0xa7, 0xf8, 0x77, 0x46, 0x8e, 0xbe, 0x69, 0x42, 0x27, 0x48, 0xad, 0x00, 0xa1, 0x54,
    0x43, 0xf1, 0x82, 0x03, 0xa0, 0x7d, 0x60, 0x60, 0xf6, 0x88, 0xf3, 0x0f, 0x21, 0x63, 0x2b,
];
/// The packet with number 654,360,564.
const PING: [u8; 21] = [
    0x4c, 0xfe, 0x41, 0x89, 0x65, 0x5e, 0x5c, 0xd5, 0x5c, 0x41, 0xf6, 0x90, 0x80, 0x57, 0x5d, 0x79, 0x99,
    0xc2, 0x5a, 0x5b, 0xfb,
];

/// Opens all of these packets, and seals them again.
pub fn exchange() -> Option<()> {
    let original_destination = ConnectionId::new(&CONNECTION_ID).ok()?;
    let keys = InitialKeys::new(Version::V1, &original_destination);
    let mut failures = AuthenticationFailures::new();

    let mut datagram = SERVER_INITIAL;
    let (packet, rest) = Protected::split_first(&mut datagram, 0).ok()?;
    let opened = keys.server.open(packet, &mut ReceiveSpace::new(), &mut failures).ok()?;
    // The ACK frame at the start of the payload.
    (rest.is_empty() && opened.number == 1 && opened.payload.starts_with(&[2, 0, 0, 0, 0])).then_some(())?;

    let retry = Retry::open(Version::V1, &original_destination, &RETRY).ok()?;
    (retry.token == b"token").then_some(())?;
    let mut other = RETRY;
    other[20] ^= 1;
    Retry::open(Version::V1, &original_destination, &other).is_err().then_some(())?;

    // The client continues with keys from the Retry's connection ID, and with the next number.
    let counter = PacketNumberCounter::starting_at(1).ok()?;
    let [ours, theirs] = [(); 2].map(|()| InitialKeys::new(Version::V1, &retry.source));
    let header = LongHeader {
        version: Version::V1,
        packet_type: LongType::Initial,
        destination: retry.source,
        source: retry.destination,
        token: retry.token,
    };
    let mut datagram = [0; 1200];
    let number_length = NumberLength::Two;
    // First octet, version, two connection IDs, token, length and number; the payload; the tag.
    let payload_length = datagram.len() - (1 + 4 + 9 + 1 + 6 + 2 + 2) - 16;
    let number_offset = header.encode(&mut datagram, number_length, payload_length).ok()?;
    let outgoing = Outgoing { packet: &mut datagram, number_offset, number_length };
    (Sealer::new(ours.client, counter).seal(outgoing).ok()? == 1).then_some(())?;
    let (packet, _) = Protected::split_first(&mut datagram, 0).ok()?;
    (packet.packet_type() == PacketType::Initial && packet.token() == b"token").then_some(())?;
    let opened = theirs.client.open(packet, &mut ReceiveSpace::new(), &mut failures).ok()?;
    (opened.number == 1 && opened.payload.len() == payload_length).then_some(())?;

    key_update()
}

/// Seals the PING of RFC 9001, updates the keys, and exchanges packets with a peer.
fn key_update() -> Option<()> {
    let secret = |octets: &[u8; 32]| TrafficSecret::new(AeadAlgorithm::ChaCha20Poly1305, octets).ok();
    let end = |local: &[u8; 32], remote: &[u8; 32], first| {
        let counter = PacketNumberCounter::starting_at(first).ok()?;
        Some(OneRttSealer::new(Version::V1, secret(local)?, secret(remote)?, counter).complete_handshake())
    };
    let (mut client, mut server) = (end(&SECRET, &[7; 32], 654_360_564)?, end(&[7; 32], &SECRET, 0)?);
    let mut spaces = [ReceiveSpace::new(), ReceiveSpace::new()];
    let mut failures = [AuthenticationFailures::new(), AuthenticationFailures::new()];
    let now = Now { time: Duration::ZERO, probe_timeout: Duration::from_millis(100) };

    // The packet of RFC 9001 §A.5 has three octets of its number, so the number before is acknowledged.
    client.acknowledged(654_360_563, 0, now).ok()?;
    (seal(&mut client, NumberLength::Three)? == PING).then_some(())?;

    client.confirm_handshake();
    client.initiate_update(now.time).ok()?;
    let mut after: [u8; 22] = seal(&mut client, NumberLength::Four)?;
    let (packet, _) = Protected::split_first(&mut after, 0).ok()?;
    let opened = server.open(packet, now, &mut spaces[0], &mut failures[0]).ok()?;
    (opened.payload == [1] && opened.key_phase && server.generation() == 1).then_some(())?;

    let mut answer: [u8; 30] = seal(&mut server, NumberLength::One)?;
    let (packet, _) = Protected::split_first(&mut answer, 0).ok()?;
    let opened = client.open(packet, now, &mut spaces[1], &mut failures[1]).ok()?;
    client.acknowledged(654_360_565, opened.generation, now).ok()
}

/// A packet of PING frames.
fn seal<const N: usize>(end: &mut OneRtt, number_length: NumberLength) -> Option<[u8; N]> {
    let mut packet = [1; N];
    let number_offset =
        ShortHeader { destination: ConnectionId::new(&[]).ok()?, spin: false }.encode(&mut packet).ok()?;
    end.seal(Outgoing { packet: &mut packet, number_offset, number_length }).ok()?;
    Some(packet)
}
