//! Computed MACs, their comparison, and octets that are wiped on drop.

use core::fmt;

use subtle::{Choice, ConstantTimeEq};
use zeroize::{ZeroizeOnDrop, optimization_barrier};

/// The length of the longest MAC in octets.
const CAPACITY: usize = 32;

/// A computed MAC of at most 32 octets, on the stack.
///
/// Until it is sent, a MAC is a secret: anyone who learns the expected MAC can forge that message. It is wiped on drop, shows no
/// octets in `Debug`, and compares in constant time.
pub struct Mac {
    octets: Wiped<CAPACITY>,
    length: u8,
}

impl Mac {
    /// An empty MAC, to fill the array that [`mac_batch`](crate::mac_batch) writes to.
    pub const EMPTY: Self = Self { octets: Wiped([0; CAPACITY]), length: 0 };

    /// The MAC of `N` octets that `compute` writes.
    #[inline]
    pub(crate) fn compute<const N: usize>(compute: impl FnOnce(&mut [u8; N])) -> Self {
        const { assert!(N <= CAPACITY) };
        let mut octets = [0; CAPACITY];
        if let Some(octets) = octets.first_chunk_mut() {
            compute(octets);
        }
        Self { octets: Wiped(octets), length: N as u8 }
    }

    /// Marks the MAC empty; its octets are overwritten later.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Overwrites the first `N` octets and makes them the MAC.
    #[inline]
    pub(crate) fn set<const N: usize>(&mut self, octets: &[u8; N]) {
        const { assert!(N <= CAPACITY) };
        if let Some(place) = self.octets.0.first_chunk_mut() {
            *place = *octets;
        }
        self.length = N as u8;
    }

    /// All the octets of the MAC.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.octets.0.get(..usize::from(self.length)).unwrap_or_else(|| none())
    }

    /// The leading `length` octets of the MAC, or all of them if there are fewer.
    #[inline]
    #[must_use]
    pub fn truncated(&self, length: usize) -> &[u8] {
        &self.octets.0[..usize::from(self.length).min(CAPACITY).min(length)]
    }

    /// Verifies in constant time that `received` is this MAC, or its leading octets.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] if an octet differs, or `received` is empty or longer than this.
    #[inline]
    pub fn verify(&self, received: &[u8]) -> Result<(), MacMismatch> {
        compare(self.as_bytes(), received)
    }
}

/// For a length above the capacity. It never occurs, but the compiler cannot know that. Cold, so that the check is a branch that nothing
/// waits for.
#[cold]
const fn none() -> &'static [u8] {
    &[]
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

/// The MAC does not match the message under this key, or has an impossible length.
///
/// It has no details: the position of the first difference would tell a forger how far they got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacMismatch;

impl fmt::Display for MacMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the MAC does not match the message")
    }
}

impl core::error::Error for MacMismatch {}

/// Compares `received` with the leading octets of `computed`, in time that depends on the lengths only.
#[inline]
pub(crate) fn compare(computed: &[u8], received: &[u8]) -> Result<(), MacMismatch> {
    let Some(computed) = computed.get(..received.len()).filter(|computed| !computed.is_empty()) else {
        return Err(MacMismatch);
    };
    // Collects all differences, and then calls `subtle` once.
    let xor = |a: &[u8; 8], b: &[u8; 8]| u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b);
    let difference = match (computed.first_chunk(), received.first_chunk()) {
        // Of 8 to 16 octets, the first and the last 8 are all.
        (Some(computed_start), Some(received_start)) if received.len() <= 16 => {
            let ends = computed.last_chunk().zip(received.last_chunk());
            xor(computed_start, received_start) | ends.map_or(u64::MAX, |(a, b)| xor(a, b))
        }
        _ => computed.iter().zip(received).fold(0, |all, (a, b)| all | u64::from(a ^ b)),
    };
    if difference.ct_eq(&0).into() { Ok(()) } else { Err(MacMismatch) }
}

/// Compiles only if `T` wipes itself.
pub(crate) const fn wiped_on_drop<T: ZeroizeOnDrop>() {}

/// Octets that are overwritten with zeros on drop.
///
/// `Zeroizing` writes one octet at a time, which measurably slows the MAC of a short message. This writes as wide as the processor can,
/// with the same barrier against optimisation.
#[derive(Clone)]
pub(crate) struct Wiped<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Drop for Wiped<N> {
    #[inline]
    fn drop(&mut self) {
        self.0 = [0; N];
        optimization_barrier(&self.0);
    }
}

impl<const N: usize> ZeroizeOnDrop for Wiped<N> {}
