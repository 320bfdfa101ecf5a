//! GCM of one packet: AES encrypts one group of blocks while GHASH hashes another.
//!
//! ```text
//! group   counter blocks       GHASH takes
//! first   tag mask, text       associated data and text, in the same places
//! whole   text                 text
//! last    text, if any left    text, then the lengths
//! ```
//!
//! The first counter block masks the tag, so the text starts in the second place. In GHASH the first place is then free, and the last block
//! of the associated data takes it. Opening hashes each group while decrypting it. Sealing hashes each group while encrypting the next,
//! because the ciphertext does not exist earlier.
//!
//! A group is 16 blocks, or eight registers of one block, because more do not fit in registers. Each AES round is interleaved with the
//! GHASH products of one register. Where a register has one block, [`Vector::tied`] keeps this order: LLVM's scheduler would separate the
//! two, and sealing 1200 octets would take 286 ns instead of 276 (AES-NI with AVX) or 358 instead of 278 (AES-NI), on Zen 3.
//!
//! The parent module compiles [`seal`] and [`open`] for each path. Both call [`crypt`], which runs [`State::whole_group`] and
//! [`State::last_group`].

use core::hint::black_box;
use core::marker::PhantomData;

use super::ghash::{Key, POWERS, Products, load_powers, multiply};
use crate::aes::AesMaskKey;
use crate::aes::vector::{Block, Edge, Multiplication, Vector, encrypt, octets, octets_of, short_number};

/// The length of a tag in octets.
pub const TAG_LENGTH: usize = 16;

/// The maximum length of a text in octets: 2^32 - 2 blocks.
const MAX_LENGTH: u64 = ((1 << 32) - 2) * 16;

/// The largest number of registers in a group.
const MAX_GROUP: usize = 8;

/// The number of registers in a group for [`Multiplication::KaratsubaForGroups`].
const FOLDS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Seal,
    Open,
}

/// A text to process in place, and its tag. Nothing else refers to them.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    nonce: &'a [u8; 12],
    aad: &'a [u8],
    text: *mut u8,
    /// The octets of the text.
    length: usize,
    /// The 16 octets of the tag.
    tag: *mut u8,
    body: PhantomData<&'a mut [u8]>,
}

impl<'a> Packet<'a> {
    /// `None` if `body` has no room for a tag, or more text than GCM allows.
    #[inline]
    pub(super) fn new(nonce: &'a [u8; 12], aad: &'a [u8], body: &'a mut [u8]) -> Option<Self> {
        let length = body.len().checked_sub(TAG_LENGTH).filter(|length| *length as u64 <= MAX_LENGTH)?;
        // One pointer for text and tag, since a sample may overlap both.
        let text = body.as_mut_ptr();
        Some(Self { nonce, aad, text, length, tag: text.wrapping_add(length), body: PhantomData })
    }

    /// `None` if the text is longer than GCM allows.
    #[inline]
    pub(super) fn detached(
        nonce: &'a [u8; 12],
        aad: &'a [u8],
        text: &'a mut [u8],
        tag: &'a mut [u8; TAG_LENGTH],
    ) -> Option<Self> {
        let length = text.len();
        let (text, tag) = (text.as_mut_ptr(), tag.as_mut_ptr());
        (length as u64 <= MAX_LENGTH).then_some(Self { nonce, aad, text, length, tag, body: PhantomData })
    }
}

/// A header mask to compute.
#[derive(Clone, Copy)]
pub(super) struct Mask<'a> {
    key: &'a AesMaskKey,
    /// The offset of the sample's 16 octets in the sealed text and its tag, which are contiguous.
    sample: usize,
}

impl<'a> Mask<'a> {
    /// `None` if the sample is not inside the packet, which was created by [`Packet::new`].
    #[inline]
    pub(super) fn new(key: &'a AesMaskKey, sample: usize, packet: &Packet<'_>) -> Option<Self> {
        (sample <= packet.length).then_some(Self { key, sample })
    }
}

/// Encrypts, writes the tag, and returns the header mask, or zeros without one.
///
/// # Safety
/// The mask is one that [`Mask::new`] returned for this packet.
#[inline(always)]
pub(super) unsafe fn seal<V: Vector, const ROUNDS: usize>(
    token: V::Token,
    key: &Key,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> [u8; 16] {
    let (tag, masked) = crypt::<V, ROUNDS>(token, Direction::Seal, key, packet, mask);
    leak!("GCM: tag to send", tag);
    // SAFETY: a packet's tag is 16 octets that nothing else refers to.
    V::Block::store(unsafe { &mut *packet.tag.cast() }, tag);
    let mut result = [0; 16];
    if let Some(Mask { key, sample }) = mask {
        let masked = masked.unwrap_or_else(|| {
            // SAFETY: the caller guarantees that the mask's sample is 16 octets within the text and its tag.
            let sample = V::Block::load(token.into(), unsafe { &*packet.text.add(sample).cast() });
            leak!("GCM: header mask from memory", key.keys);
            encrypt(token.into(), &key.keys, key.rounds, sample)
        });
        V::Block::store(&mut result, masked);
    }
    result
}

/// Decrypts, and compares the tag.
#[inline(always)]
pub(super) fn open<V: Vector, const ROUNDS: usize>(token: V::Token, key: &Key, packet: Packet<'_>) -> bool {
    let (tag, _) = crypt::<V, ROUNDS>(token, Direction::Open, key, packet, None);
    leak!("GCM: tag to compare", tag);
    // SAFETY: a packet's tag is 16 octets.
    let expected = V::Block::load(token.into(), unsafe { &*packet.tag.cast() });
    V::Block::is_zero(V::Block::xor(tag, expected))
}

/// Encrypts or decrypts a packet's text in place. Returns its tag, and the header mask if its sample is at the start of the text.
#[inline(always)]
fn crypt<V: Vector, const ROUNDS: usize>(
    token: V::Token,
    direction: Direction,
    key: &Key,
    packet: Packet<'_>,
    mask: Option<Mask<'_>>,
) -> (V::Block, Option<V::Block>) {
    let mut state = State::<V, ROUNDS>::new(token, direction, key, packet, mask);
    let mut hash = state.hash_aad();
    // The text is treated as if it started one block earlier, at the tag's counter.
    let mut at = packet.text.wrapping_sub(16);
    let mut left = packet.length + 16;
    let mut block = State::<V, ROUNDS>::BLOCKS;
    let mut counters = (state.base, state.base_at(block));
    let hash = if left <= 16 * State::<V, ROUNDS>::BLOCKS {
        // SAFETY: the whole text is left, at most a group with the 16 octets before it.
        unsafe { state.last_group(true, at, left, counters, None, hash) }
    } else {
        // SAFETY: with the 16 octets before it, the text has more than a group.
        let mut ciphertext = unsafe { state.whole_group(true, at, counters, None, &mut hash) };
        loop {
            at = at.wrapping_add(16 * State::<V, ROUNDS>::BLOCKS);
            left -= 16 * State::<V, ROUNDS>::BLOCKS;
            block += State::<V, ROUNDS>::BLOCKS;
            counters = (counters.1, state.base_at(block));
            if left <= 16 * State::<V, ROUNDS>::BLOCKS {
                break;
            }
            // SAFETY: more than a group of the text is left from `at` on, and the ciphertext is the group before.
            ciphertext = unsafe { state.whole_group(false, at, counters, Some(ciphertext), &mut hash) };
        }
        let before = (direction == Direction::Seal).then_some(ciphertext);
        // SAFETY: at least one octet of the text and at most a group is left from `at` on, and the ciphertext is the group before.
        unsafe { state.last_group(false, at, left, counters, before, hash) }
    };
    (V::Block::xor(V::Block::swap_octets(hash), state.tag_mask), state.masked)
}

/// A key while it processes a packet.
struct State<'a, V: Vector, const ROUNDS: usize> {
    token: V::Token,
    direction: Direction,
    key: &'a Key,
    packet: Packet<'a>,
    /// The nonce and the first round key.
    base: V,
    /// The key stream that masks the tag.
    tag_mask: V::Block,
    mask: Option<Mask<'a>>,
    /// The header mask, once it is computed.
    masked: Option<V::Block>,
    /// The sums of halves of the powers of H for whole groups, for [`Multiplication::KaratsubaForGroups`].
    folds: Option<[V; FOLDS]>,
}

/// A whole group of a packet's ciphertext, to be hashed.
#[derive(Clone, Copy)]
struct Ciphertext<V> {
    /// Where its registers are in the text, all but the first.
    at: *const u8,
    /// The first register: in the packet's first group, not all of its octets are text.
    first: V,
}

impl<'a, V: Vector, const ROUNDS: usize> State<'a, V, ROUNDS> {
    /// The octets of a register.
    const WIDTH: usize = 16 * V::BLOCKS;
    /// The registers of a group.
    const GROUP: usize = if V::BLOCKS == 4 { 4 } else { MAX_GROUP };
    /// The blocks of a group.
    const BLOCKS: usize = V::BLOCKS * Self::GROUP;
    /// The highest power of H in the key. A group has no more blocks.
    const POWERS: usize = Products::<V>::HIGHEST_POWER;

    #[inline(always)]
    fn new(
        token: V::Token,
        direction: Direction,
        key: &'a Key,
        packet: Packet<'a>,
        mask: Option<Mask<'a>>,
    ) -> Self {
        // Hidden where registers are few, or the compiler would keep round keys in registers across groups and spill other values.
        let key = if V::BLOCKS < 4 { black_box(key) } else { key };
        const { assert!(Self::BLOCKS <= Self::POWERS) };
        let mut state = Self {
            token,
            direction,
            key,
            packet,
            base: V::zero(token),
            tag_mask: V::Block::zero(token.into()),
            mask,
            masked: None,
            folds: None,
        };
        let nonce = V::Block::of(token.into(), short_number(packet.nonce));
        state.base = V::xor(V::every(token, nonce), state.round_key(0));
        if V::MULTIPLICATION == Multiplication::KaratsubaForGroups {
            state.folds = Some(core::array::from_fn(|index| {
                // SAFETY: the power is at most POWERS, and the last of FOLDS registers still has one.
                let powers = unsafe { state.powers(POWERS - V::BLOCKS * index) };
                V::xor(powers, V::swap_halves(powers))
            }));
        }
        state
    }

    /// Processes a whole group while a group of ciphertext is hashed: this one when opening, `before` when sealing. Returns its own
    /// ciphertext for the next group.
    ///
    /// # Safety
    /// A group of the packet's text starts at `at`; in the first group, its first 16 octets are not text. `before` is a group of this text.
    #[inline(always)]
    unsafe fn whole_group(
        &mut self,
        is_first: bool,
        at: *mut u8,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        hash: &mut V::Block,
    ) -> Ciphertext<V> {
        // SAFETY: a register has 16 to 64 octets.
        let edge = unsafe { Edge::new(16, Self::WIDTH, true) };
        // SAFETY: the caller guarantees the first register, of which the edge is the text in the first group; no block of it is partial.
        let first_input = unsafe {
            if is_first { V::load_edge(self.token, at, edge) } else { V::load(self.token, &*at.cast()) }
        };
        let hashed = match self.direction {
            Direction::Open => Some(Ciphertext { at, first: first_input }),
            Direction::Seal => before,
        };
        let mut states = self.counter_blocks(Self::GROUP, counters);
        // SAFETY: the caller guarantees both groups.
        unsafe { self.rounds(&mut states[..Self::GROUP], hashed, hash) };
        leak!("GCM: whole group", states[0]);
        let last_key = self.round_key(ROUNDS);
        for (j, state) in states[..Self::GROUP].iter_mut().enumerate() {
            let to = at.wrapping_add(Self::WIDTH * j);
            // SAFETY: the caller guarantees the group's registers, all of the text after the first one, and nothing else refers to the text.
            unsafe {
                let input = if j == 0 { first_input } else { V::load(self.token, &*to.cast()) };
                *state = V::aes_last(*state, V::xor(last_key, input));
                if is_first && j == 0 {
                    V::store_edge(self.token, to, *state, edge);
                } else {
                    V::store(&mut *to.cast(), *state);
                }
            }
        }
        if is_first {
            self.tag_mask = V::to_first(states[0]);
            self.make_mask(Self::GROUP, &states);
            return Ciphertext { at, first: V::keep(states[0], edge) };
        }
        Ciphertext { at, first: states[0] }
    }

    /// Processes the last `left` octets, in up to a group of registers, then finishes the hash.
    ///
    /// # Safety
    /// From `at` on, the packet's text has its last `left` octets, at least one and at most a group; in the first group, the 16 octets before
    /// the text count as well. `before` is a group of this text.
    #[inline(always)]
    unsafe fn last_group(
        &mut self,
        is_first: bool,
        at: *mut u8,
        left: usize,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        hash: V::Block,
    ) -> V::Block {
        let mut with = |registers: usize| {
            // SAFETY: the caller guarantees the octets and the ciphertext; below, the number of registers is what the octets need.
            unsafe { self.last_registers(registers, is_first, at, left, counters, before, hash) }
        };
        // One copy of the code for each number of registers.
        match left.div_ceil(Self::WIDTH) {
            1 if 1 < Self::GROUP => with(1),
            2 if 2 < Self::GROUP => with(2),
            3 if 3 < Self::GROUP => with(3),
            4 if 4 < Self::GROUP => with(4),
            5 if 5 < Self::GROUP => with(5),
            6 if 6 < Self::GROUP => with(6),
            7 if 7 < Self::GROUP => with(7),
            _ => with(Self::GROUP),
        }
    }

    /// # Safety
    /// As for [`Self::last_group`], and the octets need this number of registers.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "constants: one copy for each number of registers")]
    unsafe fn last_registers(
        &mut self,
        registers: usize,
        is_first: bool,
        at: *mut u8,
        left: usize,
        counters: (V, V),
        before: Option<Ciphertext<V>>,
        mut hash: V::Block,
    ) -> V::Block {
        let last = registers - 1;
        let is_long = self.packet.length >= 16;
        let edge = |j: usize| {
            let from = if is_first && j == 0 { 16 } else { 0 };
            let to = if j == last { left - Self::WIDTH * j } else { Self::WIDTH };
            // SAFETY: the last register has one to WIDTH of the octets, at least 16 if the group is the first; WIDTH is at most 64.
            unsafe { Edge::new(from, to, is_long) }
        };
        // Loaded before the stores: a partial block is loaded together with octets of the block before, and would wait for that block's
        // store.
        let last_at = at.wrapping_add(Self::WIDTH * last);
        // SAFETY: the edge is what the last register has of the text; in a text of 16 octets or more, 16 end with a partial block.
        let last_input = unsafe { V::load_edge(self.token, last_at, edge(last)) };
        let mut states = self.counter_blocks(registers, counters);
        // SAFETY: the caller guarantees the group.
        unsafe { self.rounds(&mut states[..registers], before, &mut hash) };
        leak!("GCM: last group", states[0]);

        let blocks = left.div_ceil(16);
        let [length, aad] = [self.packet.length, self.packet.aad.len()].map(|octets| 8 * octets as u64);
        let lengths = V::Block::of(self.token.into(), u128::from(length) | u128::from(aad) << 64);
        // After a whole group no power of H is left for the lengths, which are then multiplied separately.
        let with_lengths = registers < Self::GROUP || blocks < Self::POWERS;
        let mut products = if with_lengths {
            // SAFETY: the key has H^1.
            unsafe { Products::with_powers(self.token, self.key, V::first(self.token, lengths), 1) }
        } else {
            Products::zero(self.token)
        };
        for (j, state) in states[..registers].iter_mut().enumerate() {
            let to = at.wrapping_add(Self::WIDTH * j);
            let starts = is_first && j == 0;
            let whole = !starts && j != last;
            // SAFETY: the registers before the last are text, except in the first group the octets outside of the edge.
            let input = unsafe {
                if whole {
                    V::load(self.token, &*to.cast())
                } else if j == last {
                    last_input
                } else {
                    V::load_edge(self.token, to, edge(j))
                }
            };
            let output = V::aes_last(*state, V::xor(self.round_key(ROUNDS), input));
            // SAFETY: these octets were loaded, and nothing else refers to them; a partial block that a long text ends with has 16 octets
            // of the text before it.
            unsafe {
                if whole {
                    V::store(&mut *to.cast(), output);
                } else {
                    V::store_edge(self.token, to, output, edge(j));
                }
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
                block = V::xor(block, V::first(self.token, hash));
            }
            let power = blocks + usize::from(with_lengths) - V::BLOCKS * j;
            // SAFETY: the first register's power is at most Self::POWERS, as the lengths take part only if a power is left for them; the
            // last register has at least one block.
            unsafe { products.add_with_powers(self.token, self.key, block, power) };
        }
        if is_first {
            self.make_mask(registers, &states);
        }
        let products = if Products::<V>::HAS_SUMS { products.completed() } else { products };
        let hash = products.reduce(self.token);
        if with_lengths {
            return hash;
        }
        let h = V::Block::load(self.token.into(), octets(&self.key[POWERS - 1]));
        leak!("GCM: lengths hashed alone", h);
        multiply(self.token.into(), V::Block::xor(hash, lengths), h)
    }

    /// All rounds between the first and the last, interleaved with the hash of a group.
    ///
    /// # Safety
    /// `hashed` is a group of the packet's text.
    #[inline(always)]
    unsafe fn rounds(&self, states: &mut [V], hashed: Option<Ciphertext<V>>, hash: &mut V::Block) {
        let mut products = Products::zero(self.token);
        let mut round = |round: usize| {
            // SAFETY: the caller guarantees the group.
            unsafe { self.round(round, states, &hashed, &mut products, hash) }
        };
        // Not a loop, because the compiler would not unroll it.
        round(1);
        round(2);
        round(3);
        round(4);
        round(5);
        round(6);
        round(7);
        round(8);
        round(9);
        if ROUNDS == 14 {
            round(10);
            round(11);
            round(12);
            round(13);
        }
    }

    /// One round for every register, and the products of one register of ciphertext. The ninth round also does the reduction.
    ///
    /// # Safety
    /// As for [`Self::rounds`], and `round` is at least 1.
    #[inline(always)]
    unsafe fn round(
        &self,
        round: usize,
        states: &mut [V],
        hashed: &Option<Ciphertext<V>>,
        products: &mut Products<V>,
        hash: &mut V::Block,
    ) {
        let key = self.round_key(round);
        for state in &mut *states {
            *state = V::aes(*state, key);
        }
        if let Some(hashed) = hashed {
            if round <= Self::GROUP {
                // When opening, only the register to which the hash so far is added has to wait for it, so it comes last.
                let index = match self.direction {
                    Direction::Open => round % Self::GROUP,
                    Direction::Seal => round - 1,
                };
                let block = if index == 0 {
                    V::xor(V::swap_octets(hashed.first), V::first(self.token, *hash))
                } else {
                    let from = hashed.at.wrapping_add(Self::WIDTH * index);
                    // SAFETY: the caller guarantees the group, of which the index is less than its registers.
                    V::swap_octets(V::load(self.token, unsafe { &*from.cast() }))
                };
                let power = (Self::GROUP - index) * V::BLOCKS;
                // SAFETY: the key has a power for each block of a group, and the index is less than the registers.
                unsafe {
                    match self.folds {
                        Some(folds) => products.add_folded(block, self.powers(power), folds[index % FOLDS]),
                        None => products.add_with_powers(self.token, self.key, block, power),
                    }
                }
                products.tie();
            }
            if round == 9 {
                let is_folded = V::MULTIPLICATION != Multiplication::Simple;
                let products = if is_folded { products.completed() } else { *products };
                *hash = products.reduce(self.token);
                leak!("GCM: whole group hashed", *hash);
            }
        }
        for state in states {
            *state = V::tied(*state);
        }
    }

    #[inline(always)]
    fn round_key(&self, round: usize) -> V {
        V::every(self.token, V::Block::load(self.token.into(), octets(&self.key[POWERS + round])))
    }

    /// A register of powers of H, from H^`power` down.
    ///
    /// # Safety
    /// `power` is at least 1 and at most [`POWERS`].
    #[inline(always)]
    unsafe fn powers(&self, power: usize) -> V {
        // SAFETY: the caller guarantees the power.
        unsafe { load_powers(self.token, self.key, power) }
    }

    /// The base with the counter `block`, a multiple of a group's blocks; `COUNTS` are then added to it.
    #[inline(always)]
    fn base_at(&self, block: usize) -> V {
        V::xor(self.base, V::count(self.token, block as u32))
    }

    /// The first counter blocks of a group, in this many registers, after the first round key. The group's last block belongs to the
    /// counters of the next group.
    #[inline(always)]
    fn counter_blocks(&self, registers: usize, (here, next): (V, V)) -> [V; MAX_GROUP] {
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
        const { assert!(Self::BLOCKS <= 16) };
        let mut counters = [here; MAX_GROUP];
        for (at, counter) in counters[..registers.min(Self::GROUP)].iter_mut().enumerate() {
            let here = if at == Self::GROUP - 1 { V::with_last(here, next) } else { here };
            *counter = if V::BLOCKS > 1 || at != Self::GROUP - 1 {
                // SAFETY: there are 16 counts, a group has at most 16 blocks, and this register is one of a group.
                let counts = unsafe { &*COUNTS.0.as_ptr().add(V::BLOCKS * at).cast() };
                V::xor(here, V::load(self.token, counts))
            } else {
                here
            };
        }
        counters
    }

    /// The hash of the associated data before its last block, plus that block: the first place in GHASH's first group.
    #[inline(always)]
    fn hash_aad(&self) -> V::Block {
        let token = self.token.into();
        let (blocks, last) = self.packet.aad.split_at(self.packet.aad.len().saturating_sub(1) & !15);
        let mut sum = V::Block::zero(token);
        for run in blocks.as_chunks().0.chunks(Self::POWERS) {
            let powers = &self.key[POWERS - run.len()..];
            let mut products: Option<Products<V::Block>> = None;
            for (block, power) in run.iter().zip(powers) {
                let block = V::Block::swap_octets(V::Block::load(token, block));
                let power = V::Block::load(token, octets(power));
                match &mut products {
                    None => products = Some(Products::of(V::Block::xor(sum, block), power)),
                    Some(products) => products.add(block, power),
                }
            }
            if let Some(products) = products {
                sum = products.reduce(token);
            }
            leak!("GCM: associated data hashed", sum);
        }
        V::Block::xor(sum, V::Block::swap_octets(V::Block::of(token, short_number(last))))
    }

    /// Computes the header mask if its sample lies in the first 32 octets of the text, which are in these registers.
    #[inline(always)]
    fn make_mask(&mut self, registers: usize, outputs: &[V; MAX_GROUP]) {
        let length = self.packet.length;
        if let Some(mask) = self.mask.filter(|mask| mask.sample <= 16 && mask.sample + 16 <= length) {
            let last = registers - 1;
            let start = V::second_and_third([outputs[0], outputs[1.min(last)], outputs[2.min(last)]]);
            // SAFETY: this sample starts in the first 16 octets, or just after them.
            let sample = unsafe { octets_of(self.token.into(), start, mask.sample) };
            leak!("GCM: header mask from registers", mask.key.keys);
            self.masked = Some(encrypt(self.token.into(), &mask.key.keys, mask.key.rounds, sample));
        }
    }
}
