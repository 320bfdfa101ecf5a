//! What values show as text, in logs and in errors.

use std::fmt::{self, Debug, Display, Write};
use std::time::Duration;

use wireseal_quic::hazmat::KeyOctets;
use wireseal_quic::{
    AeadAlgorithm, AnyLongHeader, Backend, ConnectionId, HeaderError, InitialKeys, LongType, NumberLength,
    OneRttSealer, PacketHeader, PacketNumberCounter, PacketType, Protected, Sealer, TokenKey, TokenKeyId,
    TokenKeys, TokenReplayGuard, Version, VersionNegotiation,
};

use crate::support::schedule::Schedule;
use crate::support::{DESTINATION, Draft, FRAMES, Side, Suite, destination, protected};

const SUITE: Suite =
    Suite { backend: Backend::ALL[0], version: Version::V1, algorithm: AeadAlgorithm::Aes128Gcm };

/// Takes this many octets, and fails then, as a full log file does.
struct Full(usize);

impl Write for Full {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// The text is as expected, and a writer that is full before its end is reported.
fn assert_shows(value: fmt::Arguments<'_>, expected: &str) {
    assert_eq!(value.to_string(), expected);
    for room in 0..expected.len() {
        assert!(Full(room).write_fmt(value).is_err(), "{expected} in {room}");
    }
    assert!(Full(expected.len()).write_fmt(value).is_ok(), "{expected}");
}

fn assert_debug(value: &dyn Debug, expected: &str) {
    assert_shows(format_args!("{value:?}"), expected);
}

fn assert_display(value: &dyn Display, expected: &str) {
    assert_shows(format_args!("{value}"), expected);
}

#[test]
fn packet_fields_are_shown_as_in_quic_logs() {
    let id = ConnectionId::new(&[0x00, 0x0a, 0xff]).unwrap();
    assert_display(&id, "000aff");
    assert_debug(&id, "ConnectionId(000aff)");
    assert_display(&ConnectionId::new(&[]).unwrap(), "");
    assert_debug(&ConnectionId::new(&[]).unwrap(), "ConnectionId()");
    for (version, text) in [
        (Version::V1, "QUIC version 1"),
        (Version::V2, "QUIC version 2"),
        (Version::Draft29, "QUIC draft-29"),
    ] {
        assert_display(&version, text);
    }
    // In a column of a table.
    assert_shows(format_args!("{:>14}|", Version::Draft29), " QUIC draft-29|");
    assert_display(
        &HeaderError::UnknownVersion(0xbaba),
        "unknown QUIC version 0x0000baba (known: 0x00000001 0x6b3343cf 0xff00001d)",
    );
    let long = AnyLongHeader::new(0xbaba, &[1, 2], &[3]);
    assert_debug(&long, "AnyLongHeader { version: 0x0000baba, destination: [1, 2], source: [3], .. }");
    let mut answer = [0; 30];
    let length = VersionNegotiation::write(0, &long, &[1, 0x6b33_43cf], &mut answer).unwrap();
    assert_debug(
        &VersionNegotiation::read(&answer[..length]).unwrap(),
        "VersionNegotiation { destination: [3], source: [1, 2], versions: [0, 0, 0, 1, 107, 51, 67, 207] }",
    );
}

/// Of packets the type and the length, so that a log shows no plaintext that a buffer still holds.
#[test]
fn packets_are_shown_without_their_octets() {
    let mut long = Draft::long(Version::V2, LongType::Handshake, NumberLength::Two, FRAMES);
    let length = long.octets.len();
    let fields = format!("packet_type: Handshake, version: Some(V2), length: {length}, ..");
    let header = PacketHeader::read(&long.octets, 8).unwrap();
    assert_debug(&header, &format!("PacketHeader {{ {fields} }}"));
    assert_debug(&protected(&mut long.octets), &format!("Protected {{ {fields} }}"));
    let datagram = Protected::split(&mut long.octets, DESTINATION.len());
    assert_debug(&datagram, &format!("Coalesced {{ rest: {length}, .. }}"));

    let mut short = Draft::short(NumberLength::Two, FRAMES);
    let length = short.octets.len();
    assert_debug(
        &short.outgoing(),
        &format!("Outgoing {{ length: {length}, number_offset: 9, number_length: Two, .. }}"),
    );
    let sealed = Schedule::new(SUITE, Side::Client).seal(0, 0, 7, FRAMES);
    let (packet_key, header_key) = SUITE.keys_for(Side::Client, PacketType::OneRtt).into_parts();
    let mut packet = sealed.clone();
    let unmasked = header_key.unmask(protected(&mut packet), None).unwrap();
    let fields = format!("packet_type: OneRtt, version: None, length: {}, ..", sealed.len());
    assert_debug(&unmasked, &format!("Unmasked {{ number: 7, packet: Protected {{ {fields} }}, .. }}"));
    let opened = unmasked.open_by(&packet_key, Default::default()).unwrap();
    assert_debug(
        &opened,
        "Opened { number: 7, packet_type: OneRtt, key_phase: false, generation: 0, \
         header: [67, 208, 209, 210, 211, 212, 213, 214, 215, 0, 0, 0, 7], .. }",
    );
}

/// Of keys what they are for.
#[test]
fn keys_are_shown_without_their_octets() {
    let keys = |packet_type| SUITE.keys_for(Side::Client, packet_type);
    let (packet_key, header_key) = keys(PacketType::OneRtt).into_parts();
    assert_debug(&packet_key, "PacketKey { algorithm: Aes128Gcm, .. }");
    assert_debug(&header_key, "HeaderKey { algorithm: Aes128Gcm, .. }");
    let secret = SUITE.secret(Side::Client);
    assert_debug(&secret, "TrafficSecret { algorithm: Aes128Gcm, .. }");
    let octets = KeyOctets::derive(Version::V1, &secret);
    assert_debug(&octets, "KeyOctets { algorithm: Aes128Gcm, .. }");
    let shown = "Keys { algorithm: Aes128Gcm, version: V2, packet_type: Initial, .. }";
    let initial = InitialKeys::new(Version::V2, &destination());
    assert_debug(&initial, &format!("InitialKeys {{ client: {shown}, server: {shown} }}"));

    let counter = || PacketNumberCounter::starting_at(5).unwrap();
    let counted = format!("counter: {:?}, sealed: 0, ..", counter());
    let sealer = Sealer::new(keys(PacketType::ZeroRtt), counter());
    assert_debug(&sealer, &format!("Sealer {{ algorithm: Aes128Gcm, {counted} }}"));
    let one_rtt = format!(
        "OneRtt {{ version: V1, sealer: Sealer {{ algorithm: Aes128Gcm, {counted} }}, generation: 0, first: None, \
         acknowledged: false, opened: None, answered: false, largest_acknowledged: None, confirmed: false, \
         has_previous_key: false, has_next_keys: true, .. }}"
    );
    let early =
        OneRttSealer::new(Version::V1, SUITE.secret(Side::Client), SUITE.secret(Side::Server), counter());
    assert_debug(&early, &format!("OneRttSealer({one_rtt})"));
    assert_debug(&early.complete_handshake(), &one_rtt);

    assert_debug(&TokenKey::new(&[7; 32]), "TokenKey { .. }");
    let id = TokenKeyId::new(3).unwrap();
    let token_keys = TokenKeys::<2>::new(id, TokenKey::new(&[7; 32]));
    assert_debug(&token_keys, "TokenKeys { sealing: TokenKeyId(3), .. }");
    let guard = TokenReplayGuard::<4>::new(Duration::from_secs(60), Duration::ZERO);
    assert_debug(&guard, "TokenReplayGuard { lifetime: 60s, .. }");
}
