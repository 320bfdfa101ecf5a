//! SHA-1 by rotations of BMI2: the message schedules of two blocks in vectors, four words of each at a time, beside the rounds of
//! the first.

use core::arch::asm;
use core::arch::x86_64::*;

use super::Sha1;
use crate::cpu::Bmi2;
use crate::hmac::one::{BLOCK, Block, OneMessageHash, words_of};
use crate::hmac::schedule::{Words, add, alone, side_by_side};

impl OneMessageHash<Bmi2, 5> for Sha1 {
    const ORDER: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

    type State = [u32; 5];

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn state(words: &[u32; 5]) -> [u32; 5] {
        *words
    }

    type Memory = Words<20>;

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn memory() -> Words<20> {
        Words::new()
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress(state: &mut [u32; 5], words: &mut Words<20>, block: Block) {
        compress(state, words, &alone(block), false);
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn compress_all(state: &mut [u32; 5], words: &mut Words<20>, blocks: &[[u8; BLOCK]]) {
        let (pairs, last) = blocks.as_chunks();
        for [first, second] in pairs {
            let pair = side_by_side(words_of::<Self, Bmi2, 5>(first), words_of::<Self, Bmi2, 5>(second));
            compress(state, words, &pair, true);
        }
        for octets in last {
            compress(state, words, &alone(words_of::<Self, Bmi2, 5>(octets)), false);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    unsafe fn words(state: [u32; 5]) -> [__m128i; 2] {
        let [a, b, c, d, e] = state.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, 0, 0, 0)]
    }
}

/// One round (FIPS 180-4 §6.1.2). `b` has been rotated and `f` computed in the round before, and this one computes the next round's `f`
/// from `a`.
macro_rules! round {
    ($words:ident[$block:literal][$word:expr], $f:ident [$($next:literal)*], $a:ident $b:ident $c:ident $d:ident $e:ident) => {
        let (rotated, next): (u32, u32);
        // SAFETY: there are so many words, and this is compiled for BMI1 and BMI2.
        unsafe {
            asm!(
                "add {e:e}, dword ptr [{words} + 32 * ({word} / 4) + 4 * ({word} % 4)]",
                "add {e:e}, {f:e}",
                "rorx {t:e}, {a:e}, 27",
                "rorx {f:e}, {a:e}, 2",
                $($next,)*
                "add {e:e}, {t:e}",
                words = in(reg) $words.of($block), word = const $word,
                a = inout(reg) $a => next, b = in(reg) $b, c = in(reg) $c, e = inout(reg) $e,
                f = inout(reg) $f => rotated, t = out(reg) _, u = out(reg) _,
                options(readonly, nostack),
            );
        }
        ($a, $f) = (rotated, next);
    };
}

/// Four rounds, the first with this number. In between, the words of the rounds sixteen further on are made.
macro_rules! four_rounds {
    ($words:ident[$block:literal][$at:literal], $f:ident $next:tt $last:tt, $a:ident $b:ident $c:ident $d:ident $e:ident $(, $w:ident)?) => {
        round!($words[$block][4 * $at], $f $next, $a $b $c $d $e);
        $(let next = if $at < 16 { next(&$w, $at + 4) } else { $w[0] };)?
        round!($words[$block][4 * $at + 1], $f $next, $e $a $b $c $d);
        round!($words[$block][4 * $at + 2], $f $next, $d $e $a $b $c);
        $(
            if $at < 16 {
                $words.0[$at + 4].write(_mm256_add_epi32(next, constants($at + 4)));
                $w[($at + 4) % 8] = next;
            }
        )?
        round!($words[$block][4 * $at + 3], $f $last, $c $d $e $a $b);
    };
}

/// All rounds of a block, with the functions of FIPS 180-4 §4.1.1.
macro_rules! rounds {
    ($words:ident[$block:literal], $f:ident, $a:ident $b:ident $c:ident $d:ident $e:ident $(, $w:ident)?) => {
        rounds!(@ $words[$block], $f
            ["andn {u:e}, {a:e}, {c:e}" "and {a:e}, {b:e}" "or {a:e}, {u:e}"]
            ["/* {u} */" "xor {a:e}, {b:e}" "xor {a:e}, {c:e}"]
            ["mov {u:e}, {b:e}" "xor {u:e}, {c:e}" "and {a:e}, {u:e}" "andn {u:e}, {u:e}, {b:e}" "or {a:e}, {u:e}"],
            $a $b $c $d $e $(, $w)?);
    };
    (@ $words:ident[$block:literal], $f:ident $ch:tt $parity:tt $maj:tt, $a:ident $b:ident $c:ident $d:ident $e:ident $(, $w:ident)?) => {
        rounds!(@@ $words[$block][0 1 2 3 4], $f $ch $parity, $a $b $c $d $e $(, $w)?);
        rounds!(@@ $words[$block][5 6 7 8 9], $f $parity $maj, $a $b $c $d $e $(, $w)?);
        rounds!(@@ $words[$block][10 11 12 13 14], $f $maj $parity, $a $b $c $d $e $(, $w)?);
        rounds!(@@ $words[$block][15 16 17 18 19], $f $parity $parity, $a $b $c $d $e $(, $w)?);
    };
    (@@ $words:ident[$block:literal][$first:literal $second:literal $third:literal $fourth:literal $fifth:literal],
        $f:ident $this:tt $next:tt, $a:ident $b:ident $c:ident $d:ident $e:ident $(, $w:ident)?) => {
        four_rounds!($words[$block][$first], $f $this $this, $a $b $c $d $e $(, $w)?);
        four_rounds!($words[$block][$second], $f $this $this, $b $c $d $e $a $(, $w)?);
        four_rounds!($words[$block][$third], $f $this $this, $c $d $e $a $b $(, $w)?);
        four_rounds!($words[$block][$fourth], $f $this $this, $d $e $a $b $c $(, $w)?);
        four_rounds!($words[$block][$fifth], $f $this $next, $e $a $b $c $d $(, $w)?);
    };
}

/// Takes one block or two into a chaining value. One copy for all calls: it has more than 1000 instructions.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[expect(unused_assignments, reason = "the last rounds leave what others would need")]
fn compress(state: &mut [u32; 5], words: &mut Words<20>, blocks: &[__m256i; 4], are_two: bool) {
    leak!("HMAC-SHA-1: one block", *state);
    let mut w = [_mm256_setzero_si256(); 8];
    w[..4].copy_from_slice(blocks);
    for (at, w) in blocks.iter().enumerate() {
        words.0[at].write(_mm256_add_epi32(*w, constants(at)));
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    let mut f = b & c | !b & d;
    b = b.rotate_left(30);
    rounds!(words[0], f, a b c d e, w);
    add(state, [a, b.rotate_left(2), c, d, e]);
    if are_two {
        leak!("HMAC-SHA-1: second block", *state);
        [a, b, c, d, e] = *state;
        f = b & c | !b & d;
        b = b.rotate_left(30);
        rounds!(words[1], f, a b c d e);
        add(state, [a, b.rotate_left(2), c, d, e]);
    }
}

/// The constant of four rounds (FIPS 180-4 §4.2.1), eight times.
#[inline]
#[target_feature(enable = "avx2")]
fn constants(four: usize) -> __m256i {
    let constant: u32 = match four / 5 {
        0 => 0x5a827999,
        1 => 0x6ed9eba1,
        2 => 0x8f1bbcdc,
        _ => 0xca62c1d6,
    };
    _mm256_set1_epi32(constant.cast_signed())
}

/// Four words of the schedule of two blocks; `w` has the 32 before, each four at its number modulo 8.
#[inline]
#[target_feature(enable = "avx2")]
fn next(w: &[__m256i; 8], four: usize) -> __m256i {
    let before = |distance: usize| w[(four + 8 - distance) % 8];
    let (last, second) = (before(1), before(2));
    if four >= 8 {
        // The schedule's rule twice: no word needs one of the same four.
        let sum = _mm256_xor_si256(_mm256_xor_si256(before(4), before(7)), before(8));
        let sum = _mm256_xor_si256(sum, _mm256_alignr_epi8::<8>(last, second));
        return _mm256_or_si256(_mm256_slli_epi32::<2>(sum), _mm256_srli_epi32::<30>(sum));
    }
    let sum = _mm256_xor_si256(_mm256_srli_si256::<4>(last), second);
    let fourth = before(4);
    let sum = _mm256_xor_si256(sum, _mm256_xor_si256(_mm256_alignr_epi8::<8>(before(3), fourth), fourth));
    let rotated = _mm256_or_si256(_mm256_add_epi32(sum, sum), _mm256_srli_epi32::<31>(sum));
    // The last word needs the first, rotated once more.
    let first = _mm256_slli_si256::<12>(sum);
    let last = _mm256_xor_si256(_mm256_slli_epi32::<2>(first), _mm256_srli_epi32::<30>(first));
    _mm256_xor_si256(rotated, last)
}
