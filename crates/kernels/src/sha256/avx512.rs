//! SHA-256 of sixteen messages side by side by AVX-512.

use core::arch::x86_64::*;

use super::{K, Sha256};
use crate::groups::Cost;
use crate::hmac::many::Avx512Hash;

impl Avx512Hash<8> for Sha256 {
    const COST: Option<Cost> = None;
    const COST_BMI2: Cost = Cost { once: 6, block: 3 };
    const COST_WITHOUT_EITHER: Cost = Cost { once: 4, block: 2 };

    // FIPS 180-4 §6.2.2.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn compress(h: [__m512i; 8], mut w: [__m512i; 16]) -> [__m512i; 8] {
        leak!("HMAC-SHA-256: sixteen blocks", h);
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut last] = h;
        macro_rules! round {
            ($k:expr, $($at:literal)*) => {$(
                let k = _mm512_set1_epi32($k[$at] as i32);
                let sum1 = xor3(ror!(e, 6), ror!(e, 11), ror!(e, 25));
                let ch = _mm512_ternarylogic_epi32::<0xca>(e, f, g);
                let sum = add(add(add(last, add(w[$at], k)), ch), sum1);
                let sum0 = xor3(ror!(a, 2), ror!(a, 13), ror!(a, 22));
                let maj = _mm512_ternarylogic_epi32::<0xe8>(a, b, c);
                (last, g, f, e, d, c, b, a) = (g, f, e, add(d, sum), c, b, a, add(add(sum, maj), sum0));
            )*};
        }
        macro_rules! schedule {
            ($($at:literal)*) => {$(
                let (early, late) = (w[($at + 1) % 16], w[($at + 14) % 16]);
                let sigma0 = xor3(ror!(early, 7), ror!(early, 18), _mm512_srli_epi32::<3>(early));
                let sigma1 = xor3(ror!(late, 17), ror!(late, 19), _mm512_srli_epi32::<10>(late));
                w[$at] = add(add(w[$at], w[($at + 9) % 16]), add(sigma0, sigma1));
            )*};
        }
        let (constants, _) = K.as_chunks::<16>();
        for (part, k) in constants.iter().enumerate() {
            if part > 0 {
                schedule!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
            }
            round!(k, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        }
        let after = [a, b, c, d, e, f, g, last];
        core::array::from_fn(|word| add(h[word], after[word]))
    }
}

macro_rules! ror {
    ($word:expr, $by:literal) => {
        _mm512_ror_epi32::<$by>($word)
    };
}
use ror;

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}
