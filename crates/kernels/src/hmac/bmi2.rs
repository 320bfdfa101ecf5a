//! HMAC of one message with BMI2's rotations. The message schedules of two blocks are computed in vectors, four words of each at a time,
//! during the rounds of the first block.

use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use zeroize::optimization_barrier;

use super::frame::{
    Block, FIRST_LOWEST, KeyBlocks, OfZeros, bits, hmac, key_block, last_block, octets_of, outer_block,
    padded, reordered, words_of,
};
use super::message::{BLOCK, K, Rest};

/// A chaining value, and room for the words of two blocks.
struct State<const WORDS: usize, const VECTORS: usize> {
    words: [u32; WORDS],
    schedule: Words<VECTORS>,
}

// SAFETY: it has words and room for vectors.
unsafe impl<const WORDS: usize, const VECTORS: usize> OfZeros for State<WORDS, VECTORS> {}

#[inline]
fn start<const WORDS: usize, const VECTORS: usize>(words: &[u32; WORDS]) -> State<WORDS, VECTORS> {
    State { words: *words, schedule: Words::new() }
}

#[inline]
fn restart<const WORDS: usize, const VECTORS: usize>(
    state: &mut State<WORDS, VECTORS>,
    words: &[u32; WORDS],
) {
    state.words = *words;
}

/// The schedules of two blocks, four words of each in a vector, with the constants of their rounds added; wiped on drop.
struct Words<const VECTORS: usize>([MaybeUninit<__m256i>; VECTORS]);

impl<const VECTORS: usize> Words<VECTORS> {
    #[inline]
    fn new() -> Self {
        Self([MaybeUninit::uninit(); VECTORS])
    }

    /// Where a block's part starts.
    #[inline]
    fn of(&self, block: usize) -> *const u32 {
        of_block(&self.0, block)
    }
}

/// Where a block's part of some vectors starts.
#[inline]
fn of_block(vectors: &[MaybeUninit<__m256i>], block: usize) -> *const u32 {
    // `wrapping_add`, because `add` must not leave the slice, and a slice without vectors has no such place.
    vectors.as_ptr().cast::<u32>().wrapping_add(4 * block)
}

impl<const VECTORS: usize> Drop for Words<VECTORS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zero is a valid vector.
        unsafe { core::ptr::from_mut(self).write_bytes(0, 1) };
        optimization_barrier(self);
    }
}

/// Each part of two blocks in one vector.
#[inline]
#[target_feature(enable = "avx2")]
fn side_by_side(first: Block, second: Block) -> [__m256i; 4] {
    core::array::from_fn(|at| _mm256_set_m128i(second[at], first[at]))
}

/// A block in the lower halves of vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn alone(block: Block) -> [__m256i; 4] {
    block.map(|part| _mm256_castsi128_si256(part))
}

/// The same value. The compiler computes it between the assembly before and after this; otherwise it would compute the whole schedule
/// first.
#[inline]
#[target_feature(enable = "avx2")]
fn tied(mut vector: __m256i) -> __m256i {
    // SAFETY: the assembly is empty.
    unsafe { asm!("/* {0} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags)) };
    vector
}

/// Adds the words after a block's rounds to the chaining value, one by one. The compiler would put them into vectors first, and the next
/// block would wait for the way there and back.
#[inline]
fn add<const WORDS: usize>(state: &mut [u32; WORDS], after: [u32; WORDS]) {
    for (word, after) in state.iter_mut().zip(after) {
        let sum = word.wrapping_add(after);
        // SAFETY: the pointer is from a reference.
        unsafe { core::ptr::write_volatile(word, sum) };
    }
}

/// The routines of a hash, from its `compress_two` and `words`; its schedule takes this many vectors.
macro_rules! routines {
    ($words:literal, $octets:literal, $vectors:literal) => {
        hmac!($words, $octets, FIRST_LOWEST, "avx2,bmi1,bmi2");

        type State = crate::hmac::bmi2::State<$words, $vectors>;

        #[inline]
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn compress(state: &mut State, block: Block) {
            compress_two(&mut state.words, &mut state.schedule, &alone(block), false);
        }

        #[inline]
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn compress_both(states: &mut [State; 2], blocks: &mut [Block; 2]) {
            for (state, block) in states.iter_mut().zip(blocks) {
                // In memory, because `compress_two` is not inlined.
                let mut group = alone(*block);
                compress_two(&mut state.words, &mut state.schedule, &group, false);
                group = [_mm256_setzero_si256(); 4];
                optimization_barrier(&group);
            }
        }

        #[inline]
        fn finish(state: &State, words: &mut [u32; $words]) {
            *words = state.words;
        }

        #[inline]
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn compress_all(state: &mut State, blocks: &[[u8; BLOCK]]) {
            let (pairs, last) = blocks.as_chunks();
            for [first, second] in pairs {
                let pair = side_by_side(words_of(first, &FIRST_LOWEST), words_of(second, &FIRST_LOWEST));
                compress_two(&mut state.words, &mut state.schedule, &pair, true);
            }
            for octets in last {
                compress(state, words_of(octets, &FIRST_LOWEST));
            }
        }
    };
}

pub(super) mod sha1 {
    use core::arch::asm;
    use core::arch::x86_64::*;

    use crate::hmac::bmi2::*;

    routines!(5, 20, 20);

    /// The words of a chaining value as those of a block, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn words(state: &State) -> [__m128i; 2] {
        let [a, b, c, d, e] = state.words.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, 0, 0, 0)]
    }

    /// One round (FIPS 180-4 §6.1.2). The round before has rotated `b` and computed `f`; this round computes the next round's `f` from `a`.
    macro_rules! round {
        ($words:ident[$block:literal][$word:expr], $f:ident [$($next:literal)*], $a:ident $b:ident $c:ident $d:ident $e:ident) => {
            let (rotated, next): (u32, u32);
            // SAFETY: the block's part has this many words, and this is compiled for BMI1 and BMI2.
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

    /// Four rounds, starting with this number. In between, it computes the words for the rounds sixteen later.
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

    /// Processes one block or two into a chaining value. A single copy for all calls: it has more than 1000 instructions.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    #[expect(unused_assignments, reason = "the last rounds leave what others would need")]
    fn compress_two(state: &mut [u32; 5], words: &mut Words<20>, blocks: &[__m256i; 4], are_two: bool) {
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

    /// Four words of the schedule of two blocks. `w` has the 32 words before; each four are at their number modulo 8.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn next(w: &[__m256i; 8], four: usize) -> __m256i {
        let before = |distance: usize| w[(four + 8 - distance) % 8];
        let (last, second) = (before(1), before(2));
        if four >= 8 {
            // The schedule's rule applied twice, so that no word needs another of the same four.
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
}

pub(super) mod sha256 {
    use core::arch::asm;
    use core::arch::x86_64::*;

    use crate::hmac::bmi2::*;

    routines!(8, 32, 16);

    /// The words of a chaining value as those of a block, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn words(state: &State) -> [__m128i; 2] {
        let [a, b, c, d, e, f, g, h] = state.words.map(u32::cast_signed);
        [_mm_setr_epi32(a, b, c, d), _mm_setr_epi32(e, f, g, h)]
    }

    /// One round (FIPS 180-4 §6.2.2).
    ///
    /// Maj(a, b, c) is b ^ (a ^ b) & (b ^ c), where b ^ c is the a ^ b of the round before. Maj and sum 0 are added to the new `a` only in
    /// the next round, after the operations that its `e` waits for. The two parts of Ch have no bit in common, so each is added separately.
    macro_rules! round {
        ($words:ident[$word:expr], $late:ident $b_c:ident,
            $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
            let (a_b, maj);
            // SAFETY: the block's part has this many words, and this is compiled for BMI1 and BMI2.
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

    /// Processes one block or two into a chaining value. A single copy for all calls: it has about 1000 instructions.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn compress_two(state: &mut [u32; 8], words: &mut Words<16>, blocks: &[__m256i; 4], are_two: bool) {
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
        // In between, it computes the words for the rounds sixteen later.
        macro_rules! four_rounds_and_words {
            ($words:ident[$at:literal] $next:ident $k:ident, $w0:ident $w1:ident $w2:ident $w3:ident,
                $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
                let early = _mm256_alignr_epi8::<4>($w1, $w0);
                // Each rotation is a right shift and a left shift; a rotation by 18 is one by 7 and one by 11.
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

    /// Four words, once for each block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn twice(words: &[u32; 4]) -> __m256i {
        // SAFETY: four words are 16 octets; the load needs no alignment.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(words.as_ptr().cast()) })
    }

    /// Sigma 1 of two words, each given twice in a row; the results are in the first and the third place.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sigma1(words: __m256i) -> __m256i {
        let rotated = _mm256_xor_si256(_mm256_srli_epi64::<17>(words), _mm256_srli_epi64::<19>(words));
        _mm256_xor_si256(rotated, _mm256_srli_epi32::<10>(words))
    }
}
