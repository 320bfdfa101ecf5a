//! AES-GCM with header masks on every path, compared with a slow model: sealed packets open; altered ones are refused and leave no
//! plaintext.
//!
//! Input: six octets of choices, a key of 32 octets, a nonce, and octets that are cut into associated data and texts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_fuzz::kernels;
use wireseal_kernels::aes::AesMaskKey;
use wireseal_kernels::gcm::{GcmKey, TAG_LENGTH};
use wireseal_kernels::model;

/// A packet as the model seals it.
struct Expected<'a> {
    nonce: [u8; 12],
    text: &'a [u8],
    sealed: Vec<u8>,
    sample: usize,
    mask: [u8; 16],
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, input)) = input.split_first_chunk::<6>() else { return };
    let Some((key, input)) = input.split_first_chunk::<32>() else { return };
    let Some((nonce, octets)) = input.split_first_chunk::<12>() else { return };
    let key = &key[..if choice[0] & 1 == 0 { 16 } else { 32 }];
    let pieces = kernels::pieces(octets, &choice[1..5]);
    let (aad, texts) = (pieces[0], &pieces[1..]);

    let packets: Vec<Expected<'_>> = texts
        .iter()
        .zip(0..)
        .map(|(text, number)| {
            let mut nonce = *nonce;
            nonce[11] ^= number;
            let mut sealed = text.to_vec();
            let tag = model::gcm::seal(key, &nonce, aad, &mut sealed);
            sealed.extend(tag);
            let sample = usize::from(choice[5]) % (text.len() + 1);
            let block = *sealed[sample..].first_chunk().expect("the tag is as long as a sample");
            Expected { nonce, text, mask: model::aes::encrypt(key, block), sealed, sample }
        })
        .collect();

    kernels::each_alone(|path| {
        let (Some(gcm), Some(masks)) = (GcmKey::new(key), AesMaskKey::new(key)) else { return };
        assert_eq!(Some(gcm.path()), path);
        for packet in &packets {
            let mut body = [packet.text, &[0xa5; TAG_LENGTH]].concat();
            let mask = gcm.seal(&packet.nonce, aad, &mut body, Some((&masks, packet.sample)));
            assert!(body == packet.sealed && mask == packet.mask, "{path:?}");
            assert_eq!(
                gcm.seal(&packet.nonce, aad, &mut [packet.text, &[0xa5; TAG_LENGTH]].concat(), None),
                [0; 16]
            );
            assert!(gcm.open(&packet.nonce, aad, &mut body), "{path:?}");
            assert_eq!(&body[..packet.text.len()], packet.text);

            let mut altered = packet.sealed.clone();
            let at = usize::from(choice[5]) * 11 % altered.len();
            altered[at] ^= 1 << (choice[0] >> 5);
            assert!(!gcm.open(&packet.nonce, aad, &mut altered), "{path:?}");
            assert!(altered[..packet.text.len()].iter().all(|octet| *octet == 0), "{path:?}");
        }
    });
});
