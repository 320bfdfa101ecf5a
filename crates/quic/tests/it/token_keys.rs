//! Keys of tokens that are rotated, and tokens that count once.

use core::time::Duration;

use wireseal_quic::{
    ConnectionId, EncodeError, Token, TokenError, TokenKey, TokenKeyId, TokenKeys, TokenPurpose,
    TokenReplayGuard, Version,
};

const HOUR: Duration = Duration::from_secs(3600);

fn id(id: u8) -> TokenKeyId {
    TokenKeyId::new(id).unwrap()
}

fn key(octet: u8) -> TokenKey {
    TokenKey::new(&[octet; 32])
}

fn sealed<const N: usize>(keys: &TokenKeys<N>, unique: u8) -> Result<Vec<u8>, EncodeError> {
    let mut out = vec![0; TokenKey::MAX_TOKEN_LENGTH];
    let address = "192.0.2.1:443".parse().unwrap();
    let length = keys.seal(&[unique; 16], Version::V1, address, &TokenPurpose::NewToken, HOUR, &mut out)?;
    out.truncate(length);
    Ok(out)
}

fn opened<const N: usize>(keys: &TokenKeys<N>, token: &[u8]) -> Result<Token, TokenError> {
    keys.open(Version::V1, "192.0.2.1:443".parse().unwrap(), token, Duration::ZERO)
}

#[test]
fn tokens_are_opened_while_their_key_is_there() {
    let mut keys = TokenKeys::<2>::new(id(127), key(1));
    let first = sealed(&keys, 1).unwrap();
    assert_eq!(TokenKeyId::of_token(&first), Some(id(127)));
    keys.accept(id(0), key(2));
    // It opens, and does not seal yet.
    assert_eq!(TokenKeyId::of_token(&sealed(&keys, 2).unwrap()), Some(id(127)));
    keys.rotate(id(0), key(2));
    let second = sealed(&keys, 3).unwrap();
    assert_eq!(TokenKeyId::of_token(&second), Some(id(0)));
    assert!(opened(&keys, &first).is_ok() && opened(&keys, &second).is_ok());

    keys.rotate(id(5), key(3));
    assert_eq!(opened(&keys, &first), Err(TokenError::Invalid));
    assert!(opened(&keys, &second).is_ok());
    // Another server with the same keys.
    let mut other = TokenKeys::<2>::new(id(5), key(3));
    assert_eq!(opened(&other, &second), Err(TokenError::Invalid));
    other.accept(id(0), key(2));
    assert!(opened(&other, &second).is_ok());
    // The id is authentic, and each octet of a key counts.
    let mut renamed = second.clone();
    renamed[0] = 5 << 1 | 1;
    assert_eq!(opened(&other, &renamed), Err(TokenError::Invalid));
    other.accept(id(0), key(9));
    assert_eq!(opened(&other, &second), Err(TokenError::Invalid));
    assert_eq!(opened(&other, &[]), Err(TokenError::Invalid));
}

#[test]
fn a_key_that_seals_can_be_forgotten_but_not_silently() {
    let mut keys = TokenKeys::<1>::new(id(1), key(1));
    keys.accept(id(2), key(2));
    assert_eq!(sealed(&keys, 1), Err(EncodeError::NoToken));
    keys.rotate(id(2), key(2));
    assert!(sealed(&keys, 1).is_ok());
    assert_eq!(TokenKeyId::new(128), None);
    assert_eq!(format!("{keys:?}"), "TokenKeys { sealing: TokenKeyId(2), .. }");
}

/// Tokens as servers make them, with random octets.
fn tokens(seed: u8, count: u32) -> Vec<Token> {
    let keys = TokenKeys::<1>::new(id(0), key(seed));
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
        opened(&keys, &out[..length]).unwrap()
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
    // Two lifetimes later nothing is left, since nothing is valid.
    let later = Duration::from_secs(60 * 60 * 4);
    assert!(late.iter().filter(|token| guard.is_first_use(token, later)).count() >= 190);
    assert!(early.iter().filter(|token| guard.is_first_use(token, later)).count() >= 150);
}

#[test]
fn a_retry_token_is_not_taken_for_a_used_one() {
    let (keys, id) = (TokenKeys::<1>::new(id(0), key(1)), ConnectionId::new(&[]).unwrap());
    let purpose = TokenPurpose::Retry { original_destination: id, retry_source: id };
    let mut out = vec![0; TokenKey::MAX_TOKEN_LENGTH];
    let address = "192.0.2.1:443".parse().unwrap();
    let length = keys.seal(&[7; 16], Version::V1, address, &purpose, HOUR, &mut out).unwrap();
    let token = opened(&keys, &out[..length]).unwrap();
    let mut guard = TokenReplayGuard::<1>::new(HOUR, Duration::ZERO);
    assert!((0..2).all(|_| guard.is_first_use(&token, Duration::ZERO)));
}

/// The figures of the documents.
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
                // Each against the same filter.
                !guard.clone().is_first_use(token, Duration::ZERO)
            })
            .count();
        assert!(wrong <= most, "{tokens_of_lifetime}: {wrong}");
    }
}
