//! GCM over one packet: AES of one group of blocks while another group is hashed.
//!
//! ```text
//! group   counter blocks       GHASH takes
//! first   tag mask, text       associated data and text, in the same places
//! whole   text                 text
//! last    text, if any left    text, then the lengths
//! ```
//!
//! The first counter block masks the tag, so the text starts in the second place. GHASH has the first place free, and the last
//! block of the associated data takes it. Opening hashes each group while it is decrypted. Sealing hashes each group while the next
//! is encrypted, because the ciphertext is not there earlier.
//!
//! Each round of AES has the products of one register beside it. Where a register has one block, [`Vector::tied`] keeps them there:
//! LLVM's scheduler would move them apart, and sealing 1200 octets would take 286 ns instead of 276 (AES-NI with AVX) or 358 instead
//! of 278 (AES-NI), on Zen 3.
//!
//! All of it is `inline(always)`, like `hash.rs`, `aes/vector.rs` and the generic functions of `kernel.rs`, because only the macro in
//! `kernel.rs` makes functions that are compiled for a path. With plain `inline` each instruction became a call, and sealing 1200
//! octets took 45 times as long (VAES-256).

use super::hash::{Products, multiply};
use super::packet::{Direction, Mask, POWERS, Packet};
use crate::aes::Block;
use crate::aes::vector::{Vector, encrypt_rounds, load_short, octets_of};

/// The largest number of registers in a group.
const MAX_GROUP: usize = 8;
/// The number of registers in a group where [`Vector::FOLDS_IN_REGISTERS`].
const FOLDS: usize = 4;

/// Encrypts or decrypts a packet's text in place. Returns its tag, and the header mask if its sample is at the start of the text.
///
/// # Safety
///
/// As for the functions of [`Vector`]; `key` points to the blocks of a key of `ROUNDS` rounds, and the packet to valid octets.
#[inline(always)]
pub(super) unsafe fn crypt<V: Vector, const ROUNDS: usize>(
    direction: Direction,
    key: *const u8,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> (Block, Option<Block>) {
    const {
        assert!(
            V::BLOCKS * V::GROUP == 16 && V::GROUP <= MAX_GROUP || V::BLOCKS == 1 && V::GROUP == MAX_GROUP
        );
    };
    let group = 16 * V::BLOCKS * V::GROUP;
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        let mut state = State::<V, ROUNDS>::new(direction, key, packet, mask);
        let mut hash = state.hash_aad();
        // From here on the text is treated as starting one block early, at the tag's counter.
        let mut at = packet.text.wrapping_sub(16);
        let mut left = packet.length + 16;
        let mut block = V::BLOCKS * V::GROUP;
        let mut counters = (state.base, state.base_at(block));
        let hash = if left <= group {
            state.last_group(true, at, left, counters, None, hash)
        } else {
            let mut ciphertext = state.whole_group(true, at, counters, None, &mut hash);
            loop {
                at = at.wrapping_add(group);
                left -= group;
                block += V::BLOCKS * V::GROUP;
                counters = (counters.1, state.base_at(block));
                if left <= group {
                    break;
                }
                ciphertext = state.whole_group(false, at, counters, Some(ciphertext), &mut hash);
            }
            match direction {
                Direction::Open => state.last_group(false, at, left, counters, None, hash),
                Direction::Seal => state.last_group(false, at, left, counters, Some(ciphertext), hash),
            }
        };
        (Block::xor(Block::swap_octets(hash), state.tag_mask), state.masked)
    }
}

/// A key while it processes a packet.
///
/// Unsafe to use as the functions of [`Vector`] are; its parts are what [`crypt`] was given.
struct State<'a, V: Vector, const ROUNDS: usize> {
    direction: Direction,
    key: *const u8,
    packet: Packet<'a>,
    /// The nonce and the first round key.
    base: V,
    /// The key stream that masks the tag.
    tag_mask: Block,
    mask: Option<Mask<'a>>,
    /// The header mask, once it is made.
    masked: Option<Block>,
    /// For whole groups, the sums of the halves of their powers of H, where there are registers enough to keep them.
    folds: Option<[V; FOLDS]>,
}

/// A group of ciphertext to be hashed.
#[derive(Clone, Copy)]
struct Ciphertext<V> {
    at: *const u8,
    /// The first register: in the packet's first group not all of its octets are text.
    first: V,
}

impl<V: Vector> Ciphertext<V> {
    /// A register of the group; the hash so far is added to the first. Unsafe to call as the functions of [`Vector`] are.
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

impl<'a, V: Vector, const ROUNDS: usize> State<'a, V, ROUNDS> {
    const WIDTH: usize = 16 * V::BLOCKS;
    /// The highest power of H in the key.
    const POWERS: usize = if V::KARATSUBA { POWERS / 2 } else { POWERS };

    #[inline(always)]
    unsafe fn new(direction: Direction, key: *const u8, packet: Packet<'a>, mask: Option<Mask<'a>>) -> Self {
        // SAFETY: guaranteed by this function's `# Safety` section.
        unsafe {
            let nonce = V::every(load_nonce(packet.nonce));
            let base = V::xor(nonce, V::load_every(key.add(16 * POWERS)));
            let folds = V::FOLDS_IN_REGISTERS.then(|| {
                core::array::from_fn(|index| {
                    let powers = V::load(key.add(Self::WIDTH * index));
                    V::xor(powers, V::swap_halves(powers))
                })
            });
            Self { direction, key, packet, base, tag_mask: Block::zero(), mask, masked: None, folds }
        }
    }

    /// A whole group, while a group of ciphertext is hashed: this one when opening, `before` when sealing. Returns its own
    /// ciphertext for the next group.
    #[inline(always)]
    unsafe fn whole_group(
        &mut self,
        is_first: bool,
        at: *mut u8,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        hash: &mut Block,
    ) -> Ciphertext<V> {
        // SAFETY: the text is longer than the group.
        unsafe {
            let edge = V::edge(16, Self::WIDTH, true);
            let first_input = if is_first { V::load_edge(at, edge) } else { V::load(at) };
            let hashed = match self.direction {
                Direction::Open => Some(Ciphertext { at, first: first_input }),
                Direction::Seal => before,
            };
            let mut states = Self::counter_blocks(V::GROUP, counters);
            self.rounds(&mut states[..V::GROUP], hashed, hash);
            leak!("GCM: whole group", states[0]);
            let last_key = self.round_key(ROUNDS);
            for (j, state) in states[..V::GROUP].iter_mut().enumerate() {
                let to = at.wrapping_add(Self::WIDTH * j);
                let input = if j == 0 { first_input } else { V::load(to) };
                *state = V::aes_last(*state, V::xor(last_key, input));
                if is_first && j == 0 {
                    V::store_edge(to, *state, edge);
                } else {
                    V::store(to, *state);
                }
            }
            if is_first {
                self.tag_mask = V::to_first(states[0]);
                self.make_mask(V::GROUP, &states);
                return Ciphertext { at, first: V::keep(states[0], edge) };
            }
            Ciphertext { at, first: states[0] }
        }
    }

    /// The remaining `left` octets, in up to a group of registers, then the rest of the hash.
    #[inline(always)]
    unsafe fn last_group(
        &mut self,
        is_first: bool,
        at: *mut u8,
        left: usize,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        hash: Block,
    ) -> Block {
        // One copy for each number of registers.
        // SAFETY: as the caller's.
        unsafe {
            match left.div_ceil(Self::WIDTH) {
                1 if 1 < V::GROUP => self.last_registers(1, is_first, at, left, counters, before, hash),
                2 if 2 < V::GROUP => self.last_registers(2, is_first, at, left, counters, before, hash),
                3 if 3 < V::GROUP => self.last_registers(3, is_first, at, left, counters, before, hash),
                4 if 4 < V::GROUP => self.last_registers(4, is_first, at, left, counters, before, hash),
                5 if 5 < V::GROUP => self.last_registers(5, is_first, at, left, counters, before, hash),
                6 if 6 < V::GROUP => self.last_registers(6, is_first, at, left, counters, before, hash),
                7 if 7 < V::GROUP => self.last_registers(7, is_first, at, left, counters, before, hash),
                _ => self.last_registers(V::GROUP, is_first, at, left, counters, before, hash),
            }
        }
    }

    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "as constants they make a copy for each number of registers"
    )]
    unsafe fn last_registers(
        &mut self,
        registers: usize,
        is_first: bool,
        at: *mut u8,
        left: usize,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        mut hash: Block,
    ) -> Block {
        // SAFETY: as the caller's.
        unsafe {
            let last = registers - 1;
            let is_long = self.packet.length >= 16;
            let edge = |j: usize| {
                let from = if is_first && j == 0 { 16 } else { 0 };
                let to = if j == last { left - Self::WIDTH * j } else { Self::WIDTH };
                V::edge(from, to, is_long)
            };
            // Before the stores: a partial block is loaded with octets of the block before it, and would wait for its store.
            let last_input = V::load_edge(at.wrapping_add(Self::WIDTH * last), edge(last));
            let mut states = Self::counter_blocks(registers, counters);
            self.rounds(&mut states[..registers], before, &mut hash);
            leak!("GCM: last group", states[0]);

            let blocks = left.div_ceil(16);
            let lengths = Block::of(8 * self.packet.length as u64, 8 * self.packet.aad.len() as u64);
            // Behind a whole group no power of H is left for the lengths, which are then multiplied alone.
            let with_lengths = registers < V::GROUP || blocks < Self::POWERS;
            let mut products =
                if with_lengths { self.products(V::first(lengths), 1) } else { Products::zero() };
            for (j, state) in states[..registers].iter_mut().enumerate() {
                let to = at.wrapping_add(Self::WIDTH * j);
                let starts = is_first && j == 0;
                let whole = !starts && j != last;
                let input = if whole {
                    V::load(to)
                } else if j == last {
                    last_input
                } else {
                    V::load_edge(to, edge(j))
                };
                let output = V::aes_last(*state, V::xor(self.round_key(ROUNDS), input));
                if whole {
                    V::store(to, output);
                } else {
                    V::store_edge(to, output, edge(j));
                }
                if starts {
                    self.tag_mask = V::to_first(output);
                }
                *state = output;
                let ciphertext = match self.direction {
                    Direction::Open => input,
                    Direction::Seal if whole => output,
                    Direction::Seal => V::keep(output, edge(j)),
                };
                let mut block = V::swap_octets(ciphertext);
                if j == 0 {
                    block = V::xor(block, V::first(hash));
                }
                self.add(&mut products, block, blocks + usize::from(with_lengths) - V::BLOCKS * j);
            }
            if is_first {
                self.make_mask(registers, &states);
            }
            let hash = Self::reduce(products);
            if with_lengths {
                hash
            } else {
                let h = Block::load(self.key.add(16 * (POWERS - 1)));
                leak!("GCM: lengths hashed alone", h);
                multiply(Block::xor(hash, lengths), h)
            }
        }
    }

    /// All rounds between the first and the last, with the hash of a group beside them.
    #[inline(always)]
    unsafe fn rounds(&self, states: &mut [V], hashed: Option<Ciphertext<V>>, hash: &mut Block) {
        // SAFETY: as the caller's.
        unsafe {
            let mut products = Products::zero();
            // Not a loop, because the compiler would not unroll it.
            self.round(1, states, &hashed, &mut products, hash);
            self.round(2, states, &hashed, &mut products, hash);
            self.round(3, states, &hashed, &mut products, hash);
            self.round(4, states, &hashed, &mut products, hash);
            self.round(5, states, &hashed, &mut products, hash);
            self.round(6, states, &hashed, &mut products, hash);
            self.round(7, states, &hashed, &mut products, hash);
            self.round(8, states, &hashed, &mut products, hash);
            self.round(9, states, &hashed, &mut products, hash);
            if ROUNDS == 14 {
                self.round(10, states, &hashed, &mut products, hash);
                self.round(11, states, &hashed, &mut products, hash);
                self.round(12, states, &hashed, &mut products, hash);
                self.round(13, states, &hashed, &mut products, hash);
            }
        }
    }

    /// One round of every register, and the products of one register of ciphertext. The ninth round has the reduction beside it.
    #[inline(always)]
    unsafe fn round(
        &self,
        round: usize,
        states: &mut [V],
        hashed: &Option<Ciphertext<V>>,
        products: &mut Products<V>,
        hash: &mut Block,
    ) {
        // SAFETY: as the caller's.
        unsafe {
            let key = self.round_key(round);
            for state in &mut *states {
                *state = V::aes(*state, key);
            }
            if let Some(hashed) = hashed {
                if round <= V::GROUP {
                    // When opening, only the register that takes the hash so far has to wait, so it comes last.
                    let index = match self.direction {
                        Direction::Open => round % V::GROUP,
                        Direction::Seal => round - 1,
                    };
                    let block = hashed.register(index, *hash);
                    let power = (V::GROUP - index) * V::BLOCKS;
                    match self.folds {
                        Some(folds) => products.add_folded(block, self.powers(power), folds[index % FOLDS]),
                        None => self.add(products, block, power),
                    }
                    products.tie();
                }
                if round == 9 {
                    let products = if self.folds.is_some() { products.completed() } else { *products };
                    *hash = Self::reduce(products);
                    leak!("GCM: whole group hashed", *hash);
                }
            }
            for state in states {
                *state = V::tied(*state);
            }
        }
    }

    #[inline(always)]
    unsafe fn round_key(&self, round: usize) -> V {
        // SAFETY: there are that many.
        unsafe { V::load_every(self.key.add(16 * (POWERS + round))) }
    }

    /// The products of a register of blocks and the powers of H from H^`power` down.
    #[inline(always)]
    unsafe fn products(&self, blocks: V, power: usize) -> Products<V> {
        // SAFETY: as the caller's.
        unsafe {
            if V::KARATSUBA {
                let mut products = Products::zero();
                self.add(&mut products, blocks, power);
                products
            } else {
                Products::of(blocks, self.powers(power))
            }
        }
    }

    /// Adds the same products.
    #[inline(always)]
    unsafe fn add(&self, products: &mut Products<V>, blocks: V, power: usize) {
        // SAFETY: the key has these powers.
        unsafe {
            if V::KARATSUBA {
                let folded = V::load(self.key.add(16 * (POWERS / 2 - power)));
                products.add_folded(blocks, self.powers(power), folded);
            } else {
                products.add(blocks, self.powers(power));
            }
        }
    }

    #[inline(always)]
    unsafe fn reduce(products: Products<V>) -> Block {
        // SAFETY: as the caller's.
        unsafe { if V::KARATSUBA { products.completed().reduce() } else { products.reduce() } }
    }

    /// A register of powers of H, from H^`power` down.
    #[inline(always)]
    unsafe fn powers(&self, power: usize) -> V {
        // SAFETY: behind H^1 come round keys, more than a register holds.
        unsafe { V::load(self.key.add(16 * (POWERS - power))) }
    }

    /// The base with the counter `block`, a multiple of a group's blocks, to which [`COUNTS`] are then added.
    #[inline(always)]
    unsafe fn base_at(&self, block: usize) -> V {
        // SAFETY: as the caller's.
        unsafe { V::xor(self.base, V::count(block as u32)) }
    }

    /// The first counter blocks of a group after the first round key, in so many registers. The group's last block belongs to the
    /// counters of the next group.
    #[inline(always)]
    unsafe fn counter_blocks(registers: usize, (here, next): (V, V)) -> [V; MAX_GROUP] {
        let mut counters = [here; MAX_GROUP];
        for (at, counter) in counters[..registers].iter_mut().enumerate() {
            // SAFETY: there are 16 counts.
            unsafe {
                let here = if at == V::GROUP - 1 { V::with_last(here, next) } else { here };
                if V::BLOCKS > 1 || at != V::GROUP - 1 {
                    *counter = V::xor(here, V::load(COUNTS.0.as_ptr().cast::<u8>().add(Self::WIDTH * at)));
                } else {
                    *counter = here;
                }
            }
        }
        counters
    }

    /// The hash of the associated data without its last block, plus that block: the first place in GHASH's first group.
    #[inline(always)]
    unsafe fn hash_aad(&self) -> Block {
        let aad = self.packet.aad;
        let split = aad.len().saturating_sub(1) & !15;
        let (mut blocks, last) = aad.split_at(split);
        // SAFETY: the powers exist, and the blocks are whole.
        unsafe {
            let last = Block::swap_octets(load_short(last));
            let mut sum = Block::zero();
            while !blocks.is_empty() {
                let (run, rest) = blocks.split_at(blocks.len().min(16 * Self::POWERS));
                blocks = rest;
                let count = run.len() / 16;
                let power = |at: usize| Block::load(self.key.add(16 * (POWERS - count + at)));
                let block = |at: usize| Block::swap_octets(Block::load(run.as_ptr().add(16 * at)));
                let mut products = Products::of(Block::xor(sum, block(0)), power(0));
                for at in 1..count {
                    products.add(block(at), power(at));
                }
                sum = products.reduce();
                leak!("GCM: associated data hashed", sum);
            }
            Block::xor(sum, last)
        }
    }

    /// Makes the header mask if its sample lies in the first 32 octets of the text, which are in these registers.
    #[inline(always)]
    unsafe fn make_mask(&mut self, registers: usize, outputs: &[V; MAX_GROUP]) {
        let length = self.packet.length;
        if let Some(mask) = self.mask.filter(|mask| mask.sample <= 16 && mask.sample + 16 <= length) {
            // SAFETY: the mask's key has as many round keys as its rounds need.
            unsafe {
                let last = registers - 1;
                let start = V::second_and_third([outputs[0], outputs[1.min(last)], outputs[2.min(last)]]);
                let sample = octets_of(start, mask.sample);
                leak!("GCM: header mask from registers", mask.key.keys);
                let [masked] = encrypt_rounds(mask.key.keys.as_ptr().cast(), mask.key.rounds, [sample]);
                self.masked = Some(masked);
            }
        }
    }
}

/// The block counters of a group, relative to its start. The sixteenth is zero: it belongs to the next group.
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

/// The nonce, followed by four zeros.
#[inline(always)]
unsafe fn load_nonce(nonce: &[u8; 12]) -> Block {
    let [a, b, c, d, e, f, g, h, low @ ..] = *nonce;
    let first = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe { Block::of(first, u64::from(u32::from_le_bytes(low))) }
}
