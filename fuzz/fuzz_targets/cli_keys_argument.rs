//! Keys as `--key` takes them: whatever is read is written in every format and read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal::keys::from_argument;
use wireseal_fuzz::keys::check_file;

fuzz_target!(|text: &str| {
    // Arguments that a run makes up are not to open the machine's files, nor its keyring.
    if text.contains("secret-file=") || text.contains("secret-keyring=") {
        return;
    }
    match from_argument(text) {
        Ok(file) => check_file(&file),
        Err(error) => assert!(error.to_string().starts_with("--key: ")),
    }
});
