//! SHA-256 by rotations of BMI2: the message schedules of two blocks in vectors, four words of each at a time, beside the rounds of
//! the first.

use core::arch::asm;
use core::arch::x86_64::*;

use super::{K, Sha256};
use crate::cpu::Bmi2;
use crate::hmac::one::{BLOCK, Block, OneMessageHash, words_of};
use crate::hmac::schedule::{Words, add, alone, of_block, side_by_side, tied};

impl OneMessageHash<Bmi2, 8> for Sha256 {
    const ORDER: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

    type State = [u32; 8];

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn state(words: &[u32; 8]) -> [u32; 8] {
        *words
    }

    type Memory = Words<16>;

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn memory() -> Words<16> {
        Words::new()
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress(state: &mut [u32; 8], words: &mut Words<16>, block: Block) {
        compress(state, words, &alone(block), false);
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress_all(state: &mut [u32; 8], words: &mut Words<16>, blocks: &[[u8; BLOCK]]) {
        let (pairs, last) = blocks.as_chunks();
        for [first, second] in pairs {
            let pair = side_by_side(words_of::<Self, Bmi2, 8>(first), words_of::<Self, Bmi2, 8>(second));
            compress(state, words, &pair, true);
        }
        for octets in last {
            compress(state, words, &alone(words_of::<Self, Bmi2, 8>(octets)), false);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn words(state: [u32; 8]) -> [__m128i; 2] {
        let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h)]
    }
}

/// One round (FIPS 180-4 §6.2.2).
///
/// Maj(a, b, c) is b ^ (a ^ b) & (b ^ c), where b ^ c is the a ^ b of the round before. Maj and sum 0 are added to the new `a` in the next
/// round only, behind what that round's `e` waits for. The two parts of Ch have no bit in common, so that each is added by itself.
macro_rules! round {
    ($words:ident[$word:expr], $late:ident $b_c:ident,
        $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let (a_b, maj);
        // SAFETY: there are so many words, and this is compiled for BMI1 and BMI2.
        unsafe {
            asm!(
                "add {h:e}, dword ptr [{words} + 32 * ({word} / 4) + 4 * ({word} % 4)]",
                "rorx {s:e}, {e:e}, 25",
                "rorx {t:e}, {e:e}, 11",
                "mov {ch:e}, {e:e}",
                "and {ch:e}, {f:e}",
                "xor {s:e}, {t:e}",
                "rorx {t:e}, {e:e}, 6",
                "add {h:e}, {ch:e}",
                "andn {ch:e}, {e:e}, {g:e}",
                "xor {s:e}, {t:e}",
                "add {h:e}, {ch:e}",
                "add {a:e}, {late:e}",
                "add {h:e}, {s:e}",
                "add {d:e}, {h:e}",
                "rorx {s:e}, {a:e}, 22",
                "rorx {t:e}, {a:e}, 13",
                "mov {late:e}, {a:e}",
                "xor {s:e}, {t:e}",
                "xor {late:e}, {b:e}",
                "rorx {t:e}, {a:e}, 2",
                "and {b_c:e}, {late:e}",
                "xor {s:e}, {t:e}",
                "xor {b_c:e}, {b:e}",
                "add {b_c:e}, {s:e}",
                words = in(reg) $words, word = const $word,
                a = inout(reg) $a, b = in(reg) $b, d = inout(reg) $d,
                e = in(reg) $e, f = in(reg) $f, g = in(reg) $g, h = inout(reg) $h,
                late = inout(reg) $late => a_b, b_c = inout(reg) $b_c => maj,
                s = out(reg) _, t = out(reg) _, ch = out(reg) _,
                options(readonly, nostack),
            );
        }
        ($b_c, $late) = (a_b, maj);
    };
}

/// Takes one block or two into a chaining value. One copy for all calls: it has about 1000 instructions.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn compress(state: &mut [u32; 8], words: &mut Words<16>, blocks: &[__m256i; 4], are_two: bool) {
    leak!("HMAC-SHA-256: one block", *state);
    let (k, _) = K.as_chunks();
    for (at, w) in blocks.iter().enumerate() {
        words.0[at].write(_mm256_add_epi32(*w, twice(&k[at])));
    }
    let [mut w0, mut w1, mut w2, mut w3] = *blocks;
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let (mut b_c, mut late) = (b ^ c, 0_u32);
    macro_rules! four_rounds {
        ($words:ident[$at:literal], $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
            round!($words[4 * $at], late b_c, $a $b $c $d $e $f $g $h);
            round!($words[4 * $at + 1], late b_c, $h $a $b $c $d $e $f $g);
            round!($words[4 * $at + 2], late b_c, $g $h $a $b $c $d $e $f);
            round!($words[4 * $at + 3], late b_c, $f $g $h $a $b $c $d $e);
        };
    }
    // In between, the words of the rounds sixteen further on are made.
    macro_rules! four_rounds_and_words {
        ($words:ident[$at:literal] $next:ident $k:ident, $w0:ident $w1:ident $w2:ident $w3:ident,
            $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
            let early = _mm256_alignr_epi8::<4>($w1, $w0);
            // Each rotation is a shift to the right and one to the left, and by 18 is by 7 and by 11.
            let (right, left) = (_mm256_srli_epi32::<7>(early), _mm256_slli_epi32::<14>(early));
            let by_7 = tied(_mm256_xor_si256(right, _mm256_slli_epi32::<11>(left)));
            round!($words[4 * $at], late b_c, $a $b $c $d $e $f $g $h);
            let by_18 = _mm256_xor_si256(_mm256_srli_epi32::<11>(right), left);
            let sigma0 = _mm256_xor_si256(_mm256_xor_si256(by_7, by_18), _mm256_srli_epi32::<3>(early));
            let sum = _mm256_add_epi32($w0, _mm256_alignr_epi8::<4>($w3, $w2));
            let sum = tied(_mm256_add_epi32(sum, sigma0));
            round!($words[4 * $at + 1], late b_c, $h $a $b $c $d $e $f $g);
            // The last two words need sigma 1 of the first two. Each word is doubled, so that shifts of 64 bits rotate it.
            let low = sigma1(_mm256_shuffle_epi32::<0b11_11_10_10>($w3));
            let low = _mm256_shuffle_epi8(low, twice(&[0x03020100, 0x0b0a0908, !0, !0]));
            let sum = tied(_mm256_add_epi32(sum, low));
            round!($words[4 * $at + 2], late b_c, $g $h $a $b $c $d $e $f);
            let high = sigma1(_mm256_shuffle_epi32::<0b01_01_00_00>(sum));
            let high = _mm256_shuffle_epi8(high, twice(&[!0, !0, 0x03020100, 0x0b0a0908]));
            $w0 = tied(_mm256_add_epi32(sum, high));
            $next[$at].write(_mm256_add_epi32($w0, twice(&$k[$at])));
            round!($words[4 * $at + 3], late b_c, $f $g $h $a $b $c $d $e);
        };
    }
    for part in 0..3 {
        let k = &k[4 * part + 4..];
        let (whole, next) = words.0[4 * part..].split_at_mut(4);
        let this = whole.as_ptr();
        four_rounds_and_words!(this[0] next k, w0 w1 w2 w3, a b c d e f g h);
        four_rounds_and_words!(this[1] next k, w1 w2 w3 w0, e f g h a b c d);
        four_rounds_and_words!(this[2] next k, w2 w3 w0 w1, a b c d e f g h);
        four_rounds_and_words!(this[3] next k, w3 w0 w1 w2, e f g h a b c d);
    }
    let (parts, _) = words.0.as_chunks::<4>();
    for (block, parts) in [(0, &parts[3..]), (1, parts)] {
        for part in parts {
            let this = of_block(part, block);
            four_rounds!(this[0], a b c d e f g h);
            four_rounds!(this[1], e f g h a b c d);
            four_rounds!(this[2], a b c d e f g h);
            four_rounds!(this[3], e f g h a b c d);
        }
        add(state, [a.wrapping_add(late), b, c, d, e, f, g, h]);
        if !are_two {
            break;
        }
        leak!("HMAC-SHA-256: second block", *state);
        [a, b, c, d, e, f, g, h] = *state;
        (b_c, late) = (b ^ c, 0);
    }
}

/// Four words for each block.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(words: &[u32; 4]) -> __m256i {
    // SAFETY: four words are as many octets as the vector, which needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(words.as_ptr().cast()) })
}

/// Of two words, each twice in a row; the results are in the first and the third place.
#[inline]
#[target_feature(enable = "avx2")]
fn sigma1(words: __m256i) -> __m256i {
    let rotated = _mm256_xor_si256(_mm256_srli_epi64::<17>(words), _mm256_srli_epi64::<19>(words));
    _mm256_xor_si256(rotated, _mm256_srli_epi32::<10>(words))
}
