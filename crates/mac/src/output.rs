//! A computed MAC, and what its comparison says.

use core::fmt;

use subtle::{Choice, ConstantTimeEq};
use zeroize::ZeroizeOnDrop;

use crate::wiped::Wiped;

/// The octets of the longest MAC.
const CAPACITY: usize = 32;

/// A computed MAC of at most 32 octets, held on the stack.
///
/// Until a segment carries it, a MAC is a secret: who learns the expected one can forge that message. So it is wiped on
/// drop, shows no octets in `Debug`, and compares only in constant time.
pub struct Mac {
    octets: Wiped<CAPACITY>,
    length: u8,
}

impl Mac {
    /// No octets, to fill an array with that [`mac_batch`](crate::mac_batch) writes to.
    pub const EMPTY: Self = Self { octets: Wiped([0; CAPACITY]), length: 0 };

    /// The MAC of `N` octets, at most 32, that `compute` writes.
    #[inline]
    pub(crate) fn compute<const N: usize>(compute: impl FnOnce(&mut [u8; N])) -> Self {
        const { assert!(N <= CAPACITY) };
        let mut mac = Self { octets: Wiped([0; CAPACITY]), length: N as u8 };
        if let Some(octets) = mac.octets.0.first_chunk_mut() {
            compute(octets);
        }
        mac
    }

    /// Becomes [`EMPTY`](Self::EMPTY) as far as anyone can tell; what it was before is still to be overwritten.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Becomes the MAC of `N` octets, at most 32. What it was before is overwritten, if only as far as this goes.
    #[inline]
    pub(crate) fn set<const N: usize>(&mut self, octets: &[u8; N]) {
        const { assert!(N <= CAPACITY) };
        // Nothing but stores: a whole that is put together in parts is slow to be read again.
        if let Some(place) = self.octets.0.first_chunk_mut() {
            *place = *octets;
        }
        self.length = N as u8;
    }

    /// All the octets of the MAC.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets.0[..usize::from(self.length)]
    }

    /// The leading `length` octets of the MAC, or all of them when it has no more.
    #[inline]
    #[must_use]
    pub fn truncated(&self, length: usize) -> &[u8] {
        &self.octets.0[..usize::from(self.length).min(length)]
    }

    /// Writes the leading octets of the MAC to `place`, as many as it has room for.
    ///
    /// # Panics
    ///
    /// If `place` is longer than the MAC.
    #[inline]
    pub fn write_truncated(&self, place: &mut [u8]) {
        // The lengths of RFC 5926 and of its relatives apart, since what is known to the compiler is an instruction or two.
        match place.len() {
            12 => place.copy_from_slice(&self.as_bytes()[..12]),
            16 => place.copy_from_slice(&self.as_bytes()[..16]),
            length => place.copy_from_slice(&self.as_bytes()[..length]),
        }
    }

    /// Verifies in constant time that a received MAC is this one, or its leading octets.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] when an octet differs, and when `received` is empty or longer than this.
    #[inline]
    pub fn verify(&self, received: &[u8]) -> Result<(), MacMismatch> {
        compare(self.as_bytes(), received)
    }
}

impl AsRef<[u8]> for Mac {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl ConstantTimeEq for Mac {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.as_bytes().ct_eq(other.as_bytes())
    }
}

impl PartialEq for Mac {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Mac {}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mac").field("length", &self.length).finish_non_exhaustive()
    }
}

impl ZeroizeOnDrop for Mac {}

/// The MAC is not that of the message under this key, or its length is not one that the algorithm gives.
///
/// It says no more than that, because where two MACs first differ tells a forger how far he got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMismatch;

impl fmt::Display for MacMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the MAC does not match the message")
    }
}

impl core::error::Error for MacMismatch {}

/// Compares `received` with the leading octets of `computed` in constant time; only the lengths may show.
#[inline]
pub(crate) fn compare(computed: &[u8], received: &[u8]) -> Result<(), MacMismatch> {
    let Some(computed) = computed.get(..received.len()).filter(|computed| !computed.is_empty()) else {
        return Err(MacMismatch);
    };
    // All differences are gathered before any is looked at, four octets at a time; the one look is `subtle`'s.
    let (computed, computed_rest) = computed.as_chunks::<4>();
    let (received, received_rest) = received.as_chunks::<4>();
    let words = computed.iter().zip(received);
    let rest = computed_rest.iter().zip(received_rest);
    let difference = words.fold(0, |all, (a, b)| all | (u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b)))
        | rest.fold(0, |all, (a, b)| all | u32::from(a ^ b));
    if difference.ct_eq(&0).into() { Ok(()) } else { Err(MacMismatch) }
}
