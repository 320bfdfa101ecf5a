//! Variable-length integers (RFC 9000 §16).

/// The largest variable-length integer, which is also the largest packet number: 2^62-1.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Reads the variable-length integer at the start of `octets`. Returns its value and its length in octets, 1 to 8 (RFC 9000
/// §16 and §A.1), or `None` if it is truncated.
#[must_use]
pub fn decode_varint(octets: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (octets.first()? >> 6);
    let mut wide = [0; 8];
    wide[8 - length..].copy_from_slice(octets.get(..length)?);
    // The top two bits are the length.
    Some((u64::from_be_bytes(wide) & (u64::MAX >> (66 - 8 * length)), length))
}

/// Writes `value` to the start of `out` in as few octets as possible, and returns how many: 1 to 8 (RFC 9000 §16).
///
/// `None`, with nothing written, if `value` is above 2^62-1 or `out` is too short.
#[must_use]
pub fn encode_varint(value: u64, out: &mut [u8]) -> Option<usize> {
    let exponent = match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        0x4000_0000..=MAX_VARINT => 3,
        _ => return None,
    };
    encode_varint_as(value, exponent, out)
}

/// Writes `value`, which must fit, in 2^`exponent` octets.
pub(crate) fn encode_varint_as(value: u64, exponent: usize, out: &mut [u8]) -> Option<usize> {
    let length = 1 << exponent;
    let tagged = value | (exponent as u64) << (8 * length - 2);
    out.get_mut(..length)?.copy_from_slice(&tagged.to_be_bytes()[8 - length..]);
    Some(length)
}
