//! SHA-1 of sixteen messages side by side by AVX-512.

use core::arch::x86_64::*;

use super::Sha1;
use crate::groups::Cost;
use crate::hmac::many::Avx512Hash;

impl Avx512Hash<5> for Sha1 {
    const COST: Option<Cost> = Some(Cost { once: 16, block: 9 });
    const COST_BMI2: Cost = Cost { once: 5, block: 2 };
    const COST_WITHOUT_EITHER: Cost = Cost { once: 4, block: 2 };

    // FIPS 180-4 §6.1.2.
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn compress(h: [__m512i; 5], mut w: [__m512i; 16]) -> [__m512i; 5] {
        leak!("HMAC-SHA-1: sixteen blocks", h);
        let [mut a, mut b, mut c, mut d, mut e] = h;
        macro_rules! rounds {
            ($f:literal, $k:literal, $($at:literal)*) => {$(
                if $at >= 16 {
                    let sum = _mm512_ternarylogic_epi32::<0x96>(w[($at + 13) % 16], w[($at + 8) % 16], w[($at + 2) % 16]);
                    w[$at % 16] = _mm512_rol_epi32::<1>(_mm512_xor_si512(w[$at % 16], sum));
                }
                let f = _mm512_ternarylogic_epi32::<$f>(b, c, d);
                let sum = add(add(e, add(w[$at % 16], _mm512_set1_epi32($k as u32 as i32))), f);
                let sum = add(sum, _mm512_rol_epi32::<5>(a));
                (e, d, c, b, a) = (d, c, _mm512_rol_epi32::<30>(b), a, sum);
            )*};
        }
        // Ch, Parity, Maj, Parity.
        rounds!(0xca, 0x5a827999, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        rounds!(0x96, 0x6ed9eba1, 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
        rounds!(0xe8, 0x8f1bbcdc_u32, 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
        rounds!(0x96, 0xca62c1d6_u32, 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
        let after = [a, b, c, d, e];
        core::array::from_fn(|word| add(h[word], after[word]))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(a, b)
}
