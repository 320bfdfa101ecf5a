//! Address-validation tokens, their keys and replays; and stateless resets.

use core::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use core::time::Duration;

use aes_gcm::Aes128Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use hkdf::Hkdf;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, ConnectionId, Keys, OpenError, PacketType, Protected,
    ReceiveSpace, SealError, StatelessResetKey, StatelessResetToken, Token, TokenError, TokenKey, TokenKeyId,
    TokenKeys, TokenPurpose, TokenReplayGuard, TrafficSecret, Version,
};

const NOW: Duration = Duration::from_secs(1_800_000_000);
const EXPIRES: Duration = Duration::from_secs(1_800_000_010);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const UNIQUE: [u8; 16] = [7; 16];

fn key() -> TokenKey {
    TokenKey::new(&[0x4b; 32])
}

fn client() -> SocketAddr {
    "192.0.2.1:4433".parse().unwrap()
}

fn retry(original: usize, source: usize) -> TokenPurpose {
    TokenPurpose::Retry {
        original_destination: ConnectionId::new(&[0xd1; 20][..original]).unwrap(),
        retry_source: ConnectionId::new(&[0x5c; 20][..source]).unwrap(),
    }
}

fn sealed(unique: &[u8; 16], version: Version, address: SocketAddr, purpose: &TokenPurpose) -> Vec<u8> {
    let mut out = [0xa5; TokenKey::MAX_TOKEN_LENGTH + 8];
    let length = key().seal(unique, version, address, purpose, EXPIRES, &mut out).unwrap();
    assert!(length <= TokenKey::MAX_TOKEN_LENGTH);
    assert!(out[length..].iter().all(|octet| *octet == 0xa5));
    out[..length].to_vec()
}

#[test]
fn q_46_a_token_comes_back_with_what_it_was_given() {
    for version in Version::ALL {
        for purpose in [TokenPurpose::NewToken, retry(0, 0), retry(8, 20), retry(20, 20), retry(20, 0)] {
            for address in [client(), "[2001:db8::1]:443".parse().unwrap()] {
                let token = sealed(&UNIQUE, *version, address, &purpose);
                let opened = key().open(*version, address, &token, NOW);
                assert_eq!(opened.map(|token| (token.purpose, token.unique)), Ok((purpose, UNIQUE)));
            }
        }
    }
    assert_eq!(sealed(&UNIQUE, Version::V1, client(), &retry(20, 20)).len(), TokenKey::MAX_TOKEN_LENGTH);
}

#[test]
fn q_46_version_address_and_key_are_bound() {
    let elsewhere: SocketAddr = "192.0.2.2:4433".parse().unwrap();
    for purpose in [TokenPurpose::NewToken, retry(8, 8)] {
        let token = sealed(&UNIQUE, Version::V1, client(), &purpose);
        assert_eq!(key().open(Version::V2, client(), &token, NOW), Err(TokenError::Invalid));
        assert_eq!(key().open(Version::V1, elsewhere, &token, NOW), Err(TokenError::Invalid));
        let other = TokenKey::new(&[0x4c; 32]);
        assert_eq!(other.open(Version::V1, client(), &token, NOW), Err(TokenError::Invalid));
    }
}

/// The same link-local address on two links is two hosts (RFC 4007 §6). The flow label does not identify the host.
#[test]
fn q_46_the_zone_of_an_address_is_bound() {
    let address = |flow, zone| SocketAddrV6::new(LINK_LOCAL, 4433, flow, zone).into();
    for purpose in [TokenPurpose::NewToken, retry(8, 8)] {
        let token = sealed(&UNIQUE, Version::V1, address(0, 1), &purpose);
        let open = |flow, zone| key().open(Version::V1, address(flow, zone), &token, NOW);
        assert_eq!(open(0, 1), open(7, 1));
        assert_eq!(open(0, 1).map(|token| token.purpose), Ok(purpose));
        for zone in [0, 2, 0x0100_0000] {
            assert_eq!(open(0, zone), Err(TokenError::Invalid), "zone {zone}");
        }
    }
}

#[test]
fn q_46_only_retry_tokens_are_for_one_port() {
    let mut other_port = client();
    other_port.set_port(4434);
    let open = |purpose| {
        let token = sealed(&UNIQUE, Version::V1, client(), &purpose);
        key().open(Version::V1, other_port, &token, NOW).map(|token| token.purpose)
    };
    assert_eq!(open(retry(8, 8)), Err(TokenError::Invalid));
    assert_eq!(open(TokenPurpose::NewToken), Ok(TokenPurpose::NewToken));
}

/// The server's answer to a refused token depends on it (RFC 9000 §8.1.2 and §8.1.3).
#[test]
fn q_46_a_refused_token_still_says_what_it_claims_to_be() {
    for (purpose, claims) in [(TokenPurpose::NewToken, false), (retry(8, 8), true)] {
        let token = sealed(&UNIQUE, Version::V1, client(), &purpose);
        assert_eq!(key().open(Version::V2, client(), &token, NOW), Err(TokenError::Invalid));
        assert_eq!(TokenKey::claims_retry(&token), claims);
    }
    assert!(!TokenKey::claims_retry(&[]));
}

/// A client may bring a NEW_TOKEN token of an earlier server, which is no reason to close (RFC 9000 §8.1.3).
#[test]
fn q_46_a_token_of_another_server_does_not_claim_to_come_from_a_retry() {
    // All NEW_TOKEN tokens of ngtcp2 begin with 0x36, and its Retry tokens with 0xb6.
    for first in [0x36, 0xb6, 0, 1, 0xff] {
        for length in [1, 16, 17, 20, 21, 57, 64, 87, 200] {
            let mut token: Vec<_> = (0..length).map(|i: u8| i.wrapping_mul(0x9d) ^ 0x5c).collect();
            token[0] = first;
            assert!(!TokenKey::claims_retry(&token), "{first:x} {length}");
        }
    }
    // Our Retry tokens do, even if the key is gone, and whatever they contain.
    let token = sealed(&UNIQUE, Version::V1, client(), &retry(8, 8));
    for octet in 0..token.len() {
        let mut damaged = token.clone();
        damaged[octet] ^= 0x10;
        assert_eq!(TokenKey::claims_retry(&damaged), octet >= 1 + 16 + 4, "{octet}");
    }
    assert!(TokenKey::claims_retry(&token[..1 + 16 + 4]) && !TokenKey::claims_retry(&token[..1 + 16 + 3]));
    // The marks of two tokens differ.
    let other = sealed(&[8; 16], Version::V1, client(), &retry(8, 8));
    assert_ne!(token[1 + 16..][..4], other[1 + 16..][..4]);
}

#[test]
fn q_46_one_purpose_cannot_pass_for_the_other() {
    for purpose in [TokenPurpose::NewToken, retry(0, 0)] {
        let mut token = sealed(&UNIQUE, Version::V1, client(), &purpose);
        for octet in 0..=u8::MAX {
            let original = token[0];
            token[0] = octet;
            assert_eq!(key().open(Version::V1, client(), &token, NOW).is_ok(), octet == original);
            token[0] = original;
        }
    }
}

#[test]
fn q_46_expiry_is_checked() {
    for purpose in [TokenPurpose::NewToken, retry(8, 8)] {
        let token = sealed(&UNIQUE, Version::V1, client(), &purpose);
        let open = |now| key().open(Version::V1, client(), &token, now);
        assert!(open(EXPIRES - Duration::from_millis(1)).is_ok());
        for late in [EXPIRES, EXPIRES + Duration::from_millis(1), Duration::MAX] {
            assert_eq!(open(late), Err(TokenError::Expired { purpose }));
        }
    }
}

#[test]
fn q_46_the_unique_octets_make_every_token_another() {
    let tokens: Vec<_> = (0..64_u8).map(|i| sealed(&[i; 16], Version::V1, client(), &retry(8, 8))).collect();
    for (i, one) in tokens.iter().enumerate() {
        for other in &tokens[..i] {
            // The sealed part differs, too: another key and another nonce.
            assert_ne!(one[17..], other[17..]);
        }
    }
    // One token's unique octets with another's contents do not make a token.
    let mixed = [&tokens[0][..17], &tokens[1][17..]].concat();
    assert_eq!(key().open(Version::V1, client(), &mixed, NOW), Err(TokenError::Invalid));
}

#[test]
fn q_46_any_flipped_bit_and_any_other_length_is_no_token() {
    let token = sealed(&UNIQUE, Version::V1, client(), &retry(8, 8));
    let open = |token: &[u8]| key().open(Version::V1, client(), token, NOW);
    for bit in 0..8 * token.len() {
        let mut damaged = token.clone();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(open(&damaged), Err(TokenError::Invalid), "bit {bit}");
    }
    for length in 0..token.len() {
        assert_eq!(open(&token[..length]), Err(TokenError::Invalid), "cut to {length}");
    }
    assert_eq!(open(&[&token[..], &[0; 200]].concat()), Err(TokenError::Invalid));
}

/// A token around these contents, as the documentation of [`TokenKey`] says, by RustCrypto alone.
fn sealed_by_hand(first: u8, address: SocketAddr, contents: &[u8]) -> Vec<u8> {
    let (ip, zone) = match address {
        SocketAddr::V4(address) => (address.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(address) => (*address.ip(), address.scope_id()),
    };
    let is_retry = first & 1 == 0;
    let port = if is_retry { address.port() } else { 0 };
    let version = Version::V1.to_wire().to_be_bytes();
    let aad = [&version, &ip.octets()[..], &zone.to_be_bytes(), &port.to_be_bytes(), &[first]].concat();
    let mut okm = [0; 28];
    let info = [b"wireseal token", &UNIQUE[..]].concat();
    Hkdf::<Sha256>::from_prk(&[0x4b; 32]).unwrap().expand(&info, &mut okm).unwrap();
    let nonce = okm[16..].try_into().unwrap();
    let mut contents = contents.to_vec();
    let aead = Aes128Gcm::new_from_slice(&okm[..16]).unwrap();
    let tag = aead.encrypt_inout_detached(nonce, &aad, contents.as_mut_slice().into()).unwrap();
    let mark = Sha256::digest([b"wireseal retry token", &[first][..], &UNIQUE].concat());
    let mark = if is_retry { &mark[..4] } else { &[] };
    [&[first][..], &UNIQUE, mark, &contents, &tag].concat()
}

/// Servers of different versions of this crate share keys, so the format does not change.
#[test]
fn q_46_a_token_has_the_format_of_the_documentation() {
    let expires = (EXPIRES.as_millis() as u64).to_be_bytes();
    let ids = [&[8][..], &[0xd1; 8], &[20], &[0x5c; 20]].concat();
    for address in [client(), SocketAddrV6::new(LINK_LOCAL, 4433, 0, 0x0102_0304).into()] {
        for (first, purpose, contents) in
            [(0, retry(8, 20), [&expires[..], &ids].concat()), (1, TokenPurpose::NewToken, expires.to_vec())]
        {
            let token = sealed_by_hand(first, address, &contents);
            assert_eq!(sealed(&UNIQUE, Version::V1, address, &purpose), token);
        }
    }
    // With a key of another id, which is in the upper bits of the first octet.
    let mut out = [0; TokenKey::MAX_TOKEN_LENGTH];
    let keys = TokenKeys::<1>::new(key_id(0x55), key());
    let sealed = keys.seal(&UNIQUE, Version::V1, client(), &TokenPurpose::NewToken, EXPIRES, &mut out);
    assert_eq!(out[..sealed.unwrap()], sealed_by_hand(0xab, client(), &expires));
}

/// Genuine, but not as this version writes them: from a server of a later one.
#[test]
fn q_46_genuine_tokens_with_other_contents_are_refused() {
    let expires = [0xff; 8];
    let retry = |ids: &[u8]| sealed_by_hand(0, client(), &[&expires, ids].concat());
    let open = |token: &[u8]| key().open(Version::V1, client(), token, NOW).map(|token| token.purpose);
    assert!(open(&retry(&[1, 0xd1, 0])).is_ok());
    assert!(open(&sealed_by_hand(1, client(), &expires)).is_ok());
    let no_expiry = [0, 1].map(|first| sealed_by_hand(first, client(), &expires[..7]));
    // No connection ID, half of one, one without the second, half of the second, and one of 21 octets.
    let ids = [&[][..], &[2, 0xd1], &[0], &[0, 2, 0x5c], &[&[21][..], &[0xd1; 21], &[0]].concat()];
    for token in ids.into_iter().map(retry).chain(no_expiry) {
        assert_eq!(open(&token), Err(TokenError::Invalid));
    }
}

#[test]
fn no_token_is_written_where_there_is_no_room() {
    let expected = sealed(&UNIQUE, Version::V1, client(), &retry(8, 8)).len();
    for got in 0..expected {
        let mut out = vec![0xa5; got];
        let result = key().seal(&UNIQUE, Version::V1, client(), &retry(8, 8), EXPIRES, &mut out);
        assert_eq!(result, Err(SealError::BufferTooSmall { needed: expected, got }));
        assert!(out.iter().all(|octet| *octet == 0xa5));
    }
}

proptest! {
    #[test]
    fn q_49_no_octets_make_reading_a_token_panic(token in proptest::collection::vec(any::<u8>(), 0..120)) {
        prop_assert_eq!(key().open(Version::V1, client(), &token, NOW), Err(TokenError::Invalid));
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn key_id(id: u8) -> TokenKeyId {
    TokenKeyId::new(id).unwrap()
}

fn numbered_key(octet: u8) -> TokenKey {
    TokenKey::new(&[octet; 32])
}

fn sealed_by<const N: usize>(keys: &TokenKeys<N>, unique: u8) -> Result<Vec<u8>, SealError> {
    let mut out = vec![0; TokenKey::MAX_TOKEN_LENGTH];
    let address = "192.0.2.1:443".parse().unwrap();
    let length = keys.seal(&[unique; 16], Version::V1, address, &TokenPurpose::NewToken, HOUR, &mut out)?;
    out.truncate(length);
    Ok(out)
}

fn opened_by<const N: usize>(keys: &TokenKeys<N>, token: &[u8]) -> Result<Token, TokenError> {
    keys.open(Version::V1, "192.0.2.1:443".parse().unwrap(), token, Duration::ZERO)
}

#[test]
fn tokens_are_opened_while_their_key_is_there() {
    let mut keys = TokenKeys::<2>::new(key_id(127), numbered_key(1));
    let first = sealed_by(&keys, 1).unwrap();
    assert_eq!(TokenKeyId::of_token(&first), Some(key_id(127)));
    keys.accept(key_id(0), numbered_key(2));
    // The accepted key opens tokens, but does not seal yet.
    assert_eq!(TokenKeyId::of_token(&sealed_by(&keys, 2).unwrap()), Some(key_id(127)));
    keys.rotate(key_id(0), numbered_key(2));
    let second = sealed_by(&keys, 3).unwrap();
    assert_eq!(TokenKeyId::of_token(&second), Some(key_id(0)));
    assert!(opened_by(&keys, &first).is_ok() && opened_by(&keys, &second).is_ok());

    keys.rotate(key_id(5), numbered_key(3));
    assert_eq!(opened_by(&keys, &first), Err(TokenError::Invalid));
    assert!(opened_by(&keys, &second).is_ok());
    // Another server with the same keys.
    let mut other = TokenKeys::<2>::new(key_id(5), numbered_key(3));
    assert_eq!(opened_by(&other, &second), Err(TokenError::Invalid));
    other.accept(key_id(0), numbered_key(2));
    assert!(opened_by(&other, &second).is_ok());
    // A token does not open with another id, nor with another key under the same id.
    let mut renamed = second.clone();
    renamed[0] = 5 << 1 | 1;
    assert_eq!(opened_by(&other, &renamed), Err(TokenError::Invalid));
    other.accept(key_id(0), numbered_key(9));
    assert_eq!(opened_by(&other, &second), Err(TokenError::Invalid));
    assert_eq!(opened_by(&other, &[]), Err(TokenError::Invalid));
}

#[test]
fn a_key_that_seals_can_be_forgotten_but_not_silently() {
    let mut keys = TokenKeys::<1>::new(key_id(1), numbered_key(1));
    keys.accept(key_id(2), numbered_key(2));
    assert_eq!(sealed_by(&keys, 1), Err(SealError::NoTokenKey));
    keys.rotate(key_id(2), numbered_key(2));
    assert!(sealed_by(&keys, 1).is_ok());
    assert_eq!(TokenKeyId::new(128), None);
    assert_eq!(format!("{keys:?}"), "TokenKeys { sealing: TokenKeyId(2), .. }");
}

/// Tokens with random octets, as servers make them.
fn tokens(seed: u8, count: u32) -> Vec<Token> {
    let keys = TokenKeys::<1>::new(key_id(0), numbered_key(seed));
    let tokens = (0..count).map(|number| {
        // SplitMix64, twice.
        let mut unique = [0; 16];
        for (half, octets) in unique.chunks_exact_mut(8).enumerate() {
            let mut mixed = (u64::from(number) * 2 + half as u64 + u64::from(seed) * 1_000_003)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            octets.copy_from_slice(&(mixed ^ mixed >> 31).to_be_bytes());
        }
        let mut out = vec![0; TokenKey::MAX_TOKEN_LENGTH];
        let address = "192.0.2.1:443".parse().unwrap();
        let length =
            keys.seal(&unique, Version::V1, address, &TokenPurpose::NewToken, HOUR, &mut out).unwrap();
        opened_by(&keys, &out[..length]).unwrap()
    });
    tokens.collect()
}

#[test]
fn a_token_counts_once_for_as_long_as_it_is_valid() {
    let mut guard = TokenReplayGuard::<64>::new(HOUR, Duration::ZERO);
    let (early, late) = (tokens(1, 192), tokens(2, 192));
    let taken = early.iter().filter(|token| guard.is_first_use(token, Duration::ZERO)).count();
    assert!(taken >= 190, "{taken}");
    for minutes in [1, 59, 60, 61, 119] {
        let now = Duration::from_secs(60 * minutes);
        assert!(early.iter().all(|token| !guard.is_first_use(token, now)), "{minutes}");
    }
    // The second filter began after 60 minutes. Two lifetimes later nothing is left, since no token is still valid.
    let later = Duration::from_secs(60 * 180);
    assert!(late.iter().filter(|token| guard.is_first_use(token, later)).count() >= 190);
    assert!(early.iter().filter(|token| guard.is_first_use(token, later)).count() >= 150);
}

#[test]
fn a_retry_token_is_not_taken_for_a_used_one() {
    let (keys, id) = (TokenKeys::<1>::new(key_id(0), numbered_key(1)), ConnectionId::new(&[]).unwrap());
    let purpose = TokenPurpose::Retry { original_destination: id, retry_source: id };
    let mut out = vec![0; TokenKey::MAX_TOKEN_LENGTH];
    let address = "192.0.2.1:443".parse().unwrap();
    let length = keys.seal(&[7; 16], Version::V1, address, &purpose, HOUR, &mut out).unwrap();
    let token = opened_by(&keys, &out[..length]).unwrap();
    let mut guard = TokenReplayGuard::<1>::new(HOUR, Duration::ZERO);
    assert!((0..2).all(|_| guard.is_first_use(&token, Duration::ZERO)));
}

/// The figures in the documentation.
#[test]
fn few_new_tokens_are_taken_for_used_ones() {
    for (tokens_of_lifetime, most) in [(3 * 256, 10), (10 * 256, 200)] {
        let mut guard = TokenReplayGuard::<256>::new(HOUR, Duration::ZERO);
        for token in tokens(3, tokens_of_lifetime) {
            let _ = guard.is_first_use(&token, Duration::ZERO);
        }
        let wrong = tokens(4, 2000)
            .iter()
            .filter(|token| {
                // Each token is checked against the same filter.
                !guard.clone().is_first_use(token, Duration::ZERO)
            })
            .count();
        assert!(wrong <= most, "{tokens_of_lifetime}: {wrong}");
    }
}

fn reset_token(connection_id: &[u8]) -> StatelessResetToken {
    StatelessResetKey::new(&[0x4b; 32]).token(&ConnectionId::new(connection_id).unwrap()).unwrap()
}

#[test]
fn q_44_a_token_depends_on_key_and_connection_id_alone() {
    assert_eq!(reset_token(&[1; 8]), reset_token(&[1; 8]));
    let other_key = StatelessResetKey::new(&[0x4c; 32]).token(&ConnectionId::new(&[1; 8]).unwrap()).unwrap();
    let tokens = [
        reset_token(&[0]),
        reset_token(&[1; 7]),
        reset_token(&[1; 8]),
        reset_token(&[1; 9]),
        reset_token(&[2; 8]),
        other_key,
    ];
    for (i, one) in tokens.iter().enumerate() {
        assert!(tokens[..i].iter().all(|other| other != one));
        assert_eq!(*one, StatelessResetToken::new(*one.octets()));
    }
}

/// Every connection of the endpoint would have the same token (RFC 9000 §10.3.2).
#[test]
fn q_44_a_connection_id_of_no_octets_has_no_token() {
    let key = StatelessResetKey::new(&[0x4b; 32]);
    for length in 0..=ConnectionId::MAX_LENGTH {
        let id = ConnectionId::new(&[0; ConnectionId::MAX_LENGTH][..length]).unwrap();
        assert_eq!(key.token(&id).is_some(), length > 0, "{length}");
    }
}

#[test]
fn q_44_the_last_16_of_at_least_21_octets_are_compared() {
    let token = reset_token(&[1; 8]);
    for length in 0..64 {
        let mut datagram = vec![0xff; length];
        let written = token.write_reset(&mut datagram);
        if length < 21 {
            assert_eq!(written, Err(SealError::BufferTooSmall { needed: 21, got: length }));
            assert!(datagram.iter().all(|octet| *octet == 0xff), "nothing is written");
            // In too short a datagram even the right octets are no reset.
            let start = length.saturating_sub(16);
            datagram[start..].copy_from_slice(&token.octets()[16 - (length - start)..]);
            assert!(!token.matches(&datagram), "{length}");
            continue;
        }
        assert_eq!(written, Ok(()));
        assert_eq!(datagram[0], 0x7f, "short header form and fixed bit; the rest is the caller's");
        assert_eq!(datagram[1..length - 16], vec![0xff; length - 17]);
        assert!(token.matches(&datagram), "{length}");
        for bit in 8 * (length - 16)..8 * length {
            datagram[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.matches(&datagram), "{length}, bit {bit}");
            datagram[bit / 8] ^= 1 << (bit % 8);
        }
        datagram[..length - 16].fill(0);
        assert!(token.matches(&datagram), "what is before the token does not matter");
    }
}

/// A stack that checks only after opening failed gets the same answer: header and tag are unchanged.
#[test]
fn q_44_a_failed_open_leaves_the_token_as_it_was() {
    let token = reset_token(&[1; 8]);
    let secret = TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &[1; 32]).unwrap();
    let keys = Keys::new(Version::V1, PacketType::OneRtt, secret);
    for length in 21..100 {
        let mut datagram = vec![0x5a; length];
        token.write_reset(&mut datagram).unwrap();
        let (packet, _) = Protected::split_first(&mut datagram, 0).unwrap();
        let mut failures = AuthenticationFailures::new();
        let error = keys.open(packet, &mut ReceiveSpace::new(), &mut failures).unwrap_err();
        assert_eq!(error, OpenError::AuthenticationFailed);
        assert!(token.matches(&datagram), "{length}");
    }
}

#[test]
fn q_47_tokens_and_their_keys_print_as_nothing() {
    let key = StatelessResetKey::new(&[0x4b; 32]);
    assert_eq!(format!("{key:?}"), "StatelessResetKey { .. }");
    assert_eq!(format!("{:?}", reset_token(&[1; 8])), "StatelessResetToken { .. }");
}

proptest! {
    #[test]
    fn q_49_no_octets_make_looking_for_a_reset_panic(mut datagram in proptest::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(!reset_token(&[1; 8]).matches(&datagram));
        let length = datagram.len();
        prop_assert_eq!(reset_token(&[1; 8]).write_reset(&mut datagram).is_ok(), length >= 21);
    }
}
