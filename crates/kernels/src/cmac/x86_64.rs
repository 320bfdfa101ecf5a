//! AES-128-CMAC on x86-64: one message, up to four or eight side by side with AES-NI, or sixteen with VAES and AVX-512.

use core::arch::x86_64::*;
use core::fmt;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};

use zeroize::{ZeroizeOnDrop, Zeroizing, optimization_barrier};

use super::{K1_OF_ZEROS, ROUND_KEYS_OF_ZEROS};
use crate::cpu::{AesNi, InstructionSet, Vaes512};
use crate::groups::{Cost, Job, each_group, each_tail};
use crate::partial_block::{first_octets, last_octets, load, padding_bit, shifted_up, store};

/// A key for AES-128-CMAC with its round keys: 192 octets, wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
#[repr(C)]
pub struct Key {
    round_keys: [__m128i; 11],
    /// The subkey K1; K2 is K1 doubled (RFC 4493 §2.3).
    k1: __m128i,
}

impl Key {
    /// Expands a key, or returns `None` if the processor lacks [`InstructionSet::AesNi`].
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Option<Self> {
        AesNi::detect()?;
        // SAFETY: the token proves AES-NI.
        Some(unsafe { Self::expand(key) })
    }

    /// The all-zero key, from constants. [RFC 4615](https://www.rfc-editor.org/rfc/rfc4615) uses it to turn keys of other
    /// lengths into 16 octets. `None` if the processor lacks [`InstructionSet::AesNi`].
    #[must_use]
    pub fn of_zeros() -> Option<&'static Self> {
        static KEY: Key = {
            let mut octets = [[0; 16]; 12];
            let mut round = 0;
            while round < 11 {
                octets[round] = ROUND_KEYS_OF_ZEROS[round].to_be_bytes();
                round += 1;
            }
            octets[11] = K1_OF_ZEROS.to_be_bytes();
            // SAFETY: a key is 12 vectors of 16 octets, and every bit pattern is valid.
            unsafe { core::mem::transmute::<[[u8; 16]; 12], Key>(octets) }
        };
        AesNi::detect().map(|_| &KEY)
    }

    /// The instructions that compute one message at a time.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        InstructionSet::AesNi
    }

    /// The MAC, 16 octets, of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> [u8; 16] {
        // SAFETY: a key exists only where the processor has AES-NI.
        unsafe { mac(self, &[0; 16], message) }
    }

    /// Processes blocks of a message that comes in parts into its chaining value, which starts as zeros. The last block of the message,
    /// whole or not, is for [`Self::finish`].
    #[inline]
    pub fn absorb(&self, value: &mut [u8; 16], blocks: &[[u8; 16]]) {
        // SAFETY: a key exists only where the processor has AES-NI.
        unsafe { absorb(self, value, blocks) }
    }

    /// The MAC, 16 octets, of a message whose blocks have been [absorbed](Self::absorb), all but `rest`, which is empty only if the
    /// message is.
    #[inline]
    #[must_use]
    pub fn finish(&self, value: &[u8; 16], rest: &[u8]) -> [u8; 16] {
        // SAFETY: a key exists only where the processor has AES-NI.
        unsafe { mac(self, value, &[rest]) }
    }

    #[target_feature(enable = "aes,sse4.1,ssse3")]
    fn expand(key: &[u8; 16]) -> Self {
        let round_keys = round_keys(load(key));
        leak!("CMAC: key", round_keys);
        let mut l = round_keys[0];
        for round_key in &round_keys[1..10] {
            l = _mm_aesenc_si128(l, *round_key);
        }
        let k1 = double(_mm_aesenclast_si128(l, round_keys[10]));
        Self { round_keys, k1 }
    }

    /// The last block of a message, padded if it is not whole, with the subkey added (RFC 4493 §2.4). `slice` holds its octets, at least
    /// one unless the message is empty.
    #[inline]
    #[target_feature(enable = "aes,sse4.1,ssse3")]
    fn last_block(&self, slice: &[u8]) -> __m128i {
        let length = slice.len() - 16 * blocks_before_last(slice.len());
        leak!("CMAC: last block of one of many", self.k1);
        let subkey = match length {
            16 => self.k1,
            _ => _mm_xor_si128(double(self.k1), padding_bit(length)),
        };
        _mm_xor_si128(last_octets(slice, length), subkey)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// KEYEXPANSION of a key of 16 octets (FIPS 197 §5.2).
#[target_feature(enable = "aes,sse2")]
fn round_keys(key: __m128i) -> [__m128i; 11] {
    let mut keys = [key; 11];
    macro_rules! expand {
        ($($round:literal $constant:literal)*) => {$({
            let previous = keys[$round - 1];
            // Each word is the sum of all words before it and of the last word as changed by AESKEYGENASSIST.
            let mut sum = _mm_xor_si128(previous, _mm_slli_si128::<4>(previous));
            sum = _mm_xor_si128(sum, _mm_slli_si128::<8>(sum));
            let assist = _mm_shuffle_epi32::<0xff>(_mm_aeskeygenassist_si128::<$constant>(previous));
            keys[$round] = _mm_xor_si128(sum, assist);
        })*};
    }
    expand!(1 0x01  2 0x02  3 0x04  4 0x08  5 0x10  6 0x20  7 0x40  8 0x80  9 0x1b  10 0x36);
    keys
}

/// Doubles in GF(2^128) (RFC 4493 §2.3), without a branch on the secret top bit.
#[inline]
#[target_feature(enable = "sse2,ssse3")]
fn double(v: __m128i) -> __m128i {
    let reverse = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let number = _mm_shuffle_epi8(v, reverse);
    // The carries: from the top bit of each half into the lowest bit of the other, reduced at the top.
    let tops = _mm_shuffle_epi32::<0b00_01_00_11>(_mm_srai_epi32::<31>(number));
    let carries = _mm_and_si128(tops, _mm_set_epi32(0, 1, 0, 0x87));
    _mm_shuffle_epi8(_mm_xor_si128(_mm_add_epi64(number, number), carries), reverse)
}

/// One message, or the rest of one after this chaining value. From block to block there is only AES, so its
/// latency is the time that a message takes.
///
/// The state is that of RFC 4493 with the first round key and the octets of the current block added. AES's last round adds a round key
/// anyway, so it adds that key, the first round key and the next block in one step.
#[target_feature(enable = "aes,sse4.1,ssse3")]
fn mac(key: &Key, value: &[u8; 16], message: &[&[u8]]) -> [u8; 16] {
    let keys = &key.round_keys;
    let between = _mm_xor_si128(keys[10], keys[0]);
    let mut state = _mm_xor_si128(keys[0], load(value));
    // The number of octets of the current block read so far. A full block waits, because the last block is treated differently.
    let mut position = 0;
    for slice in message {
        let mut slice = *slice;
        if position == 0
            && let Some((block, rest)) = slice.split_first_chunk()
        {
            state = _mm_xor_si128(state, load(block));
            position = 16;
            slice = rest;
        } else if position < 16 {
            let taken = slice.len().min(16 - position);
            leak!("CMAC: block in two slices", state);
            state = _mm_xor_si128(state, shifted_up(first_octets(slice, taken), position));
            position += taken;
            slice = &slice[taken..];
        }
        if slice.is_empty() {
            continue;
        }
        let (blocks, rest) = slice.as_chunks();
        state = chain(keys, state, blocks);
        position = 16;
        if !rest.is_empty() {
            state = encrypt(keys, state, _mm_xor_si128(between, last_octets(slice, rest.len())));
            position = rest.len();
        }
    }
    let last = if position == 16 { key.k1 } else { _mm_xor_si128(double(key.k1), padding_bit(position)) };
    store(encrypt(keys, _mm_xor_si128(state, last), keys[10]))
}

/// Blocks of one message that comes in parts.
#[target_feature(enable = "aes,sse4.1,ssse3")]
fn absorb(key: &Key, value: &mut [u8; 16], blocks: &[[u8; 16]]) {
    let keys = &key.round_keys;
    let Some((first, others)) = blocks.split_first() else { return };
    let state = _mm_xor_si128(_mm_xor_si128(keys[0], load(value)), load(first));
    *value = store(encrypt(keys, chain(keys, state, others), keys[10]));
}

/// The state with the next blocks added to it, one after the other.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn chain(keys: &[__m128i; 11], mut state: __m128i, blocks: &[[u8; 16]]) -> __m128i {
    let between = _mm_xor_si128(keys[10], keys[0]);
    // Unrolled by four: with less loop overhead, the processor starts sooner on the work after the chain.
    let (fours, rest) = blocks.as_chunks::<4>();
    for four in fours {
        for block in four {
            state = encrypt(keys, state, _mm_xor_si128(between, load(block)));
        }
    }
    let (twos, rest) = rest.as_chunks::<2>();
    if let [[first, second]] = twos {
        state = encrypt(keys, state, _mm_xor_si128(between, load(first)));
        state = encrypt(keys, state, _mm_xor_si128(between, load(second)));
    }
    if let [block] = rest {
        state = encrypt(keys, state, _mm_xor_si128(between, load(block)));
    }
    state
}

/// CIPHER (FIPS 197 §5.1) from the first round on, with `last` for the last round key.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn encrypt(keys: &[__m128i; 11], mut state: __m128i, last: __m128i) -> __m128i {
    leak!("CMAC: one block", state);
    for key in &keys[1..10] {
        state = _mm_aesenc_si128(state, *key);
    }
    _mm_aesenclast_si128(state, last)
}

/// The number of blocks in a tail before the last one, which is treated differently. An empty tail has that last block too.
fn blocks_before_last(octets: usize) -> usize {
    octets.saturating_sub(1) / 16
}

/// The costs of [`macs_of`] four and eight.
const COST_OF_4: Cost = Cost { once: 7, block: 1 };
const COST_OF_8: Cost = Cost { once: 13, block: 2 };

/// Computes the MACs of messages side by side, each under its own key, and returns the number computed.
///
/// A job is a number, a key, and the slices of a message. `done` gets each job's number and MAC, in any order. It is not called for
/// messages that would not be faster side by side: compute those with [`Key::mac`]. These are small groups, messages of more than two
/// slices, and messages of two slices whose first is not whole blocks of 16 octets.
pub fn mac_many<'a>(
    jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; 16]),
) -> usize {
    let vaes512 = Vaes512::detect();
    let mut count = 0;
    each_group::<_, 16>(jobs, |group| {
        if let (Some(_token), Ok(group)) = (vaes512, group.try_into()) {
            // SAFETY: the token proves the path, and the group is whole.
            unsafe { macs_of_16(group, &mut done) };
            count += group.len();
            return;
        }
        for group in group.chunks(EIGHT) {
            if group.len() <= FOUR && COST_OF_4.is_worth(group, 16) {
                // SAFETY: a key exists only where the processor has AES-NI, and the group is a part of one.
                unsafe { macs_of::<FOUR>(group, &mut done) };
            } else if group.len() > FOUR && COST_OF_8.is_worth(group, 16) {
                // SAFETY: as above.
                unsafe { macs_of::<EIGHT>(group, &mut done) };
            } else {
                continue;
            }
            count += group.len();
        }
    });
    count
}

/// As many as keep AES busy: a round takes three or four cycles, and two start in each cycle.
const EIGHT: usize = 8;
/// Half of these take half the time for a block, so that two messages gain too.
const FOUR: usize = 4;

/// The block for states to which the last block has already been added.
static ZEROS: [u8; 16] = [0; 16];

/// Computes the MACs of a group of at most `LANES` jobs.
///
/// # Safety
/// The group is one of [`each_group`], or a part of one: its heads have the same length, and its longest tail is first.
#[target_feature(enable = "aes,sse4.1,ssse3")]
unsafe fn macs_of<const LANES: usize>(group: &[Job<'_, &Key>], done: &mut impl FnMut(usize, &[u8; 16])) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last job.
    let jobs: [_; LANES] = core::array::from_fn(|lane| group.get(lane).unwrap_or(last));
    let keys = core::array::from_fn(|lane| jobs[lane].key);
    leak!("CMAC: eight messages", jobs[0].key.k1);
    let mut states = Zeroizing::new([_mm_setzero_si128(); LANES]);
    let heads = core::array::from_fn(|lane| jobs[lane].head.as_ptr());
    // SAFETY: the caller guarantees that all heads have the same length.
    unsafe { advance(&mut states, &keys, &heads, 0..jobs[0].head.len() / 16) };

    let mut ended = states.clone();
    each_tail(jobs, blocks_before_last, |starts, blocks, lanes| {
        // SAFETY: the caller guarantees the order, so `each_tail` passes only blocks that these tails have.
        unsafe { advance(&mut states, &keys, starts, blocks) };
        // Lanes that end later overwrite theirs.
        ended[..lanes].copy_from_slice(&states[..lanes]);
    });

    for (state, job) in ended.iter_mut().zip(jobs) {
        *state = _mm_xor_si128(*state, job.key.last_block(job.tail));
    }
    // SAFETY: `ZEROS` is one block.
    unsafe { advance(&mut ended, &keys, &[ZEROS.as_ptr(); LANES], 0..1) };
    for (job, state) in group.iter().zip(*ended) {
        done(job.number, &store(state));
    }
}

/// Processes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "aes,sse4.1,ssse3")]
unsafe fn advance<const LANES: usize>(
    states: &mut [__m128i; LANES],
    keys: &[&Key; LANES],
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let mut now = *states;
    for block in blocks {
        // Keeps the compiler from copying all round keys to the stack first.
        compiler_fence(Ordering::SeqCst);
        for ((state, start), key) in now.iter_mut().zip(starts).zip(keys) {
            // SAFETY: the caller guarantees the block; the load needs no alignment.
            let octets = unsafe { _mm_loadu_si128(start.add(16 * block).cast()) };
            *state = _mm_xor_si128(*state, _mm_xor_si128(octets, key.round_keys[0]));
        }
        for round in 1..10 {
            for (state, key) in now.iter_mut().zip(keys) {
                *state = _mm_aesenc_si128(*state, key.round_keys[round]);
            }
        }
        for (state, key) in now.iter_mut().zip(keys) {
            *state = _mm_aesenclast_si128(*state, key.round_keys[10]);
        }
    }
    *states = now;
}

const SIXTEEN: usize = 16;

/// The number of rounds whose keys stay in registers.
const NEAR: usize = 5;

/// Four vectors of four lanes each.
type Vectors = [__m512i; SIXTEEN / 4];

/// The round keys of all lanes, wiped on drop.
struct SideBySide(MaybeUninit<[Vectors; 11]>);

impl SideBySide {
    /// Puts the round keys of all lanes side by side.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512dq")]
    fn fill(&mut self, group: &[Job<'_, &Key>; SIXTEEN]) -> &[Vectors; 11] {
        let vectors = self.0.as_mut_ptr().cast::<__m512i>();
        for round in 0..11 {
            for (vector, jobs) in group.as_chunks::<4>().0.iter().enumerate() {
                let [first, second, third, fourth] = jobs.each_ref().map(|job| job.key.round_keys[round]);
                let key = join(first, second, third, fourth);
                // SAFETY: eleven rounds have SIXTEEN / 4 vectors each, and both indices are below these.
                unsafe { vectors.add(round * (SIXTEEN / 4) + vector).write(key) };
            }
        }
        // SAFETY: all rounds have been written.
        unsafe { self.0.assume_init_ref() }
    }
}

impl Drop for SideBySide {
    #[inline]
    fn drop(&mut self) {
        self.0 = MaybeUninit::zeroed();
        optimization_barrier(self);
    }
}

/// Computes the MACs of sixteen messages, each under its own key: four in a vector.
///
/// # Safety
/// As for [`macs_of`].
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn macs_of_16(group: &[Job<'_, &Key>; SIXTEEN], done: &mut impl FnMut(usize, &[u8; 16])) {
    let mut keys = SideBySide(MaybeUninit::uninit());
    let keys = keys.fill(group);
    leak!("CMAC: sixteen messages", keys[0]);
    let mut states = [_mm512_setzero_si512(); SIXTEEN / 4];
    let heads = group.each_ref().map(|job| job.head.as_ptr());
    // SAFETY: the caller guarantees that all heads have the same length.
    unsafe { advance_16(&mut states, keys, &heads, 0..group[0].head.len() / 16) };

    let mut ended = Zeroizing::new(split(states));
    each_tail(group.each_ref(), blocks_before_last, |starts, blocks, lanes| {
        // SAFETY: the caller guarantees the order, so `each_tail` passes only blocks that these tails have.
        unsafe { advance_16(&mut states, keys, starts, blocks) };
        // Lanes that end later overwrite theirs.
        ended[..lanes].copy_from_slice(&split(states)[..lanes]);
    });

    let (lasts, _) = ended.as_chunks::<4>();
    for (((state, ended), jobs), key) in
        states.iter_mut().zip(lasts).zip(group.as_chunks::<4>().0).zip(&keys[0])
    {
        let last = |at: usize| _mm_xor_si128(ended[at], jobs[at].key.last_block(jobs[at].tail));
        *state = _mm512_xor_si512(join(last(0), last(1), last(2), last(3)), *key);
    }
    encrypt_16(&mut states, &[], keys);
    for (job, state) in group.iter().zip(split(states)) {
        done(job.number, &store(state));
    }
}

/// Processes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[inline]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn advance_16(
    states: &mut Vectors,
    keys: &[Vectors; 11],
    starts: &[*const u8; SIXTEEN],
    blocks: Range<usize>,
) {
    let (starts, _) = starts.as_chunks::<4>();
    // As many rounds as fit in registers. Loading all keys from memory would take longer than AES.
    let near = *keys[1..].first_chunk::<NEAR>().expect("there are ten rounds");
    for block in blocks {
        for ((state, [first, second, third, fourth]), key) in states.iter_mut().zip(starts).zip(&keys[0]) {
            // SAFETY: the caller guarantees the block; the load needs no alignment.
            let load = |start: &*const u8| unsafe { _mm_loadu_si128(start.add(16 * block).cast()) };
            let octets = join(load(first), load(second), load(third), load(fourth));
            *state = _mm512_ternarylogic_epi64::<0x96>(*state, octets, *key);
        }
        encrypt_16(states, &near, keys);
    }
}

/// CIPHER (FIPS 197 §5.1) after the first round key. `near` are the keys of the first rounds.
#[inline]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn encrypt_16<const NEAR: usize>(states: &mut Vectors, near: &[Vectors; NEAR], keys: &[Vectors; 11]) {
    for round in near {
        for (state, key) in states.iter_mut().zip(round) {
            *state = _mm512_aesenc_epi128(*state, *key);
        }
    }
    // Hidden, or the compiler would copy the round keys for which it has no registers to another place on the stack.
    let keys = black_box(keys);
    for round in &keys[1 + NEAR..10] {
        for (state, key) in states.iter_mut().zip(round) {
            *state = _mm512_aesenc_epi128(*state, *key);
        }
    }
    for (state, key) in states.iter_mut().zip(&keys[10]) {
        *state = _mm512_aesenclast_epi128(*state, *key);
    }
}

/// Puts the blocks of four lanes side by side.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512dq")]
fn join(first: __m128i, second: __m128i, third: __m128i, fourth: __m128i) -> __m512i {
    let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second);
    let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(third), fourth);
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// The blocks of all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(vectors: Vectors) -> [__m128i; SIXTEEN] {
    // SAFETY: both types have the same size, and every bit pattern is valid.
    unsafe { core::mem::transmute::<Vectors, [__m128i; SIXTEEN]>(vectors) }
}
