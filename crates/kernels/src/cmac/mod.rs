//! AES-128-CMAC (RFC 4493), of one message or of many side by side.
//!
//! A CMAC is a chain: a block must wait until AES has finished the block before. The processor can work on several blocks at once only if
//! they belong to different messages.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
pub use aarch64::{Key, mac_many};
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
pub use unsupported::{Key, mac_many};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{Key, mac_many};

/// Processors without instructions for AES: a key that cannot exist.
#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
mod unsupported {
    use zeroize::ZeroizeOnDrop;

    use crate::cpu::InstructionSet;

    /// A key for AES-128-CMAC. None can be created on this architecture.
    #[derive(Clone, Debug)]
    pub enum Key {}

    impl Key {
        /// Always `None`.
        #[must_use]
        pub fn new(_: &[u8; 16]) -> Option<Self> {
            None
        }

        /// Cannot be called, because there is no key.
        #[must_use]
        pub fn path(&self) -> InstructionSet {
            match *self {}
        }

        /// Cannot be called, because there is no key.
        #[must_use]
        pub fn mac(&self, _: &[&[u8]]) -> [u8; 16] {
            match *self {}
        }

        /// Cannot be called, because there is no key.
        pub fn absorb(&self, _: &mut [u8; 16], _: &[[u8; 16]]) {
            match *self {}
        }

        /// Cannot be called, because there is no key.
        #[must_use]
        pub fn finish(&self, _: &[u8; 16], _: &[u8]) -> [u8; 16] {
            match *self {}
        }
    }

    impl ZeroizeOnDrop for Key {}

    /// Computes nothing: without a key there are no jobs.
    pub fn mac_many<'a>(
        _: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
        _: impl FnMut(usize, &[u8; 16]),
    ) -> usize {
        0
    }
}
