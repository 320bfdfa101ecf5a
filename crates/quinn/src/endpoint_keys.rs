//! The keys of an endpoint beside its connections': for tokens, and for stateless resets.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use rustls::Error;
use rustls::crypto::SecureRandom;
use sha2::Sha256;
use wireseal_quic::AeadAlgorithm;
use wireseal_quic::hazmat::{PacketKey, PathId};
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// The key of the tokens by which a server knows that a client owns its address (RFC 9000 §8.1): Retry tokens, and those of NEW_TOKEN
/// frames.
///
/// Each token is sealed with AES-256-GCM, under a key of its own that comes from this one and the token's random nonce. Servers that
/// serve the same clients share it. Wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// A key of 32 random octets. Keep them across restarts, or clients lose their tokens.
    #[must_use]
    pub const fn new(octets: &[u8; 32]) -> Self {
        Self(*octets)
    }

    /// A random key, for as long as the program runs: `random` is `secure_random` of the TLS provider.
    ///
    /// # Errors
    ///
    /// [`Error::FailedToGetRandomBytes`].
    pub fn random(random: &dyn SecureRandom) -> Result<Self, Error> {
        let mut key = Self([0; 32]);
        random.fill(&mut key.0)?;
        Ok(key)
    }

    /// The key of the token with this nonce.
    pub(crate) fn derive(&self, nonce: &[u8]) -> OneTokenKey {
        const LONG: &str = "a key of 32 octets, and less than 255 times as many of output";
        let mut key = Zeroizing::new([0; 32]);
        let prk = Hkdf::<Sha256>::from_prk(&self.0).expect(LONG);
        prk.expand_multi_info(&[b"wireseal token of a stack", nonce], &mut *key).expect(LONG);
        OneTokenKey(PacketKey::new(AeadAlgorithm::Aes256Gcm, &*key, &[0; 12]).expect(LONG))
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

/// The key of one token, which seals once: with nonce 0.
pub(crate) struct OneTokenKey(PacketKey);

impl OneTokenKey {
    /// `None`, with nothing changed, for more than a datagram holds.
    pub(crate) fn seal(&self, additional: &[u8], token: &mut Vec<u8>) -> Option<()> {
        let tag = self.0.seal(PathId(0), 0, additional, token).ok()?;
        token.extend_from_slice(&tag);
        Some(())
    }

    /// `None` if the token is not one of this key's.
    pub(crate) fn open<'a>(&self, additional: &[u8], token: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.0.open(PathId(0), 0, additional, token)
    }
}

/// The key that an endpoint's stateless reset tokens come from (RFC 9000 §10.3.2), for `quinn::EndpointConfig::new` and
/// `noq::EndpointConfig::new`: HMAC-SHA-256. Wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct ResetKey([u8; 32]);

impl ResetKey {
    /// The octets of what it signs with.
    pub(crate) const SIGNATURE_LENGTH: usize = 32;

    /// A key of 32 random octets. Not for servers with connection IDs of no octets: quinn and noq would give all clients one token, and
    /// each could end the connections of the others (RFC 9000 §10.3.2). Keep the octets across restarts, and so the endpoint's connection
    /// IDs: quinn and noq reset nothing whose ID their generator does not recognise, and by default that has a key of its own, new at
    /// each start. With `cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(kept)))` peers learn of a restart at once,
    /// otherwise by a timeout.
    #[must_use]
    pub const fn new(octets: &[u8; 32]) -> Self {
        Self(*octets)
    }

    /// A random key, for as long as the program runs: `random` is `secure_random` of the TLS provider.
    ///
    /// # Errors
    ///
    /// [`Error::FailedToGetRandomBytes`].
    pub fn random(random: &dyn SecureRandom) -> Result<Self, Error> {
        let mut key = Self([0; 32]);
        random.fill(&mut key.0)?;
        Ok(key)
    }

    pub(crate) fn mac(&self, data: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(data);
        mac
    }

    /// Writes the first octets of the HMAC, as many as there is room for, at most 32.
    pub(crate) fn sign(&self, data: &[u8], signature: &mut [u8]) {
        let mac =
            Zeroizing::new(<[u8; Self::SIGNATURE_LENGTH]>::from(self.mac(data).finalize().into_bytes()));
        let length = signature.len().min(mac.len());
        signature[..length].copy_from_slice(&mac[..length]);
    }

    /// In constant time.
    pub(crate) fn is_valid(&self, data: &[u8], signature: &[u8]) -> bool {
        self.mac(data).verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetKey").finish_non_exhaustive()
    }
}
