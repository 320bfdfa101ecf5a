//! The 1-RTT keys before the handshake is complete.

use core::fmt;

use wireseal_aead::Backend;

use crate::error::SealError;
use crate::one_rtt::OneRtt;
use crate::packet_number::{NumberLength, PacketNumberCounter};
use crate::seal::Outgoing;
use crate::secret::TrafficSecret;
use crate::version::Version;

/// The 1-RTT packet protection of a connection before the handshake is complete: it seals packets, and opens none.
///
/// A server may seal as soon as TLS gives it the secrets, but neither end may open 1-RTT packets before its handshake is complete, because
/// the peer is not authenticated yet (RFC 9001 §5.7). So this type cannot open packets; keep or drop 1-RTT packets that arrive early.
/// [`complete_handshake`](Self::complete_handshake) returns the [`OneRtt`] that opens them.
///
/// ```compile_fail,E0599
/// use wireseal_quic::{AuthenticationFailures, Now, OneRttSealer, Protected, ReceiveSpace};
///
/// fn open(early: &mut OneRttSealer, packet: Protected<'_>, now: Now) {
///     early.open(packet, now, &mut ReceiveSpace::new(), &mut AuthenticationFailures::new());
/// }
/// ```
pub struct OneRttSealer(OneRtt);

impl OneRttSealer {
    /// The packet protection from the two application traffic secrets of a cipher suite, `local` for what this end sends, for the
    /// active backend. Derives the keys of this phase and the next.
    ///
    /// `counter` is a new one, or that of 0-RTT, which shares the packet number space (RFC 9000 §12.3).
    #[must_use]
    pub fn new(
        version: Version,
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        Self::with_backend(Backend::active(), version, local, remote, counter)
    }

    /// [`new`](Self::new) for a given backend.
    #[must_use]
    pub fn with_backend(
        backend: Backend,
        version: Version,
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        Self(OneRtt::with_backend(backend, version, [local, remote], counter))
    }

    /// Seals a packet with a short header in place and returns its number, like [`OneRtt::seal`].
    ///
    /// # Errors
    ///
    /// [`SealError`], with nothing written and no number used.
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        self.0.seal(outgoing)
    }

    /// The number of the next packet, or `None` when all are used.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.0.next_number()
    }

    /// How many octets of its number to send in the next packet, like [`OneRtt::number_length`].
    #[must_use]
    pub fn number_length(&self) -> NumberLength {
        self.0.number_length()
    }

    /// Skips the next `count` numbers, like [`PacketNumberCounter::skip`].
    pub fn skip_numbers(&mut self, count: u64) {
        self.0.skip_numbers(count);
    }

    /// Call this when TLS reports that the handshake is complete: a Finished was sent, and the peer's was verified (RFC 9001
    /// §4.1.1). From then on packets are opened.
    #[must_use]
    pub fn complete_handshake(self) -> OneRtt {
        self.0
    }
}

impl fmt::Debug for OneRttSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OneRttSealer").field(&self.0).finish()
    }
}
