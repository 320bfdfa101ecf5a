//! How often a key may be used (RFC 9001 §6.6 and §B), with every packet counted.

use std::time::Duration;

use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, Now, NumberLength, OpenError, Outgoing, PacketType,
    ReceiveSpace, SealError, Version,
};

use crate::support::{
    Draft, FRAMES, Receiver, Side, Suite, TAG, deliver, forged, protected, suites_of_one_version,
    update_fully,
};

/// RFC 9001 §6.6, and §B.2 for 2^21.5.
const LIMITS: [(AeadAlgorithm, Option<u64>, u64); 4] = [
    (AeadAlgorithm::Aes128Gcm, Some(8_388_608), 4_503_599_627_370_496),
    (AeadAlgorithm::Aes256Gcm, Some(8_388_608), 4_503_599_627_370_496),
    (AeadAlgorithm::ChaCha20Poly1305, None, 68_719_476_736),
    (AeadAlgorithm::Aes128Ccm, Some(2_965_820), 2_965_820),
];

/// Seals this many of the smallest packets.
fn seal_many(mut seal: impl FnMut(Outgoing<'_>) -> Result<u64, SealError>, count: u64) {
    let mut draft = Draft::short(NumberLength::Four, b"1");
    for _ in 0..count {
        seal(draft.outgoing()).unwrap();
    }
}

/// Every attempt to seal fails.
fn assert_at_limit(mut seal: impl FnMut(Outgoing<'_>) -> Result<u64, SealError>) {
    let mut draft = Draft::short(NumberLength::Four, FRAMES);
    let untouched = draft.octets.clone();
    for _ in 0..3 {
        assert_eq!(seal(draft.outgoing()), Err(SealError::ConfidentialityLimit));
    }
    assert_eq!(draft.octets, untouched);
}

#[test]
fn q_37_the_confidentiality_limit_is_where_it_should_be() {
    for (algorithm, limit, _) in LIMITS {
        assert_eq!(algorithm.confidentiality_limit(), limit);
        // One backend is enough: backends do not count.
        let suite = Suite { backend: Backend::active(), version: Version::V1, algorithm };
        let mut one_rtt = suite.end(Side::Client).one_rtt;
        assert_eq!(one_rtt.remaining(), limit);
        let Some(limit) = limit else {
            seal_many(|packet| one_rtt.seal(packet), 100_000);
            assert_eq!((one_rtt.remaining(), one_rtt.update_due()), (None, false));
            continue;
        };
        // `update_due` becomes true at half the limit.
        seal_many(|packet| one_rtt.seal(packet), limit / 2 - 1);
        assert_eq!((one_rtt.update_due(), one_rtt.remaining()), (false, Some(limit / 2 + 1)));
        seal_many(|packet| one_rtt.seal(packet), 1);
        assert_eq!((one_rtt.update_due(), one_rtt.remaining()), (true, Some(limit / 2)));
        seal_many(|packet| one_rtt.seal(packet), limit / 2);
        assert_eq!(one_rtt.remaining(), Some(0));
        assert_at_limit(|packet| one_rtt.seal(packet));
        assert_eq!(one_rtt.next_number(), Some(limit));
        // A key update renews the allowance, and numbers continue.
        one_rtt.confirm_handshake();
        one_rtt.initiate_update(Duration::ZERO).unwrap();
        assert_eq!((one_rtt.update_due(), one_rtt.remaining()), (false, Some(limit)));
        assert_eq!(one_rtt.seal(Draft::short(NumberLength::Four, FRAMES).outgoing()), Ok(limit));
        assert_eq!(one_rtt.remaining(), Some(limit - 1));
    }
}

#[test]
fn q_37_every_packet_counts_once_and_failures_do_not() {
    for suite in suites_of_one_version() {
        let (mut sealer, mut one_rtt) = (suite.sealer(), suite.end(Side::Client).one_rtt);
        let [mut good, mut short] = [FRAMES, b""].map(|payload| Draft::short(NumberLength::One, payload));
        assert!(sealer.seal(good.outgoing()).is_ok() && one_rtt.seal(good.outgoing()).is_ok());
        assert!(sealer.seal(short.outgoing()).is_err() && one_rtt.seal(short.outgoing()).is_err());
        let expected = suite.algorithm.confidentiality_limit().map(|limit| limit - 1);
        assert_eq!((sealer.remaining(), one_rtt.remaining()), (expected, expected));
    }
}

/// An update by either end gives both a new allowance, because it renews both send keys.
#[test]
fn q_37_an_update_by_the_peer_renews_the_allowance() {
    for suite in suites_of_one_version() {
        let [mut client, mut server] = suite.ends();
        for _ in 0..10 {
            deliver(&mut client, &mut server);
        }
        let limit = suite.algorithm.confidentiality_limit();
        assert_eq!(client.one_rtt.remaining(), limit.map(|limit| limit - 10));
        server.one_rtt.initiate_update(server.time).unwrap();
        deliver(&mut server, &mut client);
        assert_eq!(client.one_rtt.remaining(), limit);
    }
}

/// Initial, 0-RTT and Handshake keys cannot be updated.
#[test]
fn q_40_levels_without_update_stop_for_good() {
    let (algorithm, limit) = (AeadAlgorithm::Aes128Ccm, 2_965_820);
    let mut sealer = Suite { backend: Backend::active(), version: Version::V1, algorithm }.sealer();
    seal_many(|packet| sealer.seal(packet), limit);
    assert_at_limit(|packet| sealer.seal(packet));
    assert_eq!((sealer.remaining(), sealer.next_number()), (Some(0), Some(limit)));
}

/// A packet, and the same with a flipped bit.
fn good_and_forged(suite: Suite) -> [Vec<u8>; 2] {
    let good = suite.sealed(Draft::short(NumberLength::Four, FRAMES));
    let forged = forged(&good);
    [good, forged]
}

#[test]
fn q_38_past_the_integrity_limit_nothing_is_opened() {
    for suite in suites_of_one_version() {
        let (_, _, limit) = LIMITS.into_iter().find(|(algorithm, ..)| *algorithm == suite.algorithm).unwrap();
        assert_eq!(suite.algorithm.integrity_limit(), limit);
        let [good, forged] = good_and_forged(suite);
        let (mut end, mut level) = (suite.end(Side::Server), suite.level(PacketType::OneRtt));
        end.failures = AuthenticationFailures::from_count(limit - 1);
        level.failures = AuthenticationFailures::from_count(limit - 1);
        (end.space, level.space) = (ReceiveSpace::without_window(), ReceiveSpace::without_window());
        for receiver in [&mut end as &mut dyn Receiver, &mut level] {
            let mut open = |packet: &[u8], count| {
                let mut copy = packet.to_vec();
                let result = receiver.open_in(&mut copy).map(|received| received.number);
                assert_eq!(receiver.failures(), count);
                (result, copy)
            };
            // The limit may be reached, but not exceeded.
            assert_eq!(open(&forged, limit).0, Err(OpenError::AuthenticationFailed));
            assert_eq!(open(&good, limit).0, Ok(0));
            let (error, left) = open(&forged, limit + 1);
            assert_eq!(error, Err(OpenError::IntegrityLimit));
            assert!(left[1 + 8 + 4..left.len() - TAG].iter().all(|&octet| octet == 0));
            // From now on not even a good packet is opened, and all packets are left unchanged.
            for packet in [&good, &forged, &good] {
                assert_eq!(open(packet, limit + 1), (Err(OpenError::IntegrityLimit), packet.clone()));
            }
        }
        assert_eq!(OpenError::IntegrityLimit.transport_error(), Some(0x0f));
    }
}

/// The count covers all keys of a connection: a key update does not reset it.
#[test]
fn q_38_failures_are_counted_over_the_connection() {
    for suite in suites_of_one_version() {
        let [mut client, mut server] = suite.ends();
        let [_, forged] = good_and_forged(suite);
        let mut count = 0;
        for generation in 0..4 {
            assert_eq!(server.one_rtt.generation(), generation);
            for _ in 0..3 {
                assert_eq!(server.open(&forged), Err(OpenError::AuthenticationFailed));
                let mut level = suite.level(PacketType::OneRtt);
                std::mem::swap(&mut level.failures, &mut server.failures);
                level.open(&forged).unwrap_err();
                std::mem::swap(&mut level.failures, &mut server.failures);
                count += 2;
            }
            assert_eq!(server.failures(), count);
            update_fully(&mut client, &mut server);
        }
        server.failures = AuthenticationFailures::from_count(suite.algorithm.integrity_limit());
        update_fully(&mut client, &mut server);
        assert_eq!(server.open(&forged), Err(OpenError::IntegrityLimit));
        assert_eq!(server.open(&client.seal(FRAMES)), Err(OpenError::IntegrityLimit));
    }
}

#[test]
fn q_39_counters_saturate() {
    for suite in suites_of_one_version() {
        let [good, forged] = good_and_forged(suite);
        for count in [u64::MAX - 1, u64::MAX] {
            let mut level = suite.level(PacketType::OneRtt);
            level.failures = AuthenticationFailures::from_count(count);
            for packet in [&forged, &good, &forged] {
                assert_eq!(level.open(packet), Err(OpenError::IntegrityLimit));
            }
            assert_eq!(level.failures(), count);
        }
        let mut sealer = suite.sealer();
        for _ in 0..3 {
            sealer.skip_numbers(u64::MAX);
            assert_eq!(sealer.next_number(), None);
        }
    }
}

#[test]
fn q_39_times_saturate() {
    for suite in suites_of_one_version() {
        let [mut client, mut server] = suite.ends();
        let now = Now { time: Duration::MAX, probe_timeout: Duration::MAX };
        client.one_rtt.initiate_update(Duration::MAX).unwrap();
        let mut packet = client.seal(FRAMES);
        server.one_rtt.open(protected(&mut packet), now, &mut server.space, &mut server.failures).unwrap();
        assert_eq!(server.one_rtt.expires(), Some(Duration::MAX));
        let mut packet = server.seal(b"ACK frame");
        client.one_rtt.open(protected(&mut packet), now, &mut client.space, &mut client.failures).unwrap();
        client.one_rtt.acknowledged(0, 1, now).unwrap();
        assert_eq!(client.one_rtt.initiate_update(Duration::MAX), Ok(()));
    }
}
