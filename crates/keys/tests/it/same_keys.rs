//! When two keys are the same, and how secrets are written and held.

use std::path::Path;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    ChainKey, Clock, Format, Key, KeyChain, KeyChains, KeyFile, Lifetime, Notation, Preference, Secret, read,
};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};

fn file() -> KeyFile {
    let text = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nrecv-id = 2\nalgorithm = \
                \"AES-128-CMAC-96\"\nsecret = \"secret-of-the-tests\"\n";
    read(Path::new("keys"), text, Some(Format::Toml)).unwrap()
}

fn secret(text: &[u8], notation: Notation) -> Secret {
    Secret::new(text.to_vec().into(), notation)
}

#[test]
fn keys_are_the_same_if_nothing_but_the_notation_differs() {
    let key = file().chains[0].keys[0].clone();
    let is_same = |edit: &dyn Fn(&mut ChainKey)| {
        let mut other = key.clone();
        edit(&mut other);
        assert_eq!(key.is_same_key(&other), other.is_same_key(&key));
        key.is_same_key(&other)
    };
    let life = Lifetime::starting("2026-01-01T00:00:00Z".parse().unwrap());
    assert!(is_same(&|_| {}));
    assert!(is_same(&|key| key.secret = secret(b"secret-of-the-tests", Notation::Hexadecimal)));
    assert!(is_same(&|key| key.clock = Clock::Local), "no moment depends on it");
    let edits: [&dyn Fn(&mut ChainKey); 11] = [
        &|key| key.key_id = 9,
        &|key| key.send_id = KeyId(9),
        &|key| key.recv_id = KeyId(9),
        &|key| key.algorithm = TcpAoAlgorithm::HmacSha1,
        &|key| key.mac_length = 16,
        &|key| key.options = OptionCoverage::Excluded,
        &|key| key.send = life,
        &|key| key.accept = life,
        &|key| key.preference = Preference::Deprecated,
        &|key| key.secret = secret(b"secret-of-the-other", Notation::Text),
        &|key| key.secret = secret(b"secret-of-the-tests", Notation::Encrypted("type 6")),
    ];
    for (index, edit) in edits.iter().enumerate() {
        assert!(!is_same(edit), "edit {index}");
    }
    // Nothing is known of secrets that only a router can decrypt.
    let unknown = ChainKey { secret: secret(b"", Notation::Encrypted("type 6")), ..key.clone() };
    assert!(!unknown.is_same_key(&unknown));
}

/// The list of keys is as long as it needs to be from the start, and does not leave secrets behind as it grows.
#[test]
fn keys_for_a_capture_have_their_room_from_the_start() {
    let mut file = file();
    let chain = &mut file.chains[0];
    chain.keys = vec![chain.keys[0].clone(); 5];
    chain.neighbors =
        (1..=4).map(|last| format!("192.0.2.{last}").parse::<cidr::IpCidr>().unwrap().into()).collect();
    let keys = file.keys().unwrap().keys;
    assert_eq!((keys.len(), keys.capacity()), (20, 20));
}

fn chains(name: &str, algorithm: TcpAoAlgorithm, secret: &[u8]) -> KeyChains {
    let master_key = MasterKey::new(secret).unwrap();
    let mkt = Mkt::with_short_master_key(KeyId(1), KeyId(2), algorithm, master_key).unwrap();
    KeyChains::new(vec![KeyChain::new(name, vec![Key::new(1, mkt)]).unwrap()]).unwrap()
}

/// A secret is written as text only if no reader can take it for another one.
#[test]
fn secrets_are_written_as_text_or_in_hexadecimal() {
    for (secret, is_text) in [
        (&b"sixteen octets !"[..], true),
        (b"inner blanks too", true),
        (b" blank in front 16", false),
        (b"blank at its end 16 ", false),
        (b"a tab\tis not printable", false),
        (b"neither is \x7f, that is sure", false),
        (b"\xff\xfe no text whatsoever", false),
    ] {
        let chains = chains("core", TcpAoAlgorithm::Aes128Cmac, secret);
        let (toml, json) = (chains.to_toml(), chains.to_json());
        let shown = [toml.contains("\nsecret = "), json.contains("\"keystring\"")];
        let in_hexadecimal = [toml.contains("secret-hex"), json.contains("\"hexadecimal-string\"")];
        assert_eq!((shown, in_hexadecimal), ([is_text; 2], [!is_text; 2]), "{secret:?}");
    }
}

/// A secret that is just long enough needs no permission to be short.
#[test]
fn only_short_secrets_are_written_with_a_permission() {
    for algorithm in TcpAoAlgorithm::ALL {
        let least = algorithm.min_master_key_length();
        for (length, is_short) in [(least.saturating_sub(1).max(1), least > 1), (least.max(1), false)] {
            let chains = chains("core", algorithm, &vec![b'k'; length]);
            let is_written =
                [&*chains.to_toml(), &*chains.to_json()].map(|text| text.contains("allow-short-secret"));
            assert_eq!(is_written, [is_short; 2], "{algorithm}: {length} octets");
        }
    }
}

/// The buffer has room for a name of any length, of which every character is escaped.
#[test]
fn names_of_any_length_are_written() {
    for (name, described) in [("\u{1}".repeat(10_000), ""), ("core".to_owned(), "\u{1}")] {
        let chain = chains(&name, TcpAoAlgorithm::Aes128Cmac, b"sixteen octets !").chains()[0].clone();
        let chain = match described {
            "" => chain,
            character => chain.with_description(character.repeat(10_000)),
        };
        let chains = KeyChains::new(vec![chain]).unwrap();
        let read = KeyChains::from_toml(&chains.to_toml()).unwrap();
        assert_eq!(
            (read.chains()[0].name(), read.chains()[0].description()),
            (&*name, chains.chains()[0].description())
        );
        let read = KeyChains::from_json(&chains.to_json()).unwrap();
        assert_eq!(read.chains()[0].name(), name);
    }
}
