//! The key phase after the present one, and why it cannot start yet.

use core::time::Duration;

use crate::backend::Backend;
use crate::packet_key::PacketKey;
use crate::secret::TrafficSecret;
use crate::version::Version;

/// The next key phase of one direction.
pub(crate) struct NextPhase {
    backend: Backend,
    version: Version,
    /// The secret of the present phase. No earlier one is kept here.
    pub(crate) present: TrafficSecret,
    next: Option<(PacketKey, TrafficSecret)>,
    /// How many phases were derived after the first.
    pub(crate) derivations: u64,
}

impl NextPhase {
    /// The phase after that of `present`, which comes after `generation` others.
    pub(crate) fn after(
        present: TrafficSecret,
        generation: u64,
        (backend, version): (Backend, Version),
    ) -> Self {
        Self { backend, version, present, next: None, derivations: generation }
    }

    /// The key of the next phase, if it is derived.
    pub(crate) fn key(&self) -> Option<&PacketKey> {
        self.next.as_ref().map(|(key, _)| key)
    }

    pub(crate) fn prepare(&mut self) {
        if self.next.is_none() {
            self.next = Some(self.derive());
        }
    }

    /// Enters the next phase. Returns its key, and the secret of the phase that ends.
    pub(crate) fn take(&mut self) -> (PacketKey, TrafficSecret) {
        let (key, secret) = self.next.take().unwrap_or_else(|| self.derive());
        (key, core::mem::replace(&mut self.present, secret))
    }

    fn derive(&mut self) -> (PacketKey, TrafficSecret) {
        let secret = self.present.following(self.version);
        self.derivations += 1;
        (PacketKey::derive(self.backend, self.version, &secret.expander()), secret)
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
