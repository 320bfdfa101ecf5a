//! Octets as hexadecimal digits. Buffers never grow, so that a secret leaves no copies behind.

use std::fmt;

use base16ct::{lower, mixed};
use zeroize::Zeroizing;

/// Octets in lower case, without separators.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&encode(self.0))
    }
}

/// The digits of these octets, in lower case.
pub(crate) fn encode(octets: &[u8]) -> String {
    lower::encode_string(octets)
}

/// The octets of pairs of digits; `None` for anything else, including an odd number of digits.
#[must_use]
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    mixed::decode_vec(digits).ok()
}

/// Fills `octets` from exactly as many pairs of digits; `None`, with `octets` undefined, for anything else.
pub(crate) fn decode_into(digits: &[u8], octets: &mut [u8]) -> Option<()> {
    let length = octets.len();
    (mixed::decode(digits, octets).ok()?.len() == length).then_some(())
}

/// The octets of a dump: digits with or without blanks, an optional `0x` in front, and lines that may begin with an offset and
/// a colon, as `tcpdump -x` writes them.
#[must_use]
pub fn decode_dump(text: &str) -> Option<Vec<u8>> {
    let mut digits = Zeroizing::new(String::with_capacity(text.len()));
    for word in text.split_whitespace().filter(|word| !word.ends_with(':')) {
        digits.push_str(word.strip_prefix("0x").unwrap_or(word));
    }
    decode(&digits).filter(|octets| !octets.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_octets_and_back() {
        assert_eq!(Hex(&[0, 0x9a, 0xff]).to_string(), "009aff");
        assert_eq!(decode("009AfF"), Some(vec![0, 0x9a, 0xff]));
        assert_eq!([decode("0"), decode("0g"), decode("+1"), decode("ä")], [None, None, None, None]);
    }

    #[test]
    fn dumps_are_read_with_and_without_offsets_and_blanks() {
        let expected = Some(vec![0x45, 0xe0, 0, 0x4c]);
        for text in
            ["45e0004c", "45 e0 00\n4c\n", "0x45e0004c", "\t0x0000:  45e0 004c", "0000: 45e0\n0002: 004c"]
        {
            assert_eq!(decode_dump(text), expected, "{text}");
        }
        assert_eq!([decode_dump(""), decode_dump("45e"), decode_dump("no packet")], [None, None, None]);
    }
}
