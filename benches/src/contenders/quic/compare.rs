//! The libraries side by side, returned once their outputs are found equal.

use wireseal_quic::AeadAlgorithm;

#[cfg(feature = "peers")]
use super::boringssl;
use super::contender::{InitialContender, MaskContender, PacketContender};
use super::packet::{CONNECTION_ID, FIRST, NUMBER, PAYLOAD, PAYLOADS, packet};
use super::{ring, rust_crypto, rustls_keys, wireseal};

fn all(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let mut contenders = wireseal::packets(algorithm);
    contenders.extend(ring::packets(algorithm));
    contenders.push(rust_crypto::packets(algorithm));
    contenders.extend(rustls_keys::packets(algorithm));
    #[cfg(feature = "peers")]
    contenders.extend(boringssl::packets(algorithm));
    contenders
}

/// Wireseal first, then the other libraries that have the AEAD, all with the keys of the same secret.
///
/// # Panics
/// If two of them seal differently, or if one refuses a sealed packet or opens an altered one.
pub(crate) fn packet_contenders(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let mut compared = all(algorithm);
    for payload in (1..100).chain(PAYLOADS) {
        let plain = packet(payload);
        let mut expected = plain.clone();
        for (place, contender) in compared.iter_mut().enumerate() {
            let name = contender.name;
            let mut sealed = plain.clone();
            (contender.seal)(&mut sealed);
            if place == 0 {
                expected.clone_from(&sealed);
            }
            assert_eq!(sealed, expected, "{name} seals {payload} octets differently under {algorithm}");
            let mut opened = sealed.clone();
            assert!((contender.open)(&mut opened), "{name} opens {payload} octets under {algorithm}");
            let end = PAYLOAD + payload;
            assert_eq!(opened[PAYLOAD..end], plain[PAYLOAD..end], "{name}");
            assert_eq!((opened[0], &opened[1..NUMBER]), (FIRST, &plain[1..NUMBER]), "{name}");
            for at in [0, 1, NUMBER, PAYLOAD - 1, PAYLOAD, end, end + 15] {
                let mut forged = sealed.clone();
                forged[at] ^= 1;
                assert!(!(contender.open)(&mut forged), "{name} opens a packet altered at {at}");
            }
        }
    }
    // New ones, so that the comparison's numbers and failures do not count when they are timed.
    all(algorithm)
}

/// Wireseal first, then the others.
///
/// # Panics
/// If two of them make different masks.
pub(crate) fn mask_contenders(algorithm: AeadAlgorithm) -> Vec<MaskContender> {
    let mut contenders = wireseal::mask_contenders(algorithm);
    contenders.extend(ring::mask_contenders(algorithm));
    contenders.push(rust_crypto::mask_contender(algorithm));
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

/// Wireseal first, then the others.
///
/// # Panics
/// If two of them seal differently under the keys of any connection ID of 0 to 20 octets.
pub(crate) fn initial_contenders() -> Vec<InitialContender> {
    let mut contenders = wireseal::initial_contenders();
    contenders.extend(ring::initial_contenders());
    contenders.extend(rustls_keys::initial_contenders());
    let long = [CONNECTION_ID; 3].concat();
    for length in 0..=20 {
        let expected = (contenders[0].sealed)(&long[..length]);
        for contender in &contenders {
            let sealed = (contender.sealed)(&long[..length]);
            assert_eq!(sealed, expected, "{} at {length} octets", contender.name);
        }
    }
    contenders
}
