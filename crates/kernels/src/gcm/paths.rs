//! GCM by each path.

use super::crypt::crypt;
use super::hash::{divided_by_x, multiply};
use super::{Blocks, Mask, POWERS, Packet};
use crate::aes::vector::{Vector, encrypt_rounds};
#[cfg(target_arch = "x86_64")]
use crate::aes::x86::{V128, V256, V512};
use crate::aes::{Block, Engine, Rounds};

/// Fills in the powers of H, from the highest down.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1"))]
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon,aes"))]
fn powers(h: u128, powers: &mut [u128]) {
    let at = |power: usize| POWERS - power;
    powers[at(1)] = divided_by_x(h);
    for power in 2..=POWERS {
        let (a, b) = (power / 2, power - power / 2);
        // SAFETY: these are blocks, and the function's features are those that multiplication needs.
        unsafe {
            let [a, b] = [a, b].map(|power| Block::load((&raw const powers[at(power)]).cast()));
            Block::store((&raw mut powers[at(power)]).cast(), multiply(a, b));
        }
    }
}

/// Encrypts, puts the tag behind the text, and makes the mask.
#[inline(always)]
unsafe fn seal<V: Vector, const ROUNDS: usize, const GROUP: usize>(
    key: *const u8,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> [u8; 16] {
    // SAFETY: the caller's word.
    unsafe {
        let (tag, masked) = crypt::<V, ROUNDS, false, GROUP>(key, packet, mask);
        Block::store(packet.tag, tag);
        let mut result = [0; 16];
        if let Some(mask) = mask {
            let masked = masked.unwrap_or_else(|| {
                let sample = Block::load(packet.text.add(mask.sample));
                let [masked] = encrypt_rounds(mask.key.keys.as_ptr().cast(), mask.key.rounds, [sample]);
                masked
            });
            Block::store(result.as_mut_ptr(), masked);
        }
        result
    }
}

/// Decrypts, and says whether the tag behind the text is its own.
#[inline(always)]
unsafe fn open<V: Vector, const ROUNDS: usize, const GROUP: usize>(
    key: *const u8,
    packet: Packet<'_>,
) -> bool {
    // SAFETY: the caller's word.
    unsafe {
        let (tag, _) = crypt::<V, ROUNDS, true, GROUP>(key, packet, None);
        Block::is_zero(Block::xor(tag, Block::load(packet.tag)))
    }
}

/// Everything by one path and for one number of rounds. Functions without parameters of type are compiled here, once, and not by
/// everybody who calls them.
macro_rules! functions {
    ($vector:ident, $rounds:literal, $group:literal, $features:literal) => {
        use crate::gcm::paths::{self, $vector};
        use crate::gcm::{Mask, Packet};

        #[target_feature(enable = $features)]
        pub(in crate::gcm) unsafe fn seal(
            key: *const u8,
            packet: Packet<'_>,
            mask: Option<Mask<'_>>,
        ) -> [u8; 16] {
            // SAFETY: the caller's key and packet, and the function's features.
            unsafe { paths::seal::<$vector, $rounds, $group>(key, packet, mask) }
        }

        #[target_feature(enable = $features)]
        pub(in crate::gcm) unsafe fn open(key: *const u8, packet: Packet<'_>) -> bool {
            // SAFETY: the caller's key and packet, and the function's features.
            unsafe { paths::open::<$vector, $rounds, $group>(key, packet) }
        }
    };
}

macro_rules! paths {
    ($($path:ident: $vector:ident by $group:literal with $features:literal;)*) => {$(
        mod $path {
            pub(super) mod ten {
                functions!($vector, 10, $group, $features);
            }
            pub(super) mod fourteen {
                functions!($vector, 14, $group, $features);
            }
        }
    )*};
}

#[cfg(target_arch = "aarch64")]
paths! {
    aarch64: Block by 8 with "neon,aes";
}

#[cfg(target_arch = "x86_64")]
paths! {
    aes_ni: V128 by 8 with "aes,pclmulqdq,ssse3,sse4.1";
    vaes256: V256 by 8 with "aes,pclmulqdq,avx2,vaes,vpclmulqdq";
    vaes512: V512 by 4 with "aes,pclmulqdq,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl";
}

/// A function of a path's, by the path and the number of rounds.
macro_rules! dispatch {
    ($engine:expr, $rounds:expr, $function:ident($($argument:expr),*)) => {
        match ($engine, $rounds) {
            #[cfg(target_arch = "aarch64")]
            (Engine::Aarch64Aes(_), Rounds::Ten) => aarch64::ten::$function($($argument),*),
            #[cfg(target_arch = "aarch64")]
            (Engine::Aarch64Aes(_), Rounds::Fourteen) => aarch64::fourteen::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::AesNi(_), Rounds::Ten) => aes_ni::ten::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::AesNi(_), Rounds::Fourteen) => aes_ni::fourteen::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::Vaes256(_), Rounds::Ten) => vaes256::ten::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::Vaes256(_), Rounds::Fourteen) => vaes256::fourteen::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::Vaes512(_), Rounds::Ten) => vaes512::ten::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            (Engine::Vaes512(_), Rounds::Fourteen) => vaes512::fourteen::$function($($argument),*),
        }
    };
}

impl Engine {
    /// Fills in the powers of H, from the highest down.
    pub(super) fn powers(self, h: u128, all: &mut [u128]) {
        // SAFETY: every path has these features, and there is the proof of one.
        unsafe { powers(h, all) }
    }

    #[inline]
    pub(super) fn seal(
        self,
        key: &Blocks,
        rounds: Rounds,
        packet: Packet<'_>,
        mask: Option<Mask<'_>>,
    ) -> [u8; 16] {
        // SAFETY: there is the path's proof, and key and packet are what they say.
        unsafe { dispatch!(self, rounds, seal(key.as_ptr().cast(), packet, mask)) }
    }

    #[inline]
    pub(super) fn open(self, key: &Blocks, rounds: Rounds, packet: Packet<'_>) -> bool {
        // SAFETY: there is the path's proof, and key and packet are what they say.
        unsafe { dispatch!(self, rounds, open(key.as_ptr().cast(), packet)) }
    }
}
