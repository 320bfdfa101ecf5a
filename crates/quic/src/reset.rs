//! Stateless resets (RFC 9000 §10.3).

use core::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::codec::ConnectionId;
use crate::error::SealError;
use crate::secret::HASH_LONG;

/// The octets of a stateless reset token (RFC 9000 §10.3).
const TOKEN_LENGTH: usize = 16;

/// The octets of the shortest stateless reset: 38 bits and the token (RFC 9000 §10.3).
const MIN_LENGTH: usize = 21;

/// The key that the stateless reset token of each connection ID is derived from, so that an endpoint can send it after losing all
/// state (RFC 9000 §10.3.2). Endpoints that serve the same connection IDs share it. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct StatelessResetKey([u8; 32]);

impl StatelessResetKey {
    /// A key of 32 random octets. Keep them across restarts.
    #[must_use]
    pub const fn new(key: &[u8; 32]) -> Self {
        Self(*key)
    }

    /// The token of a connection ID: HKDF-Expand with SHA-256 (RFC 5869), as RFC 9000 §10.3.2 suggests.
    ///
    /// `None` for an empty connection ID: all connections of the endpoint would have the same token, so each peer could end the connections
    /// of the others (RFC 9000 §10.3.2).
    #[must_use]
    pub fn token(&self, connection_id: &ConnectionId) -> Option<StatelessResetToken> {
        if connection_id.is_empty() {
            return None;
        }
        let mut token = StatelessResetToken([0; TOKEN_LENGTH]);
        let prk = Hkdf::<Sha256>::from_prk(&self.0).expect(HASH_LONG);
        prk.expand_multi_info(&[b"wireseal stateless reset", connection_id], &mut token.0).expect(HASH_LONG);
        Some(token)
    }
}

impl fmt::Debug for StatelessResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatelessResetKey").finish_non_exhaustive()
    }
}

/// The token that identifies a stateless reset. Anyone who knows it can end the connection (RFC 9000 §10.3).
///
/// Compared in constant time, wiped on drop, and not printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct StatelessResetToken([u8; TOKEN_LENGTH]);

impl StatelessResetToken {
    /// The token from the peer's NEW_CONNECTION_ID frame or transport parameters.
    #[must_use]
    pub const fn new(token: [u8; TOKEN_LENGTH]) -> Self {
        Self(token)
    }

    /// The octets for a NEW_CONNECTION_ID frame or the transport parameters.
    #[must_use]
    pub const fn octets(&self) -> &[u8; TOKEN_LENGTH] {
        &self.0
    }

    /// Whether `datagram` is a stateless reset with this token: at least 21 octets, the last 16 of them the token (RFC 9000
    /// §10.3.1).
    ///
    /// Call it with the datagram as received, or after [`open`](crate::Keys::open) failed on its last packet, which leaves the last
    /// 16 octets unchanged. The time depends on neither the token nor the datagram's octets.
    #[must_use]
    pub fn matches(&self, datagram: &[u8]) -> bool {
        match datagram.split_last_chunk::<TOKEN_LENGTH>() {
            Some((_, last)) if datagram.len() >= MIN_LENGTH => last.ct_eq(&self.0).into(),
            _ => false,
        }
    }

    /// Turns `datagram`, which you have filled with random octets, into a stateless reset: writes the token to its end and makes
    /// it look like a packet with a short header (RFC 9000 §10.3).
    ///
    /// Make it at least one octet shorter than the packet it answers, or two endpoints may reset each other in a loop (RFC 9000
    /// §10.3.3).
    ///
    /// # Errors
    ///
    /// [`SealError::BufferTooSmall`] below 21 octets, with nothing written.
    pub fn write_reset(&self, datagram: &mut [u8]) -> Result<(), SealError> {
        let got = datagram.len();
        match datagram {
            [first, .., _] if got >= MIN_LENGTH => *first = *first & 0x3f | 0x40,
            _ => return Err(SealError::BufferTooSmall { needed: MIN_LENGTH, got }),
        }
        datagram[got - TOKEN_LENGTH..].copy_from_slice(&self.0);
        Ok(())
    }
}

impl PartialEq for StatelessResetToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for StatelessResetToken {}

impl fmt::Debug for StatelessResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatelessResetToken").finish_non_exhaustive()
    }
}
