//! ChaCha20 header masks, one-time Poly1305 and ChaCha20-Poly1305 on every path, compared with slow models.
//!
//! Input: four octets that choose where to cut, a key of 32 octets, and octets used as samples, a message, and a packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels;
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::chacha20_poly1305::ChaCha20Poly1305Key;
use wireseal_kernels::{model, poly1305};

fuzz_target!(|input: &[u8]| {
    let Some((cuts, input)) = input.split_first_chunk::<4>() else { return };
    let Some((key, octets)) = input.split_first_chunk::<32>() else { return };
    let samples = octets.as_chunks::<16>().0;
    let masks: Vec<[u8; 5]> =
        samples.iter().map(|sample| model::chacha20::header_mask(key, sample)).collect();
    let slices = kernels::pieces(octets, cuts);
    let tag = model::poly1305::mac(key, octets);
    let nonce = std::array::from_fn(|at| key[at] ^ cuts[at % 4]);
    let (aad, text) = octets.split_at(octets.len().min(usize::from(cuts[0])));
    let mut sealed = text.to_vec();
    let packet_tag = model::chacha20_poly1305::seal(key, &nonce, aad, &mut sealed);

    kernels::each_alone(|path| {
        let mask_key = ChaCha20MaskKey::new(key);
        let mut streams = samples.to_vec();
        mask_key.mask_batch(&mut streams);
        for ((sample, stream), mask) in samples.iter().zip(&streams).zip(&masks) {
            assert!(mask_key.mask(sample) == *mask && stream.starts_with(mask), "{path:?}");
            assert_eq!(stream[8..], [0; 8], "{path:?}");
        }
        assert_eq!(poly1305::mac(key, &[octets]), tag, "{path:?}");
        assert_eq!(poly1305::mac(key, &slices), tag, "{path:?}");

        let Some(aead) = ChaCha20Poly1305Key::new(key) else { return };
        let mut body = text.to_vec();
        assert_eq!(aead.seal_detached(&nonce, aad, &mut body), packet_tag, "{path:?}");
        assert!(body == sealed, "{path:?}");
        assert!(aead.open_detached(&nonce, aad, &mut body, &packet_tag) && body == text, "{path:?}");
        let mut altered = packet_tag;
        altered[usize::from(cuts[1] & 15)] ^= 1 << (cuts[1] >> 5);
        body.clone_from(&sealed);
        assert!(!aead.open_detached(&nonce, aad, &mut body, &altered), "{path:?}");
        assert!(body.iter().all(|octet| *octet == 0), "{path:?}");
    });
});
