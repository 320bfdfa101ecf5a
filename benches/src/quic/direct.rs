//! Libraries used directly: their AEAD, header mask and HKDF, with as little code as possible around them.

use std::hint::black_box;

use wireseal_quic::AeadAlgorithm;

use super::library::{Aead, FIRST, Library, NUMBER, PAYLOAD, secret};

/// The keys of one direction in a library.
trait Keys: Sized + 'static {
    /// The keys for an AEAD; `None` if the library does not have it.
    fn new(algorithm: AeadAlgorithm, key: &[u8], header_key: &[u8]) -> Option<Self>;
    /// HKDF-Expand of a traffic secret, with the hash of the cipher suite.
    fn expand(algorithm: AeadAlgorithm, secret: &[u8], info: &[&[u8]], out: &mut [u8]);
    fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16];
    fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool;
    fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5];
}

/// HKDF-Expand-Label (RFC 8446 §7.1).
fn expand_label<K: Keys>(algorithm: AeadAlgorithm, secret: &[u8], label: &[u8], out: &mut [u8]) {
    let length = (out.len() as u16).to_be_bytes();
    K::expand(algorithm, secret, &[&length, &[6 + label.len() as u8], b"tls13 ", label, &[0]], out);
}

/// Derives a header protection key.
pub(super) fn header_key(algorithm: AeadAlgorithm, secret: &[u8]) -> Vec<u8> {
    let mut key = vec![0; algorithm.key_length()];
    expand_label::<of_ring::Keys>(algorithm, secret, b"quic hp", &mut key);
    key
}

/// The keys of one direction, with their IV.
struct Direct<K> {
    keys: K,
    iv: [u8; 12],
}

impl<K: Keys> Direct<K> {
    /// From a traffic secret (RFC 9001 §5.1).
    fn new(algorithm: AeadAlgorithm, secret: &[u8]) -> Option<Self> {
        let (mut key, mut header_key, mut iv) = ([0; 32], [0; 32], [0; 12]);
        let (key, header_key) =
            (&mut key[..algorithm.key_length()], &mut header_key[..algorithm.key_length()]);
        expand_label::<K>(algorithm, secret, b"quic key", key);
        expand_label::<K>(algorithm, secret, b"quic iv", &mut iv);
        expand_label::<K>(algorithm, secret, b"quic hp", header_key);
        Some(Self { keys: K::new(algorithm, key, header_key)?, iv })
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, low @ ..] = self.iv;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ number >> 32;
        let low = u32::from_be_bytes(low) ^ number as u32;
        // Two words, as wide as the libraries' loads: loading octets stored one by one would stall.
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        nonce
    }

    /// Masks or unmasks the header, and returns the resulting four octets of the packet number. The sample starts four octets after the
    /// start of the number.
    #[inline]
    fn toggle(&mut self, packet: &mut [u8]) -> u32 {
        let [first, mask @ ..] = self.keys.mask(packet[NUMBER + 4..].first_chunk().expect("long enough"));
        packet[0] ^= first & 0x1f;
        let place: &mut [u8; 4] = packet[NUMBER..].first_chunk_mut().expect("long enough");
        let number = u32::from_be_bytes(*place) ^ u32::from_be_bytes(mask);
        *place = number.to_be_bytes();
        number
    }

    #[inline]
    fn seal(&mut self, number: u64, packet: &mut [u8]) {
        packet[0] = FIRST;
        packet[NUMBER..PAYLOAD].copy_from_slice(&(number as u32).to_be_bytes());
        let nonce = self.nonce(number);
        let (header, body) = packet.split_at_mut(PAYLOAD);
        let (payload, tag) = body.split_last_chunk_mut().expect("long enough");
        *tag = self.keys.seal(nonce, header, payload);
        self.toggle(packet);
    }

    /// Only for numbers that fit in four octets, which need no decoding.
    fn open(&mut self, packet: &mut [u8]) -> bool {
        let number = self.toggle(packet);
        let nonce = self.nonce(u64::from(number));
        let (header, body) = packet.split_at_mut(PAYLOAD);
        self.keys.open(nonce, header, body)
    }
}

fn library<K: Keys>(name: &'static str, algorithm: AeadAlgorithm) -> Option<Library> {
    let secret = secret(algorithm, true);
    let new = || Direct::<K>::new(algorithm, &secret);
    let (mut sender, mut receiver, mut masks, mut number) = (new()?, new()?, new()?.keys, 0);
    Some(Library {
        name,
        seal: Box::new(move |packet| {
            sender.seal(number, packet);
            number += 1;
        }),
        open: Box::new(move |packet| receiver.open(packet)),
        masks: Some(Box::new(move |samples, made| {
            for (sample, mask) in samples.iter().zip(made) {
                *mask = masks.mask(sample);
            }
        })),
        keys: Some(Box::new(move || drop(black_box(Direct::<K>::new(algorithm, black_box(&secret)))))),
    })
}

/// The libraries that have the AEAD.
pub(super) fn libraries(algorithm: AeadAlgorithm) -> Vec<Library> {
    let rust_crypto = match algorithm {
        AeadAlgorithm::Aes128Gcm => library::<rust_crypto::Aes128Gcm>,
        AeadAlgorithm::Aes256Gcm => library::<rust_crypto::Aes256Gcm>,
        AeadAlgorithm::ChaCha20Poly1305 => library::<rust_crypto::ChaCha20Poly1305>,
        AeadAlgorithm::Aes128Ccm => library::<rust_crypto::Aes128Ccm>,
    };
    let libraries = [
        library::<of_ring::Keys>("ring", algorithm),
        rust_crypto("rustcrypto", algorithm),
        #[cfg(feature = "peers")]
        library::<of_aws_lc::Keys>("aws-lc-rs", algorithm),
        #[cfg(feature = "peers")]
        boringssl::library(algorithm),
    ];
    libraries.into_iter().flatten().collect()
}

/// The AEADs alone: of the libraries that have this one, and Wireseal's by RustCrypto's traits.
pub(crate) fn aeads(algorithm: AeadAlgorithm, key: &[u8]) -> Vec<Aead> {
    fn aead<K: Keys>(name: &'static str, algorithm: AeadAlgorithm, key: &[u8]) -> Option<Aead> {
        let new = || K::new(algorithm, key, key);
        let (mut sealing, mut opening) = (new()?, new()?);
        let seal = move |nonce, aad: &[u8], message: &mut [u8]| {
            let (text, tag) = message.split_last_chunk_mut().expect("room for the tag");
            *tag = sealing.seal(nonce, aad, text);
        };
        let open = move |nonce, aad: &[u8], message: &mut [u8]| opening.open(nonce, aad, message);
        Some(Aead { name, seal: Box::new(seal), open: Box::new(open) })
    }
    type Make = fn(&'static str, AeadAlgorithm, &[u8]) -> Option<Aead>;
    let (rust_crypto, by_traits): (Make, Make) = match algorithm {
        AeadAlgorithm::Aes128Gcm => (aead::<rust_crypto::Aes128Gcm>, aead::<rust_crypto::OurAes128Gcm>),
        AeadAlgorithm::Aes256Gcm => (aead::<rust_crypto::Aes256Gcm>, aead::<rust_crypto::OurAes256Gcm>),
        AeadAlgorithm::ChaCha20Poly1305 => {
            (aead::<rust_crypto::ChaCha20Poly1305>, aead::<rust_crypto::OurChaCha20Poly1305>)
        }
        AeadAlgorithm::Aes128Ccm => (aead::<rust_crypto::Aes128Ccm>, aead::<rust_crypto::OurAes128Ccm>),
    };
    let aeads = [
        aead::<of_ring::Keys>("ring", algorithm, key),
        rust_crypto("rustcrypto", algorithm, key),
        #[cfg(feature = "peers")]
        aead::<of_aws_lc::Keys>("aws-lc-rs", algorithm, key),
        #[cfg(feature = "peers")]
        aead::<boringssl::Keys>("boringssl", algorithm, key),
        by_traits("wireseal by traits", algorithm, key),
    ];
    aeads.into_iter().flatten().collect()
}

/// ring and AWS-LC, which have the same interface.
macro_rules! like_ring {
    ($module:ident, $library:ident) => {
        mod $module {
            use wireseal_quic::AeadAlgorithm;
            use $library::aead::{Aad, LessSafeKey, Nonce, UnboundKey, quic};
            use $library::{aead, hkdf};

            struct Length(usize);

            impl hkdf::KeyType for Length {
                fn len(&self) -> usize {
                    self.0
                }
            }

            pub(super) struct Keys {
                aead: LessSafeKey,
                header: quic::HeaderProtectionKey,
            }

            impl crate::quic::direct::Keys for Keys {
                fn new(algorithm: AeadAlgorithm, key: &[u8], header_key: &[u8]) -> Option<Self> {
                    let (aead, header) = match algorithm {
                        AeadAlgorithm::Aes128Gcm => (&aead::AES_128_GCM, &quic::AES_128),
                        AeadAlgorithm::Aes256Gcm => (&aead::AES_256_GCM, &quic::AES_256),
                        AeadAlgorithm::ChaCha20Poly1305 => (&aead::CHACHA20_POLY1305, &quic::CHACHA20),
                        AeadAlgorithm::Aes128Ccm => return None,
                    };
                    Some(Self {
                        aead: LessSafeKey::new(UnboundKey::new(aead, key).ok()?),
                        header: quic::HeaderProtectionKey::new(header, header_key).ok()?,
                    })
                }

                fn expand(algorithm: AeadAlgorithm, secret: &[u8], info: &[&[u8]], out: &mut [u8]) {
                    let hash = match algorithm {
                        AeadAlgorithm::Aes256Gcm => hkdf::HKDF_SHA384,
                        _ => hkdf::HKDF_SHA256,
                    };
                    let prk = hkdf::Prk::new_less_safe(hash, secret);
                    prk.expand(info, Length(out.len())).and_then(|okm| okm.fill(out)).expect("short");
                }

                #[inline]
                fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16] {
                    let nonce = Nonce::assume_unique_for_key(nonce);
                    let tag = self.aead.seal_in_place_separate_tag(nonce, Aad::from(header), payload);
                    tag.expect("a short payload").as_ref().try_into().expect("16 octets")
                }

                #[inline]
                fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool {
                    let nonce = Nonce::assume_unique_for_key(nonce);
                    self.aead.open_in_place(nonce, Aad::from(header), payload_and_tag).is_ok()
                }

                #[inline]
                fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5] {
                    self.header.new_mask(sample).expect("16 octets")
                }
            }
        }
    };
}

like_ring!(of_ring, ring);
#[cfg(feature = "peers")]
like_ring!(of_aws_lc, aws_lc_rs);

/// RustCrypto's AEADs, header masks and HKDF.
mod rust_crypto {
    use aes::{Aes128Enc, Aes256Enc};
    use aes_gcm::aead::AeadInOut;
    use aes_gcm::aead::consts::{U12, U16};
    use aes_gcm::{AesGcm, KeyInit};
    use ccm::Ccm;
    use chacha20::cipher::{BlockCipherEncrypt, KeyIvInit, StreamCipherCore};
    use hkdf::Hkdf;
    use sha2::{Sha256, Sha384};
    use wireseal_quic::AeadAlgorithm;

    pub(super) type Aes128Gcm = RustCrypto<AesGcm<Aes128Enc, U12>, AesMask<Aes128Enc>>;
    pub(super) type Aes256Gcm = RustCrypto<AesGcm<Aes256Enc, U12>, AesMask<Aes256Enc>>;
    pub(super) type Aes128Ccm = RustCrypto<Ccm<Aes128Enc, U16, U12>, AesMask<Aes128Enc>>;
    pub(super) type ChaCha20Poly1305 = RustCrypto<chacha20poly1305::ChaCha20Poly1305, ChaCha20Mask>;

    pub(super) type OurAes128Gcm = RustCrypto<wireseal_aead::Aes128Gcm, AesMask<Aes128Enc>>;
    pub(super) type OurAes256Gcm = RustCrypto<wireseal_aead::Aes256Gcm, AesMask<Aes256Enc>>;
    pub(super) type OurAes128Ccm = RustCrypto<wireseal_aead::Aes128Ccm, AesMask<Aes128Enc>>;
    pub(super) type OurChaCha20Poly1305 = RustCrypto<wireseal_aead::ChaCha20Poly1305, ChaCha20Mask>;

    pub(super) struct RustCrypto<A, M> {
        aead: A,
        mask: M,
    }

    pub(super) trait Mask: 'static {
        fn new(key: &[u8]) -> Self;
        fn mask(&self, sample: &[u8; 16]) -> [u8; 5];
    }

    /// Masks with a block cipher (RFC 9001 §5.4.3).
    pub(super) struct AesMask<C>(C);

    impl<C: KeyInit + BlockCipherEncrypt<BlockSize = U16> + 'static> Mask for AesMask<C> {
        fn new(key: &[u8]) -> Self {
            Self(C::new_from_slice(key).expect("the length of the algorithm"))
        }

        #[inline]
        fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
            let mut block = (*sample).into();
            self.0.encrypt_block(&mut block);
            *block.first_chunk().expect("16 octets")
        }
    }

    /// Masks with ChaCha20 (RFC 9001 §5.4.4).
    pub(super) struct ChaCha20Mask([u8; 32]);

    impl Mask for ChaCha20Mask {
        fn new(key: &[u8]) -> Self {
            Self(key.try_into().expect("32 octets"))
        }

        #[inline]
        fn mask(&self, sample: &[u8; 16]) -> [u8; 5] {
            let (counter, nonce) = sample.split_first_chunk().expect("16 octets");
            let nonce: &[u8; 12] = nonce.try_into().expect("12 octets");
            let mut core = chacha20::ChaChaCore::<chacha20::R20, chacha20::variants::Ietf>::new(
                &self.0.into(),
                nonce.into(),
            );
            core.set_block_pos(u32::from_le_bytes(*counter));
            let mut block = Default::default();
            core.write_keystream_block(&mut block);
            *block.first_chunk().expect("64 octets")
        }
    }

    impl<A, M> crate::quic::direct::Keys for RustCrypto<A, M>
    where
        A: KeyInit + AeadInOut<NonceSize = U12, TagSize = U16> + 'static,
        M: Mask,
    {
        fn new(_: AeadAlgorithm, key: &[u8], header_key: &[u8]) -> Option<Self> {
            Some(Self { aead: A::new_from_slice(key).ok()?, mask: M::new(header_key) })
        }

        fn expand(algorithm: AeadAlgorithm, secret: &[u8], info: &[&[u8]], out: &mut [u8]) {
            let expanded = match algorithm {
                AeadAlgorithm::Aes256Gcm => {
                    Hkdf::<Sha384>::from_prk(secret).map(|hkdf| hkdf.expand_multi_info(info, out))
                }
                _ => Hkdf::<Sha256>::from_prk(secret).map(|hkdf| hkdf.expand_multi_info(info, out)),
            };
            expanded.expect("the hash's length").expect("short");
        }

        #[inline]
        fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16] {
            self.aead.encrypt_inout_detached(&nonce.into(), header, payload.into()).expect("short").into()
        }

        #[inline]
        fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool {
            let (payload, tag) = payload_and_tag.split_last_chunk_mut::<16>().expect("long enough");
            let tag = (*tag).into();
            self.aead.decrypt_inout_detached(&nonce.into(), header, payload.into(), &tag).is_ok()
        }

        #[inline]
        fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5] {
            self.mask.mask(sample)
        }
    }
}

/// BoringSSL: EVP_AEAD, and AES block by block for masks. No safe interface has ChaCha20 alone, so its masks come from the header keys of
/// boring-rustls-provider, which calls CRYPTO_chacha_20. HKDF is ring's, and is not timed.
#[cfg(feature = "peers")]
mod boringssl {
    use boring::aead::{AeadCtx, Algorithm};
    use boring::symm::{Cipher, Crypter, Mode};
    use boring_rustls_provider::tls13::CHACHA20_POLY1305_SHA256;
    use rustls::quic::HeaderProtectionKey;
    use wireseal_bench_peers::Aes;
    use wireseal_quic::AeadAlgorithm;

    use crate::quic::direct;
    use crate::quic::library::{Library, Masks, secret};

    pub(super) fn library(algorithm: AeadAlgorithm) -> Option<Library> {
        let library = direct::library::<Keys>("boringssl", algorithm)?;
        let masks = ecb_masks(algorithm).or(library.masks);
        Some(Library { keys: None, masks, ..library })
    }

    pub(super) struct Keys {
        aead: AeadCtx,
        mask: Mask,
    }

    #[allow(clippy::large_enum_variant, reason = "a box would cost each AES mask a load")]
    enum Mask {
        Aes(Aes),
        ChaCha20(Box<dyn HeaderProtectionKey>),
    }

    impl crate::quic::direct::Keys for Keys {
        fn new(algorithm: AeadAlgorithm, key: &[u8], header_key: &[u8]) -> Option<Self> {
            let (aead, mask) = match algorithm {
                AeadAlgorithm::Aes128Gcm => (Algorithm::aes_128_gcm(), Mask::Aes(Aes::new(header_key)?)),
                AeadAlgorithm::Aes256Gcm => (Algorithm::aes_256_gcm(), Mask::Aes(Aes::new(header_key)?)),
                AeadAlgorithm::ChaCha20Poly1305 => {
                    let header_key: [u8; 32] = header_key.try_into().ok()?;
                    let key = CHACHA20_POLY1305_SHA256.quic?.header_protection_key(header_key.into());
                    (Algorithm::chacha20_poly1305(), Mask::ChaCha20(key))
                }
                // BoringSSL has it only for Bluetooth and Matter, and the crate does not have it.
                AeadAlgorithm::Aes128Ccm => return None,
            };
            Some(Self { aead: AeadCtx::new_default_tag(&aead, key).ok()?, mask })
        }

        fn expand(algorithm: AeadAlgorithm, secret: &[u8], info: &[&[u8]], out: &mut [u8]) {
            <direct::of_ring::Keys as direct::Keys>::expand(algorithm, secret, info, out);
        }

        fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16] {
            let mut tag = [0; 16];
            self.aead.seal_in_place_mut(&nonce, payload, &mut tag, header).expect("a short payload");
            tag
        }

        fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool {
            let (payload, tag) = payload_and_tag.split_last_chunk_mut::<16>().expect("long enough");
            self.aead.open_in_place_mut(&nonce, payload, tag, header).is_ok()
        }

        fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5] {
            match &self.mask {
                Mask::Aes(aes) => *aes.encrypt(sample).first_chunk().expect("16 octets"),
                // Masks an empty header; the bits of the first octet that the key does not mask stay zero.
                Mask::ChaCha20(key) => {
                    let (mut first, mut number) = (0x43, [0; 4]);
                    key.encrypt_in_place(sample, &mut first, &mut number).expect("a sample");
                    let [a, b, c, d] = number;
                    [first ^ 0x43, a, b, c, d]
                }
            }
        }
    }

    /// AES masks, many in one ECB call; `None` for ChaCha20.
    fn ecb_masks(algorithm: AeadAlgorithm) -> Option<Masks> {
        let cipher = match algorithm {
            AeadAlgorithm::Aes128Gcm => Cipher::aes_128_ecb(),
            AeadAlgorithm::Aes256Gcm => Cipher::aes_256_ecb(),
            _ => return None,
        };
        let key = direct::header_key(algorithm, &secret(algorithm, true));
        let aes = Aes::new(&key)?;
        let mut many = Crypter::new(cipher, Mode::Encrypt, &key, None).ok()?;
        many.pad(false);
        // EVP_EncryptUpdate needs room for one more block.
        let mut blocks = vec![[0; 16]; 101];
        Some(Box::new(move |samples, masks| {
            if let ([sample], [to]) = (samples, &mut *masks) {
                *to = *aes.encrypt(sample).first_chunk().expect("16 octets");
                return;
            }
            let to = blocks[..=samples.len()].as_flattened_mut();
            many.update(samples.as_flattened(), to).expect("whole blocks");
            for (block, to) in blocks.iter().zip(masks) {
                *to = *block.first_chunk().expect("16 octets");
            }
        }))
    }
}
