//! Keys in the form that quinn and noq expect: those of one level, with separate packet and header keys for both directions, and those of
//! an endpoint, for tokens and stateless resets.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use rustls::Error;
use rustls::crypto::SecureRandom;
use sha2::Sha256;
use wireseal_quic::hazmat::{self, PathId};
use wireseal_quic::{AeadAlgorithm, ConnectionId, InitialKeys, Keys, Version};
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// The octets from the start of the packet number to the sample (RFC 9001 §5.4.2).
const SAMPLE_OFFSET: usize = 4;

/// The octets of a sample.
pub(crate) const SAMPLE_LENGTH: usize = 16;

/// Protects payloads, and headers too if it has their key. The stacks mask each header right after sealing the payload, so this key does
/// both in one pass, and its [`HeaderKey`] then does nothing.
pub(crate) struct PacketKey {
    key: hazmat::PacketKey,
    mask: Option<Arc<hazmat::HeaderKey>>,
}

impl PacketKey {
    pub(crate) const fn new(key: hazmat::PacketKey, mask: Option<Arc<hazmat::HeaderKey>>) -> Self {
        Self { key, mask }
    }

    /// Seals a packet that has room for its tag.
    #[inline]
    pub(crate) fn seal(&self, path: PathId, number: u64, packet: &mut [u8], header_length: usize) {
        // With numbers of up to three octets, the sample needs an octet of payload. Only short headers have longer ones, and after those
        // the stacks always put one.
        const FITS: &str =
            "the stack leaves room for a tag and a sample, and sends no packet without a payload";
        if let Some(mask) = &self.mask {
            return self.key.seal_packet(mask, path, number, packet, header_length).expect(FITS);
        }
        let (header, body) = packet.split_at_mut(header_length);
        let (payload, tag) = body.split_last_chunk_mut().expect(FITS);
        *tag = self.key.seal(path, number, header, payload).expect(FITS);
    }

    /// Opens a packet and removes its tag. `false` if it is not authentic; the payload is then zeros.
    #[inline]
    #[must_use]
    pub(crate) fn open(&self, path: PathId, number: u64, header: &[u8], body: &mut BytesMut) -> bool {
        let Some(payload) = self.key.open(path, number, header, body) else { return false };
        let length = payload.len();
        body.truncate(length);
        true
    }

    pub(crate) const fn algorithm(&self) -> AeadAlgorithm {
        self.key.algorithm()
    }
}

/// Masks headers, unless the packet key already does, and removes masks.
pub(crate) struct HeaderKey {
    key: Arc<hazmat::HeaderKey>,
    is_left_to_packet_key: bool,
}

impl HeaderKey {
    #[inline]
    pub(crate) fn mask(&self, number_offset: usize, packet: &mut [u8]) {
        if !self.is_left_to_packet_key {
            self.apply(number_offset, packet, hazmat::HeaderKey::protect);
        }
    }

    #[inline]
    pub(crate) fn unmask(&self, number_offset: usize, packet: &mut [u8]) {
        self.apply(number_offset, packet, hazmat::HeaderKey::unprotect);
    }

    #[inline]
    fn apply(
        &self,
        number_offset: usize,
        packet: &mut [u8],
        change: impl Fn(&hazmat::HeaderKey, &[u8; SAMPLE_LENGTH], &mut u8, &mut [u8]),
    ) {
        let (covered, sampled) = packet.split_at_mut(number_offset + SAMPLE_OFFSET);
        let sample = sampled.first_chunk().expect("the stack has seen to it that there is a sample");
        let (before, number) = covered.split_at_mut(number_offset);
        change(&self.key, sample, &mut before[0], number);
    }
}

/// The keys of one direction of one level.
pub(crate) struct DirectionKeys {
    pub(crate) packet: PacketKey,
    pub(crate) header: HeaderKey,
}

impl DirectionKeys {
    /// For packets that this end sends.
    pub(crate) fn local(keys: Keys) -> Self {
        let (key, mask) = keys.into_parts();
        let mask = Arc::new(mask);
        Self {
            packet: PacketKey::new(key, Some(Arc::clone(&mask))),
            header: HeaderKey { key: mask, is_left_to_packet_key: true },
        }
    }

    /// For packets that this end receives.
    pub(crate) fn remote(keys: Keys) -> Self {
        let (key, mask) = keys.into_parts();
        Self {
            packet: PacketKey::new(key, None),
            header: HeaderKey { key: Arc::new(mask), is_left_to_packet_key: false },
        }
    }

    /// The key that masks headers of this direction, in all phases (RFC 9001 §6.1).
    pub(crate) fn mask(&self) -> Arc<hazmat::HeaderKey> {
        Arc::clone(&self.header.key)
    }
}

/// The keys of both directions of one level.
pub(crate) struct LevelKeys {
    pub(crate) local: DirectionKeys,
    pub(crate) remote: DirectionKeys,
}

impl LevelKeys {
    pub(crate) fn new(local: Keys, remote: Keys) -> Self {
        Self { local: DirectionKeys::local(local), remote: DirectionKeys::remote(remote) }
    }

    /// The keys of Initial packets (RFC 9001 §5.2). The stacks' connection IDs have at most 20 octets.
    pub(crate) fn initial(version: Version, destination: &[u8], is_client: bool) -> Self {
        let destination = ConnectionId::new(destination).expect("connection IDs have at most 20 octets");
        let InitialKeys { client, server } = InitialKeys::new(version, &destination);
        if is_client { Self::new(client, server) } else { Self::new(server, client) }
    }
}

/// The key of the tokens that validate a client's address (RFC 9000 §8.1), in Retry packets and NEW_TOKEN frames.
///
/// Each token is sealed with AES-256-GCM under its own key, derived from this one and the token's random nonce. Servers with the same
/// clients share it. Wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct TokenKey([u8; 32]);

impl TokenKey {
    /// A key of 32 random octets. Keep them across restarts, or clients lose their tokens.
    #[must_use]
    pub const fn new(octets: &[u8; 32]) -> Self {
        Self(*octets)
    }

    /// A random key, valid while the program runs. `random` is `secure_random` of the TLS provider.
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
        OneTokenKey(hazmat::PacketKey::new(AeadAlgorithm::Aes256Gcm, &*key, &[0; 12]).expect(LONG))
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").finish_non_exhaustive()
    }
}

/// The key of one token. It seals one message, with nonce 0.
pub(crate) struct OneTokenKey(hazmat::PacketKey);

impl OneTokenKey {
    /// `None`, with nothing changed, if the token is longer than a datagram.
    pub(crate) fn seal(&self, additional: &[u8], token: &mut Vec<u8>) -> Option<()> {
        let tag = self.0.seal(PathId(0), 0, additional, token).ok()?;
        token.extend_from_slice(&tag);
        Some(())
    }

    /// `None` if the token was not sealed with this key.
    pub(crate) fn open<'a>(&self, additional: &[u8], token: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.0.open(PathId(0), 0, additional, token)
    }
}

/// The key from which an endpoint derives its stateless reset tokens (RFC 9000 §10.3.2), for `quinn::EndpointConfig::new` and
/// `noq::EndpointConfig::new`: HMAC-SHA-256. Wiped on drop.
#[derive(ZeroizeOnDrop)]
pub struct ResetKey([u8; 32]);

impl ResetKey {
    /// The length of a signature in octets.
    pub(crate) const SIGNATURE_LENGTH: usize = 32;

    /// A key of 32 random octets. Do not use it for servers with empty connection IDs: quinn and noq would give all clients the same token,
    /// and each could end the connections of the others (RFC 9000 §10.3.2).
    ///
    /// To have peers learn of a restart at once, not by a timeout, keep the octets across restarts, and also the key of the endpoint's
    /// connection IDs: quinn and noq send no reset for an ID that their generator does not recognise, and by default that has a new key at
    /// each start. Set it with `cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(kept)))`.
    #[must_use]
    pub const fn new(octets: &[u8; 32]) -> Self {
        Self(*octets)
    }

    /// A random key, valid while the program runs. `random` is `secure_random` of the TLS provider.
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

    /// Fills `signature` with the first octets of the HMAC, at most 32.
    pub(crate) fn sign(&self, data: &[u8], signature: &mut [u8]) {
        let mac =
            Zeroizing::new(<[u8; Self::SIGNATURE_LENGTH]>::from(self.mac(data).finalize().into_bytes()));
        let length = signature.len().min(mac.len());
        signature[..length].copy_from_slice(&mac[..length]);
    }

    /// Compares in constant time.
    pub(crate) fn is_valid(&self, data: &[u8], signature: &[u8]) -> bool {
        self.mac(data).verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResetKey").finish_non_exhaustive()
    }
}
