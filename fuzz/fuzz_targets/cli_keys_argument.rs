//! Arguments of `--key`: the keys can be written in every format and read again unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal::keys::from_argument;
use wireseal_fuzz::keys::check_keys;

fuzz_target!(|text: &str| {
    // A made-up argument must not open files or keyrings on this machine.
    if text.contains("secret-file=") || text.contains("secret-keyring=") {
        return;
    }
    match from_argument(text) {
        Ok(file) => check_keys(&file),
        Err(error) => assert!(error.to_string().starts_with("--key: ")),
    }
});
