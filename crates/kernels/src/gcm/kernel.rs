//! GCM compiled for each path and each number of rounds.

use super::crypt::crypt;
use super::hash::{divided_by_x, multiply};
use super::packet::{Direction, Mask, POWERS, Packet};
use crate::aes::vector::{Vector, encrypt_rounds};
#[cfg(target_arch = "x86_64")]
use crate::aes::x86::{V128, V256, V512};
use crate::aes::{Block, Engine, Rounds};

/// Seals and opens with keys of one length, on one path.
///
/// Both functions are unsafe to call on processors without the path's instructions, or with invalid pointers to a key or packet.
pub(super) struct Kernel {
    /// Encrypts, writes the tag, and makes the header mask.
    pub(super) seal: unsafe fn(*const u8, Packet<'_>, Option<Mask<'_>>) -> [u8; 16],
    /// Decrypts, and compares the tag.
    pub(super) open: unsafe fn(*const u8, Packet<'_>) -> bool,
    /// Whether its keys have powers of H for Karatsuba's method.
    pub(super) karatsuba: bool,
}

#[inline(always)]
unsafe fn seal<V: Vector, const ROUNDS: usize>(
    key: *const u8,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> [u8; 16] {
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        let (tag, masked) = crypt::<V, ROUNDS>(Direction::Seal, key, packet, mask);
        leak!("GCM: tag to send", tag);
        Block::store(packet.tag, tag);
        let mut result = [0; 16];
        if let Some(mask) = mask {
            let masked = masked.unwrap_or_else(|| {
                let sample = Block::load(packet.text.add(mask.sample));
                leak!("GCM: header mask from memory", mask.key.keys);
                let [masked] = encrypt_rounds(mask.key.keys.as_ptr().cast(), mask.key.rounds, [sample]);
                masked
            });
            Block::store(result.as_mut_ptr(), masked);
        }
        result
    }
}

#[inline(always)]
unsafe fn open<V: Vector, const ROUNDS: usize>(key: *const u8, packet: Packet<'_>) -> bool {
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        let (tag, _) = crypt::<V, ROUNDS>(Direction::Open, key, packet, None);
        leak!("GCM: tag to compare", tag);
        Block::is_zero(Block::xor(tag, Block::load(packet.tag)))
    }
}

/// A module for a path, with its kernels for 10 and for 14 rounds.
macro_rules! path {
    ($path:ident: $vector:ident with $features:literal) => {
        mod $path {
            use super::{Kernel, Mask, Packet, Vector, $vector};

            path!($vector, $features, TEN: 10, seal_10, open_10);
            path!($vector, $features, FOURTEEN: 14, seal_14, open_14);
        }
    };
    ($vector:ident, $features:literal, $kernel:ident: $rounds:literal, $seal:ident, $open:ident) => {
        pub(super) static $kernel: Kernel =
            Kernel { seal: $seal, open: $open, karatsuba: $vector::KARATSUBA };

        #[target_feature(enable = $features)]
        unsafe fn $seal(key: *const u8, packet: Packet<'_>, mask: Option<Mask<'_>>) -> [u8; 16] {
            // SAFETY: the caller's key and packet, and the function's features.
            unsafe { super::seal::<$vector, $rounds>(key, packet, mask) }
        }

        #[target_feature(enable = $features)]
        unsafe fn $open(key: *const u8, packet: Packet<'_>) -> bool {
            // SAFETY: the caller's key and packet, and the function's features.
            unsafe { super::open::<$vector, $rounds>(key, packet) }
        }
    };
}

#[cfg(target_arch = "aarch64")]
path!(aarch64: Block with "neon,aes");
#[cfg(target_arch = "x86_64")]
path!(aes_ni: V128 with "aes,pclmulqdq,ssse3,sse4.1");
#[cfg(target_arch = "x86_64")]
path!(aes_ni_avx: V128 with "aes,pclmulqdq,avx");
#[cfg(target_arch = "x86_64")]
path!(vaes256: V256 with "aes,pclmulqdq,avx2,vaes,vpclmulqdq");
#[cfg(target_arch = "x86_64")]
path!(vaes512: V512 with "aes,pclmulqdq,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl");

impl Engine {
    /// The kernel for keys of this many rounds. An engine proves that its path is there.
    pub(super) fn gcm(self, rounds: Rounds) -> &'static Kernel {
        match (self, rounds) {
            #[cfg(target_arch = "aarch64")]
            (Self::Aarch64Aes(_), Rounds::Ten) => &aarch64::TEN,
            #[cfg(target_arch = "aarch64")]
            (Self::Aarch64Aes(_), Rounds::Fourteen) => &aarch64::FOURTEEN,
            #[cfg(target_arch = "x86_64")]
            (Self::AesNi(_), Rounds::Ten) => &aes_ni::TEN,
            #[cfg(target_arch = "x86_64")]
            (Self::AesNi(_), Rounds::Fourteen) => &aes_ni::FOURTEEN,
            #[cfg(target_arch = "x86_64")]
            (Self::AesNiAvx(_), Rounds::Ten) => &aes_ni_avx::TEN,
            #[cfg(target_arch = "x86_64")]
            (Self::AesNiAvx(_), Rounds::Fourteen) => &aes_ni_avx::FOURTEEN,
            #[cfg(target_arch = "x86_64")]
            (Self::Vaes256(_), Rounds::Ten) => &vaes256::TEN,
            #[cfg(target_arch = "x86_64")]
            (Self::Vaes256(_), Rounds::Fourteen) => &vaes256::FOURTEEN,
            #[cfg(target_arch = "x86_64")]
            (Self::Vaes512(_), Rounds::Ten) => &vaes512::TEN,
            #[cfg(target_arch = "x86_64")]
            (Self::Vaes512(_), Rounds::Fourteen) => &vaes512::FOURTEEN,
        }
    }

    /// Fills in the powers of H, from the highest down, as [`POWERS`] says.
    pub(super) fn powers(self, h: u128, all: &mut [u128]) {
        // SAFETY: every path has these features, and an engine proves a path.
        unsafe { powers(h, all, self.gcm(Rounds::Ten).karatsuba) }
    }
}

#[cfg_attr(target_arch = "x86_64", target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1"))]
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon,aes"))]
fn powers(h: u128, powers: &mut [u128], karatsuba: bool) {
    leak!("GCM: powers of H", h);
    let at = |power: usize| POWERS - power;
    powers[at(1)] = divided_by_x(h);
    let count = if karatsuba { POWERS / 2 } else { POWERS };
    for power in 2..=count {
        let (a, b) = (power / 2, power - power / 2);
        // SAFETY: these are blocks, and the function has the features that multiplication needs.
        unsafe {
            let [a, b] = [a, b].map(|power| Block::load((&raw const powers[at(power)]).cast()));
            Block::store((&raw mut powers[at(power)]).cast(), multiply(a, b));
        }
    }
    if karatsuba {
        let (folded, powers) = powers.split_at_mut(POWERS / 2);
        for (folded, power) in folded.iter_mut().zip(powers) {
            *folded = *power ^ power.rotate_left(64);
        }
    }
}
