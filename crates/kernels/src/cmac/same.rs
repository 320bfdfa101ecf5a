//! Messages of one shape side by side, in step: each with its own key, which stays where it lies.

use core::arch::x86_64::*;
use core::hint::black_box;
use core::mem::MaybeUninit;

use zeroize::optimization_barrier;

use super::lanes::Job;
use super::x86::double;
use crate::cut::{end, store, tail};

/// How many chains keep AES busy: a round takes three cycles, and two begin in each.
pub(super) const AES_NI_LANES: usize = 8;

/// How many chains there are where a vector has four of them.
pub(super) const VAES512_LANES: usize = 16;

/// The blocks of a group, all but the last of each message: where they are, lane by lane, and how many one after the other.
fn whole_blocks<'a, const LANES: usize>(
    jobs: &[Job<'a>; LANES],
) -> impl Iterator<Item = ([*const u8; LANES], usize)> {
    let shape = jobs[0].2;
    shape.iter().enumerate().map(move |(at, slice)| {
        let is_last = at + 1 == shape.len();
        let blocks = slice.len().saturating_sub(usize::from(is_last)) / 16;
        (core::array::from_fn(|lane| jobs[lane].2[at].as_ptr()), blocks)
    })
}

/// The last block of a message with the subkey (RFC 4493, section 2.4).
#[inline]
#[target_feature(enable = "aes,sse4.1,ssse3")]
fn last_block((_, key, message): &Job<'_>) -> __m128i {
    let slice = message.last().copied().unwrap_or_default();
    let length = slice.len() - slice.len().saturating_sub(1) / 16 * 16;
    let subkey = match length {
        16 => key.k1,
        _ => _mm_xor_si128(double(key.k1), end(length)),
    };
    _mm_xor_si128(tail(slice, length), subkey)
}

/// Computes the MACs of a group, and hands each to `done` with its job's number.
#[target_feature(enable = "aes,sse4.1,ssse3")]
pub(super) fn by_aes_ni(jobs: &[Job<'_>; AES_NI_LANES], done: &mut impl FnMut(usize, &[u8; 16])) {
    let mut states = [_mm_setzero_si128(); AES_NI_LANES];
    for (starts, blocks) in whole_blocks(jobs) {
        for block in 0..blocks {
            for (state, start) in states.iter_mut().zip(starts) {
                // SAFETY: every lane's slice is as long as the first one's, and has so many blocks.
                *state = _mm_xor_si128(*state, unsafe { _mm_loadu_si128(start.add(16 * block).cast()) });
            }
            encrypt(&mut states, jobs);
        }
    }
    for (state, job) in states.iter_mut().zip(jobs) {
        *state = _mm_xor_si128(*state, last_block(job));
    }
    encrypt(&mut states, jobs);
    for ((number, ..), state) in jobs.iter().zip(states) {
        done(*number, &store(state));
    }
}

/// A block of each chain.
#[inline]
#[target_feature(enable = "aes,sse2")]
fn encrypt(states: &mut [__m128i; AES_NI_LANES], jobs: &[Job<'_>; AES_NI_LANES]) {
    for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
        *state = _mm_xor_si128(*state, key.round_keys[0]);
    }
    for round in 1..10 {
        for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
            *state = _mm_aesenc_si128(*state, key.round_keys[round]);
        }
    }
    for (state, (_, key, _)) in states.iter_mut().zip(jobs) {
        *state = _mm_aesenclast_si128(*state, key.round_keys[10]);
    }
}

/// Four vectors of four lanes each.
type Vectors = [__m512i; VAES512_LANES / 4];

/// The round keys of all lanes, wiped on drop.
struct RoundKeys(MaybeUninit<[Vectors; 11]>);

impl RoundKeys {
    /// Puts those of the groups' keys side by side.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512dq")]
    fn fill(&mut self, groups: &[[Job<'_>; 4]; VAES512_LANES / 4]) -> &[Vectors; 11] {
        let vectors = self.0.as_mut_ptr().cast::<__m512i>();
        for round in 0..11 {
            for (vector, [first, second, third, fourth]) in groups.iter().enumerate() {
                let key = |job: &Job<'_>| job.1.round_keys[round];
                let key = join(key(first), key(second), key(third), key(fourth));
                // SAFETY: there are as many vectors for each of eleven rounds as there are groups of four lanes.
                unsafe { vectors.add(round * (VAES512_LANES / 4) + vector).write(key) };
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

/// [`by_aes_ni`] for as many as there are in four vectors.
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn by_vaes512(jobs: &[Job<'_>; VAES512_LANES], done: &mut impl FnMut(usize, &[u8; 16])) {
    // SAFETY: sixteen are four times four.
    let groups = unsafe { &*core::ptr::from_ref(jobs).cast::<[[Job<'_>; 4]; VAES512_LANES / 4]>() };
    let mut keys = RoundKeys(MaybeUninit::uninit());
    let keys = keys.fill(groups);
    let mut states = [_mm512_setzero_si512(); VAES512_LANES / 4];
    for (starts, blocks) in whole_blocks(jobs) {
        let (starts, _) = starts.as_chunks::<4>();
        for block in 0..blocks {
            for ((state, [first, second, third, fourth]), key) in states.iter_mut().zip(starts).zip(&keys[0])
            {
                // SAFETY: every lane's slice is as long as the first one's, and has so many blocks.
                let load = |start: &*const u8| unsafe { _mm_loadu_si128(start.add(16 * block).cast()) };
                let octets = join(load(first), load(second), load(third), load(fourth));
                *state = _mm512_ternarylogic_epi64::<0x96>(*state, octets, *key);
            }
            encrypt_vectors(&mut states, keys);
        }
    }
    for ((state, [first, second, third, fourth]), key) in states.iter_mut().zip(groups).zip(&keys[0]) {
        let octets = join(last_block(first), last_block(second), last_block(third), last_block(fourth));
        *state = _mm512_ternarylogic_epi64::<0x96>(*state, octets, *key);
    }
    encrypt_vectors(&mut states, keys);
    for (vector, jobs) in states.iter().zip(groups) {
        let [first, second, third, fourth] = jobs;
        done(first.0, &store(_mm512_castsi512_si128(*vector)));
        done(second.0, &store(_mm512_extracti32x4_epi32::<1>(*vector)));
        done(third.0, &store(_mm512_extracti32x4_epi32::<2>(*vector)));
        done(fourth.0, &store(_mm512_extracti32x4_epi32::<3>(*vector)));
    }
}

/// The rounds behind the first key.
#[inline]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn encrypt_vectors(states: &mut Vectors, keys: &[Vectors; 11]) {
    // Hidden, since the compiler would otherwise copy what it has no registers for to other places of the stack.
    let keys = black_box(keys);
    for round in &keys[1..10] {
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
