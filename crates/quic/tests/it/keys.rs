//! Keys and their derivation (RFC 9001 §5.1 and §5.2, RFC 9369 §3.3 and §4.1).

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use hex_literal::hex;
use wireseal_aead::AeadKey;
use wireseal_quic::hazmat::{HeaderKey, KeyOctets, PacketKey, initial_secrets, next_secret};
use wireseal_quic::{
    AeadAlgorithm, Backend, ConnectionId, InitialKeys, KeyError, Keys, LongType, NumberLength, OneRttSealer,
    OpenError, PacketNumberCounter, PacketType, Protected, Sealer, TrafficSecret, Version,
};

use crate::support::schedule::{PHASE, Schedule, expand_label, initial_secret, label, seal_as_given};
use crate::support::{
    DESTINATION, Draft, FRAMES, Level, NUMBER_LENGTHS, Receiver, Side, Suite, destination, for_both_roles,
    suites, suites_of_one_version, update_fully,
};

/// A packet with number 3, sealed with keys that this test derives.
fn sealed(suite: Suite, draft: Draft, secret: &[u8]) -> Vec<u8> {
    Schedule::with_secrets(suite, vec![secret.to_vec()]).seal_draft(0, 0, 3, draft)
}

fn short() -> Draft {
    Draft::short(NumberLength::Two, FRAMES)
}

fn opens(keys: Keys, packet: &[u8]) -> bool {
    Level::new(keys).open(packet).is_ok_and(|received| received.payload == FRAMES)
}

fn client_keys(suite: Suite) -> Keys {
    suite.keys_for(Side::Client, PacketType::OneRtt)
}

#[test]
fn q_03_keys_have_the_labels_of_their_version() {
    for suite in suites() {
        // A short header names no version.
        let packet = sealed(suite, short(), &suite.secret_octets(Side::Client));
        for &version in Version::ALL {
            let keys = client_keys(Suite { version, ..suite });
            // Draft-29 has the labels of version 1.
            let same = (version == Version::V2) == (suite.version == Version::V2);
            assert_eq!(opens(keys, &packet), same, "{suite:?} {version}");
        }
    }
}

/// Deriving the next secret leaves the present one usable.
#[test]
fn q_03_the_next_secret_is_there_beside_the_present_one() {
    for suite in suites() {
        let Suite { backend, version, algorithm } = suite;
        let octets = suite.secret_octets(Side::Client);
        let secret = TrafficSecret::new(algorithm, &octets).unwrap();
        let length = algorithm.secret_length();
        let following = expand_label(&octets, &label(version, "ku"), length);
        let mut next = [0xa5; 49];
        next_secret(version, algorithm, &octets, &mut next[..length]).unwrap();
        assert_eq!((&next[..length], next[length]), (&following[..], 0xa5));
        for (secret, out, got) in [(length - 1, length, length - 1), (length, length + 1, length + 1)] {
            let mut untouched = [0xa5; 49];
            let refused = next_secret(version, algorithm, &octets[..secret], &mut untouched[..out]);
            assert_eq!(refused, Err(KeyError::WrongLength { algorithm, expected: length, got }));
            assert_eq!(untouched, [0xa5; 49]);
        }
        for (secret, packet) in [
            (secret.peek_next(version), sealed(suite, short(), &following)),
            (secret, sealed(suite, short(), &octets)),
        ] {
            assert!(opens(Keys::with_backend(backend, version, PacketType::OneRtt, secret), &packet));
        }
    }
}

/// For stacks that carry secrets and keys as octets.
#[test]
fn q_03_the_octets_of_secrets_and_keys_are_those_of_the_labels() {
    for Suite { version, algorithm, .. } in suites() {
        let initial = initial_secrets(version, &destination());
        for (secret, side) in initial.iter().zip([Side::Client, Side::Server]) {
            assert_eq!(secret.octets(), initial_secret(version, &destination(), side));
            assert_eq!(secret.algorithm(), AeadAlgorithm::Aes128Gcm);
        }
        let octets = &[0x5a; 48][..algorithm.secret_length()];
        let secret = TrafficSecret::new(algorithm, octets).unwrap();
        assert_eq!(secret.octets(), octets);
        let keys = KeyOctets::derive(version, &secret);
        let wanted = |purpose, length| expand_label(octets, &label(version, purpose), length);
        assert_eq!(keys.key(), wanted("key", algorithm.key_length()));
        assert_eq!(keys.iv().as_slice(), wanted("iv", 12));
        let length = algorithm.header_protection_key_length();
        assert_eq!(keys.header_protection_key(), wanted("hp", length));
    }
}

#[test]
fn q_03_every_generation_has_the_labels_of_its_version() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        let [mut from_us, mut from_them] = [role, role.other()].map(|side| Schedule::new(suite, side));
        for generation in 0..12 {
            assert_eq!((ours.one_rtt.generation(), theirs.one_rtt.generation()), (generation, generation));
            let (sent, answered) = (ours.seal(b"to the peer"), theirs.seal(b"and back"));
            assert_eq!(from_us.open(generation, &sent).unwrap().1, b"to the peer");
            assert_eq!(from_them.open(generation, &answered).unwrap().1, b"and back");
            assert_eq!(from_us.open(generation + 1, &sent), None);
            assert_eq!(theirs.open(&sent).unwrap().payload, b"to the peer");
            assert_eq!(ours.open(&answered).unwrap().payload, b"and back");
            update_fully(&mut ours, &mut theirs);
        }
    });
}

/// Some stacks use "quic ku" in version 2 too: their packets must not open, nor change the phase.
#[test]
fn q_03_the_key_update_label_of_another_version_opens_nothing() {
    for_both_roles(|suite, role, mut ours, _| {
        let wrong = if suite.version == Version::V2 { "quic ku" } else { "quicv2 ku" };
        let right = label(suite.version, "ku");
        for (ku, opens) in [(wrong, false), (right.as_str(), true)] {
            let secret = suite.secret_octets(role.other());
            let next = expand_label(&secret, ku, secret.len());
            let packet = Schedule::with_secrets(suite, vec![secret, next]).seal(1, PHASE, 7, FRAMES);
            assert_eq!(ours.open(&packet).is_ok(), opens, "{suite:?} {ku}");
            assert_eq!(ours.one_rtt.generation(), u64::from(opens));
        }
    });
}

#[test]
fn q_04_the_header_protection_key_outlives_every_update() {
    for_both_roles(|suite, role, mut ours, mut theirs| {
        let first = Schedule::new(suite, role).header_key();
        let mut secret = suite.secret_octets(role);
        for generation in 0..4_u64 {
            let packet = ours.seal(FRAMES);
            let number_offset = 1 + DESTINATION.len();
            let sample = packet[number_offset + 4..].first_chunk().unwrap();
            let unmasked = |key: &HeaderKey| {
                let (mut head, mut number) = (packet[0], packet[number_offset..][..4].to_vec());
                key.unprotect(sample, &mut head, &mut number);
                (head, u64::from(u32::from_be_bytes(number.try_into().unwrap())))
            };
            let phase = if generation % 2 == 1 { PHASE } else { 0 };
            let number = ours.one_rtt.next_number().unwrap() - 1;
            assert_eq!(unmasked(&first), (0x40 | phase | 3, number), "{suite:?}");
            if generation > 0 {
                secret = expand_label(&secret, &label(suite.version, "ku"), secret.len());
                let updated = Schedule::with_secrets(suite, vec![secret.clone()]).header_key();
                assert_ne!(unmasked(&updated).1, number);
            }
            update_fully(&mut ours, &mut theirs);
        }
    });
}

#[test]
fn q_05_secrets_are_as_long_as_the_hash() {
    for algorithm in AeadAlgorithm::ALL {
        let expected = if algorithm == AeadAlgorithm::Aes256Gcm { 48 } else { 32 };
        for got in 0..100 {
            let answer = TrafficSecret::new(algorithm, &vec![1; got]).map(|secret| secret.algorithm());
            let error = KeyError::WrongLength { algorithm, expected, got };
            assert_eq!(answer, if got == expected { Ok(algorithm) } else { Err(error) });
        }
    }
}

/// Every octet of the secret counts, and those of AES-256-GCM go through SHA-384.
#[test]
fn q_05_all_octets_of_a_secret_are_used() {
    for suite in suites() {
        let secret = suite.secret_octets(Side::Client);
        assert!(opens(client_keys(suite), &sealed(suite, short(), &secret)));
        for at in 0..secret.len() {
            let mut other = secret.clone();
            other[at] ^= 1;
            assert!(!opens(client_keys(suite), &sealed(suite, short(), &other)), "{suite:?} {at}");
        }
    }
}

#[test]
fn q_06_initial_keys_for_connection_ids_of_every_length() {
    for &backend in Backend::ALL {
        for &version in Version::ALL {
            let suite = Suite { backend, version, algorithm: AeadAlgorithm::Aes128Gcm };
            let initial = || Draft::long(version, LongType::Initial, NumberLength::Two, FRAMES);
            let octets: [u8; 20] = std::array::from_fn(|i| 0x80 | i as u8);
            let ids: Vec<_> = (0..=20).map(|length| ConnectionId::new(&octets[..length]).unwrap()).collect();
            for id in &ids {
                let keys = InitialKeys::with_backend(backend, version, id);
                for (of_side, keys) in [(Side::Client, keys.client), (Side::Server, keys.server)] {
                    assert_eq!(keys.algorithm(), AeadAlgorithm::Aes128Gcm);
                    let mut level = Level::new(keys);
                    let mut opens = |secret: &[u8]| level.open(&sealed(suite, initial(), secret)).is_ok();
                    for (other, side) in ids.iter().zip(Side::BOTH.into_iter().cycle()) {
                        let same = other == id && side == of_side;
                        // A packet that opens once is a duplicate later, so the right secret comes last.
                        assert!(
                            same || !opens(&initial_secret(version, other, side)),
                            "{version} {id} {other}"
                        );
                    }
                    assert!(opens(&initial_secret(version, id, of_side)));
                }
            }
        }
    }
}

#[test]
fn q_07_draft_29_has_its_own_initial_keys() {
    // draft-ietf-quic-tls-29 §A.1: key, IV and header protection key of the client.
    let id = ConnectionId::new(&hex!("8394c8f03e515708")).unwrap();
    let secret = hex!("0088119288f1d866733ceeed15ff9d50902cf82952eee27e9d4d4918ea371d87");
    assert_eq!(initial_secret(Version::Draft29, &id, Side::Client), secret);
    for &backend in Backend::ALL {
        let algorithm = AeadAlgorithm::Aes128Gcm;
        let key = hex!("175257a31eb09dea9366d8bb79ad80ba");
        let iv = hex!("6b26114b9cba2b63a9e8dd4f");
        let packet_key = PacketKey::with_backend(backend, algorithm, &key, &iv).unwrap();
        let header_key =
            HeaderKey::with_backend(backend, algorithm, &hex!("9ddd12c994c0698b89374a9c077a3077")).unwrap();
        let draft = Draft::long(Version::Draft29, LongType::Initial, NumberLength::Four, FRAMES);
        assert_eq!(draft.octets[1..5], hex!("ff00001d"));
        let packet = seal_as_given(&packet_key, &header_key, draft, 0, 2);
        for &version in Version::ALL {
            let keys = InitialKeys::with_backend(backend, version, &id);
            assert_eq!(opens(keys.client, &packet), version == Version::Draft29);
        }
    }
    assert_eq!(Version::from_wire(0xff00_001d), Ok(Version::Draft29));
}

#[test]
fn q_08_after_a_retry_keys_are_new_and_numbers_go_on() {
    let (original, from_retry) = (destination(), ConnectionId::new(b"from the Retry").unwrap());
    for &backend in Backend::ALL {
        for &version in Version::ALL {
            let [before, after] =
                [original, from_retry].map(|id| InitialKeys::with_backend(backend, version, &id));
            let mut client = Sealer::new(before.client, PacketNumberCounter::new());
            let draft = Draft::long(version, LongType::Initial, NumberLength::One, FRAMES);
            for number in 0..2 {
                assert_eq!(client.seal(draft.clone().outgoing()), Ok(number));
            }
            let mut client = Sealer::new(after.client, client.into_counter());
            let mut packet = draft.clone();
            assert_eq!(client.seal(packet.outgoing()), Ok(2));
            let [before, after] =
                [original, from_retry].map(|id| InitialKeys::with_backend(backend, version, &id));
            assert!(!opens(before.client, &packet.octets));
            assert!(opens(after.client, &packet.octets));
            // The server's keys come from the same connection ID.
            let mut packet = draft.clone();
            Sealer::new(after.server, PacketNumberCounter::new()).seal(packet.outgoing()).unwrap();
            assert!(opens(InitialKeys::with_backend(backend, version, &from_retry).server, &packet.octets));
        }
    }
}

/// 0-RTT and 1-RTT packets share a packet number space, on both sides (RFC 9000 §12.3).
#[test]
fn q_08_numbers_go_on_from_0_rtt_to_1_rtt() {
    for suite in suites() {
        let early = || {
            let octets = vec![0xe1; suite.algorithm.secret_length()];
            let secret = TrafficSecret::new(suite.algorithm, &octets).unwrap();
            Keys::with_backend(suite.backend, suite.version, PacketType::ZeroRtt, secret)
        };
        let mut client = Sealer::new(early(), PacketNumberCounter::new());
        let mut packets =
            [(); 2].map(|()| Draft::long(suite.version, LongType::ZeroRtt, NumberLength::One, FRAMES));
        for (packet, number) in packets.iter_mut().zip(0..) {
            assert_eq!(client.seal(packet.outgoing()), Ok(number));
        }
        let mut client = suite.one_rtt(Side::Client, client.into_counter());
        let mut draft = Draft::short(NumberLength::One, FRAMES);
        assert_eq!(client.seal(draft.outgoing()), Ok(2));
        let (mut server, mut level) = (suite.end(Side::Server), Level::new(early()));
        let [first, second] = packets.map(|packet| packet.octets);
        assert_eq!(level.open(&first).unwrap().number, 0);
        std::mem::swap(&mut level.space, &mut server.space);
        assert_eq!(server.open(&draft.octets).unwrap().number, 2);
        std::mem::swap(&mut level.space, &mut server.space);
        assert_eq!(level.open(&second).unwrap().number, 1);
        assert_eq!(level.open(&first), Err(OpenError::Duplicate));
        // 1-RTT keys are for short headers only.
        assert_eq!(server.open(&first), Err(OpenError::Undecryptable));
    }
}

#[test]
fn q_11_initial_keys_of_both_versions_live_at_once() {
    for &backend in Backend::ALL {
        // The client sends Initial packets of version 1; the server continues with version 2, and packets of both are in flight.
        let keys = |version| InitialKeys::with_backend(backend, version, &destination());
        let mut in_version_1 = Sealer::new(keys(Version::V1).server, PacketNumberCounter::new());
        let seal = |sealer: &mut Sealer, version| {
            let mut draft = Draft::long(version, LongType::Initial, NumberLength::One, FRAMES);
            sealer.seal(draft.outgoing()).unwrap();
            draft.octets
        };
        let first = seal(&mut in_version_1, Version::V1);
        let late = seal(&mut in_version_1, Version::V1);
        let mut in_version_2 = Sealer::new(keys(Version::V2).server, in_version_1.into_counter());
        let [second, third] = [(); 2].map(|()| seal(&mut in_version_2, Version::V2));
        let [mut v1, mut v2] = [Version::V1, Version::V2].map(|version| Level::new(keys(version).server));
        let mut numbers = Vec::new();
        let mut datagrams = [[first, second].concat(), [third, late.clone()].concat(), late];
        for datagram in &mut datagrams {
            for packet in Protected::split(datagram, DESTINATION.len()) {
                let packet = packet.unwrap();
                if packet.version() == Some(Version::V2) {
                    // Both versions share one space.
                    std::mem::swap(&mut v1.space, &mut v2.space);
                    numbers.push(v2.open_parsed(packet).map(|received| received.number));
                    std::mem::swap(&mut v1.space, &mut v2.space);
                } else {
                    numbers.push(v1.open_parsed(packet).map(|received| received.number));
                }
            }
        }
        assert_eq!(numbers, [Ok(0), Ok(2), Ok(3), Ok(1), Err(OpenError::Duplicate)]);
        assert_eq!((v1.failures(), v2.failures()), (0, 0));
    }
}

#[test]
fn q_26_every_suite_seals_with_one_backend_and_opens_with_any() {
    let code_points = [0x1301, 0x1302, 0x1303, 0x1304];
    assert_eq!(AeadAlgorithm::ALL.map(AeadAlgorithm::tls_cipher_suite), code_points);
    for suite in suites() {
        for length in NUMBER_LENGTHS {
            let packet = suite.sealed(Draft::short(length, FRAMES));
            for other in suites() {
                let same = other.algorithm == suite.algorithm
                    && (other.version == Version::V2) == (suite.version == Version::V2);
                assert_eq!(opens(client_keys(other), &packet), same, "{suite:?} {other:?}");
            }
        }
    }
}

/// What a log or a measurement says of a key is what the AEAD says.
#[test]
fn keys_report_their_backend() {
    for suite in suites_of_one_version() {
        let Suite { backend, algorithm, .. } = suite;
        let key = vec![7; algorithm.key_length()];
        let served_by = AeadKey::with_backend(backend, algorithm, &key).unwrap().served_by();
        assert_eq!(client_keys(suite).served_by(), served_by);
        let (packet_key, header_key) = client_keys(suite).into_parts();
        assert_eq!((packet_key.served_by(), packet_key.algorithm()), (served_by, algorithm));
        assert_eq!(header_key.algorithm(), algorithm);
    }
}

/// Without a backend named, every kind of key is the active backend's, and the same key as by its name.
#[test]
fn keys_use_the_active_backend_by_default() {
    let backend = Backend::active();
    for suite in suites().filter(|suite| suite.backend == backend) {
        let Suite { version, algorithm, .. } = suite;
        let octets = KeyOctets::derive(version, &suite.secret(Side::Client));
        let served_by = client_keys(suite).served_by();
        let packet_key = PacketKey::new(algorithm, octets.key(), octets.iv()).unwrap();
        assert_eq!(packet_key.served_by(), served_by);
        let header_key = HeaderKey::new(algorithm, octets.header_protection_key()).unwrap();
        let keys = Keys::new(version, PacketType::OneRtt, suite.secret(Side::Client));
        assert_eq!(keys.served_by(), served_by);
        let (of_keys, header_of_keys) = keys.into_parts();
        let early = |counter| {
            let [local, remote] = Side::BOTH.map(|side| suite.secret(side));
            OneRttSealer::new(version, local, remote, counter)
        };
        let mut by_one_rtt = short();
        assert_eq!(early(PacketNumberCounter::default()).seal(by_one_rtt.outgoing()), Ok(0));
        for (packet_key, header_key) in [(packet_key, header_key), (of_keys, header_of_keys)] {
            assert_eq!(
                seal_as_given(&packet_key, &header_key, short(), 0, 0),
                by_one_rtt.octets,
                "{suite:?}"
            );
        }
        let got = octets.key().len() - 1;
        let error = KeyError::WrongLength { algorithm, expected: got + 1, got };
        assert_eq!(PacketKey::new(algorithm, &octets.key()[1..], octets.iv()).unwrap_err(), error);
        assert_eq!(HeaderKey::new(algorithm, &octets.header_protection_key()[1..]).unwrap_err(), error);
    }
}

/// A stack finds the connection of a packet by its destination.
#[test]
fn a_connection_id_is_found_in_a_map() {
    let ids: Vec<_> = (0..=20).map(|length| ConnectionId::new(&[0; 20][..length]).unwrap()).collect();
    let connections: HashMap<_, _> = ids.iter().copied().zip(0..).collect();
    assert_eq!(connections.len(), ids.len());
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(connections.get(&ConnectionId::new(id).unwrap()), Some(&number));
    }
    // Different connection IDs have different hashes, so that a map of many stays fast.
    let hasher = RandomState::new();
    let hashes: HashSet<_> = ids.iter().map(|id| hasher.hash_one(id)).collect();
    assert_eq!(hashes.len(), ids.len());
}
