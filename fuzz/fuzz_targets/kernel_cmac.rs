//! AES-128-CMAC of one message and of many side by side, each with its own key, on every path, compared with a slow model.
//!
//! Input: eight octets that choose where to cut, a key, and the octets of the messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels::{self, Messages};
use wireseal_kernels::cmac::{Key, mac_many};
use wireseal_kernels::model::cmac as model;

fuzz_target!(|input: &[u8]| {
    let Some((cuts, input)) = input.split_first_chunk::<8>() else { return };
    let Some((key, octets)) = input.split_first_chunk::<16>() else { return };
    let messages = Messages::cut(octets, cuts, 21, 16);
    let keys = messages.keys(key);
    let expected: Vec<[u8; 16]> =
        keys.iter().zip(&messages.whole).map(|(key, message)| model::mac(key, message)).collect();

    kernels::each_alone(|path| {
        let Some(keys) = keys.iter().map(Key::new).collect::<Option<Vec<Key>>>() else { return };
        for ((key, message), expected) in keys.iter().zip(&messages.sliced).zip(&expected) {
            assert_eq!(key.mac(message), *expected, "{path:?}");
        }
        for messages in [&messages.sliced, &messages.in_two] {
            let jobs = keys.iter().zip(messages).enumerate();
            let mut seen = vec![false; expected.len()];
            mac_many(jobs.map(|(number, (key, message))| (number, key, &message[..])), |number, mac| {
                assert_eq!(*mac, expected[number], "{path:?}");
                assert!(!std::mem::replace(&mut seen[number], true), "{number} is reported twice");
            });
        }
    });
});
