//! HMACs of many messages side by side, each in a lane of its own; a lane whose message ends takes the next one.

use core::arch::x86_64::*;

use zeroize::optimization_barrier;

use super::Job;
use super::last::{BLOCK, Buffer, last_block};
use crate::cut;
use crate::worth::octets;

/// How many lanes there are: the words of a vector of 64 octets.
pub(crate) const LANES: usize = 16;

/// The chaining values of all lanes: their first words, then their second words, and so on.
pub(crate) type States<const WORDS: usize> = [[u32; LANES]; WORDS];

/// Takes as many blocks as the number says, from each start, into the chaining values of the lanes.
///
/// # Safety
/// The processor has the path, and there are so many blocks at every start.
pub(crate) type Advance<const WORDS: usize> =
    unsafe fn(&mut States<WORDS>, &[*const [u8; BLOCK]; LANES], usize);

/// What the lanes keep in memory, wiped on drop.
struct Registers<const WORDS: usize> {
    states: States<WORDS>,
    /// Blocks that are not whole in a slice.
    blocks: [[[u8; BLOCK]; 2]; LANES],
}

impl<const WORDS: usize> Drop for Registers<WORDS> {
    #[inline]
    fn drop(&mut self) {
        self.states = [[0; LANES]; WORDS];
        self.blocks = [[[0; BLOCK]; 2]; LANES];
        optimization_barrier(self);
    }
}

/// What the blocks that go into the chaining value next are.
#[derive(Clone, Copy)]
enum Stage {
    /// Of the message, but not its last.
    Message,
    /// The message's last, with its padding.
    Last,
    /// The inner hash.
    Outer,
}

/// The blocks that go into the chaining value next.
#[derive(Clone, Copy)]
enum Next<'a> {
    Slice(&'a [[u8; BLOCK]]),
    /// The lane's own, from one to before another.
    Own(usize, usize),
}

impl Next<'_> {
    const fn count(self) -> usize {
        match self {
            Self::Slice(blocks) => blocks.len(),
            Self::Own(from, to) => to - from,
        }
    }
}

struct Lane<'a, const WORDS: usize> {
    number: usize,
    /// The chaining value behind the outer key; a lane without it is idle.
    outer: Option<&'a [u32; WORDS]>,
    slice: &'a [u8],
    slices: &'a [&'a [u8]],
    /// The octets of the message, and those of them that are neither in the chaining value nor among the next blocks.
    length: usize,
    left: usize,
    stage: Stage,
    next: Next<'a>,
}

impl<'a, const WORDS: usize> Lane<'a, WORDS> {
    const IDLE: Self = Self {
        number: 0,
        outer: None,
        slice: &[],
        slices: &[],
        length: 0,
        left: 0,
        stage: Stage::Message,
        next: Next::Own(0, 0),
    };

    /// Begins a message. In place, since what was just written in parts cannot be read as a whole at once.
    #[inline(always)]
    fn start(
        &mut self,
        (number, [inner, outer], message): Job<'a, WORDS>,
        at: usize,
        states: &mut States<WORDS>,
    ) {
        for (words, inner) in states.iter_mut().zip(inner) {
            words[at] = *inner;
        }
        self.number = number;
        self.outer = Some(outer);
        self.slice = &[];
        self.slices = message;
        self.length = octets(message);
        self.left = self.length;
        self.stage = Stage::Message;
    }

    /// Finds the message's next blocks.
    #[inline]
    #[target_feature(enable = "sse4.1,ssse3")]
    fn message(&mut self, own: &mut [[u8; BLOCK]; 2]) {
        self.skip_empty();
        let (blocks, rest) = self.slice.as_chunks();
        if !blocks.is_empty() {
            (self.slice, self.left) = (rest, self.left - BLOCK * blocks.len());
            self.next = Next::Slice(blocks);
            return;
        }
        if self.slice.len() == self.left {
            self.last(self.slice, own);
            return;
        }
        let mut buffer = Buffer::new();
        while buffer.length < self.left.min(BLOCK) {
            self.skip_empty();
            self.slice = buffer.take(self.slice);
        }
        self.left -= buffer.length;
        if buffer.length < BLOCK {
            self.last(&buffer.octets[..buffer.length], own);
        } else {
            own[0] = buffer.octets;
            self.next = Next::Own(0, 1);
        }
    }

    /// Makes the last blocks: these octets and the padding (FIPS 180-4, section 5.1.1).
    #[inline]
    #[target_feature(enable = "sse4.1,ssse3")]
    fn last(&mut self, octets: &[u8], own: &mut [[u8; BLOCK]; 2]) {
        let (parts, _) = own[0].as_chunks_mut();
        for (part, octets) in parts.iter_mut().zip(last_block(octets, octets.len())) {
            *part = cut::store(octets);
        }
        let last = if octets.len() < BLOCK - 8 { 0 } else { 1 };
        if last == 1 {
            own[1] = [0; BLOCK];
        }
        own[last][BLOCK - 8..].copy_from_slice(&(8 * (BLOCK + self.length) as u64).to_be_bytes());
        self.stage = Stage::Last;
        self.next = Next::Own(0, last + 1);
    }

    /// Makes the one block of the outer hash from the inner one.
    #[inline(always)]
    fn outer(&mut self, outer: &[u32; WORDS], at: usize, registers: &mut Registers<WORDS>) {
        let [own, _] = &mut registers.blocks[at];
        let (parts, _) = own.as_chunks_mut();
        for ((part, words), outer) in parts.iter_mut().zip(&mut registers.states).zip(outer) {
            *part = words[at].to_be_bytes();
            words[at] = *outer;
        }
        own[4 * WORDS..].fill(0);
        own[4 * WORDS] = 0x80;
        own[BLOCK - 2..].copy_from_slice(&(8 * (BLOCK + 4 * WORDS) as u16).to_be_bytes());
        self.stage = Stage::Outer;
        self.next = Next::Own(0, 1);
    }

    #[inline]
    fn skip_empty(&mut self) {
        while self.slice.is_empty()
            && let Some((slice, slices)) = self.slices.split_first()
        {
            (self.slice, self.slices) = (slice, slices);
        }
    }
}

/// Computes the HMACs of all jobs, and tells `each` their numbers with them.
///
/// # Safety
/// The processor has the path of `advance`.
#[target_feature(enable = "sse4.1,ssse3")]
pub(crate) unsafe fn run<'a, const WORDS: usize>(
    jobs: impl Iterator<Item = Job<'a, WORDS>>,
    advance: Advance<WORDS>,
    mut each: impl FnMut(usize, [u32; WORDS]),
) {
    let mut jobs = jobs.fuse();
    let mut lanes = [const { Lane::IDLE }; LANES];
    let mut registers = Registers { states: [[0; LANES]; WORDS], blocks: [[[0; BLOCK]; 2]; LANES] };
    let mut started = 0;
    for (at, lane) in lanes.iter_mut().enumerate() {
        let Some(job) = jobs.next() else { break };
        lane.start(job, at, &mut registers.states);
        started += 1;
    }
    for (lane, own) in lanes[..started].iter_mut().zip(&mut registers.blocks) {
        lane.message(own);
    }
    loop {
        // All go as far as the one that has least; an idle lane goes along with that one.
        let mut shortest: Option<(usize, usize)> = None;
        for (at, lane) in lanes.iter().enumerate() {
            let count = lane.next.count();
            if lane.outer.is_some() && shortest.is_none_or(|(_, least)| count < least) {
                shortest = Some((at, count));
            }
        }
        let Some((shortest, count)) = shortest else { return };
        let starts = core::array::from_fn(|at| {
            let at = if lanes[at].outer.is_some() { at } else { shortest };
            match lanes[at].next {
                Next::Slice(blocks) => blocks[..count].as_ptr(),
                Next::Own(from, _) => registers.blocks[at][from..][..count].as_ptr(),
            }
        });
        // SAFETY: there are `count` blocks at each start, or making it would have ended in a panic; the caller vouches for the path.
        unsafe { advance(&mut registers.states, &starts, count) };
        for (at, lane) in lanes.iter_mut().enumerate() {
            let Some(outer) = lane.outer else { continue };
            match &mut lane.next {
                Next::Slice(blocks) => *blocks = &blocks[count..],
                Next::Own(from, _) => *from += count,
            }
            if lane.next.count() > 0 {
                continue;
            }
            match lane.stage {
                Stage::Message => lane.message(&mut registers.blocks[at]),
                Stage::Last => lane.outer(outer, at, &mut registers),
                Stage::Outer => {
                    each(lane.number, core::array::from_fn(|word| registers.states[word][at]));
                    match jobs.next() {
                        Some(job) => {
                            lane.start(job, at, &mut registers.states);
                            lane.message(&mut registers.blocks[at]);
                        }
                        None => lane.outer = None,
                    }
                }
            }
        }
    }
}

/// The chaining values as vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load<const WORDS: usize>(states: &States<WORDS>) -> [__m512i; WORDS] {
    // SAFETY: a word of each lane is 64 octets, and they may lie anywhere.
    core::array::from_fn(|word| unsafe { _mm512_loadu_si512(states[word].as_ptr().cast()) })
}

/// Sets the chaining values to the first of these vectors.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store<const WORDS: usize>(states: &mut States<WORDS>, words: &[__m512i]) {
    for (state, word) in states.iter_mut().zip(words) {
        // SAFETY: a word of each lane is 64 octets, and they may lie anywhere.
        unsafe { _mm512_storeu_si512(state.as_mut_ptr().cast(), *word) };
    }
}

/// Words in order of the octets of a message, from one block of each lane: the first words of all, then the second words.
///
/// # Safety
/// There is a block at each start.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn words_of_lanes(starts: &[*const [u8; BLOCK]; LANES], block: usize) -> [__m512i; 16] {
    let big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
    let lanes: [__m512i; LANES] = core::array::from_fn(|lane| {
        // SAFETY: there are 64 octets, and they may lie anywhere.
        let octets = unsafe { _mm512_loadu_si512(starts[lane].add(block).cast()) };
        _mm512_shuffle_epi8(octets, big_endian)
    });
    transpose(lanes)
}

/// Sixteen vectors of the first elements, the second elements, and so on.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    // Of two rows each, of four, then all: which element of a quarter of a vector it is, then which quarter.
    let pairs: [__m512i; 16] = core::array::from_fn(|at| match at % 2 {
        0 => _mm512_unpacklo_epi32(rows[at], rows[at + 1]),
        _ => _mm512_unpackhi_epi32(rows[at - 1], rows[at]),
    });
    let fours: [__m512i; 16] = core::array::from_fn(|at| {
        let from = at / 4 * 4 + at % 4 / 2;
        match at % 2 {
            0 => _mm512_unpacklo_epi64(pairs[from], pairs[from + 2]),
            _ => _mm512_unpackhi_epi64(pairs[from], pairs[from + 2]),
        }
    });
    let halves: [__m512i; 16] = core::array::from_fn(|at| {
        let (first, second) = (fours[at / 8 * 8 + at % 4], fours[at / 8 * 8 + at % 4 + 4]);
        match at / 4 % 2 {
            0 => _mm512_shuffle_i32x4::<0x88>(first, second),
            _ => _mm512_shuffle_i32x4::<0xdd>(first, second),
        }
    });
    core::array::from_fn(|at| {
        let (first, second) = (halves[at % 8], halves[8 + at % 8]);
        match at / 8 {
            0 => _mm512_shuffle_i32x4::<0x88>(first, second),
            _ => _mm512_shuffle_i32x4::<0xdd>(first, second),
        }
    })
}
