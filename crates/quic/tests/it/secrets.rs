//! Debug output and errors show no secrets, and secrets are wiped.

use std::fmt::Debug;

use wireseal_quic::hazmat::{HeaderKey, KeyOctets, PacketKey};
use wireseal_quic::{
    AeadAlgorithm, AuthenticationFailures, Backend, InitialKeys, Keys, NumberLength, OneRtt,
    PacketNumberCounter, PacketType, Protected, ReceiveSpace, Sealer, StatelessResetKey, StatelessResetToken,
    TokenKey, TrafficSecret, Version,
};
use zeroize::ZeroizeOnDrop;

use crate::support::schedule::{expand_label, initial_secret, label};
use crate::support::{DESTINATION, Draft, Side, Suite, destination, protected, suites, update_fully};

/// Fails if four consecutive octets of a secret appear in `text`, in any form in which Debug prints octets: base 10 or 16, with or without
/// leading zeros, and with any separators.
fn assert_hides(text: &str, secret: &[u8]) {
    let text: String = text.to_lowercase().replace("0x", "");
    let text: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
    for octets in secret.windows(4) {
        let spelled = |each: fn(&u8) -> String| octets.iter().map(each).collect::<String>();
        let hexadecimal = [spelled(|octet| format!("{octet:02x}")), spelled(|octet| format!("{octet:x}"))];
        for spelling in hexadecimal.into_iter().chain([spelled(u8::to_string)]) {
            assert!(!text.contains(&spelling), "{spelling:?} in {text}");
        }
    }
}

fn assert_debug_hides(value: &dyn Debug, secrets: &[Vec<u8>]) {
    for text in [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}"), format!("{value:X?}")] {
        assert!(!text.is_empty());
        secrets.iter().for_each(|secret| assert_hides(&text, secret));
    }
}

#[test]
fn q_47_the_search_would_find_a_secret_that_shows() {
    let suite =
        Suite { backend: Backend::active(), version: Version::V1, algorithm: AeadAlgorithm::Aes128Gcm };
    let secret = suite.secret_octets(Side::Client);
    let spaced: Vec<_> = secret.iter().map(|octet| format!("{octet:#04x}")).collect();
    for shown in [
        format!("{secret:?}"),
        format!("{secret:#?}"),
        format!("{secret:x?}"),
        format!("{secret:X?}"),
        spaced.join(", "),
    ] {
        assert!(std::panic::catch_unwind(|| assert_hides(&shown, &secret)).is_err(), "{shown}");
    }
}

/// A secret with everything that is derived from it, for two generations.
fn derived(suite: Suite, secret: Vec<u8>) -> Vec<Vec<u8>> {
    let Suite { version, algorithm, .. } = suite;
    let next = expand_label(&secret, &label(version, "ku"), secret.len());
    let mut all = Vec::new();
    for secret in [secret, next] {
        for (purpose, length) in [("key", algorithm.key_length()), ("iv", 12), ("hp", algorithm.key_length())]
        {
            all.push(expand_label(&secret, &label(version, purpose), length));
        }
        all.push(secret);
    }
    all
}

#[test]
fn q_47_no_debug_shows_a_secret() {
    for suite in suites() {
        let Suite { backend, version, algorithm } = suite;
        let secrets: Vec<_> = Side::BOTH
            .into_iter()
            .flat_map(|side| {
                let initial = Suite { algorithm: AeadAlgorithm::Aes128Gcm, ..suite };
                let initial = derived(initial, initial_secret(version, &destination(), side));
                [derived(suite, suite.secret_octets(side)), initial].concat()
            })
            .collect();
        let of_first = derived(suite, suite.secret_octets(Side::Client));
        let [key, iv, hp] = [0, 1, 2].map(|i| of_first[i].clone());
        let secret = suite.secret(Side::Client);
        let packet_key = PacketKey::with_backend(backend, algorithm, &key, &iv.try_into().unwrap()).unwrap();
        let header_key = HeaderKey::with_backend(backend, algorithm, &hp).unwrap();
        let initial = InitialKeys::with_backend(backend, version, &destination());
        let [mut client, mut server] = suite.ends();
        update_fully(&mut client, &mut server);
        let keys = suite.keys_for(Side::Client, PacketType::OneRtt);
        let sealer = suite.sealer();
        let early = suite.early(Side::Client, PacketNumberCounter::new());
        let values: [&dyn Debug; 11] = [
            &early,
            &secret,
            &KeyOctets::derive(version, &secret),
            &suite.secret(Side::Client).peek_next(version),
            &packet_key,
            &header_key,
            &initial,
            &keys,
            &sealer,
            &client.one_rtt,
            &suite.end(Side::Server).one_rtt,
        ];
        for value in values {
            assert_debug_hides(value, &secrets);
        }
        let wrong = [&suite.secret_octets(Side::Client)[..], b"!"].concat();
        let error = TrafficSecret::new(algorithm, &wrong).unwrap_err();
        assert_debug_hides(&error, &secrets);
        assert_hides(&error.to_string(), &wrong);
    }
}

/// Payloads belong to the application: a log line about packets must not show them.
#[test]
fn q_47_no_debug_shows_a_payload() {
    for suite in suites() {
        let payload: Vec<u8> = (0x61..0x81).collect();
        let mut draft = Draft::short(NumberLength::Four, &payload);
        assert_debug_hides(&draft.outgoing(), std::slice::from_ref(&payload));
        suite.sealer().seal(draft.outgoing()).unwrap();
        let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
        let keys = suite.keys_for(Side::Client, PacketType::OneRtt);
        let opened = keys.open(protected(&mut draft.octets), &mut space, &mut failures).unwrap();
        assert_eq!(opened.payload, payload);
        assert_debug_hides(&opened, &[payload]);
    }
}

/// Nor the octets of a packet before it is opened: here, plaintext that was never sealed.
#[test]
fn q_47_no_debug_shows_the_octets_of_a_packet() {
    let payload: Vec<u8> = (0x61..0x81).collect();
    for mut draft in Draft::both(Version::V1, NumberLength::Four, &payload) {
        let payload = std::slice::from_ref(&payload);
        assert_debug_hides(&protected(&mut draft.octets), payload);
        assert_debug_hides(&Protected::split(&mut draft.octets, DESTINATION.len()), payload);
    }
}

#[test]
fn q_47_secrets_are_wiped() {
    fn is_wiped<T: ZeroizeOnDrop>() {}
    is_wiped::<TrafficSecret>();
    is_wiped::<PacketKey>();
    is_wiped::<HeaderKey>();
    is_wiped::<KeyOctets>();
    // These types do not implement it, but their fields wipe themselves on drop.
    assert!(std::mem::needs_drop::<Keys>());
    assert!(std::mem::needs_drop::<InitialKeys>());
    assert!(std::mem::needs_drop::<Sealer>());
    assert!(std::mem::needs_drop::<OneRtt>());
    assert!(std::mem::needs_drop::<HeaderKey>());
    // The counter holds no secret.
    assert!(!std::mem::needs_drop::<PacketNumberCounter>());
}

/// No octet of a secret is left where it was.
#[cfg(target_os = "linux")]
#[test]
fn q_47_memory_of_dropped_secrets_holds_none_of_them() {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn check<T>(value: T, secrets: &[&[u8]]) {
        let mut values = vec![value];
        let octets_at = values.as_ptr().addr() as u64;
        let present = |secret: &[u8]| {
            let mut octets = vec![0; size_of::<T>()];
            File::open("/proc/self/mem").unwrap().read_exact_at(&mut octets, octets_at).unwrap();
            octets.windows(secret.len()).any(|window| window == secret)
        };
        assert!(secrets.iter().all(|secret| present(secret)));
        // Drops the value where it is.
        values.clear();
        let parts = |secret: &&[u8]| secret.chunks_exact(4).any(present);
        assert!(!secrets.iter().any(parts), "{}", std::any::type_name::<T>());
    }
    for suite in suites() {
        let Suite { version, algorithm, .. } = suite;
        let secret = suite.secret_octets(Side::Client);
        check(suite.secret(Side::Client), &[&secret]);
        let of_first = derived(suite, secret);
        let [key, iv, hp] = [0, 1, 2].map(|i| &of_first[i][..]);
        check(KeyOctets::derive(version, &suite.secret(Side::Client)), &[key, iv, hp]);
        check(PacketKey::new(algorithm, key, &iv.try_into().unwrap()).unwrap(), &[iv]);
    }
    let key = std::array::from_fn(|i| 0xc1 ^ i as u8);
    check(TokenKey::new(&key), &[&key]);
    check(StatelessResetKey::new(&key), &[&key]);
    check(StatelessResetToken::new(*key.first_chunk().unwrap()), &[&key[..16]]);
}
