//! One message, by SHA-NI or by BMI2.

use core::arch::x86_64::*;

pub(crate) use super::padding::BLOCK;
use super::padding::{Buffer, last_block};
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

    /// What the rounds keep in memory.
    type Memory;

    unsafe fn memory() -> Self::Memory;

    /// Takes a block into a chaining value.
    unsafe fn compress(state: &mut Self::State, memory: &mut Self::Memory, block: Block);

    /// Takes blocks of a message into a chaining value.
    unsafe fn compress_all(state: &mut Self::State, memory: &mut Self::Memory, blocks: &[[u8; BLOCK]]);

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
            // SAFETY: this function is compiled for all that the functions of the hash need.
            let (mut state, mut memory) = unsafe { (H::state(inner), H::memory()) };
            let compress = |state: &mut H::State, memory: &mut H::Memory, octets: Block| {
                // SAFETY: as above.
                unsafe {
                    H::compress(state, memory, octets.map(|octets| reorder::<H, $token, WORDS>(octets)))
                }
            };
            let mut buffer = Buffer::new();
            let mut length = BLOCK;
            // The last partial block is `rest`, the end of `whole`: of the last slice, or of the buffer if the block spans slices.
            let (mut whole, mut rest): (&[u8], &[u8]) = (&[], &[]);
            for slice in message {
                let mut slice = *slice;
                if slice.is_empty() {
                    continue;
                }
                length += slice.len();
                if !rest.is_empty() {
                    leak!("HMAC: block in two slices", state);
                    buffer.take(rest);
                    rest = &[];
                }
                if buffer.length > 0 {
                    slice = buffer.take(slice);
                    if buffer.length < BLOCK {
                        continue;
                    }
                    compress(&mut state, &mut memory, load_block(&buffer.octets));
                    buffer.length = 0;
                }
                let blocks;
                (blocks, rest) = slice.as_chunks();
                // SAFETY: as above.
                unsafe { H::compress_all(&mut state, &mut memory, blocks) };
                whole = slice;
            }
            if buffer.length > 0 {
                (whole, rest) = (buffer.filled(), buffer.filled());
            }
            let mut last = last_block(whole);
            leak!("HMAC: last block", state);
            if rest.len() >= BLOCK - 8 {
                compress(&mut state, &mut memory, last);
                last = [_mm_setzero_si128(); 4];
            }
            last[3] = _mm_or_si128(last[3], bits(length));
            compress(&mut state, &mut memory, last);

            // SAFETY: as above.
            unsafe {
                let inner_hash = H::words(state);
                leak!("HMAC: inner hash", inner_hash[0]);
                let mut state = H::state(outer);
                H::compress(&mut state, &mut memory, outer_block::<H, $token, WORDS, OCTETS>(inner_hash));
                octets::<H, $token, WORDS, OCTETS>(H::words(state))
            }
        }
    };
}

hmac!(by_sha_ni for ShaNi with "sha,sse4.1,ssse3");
hmac!(by_bmi2 for Bmi2 with "avx2,bmi1,bmi2");

/// The words of a block of a message.
#[inline]
#[target_feature(enable = "ssse3")]
pub(crate) fn words_of<H: OneMessageHash<Token, WORDS>, Token, const WORDS: usize>(
    octets: &[u8; BLOCK],
) -> Block {
    load_block(octets).map(|octets| reorder::<H, Token, WORDS>(octets))
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_block(octets: &[u8; BLOCK]) -> Block {
    let (parts, _) = octets.as_chunks();
    core::array::from_fn(|at| load(&parts[at]))
}

/// Octets of a message as words, or words as octets.
#[inline]
#[target_feature(enable = "ssse3")]
pub(super) fn reorder<H: OneMessageHash<Token, WORDS>, Token, const WORDS: usize>(
    vector: __m128i,
) -> __m128i {
    _mm_shuffle_epi8(vector, load(&H::ORDER))
}

/// The last part of a block that says how many bits the message has (FIPS 180-4 §5.1.1).
#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn bits(octets: usize) -> __m128i {
    _mm_set_epi64x((8 * octets as u64).swap_bytes().cast_signed(), 0)
}

/// The only block behind the outer key block: the inner hash with its padding.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn outer_block<H: OneMessageHash<Token, WORDS>, Token, const WORDS: usize, const OCTETS: usize>(
    [low, high]: [__m128i; 2],
) -> Block {
    let zero = _mm_setzero_si128();
    let mut block = [low, high, zero, zero];
    let end = &mut block[OCTETS / 16];
    *end = _mm_or_si128(*end, reorder::<H, Token, WORDS>(padding_bit(OCTETS % 16)));
    block[3] = reorder::<H, Token, WORDS>(bits(BLOCK + OCTETS));
    block
}

/// The octets of a hash.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
pub(super) fn octets<H: OneMessageHash<Token, WORDS>, Token, const WORDS: usize, const OCTETS: usize>(
    words: [__m128i; 2],
) -> [u8; OCTETS] {
    const { assert!(OCTETS == 4 * WORDS) };
    let [low, high] = words.map(|words| store(reorder::<H, Token, WORDS>(words)));
    let mut octets = [0; OCTETS];
    let (start, rest) = octets.split_at_mut(16);
    start.copy_from_slice(&low);
    rest.copy_from_slice(&high[..OCTETS - 16]);
    octets
}
