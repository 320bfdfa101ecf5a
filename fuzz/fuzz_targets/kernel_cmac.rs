//! AES-128-CMAC, of one message and of many side by side, each under its own key, on every path against a slow model.
//!
//! Input: eight octets that say where to cut, a key, and the octets of the messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels;
use wireseal_kernels::cmac::{Key, mac_many, model};

fuzz_target!(|input: &[u8]| {
    let Some((cuts, input)) = input.split_first_chunk::<8>() else { return };
    let Some((key, octets)) = input.split_first_chunk::<16>() else { return };
    // Some repeat, to have more messages than lanes.
    let messages: Vec<&[u8]> = kernels::pieces(octets, cuts).into_iter().cycle().take(21).collect();
    let sliced: Vec<Vec<&[u8]>> =
        messages.iter().map(|message| kernels::pieces(message, &cuts[..2])).collect();
    // Whole blocks first: only such messages are computed side by side.
    let in_two: Vec<Vec<&[u8]>> =
        messages.iter().map(|message| kernels::pieces(message, &[cuts[0] & !15])).collect();
    let keys: Vec<[u8; 16]> =
        (0..messages.len()).map(|number| key.map(|octet| octet ^ number as u8)).collect();
    let expected: Vec<[u8; 16]> =
        keys.iter().zip(&messages).map(|(key, message)| model::mac(key, message)).collect();

    kernels::each_alone(|path| {
        let Some(keys) = keys.iter().map(Key::new).collect::<Option<Vec<Key>>>() else { return };
        for ((key, message), expected) in keys.iter().zip(&sliced).zip(&expected) {
            assert_eq!(key.mac(message), *expected, "{path:?}");
        }
        for messages in [&sliced, &in_two] {
            let jobs = keys.iter().zip(messages).enumerate();
            let mut seen = vec![false; expected.len()];
            mac_many(jobs.map(|(number, (key, message))| (number, key, &message[..])), |number, mac| {
                assert_eq!(*mac, expected[number], "{path:?}");
                assert!(!std::mem::replace(&mut seen[number], true), "{number} is reported twice");
            });
        }
    });
});
