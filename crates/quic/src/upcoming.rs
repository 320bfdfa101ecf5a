//! The phase that comes after the present one, and why it cannot come yet.

use core::fmt;
use core::time::Duration;

use crate::backend::Backend;
use crate::packet_key::PacketKey;
use crate::secret::TrafficSecret;
use crate::version::Version;

/// The next phase of one direction.
pub(crate) struct Upcoming {
    /// Its key, unless that is still to be derived.
    pub(crate) key: Option<PacketKey>,
    /// Its secret where there is a key, else that of the present phase. No earlier secret is kept.
    secret: TrafficSecret,
    /// How many phases after the first the keys were derived for.
    pub(crate) derivations: u64,
}

impl Upcoming {
    /// What follows the phase of `secret`.
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

/// Why keys were not updated. The caller is to blame or has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateError {
    /// Not before the handshake is confirmed (RFC 9001, section 6.1).
    HandshakeNotConfirmed,
    /// No packet of the present phase was acknowledged yet (RFC 9001, section 6.1).
    NotAcknowledged,
    /// The peer may still need its old keys (RFC 9001, section 6.5).
    TooSoon {
        /// When it will be possible.
        from: Duration,
    },
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandshakeNotConfirmed => f.write_str("the handshake is not confirmed"),
            Self::NotAcknowledged => f.write_str("no packet of this key phase was acknowledged"),
            Self::TooSoon { from } => {
                write!(
                    f,
                    "the next key update has to wait until {from:?}, three probe timeouts after the last"
                )
            }
        }
    }
}

impl core::error::Error for UpdateError {}
