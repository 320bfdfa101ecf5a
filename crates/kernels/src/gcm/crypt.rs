//! GCM over a packet: AES of one group of blocks while the group before is hashed.
//!
//! The blocks that AES turns into key stream are counted from 1, whose key stream masks the tag, so that the text begins in the
//! second place. The first is free in GHASH, where the associated data's last block takes it. Groups are thus groups of both.

use super::hash::{Products, multiply};
use super::{Mask, POWERS, Packet};
use crate::aes::Block;
use crate::aes::vector::{Vector, encrypt_rounds, load_short, octets_of};

/// A group's block counters less those of the groups before. The sixteenth is zero, because it goes with those of the next group.
#[repr(C, align(64))]
struct Counts([[u8; 16]; 16]);

static COUNTS: Counts = {
    let mut counts = [[0; 16]; 16];
    let mut at = 0;
    while at < 15 {
        counts[at][15] = at as u8 + 1;
        at += 1;
    }
    Counts(counts)
};

/// A key at work on a packet.
///
/// Unsafe to use as the functions of [`Vector`] are; `key` and `packet` are what [`crypt`] was given.
struct State<'a, V: Vector, const ROUNDS: usize> {
    key: *const u8,
    packet: Packet<'a>,
    /// The nonce and the first round key.
    base: V,
    /// The key stream that masks the tag.
    tag_mask: Block,
    /// The header mask, as far as it has been made.
    mask: Option<Mask<'a>>,
    masked: Option<Block>,
}

/// A group to be hashed.
#[derive(Clone, Copy)]
struct Hashed<V> {
    at: *const u8,
    first: V,
}

impl<V: Vector> Hashed<V> {
    /// A register of it, to the first of which the hash so far is added. Unsafe to call as the functions of [`Vector`] are.
    #[inline(always)]
    unsafe fn register(&self, index: usize, hash: Block) -> V {
        // SAFETY: the text is longer than the group.
        unsafe {
            if index == 0 {
                V::xor(V::swap_octets(self.first), V::first(hash))
            } else {
                V::swap_octets(V::load(self.at.wrapping_add(16 * V::BLOCKS * index)))
            }
        }
    }
}

/// `$body` for every round between the first and the last, with its number as `R`.
macro_rules! rounds {
    ($body:block) => {
        rounds!($body: 1 2 3 4 5 6 7 8 9);
        if ROUNDS == 14 {
            rounds!($body: 10 11 12 13);
        }
    };
    ($body:block: $($round:literal)*) => {$({
        const R: usize = $round;
        $body
    })*};
}

impl<V: Vector, const ROUNDS: usize> State<'_, V, ROUNDS> {
    const WIDTH: usize = 16 * V::BLOCKS;

    #[inline(always)]
    unsafe fn round_key(&self, round: usize) -> V {
        // SAFETY: there are that many.
        unsafe { V::load_every(self.key.add(16 * (POWERS + round))) }
    }

    /// As many powers of H as a register holds, the first of them H^`power`.
    #[inline(always)]
    unsafe fn powers(&self, power: usize) -> V {
        // SAFETY: behind H^1 come round keys, more than a register holds.
        unsafe { V::load(self.key.add(16 * (POWERS - power))) }
    }

    /// The base with the counter `block`, a multiple of the group's blocks, to which [`COUNTS`] are then added.
    #[inline(always)]
    unsafe fn base_at(&self, block: usize) -> V {
        // SAFETY: as the caller's.
        unsafe { V::xor(self.base, V::count(block as u32)) }
    }

    /// The first `N` registers of a group of `GROUP`, before their first round.
    #[inline(always)]
    unsafe fn counters<const N: usize, const GROUP: usize>(here: V, next: V) -> [V; N] {
        let mut counters = [here; N];
        for (at, counter) in counters.iter_mut().enumerate() {
            // SAFETY: there are 16 counts.
            unsafe {
                let here = if at == GROUP - 1 { V::with_last(here, next) } else { here };
                if V::BLOCKS > 1 || at != GROUP - 1 {
                    *counter = V::xor(here, V::load(COUNTS.0.as_ptr().cast::<u8>().add(Self::WIDTH * at)));
                } else {
                    *counter = here;
                }
            }
        }
        counters
    }

    /// The hash of the associated data but for its last block, with this added: what the first place takes.
    #[inline(always)]
    unsafe fn hash_aad(&self) -> Block {
        let aad = self.packet.aad;
        let split = aad.len().saturating_sub(1) & !15;
        let (mut blocks, last) = aad.split_at(split);
        // SAFETY: the power is among those that there are, and the blocks are whole.
        unsafe {
            let last = Block::swap_octets(load_short(last));
            let mut sum = Block::zero();
            while !blocks.is_empty() {
                let (run, rest) = blocks.split_at(blocks.len().min(256));
                blocks = rest;
                let count = run.len() / 16;
                let power = |at: usize| Block::load(self.key.add(16 * (POWERS - count + at)));
                let block = |at: usize| Block::swap_octets(Block::load(run.as_ptr().add(16 * at)));
                let mut products = Products::of(Block::xor(sum, block(0)), power(0));
                for at in 1..count {
                    products.add(block(at), power(at));
                }
                sum = products.reduce();
            }
            Block::xor(sum, last)
        }
    }

    /// Makes the header mask, if its sample is at the start of the text, whose registers these are.
    #[inline(always)]
    unsafe fn mask_from<const N: usize>(&mut self, outputs: &[V; N]) {
        let length = self.packet.length;
        if let Some(mask) = self.mask.filter(|mask| mask.sample <= 16 && mask.sample + 16 <= length) {
            // SAFETY: the mask's key has as many round keys as its rounds need.
            unsafe {
                let start = V::second_and_third([outputs[0], outputs[1.min(N - 1)], outputs[2.min(N - 1)]]);
                let sample = octets_of(start, mask.sample);
                let [masked] = encrypt_rounds(mask.key.keys.as_ptr().cast(), mask.key.rounds, [sample]);
                self.masked = Some(masked);
            }
        }
    }

    /// A whole group, while another is hashed: that before which was sealed, or the same which is to be opened.
    ///
    /// `sealed` is where the group before is, and its first register, whose octets are not all in the text if it was the
    /// packet's first. What it is for the next group is returned.
    #[inline(always)]
    unsafe fn whole_group<const OPEN: bool, const GROUP: usize, const FIRST: bool>(
        &mut self,
        at: *mut u8,
        (here, next): (V, V),
        sealed: Option<Hashed<V>>,
        hash: &mut Block,
    ) -> Hashed<V> {
        // SAFETY: the text is longer than the group.
        unsafe {
            let edge = V::edge(16, Self::WIDTH);
            let first_input = if FIRST { V::load_edge(at, edge) } else { V::load(at) };
            let hashed = if OPEN { Some(Hashed { at, first: first_input }) } else { sealed };
            let mut states = Self::counters::<GROUP, GROUP>(here, next);
            let mut products = Products::zero();
            rounds!({
                let key = self.round_key(R);
                for state in &mut states {
                    *state = V::aes(*state, key);
                }
                if let Some(hashed) = &hashed {
                    if R <= GROUP {
                        let block = hashed.register(R - 1, *hash);
                        products.add(block, self.powers((GROUP + 1 - R) * V::BLOCKS));
                    }
                    if R == 9 {
                        *hash = products.reduce();
                    }
                }
            });
            let last_key = self.round_key(ROUNDS);
            for (j, state) in states.iter_mut().enumerate() {
                let to = at.wrapping_add(Self::WIDTH * j);
                let input = if j == 0 { first_input } else { V::load(to) };
                *state = V::aes_last(*state, V::xor(last_key, input));
                if FIRST && j == 0 {
                    V::store_edge(to, *state, edge);
                } else {
                    V::store(to, *state);
                }
            }
            if FIRST {
                self.tag_mask = V::to_first(states[0]);
                self.mask_from(&states);
                return Hashed { at, first: V::keep(states[0], edge) };
            }
            Hashed { at, first: states[0] }
        }
    }

    /// The rest, `N` registers and `octets` octets long, then all that is left to hash.
    #[inline(always)]
    unsafe fn last_group<const OPEN: bool, const GROUP: usize, const FIRST: bool, const N: usize>(
        &mut self,
        at: *mut u8,
        octets: usize,
        (here, next): (V, V),
        sealed: Option<Hashed<V>>,
        mut hash: Block,
    ) -> Block {
        // SAFETY: as the caller's.
        unsafe {
            let mut states = Self::counters::<N, GROUP>(here, next);
            let mut products = Products::zero();
            rounds!({
                let key = self.round_key(R);
                for state in &mut states {
                    *state = V::aes(*state, key);
                }
                if let Some(hashed) = &sealed {
                    if R <= GROUP {
                        let block = hashed.register(R - 1, hash);
                        products.add(block, self.powers((GROUP + 1 - R) * V::BLOCKS));
                    }
                    if R == 9 {
                        hash = products.reduce();
                    }
                }
            });

            let blocks = octets.div_ceil(16);
            let lengths = Block::of(8 * self.packet.length as u64, 8 * self.packet.aad.len() as u64);
            // Behind a whole group there is no power of H left for the lengths: they are multiplied on their own.
            let with_lengths = N < GROUP || blocks < POWERS;
            let mut products =
                if with_lengths { Products::of(V::first(lengths), self.powers(1)) } else { Products::zero() };
            for (j, state) in states.iter_mut().enumerate() {
                let to = at.wrapping_add(Self::WIDTH * j);
                let (is_first, is_last) = (FIRST && j == 0, j == N - 1);
                let whole = !is_first && !is_last;
                let edge = V::edge(
                    if is_first { 16 } else { 0 },
                    if is_last { octets - Self::WIDTH * j } else { Self::WIDTH },
                );
                let input = if whole { V::load(to) } else { V::load_edge(to, edge) };
                let output = V::aes_last(*state, V::xor(self.round_key(ROUNDS), input));
                if whole {
                    V::store(to, output);
                } else {
                    V::store_edge(to, output, edge);
                }
                if is_first {
                    self.tag_mask = V::to_first(output);
                }
                *state = output;
                let hashed = match OPEN {
                    true => input,
                    false if whole => output,
                    false => V::keep(output, edge),
                };
                let mut block = V::swap_octets(hashed);
                if j == 0 {
                    block = V::xor(block, V::first(hash));
                }
                products.add(block, self.powers(blocks + usize::from(with_lengths) - V::BLOCKS * j));
            }
            if FIRST {
                self.mask_from(&states);
            }
            let hash = products.reduce();
            if with_lengths {
                hash
            } else {
                let h = Block::load(self.key.add(16 * (POWERS - 1)));
                multiply(Block::xor(hash, lengths), h)
            }
        }
    }
}

/// Encrypts or decrypts a packet's text where it lies and returns its tag, and the header mask unless its sample is elsewhere
/// than at the start of the text.
///
/// # Safety
///
/// As for the functions of [`Vector`]; `key` is the blocks of a key of `ROUNDS` rounds, and the packet is what its fields say.
/// Registers are grouped to 16 blocks, or 8 of one block.
#[inline(always)]
pub(super) unsafe fn crypt<V: Vector, const ROUNDS: usize, const OPEN: bool, const GROUP: usize>(
    key: *const u8,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> (Block, Option<Block>) {
    const { assert!(V::BLOCKS * GROUP == 16 || V::BLOCKS == 1 && GROUP == 8) };
    let whole = 16 * V::BLOCKS * GROUP;
    // SAFETY: the caller's word.
    unsafe {
        let nonce = V::every(load_nonce(packet.nonce));
        let base = V::xor(nonce, V::load_every(key.add(16 * POWERS)));
        let mut state: State<'_, V, ROUNDS> =
            State { key, packet, base, tag_mask: Block::zero(), mask, masked: None };
        let mut hash = state.hash_aad();
        let mut at = packet.text.wrapping_sub(16);
        let mut left = packet.length + 16;
        let mut block = V::BLOCKS * GROUP;
        let mut counters = (base, state.base_at(block));
        macro_rules! last {
            ($first:literal, $sealed:expr; $($n:literal)*) => {
                match left.div_ceil(16 * V::BLOCKS) {
                    $($n if $n < GROUP => {
                        state.last_group::<OPEN, GROUP, $first, $n>(at, left, counters, $sealed, hash)
                    })*
                    _ => state.last_group::<OPEN, GROUP, $first, GROUP>(at, left, counters, $sealed, hash),
                }
            };
        }
        let hash = if left <= whole {
            last!(true, None; 1 2 3 4 5 6 7)
        } else {
            let mut sealed = state.whole_group::<OPEN, GROUP, true>(at, counters, None, &mut hash);
            loop {
                at = at.wrapping_add(whole);
                left -= whole;
                block += V::BLOCKS * GROUP;
                counters = (counters.1, state.base_at(block));
                if left <= whole {
                    break;
                }
                sealed = state.whole_group::<OPEN, GROUP, false>(at, counters, Some(sealed), &mut hash);
            }
            if OPEN { last!(false, None; 1 2 3 4 5 6 7) } else { last!(false, Some(sealed); 1 2 3 4 5 6 7) }
        };
        (Block::xor(Block::swap_octets(hash), state.tag_mask), state.masked)
    }
}

/// The nonce with four zeros behind.
#[inline(always)]
unsafe fn load_nonce(nonce: &[u8; 12]) -> Block {
    let [a, b, c, d, e, f, g, h, low @ ..] = *nonce;
    let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    // SAFETY: the caller's word.
    unsafe { Block::of(first, u64::from(u32::from_le_bytes(low))) }
}
