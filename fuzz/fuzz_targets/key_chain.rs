//! Key chains in TOML and JSON: a chain that can be read can be written in both formats, and reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_keys::KeyChains;

fuzz_target!(|text: &str| {
    for read in [KeyChains::from_toml, KeyChains::from_json] {
        let chains = match read(text) {
            Ok(chains) => chains,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let (toml, json) = (chains.to_toml(), chains.to_json());
        assert_eq!(*KeyChains::from_toml(&toml).expect("what was written can be read").to_toml(), *toml);
        for written in [KeyChains::from_toml(&toml), KeyChains::from_json(&json)] {
            let again = written.expect("what was written can be read");
            // RFC 8177 has no leaf for a preferred key.
            let is_other = |line: &&str| !line.starts_with("preferred = ");
            assert!(again.to_toml().lines().filter(is_other).eq(toml.lines().filter(is_other)));
            assert_eq!(*again.to_json(), *json);
            assert_eq!(again.chains().len(), chains.chains().len());
            for (one, other) in again.chains().iter().zip(chains.chains()) {
                assert_eq!((one.name(), one.keys().len()), (other.name(), other.keys().len()));
                for (one, other) in one.keys().iter().zip(other.keys()) {
                    assert_eq!(one.mkt().parameters(), other.mkt().parameters());
                    assert_eq!(
                        one.mkt().master_key().expose_secret(),
                        other.mkt().master_key().expose_secret()
                    );
                    assert_eq!(one.send_lifetime(), other.send_lifetime());
                    assert_eq!(one.accept_lifetime(), other.accept_lifetime());
                }
            }
        }
    }
});
