//! Octets that are wiped on drop.

use zeroize::{ZeroizeOnDrop, optimization_barrier};

/// Compiles only if `T` wipes itself.
pub(crate) const fn wiped_on_drop<T: ZeroizeOnDrop>() {}

/// Octets that are overwritten with zeros on drop.
///
/// `Zeroizing` does so one octet at a time, which shows in the time of a short message's MAC. This writes as wide as the processor
/// can, behind the same barrier against optimisation.
pub(crate) struct Wiped<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Drop for Wiped<N> {
    #[inline]
    fn drop(&mut self) {
        self.0 = [0; N];
        optimization_barrier(&self.0);
    }
}

impl<const N: usize> ZeroizeOnDrop for Wiped<N> {}
