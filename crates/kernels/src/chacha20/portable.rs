//! The state before the first round (RFC 8439 §2.3), and one mask at a time on any processor.

/// "expand 32-byte k", the first row.
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The sixteen words of the state, each converted by `$word`, with the given last row. A function would not be inlined into every vector's
/// code.
macro_rules! initial_state {
    ($word:expr, $key:expr, $last_row:expr) => {{
        let [c0, c1, c2, c3] = $crate::chacha20::portable::CONSTANTS;
        let [k0, k1, k2, k3, k4, k5, k6, k7] = *$key;
        let [w12, w13, w14, w15] = $last_row;
        [
            $word(c0),
            $word(c1),
            $word(c2),
            $word(c3),
            $word(k0),
            $word(k1),
            $word(k2),
            $word(k3),
            $word(k4),
            $word(k5),
            $word(k6),
            $word(k7),
            w12,
            w13,
            w14,
            w15,
        ]
    }};
}
#[cfg(target_arch = "x86_64")]
#[cfg(target_arch = "x86_64")]
pub(super) use initial_state;

/// The first eight octets of key stream, in little-endian order.
pub(super) fn stream(key: &[u32; 8], sample: &[u8; 16]) -> u64 {
    leak!("ChaCha20: one mask", *key);
    let sample = sample.as_chunks().0;
    let mut x = initial_state!(u32::from, key, [0, 1, 2, 3].map(|word| u32::from_le_bytes(sample[word])));
    for _ in 0..9 {
        double_round(&mut x);
    }
    columns(&mut x);
    let words = [first_word(&x, 0, 5, 10, 15), first_word(&x, 1, 6, 11, 12)];
    let [low, high] = [0, 1].map(|word| u64::from(words[word].wrapping_add(CONSTANTS[word])));
    low | high << 32
}

/// RFC 8439 §2.3.
#[inline(always)]
pub(super) fn double_round(x: &mut [u32; 16]) {
    columns(x);
    quarter_round(x, 0, 5, 10, 15);
    quarter_round(x, 1, 6, 11, 12);
    quarter_round(x, 2, 7, 8, 13);
    quarter_round(x, 3, 4, 9, 14);
}

#[inline(always)]
fn columns(x: &mut [u32; 16]) {
    quarter_round(x, 0, 4, 8, 12);
    quarter_round(x, 1, 5, 9, 13);
    quarter_round(x, 2, 6, 10, 14);
    quarter_round(x, 3, 7, 11, 15);
}

/// RFC 8439 §2.1.
#[inline(always)]
fn quarter_round(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(16);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(12);
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(8);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(7);
}

/// The first word of a quarter round.
#[inline]
fn first_word(x: &[u32; 16], a: usize, b: usize, c: usize, d: usize) -> u32 {
    let first = x[a].wrapping_add(x[b]);
    let third = x[c].wrapping_add((x[d] ^ first).rotate_left(16));
    first.wrapping_add((x[b] ^ third).rotate_left(12))
}
