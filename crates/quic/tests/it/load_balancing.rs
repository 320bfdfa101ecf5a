//! Connection IDs that load balancers can route.

use std::collections::HashSet;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use hex_literal::hex;
use proptest::prelude::*;
use wireseal_quic::{ConnectionId, RoutableIds, RoutingConfig, RoutingError, ServerId, unroutable_id};

/// The key of draft-ietf-quic-load-balancers-21 §B.2.
const KEY: [u8; 16] = hex!("8f95f09245765f80256934e50c66207f");

/// Octets as the start of random ones.
fn padded<const N: usize>(octets: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| octets.get(i).copied().unwrap_or(0xee))
}

fn ids(config: RoutingConfig, server_id: &[u8], nonce: &[u8]) -> RoutableIds {
    RoutableIds::new(config, ServerId::new(server_id).unwrap(), &padded(nonce)).unwrap()
}

/// The connection ID with this nonce, which a load balancer must find the server in.
fn connection_id(
    id: u8,
    key: Option<&[u8; 16]>,
    server_id: &[u8],
    nonce: &[u8],
    encodes_length: bool,
) -> ConnectionId {
    let config = || {
        let config = RoutingConfig::new(id, server_id.len(), nonce.len(), key).unwrap();
        if encodes_length { config.encoding_length() } else { config }
    };
    let random = padded(&[&[0xff], nonce].concat());
    let connection_id = ids(config(), server_id, nonce).generate(&random).unwrap();
    assert_eq!(config().server_id(&connection_id).as_deref(), Some(server_id));
    connection_id
}

fn assert_vector(id: u8, key: Option<&[u8; 16]>, server_id: &[u8], nonce: &[u8], expected: &[u8]) {
    assert_eq!(*connection_id(id, key, server_id, nonce, true), *expected);
}

/// §B.1. The draft prints the second nonce with nine digits and the connection ID as 20a350d28b4203487d970b: a zero is inside the first
/// octet instead of in front of the nonce. The first octet for configuration 1 and ten octets behind it is 2a.
#[test]
fn the_drafts_vectors_without_a_key() {
    assert_vector(0, None, &hex!("c4605e"), &hex!("4504cc4f"), &hex!("07c4605e4504cc4f"));
    assert_vector(1, None, &hex!("350d28b420"), &hex!("03487d970b"), &hex!("2a350d28b42003487d970b"));
}

/// §B.2. The draft prints configuration 3 for the last, whose first octet, 12, is that of configuration 0.
#[test]
fn the_drafts_vectors_with_a_key() {
    let key = Some(&KEY);
    assert_vector(0, key, &hex!("ed793a"), &hex!("ee080dbf"), &hex!("0720b1d07b359d3c"));
    assert_vector(
        1,
        key,
        &hex!("ed793a51d49b8f5fab65"),
        &hex!("ee080dbf48"),
        &hex!("2fcc381bc74cb4fbad2823a3d1f8fed2"),
    );
    assert_vector(
        2,
        key,
        &hex!("ed793a51d49b8f5f"),
        &hex!("ee080dbf48c0d1e5"),
        &hex!("504dd2d05a7b0de9b2b9907afb5ecf8cc3"),
    );
    assert_vector(
        0,
        key,
        &hex!("ed793a51d49b8f5fab"),
        &hex!("ee080dbf48c0d1e55d"),
        &hex!("125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc"),
    );
}

/// §5.4.2.4. In its step 10 the draft prints an octet of the AES output once as 34 and once as e4; it is 34.
#[test]
fn the_drafts_example() {
    let key = hex!("fdf726a9893ec05c0632d3956680baf0");
    assert_vector(0, Some(&key), &hex!("31441a"), &hex!("9c69c275"), &hex!("0767947d29be054a"));
}

/// The four passes as the draft describes them (§5.4.2), on half octets.
fn four_passes(key: &[u8; 16], plaintext: &[u8]) -> Vec<u8> {
    let length = plaintext.len();
    let digits = |octets: &[u8]| -> Vec<u8> { octets.iter().flat_map(|o| [o >> 4, o & 15]).collect() };
    let octets = |digits: &[u8]| -> Vec<u8> { digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect() };
    let plaintext = digits(plaintext);
    let (mut left, mut right) = (plaintext[..length].to_vec(), plaintext[length..].to_vec());
    for pass in 1..=4 {
        // A left half fills its octets from the front, a right one from the back.
        let zero = vec![0; length % 2];
        let input =
            if pass % 2 == 1 { [&left[..], &zero].concat() } else { [&zero[..], &right[..]].concat() };
        let mut block = [0; 16];
        block[..length.div_ceil(2)].copy_from_slice(&octets(&input));
        block[14..].copy_from_slice(&[length as u8, pass]);
        let mut block = block.into();
        aes::Aes128::new(key.into()).encrypt_block(&mut block);
        let output = digits(&block);
        let (half, output) =
            if pass % 2 == 1 { (&mut right, &output[length % 2..]) } else { (&mut left, &output[..]) };
        half.iter_mut().zip(output).for_each(|(digit, mask)| *digit ^= mask);
    }
    octets(&[left, right].concat())
}

#[test]
fn all_lengths_are_encrypted_as_the_draft_describes() {
    let octets: [u8; 19] = std::array::from_fn(|i| (i as u8).wrapping_mul(0x1d) ^ 0xb7);
    for server_id_length in 1..=15 {
        for nonce_length in 4..=19 - server_id_length {
            let plaintext = &octets[..server_id_length + nonce_length];
            let (server_id, nonce) = plaintext.split_at(server_id_length);
            let id = connection_id(5, Some(&KEY), server_id, nonce, false);
            if plaintext.len() != 16 {
                assert_eq!(id[1..], four_passes(&KEY, plaintext), "{server_id_length}, {nonce_length}");
            }
            assert_eq!(id[0], 0b1011_1111, "the five bits are random");
            assert_eq!(connection_id(5, Some(&KEY), server_id, nonce, true)[0], 0xa0 | plaintext.len() as u8);
            let config = RoutingConfig::new(5, server_id_length, nonce_length, None).unwrap();
            assert_eq!(config.connection_id_length(), id.len());
            assert_eq!(connection_id(5, None, server_id, nonce, false)[1..], *plaintext);
        }
    }
}

#[test]
fn configurations_have_limits() {
    let new = |id, server_id_length, nonce_length| {
        RoutingConfig::new(id, server_id_length, nonce_length, None).map(|config| config.id())
    };
    assert_eq!(new(0, 1, 4), Ok(0));
    assert_eq!(new(6, 15, 4), Ok(6));
    assert_eq!(new(6, 1, 18), Ok(6));
    assert_eq!(new(7, 1, 4), Err(RoutingError::ConfigId { got: 7 }));
    assert_eq!(new(0, 0, 4), Err(RoutingError::ServerIdLength { got: 0 }));
    assert_eq!(new(0, 16, 4), Err(RoutingError::ServerIdLength { got: 16 }));
    assert_eq!(new(0, 1, 3), Err(RoutingError::NonceLength { got: 3 }));
    assert_eq!(new(0, 1, 19), Err(RoutingError::NonceLength { got: 19 }));
    assert_eq!(new(0, 15, 5), Err(RoutingError::TooLong { expected: 19, got: 20 }));
    assert_eq!(new(0, 1, usize::MAX), Err(RoutingError::NonceLength { got: usize::MAX }));

    assert_eq!(ServerId::new(&[]), Err(RoutingError::ServerIdLength { got: 0 }));
    assert_eq!(ServerId::new(&[1; 16]), Err(RoutingError::ServerIdLength { got: 16 }));
    assert_eq!(format!("{:?}", ServerId::new(&[1, 0xab]).unwrap()), "ServerId(01ab)");
    let config = RoutingConfig::new(0, 3, 4, None).unwrap();
    let other = RoutableIds::new(config, ServerId::new(&[1; 4]).unwrap(), &[0; 18]).map(|_| ());
    assert_eq!(other, Err(RoutingError::OtherServerIdLength { expected: 3, got: 4 }));
}

#[test]
fn what_a_load_balancer_cannot_route() {
    for key in [None, Some(&KEY)] {
        let config = || RoutingConfig::new(3, 3, 6, key).unwrap();
        let id = ids(config(), &[1, 2, 3], &[9; 6]).generate(&[0x55; 19]).unwrap();
        for length in 0..id.len() {
            assert_eq!(config().server_id(&id[..length]), None, "{length}");
        }
        // What follows the connection ID in a short header does not matter.
        let longer = [&id[..], &[0xff; 30]].concat();
        assert_eq!(config().server_id(&longer).as_deref(), Some(&[1, 2, 3][..]));
        for other in 0..8 {
            let mut id = id.to_vec();
            id[0] = other << 5 | id[0] & 0x1f;
            assert_eq!(config().server_id(&id).is_some(), other == 3);
        }
        // Nor the five bits, unless they say that the connection ID is too short.
        for low in 0..32 {
            let mut id = id.to_vec();
            id[0] = 3 << 5 | low;
            assert!(config().server_id(&id).is_some());
            assert_eq!(config().encoding_length().server_id(&id).is_some(), low >= 9, "{low}");
        }
    }
}

#[test]
fn every_nonce_is_used_once() {
    let (server_id, last) = ([7], [0xff, 0xff, 0xff, 0xfe]);
    let with_key = |key| RoutingConfig::new(0, 1, 4, key).unwrap();
    let mut counted = ids(with_key(Some(&KEY)), &server_id, &last);
    assert_eq!(counted.remaining(), 1 << 32);
    let mut seen = HashSet::new();
    for nonce in [0xffff_fffe_u32, 0xffff_ffff, 0, 1] {
        let id = counted.generate(&[0xff; 19]).unwrap();
        assert_eq!(id, connection_id(0, Some(&KEY), &server_id, &nonce.to_be_bytes(), false));
        assert!(seen.insert(id));
    }
    assert_eq!(counted.remaining(), (1 << 32) - 4);
    assert_eq!(counted.numbers(), 4..1 << 32);
    // Two processes with numbers of their own.
    let mut other = ids(with_key(Some(&KEY)), &server_id, &last).with_numbers(4..6);
    let mut counted = counted.with_numbers((1 << 32) - 1..u64::MAX);
    assert_eq!((other.remaining(), counted.remaining()), (2, 1));
    for nonce in [2_u32, 3] {
        let id = other.generate(&[0xff; 19]);
        assert_eq!(id, Ok(connection_id(0, Some(&KEY), &server_id, &nonce.to_be_bytes(), false)));
    }
    assert_eq!(other.generate(&[0xff; 19]), Err(RoutingError::NoncesExhausted));
    let id = counted.generate(&[0xff; 19]).unwrap();
    assert_eq!(id, connection_id(0, Some(&KEY), &server_id, &[0xff, 0xff, 0xff, 0xfd], false));
    for _ in 0..2 {
        assert_eq!(counted.remaining(), 0);
        assert_eq!(counted.generate(&[0xff; 19]), Err(RoutingError::NoncesExhausted));
    }

    // Without a key they are the caller's random octets.
    let mut random = ids(with_key(None), &server_id, &last).with_numbers(0..0);
    assert_eq!(random.remaining(), u64::MAX);
    let octets = std::array::from_fn(|i| i as u8);
    assert_eq!(*random.generate(&octets).unwrap(), [0, 7, 1, 2, 3, 4]);
    assert_eq!(random.config().connection_id_length(), 6);
}

/// Longer nonces than the counter: it carries into the octets above it.
#[test]
fn long_nonces_count_too() {
    for nonce_length in [7, 8, 9, 12, 18] {
        let config = || RoutingConfig::new(0, 1, nonce_length, Some(&KEY)).unwrap();
        let mut nonce = [0x80; 18];
        nonce[nonce_length - 4..].fill(0xff);
        let mut counted = ids(config(), &[7], &nonce);
        let most = if nonce_length == 7 { 1 << 56 } else { u64::MAX };
        assert_eq!(counted.remaining(), most);
        counted = counted.with_numbers(1..u64::MAX);
        nonce[nonce_length - 5..].fill(0);
        nonce[nonce_length - 5] = 0x81;
        let id = counted.generate(&[0xff; 19]).unwrap();
        assert_eq!(id, connection_id(0, Some(&KEY), &[7], &nonce[..nonce_length], false), "{nonce_length}");
        // The last of all is the one before the first; in long ones, the last the counter reaches.
        counted = counted.with_numbers(most - 1..most);
        assert_eq!(counted.remaining(), 1);
        assert!(counted.generate(&[0xff; 19]).is_ok());
        assert_eq!(counted.generate(&[0xff; 19]), Err(RoutingError::NoncesExhausted));
    }
}

#[test]
fn unroutable_ids_say_so() {
    for length in 0..30 {
        let random = vec![0x5a; length];
        let id = unroutable_id(&random);
        if !(8..=20).contains(&length) {
            assert_eq!(id, Err(RoutingError::UnroutableLength { got: length }));
            continue;
        }
        let id = id.unwrap();
        assert_eq!(id[0], 0xe0 | (length as u8 - 1));
        assert_eq!(id[1..], random[1..]);
        for config in 0..=RoutingConfig::MAX_ID {
            assert_eq!(RoutingConfig::new(config, 1, 4, None).unwrap().server_id(&id), None);
        }
    }
}

#[test]
fn q_47_configurations_are_wiped_and_print_no_key() {
    let config = || RoutingConfig::new(0, 3, 4, Some(&KEY)).unwrap();
    assert!(std::mem::needs_drop::<RoutingConfig>() && std::mem::needs_drop::<RoutableIds>());
    let printed = "RoutingConfig { id: 0, server_id_length: 3, nonce_length: 4, encodes_length: false, is_encrypted: true, .. }";
    assert_eq!(format!("{:?}", config()), printed);
    let ids = ids(config(), &[1, 2, 3], &[9; 4]);
    assert_eq!(format!("{ids:?}"), format!("RoutableIds {{ config: {printed}, .. }}"));
}

proptest! {
    #[test]
    fn q_49_no_connection_id_makes_a_load_balancer_panic(
        octets in proptest::collection::vec(any::<u8>(), 0..40),
        (id, server_id, nonce) in (0..7_u8, 1..16_usize, 4..19_usize),
        (is_encrypted, encodes_length) in any::<(bool, bool)>(),
    ) {
        let Ok(config) = RoutingConfig::new(id, server_id, nonce, is_encrypted.then_some(&KEY)) else { return Ok(()) };
        let config = if encodes_length { config.encoding_length() } else { config };
        let server = config.server_id(&octets);
        prop_assert!(server.is_none_or(|found| found.len() == server_id && octets[0] >> 5 == id));
    }
}
