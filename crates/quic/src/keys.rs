//! The keys of one direction of one level.

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::connection_id::ConnectionId;
use crate::open::{AuthenticationFailures, OpenError, Opened, ReceiveSpace, Unmasked};
use crate::packet_key::{HeaderKey, PacketKey};
use crate::protected::{PacketType, Protected};
use crate::secret::{Expander, TrafficSecret};
use crate::version::Version;

/// The packet protection keys of one direction of one level: AEAD key, IV and header protection key (RFC 9001, section 5.1).
///
/// They open packets as they are, and seal them in a [`Sealer`](crate::Sealer). For 1-RTT packets, whose keys change, there is
/// [`OneRtt`](crate::OneRtt). They lie where the caller puts them, have no heap behind them, and are wiped on drop.
///
/// They know which packets they are for, and leave all others alone.
pub struct Keys {
    pub(crate) packet_key: PacketKey,
    pub(crate) header_key: HeaderKey,
    pub(crate) packet_type: PacketType,
    pub(crate) version: Version,
}

impl Keys {
    /// The keys that a traffic secret gives for packets of one type and version, for the active backend.
    #[must_use]
    pub fn new(version: Version, packet_type: PacketType, secret: TrafficSecret) -> Self {
        Self::with_backend(Backend::active(), version, packet_type, secret)
    }

    /// As [`new`](Self::new), for a backend of the caller's choice.
    // The secret is handed over, so that there is no second sealer with the same keys and numbers of its own.
    #[allow(clippy::needless_pass_by_value)]
    #[must_use]
    pub fn with_backend(
        backend: Backend,
        version: Version,
        packet_type: PacketType,
        secret: TrafficSecret,
    ) -> Self {
        Self::derive(backend, version, packet_type, &secret.expander())
    }

    pub(crate) fn derive(
        backend: Backend,
        version: Version,
        packet_type: PacketType,
        secret: &Expander,
    ) -> Self {
        Self {
            packet_key: PacketKey::derive(backend, version, secret),
            header_key: HeaderKey::derive(backend, version, secret),
            packet_type,
            version,
        }
    }

    /// The version of the packets they are for.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The type of the packets they are for.
    #[must_use]
    pub const fn packet_type(&self) -> PacketType {
        self.packet_type
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.packet_key.algorithm()
    }

    /// What serves the AEAD: the processor's instructions, by [`Backend::Kernels`], or a library. For logs and measurements.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        self.packet_key.served_by()
    }

    /// Opens a packet: removes the header mask, decodes the packet number, decrypts, and judges reserved bits, duplicates
    /// and limits, in this order and in one step (RFC 9001, section 5.5 and 9.5).
    ///
    /// `space` is the packet number space of the packet's level, which Initial keys of two versions share, and 0-RTT with
    /// 1-RTT keys. `failures` is one for the whole connection.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. A packet too short for a sample, or of another type or version than the keys are for, is left as it was, as
    /// is any once the integrity limit is behind. After a
    /// failed authentication header and tag are as they were and the payload is zeros; where the packet was authentic, the
    /// payload and the tag are zeros. Of `space` and `failures` only the count of failures has changed.
    #[inline]
    pub fn open<'a>(
        &self,
        packet: Protected<'a>,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        Unmasked::new(packet, (self.packet_type, self.version), &self.header_key, space)?
            .open(&self.packet_key, 0, failures)?
            .judge(space)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("algorithm", &self.algorithm())
            .field("version", &self.version)
            .field("packet_type", &self.packet_type)
            .finish_non_exhaustive()
    }
}

/// The keys of Initial packets: always AES-128-GCM, from the destination connection ID of the client's first Initial packet,
/// or, after a Retry, from the Retry's source connection ID (RFC 9001, section 5.2).
///
/// They keep nobody out who sees the packets. While a version is being negotiated compatibly, those of both versions live
/// side by side, and the packet's version picks (RFC 9369, section 4.1).
#[derive(Debug)]
pub struct InitialKeys {
    /// For packets that the client sends.
    pub client: Keys,
    /// For packets that the server sends.
    pub server: Keys,
}

impl InitialKeys {
    /// The keys of both directions, for the active backend.
    #[must_use]
    pub fn new(version: Version, destination: &ConnectionId) -> Self {
        Self::with_backend(Backend::active(), version, destination)
    }

    /// The keys of both directions, for a backend of the caller's choice.
    #[must_use]
    pub fn with_backend(backend: Backend, version: Version, destination: &ConnectionId) -> Self {
        let [client, server] = TrafficSecret::initial(version, destination)
            .map(|secret| Keys::with_backend(backend, version, PacketType::Initial, secret));
        Self { client, server }
    }
}
