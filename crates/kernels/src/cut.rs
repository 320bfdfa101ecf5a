//! Parts of blocks in registers, without a copy through memory.

use core::arch::x86_64::*;

/// Zeros to be chosen from by a shuffle, then the octets of a vector in order, then zeros again.
static SLIDE: [u8; 48] = {
    let mut slide = [0x80; 48];
    let mut at = 0;
    while at < 16 {
        slide[16 + at] = at as u8;
        at += 1;
    }
    slide
};

/// The bit that ends a message behind its last octet (RFC 4493, section 2.4; FIPS 180-4, section 5.1.1).
static END: [u8; 32] = {
    let mut end = [0; 32];
    end[16] = 0x80;
    end
};

#[inline(always)]
fn window<const N: usize>(table: &[u8; N], at: usize) -> &[u8; 16] {
    debug_assert!(at <= N - 16);
    // SAFETY: the callers are in this file, and all keep within the table.
    unsafe { &*table.as_ptr().add(at).cast() }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: there are 16 octets, and they may lie anywhere.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn store(v: __m128i) -> [u8; 16] {
    let mut block = [0; 16];
    // SAFETY: there are 16 octets, and they may lie anywhere.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), v) };
    block
}

/// The octets moved up by `by` of at most 16, with zeros before them.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn up(v: __m128i, by: usize) -> __m128i {
    _mm_shuffle_epi8(v, load(window(&SLIDE, 16 - by.min(16))))
}

/// The octets moved down by `by` of at most 16, with zeros behind them.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn down(v: __m128i, by: usize) -> __m128i {
    _mm_shuffle_epi8(v, load(window(&SLIDE, 16 + by.min(16))))
}

/// The bit behind `position` of at most 15 octets.
#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn end(position: usize) -> __m128i {
    load(window(&END, 16 - position.min(16)))
}

/// The last `length` octets of `whole`, with zeros behind them; at most 16, and no more than there are.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn tail(whole: &[u8], length: usize) -> __m128i {
    match whole.last_chunk() {
        Some(last) => down(load(last), 16 - length),
        None => short(&whole[whole.len() - length..]),
    }
}

/// The first `length` octets of `whole`, with zeros behind them; at most 16, and no more than there are.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn head(whole: &[u8], length: usize) -> __m128i {
    match whole.first_chunk() {
        Some(first) if length == 16 => load(first),
        Some(first) => down(up(load(first), 16 - length), 16 - length),
        None => short(&whole[..length]),
    }
}

/// Fewer than 16 octets, with zeros behind them, read in two that overlap.
#[target_feature(enable = "sse2,ssse3")]
fn short(octets: &[u8]) -> __m128i {
    let length = octets.len();
    let (low, high, half) = if let (Some(low), Some(high)) = (octets.first_chunk(), octets.last_chunk()) {
        (u64::from_le_bytes(*low), u64::from_le_bytes(*high), 8)
    } else if let (Some(low), Some(high)) = (octets.first_chunk(), octets.last_chunk()) {
        (u64::from(u32::from_le_bytes(*low)), u64::from(u32::from_le_bytes(*high)), 4)
    } else if let (Some(low), Some(high)) = (octets.first_chunk(), octets.last_chunk()) {
        (u64::from(u16::from_le_bytes(*low)), u64::from(u16::from_le_bytes(*high)), 2)
    } else {
        return _mm_cvtsi32_si128(octets.first().map_or(0, |octet| i32::from(*octet)));
    };
    let low = _mm_cvtsi64_si128(low as i64);
    let high = up(_mm_cvtsi64_si128(high as i64), length - half);
    // Where the two overlap they are the same octets.
    _mm_or_si128(low, high)
}
