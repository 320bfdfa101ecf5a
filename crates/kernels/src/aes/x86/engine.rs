//! The choice of a path, and AES under each.

use core::arch::x86_64::{_mm_aeskeygenassist_si128, _mm_cvtsi128_si32, _mm_set1_epi32};

use super::block::V128;
use crate::aes::expand::{RoundKeys, Rounds, expand};
use crate::aes::vector::{Vector, encrypt_rounds};
use crate::cpu::{AesNi, AesNiAvx, InstructionSet, Vaes256, Vaes512};

/// The path that a key uses, with its proof.
#[derive(Clone, Copy)]
pub(crate) enum Engine {
    AesNi(AesNi),
    AesNiAvx(AesNiAvx),
    Vaes256(Vaes256),
    Vaes512(Vaes512),
}

impl Engine {
    /// The best that is available.
    pub(crate) fn detect() -> Option<Self> {
        let wide = Vaes512::detect().map(Self::Vaes512);
        wide.or_else(|| Vaes256::detect().map(Self::Vaes256))
            .or_else(|| AesNiAvx::detect().map(Self::AesNiAvx))
            .or_else(|| AesNi::detect().map(Self::AesNi))
    }

    pub(crate) fn path(self) -> InstructionSet {
        match self {
            Self::AesNi(_) => InstructionSet::AesNi,
            Self::AesNiAvx(_) => InstructionSet::AesNiAvx,
            Self::Vaes256(_) => InstructionSet::Vaes256,
            Self::Vaes512(_) => InstructionSet::Vaes512,
        }
    }

    pub(crate) fn expand(self, key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
        // SAFETY: every path has AES-NI, and there is the proof of one.
        unsafe { expand_aes_ni(key, keys) }
    }

    #[inline]
    pub(crate) fn encrypt(self, keys: &RoundKeys, rounds: Rounds, block: [u8; 16]) -> [u8; 16] {
        let mut block = block;
        // SAFETY: every path has AES-NI, and there is the proof of one.
        unsafe { encrypt_aes_ni(keys.as_ptr().cast(), rounds, &mut block) };
        block
    }
}

#[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
fn expand_aes_ni(key: &[u8], keys: &mut RoundKeys) -> Option<Rounds> {
    expand(key, keys, |word| {
        _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(_mm_set1_epi32(word as i32))) as u32
    })
}

#[target_feature(enable = "aes,pclmulqdq,ssse3,sse4.1")]
unsafe fn encrypt_aes_ni(keys: *const u8, rounds: Rounds, block: &mut [u8; 16]) {
    // SAFETY: the caller's keys, and the function's features.
    unsafe {
        let [encrypted] = encrypt_rounds(keys, rounds, [V128::load(block.as_ptr())]);
        V128::store(block.as_mut_ptr(), encrypted);
    }
}
