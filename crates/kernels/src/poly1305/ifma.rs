//! Eight blocks at once with 52-bit multiplication in vectors (AVX-512 IFMA).
//!
//! A number has three limbs of 44, 44 and 42 bits or a little more, in one lane of three vectors. Each lane is multiplied by r^8, and the
//! last time by the power of r that remains from its block to the end of the message.

use core::arch::x86_64::*;

use super::accumulator::{H, R, wide};

/// Numbers, one in each lane.
#[derive(Clone, Copy)]
struct Lanes([__m512i; 3]);

/// The bits of the first and the second limb, which start at 2^0 and 2^44.
const LIMB: u64 = (1 << 44) - 1;
/// The bits of the last limb, which starts at 2^88.
const LAST_LIMB: u64 = (1 << 42) - 1;

/// Processes `eights` into the accumulator.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn blocks(h: H, eights: &[[[u8; 16]; 8]], r: R) -> H {
    let Some((last, others)) = eights.split_last() else { return h };
    leak!("Poly1305: eight blocks", r.low);
    let (powers, eighth) = powers(split([r.low, r.high, 0]));
    // The accumulator is added to the first block only.
    let mut lanes = Lanes::all([0; 3]).or(1, Lanes::all(split(h.0)));
    for eight in others {
        lanes = lanes.plus(load(eight)).times(&eighth);
    }
    lanes.plus(load(last)).times(&powers).sum()
}

/// A number of three words as three limbs.
fn split([low, middle, high]: [u64; 3]) -> [u64; 3] {
    [low & LIMB, (low >> 44 | middle << 20) & LIMB, middle >> 24 | high << 40]
}

/// The power of r that each lane needs at the end, in the order of [`load`], and r^8 in all lanes.
#[target_feature(enable = "avx512f,avx512ifma")]
fn powers(r: [u64; 3]) -> (Factor, Factor) {
    let first = Lanes::all(r);
    let second = first.times(&Factor::new(first));
    // Exponents 2, 2, 1, 1, 0, 0 plus two, and 1 in the last two lanes: 4, 4, 3, 3, 2, 2, 1, 1.
    let one = Lanes::all([1, 0, 0]);
    let start = first.or(0b0000_0011, second).or(0b0011_0000, one);
    let to_fourth = start.times(&Factor::new(second)).or(0b1100_0000, first);
    // Four more in every other lane.
    let fourth = to_fourth.lane_0();
    let powers = to_fourth.times(&Factor::new(one.or(0b0101_0101, fourth)));
    (Factor::new(powers), Factor::new(powers.lane_0()))
}

/// The blocks in lanes 0, 2, 4, 6, 1, 3, 5, 7, each followed by the octet 1.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(blocks: &[[u8; 16]; 8]) -> Lanes {
    let at = blocks.as_ptr();
    // SAFETY: eight blocks are two loads of four; they need no alignment.
    let [front, back] = unsafe { [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(4).cast())] };
    let low = _mm512_unpacklo_epi64(front, back);
    let high = _mm512_unpackhi_epi64(front, back);
    let limb = splat(LIMB);
    let middle = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
    let last = _mm512_or_si512(_mm512_srli_epi64::<24>(high), splat(1 << 40));
    Lanes([_mm512_and_si512(low, limb), _mm512_and_si512(middle, limb), last])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

/// The limbs of a factor, and the upper two times 20, since 2^132 is 20 modulo 2^130 - 5.
struct Factor {
    limbs: [__m512i; 3],
    folded: [__m512i; 2],
}

impl Factor {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(Lanes(limbs): Lanes) -> Self {
        let twenty = |limb| _mm512_add_epi64(_mm512_slli_epi64::<4>(limb), _mm512_slli_epi64::<2>(limb));
        Self { limbs, folded: [twenty(limbs[1]), twenty(limbs[2])] }
    }
}

/// The sums of products of limbs: of their lower 52 bits, and of their upper ones.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn products(a: [__m512i; 3], b: [__m512i; 3]) -> (__m512i, __m512i) {
    let zero = _mm512_setzero_si512();
    let low = _mm512_madd52lo_epu64(zero, a[1], b[1]);
    let high = _mm512_madd52hi_epu64(zero, a[1], b[1]);
    let low = _mm512_madd52lo_epu64(low, a[2], b[2]);
    let high = _mm512_madd52hi_epu64(high, a[2], b[2]);
    (_mm512_madd52lo_epu64(low, a[0], b[0]), _mm512_madd52hi_epu64(high, a[0], b[0]))
}

impl Lanes {
    /// The same limbs in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn all(limbs: [u64; 3]) -> Self {
        Self([splat(limbs[0]), splat(limbs[1]), splat(limbs[2])])
    }

    /// The number of lane 0 in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lane_0(self) -> Self {
        let [a, b, c] = self.0;
        let all = |limb| _mm512_broadcastq_epi64(_mm512_castsi512_si128(limb));
        Self([all(a), all(b), all(c)])
    }

    /// The numbers of `others` in the lanes of `mask`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn or(self, mask: __mmask8, others: Self) -> Self {
        let [a, b, c] = self.0;
        let blend = |ours, theirs| _mm512_mask_blend_epi64(mask, ours, theirs);
        Self([blend(a, others.0[0]), blend(b, others.0[1]), blend(c, others.0[2])])
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn plus(self, others: Self) -> Self {
        let [a, b, c] = self.0;
        Self([
            _mm512_add_epi64(a, others.0[0]),
            _mm512_add_epi64(b, others.0[1]),
            _mm512_add_epi64(c, others.0[2]),
        ])
    }

    /// Multiplies lane by lane modulo 2^130 - 5. Limbs of up to 46 bits become limbs of at most 44, 45 and 43 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn times(self, factor: &Factor) -> Self {
        let ([h0, h1, h2], [r0, r1, r2], [s1, s2]) = (self.0, factor.limbs, factor.folded);
        let (low_2, high_2) = products([h0, h1, h2], [r2, r1, r0]);
        let (low_1, high_1) = products([h0, h1, h2], [r1, r0, s2]);
        let (low_0, high_0) = products([h0, h1, h2], [r0, s2, s1]);

        // Upper parts start at 2^52, which is 2^8 of the next limb; above the last limb, 2^140 counts as 5 * 2^10.
        let d2 = _mm512_add_epi64(low_2, _mm512_slli_epi64::<8>(high_1));
        let d1 = _mm512_add_epi64(low_1, _mm512_slli_epi64::<8>(high_0));
        let beyond = _mm512_add_epi64(_mm512_slli_epi64::<10>(high_2), _mm512_srli_epi64::<42>(d2));
        let five_times = _mm512_add_epi64(_mm512_slli_epi64::<2>(beyond), beyond);
        let d0 = _mm512_add_epi64(low_0, five_times);

        let (limb, last_limb) = (splat(LIMB), splat(LAST_LIMB));
        Self([
            _mm512_and_si512(d0, limb),
            _mm512_add_epi64(_mm512_and_si512(d1, limb), _mm512_srli_epi64::<44>(d0)),
            _mm512_add_epi64(_mm512_and_si512(d2, last_limb), _mm512_srli_epi64::<44>(d1)),
        ])
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sum(self) -> H {
        let [a, b, c] = self.0;
        let all = |limbs| _mm512_reduce_add_epi64(limbs).cast_unsigned();
        let lower = wide(all(a)) + (wide(all(b)) << 44);
        let upper = (lower >> 64) + (wide(all(c)) << 24);
        H([lower as u64, upper as u64, (upper >> 64) as u64]).folded()
    }
}
