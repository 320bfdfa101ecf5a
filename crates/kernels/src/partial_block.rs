//! Reads blocks of fewer than 16 octets into a register, without a copy in memory.

use core::arch::x86_64::*;

/// For a shuffle: zeros, then the octets of a vector in order, then zeros again.
static SHIFT: [u8; 48] = {
    let mut shift = [0x80; 48];
    let mut at = 0;
    while at < 16 {
        shift[16 + at] = at as u8;
        at += 1;
    }
    shift
};

/// The bit that ends a message (RFC 4493 §2.4, FIPS 180-4 §5.1.1), with zeros around it.
static PADDING: [u8; 32] = {
    let mut padding = [0; 32];
    padding[16] = 0x80;
    padding
};

/// The 16 octets of a table from `at` on. Callers limit `at`, so that the compiler needs no check.
#[inline]
fn window<const N: usize>(table: &[u8; N], at: usize) -> &[u8; 16] {
    table[at..].first_chunk().expect("16 octets follow in the table")
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: the array has 16 octets; the access needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn store(v: __m128i) -> [u8; 16] {
    let mut block = [0; 16];
    // SAFETY: the array has 16 octets; the access needs no alignment.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), v) };
    block
}

/// Shifts the octets up by `by`, at most 16; zeros come in at the start.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn shifted_up(v: __m128i, by: usize) -> __m128i {
    _mm_shuffle_epi8(v, load(window(&SHIFT, 16 - by.min(16))))
}

/// Shifts the octets down by `by`, at most 16; zeros come in at the end.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn shifted_down(v: __m128i, by: usize) -> __m128i {
    _mm_shuffle_epi8(v, load(window(&SHIFT, 16 + by.min(16))))
}

/// The bit that ends a message, after `length` octets, at most 15.
#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn padding_bit(length: usize) -> __m128i {
    load(window(&PADDING, 16 - length.min(16)))
}

/// The last `length` octets of `octets`, at most 16, followed by zeros. If `octets` has fewer than 16, `length` must be all of them.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn last_octets(octets: &[u8], length: usize) -> __m128i {
    match octets.last_chunk() {
        Some(last) => shifted_down(load(last), 16 - length),
        None => {
            debug_assert_eq!(octets.len(), length);
            fewer_than_16(octets)
        }
    }
}

/// The first `length` octets of `octets`, at most 16, followed by zeros.
///
/// # Panics
/// If there are fewer.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
pub(crate) fn first_octets(octets: &[u8], length: usize) -> __m128i {
    match octets.first_chunk() {
        Some(first) if length == 16 => load(first),
        Some(first) => shifted_down(shifted_up(load(first), 16 - length), 16 - length),
        None => fewer_than_16(&octets[..length]),
    }
}

/// Fewer than 16 octets, followed by zeros, read as two words that overlap.
#[target_feature(enable = "sse2,ssse3")]
fn fewer_than_16(octets: &[u8]) -> __m128i {
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
    let high = shifted_up(_mm_cvtsi64_si128(high as i64), length - half);
    leak!("CMAC and HMAC: short message", high);
    // Where the two overlap, their octets are equal.
    _mm_or_si128(low, high)
}
