//! Where there is no path: keys that cannot be had.

use core::convert::Infallible;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A key, of which there is none for this processor.
pub struct Key(Infallible);

impl Key {
    /// `None`.
    #[must_use]
    pub fn new(_: &[u8; 16]) -> Option<Self> {
        None
    }

    /// Never called.
    #[must_use]
    pub fn mac(&self, _: &[&[u8]]) -> [u8; 16] {
        match self.0 {}
    }
}

impl Zeroize for Key {
    fn zeroize(&mut self) {
        match self.0 {}
    }
}

impl ZeroizeOnDrop for Key {}

impl core::fmt::Debug for Key {
    fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {}
    }
}

/// Does nothing, since there can be no jobs.
pub fn mac_many<'a>(
    _: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])> + Clone,
    _: impl FnMut(usize, &[u8; 16]),
) {
}
