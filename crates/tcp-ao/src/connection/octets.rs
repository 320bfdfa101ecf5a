//! A connection's state as octets, to be kept or sent elsewhere.

use core::net::Ipv6Addr;

use crate::connection::{ConnectionState, HeardKeys, StateError};
use crate::counters::Counters;
use crate::ip::ipv6_octets;
use crate::types::{Endpoint, Isn, KeyId, SeqNum, Sne, SocketPair};

/// The first octet: which form the rest has.
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

/// The next octets, which the caller knows are there.
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (field, behind) = rest.split_first_chunk().expect("the length was checked");
    *rest = behind;
    *field
}
