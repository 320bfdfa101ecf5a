//! Libraries used directly: an AEAD, a header mask, and by hand the least that makes a packet of them.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::{AesGcm, KeyInit};
use ccm::Ccm;
use chacha20::cipher::{BlockCipherEncrypt, KeyIvInit, StreamCipherCore};
use wireseal_quic::AeadAlgorithm;

use super::initial::{INITIAL_FIRST, INITIAL_NUMBER, InitialContender, contender};
use super::{CONNECTION_ID, FIRST, NUMBER, PAYLOAD, PacketContender};

/// The salt of version 1 (RFC 9001, section 5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];

/// An AEAD key and a header protection key.
pub(super) trait Library: 'static {
    fn seal(&mut self, nonce: [u8; 12], header: &[u8], payload: &mut [u8]) -> [u8; 16];
    fn open(&mut self, nonce: [u8; 12], header: &[u8], payload_and_tag: &mut [u8]) -> bool;
    fn mask(&mut self, sample: &[u8; 16]) -> [u8; 5];
}

/// The keys of one direction, with their IV.
pub(super) struct Direct<L> {
    library: L,
    iv: [u8; 12],
}

impl<L: Library> Direct<L> {
    pub(super) fn new(library: L, iv: [u8; 12]) -> Self {
        Self { library, iv }
    }

    /// The header protection key's side of it.
    pub(super) fn into_mask(mut self) -> impl FnMut(&[u8; 16]) -> [u8; 5] {
        move |sample| self.library.mask(sample)
    }

    fn nonce(&self, number: u64) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h, low @ ..] = self.iv;
        let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ number >> 32;
        let low = u32::from_be_bytes(low) ^ number as u32;
        // In two words, as libraries load them: octets that were stored one by one would have to be waited for.
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        nonce
    }

    /// The mask for a packet whose number is at `number_offset`: its sample is four octets behind.
    fn mask(&mut self, packet: &[u8], number_offset: usize) -> [u8; 5] {
        self.library.mask(packet[number_offset + 4..].first_chunk().expect("long enough"))
    }

    /// Seals a packet with `first` for its first octet, and a number of four octets at the offset `AT`.
    #[inline]
    pub(super) fn seal<const AT: usize>(&mut self, first: u8, number: u64, packet: &mut [u8]) {
        packet[0] = first;
        packet[AT..AT + 4].copy_from_slice(&(number as u32).to_be_bytes());
        let nonce = self.nonce(number);
        let (header, body) = packet.split_at_mut(AT + 4);
        let (payload, tag) = body.split_last_chunk_mut().expect("long enough");
        *tag = self.library.seal(nonce, header, payload);
        let mask = self.mask(packet, AT);
        packet[0] ^= mask[0] & if first & 0x80 == 0 { 0x1f } else { 0x0f };
        toggle::<AT>(packet, mask);
    }

    /// For numbers of four octets at most, which need no decoding.
    fn open(&mut self, packet: &mut [u8]) -> bool {
        let mask = self.mask(packet, NUMBER);
        packet[0] ^= mask[0] & 0x1f;
        let number = toggle::<NUMBER>(packet, mask);
        let nonce = self.nonce(u64::from(number));
        let (header, body) = packet.split_at_mut(PAYLOAD);
        self.library.open(nonce, header, body)
    }

    pub(super) fn packets(name: &'static str, sender: Self, receiver: Self) -> PacketContender {
        let (mut sender, mut receiver, mut number) = (sender, receiver, 0);
        PacketContender {
            name,
            seal: Box::new(move |packet| {
                sender.seal::<NUMBER>(FIRST, number, packet);
                number += 1;
            }),
            open: Box::new(move |packet| receiver.open(packet)),
        }
    }
}

/// Masks the number at the offset `AT`, or removes the mask, and returns what is there then.
#[inline]
fn toggle<const AT: usize>(packet: &mut [u8], [_, mask @ ..]: [u8; 5]) -> u32 {
    let place: &mut [u8; 4] = packet[AT..].first_chunk_mut().expect("long enough");
    let number = u32::from_be_bytes(*place) ^ u32::from_be_bytes(mask);
    *place = number.to_be_bytes();
    number
}

/// The octets of a direction's keys.
pub(super) struct Octets {
    pub(super) algorithm: AeadAlgorithm,
    pub(super) secret: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) iv: [u8; 12],
    pub(super) header_key: Vec<u8>,
}

impl Octets {
    /// Those of the client, or of the server, with the hash of the suite.
    pub(super) fn of(algorithm: AeadAlgorithm, is_client: bool) -> Self {
        let initial = ring_keys::extract(algorithm, &CONNECTION_ID);
        let mut secret = vec![0; algorithm.secret_length()];
        ring_keys::expand(&initial, if is_client { b"client in" } else { b"server in" }, &mut secret);
        let prk = ring_keys::prk(algorithm, &secret);
        let (mut key, mut header_key) = (vec![0; algorithm.key_length()], vec![0; algorithm.key_length()]);
        let mut iv = [0; 12];
        ring_keys::expand(&prk, b"quic key", &mut key);
        ring_keys::expand(&prk, b"quic iv", &mut iv);
        ring_keys::expand(&prk, b"quic hp", &mut header_key);
        Self { algorithm, secret, key, iv, header_key }
    }
}

/// The HkdfLabel of RFC 8446, section 7.1, in its parts, for an output of `length` octets.
fn with_label<R>(label: &[u8], length: usize, expand: impl FnOnce(&[&[u8]]) -> R) -> R {
    expand(&[&(length as u16).to_be_bytes(), &[6 + label.len() as u8], b"tls13 ", label, &[0]])
}

/// ring and aws-lc-rs have the same interface.
macro_rules! like_ring {
    ($module:ident, $library:ident) => {
        pub(super) mod $module {
            use wireseal_quic::AeadAlgorithm;
            use $library::aead::{Aad, LessSafeKey, Nonce, UnboundKey, quic};
            use $library::{aead, hkdf};

            use super::{Direct, Library, Octets, SALT, with_label};

            struct Length(usize);

            impl hkdf::KeyType for Length {
                fn len(&self) -> usize {
                    self.0
                }
            }

            fn hash(algorithm: AeadAlgorithm) -> hkdf::Algorithm {
                if algorithm == AeadAlgorithm::Aes256Gcm { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 }
            }

            pub(in super::super) fn extract(algorithm: AeadAlgorithm, connection_id: &[u8]) -> hkdf::Prk {
                hkdf::Salt::new(hash(algorithm), &SALT).extract(connection_id)
            }

            pub(in super::super) fn prk(algorithm: AeadAlgorithm, secret: &[u8]) -> hkdf::Prk {
                hkdf::Prk::new_less_safe(hash(algorithm), secret)
            }

            pub(in super::super) fn expand(prk: &hkdf::Prk, label: &[u8], out: &mut [u8]) {
                with_label(label, out.len(), |info| {
                    prk.expand(info, Length(out.len())).and_then(|okm| okm.fill(out)).expect("short")
                });
            }

            pub(in super::super) struct Keys {
                aead: LessSafeKey,
                header: quic::HeaderProtectionKey,
            }

            impl Keys {
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
            }

            pub(in super::super) fn direct(octets: &Octets) -> Option<Direct<Keys>> {
                let library = Keys::new(octets.algorithm, &octets.key, &octets.header_key)?;
                Some(Direct::new(library, octets.iv))
            }

            /// The Initial keys of client and server.
            pub(in super::super) fn initial(connection_id: &[u8]) -> [Direct<Keys>; 2] {
                let algorithm = AeadAlgorithm::Aes128Gcm;
                let initial = extract(algorithm, connection_id);
                [b"client in", b"server in"].map(|label| {
                    let (mut secret, mut key, mut iv, mut header_key) = ([0; 32], [0; 16], [0; 12], [0; 16]);
                    expand(&initial, label, &mut secret);
                    let prk = prk(algorithm, &secret);
                    expand(&prk, b"quic key", &mut key);
                    expand(&prk, b"quic iv", &mut iv);
                    expand(&prk, b"quic hp", &mut header_key);
                    Direct::new(Keys::new(algorithm, &key, &header_key).expect("16 octets"), iv)
                })
            }

            impl Library for Keys {
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

like_ring!(ring_keys, ring);
like_ring!(aws_lc_keys, aws_lc_rs);

/// RustCrypto's AEADs, and whatever makes masks.
struct RustCrypto<A, M> {
    aead: A,
    mask: M,
}

impl<A, M> Library for RustCrypto<A, M>
where
    A: AeadInOut<NonceSize = U12, TagSize = U16> + 'static,
    M: Fn(&[u8; 16]) -> [u8; 5] + 'static,
{
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
        (self.mask)(sample)
    }
}

/// Masks by a block cipher (RFC 9001, section 5.4.3).
pub(super) fn aes_mask<C>(key: &[u8]) -> impl Fn(&[u8; 16]) -> [u8; 5] + use<C>
where
    C: KeyInit + BlockCipherEncrypt<BlockSize = U16>,
{
    let cipher = C::new_from_slice(key).expect("the length of the algorithm");
    move |sample| {
        let mut block = (*sample).into();
        cipher.encrypt_block(&mut block);
        *block.first_chunk().expect("16 octets")
    }
}

/// Masks by ChaCha20 (RFC 9001, section 5.4.4).
pub(super) fn chacha20_mask(key: &[u8]) -> impl Fn(&[u8; 16]) -> [u8; 5] + use<> {
    let key: [u8; 32] = key.try_into().expect("32 octets");
    move |sample| {
        let (counter, nonce) = sample.split_first_chunk().expect("16 octets");
        let nonce: &[u8; 12] = nonce.try_into().expect("12 octets");
        let mut core =
            chacha20::ChaChaCore::<chacha20::R20, chacha20::variants::Ietf>::new(&key.into(), nonce.into());
        core.set_block_pos(u32::from_le_bytes(*counter));
        let mut block = Default::default();
        core.write_keystream_block(&mut block);
        *block.first_chunk().expect("64 octets")
    }
}

fn rust_crypto<A, M>(octets: &Octets, mask: impl Fn(&[u8]) -> M) -> PacketContender
where
    A: KeyInit + AeadInOut<NonceSize = U12, TagSize = U16> + 'static,
    M: Fn(&[u8; 16]) -> [u8; 5] + 'static,
{
    let keys = || {
        let aead = A::new_from_slice(&octets.key).expect("the length of the algorithm");
        Direct::new(RustCrypto { aead, mask: mask(&octets.header_key) }, octets.iv)
    };
    Direct::packets("rustcrypto", keys(), keys())
}

pub(super) fn packets(algorithm: AeadAlgorithm) -> Vec<PacketContender> {
    let octets = Octets::of(algorithm, true);
    let ring = || ring_keys::direct(&octets);
    let aws_lc = || aws_lc_keys::direct(&octets);
    let mut contenders = Vec::new();
    contenders.extend(ring().zip(ring()).map(|(sender, receiver)| Direct::packets("ring", sender, receiver)));
    contenders.extend(
        aws_lc().zip(aws_lc()).map(|(sender, receiver)| Direct::packets("aws-lc-rs", sender, receiver)),
    );
    contenders.push(match algorithm {
        AeadAlgorithm::Aes128Gcm => {
            rust_crypto::<AesGcm<aes::Aes128Enc, U12>, _>(&octets, aes_mask::<aes::Aes128Enc>)
        }
        AeadAlgorithm::Aes256Gcm => {
            rust_crypto::<AesGcm<aes::Aes256Enc, U12>, _>(&octets, aes_mask::<aes::Aes256Enc>)
        }
        AeadAlgorithm::ChaCha20Poly1305 => {
            rust_crypto::<chacha20poly1305::ChaCha20Poly1305, _>(&octets, chacha20_mask)
        }
        AeadAlgorithm::Aes128Ccm => {
            rust_crypto::<Ccm<aes::Aes128Enc, U16, U12>, _>(&octets, aes_mask::<aes::Aes128Enc>)
        }
    });
    contenders
}

pub(super) fn initial_contenders() -> Vec<InitialContender> {
    vec![
        contender("ring", ring_keys::initial, |mut keys, packet| {
            keys.seal::<INITIAL_NUMBER>(INITIAL_FIRST, 0, packet);
        }),
        contender("aws-lc-rs", aws_lc_keys::initial, |mut keys, packet| {
            keys.seal::<INITIAL_NUMBER>(INITIAL_FIRST, 0, packet);
        }),
    ]
}
