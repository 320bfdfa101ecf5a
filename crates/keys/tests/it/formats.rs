//! Key chains written and read again: the example files, and random chains.

use proptest::prelude::*;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Error, Key, KeyChain, KeyChains, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};

const JSON_FILES: [&str; 4] = [
    include_str!("../data/key-chains/rfc8177.json"),
    include_str!("../data/key-chains/rfc9648.json"),
    include_str!("../data/key-chains/device-state.json"),
    include_str!("../data/key-chains/all-fields.json"),
];
const TOML_FILES: [&str; 2] =
    [include_str!("../data/key-chains/all-fields.toml"), include_str!("../data/key-chains/rollover.toml")];

fn timestamp(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn between(from: &str, until: &str) -> Lifetime {
    Lifetime::new(Some(timestamp(from)), Some(timestamp(until))).unwrap()
}

fn key<'a>(chains: &'a KeyChains, chain: &str, key_id: u64) -> &'a Key {
    chains.get(chain).unwrap().keys().iter().find(|key| key.key_id() == key_id).unwrap()
}

/// Everything about a key, including the secret.
fn facts(key: &Key) -> impl PartialEq + std::fmt::Debug + use<> {
    let mkt = key.mkt();
    let secret = mkt.master_key().expose_secret().to_vec();
    (key.key_id(), *mkt.parameters(), secret, *key.send_lifetime(), *key.accept_lifetime())
}

fn assert_same(a: &KeyChains, b: &KeyChains) {
    assert_eq!(a.chains().len(), b.chains().len());
    for (a, b) in a.chains().iter().zip(b.chains()) {
        assert_eq!(a.name(), b.name());
        assert_eq!(a.description(), b.description());
        assert_eq!(a.accept_tolerance(), b.accept_tolerance());
        assert!(a.keys().iter().map(facts).eq(b.keys().iter().map(facts)), "keys of {:?}", a.name());
    }
}

fn assert_survives_writing(chains: &KeyChains) {
    let toml = chains.to_toml();
    let from_toml = KeyChains::from_toml(&toml).unwrap();
    assert_same(chains, &from_toml);
    assert!(chains.chains().iter().zip(from_toml.chains()).all(|(one, other)| one.has_same_keys(other)));
    let json = from_toml.to_json();
    let from_json = KeyChains::from_json(&json).unwrap();
    assert_same(chains, &from_json);
    // RFC 8177 has no leaf for a preferred key.
    let without = toml.lines().filter(|line| !line.starts_with("preferred = "));
    assert!(from_json.to_toml().lines().eq(without));
    assert_eq!(*from_json.to_json(), *json);
}

#[test]
fn the_example_files_survive_writing() {
    let json = JSON_FILES.iter().map(|text| KeyChains::from_json(text));
    let toml = TOML_FILES.iter().map(|text| KeyChains::from_toml(text));
    for chains in json.chain(toml) {
        assert_survives_writing(&chains.unwrap());
    }
}

#[test]
fn rfc_8177_examples_are_read() {
    let chains = KeyChains::from_json(JSON_FILES[0]).unwrap();
    let always = key(&chains, "keychain-no-end-time", 100);
    assert_eq!(always.mkt().master_key().expose_secret(), b"keystring_in_ascii_100");
    assert_eq!(*always.send_lifetime(), Lifetime::ALWAYS);

    let (first, second) = (key(&chains, "keychain2", 35), key(&chains, "keychain2", 36));
    assert_eq!(*first.accept_lifetime(), between("2017-01-01T00:00:00Z", "2017-02-01T00:00:00Z"));
    // The second one ends after a duration of 28 days.
    assert_eq!(*second.send_lifetime(), between("2017-02-01T00:00:00Z", "2017-03-01T00:00:00Z"));
    assert_eq!(second.mkt().master_key().expose_secret(), [0xfe, 0xed, 0xbe, 0xaf, 0x36]);

    let independent = key(&chains, "keychain3", 36);
    assert_eq!(*independent.send_lifetime(), between("2017-02-01T00:00:00Z", "2017-03-01T00:00:00Z"));
    assert_eq!(*independent.accept_lifetime(), between("2017-01-31T23:59:55Z", "2017-03-01T00:00:05Z"));
}

#[test]
fn rfc_9648_example_is_read() {
    let chains = KeyChains::from_json(JSON_FILES[1]).unwrap();
    let parameters = *key(&chains, "ao-config", 55).mkt().parameters();
    assert_eq!((parameters.send_id, parameters.recv_id), (KeyId(61), KeyId(84)));
    assert_eq!((parameters.algorithm, parameters.mac_length()), (TcpAoAlgorithm::Aes128Cmac, 12));
    assert_eq!(parameters.options, OptionCoverage::Covered);
}

#[test]
fn state_that_a_device_adds_is_ignored() {
    let chains = KeyChains::from_json(JSON_FILES[2]).unwrap();
    let key = key(&chains, "core", u64::MAX);
    assert_eq!(*key.send_lifetime(), Lifetime::starting(timestamp("2026-01-01T00:00:00Z")));
    assert_eq!(key.mkt().parameters().options, OptionCoverage::Excluded);
    assert_eq!((key.mkt().send_id(), key.mkt().recv_id()), (KeyId(0), KeyId(255)));
}

#[test]
fn toml_fields_mean_what_they_say() {
    let chains = KeyChains::from_toml(TOML_FILES[0]).unwrap();
    let chain = chains.get("everything").unwrap();
    assert_eq!((chain.description(), chain.accept_tolerance()), (Some("every field"), 60));
    let all = key(&chains, "everything", 1);
    assert_eq!((all.mkt().send_id(), all.mkt().recv_id()), (KeyId(100), KeyId(200)));
    assert_eq!(all.mkt().parameters().algorithm, TcpAoAlgorithm::Kmac256_128);
    assert_eq!(all.mkt().master_key().expose_secret(), [0, 1, 2, 3]);
    assert_eq!(all.mkt().parameters().mac_length(), 12);
    assert_eq!(all.mkt().parameters().options, OptionCoverage::Excluded);
    assert_eq!(*all.send_lifetime(), between("2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"));
    assert_eq!(*all.accept_lifetime(), between("2025-12-31T23:00:00Z", "2026-07-01T01:00:00Z"));

    let defaults = key(&chains, "everything", 101);
    assert_eq!((defaults.mkt().send_id(), defaults.mkt().recv_id()), (KeyId(101), KeyId(101)));
    assert_eq!(defaults.mkt().parameters().algorithm, TcpAoAlgorithm::LinuxHmacSha256);
    assert_eq!(defaults.mkt().parameters().mac_length(), 12);
    assert_eq!(*defaults.accept_lifetime(), Lifetime::ALWAYS);
    assert_eq!(key(&chains, "edge", 7).mkt().master_key().expose_secret(), b"\ttab");
}

#[test]
fn defaults_are_left_out() {
    let chains = KeyChains::from_toml(TOML_FILES[1]).unwrap();
    let expected = "\
[[key-chain]]
name = \"core\"
accept-tolerance = 3600

[[key-chain.key]]
send-id = 100
algorithm = \"AES-128-CMAC-96\"
secret = \"first-secret\"
send = { until = 2026-07-01T00:00:00Z }
";
    assert!(chains.to_toml().starts_with(expected), "{}", *chains.to_toml());
}

#[test]
fn a_preferred_key_is_kept_in_toml_and_lost_in_json() {
    let keys = "[[key-chain.key]]\nsend-id = 1\nkey-id = 11\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"one\"\n\
                [[key-chain.key]]\nsend-id = 2\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"two\"\n";
    let text = |line: &str| format!("[[key-chain]]\nname = \"core\"\n{line}\n{keys}");
    for preferred in [11, 2] {
        let chains = KeyChains::from_toml(&text(&format!("preferred = {preferred}"))).unwrap();
        assert_eq!(chains.get("core").unwrap().preferred(), Some(preferred));
        assert_survives_writing(&chains);
        let written = chains.to_toml();
        assert!(written.starts_with(&format!("[[key-chain]]\nname = \"core\"\npreferred = {preferred}\n")));
        let json = KeyChains::from_json(&chains.to_json()).unwrap();
        assert_eq!(json.get("core").unwrap().preferred(), None);
    }
    let place = "line 3, column 13, key chain \"core\", preferred: ";
    for (line, expected) in [
        // Its SendID is not its key id.
        ("preferred = 1", format!("{place}no key of the chain has this key id")),
        ("preferred = -1", format!("{place}must be a whole number from 0 to 18446744073709551615")),
        ("preferred = true", format!("{place}expected a whole number, found a boolean")),
    ] {
        assert_eq!(KeyChains::from_toml(&text(line)).unwrap_err().to_string(), expected);
    }
}

#[test]
fn rfc_3339_times_are_read_and_written() {
    for (text, written) in [
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("2026-11-20T10:00:00+05:30", "2026-11-20T04:30:00Z"),
        ("2026-11-20t10:00:00.999z", "2026-11-20T10:00:00Z"),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ] {
        assert_eq!(timestamp(text).to_string(), written);
    }
    for text in ["", "2026-11-20", "2026-11-20T10:00:00", "2026-02-29T00:00:00Z", "1e9"] {
        assert!(text.parse::<Timestamp>().is_err(), "{text:?}");
    }
    assert_eq!(timestamp("0000-01-01T00:00:00Z"), Timestamp::MIN);
    assert_eq!(timestamp("9999-12-31T23:59:59Z"), Timestamp::MAX);
    assert_eq!(Timestamp::from_unix_seconds(i64::MAX), Timestamp::MAX);
    assert_eq!(Timestamp::MIN.earlier_by(1), Timestamp::MIN);
}

fn any_lifetime() -> impl Strategy<Value = (Lifetime, Lifetime)> {
    let moment = || prop::option::of(-70_000_000_000_i64..260_000_000_000);
    (moment(), moment(), any::<u32>()).prop_map(|(from, until, lead)| {
        let [from, until] = [from, until].map(|seconds| seconds.map(Timestamp::from_unix_seconds));
        let send = Lifetime::new(from, until).unwrap_or(Lifetime::ALWAYS);
        (send, send.widened_by(lead))
    })
}

prop_compose! {
    fn any_key(index: u8)(
        key_id_apart in any::<bool>(),
        recv_id in any::<u8>(),
        algorithm in prop::sample::select(TcpAoAlgorithm::ALL.to_vec()),
        secret in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..=80),
            "[ -~]{1,80}".prop_map(String::into_bytes),
        ],
        mac_length in 4_usize..=16,
        excluded in any::<bool>(),
        (send, accept) in any_lifetime(),
    ) -> Key {
        let mkt = Mkt::with_short_master_key(
            KeyId(index),
            KeyId(index ^ recv_id),
            algorithm,
            MasterKey::new(&secret).unwrap(),
        )
        .unwrap();
        let options = if excluded { OptionCoverage::Excluded } else { OptionCoverage::Covered };
        let key_id = u64::from(index) + if key_id_apart { 1 << 40 } else { 0 };
        Key::new(key_id, mkt.with_mac_length(mac_length).unwrap().with_options(options))
            .with_lifetimes(send, accept)
            .unwrap()
    }
}

fn any_chain() -> impl Strategy<Value = Result<KeyChain, Error>> {
    let keys =
        (any_key(0), any_key(1), any_key(2), 1_usize..=3, prop::option::of(any::<prop::sample::Index>()));
    (any::<String>(), prop::option::of(any::<String>()), any::<u32>(), keys).prop_map(
        |(name, description, tolerance, (a, b, c, count, preferred))| {
            let chain = KeyChain::new(name, [a, b, c].into_iter().take(count).collect())?;
            let preferred = preferred.map(|index| chain.keys()[index.index(count)].key_id());
            let chain = chain.with_accept_tolerance(tolerance)?;
            let chain = preferred.into_iter().try_fold(chain, KeyChain::with_preferred)?;
            Ok(match description {
                Some(description) => chain.with_description(description),
                None => chain,
            })
        },
    )
}

proptest! {
    #[test]
    fn any_chains_survive_writing(chains in prop::collection::vec(any_chain(), 0..4)) {
        let chains = chains.into_iter().collect::<Result<_, _>>().and_then(KeyChains::new);
        prop_assume!(chains.is_ok());
        assert_survives_writing(&chains.unwrap());
    }

    #[test]
    fn no_text_makes_reading_panic(text in "[\\[\\]{}\"=:a-z0-9, \n-]{0,200}") {
        let _: (Result<_, _>, Result<_, _>) = (KeyChains::from_toml(&text), KeyChains::from_json(&text));
    }

    #[test]
    fn a_damaged_file_is_refused_in_one_line(
        file in 0_usize..6,
        position in any::<prop::sample::Index>(),
        octet in prop::sample::select(b"{}[]\"=:,-0Z\n".to_vec()),
    ) {
        let mut text = JSON_FILES.iter().chain(&TOML_FILES).nth(file).unwrap().as_bytes().to_vec();
        *position.get_mut(&mut text) = octet;
        let text = String::from_utf8(text).unwrap();
        let read = if file < JSON_FILES.len() { KeyChains::from_json } else { KeyChains::from_toml };
        if let Err(error) = read(&text) {
            prop_assert!(!error.to_string().contains('\n'));
            for secret in ["first-secret", "second-secret", "keystring_in", "testvector", "friend"] {
                prop_assert!(!format!("{error} {error:?}").contains(secret), "{error}");
            }
        }
    }
}
