//! Neither packets nor key updates allocate. A test binary of its own, because it counts with a global allocator.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

#[allow(dead_code, unused_imports, reason = "the other tests use all of it")]
#[path = "it/support/mod.rs"]
mod support;

use allocation_counter::measure;
use support::{DESTINATION, Draft, PROBE_TIMEOUT, Side, destination, protected, suites};
use wireseal_quic::{
    AeadAlgorithm, ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, OneRttSealer, OpenError,
    Outgoing, PacketNumberCounter, PacketType, Protected, ReceiveSpace, ShortHeader, TrafficSecret,
};

/// Runs it twice, because libraries detect the processor the first time.
fn assert_allocates_nothing(what: &str, run: impl FnMut()) {
    assert_allocates(false, what, run);
}

fn assert_allocates(something: bool, what: &str, mut run: impl FnMut()) {
    run();
    let count = measure(run).count_total;
    assert_eq!(count > 0, something, "{what}: {count}");
}

#[test]
fn q_49_the_counter_counts() {
    assert_eq!(measure(|| drop(std::hint::black_box(vec![1u8; 100]))).count_total, 1);
}

#[test]
fn q_49_sealing_and_opening_allocate_nothing() {
    for suite in suites() {
        let [mut client, mut server] = suite.ends();
        let mut sealer = suite.sealer_for(PacketType::Handshake, PacketNumberCounter::new());
        let keys = suite.keys_for(Side::Client, PacketType::Handshake);
        let [draft, long] = Draft::both(suite.version, NumberLength::Four, &[7; 1200]);
        let (mut one, mut other) = (draft.clone(), long.clone());
        let mut space = ReceiveSpace::new();
        assert_allocates_nothing("seal and open", || {
            one.octets.copy_from_slice(&draft.octets);
            other.octets.copy_from_slice(&long.octets);
            client.one_rtt.seal(one.outgoing()).unwrap();
            sealer.seal(other.outgoing()).unwrap();
            let (now, failures) = (server.now(), &mut server.failures);
            server.one_rtt.open(protected(&mut one.octets), now, &mut server.space, failures).unwrap();
            for packet in Protected::split(&mut other.octets, DESTINATION.len()) {
                keys.open(packet.unwrap(), &mut space, failures).unwrap();
            }
        });
        let mut forged = draft.octets.clone();
        assert_allocates_nothing("failures", || {
            let (now, failures) = (server.now(), &mut server.failures);
            let opened = server.one_rtt.open(protected(&mut forged), now, &mut server.space, failures);
            assert_eq!(opened.unwrap_err(), OpenError::AuthenticationFailed);
            let mut short = [0x40; 20];
            keys.open(protected(&mut short), &mut space, failures).unwrap_err();
            let outgoing =
                Outgoing { packet: &mut short, number_offset: 9, number_length: NumberLength::One };
            client.one_rtt.seal(outgoing).unwrap_err();
        });
    }
}

#[test]
fn q_49_keys_and_their_updates_allocate_nothing_but_the_keys_of_aws_lc_rs() {
    for suite in suites() {
        let is_aws_lc_rs = suite.backend.name() == "aws-lc-rs";
        let is_on_heap = is_aws_lc_rs && suite.algorithm != AeadAlgorithm::Aes128Ccm;
        let [mut client, mut server] = suite.ends();
        let mut draft = Draft::short(NumberLength::Four, &[7; 1200]);
        assert_allocates(is_on_heap, "key update", || {
            client.one_rtt.initiate_update(client.time).unwrap();
            for _ in 0..2 {
                let number = client.one_rtt.seal(draft.outgoing()).unwrap();
                let (packet, now) = (protected(&mut draft.octets), server.now());
                let opened =
                    server.one_rtt.open(packet, now, &mut server.space, &mut server.failures).unwrap();
                client.one_rtt.acknowledged(number, opened.generation, client.now()).unwrap();
                std::mem::swap(&mut client, &mut server);
            }
            for end in [&mut client, &mut server] {
                end.time += 3 * PROBE_TIMEOUT;
                end.one_rtt.expire(end.time);
            }
        });
        assert_eq!((client.one_rtt.generation(), server.one_rtt.generation()), (2, 2));
        let secret =
            || TrafficSecret::new(suite.algorithm, &[7; 48][..suite.algorithm.secret_length()]).unwrap();
        // Keys of Initial packets are of AES-128-GCM.
        assert_allocates(is_aws_lc_rs, "keys of a connection", || {
            drop(InitialKeys::with_backend(suite.backend, suite.version, &destination()));
            let counter = PacketNumberCounter::new();
            drop(OneRttSealer::with_backend(suite.backend, suite.version, secret(), secret(), counter));
        });
    }
}

#[test]
fn q_49_headers_allocate_nothing() {
    let mut datagram = [0; 1200];
    assert_allocates_nothing("headers", || {
        let (destination, source) = (destination(), ConnectionId::new(&[5; 20]).unwrap());
        let short = ShortHeader { destination, spin: true };
        assert_eq!(short.encode(&mut datagram), Ok(9));
        for &version in wireseal_quic::Version::ALL {
            let header =
                LongHeader { version, packet_type: LongType::Initial, destination, source, token: &[1; 200] };
            header.encode(&mut datagram, NumberLength::One, 100).unwrap();
            let packets = Protected::split(&mut datagram, 8);
            assert_eq!(packets.filter(|packet| packet.is_ok()).count(), 1);
        }
        let mut counter = PacketNumberCounter::new();
        counter.skip(5);
    });
}
