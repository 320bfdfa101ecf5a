//! HMAC with SHA-1 and SHA-256, one message and many side by side, on every path against slow models.
//!
//! The input is eight octets that cut, a key of 32 octets, and octets that are the messages, each cut in slices once more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels;
use wireseal_kernels::hmac::{ShaInstructions, model};
use wireseal_kernels::{sha1, sha256};

/// A hash of so many words and octets.
macro_rules! check {
    ($name:ident, $hash:ident, $model:expr, $words:literal) => {
        fn $name(cuts: &[u8; 8], key: &[u8; 32], octets: &[u8]) {
            let octets_of = |words: [u32; $words]| words.map(u32::to_be_bytes);
            // A few of them more than once, so that more messages wait than there are lanes.
            let messages: Vec<Vec<&[u8]>> = kernels::pieces(octets, cuts)
                .into_iter()
                .cycle()
                .take(37)
                .map(|message| kernels::pieces(message, &cuts[..2]))
                .collect();
            let keys: Vec<[u8; 32]> =
                (0..messages.len()).map(|number| key.map(|octet| octet ^ number as u8)).collect();
            let chaining_values: Vec<[[u32; $words]; 2]> = keys.iter().map(|key| $model.key(key)).collect();
            let expected: Vec<[[u8; 4]; $words]> = keys
                .iter()
                .zip(&messages)
                .map(|(key, message)| octets_of($model.hmac(key, &message.concat())))
                .collect();

            kernels::each_alone(|path| {
                let values = || chaining_values.iter().map(|[inner, outer]| [inner, outer]);
                let jobs = values()
                    .zip(&messages)
                    .enumerate()
                    .map(|(number, (values, message))| (number, values, &message[..]));
                let mut seen = vec![false; expected.len()];
                $hash::hmac_many(jobs, |number, mac| {
                    assert!(mac.is_none_or(|mac| mac == expected[number].as_flattened()), "{path:?}");
                    assert!(!std::mem::replace(&mut seen[number], true), "once each");
                });
                assert!(seen.into_iter().all(|seen| seen));

                let Some(sha) = ShaInstructions::detect() else { return };
                for ((values, message), expected) in values().zip(&messages).zip(&expected) {
                    assert_eq!($hash::hmac(sha, values, message), expected.as_flattened(), "{path:?}");
                }
            });
        }
    };
}

check!(check_sha1, sha1, model::SHA1, 5);
check!(check_sha256, sha256, model::SHA256, 8);

fuzz_target!(|input: &[u8]| {
    let Some((cuts, input)) = input.split_first_chunk::<8>() else { return };
    let Some((key, octets)) = input.split_first_chunk::<32>() else { return };
    check_sha1(cuts, key, octets);
    check_sha256(cuts, key, octets);
});
