//! The state of a live connection, to move it elsewhere: as plain values, and as octets.

use core::net::Ipv6Addr;

use crate::connection::slots::{Heard, Shown};
use crate::connection::{Connection, HeardKeys, Phase};
use crate::counters::Counters;
use crate::error::StateError;
use crate::ip::ipv6_octets;
use crate::mkt::MktSet;
use crate::types::{Endpoint, Isn, KeyId, SeqNum, Sne, SneTracker, SocketPair};

/// The state of a connection without its MKTs. It contains no secret; move the MKTs separately.
///
/// Not `Copy`, because only one connection may continue from it: the SNEs of two would soon differ.
///
/// On Linux, `TCP_AO_REPAIR` has the ISNs and SNEs, `TCP_AO_INFO` the key ids and counters, and `TCP_REPAIR` the sequence numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionState {
    /// The two ends.
    pub pair: SocketPair,
    /// This end's ISN.
    pub local_isn: Isn,
    /// The peer's ISN.
    pub remote_isn: Isn,
    /// The SNE of `send_sequence`.
    pub send_sne: Sne,
    /// Any sequence number within 2^31 octets of `sent_end`, such as the first octet that is not acknowledged.
    pub send_sequence: SeqNum,
    /// The sequence number after the last octet sent. A higher acknowledgment number is taken for a replay.
    pub sent_end: SeqNum,
    /// The SNE of `receive_sequence`.
    pub receive_sne: Sne,
    /// The highest sequence number received, or a lower one. What arrives next must be less than 2^31 octets from it.
    pub receive_sequence: SeqNum,
    /// The newest acknowledgment number received. If it is not known, the first octet that was not acknowledged.
    pub acknowledged: SeqNum,
    /// The SendID of the current key.
    pub current_key: KeyId,
    /// The RecvID of the rnext key.
    pub rnext_key: KeyId,
    /// The keys that the peer has asked for.
    pub heard: HeardKeys,
    /// The counters.
    pub counters: Counters,
}

impl<const N: usize> Connection<N> {
    /// Ends this connection, wipes its keys, and returns the state to continue it in another place that holds the same MKTs. Only one of
    /// the two may go on: their SNEs would soon differ.
    ///
    /// # Errors
    /// [`StateError::NotEstablished`]; the connection is gone then, too. [`Self::is_established`] tells beforehand.
    pub fn export(self) -> Result<ConnectionState, StateError> {
        self.state()
    }

    pub(crate) fn state(&self) -> Result<ConnectionState, StateError> {
        let (Phase::Established, Some(local_isn)) = (self.phase, self.local_isn) else {
            return Err(StateError::NotEstablished);
        };
        let (send_sne, send_sequence) = self.send.highest();
        let (receive_sne, receive_sequence) = self.receive.highest();
        Ok(ConnectionState {
            pair: self.pair,
            local_isn,
            remote_isn: self.remote_isn,
            send_sne,
            send_sequence,
            sent_end: send_sequence,
            receive_sne,
            receive_sequence,
            acknowledged: self.newest_acknowledgment.unwrap_or(SeqNum(local_isn.0.wrapping_add(1))),
            current_key: self.current_key().send_id,
            rnext_key: self.rnext_key().recv_id,
            heard: self.heard.export(self.check_values()),
            counters: self.counters(),
        })
    }

    /// Continues a connection that was established elsewhere. Import each state only once.
    ///
    /// # Errors
    /// [`StateError::CurrentKeyMissing`] and [`StateError::RnextKeyMissing`] if `mkts` lacks a key in use.
    pub fn import(state: &ConnectionState, mkts: &MktSet<N>) -> Result<Self, StateError> {
        let current = mkts.by_send_id(state.current_key);
        let current = current.ok_or(StateError::CurrentKeyMissing(state.current_key))?.send_id();
        let rnext = mkts.by_recv_id(state.rnext_key);
        let rnext = rnext.ok_or(StateError::RnextKeyMissing(state.rnext_key))?.send_id();
        let mut connection = Self::new(
            state.pair,
            Phase::SynReceived,
            Some(state.local_isn),
            state.remote_isn,
            mkts,
            current,
            rnext,
        );
        connection.send = SneTracker::resume(state.send_sne, state.send_sequence);
        connection.send.advance(state.sent_end);
        connection.receive = SneTracker::resume(state.receive_sne, state.receive_sequence);
        connection.newest_acknowledgment = Some(state.acknowledged);
        connection.good = state.counters.good;
        connection.refused = state.counters;
        connection.establish(state.local_isn);
        connection.heard = Heard::import(&state.heard, connection.check_values());
        connection.heard.signs_with(connection.current);
        // The state does not say; the peer may hold no other key.
        connection.heard.shown.set(Shown::USES_CURRENT, true);
        connection.heard.shown.set(Shown::USES_RNEXT, connection.current == connection.rnext);
        Ok(connection)
    }
}

/// The first octet: the version of the encoding.
const VERSION: u8 = 2;

impl ConnectionState {
    /// How many octets [`Self::to_octets`] gives.
    pub const OCTETS: usize = 165;

    /// The state as octets: a version, then the fields in their order, numbers with the highest octet first, IPv4 addresses
    /// mapped to IPv6. Later releases of this crate read it.
    ///
    /// **It contains no secret, but it says where sequence numbers continue.** Protect the octets from changes, and import them once. Move
    /// the MKTs separately.
    #[must_use]
    pub fn to_octets(&self) -> [u8; Self::OCTETS] {
        let mut octets = [0; Self::OCTETS];
        let mut rest = &mut octets[..];
        let mut put = |field: &[u8]| {
            let (place, behind) = core::mem::take(&mut rest).split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        };
        put(&[VERSION]);
        for end in [self.pair.local, self.pair.remote] {
            put(&ipv6_octets(end.address()));
            put(&end.port().to_be_bytes());
        }
        let numbers = [
            self.local_isn.0,
            self.remote_isn.0,
            self.send_sne.0,
            self.send_sequence.0,
            self.sent_end.0,
            self.receive_sne.0,
            self.receive_sequence.0,
            self.acknowledged.0,
        ];
        numbers.iter().for_each(|number| put(&number.to_be_bytes()));
        put(&[self.current_key.0, self.rnext_key.0]);
        let HeardKeys { held, others_unknown, is_doubtful, removed } = &self.heard;
        for (value, is_unknown) in held {
            put(&value.to_be_bytes());
            put(&[*is_unknown]);
        }
        put(&[*others_unknown, *is_doubtful]);
        removed.iter().for_each(|value| put(&value.to_be_bytes()));
        let Counters { good, bad, key_not_found, required, dropped_icmp } = self.counters;
        [good, bad, key_not_found, required, dropped_icmp].iter().for_each(|count| put(&count.to_be_bytes()));
        octets
    }

    /// Reads what [`Self::to_octets`] has written.
    ///
    /// # Errors
    /// [`StateError::Version`] and [`StateError::Length`].
    pub fn from_octets(octets: &[u8]) -> Result<Self, StateError> {
        let version = octets.first().copied().unwrap_or_default();
        if version != VERSION {
            return Err(StateError::Version(version));
        }
        let length = StateError::Length { expected: Self::OCTETS, got: octets.len() };
        let octets: &[u8; Self::OCTETS] = octets.try_into().map_err(|_| length)?;
        let mut rest = &octets[1..];
        let end =
            |rest: &mut &[u8]| Endpoint::new(Ipv6Addr::from(take(rest)), u16::from_be_bytes(take(rest)));
        let pair = SocketPair { local: end(&mut rest), remote: end(&mut rest) };
        let number = |rest: &mut &[u8]| u32::from_be_bytes(take(rest));
        let count = |rest: &mut &[u8]| u64::from_be_bytes(take(rest));
        Ok(Self {
            pair,
            local_isn: Isn(number(&mut rest)),
            remote_isn: Isn(number(&mut rest)),
            send_sne: Sne(number(&mut rest)),
            send_sequence: SeqNum(number(&mut rest)),
            sent_end: SeqNum(number(&mut rest)),
            receive_sne: Sne(number(&mut rest)),
            receive_sequence: SeqNum(number(&mut rest)),
            acknowledged: SeqNum(number(&mut rest)),
            current_key: KeyId(u8::from_be_bytes(take(&mut rest))),
            rnext_key: KeyId(u8::from_be_bytes(take(&mut rest))),
            heard: HeardKeys {
                held: [(); 8].map(|()| (number(&mut rest), u8::from_be_bytes(take(&mut rest)))),
                others_unknown: u8::from_be_bytes(take(&mut rest)),
                is_doubtful: u8::from_be_bytes(take(&mut rest)),
                removed: [(); 3].map(|()| number(&mut rest)),
            },
            counters: Counters {
                good: count(&mut rest),
                bad: count(&mut rest),
                key_not_found: count(&mut rest),
                required: count(&mut rest),
                dropped_icmp: count(&mut rest),
            },
        })
    }
}

/// The next octets; the length has been checked.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (field, behind) = rest.split_first_chunk().expect("the length was checked");
    *rest = behind;
    *field
}
