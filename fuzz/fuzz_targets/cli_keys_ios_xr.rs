//! IOS XR's configuration: whatever is read is written in every format and read again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal::keys::Format;
use wireseal_fuzz::keys::check_text;

fuzz_target!(|text: &str| check_text(text, Format::IosXr));
