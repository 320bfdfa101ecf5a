//! Four blocks at once with 32-bit multiplication in vectors (AVX2).
//!
//! A number has five limbs of 26 bits or a little more, in one lane of five vectors. Groups of four blocks go in pairs, so that one
//! reduction serves both: the first group of a pair is multiplied by r^8, the second by r^4. The blocks of the last pair are multiplied by
//! the powers that remain to the end of the message, r^8 to r.

use core::arch::asm;
use core::arch::x86_64::*;
use core::array;

use super::accumulator::{H, R, wide};

/// The bits of a limb.
const LIMB: u64 = (1 << 26) - 1;

/// A number of three words as five limbs. The third word is below 8.
const fn split([low, middle, high]: [u64; 3]) -> [u64; 5] {
    [
        low & LIMB,
        low >> 26 & LIMB,
        (low >> 52 | middle << 12) & LIMB,
        middle >> 14 & LIMB,
        middle >> 40 | high << 24,
    ]
}

/// The same, read from memory again. Otherwise LLVM would move the factors' known bits out of the loop, no longer know that they have at
/// most 32, and multiply by them three times.
#[expect(clippy::pointers_in_nomem_asm_block, reason = "there is no instruction")]
#[inline]
fn again<T>(powers: &T) -> &T {
    let mut at = core::ptr::from_ref(powers);
    // SAFETY: the assembly does not change the pointer, so it stays that of the borrow.
    unsafe {
        asm!("/* {} */", inout(reg) at, options(nomem, nostack, preserves_flags));
        &*at
    }
}

/// Numbers, one in each lane.
#[derive(Clone, Copy)]
struct Lanes([__m256i; 5]);

/// Processes `groups`, at least two, into the accumulator.
#[target_feature(enable = "avx2")]
pub(super) fn blocks(h: H, groups: &[[[u8; 16]; 4]], r: R) -> H {
    leak!("Poly1305: four blocks", r.low);
    let (single, pairs) = groups.as_rchunks();
    let (last, others) = pairs.split_last().expect("there are two groups at least");
    let powers = Powers::new(r);
    // The accumulator is added to the first block only.
    let mut first = [[0; 4]; 5];
    for (lanes, limb) in first.iter_mut().zip(split(h.0)) {
        lanes[0] = limb;
    }
    let mut lanes = Lanes::load(&first);
    for group in single {
        let powers = again(&powers);
        lanes = lanes.plus(message(group)).times(&powers.fourth).reduced();
    }
    for [a, b] in others {
        let powers = again(&powers);
        lanes = lanes.plus(message(a)).times(&powers.eighth).plus(message(b).times(&powers.fourth)).reduced();
    }
    let [a, b] = last;
    let powers = again(&powers);
    lanes.plus(message(a)).times(&powers.last[0]).plus(message(b).times(&powers.last[1])).reduced().sum()
}

/// r^4 and r^8 for all lanes, and the power that each lane needs at the end: r^8 to r^5 in the first group, r^4 to r in the second, in the
/// order of [`message`].
struct Powers {
    fourth: Factor,
    eighth: Factor,
    last: [Factor; 2],
}

impl Powers {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(r: R) -> Self {
        let first = H([r.low, r.high, 0]);
        let second = first.times(r);
        let third = second.times(r);
        let powers = [third.times(r), second, third, first].map(|H(words)| split(words));
        let last = Lanes::load(&array::from_fn(|limb| powers.map(|power| power[limb])));
        let fourth = Factor::new(last.lane_0());
        let before = last.times(&fourth).reduced();
        Self { fourth, eighth: Factor::new(before.lane_0()), last: [Factor::new(before), Factor::new(last)] }
    }
}

/// The blocks in lanes 0, 2, 1, 3, each followed by the octet 1.
#[inline]
#[target_feature(enable = "avx2")]
fn message(blocks: &[[u8; 16]; 4]) -> Lanes {
    let at = blocks.as_ptr();
    // SAFETY: four blocks are two loads of two; they need no alignment.
    let [front, back] = unsafe { [_mm256_loadu_si256(at.cast()), _mm256_loadu_si256(at.add(2).cast())] };
    let low = _mm256_unpacklo_epi64(front, back);
    let high = _mm256_unpackhi_epi64(front, back);
    let limb = splat(LIMB);
    Lanes([
        _mm256_and_si256(low, limb),
        _mm256_and_si256(_mm256_srli_epi64::<26>(low), limb),
        _mm256_and_si256(_mm256_or_si256(_mm256_srli_epi64::<52>(low), _mm256_slli_epi64::<12>(high)), limb),
        _mm256_and_si256(_mm256_srli_epi64::<14>(high), limb),
        _mm256_or_si256(_mm256_srli_epi64::<40>(high), splat(1 << 24)),
    ])
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u64) -> __m256i {
    _mm256_set1_epi64x(word.cast_signed())
}

/// The limbs of a factor, and the upper four times 5, since 2^130 is 5 modulo 2^130 - 5.
struct Factor {
    limbs: [__m256i; 5],
    folded: [__m256i; 4],
}

impl Factor {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(Lanes(limbs): Lanes) -> Self {
        let five = |limb| _mm256_add_epi64(_mm256_slli_epi64::<2>(limb), limb);
        Self { limbs, folded: [five(limbs[1]), five(limbs[2]), five(limbs[3]), five(limbs[4])] }
    }
}

/// Sums of products, in limbs of up to 60 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn products(a: [__m256i; 5], b: [__m256i; 5]) -> __m256i {
    let sum = _mm256_add_epi64(_mm256_mul_epu32(a[0], b[0]), _mm256_mul_epu32(a[1], b[1]));
    let sum =
        _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_mul_epu32(a[2], b[2]), _mm256_mul_epu32(a[3], b[3])));
    _mm256_add_epi64(sum, _mm256_mul_epu32(a[4], b[4]))
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(words: &[[u64; 4]; 5]) -> Self {
        let [a, b, c, d, e] = words;
        // SAFETY: each array has as many words as a vector.
        let load = |words: &[u64; 4]| unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        Self([load(a), load(b), load(c), load(d), load(e)])
    }

    /// The number of lane 0 in all lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn lane_0(self) -> Self {
        let [a, b, c, d, e] = self.0;
        Self([all_0(a), all_0(b), all_0(c), all_0(d), all_0(e)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn plus(self, others: Self) -> Self {
        let ([a, b, c, d, e], others) = (self.0, others.0);
        Self([
            _mm256_add_epi64(a, others[0]),
            _mm256_add_epi64(b, others[1]),
            _mm256_add_epi64(c, others[2]),
            _mm256_add_epi64(d, others[3]),
            _mm256_add_epi64(e, others[4]),
        ])
    }

    /// Multiplies lane by lane. The limbs of the product must then be reduced.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn times(self, factor: &Factor) -> Self {
        let ([r0, r1, r2, r3, r4], [s1, s2, s3, s4]) = (factor.limbs, factor.folded);
        let [a, b, c, d, e] = self.0;
        let limbs = [tied(a), tied(b), tied(c), tied(d), tied(e)];
        Self([
            products(limbs, [r0, s4, s3, s2, s1]),
            products(limbs, [r1, r0, s4, s3, s2]),
            products(limbs, [r2, r1, r0, s4, s3]),
            products(limbs, [r3, r2, r1, r0, s4]),
            products(limbs, [r4, r3, r2, r1, r0]),
        ])
    }

    /// Carries the bits above 26 to the next limb.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn reduced(self) -> Self {
        let [a, b, c, d, e] = self.0;
        let limb = splat(LIMB);
        let (b, a) = (_mm256_add_epi64(b, _mm256_srli_epi64::<26>(a)), _mm256_and_si256(a, limb));
        let (e, d) = (_mm256_add_epi64(e, _mm256_srli_epi64::<26>(d)), _mm256_and_si256(d, limb));
        let (c, b) = (_mm256_add_epi64(c, _mm256_srli_epi64::<26>(b)), _mm256_and_si256(b, limb));
        let (beyond, e) = (_mm256_srli_epi64::<26>(e), _mm256_and_si256(e, limb));
        let a = _mm256_add_epi64(a, _mm256_add_epi64(beyond, _mm256_slli_epi64::<2>(beyond)));
        let (d, c) = (_mm256_add_epi64(d, _mm256_srli_epi64::<26>(c)), _mm256_and_si256(c, limb));
        let (b, a) = (_mm256_add_epi64(b, _mm256_srli_epi64::<26>(a)), _mm256_and_si256(a, limb));
        let (e, d) = (_mm256_add_epi64(e, _mm256_srli_epi64::<26>(d)), _mm256_and_si256(d, limb));
        Self([a, b, c, d, e])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum(self) -> H {
        let [a, b, c, d, e] = self.0;
        let [a, b, c, d, e] = [total(a), total(b), total(c), total(d), total(e)];
        let lower = wide(a) + (wide(b) << 26) + (wide(c) << 52);
        let upper = (lower >> 64) + (wide(d) << 14) + (wide(e) << 40);
        H([lower as u64, upper as u64, (upper >> 64) as u64]).folded()
    }
}

/// Hides from LLVM how few bits a limb has, like [`again`].
#[inline]
#[target_feature(enable = "avx2")]
fn tied(mut limb: __m256i) -> __m256i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {} */", inout(ymm_reg) limb, options(pure, nomem, nostack, preserves_flags)) };
    limb
}

#[inline]
#[target_feature(enable = "avx2")]
fn all_0(vector: __m256i) -> __m256i {
    _mm256_broadcastq_epi64(_mm256_castsi256_si128(vector))
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(vector: __m256i) -> u64 {
    let two = _mm_add_epi64(_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector));
    _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))).cast_unsigned()
}
