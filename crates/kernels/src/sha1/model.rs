//! SHA-1 as FIPS 180-4 writes it.

/// The chaining value before the first block (FIPS 180-4 §5.3.1).
pub const INITIAL: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

/// Takes a block into a chaining value (FIPS 180-4 §6.1.2).
pub fn compress(h: &mut [u32; 5], block: &[u8; 64]) {
    let mut w = [0_u32; 80];
    for (t, octets) in block.as_chunks().0.iter().enumerate() {
        w[t] = u32::from_be_bytes(*octets);
    }
    for t in 16..80 {
        w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *h;
    for (t, w) in w.iter().enumerate() {
        let (f, k) = match t / 20 {
            0 => (b & c ^ !b & d, 0x5a827999),
            1 => (b ^ c ^ d, 0x6ed9eba1),
            2 => (b & c ^ b & d ^ c & d, 0x8f1bbcdc),
            _ => (b ^ c ^ d, 0xca62c1d6),
        };
        let sum = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*w);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
    }
    for (h, word) in h.iter_mut().zip([a, b, c, d, e]) {
        *h = h.wrapping_add(word);
    }
}
