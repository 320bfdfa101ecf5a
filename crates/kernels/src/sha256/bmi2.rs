//! SHA-256 by rotations of BMI2: the message schedule in vectors, four words at a time, beside the rounds of the four before.

use core::arch::x86_64::*;
use core::mem::replace;

use super::{K, Sha256};
use crate::cpu::Bmi2;
use crate::hmac::one::{Block, OneMessageHash};
use crate::hmac::schedule::{Words, tied, tied_vector};

impl OneMessageHash<Bmi2, 8> for Sha256 {
    const ORDER: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

    type State = [u32; 8];

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn state(words: &[u32; 8]) -> [u32; 8] {
        *words
    }

    // FIPS 180-4 §6.2.2. One copy for all calls: it has more than 2000 instructions.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress(state: &mut [u32; 8], mut w: Block) {
        leak!("HMAC-SHA-256: one block", *state);
        // SAFETY: there are 16 times four words, and they need no alignment.
        let constants = |at: usize| unsafe { _mm_loadu_si128(K.as_ptr().cast::<__m128i>().add(at)) };
        let mut words = Words::new();
        for (at, w) in w.into_iter().enumerate() {
            words.write(at, _mm_add_epi32(w, constants(at)));
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        // Maj(a, b, c) is b ^ (a ^ b) & (b ^ c), where b ^ c is the a ^ b of the round before.
        let mut b_c = b ^ c;
        macro_rules! round {
            ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $word:expr) => {
                let sum1 = $e.rotate_right(6) ^ $e.rotate_right(11) ^ $e.rotate_right(25);
                // Ch in two parts that have no bit in common, each added by itself.
                let sum =
                    $h.wrapping_add($word).wrapping_add($e & $f).wrapping_add(!$e & $g).wrapping_add(sum1);
                $d = $d.wrapping_add(sum);
                let sum0 = $a.rotate_right(2) ^ $a.rotate_right(13) ^ $a.rotate_right(22);
                let a_b = $a ^ $b;
                let maj = $b ^ a_b & replace(&mut b_c, a_b);
                $h = sum.wrapping_add(sum0).wrapping_add(maj);
            };
        }
        macro_rules! four_rounds {
            ($at:literal, $part:expr, $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
                // The words of the rounds sixteen further on.
                if $part < 4 {
                    w[$at] = tied_vector(w[$at]);
                    w[$at] = next([0, 1, 2, 3].map(|step| w[($at + step) % 4]));
                }
                round!($a $b $c $d $e $f $g $h, words.read(4 * $at));
                round!($h $a $b $c $d $e $f $g, words.read(4 * $at + 1));
                round!($g $h $a $b $c $d $e $f, words.read(4 * $at + 2));
                round!($f $g $h $a $b $c $d $e, words.read(4 * $at + 3));
                if $part < 4 {
                    words.write($at, _mm_add_epi32(w[$at], constants(4 * $part + $at)));
                    [a, b, c, d, e, f, g, h] = [a, b, c, d, e, f, g, h].map(tied);
                }
            };
        }
        macro_rules! sixteen_rounds {
            ($part:expr) => {
                four_rounds!(0, $part, a b c d e f g h);
                four_rounds!(1, $part, e f g h a b c d);
                four_rounds!(2, $part, a b c d e f g h);
                four_rounds!(3, $part, e f g h a b c d);
            };
        }
        for part in 1..4 {
            sixteen_rounds!(part);
        }
        sixteen_rounds!(4);
        let after = [a, b, c, d, e, f, g, h];
        for (word, after) in state.iter_mut().zip(after) {
            *word = word.wrapping_add(after);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn words(state: [u32; 8]) -> [__m128i; 2] {
        let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h)]
    }
}

/// The four words of the schedule behind sixteen.
#[inline]
#[target_feature(enable = "avx2")]
fn next([a, b, c, d]: Block) -> __m128i {
    let early = _mm_alignr_epi8::<4>(b, a);
    // Each rotation is a shift to the right and one to the left, and by 18 is by 7 and by 11.
    let (right, left) = (_mm_srli_epi32::<7>(early), _mm_slli_epi32::<14>(early));
    let by_7 = _mm_xor_si128(right, _mm_slli_epi32::<11>(left));
    let by_18 = _mm_xor_si128(_mm_srli_epi32::<11>(right), left);
    let sigma0 = _mm_xor_si128(_mm_xor_si128(by_7, by_18), _mm_srli_epi32::<3>(early));
    let sum = _mm_add_epi32(_mm_add_epi32(a, _mm_alignr_epi8::<4>(d, c)), sigma0);
    // The last two words need sigma 1 of the first two. Each word is doubled, so that shifts of 64 bits rotate it.
    let low = sigma1(_mm_shuffle_epi32::<0b11_11_10_10>(d));
    let sum = _mm_add_epi32(sum, _mm_shuffle_epi8(low, _mm_set_epi32(-1, -1, 0x0b0a0908, 0x03020100)));
    let high = sigma1(_mm_shuffle_epi32::<0b01_01_00_00>(sum));
    _mm_add_epi32(sum, _mm_shuffle_epi8(high, _mm_set_epi32(0x0b0a0908, 0x03020100, -1, -1)))
}

/// Of two words, each twice in a row; the results are in the first and the third place.
#[inline]
#[target_feature(enable = "avx2")]
fn sigma1(words: __m128i) -> __m128i {
    let rotated = _mm_xor_si128(_mm_srli_epi64::<17>(words), _mm_srli_epi64::<19>(words));
    _mm_xor_si128(rotated, _mm_srli_epi32::<10>(words))
}
