//! Packet numbers: which is next, how many octets of it travel, and which one those octets mean.

use core::fmt;

use crate::varint::MAX_VARINT;

/// The largest packet number: 2^62-1 (RFC 9000, section 12.3).
pub const MAX_PACKET_NUMBER: u64 = MAX_VARINT;

/// How many octets of a packet number travel in a packet (RFC 9000, section 17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberLength {
    /// One octet.
    One,
    /// Two octets.
    Two,
    /// Three octets.
    Three,
    /// Four octets.
    Four,
}

impl NumberLength {
    /// The fewest octets by which the peer will recognise `number`, when `largest_acknowledged` is the largest number
    /// it has acknowledged in this packet number space (RFC 9000, section 17.1 and A.2).
    ///
    /// More than 2^31 numbers in flight cannot be told apart; the longest is then returned.
    #[must_use]
    pub const fn needed(number: u64, largest_acknowledged: Option<u64>) -> Self {
        let unacknowledged = match largest_acknowledged {
            Some(largest) => number.saturating_sub(largest),
            None => number.saturating_add(1),
        };
        // Twice as many numbers as are in flight must be told apart.
        match unacknowledged {
            0..=0x80 => Self::One,
            0x81..=0x8000 => Self::Two,
            0x8001..=0x80_0000 => Self::Three,
            _ => Self::Four,
        }
    }

    /// The number of octets, 1 to 4.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Three => 3,
            Self::Four => 4,
        }
    }

    /// The length that the two low bits of a first octet say (RFC 9000, section 17.2 and 17.3.1).
    pub(crate) const fn from_bits(first: u8) -> Self {
        match first & 0x03 {
            0 => Self::One,
            1 => Self::Two,
            2 => Self::Three,
            _ => Self::Four,
        }
    }

    /// The two low bits of the first octet.
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Self::One => 0,
            Self::Two => 1,
            Self::Three => 2,
            Self::Four => 3,
        }
    }
}

/// The packet number that `truncated`, the last `length` octets of one, stands for, when `largest` is the largest that
/// has been authenticated in this packet number space (RFC 9000, section 17.1 and A.3).
#[must_use]
pub const fn decode_packet_number(largest: Option<u64>, truncated: u32, length: NumberLength) -> u64 {
    let expected = match largest {
        Some(largest) => largest.saturating_add(1),
        None => 0,
    };
    let window = 1_u64 << (8 * length.octets());
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | (truncated as u64 & (window - 1));
    if candidate.saturating_add(half) <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected.saturating_add(half) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Hands out the packet numbers of one packet number space, each of them once.
///
/// It is no copy and has no way back, and a [`Sealer`](crate::Sealer) takes the number it seals with from the counter it
/// owns: two packets under one key cannot have one number, so that no nonce is used twice (RFC 9001, section 5.3).
/// When the keys of a packet number space change, as from 0-RTT to 1-RTT or after a Retry, the counter moves on to the new
/// ones by [`Sealer::into_counter`](crate::Sealer::into_counter).
#[derive(Debug, PartialEq, Eq)]
pub struct PacketNumberCounter {
    next: u64,
}

impl PacketNumberCounter {
    /// A counter that begins with 0, as every packet number space does (RFC 9000, section 12.3).
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// A counter that begins with `first`: for a connection that was begun elsewhere, or for a first number that says nothing of
    /// how many packets there were, which must then be under 2^31, since the peer knows of none before it (RFC 9000, section
    /// 17.1).
    ///
    /// # Errors
    ///
    /// [`PacketNumbersExhausted`] if `first` is above 2^62-1.
    pub const fn starting_at(first: u64) -> Result<Self, PacketNumbersExhausted> {
        if first <= MAX_PACKET_NUMBER { Ok(Self { next: first }) } else { Err(PacketNumbersExhausted) }
    }

    /// The number that will be handed out next, or `None` when all are used.
    #[must_use]
    pub const fn peek(&self) -> Option<u64> {
        if self.next <= MAX_PACKET_NUMBER { Some(self.next) } else { None }
    }

    /// Leaves out the next `count` numbers, by which acknowledgments of packets that were never sent give themselves away
    /// (RFC 9000, section 21.4).
    pub fn skip(&mut self, count: u64) {
        self.next = self.next.saturating_add(count).min(MAX_PACKET_NUMBER + 1);
    }

    /// Hands out the next number.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.peek()?;
        self.next += 1;
        Some(number)
    }
}

impl Default for PacketNumberCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// All packet numbers up to 2^62-1 are used: the connection has to be closed without another packet (RFC 9000, section
/// 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketNumbersExhausted;

impl fmt::Display for PacketNumbersExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no packet number is left: they end with 2^62-1")
    }
}

impl core::error::Error for PacketNumbersExhausted {}
