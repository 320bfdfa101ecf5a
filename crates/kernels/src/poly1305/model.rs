//! Poly1305 as RFC 8439 §2.5 writes it.

/// A number below 2^192, the least significant word first.
type Number = [u64; 3];

/// 2^130 - 5.
const P: Number = [u64::MAX - 4, u64::MAX, 3];

/// The tag of `message` under `key`.
#[must_use]
pub fn mac(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
    let accumulator = message.chunks(16).fold([0; 3], |accumulator, block| take(accumulator, key, block));
    finish(accumulator, key)
}

/// The tag of `texts`, each padded with zeros to whole blocks.
#[must_use]
pub fn mac_of_padded(key: &[u8; 32], texts: &[&[u8]]) -> [u8; 16] {
    let mut accumulator = [0; 3];
    for block in texts.iter().flat_map(|text| text.chunks(16)) {
        let mut padded = [0; 16];
        padded[..block.len()].copy_from_slice(block);
        accumulator = take(accumulator, key, &padded);
    }
    finish(accumulator, key)
}

/// Adds a block with the octet 1 behind it, and multiplies by the clamped r.
fn take(accumulator: Number, key: &[u8; 32], block: &[u8]) -> Number {
    let mut r = number(&key[..16]);
    r[0] &= 0x0fff_fffc_0fff_ffff;
    r[1] &= 0x0fff_fffc_0fff_fffc;
    let mut octets = [0; 17];
    octets[..block.len()].copy_from_slice(block);
    octets[block.len()] = 1;
    multiply(add(accumulator, number(&octets)), r)
}

/// Adds s, modulo 2^128.
fn finish(accumulator: Number, key: &[u8; 32]) -> [u8; 16] {
    let (sum, _) = sum(accumulator, number(&key[16..]));
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&sum[0].to_le_bytes());
    tag[8..].copy_from_slice(&sum[1].to_le_bytes());
    tag
}

/// At most 24 octets as a number, the least significant octet first.
fn number(octets: &[u8]) -> Number {
    let mut number = [0; 3];
    for (place, octet) in octets.iter().enumerate() {
        number[place / 8] |= u64::from(*octet) << (place % 8 * 8);
    }
    number
}

/// a * b modulo 2^130 - 5, bit by bit of b.
fn multiply(a: Number, b: Number) -> Number {
    let mut product = [0; 3];
    for bit in (0..192).rev() {
        product = add(product, product);
        if b[bit / 64] >> (bit % 64) & 1 == 1 {
            product = add(product, a);
        }
    }
    product
}

/// a + b modulo 2^130 - 5, of numbers below twice that.
fn add(a: Number, b: Number) -> Number {
    let (mut sum, _) = sum(a, b);
    while let (less, false) = difference(sum, P) {
        sum = less;
    }
    sum
}

/// a + b, and whether it overflows.
fn sum(a: Number, b: Number) -> (Number, bool) {
    let mut carry = false;
    let mut sum = [0; 3];
    for word in 0..3 {
        let (half, first) = a[word].overflowing_add(b[word]);
        let (whole, second) = half.overflowing_add(carry.into());
        sum[word] = whole;
        carry = first || second;
    }
    (sum, carry)
}

/// a - b, and whether it is negative.
fn difference(a: Number, b: Number) -> (Number, bool) {
    let mut borrow = false;
    let mut difference = [0; 3];
    for word in 0..3 {
        let (half, first) = a[word].overflowing_sub(b[word]);
        let (whole, second) = half.overflowing_sub(borrow.into());
        difference[word] = whole;
        borrow = first || second;
    }
    (difference, borrow)
}
