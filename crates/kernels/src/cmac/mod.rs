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

/// The round keys of the all-zero key (FIPS 197 §5.2).
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
const ROUND_KEYS_OF_ZEROS: [u128; 11] = [
    0,
    0x62636363_62636363_62636363_62636363,
    0x9b9898c9_f9fbfbaa_9b9898c9_f9fbfbaa,
    0x90973450_696ccffa_f2f45733_0b0fac99,
    0xee06da7b_876a1581_759e42b2_7e91ee2b,
    0x7f2e2b88_f8443e09_8dda7cbb_f34b9290,
    0xec614b85_1425758c_99ff0937_6ab49ba7,
    0x21751787_3550620b_acaf6b3c_c61bf09b,
    0x0ef90333_3ba96138_97060a04_511dfa9f,
    0xb1d4d8e2_8a7db9da_1d7bb3de_4c664941,
    0xb4ef5bcb_3e92e211_23e951cf_6f8f188e,
];
/// The subkey K1 of the all-zero key (RFC 4493 §2.3).
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
const K1_OF_ZEROS: u128 = 0xcdd297a9_df145877_1099f4b3_9468565c;

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn the_all_zero_key_matches_an_expanded_one() {
        let keys = [Key::of_zeros().cloned(), Key::new(&[0; 16])]
            .map(|key| key.map(|key| (key.mac(&[b"abc"]), key.mac(&[&[7; 32]]))));
        assert_eq!(keys[0], keys[1]);
    }
}

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

        /// Always `None`.
        #[must_use]
        pub fn of_zeros() -> Option<&'static Self> {
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
