//! Stateless resets.

use proptest::prelude::*;
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, ConnectionId, EncodeError, Keys, OpenError, PacketType, Protected,
    ReceiveSpace, StatelessResetKey, StatelessResetToken, TrafficSecret, Version,
};

fn token(connection_id: &[u8]) -> StatelessResetToken {
    StatelessResetKey::new(&[0x4b; 32]).token(&ConnectionId::new(connection_id).unwrap()).unwrap()
}

#[test]
fn q_44_a_token_depends_on_key_and_connection_id_alone() {
    assert_eq!(token(&[1; 8]), token(&[1; 8]));
    let other_key = StatelessResetKey::new(&[0x4c; 32]).token(&ConnectionId::new(&[1; 8]).unwrap()).unwrap();
    let tokens = [token(&[0]), token(&[1; 7]), token(&[1; 8]), token(&[1; 9]), token(&[2; 8]), other_key];
    for (i, one) in tokens.iter().enumerate() {
        assert!(tokens[..i].iter().all(|other| other != one));
        assert_eq!(*one, StatelessResetToken::new(*one.octets()));
    }
}

/// It would be the token of every connection of the endpoint (RFC 9000 §10.3.2).
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
    let token = token(&[1; 8]);
    for length in 0..64 {
        let mut datagram = vec![0xff; length];
        let written = token.write_reset(&mut datagram);
        if length < 21 {
            assert_eq!(written, Err(EncodeError::BufferTooSmall { expected: 21, got: length }));
            assert!(datagram.iter().all(|octet| *octet == 0xff), "nothing is written");
            // The right octets in too short a datagram are no reset either.
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

/// A stack that asks only after opening failed sees the same: neither header nor tag have changed.
#[test]
fn q_44_a_failed_open_leaves_the_token_as_it_was() {
    let token = token(&[1; 8]);
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
    assert_eq!(format!("{:?}", token(&[1; 8])), "StatelessResetToken { .. }");
}

proptest! {
    #[test]
    fn q_49_no_octets_make_looking_for_a_reset_panic(mut datagram in proptest::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(!token(&[1; 8]).matches(&datagram));
        let length = datagram.len();
        prop_assert_eq!(token(&[1; 8]).write_reset(&mut datagram).is_ok(), length >= 21);
    }
}
