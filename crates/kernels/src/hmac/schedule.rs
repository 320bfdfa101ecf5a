//! Words of message schedules on their way from vectors to rounds.

use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use zeroize::optimization_barrier;

use super::one::Block;

/// The schedules of two blocks, four words of each in a vector, with the constants of their rounds added; wiped on drop.
pub(crate) struct Words<const VECTORS: usize>(pub(crate) [MaybeUninit<__m256i>; VECTORS]);

impl<const VECTORS: usize> Words<VECTORS> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self([MaybeUninit::uninit(); VECTORS])
    }

    /// Where a block's part starts.
    #[inline]
    pub(crate) fn of(&self, block: usize) -> *const u32 {
        of_block(&self.0, block)
    }
}

/// Where a block's part of some vectors starts.
#[inline]
pub(crate) fn of_block(vectors: &[MaybeUninit<__m256i>], block: usize) -> *const u32 {
    // Not by `add`, which must not leave the slice: one without vectors has no such place.
    vectors.as_ptr().cast::<u32>().wrapping_add(4 * block)
}

impl<const VECTORS: usize> Drop for Words<VECTORS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zero is a value of a vector.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// Each part of two blocks in one vector.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn side_by_side(first: Block, second: Block) -> [__m256i; 4] {
    core::array::from_fn(|at| _mm256_set_m128i(second[at], first[at]))
}

/// A block in the lower halves of vectors.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn alone(block: Block) -> [__m256i; 4] {
    block.map(|part| _mm256_castsi128_si256(part))
}

/// The same value. The compiler computes it between the assembly before and behind it. Without this it would make the whole schedule
/// first.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn tied(mut vector: __m256i) -> __m256i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags)) };
    vector
}

/// Adds the words behind a block's rounds to the chaining value, one by one: the compiler would put them into vectors first, and the next
/// block would wait for their way there and back.
#[inline]
pub(crate) fn add<const WORDS: usize>(state: &mut [u32; WORDS], after: [u32; WORDS]) {
    for (word, after) in state.iter_mut().zip(after) {
        let sum = word.wrapping_add(after);
        // SAFETY: it is a reference.
        unsafe { core::ptr::write_volatile(word, sum) };
    }
}
