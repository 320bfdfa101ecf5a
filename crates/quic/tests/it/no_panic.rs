//! No input panics: neither octets from the network nor wrong arguments.

use proptest::prelude::*;
use proptest::sample::Index;
use wireseal_quic::hazmat::PathId;
use wireseal_quic::{
    ConnectionId, InitialKeys, LongHeader, LongType, MAX_PACKET_NUMBER, NumberLength, OpenError, Outgoing,
    PacketNumberCounter, PacketType, Protected, Sealer, Version, decode_packet_number, decode_varint,
};

use crate::support::schedule::Schedule;
use crate::support::{
    DESTINATION, Draft, Level, NUMBER_LENGTHS, Receiver, Side, Suite, phases_with_keys, protected,
    suites_of_one_version,
};

/// Arbitrary octets, and octets that start like packets.
fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let octets = |length| prop::collection::vec(any::<u8>(), length);
    let version = prop::sample::select(vec![0_u32, 1, 2, 0x6b33_43cf, 0xff00_001d]);
    let length = prop_oneof![0..22_u8, any::<u8>()];
    let long = (any::<u8>(), version, length.clone(), length, octets(0..200)).prop_map(
        |(first, version, destination, source, rest)| {
            let mut datagram = vec![first | 0x80];
            datagram.extend(version.to_be_bytes());
            datagram.push(destination);
            datagram.extend(std::iter::repeat_n(0xd0, destination.into()));
            datagram.push(source);
            datagram.extend(std::iter::repeat_n(0x50, source.into()));
            datagram.extend(rest);
            datagram
        },
    );
    let short = octets(0..100).prop_map(|mut octets| {
        octets.insert(0, 0x40);
        octets
    });
    prop_oneof![
        octets(0..1500),
        octets(0..60),
        short,
        long.clone(),
        (long.clone(), long).prop_map(|(a, b)| [a, b].concat())
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn q_49_datagrams_do_not_panic(
        datagram in datagram(),
        connection_id_length in prop_oneof![0..30_usize, any::<usize>()],
        which in any::<Index>(),
    ) {
        let suites: Vec<_> = suites_of_one_version().collect();
        let suite = *which.get(&suites);
        let mut end = suite.end(Side::Server);
        for with_one_rtt in [false, true] {
            let mut copy = datagram.clone();
            for packet in Protected::split(&mut copy, connection_id_length).filter_map(Result::ok) {
                let received = packet.octets().to_vec();
                prop_assert!(packet.destination().len() + packet.source().len() + packet.token().len() < received.len());
                let failed = if with_one_rtt {
                    end.open_parsed(packet)
                } else {
                    let suite = Suite { version: packet.version().unwrap_or(Version::V1), ..suite };
                    suite.level(packet.packet_type()).open_parsed(packet)
                };
                let failed = failed.unwrap_err();
                prop_assert!(matches!(failed, OpenError::AuthenticationFailed | OpenError::Undecryptable));
            }
        }
        prop_assert_eq!((end.space.largest(), phases_with_keys(&end.one_rtt)), (None, 2));
    }

    /// Initial keys are public, so an attacker can put anything in an Initial packet.
    #[test]
    fn q_49_authentic_initial_packets_do_not_panic(first: u8, number: u32, payload in prop::collection::vec(any::<u8>(), 4..60)) {
        for suite in suites_of_one_version() {
            let mut schedule = Schedule::new(suite, Side::Client);
            let mut end = suite.end(Side::Server);
            for number in [number, number.wrapping_add(1), number.wrapping_sub(300)] {
                let packet = schedule.seal(u64::from(first & 4 != 0), first & 0x1c, number.into(), &payload);
                let _ = end.open(&packet);
            }
            let _ = end.one_rtt.acknowledged(number.into(), first.into(), end.now());
        }
    }

    #[test]
    fn q_49_what_a_caller_gets_wrong_does_not_panic(
        mut buffer in prop::collection::vec(any::<u8>(), 0..100),
        number_offset in prop_oneof![0..110_usize, any::<usize>()],
        length in 0..4_usize,
        payload_length: usize,
    ) {
        for suite in suites_of_one_version() {
            let (mut sealer, mut one_rtt) = (suite.sealer(), suite.end(Side::Client).one_rtt);
            let mut handshake = suite.sealer_for(PacketType::Handshake, PacketNumberCounter::new());
            let _ = handshake.seal(Outgoing { packet: &mut buffer.clone(), number_offset, number_length: NUMBER_LENGTHS[length] });
            let mut copies = [(); 2].map(|()| buffer.clone());
            let [a, b] = copies.each_mut().map(|packet| Outgoing { packet, number_offset, number_length: NUMBER_LENGTHS[length] });
            let by_sealer = sealer.seal(a);
            let is_long = buffer.first().is_some_and(|first| first & 0x80 != 0);
            prop_assert_eq!(one_rtt.seal(b).is_ok(), by_sealer.is_ok() && !is_long);
        }
        let id = ConnectionId::new(&[1; 20]).unwrap();
        let header = LongHeader { version: Version::V2, packet_type: LongType::Initial, destination: id, source: id, token: &[1; 70] };
        let _ = header.encode(&mut buffer, NUMBER_LENGTHS[length], payload_length);
    }

    #[test]
    fn q_49_hazmat_does_not_panic(
        path: u32,
        number: u64,
        header in prop::collection::vec(any::<u8>(), 0..60),
        mut body in prop::collection::vec(any::<u8>(), 0..60),
        sample: [u8; 16],
        first: u8,
    ) {
        for suite in suites_of_one_version() {
            let mut schedule = Schedule::new(suite, Side::Client);
            let (key, header_key) = (schedule.packet_key(0), schedule.header_key());
            prop_assert!(key.open(PathId(path), number, &header, &mut body.clone()).is_none());
            prop_assert_eq!(key.seal(PathId(path), number, &header, &mut body).is_ok(), number <= MAX_PACKET_NUMBER);
            // Numbers of any length, zero included.
            let (mut head, mut octets) = (first, header.clone());
            header_key.protect(&sample, &mut head, &mut octets);
            header_key.unprotect(&sample, &mut head, &mut octets);
            prop_assert_eq!((head, &octets), (first, &header));
        }
    }

    #[test]
    fn q_49_numbers_do_not_panic(largest: Option<u64>, truncated: u32, value: u64, octets in prop::collection::vec(any::<u8>(), 0..12)) {
        for length in NUMBER_LENGTHS {
            let _ = decode_packet_number(largest, truncated, length);
            let _ = NumberLength::needed(value, largest);
            let _ = NumberLength::advised(value, largest);
        }
        if let Some((value, length)) = decode_varint(&octets) {
            prop_assert!(value <= MAX_PACKET_NUMBER && length <= octets.len());
        }
        let mut counter = PacketNumberCounter::new();
        counter.skip(value);
        counter.skip(value);
    }
}

/// A sealed packet cut and stretched to every length.
#[test]
fn q_49_packets_of_every_length_do_not_panic() {
    for &version in Version::ALL {
        let id = ConnectionId::new(&DESTINATION).unwrap();
        let keys = || InitialKeys::new(version, &id).client;
        let mut draft = Draft::long(version, LongType::Initial, NUMBER_LENGTHS[0], &[0; 30]);
        Sealer::new(keys(), PacketNumberCounter::new()).seal(draft.outgoing()).unwrap();
        let complete = draft.octets.len();
        for length in 0..complete + 20 {
            let mut datagram = draft.octets.clone();
            datagram.resize(length, 0);
            let mut level = Level::new(keys());
            let opened = Protected::split(&mut datagram, DESTINATION.len())
                .filter_map(|packet| level.open_parsed(packet.ok()?).ok())
                .count();
            assert_eq!(opened, usize::from(length >= complete), "{length}");
        }
        assert_eq!(protected(&mut draft.octets).octets().len(), complete);
    }
}
