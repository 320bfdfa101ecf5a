//! Octets as hexadecimal digits.

use std::fmt::{self, Write};

/// Octets in lower case, without blanks.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(2 * self.0.len());
        for octet in self.0 {
            write!(text, "{octet:02x}")?;
        }
        f.pad(&text)
    }
}

/// The octets that pairs of digits stand for; `None` for anything else, an odd number of digits too.
#[must_use]
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    let (pairs, []) = digits.as_bytes().as_chunks() else { return None };
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

/// The octets of a dump: digits with blanks between them or without, lines that may begin with an offset and a colon as
/// `tcpdump -x` writes them, and `0x` in front.
#[must_use]
pub fn decode_dump(text: &str) -> Option<Vec<u8>> {
    let mut digits = String::with_capacity(text.len());
    for word in text.split_whitespace().filter(|word| !word.ends_with(':')) {
        digits.push_str(word.strip_prefix("0x").unwrap_or(word));
    }
    decode(&digits).filter(|octets| !octets.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_octets_and_the_other_way_round() {
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
