//! SR OS configurations: the keys can be written in every format and read again unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::keys::check_text;
use wireseal_keys::Format;

fuzz_target!(|text: &str| check_text(text, Format::SrOs));
