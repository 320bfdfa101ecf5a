//! Header protection masks alone, one and many.

use wireseal_quic::AeadAlgorithm;

#[cfg(feature = "peers")]
use super::boringssl;
use super::direct::{Octets, aes_mask, aws_lc_keys, chacha20_mask, ring_keys};
use super::{rustls_keys, wireseal};

/// Makes a mask of each sample; of the first octet only what a short header shows.
pub type Masks = Box<dyn FnMut(&[[u8; 16]], &mut [[u8; 5]])>;

/// A library that makes header protection masks.
pub struct MaskContender {
    /// The library, and how it is used.
    pub name: &'static str,
    /// Makes as many masks as there are samples.
    pub masks: Masks,
}

impl std::fmt::Debug for MaskContender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskContender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A contender that makes masks one by one.
pub(super) fn one_by_one(
    name: &'static str,
    mut mask: impl FnMut(&[u8; 16]) -> [u8; 5] + 'static,
) -> MaskContender {
    let masks = move |samples: &[[u8; 16]], masks: &mut [[u8; 5]]| {
        for (sample, to) in samples.iter().zip(masks) {
            *to = mask(sample);
        }
    };
    MaskContender { name, masks: Box::new(masks) }
}

fn direct(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    let octets = Octets::of(algorithm, true);
    let mut contenders = Vec::new();
    contenders.extend(ring_keys::direct(&octets).map(|keys| one_by_one("ring", keys.into_mask())));
    contenders.extend(aws_lc_keys::direct(&octets).map(|keys| one_by_one("aws-lc-rs", keys.into_mask())));
    let key = &octets.header_key;
    contenders.push(match algorithm {
        AeadAlgorithm::Aes128Gcm | AeadAlgorithm::Aes128Ccm => {
            one_by_one("rustcrypto", aes_mask::<aes::Aes128Enc>(key))
        }
        AeadAlgorithm::Aes256Gcm => one_by_one("rustcrypto", aes_mask::<aes::Aes256Enc>(key)),
        AeadAlgorithm::ChaCha20Poly1305 => one_by_one("rustcrypto", chacha20_mask(key)),
    });
    contenders
}

/// Wireseal first, then the others.
///
/// # Panics
/// When two of them make different masks.
#[must_use]
pub fn mask_contenders(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    let mut contenders = wireseal::mask_contenders(algorithm);
    contenders.extend(direct(algorithm));
    contenders.extend(rustls_keys::mask_contenders(algorithm));
    #[cfg(feature = "peers")]
    contenders.push(boringssl::mask_contender(algorithm));
    let samples: Vec<[u8; 16]> =
        (0..100_u8).map(|i| std::array::from_fn(|j| i.wrapping_mul(37) ^ j as u8)).collect();
    for count in [1, 2, 15, 16, 17, 100] {
        let mut expected = vec![[0; 5]; count];
        for (place, contender) in contenders.iter_mut().enumerate() {
            let mut masks = vec![[0; 5]; count];
            (contender.masks)(&samples[..count], &mut masks);
            masks.iter_mut().for_each(|mask| mask[0] &= 0x1f);
            if place == 0 {
                expected.clone_from(&masks);
            }
            assert_eq!(masks, expected, "{} makes other masks under {algorithm}", contender.name);
        }
    }
    contenders
}
