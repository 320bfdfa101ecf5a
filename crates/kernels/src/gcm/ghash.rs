//! GHASH over many blocks with one reduction.
//!
//! Blocks are 128-bit numbers with their octets reversed, so the first bit of a block, the coefficient of x^0, is the highest. The product
//! of two such numbers is one bit too low. To compensate, the powers of H are divided by x when the key is created.

use crate::aes::vector::{Block, Multiplication, ROUND_KEYS, Vector, octets};

/// The field's polynomial without x^128 and 1, that is x^7 + x^2 + x, as the upper half of a block divided by x.
const POLYNOMIAL: u64 = 0xc2 << 56;

/// The number of powers of H in a key: enough for a group of 16 blocks, or for fewer blocks followed by the lengths. For Karatsuba's
/// method, the key has H^8 to H^1, and eight places before each of them the sum of its halves, in both halves.
pub(super) const POWERS: usize = 16;

/// The powers of H, from the highest down, in the layout of [`POWERS`], then the round keys.
pub(super) type Key = [u128; POWERS + ROUND_KEYS];

/// A register of powers of H, from H^`power` down.
///
/// # Safety
/// `power` is at least 1 and at most [`POWERS`].
#[inline(always)]
pub(super) unsafe fn load_powers<V: Vector>(token: V::Token, key: &Key, power: usize) -> V {
    const { assert!(V::BLOCKS <= ROUND_KEYS) };
    debug_assert!((1..=POWERS).contains(&power));
    // SAFETY: the caller guarantees a power; after H^1 come the round keys, at least as many blocks as a register holds.
    V::load(token, unsafe { &*key.as_ptr().add(POWERS - power).cast() })
}

/// A sum of products before reduction, in each block of a register.
#[derive(Clone, Copy)]
pub(super) struct Products<V> {
    low: V,
    middle: V,
    high: V,
}

impl<V: Vector> Products<V> {
    /// Whether the key has the sums of halves.
    pub(super) const HAS_SUMS: bool = V::MULTIPLICATION as u8 == Multiplication::Karatsuba as u8;

    /// The highest power of H in the key.
    pub(super) const HIGHEST_POWER: usize = if Self::HAS_SUMS { POWERS / 2 } else { POWERS };

    /// The empty sum.
    #[inline(always)]
    pub(super) fn zero(token: V::Token) -> Self {
        Self { low: V::zero(token), middle: V::zero(token), high: V::zero(token) }
    }

    /// The products of the blocks of two registers.
    #[inline(always)]
    pub(super) fn of(a: V, b: V) -> Self {
        Self { low: V::low(a, b), middle: V::xor(V::low_high(a, b), V::high_low(a, b)), high: V::high(a, b) }
    }

    /// Adds the products of the blocks of two registers.
    #[inline(always)]
    pub(super) fn add(&mut self, a: V, b: V) {
        self.low = V::opaque(V::xor(self.low, V::low(a, b)));
        self.middle = V::opaque(V::xor3(self.middle, V::low_high(a, b), V::high_low(a, b)));
        self.high = V::opaque(V::xor(self.high, V::high(a, b)));
    }

    /// Adds the products of the blocks of two registers by Karatsuba's method: `folded` has the sums of the halves of `b`. Call
    /// [`Self::completed`] to complete the middle.
    #[inline(always)]
    pub(super) fn add_folded(&mut self, a: V, b: V, folded: V) {
        self.low = V::xor(self.low, V::low(a, b));
        self.middle = V::xor(self.middle, V::low(V::xor(a, V::swap_halves(a)), folded));
        self.high = V::xor(self.high, V::high(a, b));
    }

    /// The products of a register of blocks and the powers of H from H^`power` down.
    ///
    /// # Safety
    /// `power` is at least 1 and at most [`Self::HIGHEST_POWER`].
    #[inline(always)]
    pub(super) unsafe fn with_powers(token: V::Token, key: &Key, blocks: V, power: usize) -> Self {
        if Self::HAS_SUMS {
            let mut products = Self::zero(token);
            // SAFETY: the caller guarantees the power.
            unsafe { products.add_with_powers(token, key, blocks, power) };
            products
        } else {
            // SAFETY: the caller guarantees the power.
            Self::of(blocks, unsafe { load_powers(token, key, power) })
        }
    }

    /// Adds the same products. With sums, call [`Self::completed`] to complete the middle.
    ///
    /// # Safety
    /// As for [`Self::with_powers`].
    #[inline(always)]
    pub(super) unsafe fn add_with_powers(&mut self, token: V::Token, key: &Key, blocks: V, power: usize) {
        // SAFETY: the caller guarantees the power.
        let powers = unsafe { load_powers(token, key, power) };
        if Self::HAS_SUMS {
            // SAFETY: the power is at most half of POWERS, and the sums come this far before the powers.
            let sums = unsafe { load_powers(token, key, POWERS / 2 + power) };
            self.add_folded(blocks, powers, sums);
        } else {
            self.add(blocks, powers);
        }
    }

    /// Completes the middle that [`Self::add_folded`] leaves incomplete.
    #[inline(always)]
    pub(super) fn completed(self) -> Self {
        Self { middle: V::xor3(self.middle, self.low, self.high), ..self }
    }

    /// [Ties](Vector::tied) all parts.
    #[inline(always)]
    pub(super) fn tie(&mut self) {
        self.low = V::tied(self.low);
        self.middle = V::tied(self.middle);
        self.high = V::tied(self.high);
    }

    /// Reduces the sum of all blocks.
    #[inline(always)]
    pub(super) fn reduce(self, token: V::Token) -> V::Block {
        let polynomial = V::every(token, V::Block::of(token.into(), POLYNOMIAL.into()));
        let middle = V::xor3(self.middle, V::swap_halves(self.low), V::low(self.low, polynomial));
        let high = V::xor3(self.high, V::swap_halves(middle), V::low(middle, polynomial));
        V::sum(high)
    }
}

/// The product of two blocks.
#[inline(always)]
pub(super) fn multiply<B: Block>(token: B::Token, a: B, b: B) -> B {
    Products::of(a, b).reduce(token)
}

/// Writes the powers of H, with their octets reversed, from the highest down, in the layout of [`POWERS`].
#[inline(always)]
pub(super) fn powers<V: Vector>(token: V::Token, h: u128, powers: &mut [u128; POWERS]) {
    leak!("GCM: powers of H", h);
    let token = token.into();
    let at = |power: usize| POWERS - power;
    // H divided by x.
    powers[at(1)] = h << 1 ^ 0u128.wrapping_sub(h >> 127) & (u128::from(POLYNOMIAL) << 64 | 1);
    for power in 2..=Products::<V>::HIGHEST_POWER {
        let (a, b) = (power / 2, power - power / 2);
        let [a, b] = [a, b].map(|power| V::Block::load(token, octets(&powers[at(power)])));
        let mut product = [0; 16];
        V::Block::store(&mut product, multiply(token, a, b));
        powers[at(power)] = u128::from_le_bytes(product);
    }
    if Products::<V>::HAS_SUMS {
        let (folded, powers) = powers.split_at_mut(POWERS / 2);
        for (folded, power) in folded.iter_mut().zip(powers) {
            *folded = *power ^ power.rotate_left(64);
        }
    }
}
