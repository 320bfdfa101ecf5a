//! Many messages side by side, each in a lane of its own with its own key; a lane whose message ends takes the next one.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::x86::{Key, double};
use crate::cut::{end, head, store, tail, up};
use crate::worth::octets;

/// How many lanes there are: four blocks in a vector, and as many vectors as keep AES busy.
const LANES: usize = 16;

/// A message to be done: its number, its key and its slices.
pub(super) type Job<'a> = (usize, &'a Key, &'a [&'a [u8]]);

static ZEROS: [[u8; 16]; 1] = [[0; 16]];

/// The registers of all lanes, wiped on drop: blocks one behind the other in this order, from a boundary of 64 octets on.
#[repr(C, align(64))]
struct Registers {
    /// Each lane's round key of the first round, then of the second, and so on, so that one load brings those of several.
    keys: [[__m128i; LANES]; 11],
    /// The chains of RFC 4493, with what is not in whole blocks of a slice added already.
    states: [__m128i; LANES],
}

/// Where each lane's next blocks are, and how many.
struct Next {
    starts: [*const __m128i; LANES],
    counts: [usize; LANES],
}

/// More blocks than there can be.
const IDLE: usize = usize::MAX;

impl Next {
    /// How many blocks all lanes can go, and `None` when all are idle. An idle lane goes along with the one that has least.
    #[inline(always)]
    fn together(&mut self) -> Option<usize> {
        let count = self.counts.iter().fold(IDLE, |least, count| least.min(*count));
        let mut along = self.starts[0];
        for (start, other) in self.starts.iter().zip(&self.counts) {
            along = if *other == count { *start } else { along };
        }
        for (start, count) in self.starts.iter_mut().zip(&self.counts) {
            *start = if *count == IDLE { along } else { *start };
        }
        (count != IDLE).then_some(count)
    }

    /// Leaves so many blocks behind, and gives the lanes that have none left.
    #[inline(always)]
    fn leave(&mut self, count: usize) -> u32 {
        let mut ended = 0;
        for (at, (start, left)) in self.starts.iter_mut().zip(&mut self.counts).enumerate() {
            *start = start.wrapping_add(count);
            *left = if *left == IDLE { IDLE } else { *left - count };
            ended |= u32::from(*left == 0) << at;
        }
        ended
    }
}

/// Nothing but blocks, without gaps.
const _: () = assert!(size_of::<Registers>() == 12 * LANES * 16);

impl Registers {
    #[target_feature(enable = "sse2")]
    fn new() -> Self {
        let zero = _mm_setzero_si128();
        Self { keys: [[zero; LANES]; 11], states: [zero; LANES] }
    }

    /// Gives a lane its key, and the chain its beginning.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn start(&mut self, lane: usize, key: &Key) {
        for (keys, key) in self.keys.iter_mut().zip(&key.round_keys) {
            keys[lane] = *key;
        }
        self.states[lane] = _mm_setzero_si128();
    }
}

impl Drop for Registers {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the registers are as many blocks of 16 octets and nothing else, which is asserted above; octets need no boundary,
        // may be anything there, and are borrowed nowhere else.
        *unsafe { &mut *core::ptr::from_mut(self).cast::<[[u8; 16]; 12 * LANES]>() } = [[0; 16]; 12 * LANES];
        optimization_barrier(self);
    }
}

/// What there is still to come of a lane's message.
struct Rest<'a> {
    number: usize,
    /// A lane without a key is idle.
    key: Option<&'a Key>,
    /// Of this slice so many octets are taken, then come those.
    slice: &'a [u8],
    taken: usize,
    slices: &'a [&'a [u8]],
    /// The octets of all slices that are neither in the chain nor among the blocks that go there next.
    length: usize,
    /// Whether the last block is in the state, so that the MAC comes out next.
    is_last: bool,
}

impl<'a> Rest<'a> {
    const NONE: Self =
        Self { number: 0, key: None, slice: &[], taken: 0, slices: &[], length: 0, is_last: false };

    /// Begins a message. In place, since what was just written in parts cannot be read as a whole at once.
    #[inline(always)]
    fn start(&mut self, (number, key, message): Job<'a>) {
        self.number = number;
        self.key = Some(key);
        (self.slice, self.taken, self.slices) = (&[], 0, message);
        self.length = octets(message);
        self.is_last = false;
    }

    /// The next blocks for the chain. What has to be put together is added to `state`, with a block of zeros for the chain.
    ///
    /// In line, so that it is compiled for the path that it is part of.
    ///
    /// # Safety
    /// The processor has SSSE3.
    #[inline(always)]
    unsafe fn next(&mut self, key: &Key, state: &mut __m128i) -> &'a [[u8; 16]] {
        self.skip_empty();
        let rest = &self.slice[self.taken..];
        // The last block is treated apart, complete or not.
        let whole = rest.len().min(self.length.saturating_sub(1)) & !15;
        if whole > 0 {
            self.taken += whole;
            self.length -= whole;
            return rest[..whole].as_chunks().0;
        }
        let position = self.length.min(16);
        self.length -= position;
        self.is_last = self.length == 0;
        // SAFETY: the caller vouches for the processor.
        unsafe {
            let octets = if rest.len() == position {
                self.taken += position;
                tail(self.slice, position)
            } else {
                self.gather(position)
            };
            let last = match (self.is_last, position) {
                (false, _) => _mm_setzero_si128(),
                (true, 16) => key.k1,
                (true, _) => _mm_xor_si128(double(key.k1), end(position)),
            };
            *state = _mm_xor_si128(*state, _mm_xor_si128(octets, last));
        }
        &ZEROS
    }

    /// So many octets, of as many slices as it takes.
    #[target_feature(enable = "sse2,ssse3")]
    fn gather(&mut self, wanted: usize) -> __m128i {
        let mut octets = _mm_setzero_si128();
        let mut position = 0;
        while position < wanted {
            self.skip_empty();
            let rest = &self.slice[self.taken..];
            let taken = rest.len().min(wanted - position);
            octets = _mm_xor_si128(octets, up(head(rest, taken), position));
            self.taken += taken;
            position += taken;
        }
        octets
    }

    #[inline(always)]
    fn skip_empty(&mut self) {
        while self.taken == self.slice.len()
            && let Some((slice, slices)) = self.slices.split_first()
        {
            (self.slice, self.taken, self.slices) = (slice, 0, slices);
        }
    }
}

/// Defines the whole for one path, so that all of it is compiled for its instructions.
macro_rules! path {
    ($name:ident, $features:literal, $advance:ident) => {
        /// Computes the MACs of all jobs, and hands each to `done` with its job's number.
        #[target_feature(enable = $features)]
        pub(super) fn $name<'a>(jobs: impl Iterator<Item = Job<'a>>, mut done: impl FnMut(usize, &[u8; 16])) {
            let mut jobs = jobs.fuse();
            let mut rests = [const { Rest::NONE }; LANES];
            let mut registers = Registers::new();
            let mut next = Next { starts: [ZEROS.as_ptr().cast(); LANES], counts: [IDLE; LANES] };
            let mut due = 0_u32;
            for (at, rest) in rests.iter_mut().enumerate() {
                let Some(job) = jobs.next() else { break };
                rest.start(job);
                registers.start(at, job.1);
                due |= 1 << at;
            }
            loop {
                while due != 0 {
                    let at = due.trailing_zeros() as usize % LANES;
                    due &= due - 1;
                    let (rest, state) = (&mut rests[at], &mut registers.states[at]);
                    let Some(mut key) = rest.key else { continue };
                    if rest.is_last {
                        done(rest.number, &store(*state));
                        let Some(job) = jobs.next() else {
                            (rest.key, next.counts[at]) = (None, IDLE);
                            continue;
                        };
                        key = job.1;
                        rest.start(job);
                        registers.start(at, key);
                    }
                    // SAFETY: the path comes with SSSE3.
                    let blocks = unsafe { rest.next(key, &mut registers.states[at]) };
                    (next.starts[at], next.counts[at]) = (blocks.as_ptr().cast(), blocks.len());
                }
                match $advance(&mut registers, &mut next) {
                    Some(ended) => due = ended,
                    None => return,
                }
            }
        }
    };
}

path!(by_aes_ni, "aes,sse4.1,ssse3", advance_by_aes_ni);
path!(by_vaes512, "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl", advance_by_vaes512);

/// Takes blocks into the chains, eight lanes at a time: one after the other would wait for each round. Gives the lanes that
/// have none left, and `None` when all are idle.
#[inline(never)]
#[target_feature(enable = "aes,sse4.1,ssse3")]
fn advance_by_aes_ni(registers: &mut Registers, next: &mut Next) -> Option<u32> {
    const SIDE: usize = 8;
    let count = next.together()?;
    for first in (0..LANES).step_by(SIDE) {
        let starts: [_; SIDE] = core::array::from_fn(|lane| next.starts[first + lane]);
        let mut states: [__m128i; SIDE] = core::array::from_fn(|lane| registers.states[first + lane]);
        let key = |round: usize, lane: usize| registers.keys[round][first + lane];
        for block in 0..count {
            for lane in 0..SIDE {
                // SAFETY: there are at least `count` blocks at each start: a lane's own, or those of the one that has least.
                let octets = unsafe { _mm_loadu_si128(starts[lane].add(block)) };
                states[lane] = _mm_xor_si128(_mm_xor_si128(octets, key(0, lane)), states[lane]);
            }
            for round in 1..10 {
                for (lane, state) in states.iter_mut().enumerate() {
                    *state = _mm_aesenc_si128(*state, key(round, lane));
                }
            }
            for (lane, state) in states.iter_mut().enumerate() {
                *state = _mm_aesenclast_si128(*state, key(10, lane));
            }
        }
        registers.states[first..first + SIDE].copy_from_slice(&states);
    }
    Some(next.leave(count))
}

/// Takes blocks into the chains, four lanes in a vector. Gives the lanes that have none left, and `None` when all are idle.
#[inline(never)]
#[target_feature(enable = "aes,vaes,avx2,avx512f,avx512bw,avx512dq,avx512vl")]
fn advance_by_vaes512(registers: &mut Registers, next: &mut Next) -> Option<u32> {
    const VECTORS: usize = LANES / 4;
    let count = next.together()?;
    let starts = &next.starts;
    let keys = registers.keys.as_ptr().cast::<[__m512i; VECTORS]>();
    // SAFETY: there are eleven rounds, each of sixteen blocks one behind the other, which are as many octets as four vectors; they
    // come first in what lies on a boundary of 64, and a round is a multiple of that.
    let keys = unsafe { core::slice::from_raw_parts(keys, 11) };
    // SAFETY: these are sixteen blocks too, as many octets as four vectors, and lie eleven rounds behind the boundary of 64.
    let mut states = unsafe { registers.states.as_ptr().cast::<[__m512i; VECTORS]>().read() };
    for block in 0..count {
        for (vector, state) in states.iter_mut().enumerate() {
            // SAFETY: there are at least `count` blocks at each start: a lane's own, or those of the one that has least.
            let load = |lane: usize| unsafe { _mm_loadu_si128(starts[4 * vector + lane].add(block)) };
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(0)), load(1));
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(2)), load(3));
            let octets = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
            *state = _mm512_ternarylogic_epi64::<0x96>(*state, octets, keys[0][vector]);
        }
        for round in &keys[1..10] {
            for (state, key) in states.iter_mut().zip(round) {
                *state = _mm512_aesenc_epi128(*state, *key);
            }
        }
        for (state, key) in states.iter_mut().zip(&keys[10]) {
            *state = _mm512_aesenclast_epi128(*state, *key);
        }
    }
    // SAFETY: to where they were read from, on the same boundary and of the same size.
    unsafe { registers.states.as_mut_ptr().cast::<[__m512i; VECTORS]>().write(states) };
    Some(next.leave(count))
}
