//! Processors without a path for CMAC: a key that cannot exist.

use core::convert::Infallible;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cpu::InstructionSet;

/// A key for AES-128-CMAC. None can be made on this architecture.
pub struct Key(Infallible);

impl Key {
    /// Always `None`.
    #[must_use]
    pub fn new(_: &[u8; 16]) -> Option<Self> {
        None
    }

    /// Cannot be called, because there is no key.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        match self.0 {}
    }

    /// Cannot be called, because there is no key.
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

/// Computes nothing: without a key there are no jobs.
pub fn mac_many<'a>(
    _: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
    _: impl FnMut(usize, &[u8; 16]),
) -> usize {
    0
}
