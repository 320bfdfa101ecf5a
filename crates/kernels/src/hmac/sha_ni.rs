//! HMAC with SHA-NI, of one message or of two side by side: each round waits four to six cycles for the round before, enough time for a
//! round of another message. Compiled twice: AVX's encoding with three operands needs a fifth fewer instructions, so the processor starts
//! the following work sooner.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::frame::{
    Block, FIRST_HIGHEST, FIRST_LOWEST, KeyBlocks, KeyedJob, OfZeros, bits, hmac, key_block, last_block,
    octets_of, outer_block, padded, reordered, words_of,
};
use super::message::{BLOCK, K, Rest};
use crate::groups::Job;

/// The routines of a hash, from its module's `State`, `start`, `compress_each` and `words`, and its order of words.
macro_rules! routines {
    ($hash:ident, $words:literal, $octets:literal, $order:ident) => {
        hmac!($words, $octets, $order, "sha,sse4.1,ssse3");
        pair!($words, $octets, $order, 0, "sha,sse4.1,ssse3");

        /// The same in AVX's encoding.
        pub(crate) mod avx {
            use crate::hmac::sha_ni::$hash::*;

            hmac!($words, $octets, $order, "sha,avx");
            pair!($words, $octets, $order, 1, "sha,avx");
        }

        // SAFETY: it has vectors.
        unsafe impl OfZeros for State {}

        #[inline]
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        fn restart(state: &mut State, words: &[u32; $words]) {
            *state = start(words);
        }

        #[inline]
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        fn compress(state: &mut State, block: Block) {
            compress_each::<1, 0>(core::array::from_mut(state), &mut [block]);
        }

        #[inline]
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        fn compress_both(states: &mut [State; 2], blocks: &mut [Block; 2]) {
            compress_each::<2, 2>(states, blocks);
        }

        #[inline]
        #[target_feature(enable = "sha,sse4.1,ssse3")]
        fn compress_all(state: &mut State, blocks: &[[u8; BLOCK]]) {
            for octets in blocks {
                compress(state, words_of(octets, &$order));
            }
        }
    };
}

/// `hmac_pair`, compiled for these target features.
macro_rules! pair {
    ($words:literal, $octets:literal, $order:ident, $copy:literal, $features:literal) => {
        /// The HMACs of two messages.
        #[target_feature(enable = $features)]
        pub(crate) fn hmac_pair(pair: &[KeyedJob<'_, $words>; 2], macs: &mut [[u8; $octets]; 2]) {
            let compress =
                |states: &mut [State; 2], mut blocks| compress_each::<2, $copy>(states, &mut blocks);
            *macs = hmacs(pair, &$order, |words| start(words), compress, |state| words(state));
        }
    };
}

pub(super) mod sha1 {
    use core::arch::x86_64::*;

    use crate::hmac::sha_ni::*;

    routines!(sha1, 5, 20, FIRST_HIGHEST);

    /// A chaining value: the words a, b, c and d with a in the highest place, and e in the highest place.
    #[derive(Clone, Copy)]
    struct State {
        abcd: __m128i,
        e: __m128i,
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn start(words: &[u32; 5]) -> State {
        // SAFETY: the array has at least 16 octets; the load needs no alignment.
        let abcd = unsafe { _mm_loadu_si128(words.as_ptr().cast()) };
        State { abcd: _mm_shuffle_epi32::<0b00_01_10_11>(abcd), e: _mm_set_epi32(words[4] as i32, 0, 0, 0) }
    }

    /// The words of a chaining value as those of a block, followed by zeros.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn words(state: &State) -> [__m128i; 2] {
        [state.abcd, state.e]
    }

    /// The reverse of `start`.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn finish(state: &State, words: &mut [u32; 5]) {
        // SAFETY: the array has at least 16 octets; the store needs no alignment.
        unsafe {
            _mm_storeu_si128(words.as_mut_ptr().cast(), _mm_shuffle_epi32::<0b00_01_10_11>(state.abcd));
        }
        words[4] = _mm_extract_epi32::<3>(state.e) as u32;
    }

    /// Processes a block of each message into its chaining value, four rounds of all messages and then the next four (FIPS 180-4 §6.1.2).
    // Each caller with two messages has a copy of its own, because LLVM inlines a function of this size only into its one caller. A call in the
    // loop of `hmacs` would be in SSE's encoding, with states and blocks in memory.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn compress_each<const MESSAGES: usize, const COPY: usize>(
        states: &mut [State; MESSAGES],
        blocks: &mut [Block; MESSAGES],
    ) {
        let before = *states;
        leak!("HMAC-SHA-1: one block", states[0].abcd);
        macro_rules! rounds {
            ($($at:literal)*) => {$(
                for (state, w) in states.iter_mut().zip(&mut *blocks) {
                    if $at >= 4 {
                        let sum = _mm_xor_si128(_mm_sha1msg1_epu32(w[$at % 4], w[($at + 1) % 4]), w[($at + 2) % 4]);
                        w[$at % 4] = _mm_sha1msg2_epu32(sum, w[($at + 3) % 4]);
                    }
                    // After the first time, e is the word a of four rounds before, which the instruction rotates.
                    let e = if $at == 0 {
                        _mm_add_epi32(state.e, w[0])
                    } else {
                        _mm_sha1nexte_epu32(state.e, w[$at % 4])
                    };
                    state.e = state.abcd;
                    state.abcd = _mm_sha1rnds4_epu32::<{ $at / 5 }>(state.abcd, e);
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        for (state, before) in states.iter_mut().zip(before) {
            state.abcd = _mm_add_epi32(state.abcd, before.abcd);
            state.e = _mm_sha1nexte_epu32(state.e, before.e);
        }
    }
}

pub(super) mod sha256 {
    use core::arch::x86_64::*;

    use crate::hmac::sha_ni::*;

    routines!(sha256, 8, 32, FIRST_LOWEST);

    /// A chaining value: the words a, b, e and f with a in the highest place, and c, d, g and h with c in the highest place.
    #[derive(Clone, Copy)]
    struct State {
        abef: __m128i,
        cdgh: __m128i,
    }

    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn start(words: &[u32; 8]) -> State {
        // SAFETY: the array has 32 octets; the access needs no alignment.
        let (low, high) = unsafe {
            let words: *const __m128i = words.as_ptr().cast();
            (_mm_loadu_si128(words), _mm_loadu_si128(words.add(1)))
        };
        let low = _mm_shuffle_epi32::<0b10_11_00_01>(low);
        let high = _mm_shuffle_epi32::<0b00_01_10_11>(high);
        State { abef: _mm_alignr_epi8::<8>(low, high), cdgh: _mm_blend_epi16::<0xf0>(high, low) }
    }

    /// The words of a chaining value as those of a block.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn words(state: &State) -> [__m128i; 2] {
        let abef = _mm_shuffle_epi32::<0b00_01_10_11>(state.abef);
        let cdgh = _mm_shuffle_epi32::<0b10_11_00_01>(state.cdgh);
        [_mm_blend_epi16::<0xf0>(abef, cdgh), _mm_alignr_epi8::<8>(cdgh, abef)]
    }

    /// The reverse of `start`.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn finish(state: &State, value: &mut [u32; 8]) {
        for (words, part) in value.as_chunks_mut::<4>().0.iter_mut().zip(words(state)) {
            // SAFETY: the array has 16 octets; the store needs no alignment.
            unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), part) };
        }
    }

    /// Processes a block of each message into its chaining value, four rounds of all messages and then the next four (FIPS 180-4 §6.2.2).
    // Each caller has a copy, as for SHA-1.
    #[inline]
    #[target_feature(enable = "sha,sse4.1,ssse3")]
    fn compress_each<const MESSAGES: usize, const COPY: usize>(
        states: &mut [State; MESSAGES],
        blocks: &mut [Block; MESSAGES],
    ) {
        let before = *states;
        leak!("HMAC-SHA-256: one block", states[0].abef);
        let (k, _) = K.as_chunks::<4>();
        // SAFETY: four words are 16 octets; the load needs no alignment.
        let constant = |at: usize| unsafe { _mm_loadu_si128(k[at].as_ptr().cast()) };
        macro_rules! rounds {
            ($($at:literal)*) => {$(
                for (state, w) in states.iter_mut().zip(&mut *blocks) {
                    if $at >= 4 {
                        let (last, middle) = (w[($at + 3) % 4], w[($at + 2) % 4]);
                        let sum = _mm_sha256msg1_epu32(w[$at % 4], w[($at + 1) % 4]);
                        let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>(last, middle));
                        w[$at % 4] = _mm_sha256msg2_epu32(sum, last);
                    }
                    let sum = _mm_add_epi32(w[$at % 4], constant($at));
                    state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sum);
                    state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_unpackhi_epi64(sum, sum));
                }
            )*};
        }
        rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        for (state, before) in states.iter_mut().zip(before) {
            state.abef = _mm_add_epi32(state.abef, before.abef);
            state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
        }
    }
}

/// The HMACs of two messages, with a hash's functions.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn hmacs<State: Copy, const WORDS: usize, const OCTETS: usize>(
    [first, second]: &[KeyedJob<'_, WORDS>; 2],
    order: &[u8; 16],
    start: impl Fn(&[u32; WORDS]) -> State,
    compress: impl Fn(&mut [State; 2], [Block; 2]),
    words: impl Fn(&State) -> [__m128i; 2],
) -> [[u8; OCTETS]; 2] {
    let (first_end, second_end) = (End::new(first), End::new(second));
    let blocks = [Blocks::new(first, &first_end), Blocks::new(second, &second_end)];
    let count = blocks[0].count.max(blocks[1].count);
    let mut states = [start(first.key[0]), start(second.key[0])];
    // The outer block goes through the same loop: a second copy of the compression costs 4 % of a batch (Zen 5).
    for at in 0..=count {
        let before = states;
        let block = if at < count {
            [words_of(blocks[0].get(at), order), words_of(blocks[1].get(at), order)]
        } else {
            let hashes = [words(&states[0]), words(&states[1])];
            leak!("HMAC: inner hashes of two", hashes[0][0]);
            states = [start(first.key[1]), start(second.key[1])];
            hashes.map(|hash| outer_block::<OCTETS>(hash, order))
        };
        compress(&mut states, block);
        // A message that has ended waits for the other one.
        if at < count && at >= blocks[0].count {
            states[0] = before[0];
        }
        if at < count && at >= blocks[1].count {
            states[1] = before[1];
        }
    }
    states.each_ref().map(|state| octets_of(words(state), order))
}

/// The end of a message with its padding, in one block or two; wiped on drop.
struct End {
    blocks: [Block; 2],
    count: usize,
}

impl End {
    #[inline]
    #[target_feature(enable = "sse4.1,ssse3")]
    fn new<K>(job: &Job<'_, K>) -> Self {
        let left = job.tail.len() % BLOCK;
        let count = 1 + usize::from(left >= BLOCK - 8);
        // Padding (FIPS 180-4 §5.1.1).
        let mut last = last_block(job.tail);
        let bits = bits((BLOCK + job.head.len() + job.tail.len()) as u64);
        if count == 1 {
            last[3] = _mm_or_si128(last[3], bits);
        }
        let zero = _mm_setzero_si128();
        Self { blocks: [last, [zero, zero, zero, bits]], count }
    }

    #[inline]
    fn as_octets(&self) -> &[[u8; BLOCK]] {
        // SAFETY: both types have the same size, and every bit pattern is valid.
        let octets: &[[u8; BLOCK]; 2] = unsafe { &*(&raw const self.blocks).cast() };
        &octets[..self.count]
    }
}

impl Drop for End {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zero is a valid vector.
        unsafe { (&raw mut self.blocks).write_bytes(0, 1) };
        optimization_barrier(&self.blocks);
    }
}

/// The blocks of a message.
struct Blocks<'a> {
    head: &'a [[u8; BLOCK]],
    tail: &'a [[u8; BLOCK]],
    end: &'a [[u8; BLOCK]],
    count: usize,
}

impl<'a> Blocks<'a> {
    #[inline]
    fn new<K>(job: &Job<'a, K>, end: &'a End) -> Self {
        let (head, tail, end) = (job.head.as_chunks().0, job.tail.as_chunks().0, end.as_octets());
        Self { head, tail, end, count: head.len() + tail.len() + end.len() }
    }

    /// A block, or the last one if there are fewer.
    #[inline]
    fn get(&self, at: usize) -> &[u8; BLOCK] {
        if at < self.head.len() {
            return &self.head[at];
        }
        let at = at - self.head.len();
        if at < self.tail.len() {
            return &self.tail[at];
        }
        &self.end[(at - self.tail.len()).min(self.end.len() - 1)]
    }
}
