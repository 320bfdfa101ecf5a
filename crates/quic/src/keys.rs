//! The keys of one direction of one level.

use core::fmt;

use wireseal_aead::Backend;
use wireseal_algorithms::AeadAlgorithm;

use crate::codec::{ConnectionId, PacketType};
use crate::error::OpenError;
use crate::open::{Opened, Unmasked};
use crate::packet_key::{HeaderKey, PacketKey};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::secret::{Expander, TrafficSecret};
use crate::version::Version;

/// The packet protection keys of one direction of one level: AEAD key, IV and header protection key (RFC 9001 §5.1).
/// They open packets directly, and seal inside a [`Sealer`](crate::Sealer). For 1-RTT packets, whose keys are updated, use
/// [`OneRtt`](crate::OneRtt), which also opens nothing before the handshake is complete. Keys need no heap and are
/// wiped on drop. They open only packets of their own type and version.
pub struct Keys {
    pub(crate) packet_key: PacketKey,
    pub(crate) header_key: HeaderKey,
    pub(crate) packet_type: PacketType,
    pub(crate) version: Version,
}

impl Keys {
    /// The keys for packets of one type and version, derived from a traffic secret, for the active backend.
    #[must_use]
    pub fn new(version: Version, packet_type: PacketType, secret: TrafficSecret) -> Self {
        Self::with_backend(Backend::active(), version, packet_type, secret)
    }

    /// [`new`](Self::new) for a given backend.
    // Takes the secret by value: a second sealer from it would use the same packet numbers again.
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

    /// Where the AEAD comes from, for logs and measurements: the processor's instructions (by [`Backend::Kernels`]) or a library.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        self.packet_key.served_by()
    }

    /// Opens a packet: removes the header mask, decodes the packet number, decrypts, and then checks reserved bits, that there are
    /// frames, and duplicates, all in one step (RFC 9001 §5.5 and §9.5). The fixed bit is [yours to check](Protected::fixed_bit).
    ///
    /// `space` is the packet number space of the packet's level. Initial keys of two versions share one, and so do 0-RTT and 1-RTT
    /// keys. `failures` is one for the whole connection.
    ///
    /// # Errors
    ///
    /// [`OpenError`]. The packet is unchanged if it is too short for a sample or of another type or version, or if the integrity
    /// limit had been exceeded before. After a failed authentication the payload is zeros; header and tag are unchanged. If an
    /// authentic packet is refused, payload and tag are zeros. `space` is unchanged.
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

/// The keys of Initial packets: AES-128-GCM, derived from the destination connection ID of the client's first Initial packet or,
/// after a Retry, from the Retry's source connection ID (RFC 9001 §5.2).
///
/// Anyone who sees the packets can derive them. During compatible version negotiation keep those of both versions, and choose by
/// the version of the packet (RFC 9369 §4.1).
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

    /// The keys of both directions, for a given backend.
    #[must_use]
    pub fn with_backend(backend: Backend, version: Version, destination: &ConnectionId) -> Self {
        let [client, server] = TrafficSecret::initial(version, destination)
            .map(|secret| Keys::with_backend(backend, version, PacketType::Initial, secret));
        Self { client, server }
    }
}
