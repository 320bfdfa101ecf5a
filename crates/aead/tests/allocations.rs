//! Neither keys nor messages allocate. A test binary of its own, because it counts with a global allocator.

use allocation_counter::measure;
use wireseal_aead::{AeadAlgorithm, AeadKey, Backend, MaskKey};

#[test]
fn the_counter_counts() {
    assert_eq!(measure(|| drop(std::hint::black_box(vec![1u8; 100]))).count_total, 1);
}

#[test]
fn nothing_is_allocated_but_the_keys_of_aws_lc_rs() {
    let mut message = vec![0; 100_016];
    for &backend in Backend::ALL {
        for algorithm in AeadAlgorithm::ALL {
            let octets = &[7; 32][..algorithm.key_length()];
            let new = || AeadKey::with_backend(backend, algorithm, octets).expect("the key's length");
            let mask = MaskKey::with_backend(backend, algorithm, octets).expect("the key's length");
            let key = new();
            // Once before it is measured, because libraries detect the processor the first time.
            let mut run = || {
                key.seal(&[1; 12], b"aad", &mut message).expect("room for a tag");
                assert!(key.open(&[1; 12], b"aad", &mut message).is_ok());
                key.seal_with_mask(&mask, &[2; 12], b"aad", &mut message, 4).expect("room for a tag");
                assert!(key.open(&[3; 12], b"aad", &mut message).is_err());
                assert!(key.seal(&[1; 12], b"aad", &mut message[..15]).is_err());
            };
            run();
            assert_eq!(measure(run).count_total, 0, "{backend:?}, {algorithm}");
            let is_on_heap = backend.name() == "aws-lc-rs" && algorithm != AeadAlgorithm::Aes128Ccm;
            assert_eq!(measure(|| drop(new())).count_total > 0, is_on_heap, "{backend:?}, {algorithm}");
        }
    }
}
