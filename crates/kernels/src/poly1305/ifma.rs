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

/// With this many groups of eight blocks before the last, or more, four groups share a reduction, although that needs more powers of r.
const FEW: usize = 5;

/// Processes `eights` into the accumulator.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn blocks(h: H, eights: &[[[u8; 16]; 8]], r: R) -> H {
    leak!("Poly1305: eight blocks", r.low);
    let lanes = powers(split([r.low, r.high, 0]));
    let eighth = lanes.lane_0();
    let first = Factor::new(eighth);
    if eights.len() <= FEW {
        return sum(h, eights, lanes, [first; 4], false);
    }
    let sixteenth = eighth.times(&first);
    let second = Factor::new(sixteenth);
    let (third, fourth) = (Factor::new(sixteenth.times(&first)), Factor::new(sixteenth.times(&second)));
    sum(h, eights, lanes, [first, second, third, fourth], true)
}

/// Processes `eights` into the accumulator, with the power of r that each lane needs at the end and r^8, r^16, r^24 and r^32 in all
/// lanes: if not `in_fours`, r^8 is enough.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn sum(h: H, eights: &[[[u8; 16]; 8]], last_powers: Lanes, powers: [Factor; 4], in_fours: bool) -> H {
    let Some((last, others)) = eights.split_last() else { return h };
    // The accumulator is added to the first block only.
    let mut lanes = Lanes::all([0; 3]).or(1, Lanes::all(split(h.0)));
    let [first, second, third, fourth] = &powers;
    let (front, fours) = others.as_rchunks::<4>();
    for eight in front {
        lanes = lanes.plus(load(eight)).times(first);
    }
    for [a, b, c, d] in fours {
        lanes = lanes.plus(load(a));
        if in_fours {
            // Only the last product depends on the four before.
            let sum = Products::zero().plus(load(d), first).plus(load(c), second).plus(load(b), third);
            lanes = sum.plus(lanes, fourth).reduced();
        } else {
            lanes = lanes.times(first).plus(load(b)).times(first);
            lanes = lanes.plus(load(c)).times(first).plus(load(d)).times(first);
        }
    }
    lanes.plus(load(last)).times(&Factor::new(last_powers)).sum()
}

/// Powers of r in limbs, computed with general registers beside vectors that do something else. Vectors load the lanes, each from one
/// cache line.
#[repr(align(64))]
pub(crate) struct Powers {
    /// r^8 to r, in the order of [`load`].
    lanes: [[u64; 8]; 3],
    /// r^8, r^16, r^24 and r^32.
    eighths: [[u64; 3]; 4],
}

impl Powers {
    #[inline(always)]
    pub(super) fn new(r: R) -> Self {
        let mut powers = Self { lanes: [[0; 8]; 3], eighths: [[0; 3]; 4] };
        powers.set(7, split([r.low, r.high, 0]));
        powers
    }

    #[inline(always)]
    fn set(&mut self, lane: usize, limbs: [u64; 3]) {
        [self.lanes[0][lane], self.lanes[1][lane], self.lanes[2][lane]] = limbs;
    }

    #[inline(always)]
    fn get(&self, lane: usize) -> [u64; 3] {
        [self.lanes[0][lane], self.lanes[1][lane], self.lanes[2][lane]]
    }

    /// The next of five steps.
    #[inline(always)]
    pub(super) fn step(&mut self, number: usize) {
        // The lanes of these powers.
        let (first, second, third, fourth) = (7, 5, 3, 1);
        let (fifth, sixth, seventh, eighth) = (6, 4, 2, 0);
        match number {
            0 => self.set(second, times(self.get(first), self.get(first))),
            1 => {
                self.set(fourth, times(self.get(second), self.get(second)));
                self.set(third, times(self.get(second), self.get(first)));
            }
            2 => {
                self.eighths[0] = times(self.get(fourth), self.get(fourth));
                self.set(eighth, self.eighths[0]);
                self.set(fifth, times(self.get(fourth), self.get(first)));
            }
            3 => {
                self.eighths[1] = times(self.eighths[0], self.eighths[0]);
                self.set(sixth, times(self.get(fourth), self.get(second)));
            }
            _ => {
                self.eighths[3] = times(self.eighths[1], self.eighths[1]);
                self.eighths[2] = times(self.eighths[1], self.eighths[0]);
                self.set(seventh, times(self.get(fourth), self.get(third)));
            }
        }
    }

    /// Processes `eights` into the accumulator.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn blocks(&self, h: H, eights: &[[[u8; 16]; 8]]) -> H {
        leak!("Poly1305: eight blocks, powers ready", self.lanes[0][0]);
        let [a, b, c] = &self.lanes;
        // SAFETY: each array has as many words as a vector; any alignment will do.
        let load = |words: &[u64; 8]| unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        let factor = |limbs: [u64; 3]| Factor::new(Lanes::all(limbs));
        let [first, second, third, fourth] = self.eighths;
        let powers = [factor(first), factor(second), factor(third), factor(fourth)];
        sum(h, eights, Lanes([load(a), load(b), load(c)]), powers, true)
    }
}

/// Multiplies modulo 2^130 - 5. Limbs of up to 46 bits become limbs of at most 44, 45 and 43 bits.
#[inline(always)]
fn times([a0, a1, a2]: [u64; 3], [b0, b1, b2]: [u64; 3]) -> [u64; 3] {
    // Above the last limb, 2^132 counts as 20.
    let (s1, s2) = (20 * b1, 20 * b2);
    let d0 = wide(a0) * wide(b0) + wide(a1) * wide(s2) + wide(a2) * wide(s1);
    let d1 = wide(a0) * wide(b1) + wide(a1) * wide(b0) + wide(a2) * wide(s2);
    let d2 = wide(a0) * wide(b2) + wide(a1) * wide(b1) + wide(a2) * wide(b0);
    let d1 = d1 + (d0 >> 44);
    let d2 = d2 + (d1 >> 44);
    let low = (d0 as u64 & LIMB) + 5 * (d2 >> 42) as u64;
    [low & LIMB, (d1 as u64 & LIMB) + (low >> 44), d2 as u64 & LAST_LIMB]
}

/// A number of three words as three limbs.
fn split([low, middle, high]: [u64; 3]) -> [u64; 3] {
    [low & LIMB, (low >> 44 | middle << 20) & LIMB, middle >> 24 | high << 40]
}

/// The power of r that each lane needs at the end, in the order of [`load`]: r^8 in the first.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn powers(r: [u64; 3]) -> Lanes {
    let first = Lanes::all(r);
    let second = first.times(&Factor::new(first));
    // Exponents 2, 2, 1, 1, 0, 0 plus two, and 1 in the last two lanes: 4, 4, 3, 3, 2, 2, 1, 1.
    let one = Lanes::all([1, 0, 0]);
    let start = first.or(0b0000_0011, second).or(0b0011_0000, one);
    let to_fourth = start.times(&Factor::new(second)).or(0b1100_0000, first);
    // Four more in every other lane.
    let fourth = to_fourth.lane_0();
    to_fourth.times(&Factor::new(one.or(0b0101_0101, fourth)))
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
#[derive(Clone, Copy)]
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

/// Sums of products, before their reduction: of the lower 52 bits of each limb's, and of the upper ones.
#[derive(Clone, Copy)]
struct Products {
    low: [__m512i; 3],
    high: [__m512i; 3],
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zero() -> Self {
        let zero = _mm512_setzero_si512();
        Self { low: [zero; 3], high: [zero; 3] }
    }

    /// Adds a product of numbers whose limbs have up to 46 bits. At most four may be added before a reduction.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn plus(mut self, Lanes([h0, h1, h2]): Lanes, factor: &Factor) -> Self {
        let ([r0, r1, r2], [s1, s2]) = (factor.limbs, factor.folded);
        for (h, factors) in [(h1, [s2, r0, r1]), (h2, [s1, s2, r0]), (h0, [r0, r1, r2])] {
            for (limb, factor) in factors.iter().enumerate() {
                self.low[limb] = _mm512_madd52lo_epu64(self.low[limb], h, *factor);
                self.high[limb] = _mm512_madd52hi_epu64(self.high[limb], h, *factor);
            }
        }
        self
    }

    /// The sum modulo 2^130 - 5, in limbs of at most 44, 45 and 43 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn reduced(self) -> Lanes {
        let (low, high) = (self.low, self.high);
        // Upper parts start at 2^52, which is 2^8 of the next limb; above the last limb, 2^140 counts as 5 * 2^10.
        let d2 = _mm512_add_epi64(low[2], _mm512_slli_epi64::<8>(high[1]));
        let d1 = _mm512_add_epi64(low[1], _mm512_slli_epi64::<8>(high[0]));
        let beyond = _mm512_add_epi64(_mm512_slli_epi64::<10>(high[2]), _mm512_srli_epi64::<42>(d2));
        let five_times = _mm512_add_epi64(_mm512_slli_epi64::<2>(beyond), beyond);
        let d0 = _mm512_add_epi64(low[0], five_times);

        let (limb, last_limb) = (splat(LIMB), splat(LAST_LIMB));
        Lanes([
            _mm512_and_si512(d0, limb),
            _mm512_add_epi64(_mm512_and_si512(d1, limb), _mm512_srli_epi64::<44>(d0)),
            _mm512_add_epi64(_mm512_and_si512(d2, last_limb), _mm512_srli_epi64::<44>(d1)),
        ])
    }
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

    /// Multiplies lane by lane modulo 2^130 - 5.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn times(self, factor: &Factor) -> Self {
        Products::zero().plus(self, factor).reduced()
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
