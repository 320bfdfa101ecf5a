//! HMAC with SHA-1 and SHA-256, of one message and of many side by side, on every path, compared with slow models.
//!
//! Input: eight octets that choose where to cut, a key of 32 octets, and the octets of the messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels::{self, Messages};
use wireseal_kernels::hmac::ShaInstructions;
use wireseal_kernels::model::hmac as model;
use wireseal_kernels::{sha1, sha256};

/// Checks HMAC with one hash, whose chaining value has this many words.
macro_rules! check {
    ($name:ident, $hash:ident, $model:expr, $words:literal) => {
        fn $name(cuts: &[u8; 8], key: &[u8; 32], octets: &[u8]) {
            let messages = Messages::cut(octets, cuts, 37, 64);
            let keys = messages.keys(key);
            let chaining_values: Vec<[[u32; $words]; 2]> = keys.iter().map(|key| $model.key(key)).collect();
            let expected: Vec<[[u8; 4]; $words]> = keys
                .iter()
                .zip(&messages.whole)
                .map(|(key, message)| $model.hmac(key, message).map(u32::to_be_bytes))
                .collect();

            kernels::each_alone(|path| {
                for messages in [&messages.sliced, &messages.in_two] {
                    let jobs = chaining_values.iter().zip(messages).enumerate();
                    let jobs = jobs.map(|(number, (key, message))| (number, key.each_ref(), &message[..]));
                    let mut seen = vec![false; expected.len()];
                    $hash::hmac_many(jobs, |number, mac| {
                        assert_eq!(mac, expected[number].as_flattened(), "{path:?}");
                        assert!(!std::mem::replace(&mut seen[number], true), "{number} is reported twice");
                    });
                }
                let Some(sha) = ShaInstructions::detect() else { return };
                for ((key, message), expected) in chaining_values.iter().zip(&messages.sliced).zip(&expected)
                {
                    let mac = $hash::hmac(sha, key.each_ref(), message);
                    assert_eq!(mac, expected.as_flattened(), "{path:?}");
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
