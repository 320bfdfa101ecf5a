//! ChaCha20's block function, written as in RFC 8439.

/// The key stream block of `key`, `counter` and `nonce` (RFC 8439 §2.3).
#[must_use]
pub fn block(key: &[u8; 32], counter: u32, nonce: &[u8; 12]) -> [u8; 64] {
    let mut state = [0; 16];
    state[0] = 0x6170_7865;
    state[1] = 0x3320_646e;
    state[2] = 0x7962_2d32;
    state[3] = 0x6b20_6574;
    for (word, octets) in state[4..12].iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*octets);
    }
    state[12] = counter;
    for (word, octets) in state[13..].iter_mut().zip(nonce.as_chunks().0) {
        *word = u32::from_le_bytes(*octets);
    }
    let mut working = state;
    for _ in 0..10 {
        quarter_round(&mut working, 0, 4, 8, 12);
        quarter_round(&mut working, 1, 5, 9, 13);
        quarter_round(&mut working, 2, 6, 10, 14);
        quarter_round(&mut working, 3, 7, 11, 15);
        quarter_round(&mut working, 0, 5, 10, 15);
        quarter_round(&mut working, 1, 6, 11, 12);
        quarter_round(&mut working, 2, 7, 8, 13);
        quarter_round(&mut working, 3, 4, 9, 14);
    }
    let mut stream = [0; 64];
    for (octets, (word, start)) in stream.as_chunks_mut().0.iter_mut().zip(working.iter().zip(state)) {
        *octets = word.wrapping_add(start).to_le_bytes();
    }
    stream
}

/// RFC 8439 §2.1.
fn quarter_round(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(16);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(12);
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(8);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(7);
}

/// The header mask (RFC 9001 §5.4.4): the sample's first four octets are the counter and the others the nonce.
#[must_use]
pub fn header_mask(key: &[u8; 32], sample: &[u8; 16]) -> [u8; 5] {
    let mut counter = [0; 4];
    counter.copy_from_slice(&sample[..4]);
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&sample[4..]);
    let mut mask = [0; 5];
    mask.copy_from_slice(&block(key, u32::from_le_bytes(counter), &nonce)[..5]);
    mask
}
