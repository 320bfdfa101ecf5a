//! MACs by several libraries, outputs compared.

mod library;
#[cfg(feature = "peers")]
mod peers;

use cmac::Cmac;
use hmac::digest::FixedOutputReset;
use hmac::{HmacReset, KeyInit};
use sha1::Sha1;
use sha2::Sha256;
use wireseal_algorithms::MacAlgorithm;
use wireseal_mac::{MacKey, OutputLength};

use library::start;
pub(crate) use library::{Contender, Library};

/// A key of the algorithm's output length, as TCP-AO has them.
pub(crate) fn key(algorithm: MacAlgorithm) -> Vec<u8> {
    (0..algorithm.output_length() as u8).collect()
}

/// Wireseal first, then the other libraries that have the algorithm.
///
/// # Panics
/// If two of them differ on any length from 0 to 300 octets, whole or in two slices.
pub(crate) fn libraries(algorithm: MacAlgorithm) -> Vec<Library> {
    #[cfg_attr(not(feature = "peers"), allow(unused_mut))]
    let mut libraries = match algorithm {
        MacAlgorithm::HmacSha1 => hmac_sha1(),
        MacAlgorithm::HmacSha256 => hmac_sha256(),
        MacAlgorithm::Aes128Cmac => aes_128_cmac(),
        MacAlgorithm::Kmac256 => kmac256(),
    };
    #[cfg(feature = "peers")]
    libraries.extend(peers::libraries(algorithm, &key(algorithm)));
    let message: Vec<u8> = (0..300_usize).map(|i| (i * 31) as u8).collect();
    let mut contenders = set_up(&libraries, algorithm);
    for length in 0..=message.len() {
        let (head, tail) = message[..length].split_at(length / 3);
        let expected = contenders[0].1(&[head, tail]);
        for (name, contender) in &mut contenders {
            assert_eq!(contender(&[head, tail]), expected, "{name} differs at {length} octets");
            assert_eq!(contender(&[&message[..length]]), expected, "{name} differs at {length} octets");
        }
    }
    libraries
}

/// [`libraries`], each with the same key.
pub(crate) fn contenders(algorithm: MacAlgorithm) -> Vec<(&'static str, Contender)> {
    set_up(&libraries(algorithm), algorithm)
}

fn set_up(libraries: &[Library], algorithm: MacAlgorithm) -> Vec<(&'static str, Contender)> {
    libraries.iter().map(|library| (library.name, library.with_key(&key(algorithm)))).collect()
}

/// Wireseal's key, from octets of the algorithm's output length.
pub(crate) fn wireseal_key(algorithm: MacAlgorithm, octets: &[u8]) -> MacKey {
    match algorithm {
        MacAlgorithm::HmacSha1 => MacKey::hmac_sha1(octets),
        MacAlgorithm::HmacSha256 => MacKey::hmac_sha256(octets),
        MacAlgorithm::Aes128Cmac => MacKey::aes_128_cmac(octets.try_into().expect("16 octets")),
        MacAlgorithm::Kmac256 => MacKey::kmac256(octets, b"", OutputLength::Octets32),
    }
}

fn wireseal(algorithm: MacAlgorithm) -> Library {
    Library::new("wireseal", size_of::<MacKey>(), move |octets| {
        let key = wireseal_key(algorithm, octets);
        Box::new(move |message| start(key.mac(message).as_bytes()))
    })
}

/// One instance, reset after each message: faster than cloning a prepared one, since each clone has to be wiped.
fn rust_crypto<M>() -> Library
where
    M: hmac::Mac + KeyInit + FixedOutputReset + 'static,
{
    Library::new("rustcrypto", size_of::<M>(), |key| {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("a length of the algorithm");
        Box::new(move |message| {
            message.iter().for_each(|part| hmac::Mac::update(&mut mac, part));
            start(&mac.finalize_reset().into_bytes())
        })
    })
}

fn ring(algorithm: ring::hmac::Algorithm) -> Library {
    Library::new("ring", size_of::<ring::hmac::Key>(), move |key| {
        let key = ring::hmac::Key::new(algorithm, key);
        Box::new(move |message| {
            let mut context = ring::hmac::Context::with_key(&key);
            message.iter().for_each(|part| context.update(part));
            start(context.sign().as_ref())
        })
    })
}

fn hmac_sha1() -> Vec<Library> {
    vec![
        wireseal(MacAlgorithm::HmacSha1),
        rust_crypto::<HmacReset<Sha1>>(),
        ring(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    ]
}

fn hmac_sha256() -> Vec<Library> {
    vec![
        wireseal(MacAlgorithm::HmacSha256),
        rust_crypto::<HmacReset<Sha256>>(),
        ring(ring::hmac::HMAC_SHA256),
    ]
}

fn aes_128_cmac() -> Vec<Library> {
    vec![wireseal(MacAlgorithm::Aes128Cmac), rust_crypto::<Cmac<aes::Aes128Enc>>()]
}

/// No other maintained library has KMAC, so it is built here from RustCrypto's cSHAKE256.
fn kmac256() -> Vec<Library> {
    use cshake::digest::{ExtendableOutput, Update, XofReader};
    let rust_crypto = Library::new("rustcrypto cshake", size_of::<cshake::CShake256>(), |key| {
        let mut block = vec![1, 136, 2, 1, 0];
        block.splice(2.., if key.len() < 32 { vec![1, (key.len() * 8) as u8] } else { vec![2, 1, 0] });
        block.extend_from_slice(key);
        block.resize(136, 0);
        let mut prepared = cshake::CShake256::new_with_function_name(b"KMAC", b"");
        prepared.update(&block);
        Box::new(move |message| {
            let mut xof = prepared.clone();
            message.iter().for_each(|part| xof.update(part));
            xof.update(&[1, 0, 2]);
            let mut output = [0; 32];
            xof.finalize_xof().read(&mut output);
            start(&output)
        })
    });
    vec![wireseal(MacAlgorithm::Kmac256), rust_crypto]
}

/// UMAC with tags of 96 bits (RFC 4418), which only nettle has; `None` without the feature `peers`. Its key is 16 octets, followed
/// by the eight octets of the first message's nonce.
///
/// # Panics
/// If the tag of three octets "a" is not that of the RFC.
pub(crate) fn umac96() -> Option<Library> {
    #[cfg(feature = "peers")]
    {
        let umac96 = peers::umac96();
        let mut contender = umac96.with_key(b"abcdefghijklmnopbcdefghi");
        let expected = [0x18, 0x5e, 0x4f, 0xe9, 0x05, 0xcb, 0xa7, 0xbd, 0x85, 0xe4, 0xc2, 0xdc];
        assert_eq!(contender(&[b"a", b"aa"]), expected, "nettle's UMAC96 is not that of RFC 4418");
        assert_ne!(contender(&[b"aaa"]), expected, "nettle counts its nonce on");
        Some(umac96)
    }
    #[cfg(not(feature = "peers"))]
    None
}
