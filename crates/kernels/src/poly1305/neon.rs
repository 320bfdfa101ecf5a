//! Eight blocks at once with 32-bit multiplication in vectors (NEON).
//!
//! A number has five limbs of 26 bits or a little more, in one lane of five vectors. For eight blocks, the lanes are multiplied by r^8 and
//! the first four blocks by r^4, and the other four are added. One reduction serves all of that. At the end each lane is multiplied by the
//! power of r that remains from its last block to the end of the message.

use core::arch::aarch64::*;

use super::accumulator::{H, R, wide};

/// Numbers, one in each lane.
#[derive(Clone, Copy)]
struct Lanes([uint32x4_t; 5]);

/// Products, two lanes in each of two vectors.
type Products = [[uint64x2_t; 2]; 5];

/// The bits of a limb, which starts at 2^26 times the one before.
const LIMB: u32 = (1 << 26) - 1;

/// From this many blocks on, vectors are faster, although they need the powers of r: in llvm-mca's models both take equally long on
/// Neoverse V2, and vectors a quarter less on N1.
pub(super) const MANY: usize = 24;

/// Processes `eights` into the accumulator. Not inlined: short messages would have to save the registers that it uses.
#[inline(never)]
#[target_feature(enable = "neon")]
pub(super) fn blocks(h: H, eights: &[[[u8; 16]; 8]], r: R) -> H {
    let Some(([start, next], others)) = eights.as_flattened().as_chunks().0.split_first_chunk() else {
        return h;
    };
    leak!("Poly1305: eight blocks", r.low);
    let first = Lanes::all(split([r.low, r.high, 0]));
    let second = first.times(&Factor::new(first));
    // Exponents 2, 1, 0 plus two, and 1 in the last lane: 4, 3, 2, 1.
    let to_fourth = second.with_lane::<1>(first).with_lane::<2>(Lanes::all([1, 0, 0, 0, 0]));
    let to_fourth = to_fourth.times(&Factor::new(second)).with_lane::<3>(first);
    let fourth = to_fourth.lane_0();
    let (fourth, eighth) = (Factor::new(fourth), Factor::new(fourth.times(&Factor::new(fourth))));

    // The accumulator is added to the first block only.
    let mut lanes = load(start);
    lanes = lanes.with_lane::<0>(lanes.plus(Lanes::all(split(h.0))));
    lanes = reduce(lanes.add_products(&fourth, load(next).wide()));
    for [four, next] in others.as_chunks().0 {
        let products = load(four).add_products(&fourth, load(next).wide());
        lanes = reduce(lanes.add_products(&eighth, products));
    }
    lanes.times(&Factor::new(to_fourth)).sum()
}

/// A number of three words as five limbs.
fn split([low, middle, high]: [u64; 3]) -> [u32; 5] {
    let limbs = [low, low >> 26, low >> 52 | middle << 12, middle >> 14].map(|limb| limb as u32 & LIMB);
    [limbs[0], limbs[1], limbs[2], limbs[3], (middle >> 40 | high << 24) as u32]
}

/// Four blocks, one in each lane, each followed by the octet 1.
#[inline]
#[target_feature(enable = "neon")]
fn load(blocks: &[[u8; 16]; 4]) -> Lanes {
    // SAFETY: the array has 64 octets; the access needs no alignment.
    let uint32x4x4_t(a, b, c, d) = unsafe { vld4q_u32(blocks.as_ptr().cast()) };
    let limb = |words| vandq_u32(words, vdupq_n_u32(LIMB));
    Lanes([
        limb(a),
        limb(vsliq_n_u32::<6>(vshrq_n_u32::<26>(a), b)),
        limb(vsliq_n_u32::<12>(vshrq_n_u32::<20>(b), c)),
        limb(vsliq_n_u32::<18>(vshrq_n_u32::<14>(c), d)),
        vorrq_u32(vshrq_n_u32::<8>(d), vdupq_n_u32(1 << 24)),
    ])
}

/// The limbs of a factor, and the upper four times 5, since 2^130 is 5 modulo 2^130 - 5.
struct Factor {
    limbs: [uint32x4_t; 5],
    folded: [uint32x4_t; 5],
}

impl Factor {
    #[inline]
    #[target_feature(enable = "neon")]
    fn new(Lanes(limbs): Lanes) -> Self {
        Self { limbs, folded: limbs.map(|limb| vaddq_u32(vshlq_n_u32::<2>(limb), limb)) }
    }
}

impl Lanes {
    /// The same limbs in all lanes.
    #[inline]
    #[target_feature(enable = "neon")]
    fn all(limbs: [u32; 5]) -> Self {
        Self(limbs.map(|limb| vdupq_n_u32(limb)))
    }

    /// The number of lane 0 in all lanes.
    #[inline]
    #[target_feature(enable = "neon")]
    fn lane_0(self) -> Self {
        Self(self.0.map(|limb| vdupq_laneq_u32::<0>(limb)))
    }

    /// The number of `others` in this lane.
    #[inline]
    #[target_feature(enable = "neon")]
    fn with_lane<const LANE: i32>(self, others: Self) -> Self {
        Self(core::array::from_fn(|at| vcopyq_laneq_u32::<LANE, LANE>(self.0[at], others.0[at])))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn plus(self, others: Self) -> Self {
        Self(core::array::from_fn(|at| vaddq_u32(self.0[at], others.0[at])))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn wide(self) -> Products {
        self.0.map(|limb| [vmovl_u32(vget_low_u32(limb)), vmovl_high_u32(limb)])
    }

    /// Multiplies lane by lane modulo 2^130 - 5.
    #[inline]
    #[target_feature(enable = "neon")]
    fn times(self, factor: &Factor) -> Self {
        reduce(self.add_products(factor, [[vdupq_n_u64(0); 2]; 5]))
    }

    /// Adds the products lane by lane. Limbs of a little more than 27 bits here and 26 in the factor make products of less than 2^59.
    #[inline]
    #[target_feature(enable = "neon")]
    fn add_products(self, factor: &Factor, mut sums: Products) -> Products {
        // In the order in which `reduce` has them ready: 57 cycles for eight blocks in llvm-mca's model of Neoverse V2; in limb order 72.
        for at in [0, 2, 1, 3, 4] {
            let limb = self.0[at];
            for (place, [low, high]) in sums.iter_mut().enumerate() {
                let by = if at <= place { factor.limbs[place - at] } else { factor.folded[5 + place - at] };
                *low = vmlal_u32(*low, vget_low_u32(limb), vget_low_u32(by));
                *high = vmlal_high_u32(*high, limb, by);
            }
        }
        sums
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn sum(self) -> H {
        let [a, b, c, d, e] = self.0.map(|limb| wide(vaddlvq_u32(limb)));
        let lower = a + (b << 26) + (c << 52);
        let upper = (lower >> 64) + (d << 14) + (e << 40);
        H([lower as u64, upper as u64, (upper >> 64) as u64]).folded()
    }
}

/// Carries the bits above a limb to the next one. Limbs become at most 2^26 + 2^10.
#[inline]
#[target_feature(enable = "neon")]
fn reduce(products: Products) -> Lanes {
    let limb = |sum| vandq_u64(sum, vdupq_n_u64(LIMB.into()));
    let half = |half: usize| {
        let [mut a, mut b, mut c, mut d, mut e] = products.map(|pair| pair[half]);
        (b, e) = (vsraq_n_u64::<26>(b, a), vsraq_n_u64::<26>(e, d));
        let over = vshrq_n_u64::<26>(e);
        (a, c) = (vaddq_u64(limb(a), vaddq_u64(over, vshlq_n_u64::<2>(over))), vsraq_n_u64::<26>(c, b));
        (b, d) = (vsraq_n_u64::<26>(limb(b), a), vsraq_n_u64::<26>(limb(d), c));
        e = vsraq_n_u64::<26>(limb(e), d);
        [limb(a), b, limb(c), limb(d), e].map(|sum| vreinterpretq_u32_u64(sum))
    };
    let (low, high) = (half(0), half(1));
    Lanes(core::array::from_fn(|at| vuzp1q_u32(low[at], high[at])))
}
