//! AES-128-CMAC, one message and many under other keys side by side, on every path against a slow model.
//!
//! The input is eight octets that cut, a key, and octets that are the messages, each cut in slices once more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels;
use wireseal_kernels::cmac::{Key, mac_many, model};

fuzz_target!(|input: &[u8]| {
    let Some((cuts, input)) = input.split_first_chunk::<8>() else { return };
    let Some((key, octets)) = input.split_first_chunk::<16>() else { return };
    // A few of them more than once, so that more messages wait than there are lanes.
    let messages: Vec<Vec<&[u8]>> = kernels::pieces(octets, cuts)
        .into_iter()
        .cycle()
        .take(21)
        .map(|message| kernels::pieces(message, &cuts[..2]))
        .collect();
    let keys: Vec<[u8; 16]> =
        (0..messages.len()).map(|number| key.map(|octet| octet ^ number as u8)).collect();
    let expected: Vec<[u8; 16]> =
        keys.iter().zip(&messages).map(|(key, message)| model::mac(key, &message.concat())).collect();

    kernels::each_alone(|path| {
        let Some(keys) = keys.iter().map(Key::new).collect::<Option<Vec<Key>>>() else { return };
        for ((key, message), expected) in keys.iter().zip(&messages).zip(&expected) {
            assert_eq!(key.mac(message), *expected, "{path:?}");
        }
        let jobs = keys
            .iter()
            .zip(&messages)
            .enumerate()
            .map(|(number, (key, message))| (number, key, &message[..]));
        let mut seen = vec![false; expected.len()];
        mac_many(jobs, |number, mac| {
            assert_eq!(*mac, expected[number], "{path:?}");
            assert!(!std::mem::replace(&mut seen[number], true), "once each");
        });
        assert!(seen.into_iter().all(|seen| seen));
    });
});
