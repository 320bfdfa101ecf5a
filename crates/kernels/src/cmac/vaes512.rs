//! Sixteen messages side by side, each under its own key, four in a vector.

use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::ops::Range;

use zeroize::{Zeroizing, optimization_barrier};

use super::key::Key;
use crate::groups::Job;
use crate::partial_block::store;

const LANES: usize = 16;

/// How many rounds' keys stay in registers.
const NEAR: usize = 5;

/// Four vectors of four lanes each.
type Vectors = [__m512i; LANES / 4];

/// The round keys of all lanes, wiped on drop.
struct RoundKeys(MaybeUninit<[Vectors; 11]>);

impl RoundKeys {
    /// Puts the round keys of all lanes side by side.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512dq")]
    fn fill(&mut self, group: &[Job<'_, &Key>; LANES]) -> &[Vectors; 11] {
        let vectors = self.0.as_mut_ptr().cast::<__m512i>();
        for round in 0..11 {
            for (vector, jobs) in group.as_chunks::<4>().0.iter().enumerate() {
                let [first, second, third, fourth] = jobs.each_ref().map(|job| job.key.round_keys[round]);
                let key = join(first, second, third, fourth);
                // SAFETY: there are as many vectors for each of eleven rounds as there are groups of four lanes.
                unsafe { vectors.add(round * (LANES / 4) + vector).write(key) };
            }
        }
        // SAFETY: all rounds have been written.
        unsafe { self.0.assume_init_ref() }
    }
}

impl Drop for RoundKeys {
    #[inline]
    fn drop(&mut self) {
        self.0 = MaybeUninit::zeroed();
        optimization_barrier(self);
    }
}

/// Computes the MACs of a group, the longest first.
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn macs(group: &[Job<'_, &Key>; LANES], done: &mut impl FnMut(usize, &[u8; 16])) {
    let mut keys = RoundKeys(MaybeUninit::uninit());
    let keys = keys.fill(group);
    leak!("CMAC: sixteen messages", keys[0]);
    let mut states = [_mm512_setzero_si512(); LANES / 4];
    let heads = group.each_ref().map(|job| job.head.as_ptr());
    // SAFETY: all heads have the same length.
    unsafe { advance(&mut states, keys, &heads, 0..group[0].head.len() / 16) };

    let mut tails = group.each_ref().map(|job| job.tail.as_ptr());
    let mut ended = Zeroizing::new(split(states));
    let mut taken = 0;
    // From the shortest on. A lane whose message has ended reads the first one's octets, and its state no longer matters.
    for lane in (0..LANES).rev() {
        let blocks = group[lane].tail.len().saturating_sub(1) / 16;
        if blocks > taken {
            // SAFETY: this lane and those before have so many blocks, and the ones behind read the first one's.
            unsafe { advance(&mut states, keys, &tails, taken..blocks) };
            taken = blocks;
            // Lanes that end later set theirs again.
            ended[..=lane].copy_from_slice(&split(states)[..=lane]);
        }
        tails[lane] = tails[0];
    }

    let (lasts, _) = ended.as_chunks::<4>();
    for (((state, ended), jobs), key) in
        states.iter_mut().zip(lasts).zip(group.as_chunks::<4>().0).zip(&keys[0])
    {
        let last = |at: usize| _mm_xor_si128(ended[at], jobs[at].key.last_block(jobs[at].tail));
        *state = _mm512_xor_si512(join(last(0), last(1), last(2), last(3)), *key);
    }
    encrypt(&mut states, &[], keys);
    for (job, state) in group.iter().zip(split(states)) {
        done(job.number, &store(state));
    }
}

/// Takes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[inline]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn advance(
    states: &mut Vectors,
    keys: &[Vectors; 11],
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let (starts, _) = starts.as_chunks::<4>();
    // As many rounds as there are registers for. All keys from memory would take longer to load than AES takes.
    let near = *keys[1..].first_chunk::<NEAR>().expect("there are ten rounds");
    for block in blocks {
        for ((state, [first, second, third, fourth]), key) in states.iter_mut().zip(starts).zip(&keys[0]) {
            // SAFETY: the block is there, and it needs no alignment.
            let load = |start: &*const u8| unsafe { _mm_loadu_si128(start.add(16 * block).cast()) };
            let octets = join(load(first), load(second), load(third), load(fourth));
            *state = _mm512_ternarylogic_epi64::<0x96>(*state, octets, *key);
        }
        encrypt(states, &near, keys);
    }
}

/// CIPHER (FIPS 197 §5.1) behind the first round key. `near` are the keys of the first rounds.
#[inline]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn encrypt<const NEAR: usize>(states: &mut Vectors, near: &[Vectors; NEAR], keys: &[Vectors; 11]) {
    for round in near {
        for (state, key) in states.iter_mut().zip(round) {
            *state = _mm512_aesenc_epi128(*state, *key);
        }
    }
    // Hidden, or the compiler would copy the round keys that it has no registers for to other places on the stack.
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
fn split(vectors: Vectors) -> [__m128i; LANES] {
    // SAFETY: both are as many octets, and all values are allowed.
    unsafe { core::mem::transmute::<Vectors, [__m128i; LANES]>(vectors) }
}
