//! ring and AWS-LC used directly, whose interfaces are the same; and the octets of keys, derived with ring.

use wireseal_quic::AeadAlgorithm;

use super::contender::{InitialContender, MaskContender, PacketContender};
use super::packet::CONNECTION_ID;

/// The salt of version 1 (RFC 9001 §5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
    0xbb, 0x7f, 0x0a,
];

/// The octets of a direction's keys.
pub(super) struct Octets {
    pub(super) algorithm: AeadAlgorithm,
    pub(super) secret: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) iv: [u8; 12],
    pub(super) header_key: Vec<u8>,
}

impl Octets {
    /// The client's or the server's, with the hash of the suite.
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

/// Passes the parts of the HkdfLabel (RFC 8446 §7.1) for an output of `length` octets.
fn with_label<R>(label: &[u8], length: usize, expand: impl FnOnce(&[&[u8]]) -> R) -> R {
    expand(&[&(length as u16).to_be_bytes(), &[6 + label.len() as u8], b"tls13 ", label, &[0]])
}

macro_rules! like_ring {
    ($module:ident, $library:ident, $name:literal) => {
        mod $module {
            use wireseal_quic::AeadAlgorithm;
            use $library::aead::{Aad, LessSafeKey, Nonce, UnboundKey, quic};
            use $library::{aead, hkdf};

            use super::super::contender::{InitialContender, MaskContender, PacketContender};
            use super::super::direct::{Direct, Library};
            use super::super::packet::{INITIAL_FIRST, INITIAL_NUMBER};
            use super::{Octets, SALT, with_label};

            struct Length(usize);

            impl hkdf::KeyType for Length {
                fn len(&self) -> usize {
                    self.0
                }
            }

            fn hash(algorithm: AeadAlgorithm) -> hkdf::Algorithm {
                if algorithm == AeadAlgorithm::Aes256Gcm { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 }
            }

            pub(super) fn extract(algorithm: AeadAlgorithm, connection_id: &[u8]) -> hkdf::Prk {
                hkdf::Salt::new(hash(algorithm), &SALT).extract(connection_id)
            }

            pub(super) fn prk(algorithm: AeadAlgorithm, secret: &[u8]) -> hkdf::Prk {
                hkdf::Prk::new_less_safe(hash(algorithm), secret)
            }

            pub(super) fn expand(prk: &hkdf::Prk, label: &[u8], out: &mut [u8]) {
                with_label(label, out.len(), |info| {
                    prk.expand(info, Length(out.len())).and_then(|okm| okm.fill(out)).expect("short")
                });
            }

            struct Keys {
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

            fn direct(octets: &Octets) -> Option<Direct<Keys>> {
                let library = Keys::new(octets.algorithm, &octets.key, &octets.header_key)?;
                Some(Direct::new(library, octets.iv))
            }

            pub(super) fn packets(octets: &Octets) -> Option<PacketContender> {
                Some(Direct::packets($name, direct(octets)?, direct(octets)?))
            }

            pub(super) fn mask_contender(octets: &Octets) -> Option<MaskContender> {
                Some(MaskContender::one_by_one($name, direct(octets)?.into_mask()))
            }

            pub(super) fn initial_contender() -> InitialContender {
                InitialContender::new($name, initial, |mut keys, packet| {
                    keys.seal::<INITIAL_NUMBER>(INITIAL_FIRST, 0, packet);
                })
            }

            /// The Initial keys of client and server.
            fn initial(connection_id: &[u8]) -> [Direct<Keys>; 2] {
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

like_ring!(ring_keys, ring, "ring");
#[cfg(feature = "peers")]
like_ring!(aws_lc_keys, aws_lc_rs, "aws-lc-rs");

/// Calls a function of ring's module, and of AWS-LC's with the feature `peers`.
macro_rules! both {
    ($function:ident $arguments:tt) => {
        [
            ring_keys::$function $arguments,
            #[cfg(feature = "peers")]
            aws_lc_keys::$function $arguments,
        ]
    };
}

/// The libraries that have the AEAD.
pub(super) fn packets(algorithm: AeadAlgorithm) -> impl Iterator<Item = PacketContender> {
    both!(packets(&Octets::of(algorithm, true))).into_iter().flatten()
}

pub(super) fn mask_contenders(algorithm: AeadAlgorithm) -> impl Iterator<Item = MaskContender> {
    both!(mask_contender(&Octets::of(algorithm, true))).into_iter().flatten()
}

pub(super) fn initial_contenders() -> Vec<InitialContender> {
    both!(initial_contender()).into()
}
