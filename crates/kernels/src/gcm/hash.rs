//! GHASH over many blocks with one reduction.
//!
//! Blocks are 128-bit numbers with their octets reversed, so the first bit of a block, the coefficient of x^0, is the highest. The
//! product of two such numbers is one bit too low. The powers of H make up for it: they are divided by x when the key is made.

use crate::aes::Block;
use crate::aes::vector::Vector;

/// The field's polynomial without x^128 and 1, that is x^7 + x^2 + x, as the upper half of a block divided by x.
const POLYNOMIAL: u64 = 0xc2 << 56;

/// A sum of products before reduction, in each block of a register.
#[derive(Clone, Copy)]
pub(super) struct Products<V> {
    low: V,
    middle: V,
    high: V,
}

impl<V: Vector> Products<V> {
    /// The empty sum.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn zero() -> Self {
        // SAFETY: as the caller's.
        unsafe { Self { low: V::zero(), middle: V::zero(), high: V::zero() } }
    }

    /// The products of the blocks of two registers.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn of(a: V, b: V) -> Self {
        // SAFETY: as the caller's.
        unsafe {
            Self {
                low: V::low(a, b),
                middle: V::xor(V::low_high(a, b), V::high_low(a, b)),
                high: V::high(a, b),
            }
        }
    }

    /// Adds the products of the blocks of two registers.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, a: V, b: V) {
        // SAFETY: as the caller's.
        unsafe {
            self.low = V::opaque(V::xor(self.low, V::low(a, b)));
            self.middle = V::opaque(V::xor3(self.middle, V::low_high(a, b), V::high_low(a, b)));
            self.high = V::opaque(V::xor(self.high, V::high(a, b)));
        }
    }

    /// Adds the products of the blocks of two registers by Karatsuba's method: `folded` has the sums of the halves of `b`. The
    /// middle is complete after [`Self::completed`].
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn add_folded(&mut self, a: V, b: V, folded: V) {
        // SAFETY: as the caller's.
        unsafe {
            self.low = V::xor(self.low, V::low(a, b));
            self.middle = V::xor(self.middle, V::low(V::xor(a, V::swap_halves(a)), folded));
            self.high = V::xor(self.high, V::high(a, b));
        }
    }

    /// With the middle that [`Self::add_folded`] leaves incomplete.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn completed(self) -> Self {
        // SAFETY: as the caller's.
        unsafe { Self { middle: V::xor3(self.middle, self.low, self.high), ..self } }
    }

    /// [Ties](Vector::tied) all parts.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn tie(&mut self) {
        // SAFETY: as the caller's.
        unsafe {
            self.low = V::tied(self.low);
            self.middle = V::tied(self.middle);
            self.high = V::tied(self.high);
        }
    }

    /// Reduces the sum of all blocks.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`].
    #[inline(always)]
    pub(super) unsafe fn reduce(self) -> Block {
        // SAFETY: as the caller's.
        unsafe {
            let polynomial = V::every(Block::of(POLYNOMIAL, 0));
            let middle = V::xor3(self.middle, V::swap_halves(self.low), V::low(self.low, polynomial));
            let high = V::xor3(self.high, V::swap_halves(middle), V::low(middle, polynomial));
            V::sum(high)
        }
    }
}

/// The product of two blocks.
///
/// # Safety
///
/// As for the functions of [`Vector`].
#[inline(always)]
pub(super) unsafe fn multiply(a: Block, b: Block) -> Block {
    // SAFETY: as the caller's.
    unsafe { Products::of(a, b).reduce() }
}

/// Divides H, with its octets reversed, by x.
#[inline]
pub(super) const fn divided_by_x(h: u128) -> u128 {
    h << 1 ^ 0u128.wrapping_sub(h >> 127) & ((POLYNOMIAL as u128) << 64 | 1)
}
