//! One message, by SHA-NI or by BMI2.

use core::arch::x86_64::*;

use super::padding::{BLOCK, Buffer, last_block};
use super::{OneMessagePath, ShaInstructions};
use crate::cpu::{Bmi2, ShaNi};
use crate::partial_block::{load, padding_bit, store};

/// The words of a block, in the order that the hash's instructions take.
pub(crate) type Block = [__m128i; 4];

/// A hash by the instructions that a token proves.
///
/// # Safety
/// Every function needs a processor with these instructions.
pub(crate) trait OneMessageHash<Token, const WORDS: usize> {
    /// Which octet of a message goes where in a vector of words.
    const ORDER: [u8; 16];

    /// A chaining value, as the instructions take it.
    type State: Copy;

    unsafe fn state(words: &[u32; WORDS]) -> Self::State;

    /// Takes a block into a chaining value.
    unsafe fn compress(state: &mut Self::State, block: Block);

    /// The words of a chaining value as those of a block, zeros behind them.
    unsafe fn words(state: Self::State) -> [__m128i; 2];
}

impl ShaInstructions {
    /// The HMAC of the slices of `message`; `keys` are the chaining values after the inner and the outer key block.
    #[inline]
    pub(crate) fn hmac<H, const WORDS: usize, const OCTETS: usize>(
        self,
        keys: [&[u32; WORDS]; 2],
        message: &[&[u8]],
    ) -> [u8; OCTETS]
    where
        H: OneMessageHash<ShaNi, WORDS> + OneMessageHash<Bmi2, WORDS>,
    {
        // SAFETY: the token proves the path.
        unsafe {
            match self.0 {
                OneMessagePath::ShaNi(_) => by_sha_ni::<H, WORDS, OCTETS>(keys, message),
                OneMessagePath::Bmi2(_) => by_bmi2::<H, WORDS, OCTETS>(keys, message),
            }
        }
    }
}

/// The function for a token, compiled for its features.
macro_rules! hmac {
    ($name:ident for $token:ident with $features:literal) => {
        #[target_feature(enable = $features)]
        fn $name<H: OneMessageHash<$token, WORDS>, const WORDS: usize, const OCTETS: usize>(
            [inner, outer]: [&[u32; WORDS]; 2],
            message: &[&[u8]],
        ) -> [u8; OCTETS] {
            const { assert!(OCTETS == 4 * WORDS) };
            let reorder = |octets| _mm_shuffle_epi8(octets, load(&H::ORDER));
            let compress = |state: &mut H::State, octets: Block| {
                // SAFETY: this function is compiled for all that the functions of the hash need.
                unsafe { H::compress(state, octets.map(reorder)) }
            };
            let block = |octets: &[u8; BLOCK]| {
                let (parts, _) = octets.as_chunks();
                core::array::from_fn(|at| load(&parts[at]))
            };
            // SAFETY: this function is compiled for all that the functions of the hash need.
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
                    compress(&mut state, block(&buffer.octets));
                    buffer.length = 0;
                }
                let (blocks, rest) = slice.as_chunks();
                for octets in blocks {
                    compress(&mut state, block(octets));
                }
                (whole, left) = (slice, rest.len());
            }
            if buffer.length > 0 {
                (whole, left) = (&buffer.octets[..buffer.length], buffer.length);
            }
            let mut last = last_block(whole, left);
            leak!("HMAC: last block", state);
            if left >= BLOCK - 8 {
                compress(&mut state, last);
                last = [_mm_setzero_si128(); 4];
            }
            last[3] = _mm_or_si128(last[3], bits(length));
            compress(&mut state, last);

            let zero = _mm_setzero_si128();
            // SAFETY: as above.
            let [low, high] = unsafe { H::words(state) };
            leak!("HMAC: inner hash", low);
            let mut outer_block = [low, high, zero, zero];
            let end = &mut outer_block[OCTETS / 16];
            *end = _mm_or_si128(*end, reorder(padding_bit(OCTETS % 16)));
            outer_block[3] = reorder(bits(BLOCK + OCTETS));
            // SAFETY: as above.
            let [low, high] = unsafe {
                let mut state = H::state(outer);
                H::compress(&mut state, outer_block);
                H::words(state)
            };
            let mut mac = [0; OCTETS];
            let (start, rest) = mac.split_at_mut(16);
            start.copy_from_slice(&store(reorder(low)));
            rest.copy_from_slice(&store(reorder(high))[..OCTETS - 16]);
            mac
        }
    };
}

hmac!(by_sha_ni for ShaNi with "sha,sse4.1,ssse3");
hmac!(by_bmi2 for Bmi2 with "avx2,bmi1,bmi2");

/// The last part of a block that says how many bits the message has (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "sse2")]
fn bits(octets: usize) -> __m128i {
    _mm_set_epi64x((8 * octets as u64).swap_bytes().cast_signed(), 0)
}
