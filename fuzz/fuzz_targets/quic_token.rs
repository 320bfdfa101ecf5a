//! Tokens: only tokens that this key sealed for this version, address and time are accepted. Stateless resets are recognised only by their
//! own token.
//!
//! Input: 16 octets of choices, then octets used as tokens, connection IDs and datagrams.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::{hosts, quic};
use wireseal_quic::{ConnectionId, SealError, StatelessResetKey, TokenError, TokenKey, TokenPurpose};

fuzz_target!(|input: &[u8]| {
    let Some((choice, octets)) = input.split_first_chunk::<16>() else { return };
    let mut secret = [0x5a; 32];
    secret[..8].copy_from_slice(&hosts::secret(input).to_be_bytes());
    tokens(choice, octets, &secret);
    resets(choice, octets, &secret);
});

fn id(octets: &[u8], length: u8) -> ConnectionId {
    ConnectionId::new(&octets[..octets.len().min(usize::from(length % 21))]).expect("at most 20 octets")
}

fn tokens(choice: &[u8; 16], octets: &[u8], secret: &[u8; 32]) {
    let key = TokenKey::new(secret);
    let [version, other_version] = [0, 1].map(|more| quic::version(choice[0] % 3 + more));
    let port = u16::from_be_bytes([choice[1], choice[2]]);
    let addresses = [
        Ipv4Addr::new(192, 0, 2, choice[3]).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, choice[3].into()).into(),
    ];
    let [ip, other_ip] = if choice[0] & 2 == 0 { addresses } else { [addresses[1], addresses[0]] };
    let address = SocketAddr::new(ip, port);
    let purpose = if choice[0] & 4 == 0 {
        TokenPurpose::NewToken
    } else {
        TokenPurpose::Retry {
            original_destination: id(octets, choice[4]),
            retry_source: id(octets, choice[5]),
        }
    };
    let expires = Duration::from_millis(u64::from_be_bytes(*choice.last_chunk().expect("16 octets")));

    assert_eq!(
        key.open(version, address, octets, Duration::ZERO),
        Err(TokenError::Invalid),
        "it was never sealed"
    );
    let _ = TokenKey::claims_retry(octets);

    let mut sealed = [0xa5; TokenKey::MAX_TOKEN_LENGTH + 1];
    let length = key.seal(choice, version, address, &purpose, expires, &mut sealed).expect("room");
    assert!(sealed[length..].iter().all(|octet| *octet == 0xa5));
    let mut short = vec![0xa5; length - 1];
    let too_small = SealError::BufferTooSmall { needed: length, got: length - 1 };
    assert_eq!(key.seal(choice, version, address, &purpose, expires, &mut short), Err(too_small));
    assert!(short.iter().all(|octet| *octet == 0xa5));

    let token = &mut sealed[..length];
    assert_eq!(TokenKey::claims_retry(token), matches!(purpose, TokenPurpose::Retry { .. }));
    let before = expires.saturating_sub(Duration::from_millis(1));
    match key.open(version, address, token, before) {
        Ok(found) => assert_eq!((found.purpose, found.unique), (purpose, *choice)),
        Err(error) => assert!(expires.is_zero() && error == TokenError::Expired { purpose }),
    }
    assert_eq!(key.open(version, address, token, expires), Err(TokenError::Expired { purpose }));

    let invalid = Err(TokenError::Invalid);
    assert_eq!(key.open(other_version, address, token, Duration::ZERO), invalid);
    assert_eq!(key.open(version, SocketAddr::new(other_ip, port), token, Duration::ZERO), invalid);
    let other_port = key.open(version, SocketAddr::new(ip, port ^ 1), token, before);
    match purpose {
        TokenPurpose::Retry { .. } => assert_eq!(other_port, invalid),
        TokenPurpose::NewToken => assert_eq!(other_port, key.open(version, address, token, before)),
    }
    let mut other_secret = *secret;
    other_secret[31] ^= 1;
    assert_eq!(TokenKey::new(&other_secret).open(version, address, token, Duration::ZERO), invalid);
    let at = usize::from(choice[6]) % length;
    token[at] ^= 1 << (choice[7] & 7);
    assert_eq!(key.open(version, address, token, Duration::ZERO), invalid, "altered at {at}");
    assert_eq!(key.open(version, address, &token[..at], Duration::ZERO), invalid, "cut at {at}");
}

fn resets(choice: &[u8; 16], octets: &[u8], secret: &[u8; 32]) {
    let key = StatelessResetKey::new(secret);
    let [one, other] = [choice[4], choice[5]].map(|length| id(octets, length));
    let tokens = [one, other].map(|id| {
        let token = key.token(&id);
        assert_eq!(token.is_none(), id.is_empty());
        token
    });
    let [Some(token), Some(other_token)] = tokens else { return };
    assert_eq!(token == other_token, one == other);
    assert!(!token.matches(octets), "it was never written");
    let mut reset = octets.to_vec();
    match token.write_reset(&mut reset) {
        Ok(()) => {
            assert!(token.matches(&reset));
            assert_eq!(other_token.matches(&reset), one == other);
            assert_eq!((reset[0] & 0xc0, reset.len()), (0x40, octets.len()));
            let random = 1..octets.len() - token.octets().len();
            assert_eq!(reset[random.clone()], octets[random]);
            let last = reset.len() - 1 - usize::from(choice[6] % 16);
            reset[last] ^= 1 << (choice[7] & 7);
            assert!(!token.matches(&reset));
        }
        Err(error) => {
            assert_eq!(error, SealError::BufferTooSmall { needed: 21, got: octets.len() });
            assert_eq!(reset, octets);
        }
    }
}
