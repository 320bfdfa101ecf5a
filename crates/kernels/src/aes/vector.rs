//! AES and carry-less multiplication on one or more blocks at a time, under one set of names for all processors.

use zeroize::optimization_barrier;

use super::Block;
use super::expand::Rounds;

/// A register of one, two or four blocks.
///
/// Every function is unsafe to call: only from code compiled for the register's path, and with pointers to as many octets as it
/// says.
pub(crate) trait Vector: Copy {
    /// How many blocks it holds.
    const BLOCKS: usize;

    /// How many registers GCM works on at a time: 16 blocks, or 8 of one block, because no processor has more registers.
    const GROUP: usize;

    /// Whether GCM multiplies blocks with three products of their halves, by Karatsuba's method, or with four.
    const KARATSUBA: bool;

    /// Whether whole groups use Karatsuba's method with a key that has no sums for it: they are kept in registers.
    const FOLDS_IN_REGISTERS: bool = false;

    /// Which octets belong to the text, in a register at its start or end.
    type Edge: Copy;

    unsafe fn zero() -> Self;
    /// [`Self::BLOCKS`] blocks from anywhere.
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(to: *mut u8, v: Self);
    /// The 16 octets in all blocks.
    unsafe fn load_every(from: *const u8) -> Self;
    unsafe fn every(block: Block) -> Self;
    /// The block first, and zeros.
    unsafe fn first(block: Block) -> Self;
    unsafe fn to_first(v: Self) -> Block;
    /// The second and the third block of three registers.
    unsafe fn second_and_third(registers: [Self; 3]) -> [Block; 2];
    /// The sum of all blocks.
    unsafe fn sum(v: Self) -> Block;
    /// Blocks of zeros that end in the big-endian number.
    unsafe fn count(number: u32) -> Self;
    /// The last block from `next`, the others from `v`.
    unsafe fn with_last(v: Self, next: Self) -> Self;

    unsafe fn xor(a: Self, b: Self) -> Self;
    unsafe fn xor3(a: Self, b: Self, c: Self) -> Self;
    /// The same value, opaque to the compiler. Where registers are few, it would otherwise spill the summands.
    unsafe fn opaque(v: Self) -> Self;
    /// The same value. The compiler keeps to the order of what is tied, and computes nothing of it later than here.
    unsafe fn tied(v: Self) -> Self;
    /// Reverses the octets of each block.
    unsafe fn swap_octets(v: Self) -> Self;
    /// Swaps the halves of each block.
    unsafe fn swap_halves(v: Self) -> Self;

    /// A round of AES, and its last round.
    unsafe fn aes(state: Self, key: Self) -> Self;
    unsafe fn aes_last(state: Self, key: Self) -> Self;

    /// Carry-less products: of the lower halves, of the upper halves, and of a lower with an upper half.
    unsafe fn low(a: Self, b: Self) -> Self;
    unsafe fn high(a: Self, b: Self) -> Self;
    unsafe fn low_high(a: Self, b: Self) -> Self;
    unsafe fn high_low(a: Self, b: Self) -> Self;

    /// The octets `from..to` of a register, where `from` is 0 or 16 and not above `to`. `is_long` says that the text has a whole
    /// block, which lets a partial block at its end be read and written together with octets before it.
    unsafe fn edge(from: usize, to: usize, is_long: bool) -> Self::Edge;
    /// Loads the octets of the edge, and zeros elsewhere.
    unsafe fn load_edge(from: *const u8, edge: Self::Edge) -> Self;
    /// Stores only the octets of the edge.
    unsafe fn store_edge(to: *mut u8, v: Self, edge: Self::Edge);
    /// Zeros all octets outside of the edge.
    unsafe fn keep(v: Self, edge: Self::Edge) -> Self;
}

/// Zeros, then as many ones, then zeros.
#[repr(C, align(64))]
struct Ones([u8; 96]);

static ONES: Ones = {
    let mut octets = [0; 96];
    let mut at = 32;
    while at < 64 {
        octets[at] = 0xff;
        at += 1;
    }
    Ones(octets)
};

/// 32 octets, of which the first `count` are ones and the others zeros.
#[inline(always)]
pub(super) fn ones(count: usize) -> *const u8 {
    debug_assert!(count <= 32);
    ONES.0.as_ptr().wrapping_add(64 - count)
}

/// The indices of a block's octets, between indices that a shuffle turns into zeros.
static PLACES: [u8; 48] = {
    let mut places = [0x80; 48];
    let mut at = 0;
    while at < 16 {
        places[16 + at] = at as u8;
        at += 1;
    }
    places
};

/// The 16 octets of two blocks from `offset` on, which is at most 16.
///
/// # Safety
///
/// As for the functions of [`Vector`].
#[inline(always)]
pub(crate) unsafe fn octets_of([first, second]: [Block; 2], offset: usize) -> Block {
    debug_assert!(offset <= 16);
    // SAFETY: as the caller's; 16 indices follow either.
    unsafe {
        let places = PLACES.as_ptr();
        let first = Block::shuffled(first, Block::load(places.add(16 + offset)));
        Block::xor(first, Block::shuffled(second, Block::load(places.add(offset))))
    }
}

/// At most 16 octets as a number, the first octet lowest.
#[inline(always)]
pub(crate) fn short_number(octets: &[u8]) -> u128 {
    let (low, high) = if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        // The first eight octets, and the last eight without those that are among the first.
        let shift = 8 * (16 - octets.len()) as u32;
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last).checked_shr(shift).unwrap_or(0))
    } else if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (octets.len() - 4));
        (u64::from(u32::from_le_bytes(*first)) | last, 0)
    } else {
        (octets.iter().rev().fold(0, |low, octet| low << 8 | u64::from(*octet)), 0)
    };
    u128::from(low) | u128::from(high) << 64
}

/// At most 16 octets, followed by zeros.
///
/// # Safety
///
/// As for the functions of [`Vector`].
#[inline(always)]
pub(crate) unsafe fn load_short(octets: &[u8]) -> Block {
    let number = short_number(octets);
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe { Block::of(number as u64, (number >> 64) as u64) }
}

/// Loads the first `count` octets of a block, followed by zeros. Octets outside of the text are not touched.
///
/// # Safety
///
/// As for the functions of [`Vector`], with a pointer to `count` octets, at most 16. If the text is long, it has octets before them
/// that make up 16, unless `count` is 0.
#[inline(always)]
pub(super) unsafe fn load_part(from: *const u8, count: usize, is_long: bool) -> Block {
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        match count {
            0 => Block::zero(),
            _ if is_long => {
                let last = Block::load(from.wrapping_add(count).wrapping_sub(16));
                octets_of([last, Block::zero()], 16 - count)
            }
            16 => Block::load(from),
            _ => load_short(core::slice::from_raw_parts(from, count)),
        }
    }
}

/// Stores the first `count` octets of a block. In a long text, rewrites octets before them with what is there. Octets behind them
/// are not touched.
///
/// # Safety
///
/// As of [`load_part`]; if the text is long, a whole block of it is before `to`, unless `count` is 0 or 16.
#[inline(always)]
pub(super) unsafe fn store_part(to: *mut u8, block: Block, count: usize, is_long: bool) {
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        match count {
            0 => {}
            16 => Block::store(to, block),
            _ if is_long => {
                leak!("GCM: end of a long text stored", block);
                let before = Block::load(to.wrapping_sub(16));
                Block::store(to.wrapping_add(count).wrapping_sub(16), octets_of([before, block], count));
            }
            _ => {
                leak!("GCM: text shorter than a block stored", block);
                let mut octets = [0; 16];
                Block::store(octets.as_mut_ptr(), block);
                core::slice::from_raw_parts_mut(to, count).copy_from_slice(&octets[..count]);
                // They may be plaintext that turns out not to be authentic.
                octets = [0; 16];
                optimization_barrier(&octets);
            }
        }
    }
}

/// Encrypts `states` in `ROUNDS` rounds.
///
/// # Safety
///
/// As for the functions of [`Vector`]; `keys` are `ROUNDS + 1` blocks.
#[inline(always)]
pub(crate) unsafe fn encrypt<V: Vector, const N: usize, const ROUNDS: usize>(
    keys: *const u8,
    mut states: [V; N],
) -> [V; N] {
    // SAFETY: as the caller's.
    unsafe {
        let key = V::load_every(keys);
        for state in &mut states {
            *state = V::xor(*state, key);
        }
        for round in 1..ROUNDS {
            let key = V::load_every(keys.add(16 * round));
            for state in &mut states {
                *state = V::aes(*state, key);
            }
        }
        let key = V::load_every(keys.add(16 * ROUNDS));
        for state in &mut states {
            *state = V::aes_last(*state, key);
        }
        states
    }
}

/// [`encrypt`] with as many rounds as the key needs.
///
/// # Safety
///
/// As for [`encrypt`].
#[inline(always)]
pub(crate) unsafe fn encrypt_rounds<V: Vector, const N: usize>(
    keys: *const u8,
    rounds: Rounds,
    states: [V; N],
) -> [V; N] {
    // SAFETY: guaranteed by this function's `# Safety` section.
    unsafe {
        match rounds {
            Rounds::Ten => encrypt::<V, N, 10>(keys, states),
            Rounds::Fourteen => encrypt::<V, N, 14>(keys, states),
        }
    }
}
