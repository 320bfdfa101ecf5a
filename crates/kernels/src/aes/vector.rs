//! AES and carry-less multiplication on registers of one or more blocks, with the same names on all processors.
//!
//! A register is created from a [token](crate::cpu) or from other registers, so it exists only where its instructions do, and its functions
//! are safe to call. Only the functions that take pointers are unsafe.
//!
//! Everything here and in `gcm` that is generic over registers is `inline(always)`: it is compiled for a path only as part of a function
//! with the path's target features. With plain `inline` each instruction became a call, and sealing 1200 octets took 45 times as long
//! (VAES-256).

use zeroize::optimization_barrier;

/// The round keys of AES-256. AES-128 has four fewer.
pub(crate) const ROUND_KEYS: usize = 15;

/// Round keys, whose octets lie first to last. Their type is a number because numbers are wiped faster than octets.
pub(crate) type RoundKeys = [u128; ROUND_KEYS];

/// The number of rounds that AES has with a key.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rounds {
    /// 10, with a key of 16 octets.
    Ten,
    /// 14, with a key of 32 octets.
    Fourteen,
}

/// KEYEXPANSION (FIPS 197 §5.2) into `keys`, or `None` if `key` has neither 16 nor 32 octets. `substitute` is SUBWORD.
///
/// Words and blocks have their octets first to last, so ROTWORD rotates to the right.
#[inline]
pub(super) fn expand(key: &[u8], keys: &mut RoundKeys, substitute: impl Fn(u32) -> u32) -> Option<Rounds> {
    let words = |key: &[u8]| {
        let (words, _) = key.as_chunks();
        [0, 1, 2, 3].map(|at| u32::from_le_bytes(words[at]))
    };
    let block =
        |words: [u32; 4]| words.into_iter().rev().fold(0, |block, word| block << 32 | u128::from(word));
    // Each word is added to the next.
    let next = |[a, b, c, d]: [u32; 4], added: u32| {
        let a = a ^ added;
        [a, a ^ b, a ^ b ^ c, a ^ b ^ c ^ d]
    };
    let mut constant = 1_u32;
    let mut rotated = |last: u32| {
        let added = substitute(last).rotate_right(8) ^ constant;
        constant = if constant == 0x80 { 0x1b } else { constant << 1 };
        added
    };
    match key.len() {
        16 => {
            let mut last = words(key);
            leak!("AES-128: key expansion", last);
            for key in &mut keys[..11] {
                *key = block(last);
                last = next(last, rotated(last[3]));
            }
            Some(Rounds::Ten)
        }
        32 => {
            let (mut first, mut second) = (words(&key[..16]), words(&key[16..]));
            leak!("AES-256: key expansion", second);
            let (pairs, last) = keys.as_chunks_mut();
            for pair in pairs {
                *pair = [block(first), block(second)];
                first = next(first, rotated(second[3]));
                second = next(second, substitute(first[3]));
            }
            last[0] = block(first);
            Some(Rounds::Fourteen)
        }
        _ => None,
    }
}

/// How GCM multiplies blocks by powers of H.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Multiplication {
    /// With four products of halves.
    Simple,
    /// With three products by Karatsuba's method, one of them of the sums of halves. The key stores these sums for the powers of H.
    Karatsuba,
    /// Karatsuba's method for whole groups, with the sums in registers; four products for everything else.
    KaratsubaForGroups,
}

/// A register of one, two or four blocks.
pub(crate) trait Vector: Copy {
    /// The number of blocks it holds.
    const BLOCKS: usize;

    const MULTIPLICATION: Multiplication;

    /// The octets of all blocks.
    type Octets;

    /// Proof of the register's instructions.
    type Token: Copy + Into<<Self::Block as Vector>::Token>;

    /// A register of one block.
    type Block: Block;

    fn zero(token: Self::Token) -> Self;
    fn load(token: Self::Token, from: &Self::Octets) -> Self;
    fn store(to: &mut Self::Octets, v: Self);
    /// The block in every place.
    fn every(token: Self::Token, block: Self::Block) -> Self;
    /// The block in the first place, zeros in the others.
    fn first(token: Self::Token, block: Self::Block) -> Self;
    fn to_first(v: Self) -> Self::Block;
    /// The second and the third block of three registers.
    fn second_and_third(registers: [Self; 3]) -> [Self::Block; 2];
    /// The sum of all blocks.
    fn sum(v: Self) -> Self::Block;
    /// Blocks of zeros that end in this big-endian number.
    fn count(token: Self::Token, number: u32) -> Self;
    /// The last block from `next`, the others from `v`.
    fn with_last(v: Self, next: Self) -> Self;

    fn xor(a: Self, b: Self) -> Self;
    fn xor3(a: Self, b: Self, c: Self) -> Self;
    /// The same value, hidden from the compiler, which would otherwise spill the summands where registers are few.
    fn opaque(v: Self) -> Self;
    /// The same value. The compiler keeps tied values in order, and computes none of them later than here.
    fn tied(v: Self) -> Self;
    /// Reverses the octets of each block.
    fn swap_octets(v: Self) -> Self;
    /// Swaps the halves of each block.
    fn swap_halves(v: Self) -> Self;

    /// A round of AES, and its last round.
    fn aes(state: Self, key: Self) -> Self;
    fn aes_last(state: Self, key: Self) -> Self;

    /// Carry-less products: of the lower halves, of the upper halves, and of a lower with an upper half.
    fn low(a: Self, b: Self) -> Self;
    fn high(a: Self, b: Self) -> Self;
    fn low_high(a: Self, b: Self) -> Self;
    fn high_low(a: Self, b: Self) -> Self;

    /// Loads the octets of the edge, and zeros elsewhere.
    ///
    /// # Safety
    /// The edge is within a register, and its octets of the register at `from` can be read; in a long text also the 16 octets that end with
    /// each partial block.
    unsafe fn load_edge(token: Self::Token, from: *const u8, edge: Edge) -> Self;
    /// Stores only the octets of the edge. In a long text, octets before a partial block are rewritten with their present values.
    ///
    /// # Safety
    /// The edge is within a register, and its octets of the register at `to` can be written; in a long text also the 16 octets before each
    /// partial block.
    unsafe fn store_edge(token: Self::Token, to: *mut u8, v: Self, edge: Edge);
    /// Zeros all octets outside the edge.
    fn keep(v: Self, edge: Edge) -> Self;
}

/// A register of one block.
pub(crate) trait Block: Vector<Block = Self, Octets = [u8; 16]> {
    /// The block with these octets, the first one lowest.
    fn of(token: Self::Token, number: u128) -> Self;
    /// The octets at `places`; zero where the place is 16 or more.
    fn shuffled(v: Self, places: Self) -> Self;
    /// Whether all bits are zero, without a branch.
    fn is_zero(v: Self) -> bool;
}

/// The octets `from..to` of a register that belong to the text, at its start or end.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_long: bool,
}

impl Edge {
    /// `is_long` is for a text of at least one whole block: a partial block at its end can be read and written together with octets before it.
    ///
    /// # Safety
    /// `from` is 0 or 16 and not above `to`, which is at least 1 and at most 64.
    #[inline(always)]
    pub(crate) unsafe fn new(from: usize, to: usize, is_long: bool) -> Self {
        debug_assert!((from == 0 || from == 16) && from <= to && (1..=64).contains(&to));
        Self { from, to, is_long }
    }
}

/// The functions of a register, each compiled with the target features.
macro_rules! functions {
    ($features:literal: $(
        fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $body:expr;
    )*) => {$(
        #[inline(always)]
        fn $name($($argument: $type),*) -> $result {
            #[inline]
            #[target_feature(enable = $features)]
            fn instructions($($argument: $type),*) -> $result {
                $body
            }
            // SAFETY: one of the arguments is a token or a register, which proves these features.
            unsafe { instructions($($argument),*) }
        }
    )*};
}
pub(super) use functions;

/// `COUNT` octets from a table of zeros, ones and zeros: the first `count` are ones, if that is not more.
///
/// # Safety
/// `count` is at most 64.
#[inline(always)]
pub(super) unsafe fn ones<const COUNT: usize>(count: usize) -> &'static [u8; COUNT] {
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
    const { assert!(COUNT <= 32) };
    debug_assert!(count <= COUNT);
    // SAFETY: the caller guarantees an index of at most 64, where at least 32 octets follow in the table.
    unsafe { &*ONES.0.as_ptr().add(64 - count).cast() }
}

/// The 16 octets of two blocks from `offset` on.
///
/// # Safety
/// `offset` is at most 16.
#[inline(always)]
pub(crate) unsafe fn octets_of<B: Block>(token: B::Token, [first, second]: [B; 2], offset: usize) -> B {
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
    debug_assert!(offset <= 16);
    // SAFETY: the caller guarantees that both indices below are at most 32, where 16 octets follow in the table.
    let places = |at: usize| B::load(token, unsafe { &*PLACES.as_ptr().add(at).cast() });
    B::xor(B::shuffled(first, places(16 + offset)), B::shuffled(second, places(offset)))
}

/// At most 16 octets as a number, the first octet lowest.
#[inline(always)]
pub(crate) fn short_number(octets: &[u8]) -> u128 {
    let (low, high) = if let (Some(first), Some(last)) = (octets.first_chunk(), octets.last_chunk()) {
        // The first eight octets, and the last eight without those already among the first.
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

/// Loads the first `count` octets of a block, followed by zeros.
///
/// # Safety
/// `count` is at most 16, and so many octets can be read; if the text is long and `count` is not 0, also the octets before them that make up 16.
#[inline(always)]
pub(super) unsafe fn load_part<B: Block>(token: B::Token, from: *const u8, count: usize, is_long: bool) -> B {
    match count {
        0 => B::zero(token),
        _ if is_long => {
            // SAFETY: the text is long, so the caller guarantees 16 octets that end with these.
            let last = B::load(token, unsafe { &*from.wrapping_add(count).wrapping_sub(16).cast() });
            // SAFETY: the caller guarantees that `count` is at most 16.
            unsafe { octets_of(token, [last, B::zero(token)], 16 - count) }
        }
        // SAFETY: the caller guarantees `count` octets, here 16.
        16 => B::load(token, unsafe { &*from.cast() }),
        // SAFETY: the caller guarantees `count` octets.
        _ => B::of(token, short_number(unsafe { core::slice::from_raw_parts(from, count) })),
    }
}

/// Stores the first `count` octets of a block. In a long text, rewrites octets before them with their present values.
///
/// # Safety
/// `count` is at most 16, and so many octets can be written; if the text is long and `count` is neither 0 nor 16, also the 16 octets before `to`.
#[inline(always)]
pub(super) unsafe fn store_part<B: Block>(
    token: B::Token,
    to: *mut u8,
    block: B,
    count: usize,
    is_long: bool,
) {
    match count {
        0 => {}
        // SAFETY: the caller guarantees `count` octets, here 16.
        16 => B::store(unsafe { &mut *to.cast() }, block),
        _ if is_long => {
            leak!("GCM: end of a long text stored", block);
            // SAFETY: the text is long, so the caller guarantees 16 octets before `to`.
            let before = B::load(token, unsafe { &*to.wrapping_sub(16).cast() });
            // SAFETY: these 16 octets end with the last of the `count` octets, and start within the 16 before `to`.
            let place = unsafe { &mut *to.wrapping_add(count).wrapping_sub(16).cast() };
            // SAFETY: the caller guarantees that `count` is at most 16.
            B::store(place, unsafe { octets_of(token, [before, block], count) });
        }
        _ => {
            leak!("GCM: text shorter than a block stored", block);
            let mut octets = [0; 16];
            B::store(&mut octets, block);
            // SAFETY: the caller guarantees `count` octets.
            unsafe { core::slice::from_raw_parts_mut(to, count) }.copy_from_slice(&octets[..count]);
            // They may be plaintext that turns out to be forged.
            octets = [0; 16];
            optimization_barrier(&octets);
        }
    }
}

/// CIPHER (FIPS 197 §5.1) of a block.
#[inline(always)]
pub(crate) fn encrypt<B: Block>(token: B::Token, keys: &RoundKeys, rounds: Rounds, block: B) -> B {
    match rounds {
        Rounds::Ten => encrypt_in::<B, 10>(token, keys, block),
        Rounds::Fourteen => encrypt_in::<B, 14>(token, keys, block),
    }
}

#[inline(always)]
fn encrypt_in<B: Block, const ROUNDS: usize>(token: B::Token, keys: &RoundKeys, block: B) -> B {
    let key = |round: usize| B::load(token, octets(&keys[round]));
    let mut state = B::xor(block, key(0));
    for round in 1..ROUNDS {
        state = B::aes(state, key(round));
    }
    B::aes_last(state, key(ROUNDS))
}

/// The octets of a number as they lie in memory.
#[inline(always)]
pub(crate) fn octets(number: &u128) -> &[u8; 16] {
    // SAFETY: a number has 16 octets.
    unsafe { &*core::ptr::from_ref(number).cast() }
}
