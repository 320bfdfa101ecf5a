//! One message by SHA-NI. The chaining value stays in registers from the first block to the last.

use core::arch::x86_64::*;

use super::ShaInstructions;
use super::padding::{BLOCK, Buffer, last_block};
use crate::partial_block::{load, padding_bit, store};

/// The words of a block, in the order that the hash's instructions take.
pub(crate) type Block = [__m128i; 4];

/// A hash by SHA-NI.
///
/// # Safety
/// Every function needs a processor with SHA-NI, SSE4.1 and SSSE3.
pub(crate) trait ShaNiHash<const WORDS: usize> {
    /// Which octet of a message goes where in a vector of words.
    const ORDER: [u8; 16];

    /// A chaining value, as the instructions take it.
    type State: Copy;

    unsafe fn state(words: &[u32; WORDS]) -> Self::State;

    /// Takes a block into a chaining value.
    unsafe fn compress(state: Self::State, block: Block) -> Self::State;

    /// The words of a chaining value as those of a block, zeros behind them.
    unsafe fn words(state: Self::State) -> [__m128i; 2];
}

impl ShaInstructions {
    /// The HMAC of the slices of `message`; `keys` are the chaining values after the inner and the outer key block.
    #[inline]
    pub(crate) fn hmac<H: ShaNiHash<WORDS>, const WORDS: usize, const OCTETS: usize>(
        self,
        keys: [&[u32; WORDS]; 2],
        message: &[&[u8]],
    ) -> [u8; OCTETS] {
        // SAFETY: the token proves the path.
        unsafe { hmac::<H, WORDS, OCTETS>(keys, message) }
    }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn hmac<H: ShaNiHash<WORDS>, const WORDS: usize, const OCTETS: usize>(
    [inner, outer]: [&[u32; WORDS]; 2],
    message: &[&[u8]],
) -> [u8; OCTETS] {
    const { assert!(OCTETS == 4 * WORDS) };
    let reorder = |octets| _mm_shuffle_epi8(octets, load(&H::ORDER));
    // SAFETY: this function is compiled for all that the functions of the hash need.
    let compress = |state, octets: Block| unsafe { H::compress(state, octets.map(reorder)) };
    let block = |octets: &[u8; BLOCK]| {
        let (parts, _) = octets.as_chunks();
        core::array::from_fn(|at| load(&parts[at]))
    };
    // SAFETY: as above.
    let mut state = unsafe { H::state(inner) };
    let mut buffer = Buffer::new();
    let mut length = BLOCK;
    // The last partial block is the end of `whole`: of the last slice, or of the buffer if the block spans slices.
    let (mut whole, mut left): (&[u8], usize) = (&[], 0);
    for slice in message {
        let mut slice = *slice;
        if slice.is_empty() {
            continue;
        }
        length += slice.len();
        if left > 0 {
            leak!("HMAC: block in two slices", state);
            buffer.take(&whole[whole.len() - left..]);
            left = 0;
        }
        if buffer.length > 0 {
            slice = buffer.take(slice);
            if buffer.length < BLOCK {
                continue;
            }
            state = compress(state, block(&buffer.octets));
            buffer.length = 0;
        }
        let (blocks, rest) = slice.as_chunks();
        for octets in blocks {
            state = compress(state, block(octets));
        }
        (whole, left) = (slice, rest.len());
    }
    if buffer.length > 0 {
        (whole, left) = (&buffer.octets[..buffer.length], buffer.length);
    }
    let mut last = last_block(whole, left);
    leak!("HMAC: last block", state);
    if left >= BLOCK - 8 {
        state = compress(state, last);
        last = [_mm_setzero_si128(); 4];
    }
    last[3] = _mm_or_si128(last[3], bits(length));
    state = compress(state, last);

    let zero = _mm_setzero_si128();
    // SAFETY: as above.
    let [low, high] = unsafe { H::words(state) };
    leak!("HMAC: inner hash", low);
    let mut outer_block = [low, high, zero, zero];
    let end = &mut outer_block[OCTETS / 16];
    *end = _mm_or_si128(*end, reorder(padding_bit(OCTETS % 16)));
    outer_block[3] = reorder(bits(BLOCK + OCTETS));
    // SAFETY: as above.
    let [low, high] = unsafe { H::words(H::compress(H::state(outer), outer_block)) };
    let mut mac = [0; OCTETS];
    let (start, rest) = mac.split_at_mut(16);
    start.copy_from_slice(&store(reorder(low)));
    rest.copy_from_slice(&store(reorder(high))[..OCTETS - 16]);
    mac
}

/// The last part of a block that says how many bits the message has (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "sse2")]
fn bits(octets: usize) -> __m128i {
    _mm_set_epi64x((8 * octets as u64).swap_bytes().cast_signed(), 0)
}
