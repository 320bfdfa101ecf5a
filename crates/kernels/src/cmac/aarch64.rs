//! AES-128-CMAC with AArch64's AES instructions, of one message or of eight side by side.
//!
//! AESE adds a round key before it substitutes, so a block can be added together with the first round key and the previous block's last
//! one: from block to block there is nothing but AES. A state is AES's result before the last round key.

use core::arch::aarch64::*;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};

use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{K1_OF_ZEROS, ROUND_KEYS_OF_ZEROS};
use crate::aes::Engine;
use crate::aes::aarch64::octets_of_number;
use crate::aes::vector::{ROUND_KEYS, short_number};
use crate::cpu::InstructionSet;
use crate::groups::{Cost, Job, each_group, each_tail};

/// A key for AES-128-CMAC with its round keys: 192 octets, wiped on drop. If one exists, the processor has AES.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Key {
    /// The round keys without the last.
    round_keys: [u128; 10],
    /// The sum of the last round key and the first.
    between: u128,
    /// The subkey K1; K2 is K1 doubled (RFC 4493 §2.3).
    k1: u128,
}

impl Key {
    /// Expands a key, or returns `None` if the processor lacks
    /// [`InstructionSet::Aarch64Aes`].
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Option<Self> {
        let engine = Engine::detect()?;
        let mut keys = Zeroizing::new([0; ROUND_KEYS]);
        let rounds = engine.expand(key, &mut keys)?;
        leak!("CMAC: key", *keys);
        let l = u128::from_le_bytes(engine.encrypt(&keys, rounds, &[0; 16]));
        let (round_keys, last) = keys.split_first_chunk()?;
        Some(Self { round_keys: *round_keys, between: last[0] ^ round_keys[0], k1: double(l) })
    }

    /// The all-zero key, from constants. [RFC 4615](https://www.rfc-editor.org/rfc/rfc4615) uses it to turn keys of other
    /// lengths into 16 octets. `None` if the processor lacks [`InstructionSet::Aarch64Aes`].
    #[must_use]
    pub fn of_zeros() -> Option<&'static Self> {
        static KEY: Key = {
            let mut round_keys = [0; 10];
            let mut round = 0;
            while round < 10 {
                round_keys[round] = ROUND_KEYS_OF_ZEROS[round].swap_bytes();
                round += 1;
            }
            // The first round key is zero.
            Key { round_keys, between: ROUND_KEYS_OF_ZEROS[10].swap_bytes(), k1: K1_OF_ZEROS.swap_bytes() }
        };
        Engine::detect().map(|_| &KEY)
    }

    /// The instructions that compute one message at a time.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        InstructionSet::Aarch64Aes
    }

    /// The MAC, 16 octets, of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> [u8; 16] {
        // SAFETY: a key exists only where the processor has AES.
        unsafe { mac(self, &[0; 16], message) }
    }

    /// Processes blocks of a message that comes in parts into its chaining value, which starts as zeros. The last block of the message,
    /// whole or not, is for [`Self::finish`].
    #[inline]
    pub fn absorb(&self, value: &mut [u8; 16], blocks: &[[u8; 16]]) {
        // SAFETY: a key exists only where the processor has AES.
        unsafe { absorb(self, value, blocks) }
    }

    /// The MAC, 16 octets, of a message whose blocks have been [absorbed](Self::absorb), all but `rest`, which is empty only if the
    /// message is.
    #[inline]
    #[must_use]
    pub fn finish(&self, value: &[u8; 16], rest: &[u8]) -> [u8; 16] {
        // SAFETY: a key exists only where the processor has AES.
        unsafe { mac(self, value, &[rest]) }
    }

    /// The last block of a message, which holds these octets, with the subkey added (RFC 4493 §2.4).
    #[inline]
    fn last_block(&self, octets: &[u8]) -> u128 {
        self.with_subkey(short_number(octets), octets.len())
    }

    /// The last block with the subkey added. `block` holds these octets, and is padded if it is not whole.
    #[inline]
    fn with_subkey(&self, block: u128, octets: usize) -> u128 {
        leak!("CMAC and HMAC: short message", block);
        match octets {
            16 => block ^ self.k1,
            _ => block ^ 0x80 << (8 * octets) ^ double(self.k1),
        }
    }

    /// The state before the first block, for a chaining value of zeros; it cancels out the last round key.
    #[inline]
    fn start(&self) -> u128 {
        self.between ^ self.round_keys[0]
    }

    /// The chaining value, or the MAC, from the state after a block.
    #[inline]
    fn value(&self, state: u128) -> [u8; 16] {
        (state ^ self.start()).to_le_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Doubles in GF(2^128) (RFC 4493 §2.3), without a branch on the secret top bit.
#[inline]
fn double(block: u128) -> u128 {
    let number = block.swap_bytes();
    (number << 1 ^ 0x87 & (number >> 127).wrapping_neg()).swap_bytes()
}

/// The 16 octets of a round key.
#[inline]
#[target_feature(enable = "neon")]
fn vector(key: &u128) -> uint8x16_t {
    // SAFETY: a `u128` has 16 octets.
    unsafe { vld1q_u8(core::ptr::from_ref(key).cast()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array has 16 octets; the access needs no alignment.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn number(v: uint8x16_t) -> u128 {
    let words = vreinterpretq_u64_u8(v);
    u128::from(vgetq_lane_u64::<0>(words)) | u128::from(vgetq_lane_u64::<1>(words)) << 64
}

/// One message, or the rest of one after this chaining value. Its time is the latency of AES.
#[target_feature(enable = "neon,aes")]
fn mac(key: &Key, value: &[u8; 16], message: &[&[u8]]) -> [u8; 16] {
    let between = vector(&key.between);
    let mut state = octets_of_number(key.start() ^ u128::from_le_bytes(*value));
    // The current block, and the number of its octets read so far. A full block waits, because the last block is treated differently.
    let mut block = vdupq_n_u8(0);
    let mut position = 0;
    for slice in message {
        let (octets, slice) = slice.split_at(slice.len().min(16 - position));
        if !octets.is_empty() {
            leak!("CMAC: block in two slices", state);
            block = veorq_u8(block, octets_of_number(short_number(octets) << (8 * position)));
            position += octets.len();
        }
        let (blocks, rest) = slice.as_chunks();
        for next in blocks {
            state = encrypt(key, state, veorq_u8(between, block));
            block = load(next);
        }
        if !rest.is_empty() {
            state = encrypt(key, state, veorq_u8(between, block));
            block = octets_of_number(short_number(rest));
            position = rest.len();
        }
    }
    let last = octets_of_number(key.with_subkey(number(block), position));
    key.value(number(encrypt(key, state, veorq_u8(between, last))))
}

/// Blocks of one message that comes in parts.
#[target_feature(enable = "neon,aes")]
fn absorb(key: &Key, value: &mut [u8; 16], blocks: &[[u8; 16]]) {
    let between = vector(&key.between);
    let mut state = octets_of_number(key.start() ^ u128::from_le_bytes(*value));
    for block in blocks {
        state = encrypt(key, state, veorq_u8(between, load(block)));
    }
    *value = key.value(number(state));
}

/// CIPHER (FIPS 197 §5.1) without its last round key, of the sum of two blocks.
#[inline]
#[target_feature(enable = "neon,aes")]
fn encrypt(key: &Key, mut state: uint8x16_t, mut added: uint8x16_t) -> uint8x16_t {
    leak!("CMAC: one block", state);
    for round_key in &key.round_keys[1..] {
        state = vaesmcq_u8(vaeseq_u8(state, added));
        added = vector(round_key);
    }
    vaeseq_u8(state, added)
}

/// The number of blocks in a tail before the last one, which is treated differently. An empty tail has that last block too.
fn blocks_before_last(octets: usize) -> usize {
    octets.saturating_sub(1) / 16
}

/// The cost of [`macs`]. Not measured: `block` is from llvm-mca's model of Neoverse N1, `once` is about the value for AES-NI.
const COST: Cost = Cost { once: 12, block: 4 };

/// Computes the MACs of messages side by side, each under its own key, and returns the number computed.
///
/// A job is a number, a key, and the slices of a message. `done` gets each job's number and MAC, in any order. It is not called for
/// messages that would not be faster side by side: compute those with [`Key::mac`]. These are small groups, messages of more than two
/// slices, and messages of two slices whose first is not whole blocks of 16 octets.
pub fn mac_many<'a>(
    jobs: impl Iterator<Item = (usize, &'a Key, &'a [&'a [u8]])>,
    mut done: impl FnMut(usize, &[u8; 16]),
) -> usize {
    let mut count = 0;
    each_group::<_, 16>(jobs, |group| {
        for group in group.chunks(LANES).filter(|group| COST.is_worth(group, 16)) {
            // SAFETY: a key exists only where the processor has AES, and the group is a part of one.
            unsafe { macs(group, &mut done) };
            count += group.len();
        }
    });
    count
}

/// As many as keep AES busy in llvm-mca's model of Neoverse V2, which starts four AES instructions in each cycle.
const LANES: usize = 8;

/// Computes the MACs of a group of at most [`LANES`] jobs.
///
/// # Safety
/// The group is one of [`each_group`], or a part of one: its heads have the same length, and its longest tail is first.
#[target_feature(enable = "neon,aes")]
unsafe fn macs(group: &[Job<'_, &Key>], done: &mut impl FnMut(usize, &[u8; 16])) {
    let Some(last) = group.last() else { return };
    // Lanes without a job repeat the last job.
    let jobs: [_; LANES] = core::array::from_fn(|lane| group.get(lane).unwrap_or(last));
    let keys = jobs.map(|job| job.key);
    leak!("CMAC: eight messages", keys[0].k1);
    let mut states = Zeroizing::new(keys.map(|key| key.start()));
    let heads = jobs.map(|job| job.head.as_ptr());
    // SAFETY: the caller guarantees that all heads have the same length.
    unsafe { advance(&mut states, &keys, &heads, 0..jobs[0].head.len() / 16) };

    let mut ended = states.clone();
    each_tail(jobs, blocks_before_last, |starts, blocks, lanes| {
        // SAFETY: the caller guarantees the order, so `each_tail` passes only blocks that these tails have.
        unsafe { advance(&mut states, &keys, starts, blocks) };
        // Lanes that end later overwrite theirs.
        ended[..lanes].copy_from_slice(&states[..lanes]);
    });

    let last_blocks = Zeroizing::new(jobs.map(|job| {
        leak!("CMAC: last block of one of many", job.key.k1);
        job.key.last_block(&job.tail[16 * blocks_before_last(job.tail.len())..])
    }));
    let lasts = last_blocks.each_ref().map(|last| core::ptr::from_ref(last).cast());
    // SAFETY: each pointer is to one block.
    unsafe { advance(&mut ended, &keys, &lasts, 0..1) };
    for (job, state) in group.iter().zip(&*ended) {
        done(job.number, &job.key.value(*state));
    }
}

/// Processes the blocks with these indices into the states.
///
/// # Safety
/// Each pointer is valid for reads of all these blocks.
#[target_feature(enable = "neon,aes")]
unsafe fn advance(
    states: &mut [u128; LANES],
    keys: &[&Key; LANES],
    starts: &[*const u8; LANES],
    blocks: Range<usize>,
) {
    let mut now = states.map(|state| octets_of_number(state));
    for block in blocks {
        // Keeps the compiler from copying all round keys to the stack first.
        compiler_fence(Ordering::SeqCst);
        for ((state, start), key) in now.iter_mut().zip(starts).zip(keys) {
            // SAFETY: the caller guarantees the block; the load needs no alignment.
            let octets = unsafe { vld1q_u8(start.add(16 * block)) };
            *state = vaesmcq_u8(vaeseq_u8(*state, veorq_u8(octets, vector(&key.between))));
        }
        for round in 1..9 {
            for (state, key) in now.iter_mut().zip(keys) {
                *state = vaesmcq_u8(vaeseq_u8(*state, vector(&key.round_keys[round])));
            }
        }
        for (state, key) in now.iter_mut().zip(keys) {
            *state = vaeseq_u8(*state, vector(&key.round_keys[9]));
        }
    }
    *states = now.map(|state| number(state));
}
