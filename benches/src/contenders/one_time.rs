//! One-time Poly1305 by several libraries, outputs compared.

use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use wireseal_mac::OneTimePoly1305Key;

/// Prepares a key for one message, and returns the first 12 octets of its MAC.
pub(crate) type Contender = Box<dyn FnMut(&[u8; 32], &[u8]) -> [u8; 12]>;

/// Wireseal first, then the other libraries that have Poly1305 outside an AEAD.
///
/// # Panics
/// If two of them differ on any length from 0 to 300 octets, or on 1024.
pub(crate) fn contenders() -> Vec<(&'static str, Contender)> {
    let mut contenders = all();
    let message: Vec<u8> = (0..1024_usize).map(|i| (i * 31) as u8).collect();
    for length in (0..=300).chain([1024]) {
        let key = std::array::from_fn(|i| (i * 7 + length) as u8);
        let expected = contenders[0].1(&key, &message[..length]);
        for (name, contender) in &mut contenders {
            assert_eq!(contender(&key, &message[..length]), expected, "{name} differs at {length} octets");
        }
    }
    contenders
}

fn start(mac: &[u8]) -> [u8; 12] {
    *mac.first_chunk().expect("16 octets")
}

#[cfg_attr(not(feature = "peers"), allow(unused_mut))]
fn all() -> Vec<(&'static str, Contender)> {
    let wireseal: Contender =
        Box::new(|key, message| start(OneTimePoly1305Key::new(*key).mac(&[message]).as_bytes()));
    let rust_crypto: Contender =
        Box::new(|key, message| start(&Poly1305::new(key.into()).compute_unpadded(message)));
    let mut contenders = vec![("wireseal", wireseal), ("rustcrypto", rust_crypto)];
    #[cfg(feature = "peers")]
    {
        use wireseal_bench_peers::{Algorithm, OpenSsl};
        contenders.extend(OpenSsl::new(Algorithm::Poly1305, &[0; 32]).map(|mut context| {
            let contender: Contender = Box::new(move |key, message| context.one_time(key, &[message]));
            ("openssl", contender)
        }));
    }
    contenders
}
