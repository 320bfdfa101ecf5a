//! SHA-256 as FIPS 180-4 writes it.

use super::K;

/// The chaining value before the first block (FIPS 180-4 §5.3.3).
pub const INITIAL: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// Takes a block into a chaining value (FIPS 180-4 §6.2.2).
pub fn compress(h: &mut [u32; 8], block: &[u8; 64]) {
    let mut w = [0_u32; 64];
    for (t, octets) in block.as_chunks().0.iter().enumerate() {
        w[t] = u32::from_be_bytes(*octets);
    }
    for t in 16..64 {
        let sigma0 = w[t - 15].rotate_right(7) ^ w[t - 15].rotate_right(18) ^ w[t - 15] >> 3;
        let sigma1 = w[t - 2].rotate_right(17) ^ w[t - 2].rotate_right(19) ^ w[t - 2] >> 10;
        w[t] = sigma1.wrapping_add(w[t - 7]).wrapping_add(sigma0).wrapping_add(w[t - 16]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut last] = *h;
    for t in 0..64 {
        let sum1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let ch = e & f ^ !e & g;
        let t1 = last.wrapping_add(sum1).wrapping_add(ch).wrapping_add(K[t]).wrapping_add(w[t]);
        let sum0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let maj = a & b ^ a & c ^ b & c;
        let t2 = sum0.wrapping_add(maj);
        (last, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (h, word) in h.iter_mut().zip([a, b, c, d, e, f, g, last]) {
        *h = h.wrapping_add(word);
    }
}
