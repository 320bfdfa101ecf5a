//! The key phase after the present one, and why it cannot start yet.

use core::fmt;
use core::time::Duration;

use crate::backend::Backend;
use crate::packet_key::PacketKey;
use crate::secret::TrafficSecret;
use crate::version::Version;

/// The next key phase of one direction.
pub(crate) struct NextPhase {
    /// `None` until it is derived.
    pub(crate) key: Option<PacketKey>,
    /// The secret of `key`, or of the present phase if there is no key. No earlier secret is kept.
    secret: TrafficSecret,
    /// How many phases were derived here.
    pub(crate) derivations: u64,
}

impl NextPhase {
    /// The phase after that of `secret`.
    pub(crate) fn after(secret: TrafficSecret) -> Self {
        Self { key: None, secret, derivations: 0 }
    }

    pub(crate) fn prepare(&mut self, backend: Backend, version: Version) {
        if self.key.is_none() {
            self.secret = self.secret.following(version);
            self.derivations += 1;
            self.key = Some(PacketKey::derive(backend, version, &self.secret.expander()));
        }
    }
}

/// Why keys were not updated. Caller error, or too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateError {
    /// The handshake is not confirmed (RFC 9001 §6.1).
    HandshakeNotConfirmed,
    /// No packet of the present phase has been acknowledged (RFC 9001 §6.1).
    NotAcknowledged,
    /// The peer may still need its old keys (RFC 9001 §6.5).
    TooSoon {
        /// When the update becomes possible.
        from: Duration,
    },
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandshakeNotConfirmed => f.write_str("the handshake is not confirmed"),
            Self::NotAcknowledged => f.write_str("no packet of this key phase has been acknowledged"),
            Self::TooSoon { from } => {
                write!(f, "no key update before {from:?}, three probe timeouts after the last")
            }
        }
    }
}

impl core::error::Error for UpdateError {}
