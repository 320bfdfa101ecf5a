//! A live 1-RTT connection as octets, to move it elsewhere.

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::backend::Backend;
use crate::one_rtt::receiving::Previous;
use crate::one_rtt::{Direction, OneRtt};
use crate::packet_key::{HEADER_KEY_LENGTH, PacketKey};
use crate::packet_number::{MAX_PACKET_NUMBER, PacketNumberCounter};
use crate::receive_space::{AuthenticationFailures, ReceiveSpace};
use crate::secret::{MAX_SECRET_LENGTH, TrafficSecret};
use crate::version::Version;
use crate::window::DuplicateWindow;

/// The first octet, which changes with the layout.
const FORMAT: u8 = 1;

const CONFIRMED: u8 = 0x01;
const ANSWERED: u8 = 0x02;
const ACKNOWLEDGED: u8 = 0x04;
const HAS_PREVIOUS: u8 = 0x08;
const HAS_WINDOW: u8 = 0x10;
const ALL_FLAGS: u8 = 0x1f;

/// The duplicate window with its largest number, the previous secret, and the time of the next update.
const SPACE_LENGTH: usize = 8 + 8 * DuplicateWindow::WORDS + MAX_SECRET_LENGTH + 8;

/// No number, or no time.
const NONE: u64 = u64::MAX;

/// A live 1-RTT connection as [`OneRtt::export`] writes and [`OneRtt::import`] reads it: secrets, key phase, packet numbers,
/// duplicate window, and what counts towards the limits (RFC 9001 §6.6).
///
/// It contains secrets: send its octets over an encrypted and authenticated channel only. It is wiped on drop and never printed.
/// Import each state once, and only the latest: two ends that seal with the same key and numbers break the AEAD.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct OneRttState([u8; Self::LENGTH]);

impl OneRttState {
    /// The octets of every state.
    pub const LENGTH: usize = 16 + 2 * (MAX_SECRET_LENGTH + HEADER_KEY_LENGTH + 4 * 8) + SPACE_LENGTH;

    /// A state from its octets, which [`OneRtt::import`] checks.
    ///
    /// # Errors
    ///
    /// [`StateError::WrongLength`].
    pub fn from_octets(octets: &[u8]) -> Result<Self, StateError> {
        let wrong_length = StateError::WrongLength { expected: Self::LENGTH, got: octets.len() };
        octets.try_into().map(Self).map_err(|_| wrong_length)
    }

    /// The octets, in a format that later releases read. They contain secrets; wipe every copy.
    #[must_use]
    pub const fn octets(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl fmt::Debug for OneRttState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRttState").finish_non_exhaustive()
    }
}

/// Why a connection could not be continued from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StateError {
    /// The octets are not a state, or truncated.
    #[error("the state of a connection has {expected} octets, not {got}")]
    WrongLength {
        /// [`OneRttState::LENGTH`].
        expected: usize,
        /// The octets given.
        got: usize,
    },
    /// A format, QUIC version or cipher suite that this build does not support.
    #[error("the state is of a format, QUIC version or cipher suite that is not supported")]
    Unsupported,
    /// Values that no connection has together: the octets are damaged.
    #[error("the state contradicts itself")]
    Inconsistent,
}

impl OneRtt {
    /// The state with which another place can continue this connection: in any key phase, also while a key update is unanswered or
    /// old keys are kept.
    ///
    /// `space` and `failures` are those that [`open`](Self::open) gets. The connection ends here, because another packet sealed
    /// here would have a number that the other place uses, too. Times are exported relative to `time`.
    // By value, so that nothing goes on here.
    #[allow(clippy::needless_pass_by_value)]
    #[must_use]
    pub fn export(
        mut self,
        time: Duration,
        space: ReceiveSpace,
        failures: AuthenticationFailures,
    ) -> OneRttState {
        self.expire(time);
        let Self { sending, receiving, .. } = &self;
        let flags = [
            (sending.confirmed, CONFIRMED),
            (sending.answered, ANSWERED),
            (sending.acknowledged, ACKNOWLEDGED),
            (receiving.previous.is_some(), HAS_PREVIOUS),
            (space.window.is_some(), HAS_WINDOW),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
        let remaining = |until: Duration| {
            let nanoseconds = until.saturating_sub(time).as_nanos();
            u64::try_from(nanoseconds).unwrap_or(NONE).min(NONE - 1)
        };
        let number = |number: Option<u64>| number.unwrap_or(NONE).to_be_bytes();
        let no_secret = [0; MAX_SECRET_LENGTH];
        let (previous, expires) = match &receiving.previous {
            Some(Previous { secret, expires, .. }) => (&secret.octets, expires.map(remaining)),
            None => (&no_secret, None),
        };

        let mut state = OneRttState([0; OneRttState::LENGTH]);
        let mut writer = Writer(&mut state.0);
        writer.put(&[FORMAT]);
        writer.put(&receiving.version.to_wire().to_be_bytes());
        writer.put(&self.algorithm().tls_cipher_suite().to_be_bytes());
        writer.put(&[flags]);
        writer.put(&self.generation().to_be_bytes());

        writer.put(&sending.next.present.octets);
        writer.put(&*sending.header_octets);
        writer.put(&number(self.next_number()));
        writer.put(&number(sending.first));
        writer.put(&number(sending.largest_acknowledged));
        writer.put(&sending.sealer.sealed.to_be_bytes());

        writer.put(&receiving.next.present.octets);
        writer.put(&*receiving.header_octets);
        writer.put(&number(receiving.opened.map(|(lowest, _)| lowest)));
        writer.put(&number(receiving.opened.map(|(_, highest)| highest)));
        writer.put(&number(expires));
        writer.put(&failures.count().to_be_bytes());

        writer.put(previous);
        writer.put(&number(space.largest));
        for word in space.window.as_ref().map_or([0; DuplicateWindow::WORDS], |window| window.bits) {
            writer.put(&word.to_be_bytes());
        }
        writer.put(&remaining(sending.update_from).to_be_bytes());
        debug_assert!(writer.0.is_empty());
        state
    }

    /// Continues a connection that was [exported](Self::export), at the present `time` of this place, for the active backend.
    /// Returns what [`open`](Self::open) needs, too. Derives the keys of this phase and the next.
    ///
    /// # Errors
    ///
    /// [`StateError::Unsupported`] and [`StateError::Inconsistent`].
    pub fn import(
        state: OneRttState,
        time: Duration,
    ) -> Result<(Self, ReceiveSpace, AuthenticationFailures), StateError> {
        Self::import_with_backend(Backend::active(), state, time)
    }

    /// [`import`](Self::import) for a given backend.
    ///
    /// # Errors
    ///
    /// Those of [`import`](Self::import).
    // By value, because a state is to be imported once.
    #[allow(clippy::needless_pass_by_value)]
    pub fn import_with_backend(
        backend: Backend,
        state: OneRttState,
        time: Duration,
    ) -> Result<(Self, ReceiveSpace, AuthenticationFailures), StateError> {
        let mut reader = Reader(&state.0);
        if reader.take() != [FORMAT] {
            return Err(StateError::Unsupported);
        }
        let version = u32::from_be_bytes(reader.take());
        let version = Version::ALL.iter().find(|known| known.to_wire() == version);
        let version = *version.ok_or(StateError::Unsupported)?;
        let algorithm = AeadAlgorithm::from_tls_cipher_suite(u16::from_be_bytes(reader.take()));
        let algorithm = algorithm.ok_or(StateError::Unsupported)?;
        let [flags] = reader.take();
        let generation = reader.u64();

        let local = reader.direction(algorithm)?;
        let [next_number, first, largest_acknowledged] = reader.numbers()?;
        let sealed = reader.u64();

        let remote = reader.direction(algorithm)?;
        let [lowest, highest] = reader.numbers()?;
        let expires = reader.time(time);
        let failures = AuthenticationFailures::from_count(reader.u64());

        let previous = reader.secret(algorithm)?;
        let [largest] = reader.numbers()?;
        let bits = core::array::from_fn(|_| reader.u64());
        let update_from = reader.time(time).unwrap_or(Duration::MAX);

        // Of an exhausted counter, nothing is left to compare with.
        let end = next_number.unwrap_or(MAX_PACKET_NUMBER + 1);
        let [confirmed, answered, acknowledged, has_previous, has_window] =
            [CONFIRMED, ANSWERED, ACKNOWLEDGED, HAS_PREVIOUS, HAS_WINDOW].map(|flag| flags & flag != 0);
        let is_consistent = flags & !ALL_FLAGS == 0
            && generation <= MAX_PACKET_NUMBER
            && sealed <= end
            && first.is_none_or(|first| first < end)
            && largest_acknowledged.is_none_or(|largest| largest < end)
            && (!acknowledged || first.is_some() && largest_acknowledged >= first)
            && lowest.is_some() == highest.is_some()
            && lowest <= highest
            && highest <= largest
            && (!answered || highest.is_some())
            && (!has_previous || generation > 0)
            && (expires.is_none() || has_previous);
        if !is_consistent {
            return Err(StateError::Inconsistent);
        }

        let counter = PacketNumberCounter::at(end);
        let directions = [local, remote];
        let one_rtt = Self::from_directions(backend, version, generation, directions, counter);
        let Self { mut sending, mut receiving, .. } = one_rtt;
        sending.confirmed = confirmed;
        sending.answered = answered;
        sending.update_from = update_from;
        sending.sealer.sealed = sealed;
        sending.first = first;
        sending.acknowledged = acknowledged;
        sending.largest_acknowledged = largest_acknowledged;
        receiving.opened = lowest.zip(highest);
        if has_previous {
            let key = PacketKey::derive(backend, version, &previous.expander());
            receiving.previous = Some(Previous { key, secret: previous, expires });
        }
        let window =
            has_window.then(|| DuplicateWindow { end: largest.map_or(0, |largest| largest + 1), bits });
        Ok((Self::of(sending, receiving), ReceiveSpace { largest, window }, failures))
    }
}

struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) {
        let (head, rest) = core::mem::take(&mut self.0).split_at_mut(octets.len());
        head.copy_from_slice(octets);
        self.0 = rest;
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("a state has all its fields");
        self.0 = rest;
        *head
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    /// Packet numbers, each of which may be missing.
    fn numbers<const N: usize>(&mut self) -> Result<[Option<u64>; N], StateError> {
        let numbers = core::array::from_fn(|_| Some(self.u64()).filter(|number| *number != NONE));
        let is_number = |number: &Option<u64>| number.is_none_or(|number| number <= MAX_PACKET_NUMBER);
        if numbers.iter().all(is_number) { Ok(numbers) } else { Err(StateError::Inconsistent) }
    }

    /// A time that may be missing, from what remains of it at `now`.
    fn time(&mut self, now: Duration) -> Option<Duration> {
        let remaining = Some(self.u64()).filter(|remaining| *remaining != NONE)?;
        Some(now.saturating_add(Duration::from_nanos(remaining)))
    }

    fn secret(&mut self, algorithm: AeadAlgorithm) -> Result<TrafficSecret, StateError> {
        let octets = Zeroizing::new(self.take::<MAX_SECRET_LENGTH>());
        TrafficSecret::new(algorithm, &octets[..algorithm.secret_length()])
            .map_err(|_| StateError::Inconsistent)
    }

    fn direction(&mut self, algorithm: AeadAlgorithm) -> Result<Direction, StateError> {
        Ok(Direction { secret: self.secret(algorithm)?, header_octets: Zeroizing::new(self.take()) })
    }
}
