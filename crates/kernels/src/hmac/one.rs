//! One message by SHA-NI. The chaining value stays in registers from the first block to the last.

use core::arch::x86_64::*;

use super::padding::{BLOCK, Buffer, last_block};
use super::{Hash, ShaInstructions};
use crate::partial_block::load;

/// The words of a block, in the order that the instructions of the hash want.
pub(crate) type Block = [__m128i; 4];

/// A hash by SHA-NI.
///
/// # Safety
/// Every function needs a processor with SHA-NI, SSE4.1 and SSSE3.
pub(crate) trait ShaNiHash<const WORDS: usize>: Hash<WORDS> {
    /// A chaining value, as the instructions want it.
    type State: Copy;

    unsafe fn state(words: &[u32; WORDS]) -> Self::State;

    /// Turns octets into four words, or words into octets.
    unsafe fn big_endian(octets: __m128i) -> __m128i;

    /// Writes the length of a message of so many octets, in bits, to the last part of a block (FIPS 180-4 §5.1.1).
    unsafe fn with_length(part: __m128i, octets: u64) -> __m128i;

    /// Takes a block into a chaining value.
    unsafe fn compress(state: Self::State, block: Block) -> Self::State;

    /// The block of the outer hash behind the key block: the inner hash, padded.
    unsafe fn outer_block(inner: Self::State) -> Block;

    unsafe fn mac(outer: Self::State) -> Self::Mac;
}

impl ShaInstructions {
    /// The HMAC of the slices of `message`; `keys` are the chaining values after the inner and the outer key block.
    #[inline]
    pub(crate) fn hmac<H: ShaNiHash<WORDS>, const WORDS: usize>(
        self,
        keys: [&[u32; WORDS]; 2],
        message: &[&[u8]],
    ) -> H::Mac {
        // SAFETY: the token proves the path.
        unsafe { hmac::<H, WORDS>(keys, message) }
    }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn hmac<H: ShaNiHash<WORDS>, const WORDS: usize>(
    [inner, outer]: [&[u32; WORDS]; 2],
    message: &[&[u8]],
) -> H::Mac {
    // SAFETY: this function is compiled for all that the functions of the hash need.
    let take = |state, octets: &[u8; BLOCK]| unsafe {
        let (parts, _) = octets.as_chunks();
        H::compress(state, core::array::from_fn(|at| H::big_endian(load(&parts[at]))))
    };
    // SAFETY: as above.
    let mut state = unsafe { H::state(inner) };
    let mut buffer = Buffer::new();
    let mut length = BLOCK as u64;
    // The octets behind the last whole block are the end of this slice: the message's last, or the buffer if they are of several.
    let (mut whole, mut left): (&[u8], usize) = (&[], 0);
    for slice in message {
        let mut slice = *slice;
        if slice.is_empty() {
            continue;
        }
        length += slice.len() as u64;
        if left > 0 {
            buffer.take(&whole[whole.len() - left..]);
            left = 0;
        }
        if buffer.length > 0 {
            slice = buffer.take(slice);
            if buffer.length < BLOCK {
                continue;
            }
            state = take(state, &buffer.octets);
            buffer.length = 0;
        }
        let (blocks, rest) = slice.as_chunks();
        for octets in blocks {
            state = take(state, octets);
        }
        (whole, left) = (slice, rest.len());
    }
    if buffer.length > 0 {
        (whole, left) = (&buffer.octets[..buffer.length], buffer.length);
    }
    // SAFETY: as above.
    unsafe {
        let mut last = last_block(whole, left).map(|part| H::big_endian(part));
        if left >= BLOCK - 8 {
            state = H::compress(state, last);
            last = [_mm_setzero_si128(); 4];
        }
        last[3] = H::with_length(last[3], length);
        state = H::compress(state, last);
        H::mac(H::compress(H::state(outer), H::outer_block(state)))
    }
}
