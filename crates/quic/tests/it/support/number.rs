//! What a packet number of a few octets means, said in another way than RFC 9000 §A.3, does.

use wireseal_quic::NumberLength;

/// The number nearest to the one expected whose low octets are as given; halfway, the higher (RFC 9000 §A.3).
pub(crate) fn nearest(largest: Option<u64>, truncated: u32, length: NumberLength) -> u64 {
    let expected = largest.map_or(0, |largest| i128::from(largest) + 1);
    let window = 1_i128 << (8 * length.octets());
    let low = i128::from(truncated).rem_euclid(window);
    let lowest = expected - window / 2 + 1;
    let number = lowest + (low - lowest).rem_euclid(window);
    let legal = if number < 0 {
        number + window
    } else if number >= 1 << 62 && expected < 1 << 62 {
        number - window
    } else {
        number
    };
    u64::try_from(legal).unwrap()
}
