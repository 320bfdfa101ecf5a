//! Traffic secrets, and HKDF-Expand-Label.

use core::fmt;

use hkdf::Hkdf;
use sha2::{Sha256, Sha384};
use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::codec::ConnectionId;
use crate::error::KeyError;
use crate::version::Version;

/// The octets of the longest traffic secret, that of SHA-384.
const MAX_SECRET_LENGTH: usize = 48;

/// The secret that the packet protection keys of one direction are derived from (RFC 8446 §7.1, RFC 9001 §5.1).
///
/// It is wiped on drop and never printed. It cannot be copied: [`Keys::new`](crate::Keys::new) and
/// [`OneRttSealer::new`](crate::OneRttSealer::new) consume it.
#[derive(ZeroizeOnDrop)]
pub struct TrafficSecret {
    #[zeroize(skip)]
    algorithm: AeadAlgorithm,
    /// For a shorter hash, zeros follow the secret.
    octets: [u8; MAX_SECRET_LENGTH],
}

impl TrafficSecret {
    /// The secret that the TLS handshake derived for a cipher suite: 48 octets for AES-256-GCM, whose hash is SHA-384, and 32
    /// for the others.
    ///
    /// # Errors
    ///
    /// [`KeyError::WrongLength`] for any other length.
    pub fn new(algorithm: AeadAlgorithm, secret: &[u8]) -> Result<Self, KeyError> {
        let expected = algorithm.secret_length();
        if secret.len() != expected {
            return Err(KeyError::WrongLength { algorithm, expected, got: secret.len() });
        }
        let mut octets = [0; MAX_SECRET_LENGTH];
        octets[..expected].copy_from_slice(secret);
        Ok(Self { algorithm, octets })
    }

    /// The Initial secrets of client and server (RFC 9001 §5.2, RFC 9369 §3.3.1).
    pub(crate) fn initial(version: Version, destination: &ConnectionId) -> [Self; 2] {
        let (mut initial, prk) = Hkdf::<Sha256>::extract(Some(&version.initial_salt()), destination);
        initial.zeroize();
        [b"client in", b"server in"].map(|label| {
            let mut secret = Self { algorithm: AeadAlgorithm::Aes128Gcm, octets: [0; MAX_SECRET_LENGTH] };
            with_label(label, 32, |info| {
                prk.expand_multi_info(info, &mut secret.octets[..32]).expect(HASH_LONG);
            });
            secret
        })
    }

    /// The AEAD of the cipher suite.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.algorithm
    }

    /// The secret of the next key phase (RFC 9001 §6.1, RFC 9369 §3.3.2), with the version's label: "quic ku" or "quicv2 ku".
    pub(crate) fn following(&self, version: Version) -> Self {
        let mut next = Self { algorithm: self.algorithm, octets: [0; MAX_SECRET_LENGTH] };
        let length = self.algorithm.secret_length();
        self.expander().expand(version.labels().key_update, &mut next.octets[..length]);
        next
    }

    /// The secret without the zeros after it.
    pub(crate) fn as_octets(&self) -> &[u8] {
        &self.octets[..self.algorithm.secret_length()]
    }

    /// HKDF keyed with the secret.
    pub(crate) fn expander(&self) -> Expander {
        Expander::keyed(self.algorithm, self.as_octets())
    }
}

/// HKDF keyed with a traffic secret, to derive everything that the secret protects.
pub(crate) struct Expander {
    pub(crate) algorithm: AeadAlgorithm,
    prk: Prk,
}

enum Prk {
    Sha256(Hkdf<Sha256>),
    Sha384(Hkdf<Sha384>),
}

impl Expander {
    /// `secret` has the algorithm's length.
    pub(crate) fn keyed(algorithm: AeadAlgorithm, secret: &[u8]) -> Self {
        let prk = match algorithm {
            AeadAlgorithm::Aes256Gcm => Prk::Sha384(Hkdf::from_prk(secret).expect(HASH_LONG)),
            AeadAlgorithm::Aes128Gcm | AeadAlgorithm::ChaCha20Poly1305 | AeadAlgorithm::Aes128Ccm => {
                Prk::Sha256(Hkdf::from_prk(secret).expect(HASH_LONG))
            }
        };
        Self { algorithm, prk }
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1). `out` is at most as long as the hash.
    pub(crate) fn expand(&self, label: &[u8], out: &mut [u8]) {
        with_label(label, out.len(), |info| {
            match &self.prk {
                Prk::Sha256(prk) => prk.expand_multi_info(info, out),
                Prk::Sha384(prk) => prk.expand_multi_info(info, out),
            }
            .expect(HASH_LONG);
        });
    }
}

pub(crate) const HASH_LONG: &str = "secrets are as long as the hash, and no key is longer";

/// Passes on the HkdfLabel (RFC 8446 §7.1) for an output of `length` octets, in parts.
fn with_label(label: &[u8], length: usize, expand: impl FnOnce(&[&[u8]])) {
    const PREFIX: &[u8] = b"tls13 ";
    // Labels and outputs are short, so neither cast truncates.
    let length = (length as u16).to_be_bytes();
    expand(&[&length, &[(PREFIX.len() + label.len()) as u8], PREFIX, label, &[0]]);
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficSecret").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}
