//! The 1-RTT keys of both directions, and key update (RFC 9001 §6).

mod now;
mod phases;
mod receiving;
mod sealer;
mod sending;
mod state;
#[cfg(test)]
mod threads;

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::backend::Backend;
use crate::codec::PacketType;
use crate::error::SealError;
use crate::keys::Keys;
use crate::next_phase::{NextPhase, UpdateError};
use crate::open::{OpenError, Opened};
use crate::packet_key::{HeaderKey, HeaderOctets, PacketKey};
use crate::packet_number::{NumberLength, PacketNumberCounter};
use crate::protected::Protected;
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::seal::{Outgoing, Sealer};
use crate::secret::TrafficSecret;
use crate::version::Version;

pub use now::Now;
pub use phases::KeyPhases;
pub use receiving::ReceivingHalf;
pub use sealer::OneRttSealer;
pub use sending::SendingHalf;
pub use state::{OneRttState, StateError};

/// The 1-RTT packet protection of a connection in both directions, with key update (RFC 9001 §6). Both directions are in one
/// value because an update by either end updates both.
///
/// [`OneRttSealer::complete_handshake`] makes it, because nothing may be opened earlier (RFC 9001 §5.7); for a connection that was
/// started elsewhere, [`import`](Self::import) does.
///
/// The keys of the next phase are derived before they are needed. A packet with either key phase bit is tried with exactly one
/// key, and opening never derives one, so a forged key phase bit costs no more than any other forgery. The packet number chooses
/// the key:
///
/// | key phase bit | packet number | key |
/// |---|---|---|
/// | as now | any | the present one |
/// | the other | up to the highest that the present key has opened | the previous one |
/// | the other | beyond that, but this end has sealed nothing in this phase, so the peer cannot have gone on | the previous one |
/// | the other | beyond that | the next one: the peer has updated its keys |
/// | the other | any, and the previous key is wiped | the next one |
///
/// So a late packet of the old phase is opened and does not turn the phase back. If it is more than three probe timeouts late, it
/// counts as a failed authentication, because it cannot be told from a forgery.
///
/// It takes at most 4,096 octets, with the feature `aws-lc-rs` 4,608, and no heap of its own. For two threads,
/// [`split`](Self::split) it. Not for multipath, where the packet numbers of different paths are not comparable.
pub struct OneRtt {
    sending: SendingHalf,
    receiving: ReceivingHalf,
    phases: KeyPhases,
}

// A server with thousands of connections has one for each. aws-lc-rs expands each header key for decryption, too.
const _: () = assert!(size_of::<OneRtt>() <= if cfg!(feature = "aws-lc-rs") { 4608 } else { 4096 });

/// What all keys of one direction are derived from. The header protection key is that of the first secret (RFC 9001 §6.1), which is
/// not kept.
struct Direction {
    secret: TrafficSecret,
    header_octets: HeaderOctets,
}

impl OneRtt {
    fn with_backend(
        backend: Backend,
        version: Version,
        local: TrafficSecret,
        remote: TrafficSecret,
        counter: PacketNumberCounter,
    ) -> Self {
        let directions = [local, remote].map(|secret| {
            let header_octets = HeaderKey::derive_octets(version, &secret.expander());
            Direction { secret, header_octets }
        });
        Self::from_directions(backend, version, 0, directions, counter)
    }

    /// With the secrets of generation `generation`: what is sent first, then what is received.
    fn from_directions(
        backend: Backend,
        version: Version,
        generation: u64,
        [local, remote]: [Direction; 2],
        counter: PacketNumberCounter,
    ) -> Self {
        let keys = |direction: &Direction| {
            let packet_key = PacketKey::derive(backend, version, &direction.secret.expander());
            let header_key =
                HeaderKey::from_octets(backend, packet_key.algorithm(), &direction.header_octets);
            Keys { packet_key, header_key, packet_type: PacketType::OneRtt, version }
        };
        let (send, receive) = (keys(&local), keys(&remote));
        let sending = SendingHalf {
            sealer: Sealer::new(send, counter),
            header_octets: local.header_octets,
            next: NextPhase::after(local.secret, generation, (backend, version)),
            generation,
            first: None,
            acknowledged: false,
            answered: false,
            largest_acknowledged: None,
            confirmed: false,
            update_from: Duration::ZERO,
        };
        let receiving = ReceivingHalf {
            version,
            header_key: receive.header_key,
            header_octets: remote.header_octets,
            previous: None,
            current: receive.packet_key,
            next: NextPhase::after(remote.secret, generation, (backend, version)),
            generation,
            opened: None,
        };
        let mut one_rtt = Self::of(sending, receiving);
        one_rtt.prepare();
        one_rtt
    }

    fn of(sending: SendingHalf, receiving: ReceivingHalf) -> Self {
        let phases = KeyPhases::new(sending.word(), receiving.word());
        Self { sending, receiving, phases }
    }

    /// A half for each of two threads, and what both borrow in their calls. Neither waits for the other.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::thread;
    /// use std::time::Duration;
    ///
    /// use wireseal_quic::{
    ///     AeadAlgorithm, AuthenticationFailures, ConnectionId, Now, NumberLength, OneRttSealer, Outgoing, PacketNumberCounter,
    ///     Protected, ReceiveSpace, ShortHeader, TrafficSecret, Version,
    /// };
    ///
    /// # let secret = |octet| TrafficSecret::new(AeadAlgorithm::Aes128Gcm, &[octet; 32]).unwrap();
    /// # let new = |local, remote| OneRttSealer::new(Version::V1, secret(local), secret(remote), PacketNumberCounter::new());
    /// # let [ours, theirs] = [new(1, 2), new(2, 1)].map(OneRttSealer::complete_handshake);
    /// let (mut sending, _, phases) = ours.split();
    /// let (_, mut receiving, their_phases) = theirs.split();
    /// let (phases, their_phases) = (Arc::new(phases), Arc::new(their_phases));
    ///
    /// let thread = thread::spawn(move || {
    ///     let header = ShortHeader { destination: ConnectionId::new(&[7; 8])?, spin: false };
    ///     let mut packet = [0; 1200];
    ///     let number_offset = header.encode(&mut packet)?;
    ///     sending.seal(&phases, Outgoing { packet: &mut packet, number_offset, number_length: NumberLength::One })?;
    ///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(packet)
    /// });
    /// let mut packet = thread.join().unwrap()?;
    /// let (packet, _) = Protected::split_first(&mut packet, 8)?;
    /// let now = Now { time: Duration::ZERO, probe_timeout: Duration::from_millis(100) };
    /// let (mut space, mut failures) = (ReceiveSpace::new(), AuthenticationFailures::new());
    /// let opened = receiving.open(&their_phases, packet, now, &mut space, &mut failures)?;
    /// assert_eq!(opened.payload.len(), 1200 - 1 - 8 - 1 - 16);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[must_use]
    pub fn split(self) -> (SendingHalf, ReceivingHalf, KeyPhases) {
        (self.sending, self.receiving, self.phases)
    }

    /// The connection from both its halves, for instance to [`export`](Self::export) it. They and `phases` must be of one connection.
    #[must_use]
    pub fn join(sending: SendingHalf, receiving: ReceivingHalf, phases: KeyPhases) -> Self {
        let mut one_rtt = Self { sending, receiving, phases };
        one_rtt.follow();
        one_rtt.prepare();
        one_rtt
    }

    /// Brings both halves to the same phase.
    #[inline]
    fn follow(&mut self) {
        self.sending.follow(&self.phases);
        self.receiving.follow(&self.phases);
    }

    /// Derives the keys of the next phase in both directions, unless they are there.
    ///
    /// An update leaves them to be derived, because deriving them while opening a packet would show in its timing (RFC 9001
    /// §9.5). Sealing the next packet derives them, which is early enough. Call this when idle to spare that packet the delay.
    pub fn prepare(&mut self) {
        self.sending.prepare();
        self.receiving.prepare();
    }

    /// Seals a packet with a short header in place, in the present key phase, and returns its number.
    ///
    /// # Errors
    ///
    /// Those of [`SendingHalf::seal`].
    #[inline]
    pub fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        let number = self.sending.seal(&self.phases, outgoing)?;
        self.receiving.prepare();
        Ok(number)
    }

    /// Opens a packet with a short header in place, like [`ReceivingHalf::open`]. The fixed bit is
    /// [yours to check](Protected::fixed_bit).
    ///
    /// # Errors
    ///
    /// Those of [`ReceivingHalf::open`].
    #[inline]
    pub fn open<'a>(
        &mut self,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        let opened = self.receiving.open(&self.phases, packet, now, space, failures)?;
        self.sending.follow(&self.phases);
        Ok(opened)
    }

    /// Call this when the handshake is confirmed (RFC 9001 §4.1.2). From then on keys may be updated.
    pub fn confirm_handshake(&mut self) {
        self.sending.confirm_handshake();
    }

    /// Updates the keys of both directions: the next packet is sealed in the new phase (RFC 9001 §6.1).
    ///
    /// # Errors
    ///
    /// [`UpdateError`], with nothing changed.
    pub fn initiate_update(&mut self, time: Duration) -> Result<(), UpdateError> {
        self.sending.initiate_update(&self.phases, time)?;
        self.receiving.follow(&self.phases);
        Ok(())
    }

    /// Call this when a packet opened with the keys of `generation` acknowledges packets up to `largest`, like
    /// [`SendingHalf::acknowledged`].
    ///
    /// # Errors
    ///
    /// Those of [`SendingHalf::acknowledged`].
    pub fn acknowledged(&mut self, largest: u64, generation: u64, now: Now) -> Result<(), OpenError> {
        self.sending.acknowledged(&self.phases, largest, generation, now)
    }

    /// Wipes the keys of the previous phase if their time is over (RFC 9001 §6.5). [`open`](Self::open) does this too.
    pub fn expire(&mut self, time: Duration) {
        self.receiving.expire(time);
    }

    /// When the keys of the previous phase are to be wiped, like [`ReceivingHalf::expires`].
    #[must_use]
    pub fn expires(&self) -> Option<Duration> {
        self.receiving.expires()
    }

    /// Whether it is time to [update](Self::initiate_update), like [`SendingHalf::update_due`].
    #[must_use]
    pub fn update_due(&self) -> bool {
        self.sending.update_due()
    }

    /// How many packets may still be sealed in this phase (RFC 9001 §6.6); `None` if there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.sending.remaining()
    }

    /// The number of the next packet, or `None` when all are used.
    #[must_use]
    pub const fn next_number(&self) -> Option<u64> {
        self.sending.next_number()
    }

    /// How many octets of its number to send in the next packet, like [`SendingHalf::number_length`].
    #[must_use]
    pub fn number_length(&self) -> NumberLength {
        self.sending.number_length()
    }

    /// Leaves out the next `count` numbers, like [`PacketNumberCounter::skip`].
    pub fn skip_numbers(&mut self, count: u64) {
        self.sending.skip_numbers(count);
    }

    /// How many key updates there were, by either end.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.sending.generation()
    }

    /// The key phase bit of packets sealed now.
    #[must_use]
    pub const fn key_phase(&self) -> bool {
        self.sending.key_phase()
    }

    /// For how many phases keys were derived, in the direction that is ahead: two at the start, the present one and the next. An
    /// update adds one when the next keys are [prepared](Self::prepare). Opening a packet never adds one.
    #[must_use]
    pub fn derivations(&self) -> u64 {
        self.sending.derivations().max(self.receiving.derivations())
    }

    /// The AEAD.
    #[must_use]
    pub const fn algorithm(&self) -> AeadAlgorithm {
        self.sending.algorithm()
    }
}

impl fmt::Debug for OneRtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRtt")
            .field("version", &self.receiving.version)
            .field("algorithm", &self.algorithm())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
