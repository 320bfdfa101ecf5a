//! The key phase after the present one, and why it cannot start yet.

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
            self.key = Some(self.derive(backend, version));
        }
    }

    /// The key of the next phase, which becomes the present one.
    pub(crate) fn take(&mut self, backend: Backend, version: Version) -> PacketKey {
        self.key.take().unwrap_or_else(|| self.derive(backend, version))
    }

    fn derive(&mut self, backend: Backend, version: Version) -> PacketKey {
        self.secret = self.secret.following(version);
        self.derivations += 1;
        PacketKey::derive(backend, version, &self.secret.expander())
    }
}

/// Why keys were not updated. Caller error, or too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum UpdateError {
    /// The handshake is not confirmed (RFC 9001 §6.1).
    #[error("the handshake is not confirmed")]
    HandshakeNotConfirmed,
    /// No packet of the present phase has been acknowledged (RFC 9001 §6.1).
    #[error("no packet of this key phase has been acknowledged")]
    NotAcknowledged,
    /// The peer may still need its old keys (RFC 9001 §6.5).
    #[error("no key update before {from:?}, three probe timeouts after the last")]
    TooSoon {
        /// When the update becomes possible.
        from: Duration,
    },
}
