//! A block on its way to a MAC, written as it will be read.

/// Writes 16 octets, the lowest of the number first, in one store.
///
/// What is written in parts cannot be read as a whole before the parts have left for the cache, and they leave only when all
/// that went before is done: MACs that could have been under way together would follow one another.
#[inline(always)]
pub fn write_block(to: &mut [u8; 16], octets: u128) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use core::arch::asm;
        use core::arch::x86_64::{_mm_set_epi64x, _mm_storeu_si128};
        // SAFETY: SSE2 is there wherever the crate runs. There are 16 octets, and they may lie anywhere. The assembly is empty: it
        // only asks for the number in one register, without which the compiler stores its halves apart.
        unsafe {
            let mut whole = _mm_set_epi64x((octets >> 64) as i64, octets as i64);
            asm!("/* {0} */", inout(xmm_reg) whole, options(pure, nomem, nostack, preserves_flags));
            _mm_storeu_si128(to.as_mut_ptr().cast(), whole);
        }
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    {
        *to = octets.to_le_bytes();
    }
}
