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

/// Why a dump cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DumpError {
    /// There are other characters than pairs of digits and offsets, or an odd number of digits.
    #[error("not pairs of hexadecimal digits, nor a hex dump")]
    NotPairs,
    /// A line begins with an offset that is not the number of octets before it.
    #[error("line {line} of the hex dump begins with an offset that is not the number of octets before it")]
    Offset {
        /// The line, from 1.
        line: usize,
    },
    /// The dump has 16-bit words in the order of the machine that wrote it.
    #[error(
        "the dump has 16-bit words in the machine's order: write it with hexdump -C, od -A x -t x1 or xxd"
    )]
    Words,
}

/// The octets of a dump: digits with or without blanks and an optional `0x` in front, or lines that begin with an offset, as
/// `tcpdump -x` and `-X`, `xxd`, `hexdump -C`, `od -t x1`, text2pcap and Wireshark write them, with or without a column of text.
///
/// # Errors
/// [`DumpError`].
pub fn decode_dump(text: &str) -> Result<Vec<u8>, DumpError> {
    // An offset is what has a colon, or counts the octets before it: in hexadecimal, octal or decimal digits.
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut firsts = lines().map(|(_, line)| line.split_whitespace().next().unwrap_or_default());
    let has_colons = firsts.clone().all(|first| first.ends_with(':') || first == "*");
    let first = firsts.next().unwrap_or_default();
    let zeros = first.trim_end_matches(':');
    let is_zero = zeros.strip_prefix("0x").unwrap_or(zeros).bytes().all(|digit| digit == b'0');
    let others = text.split_whitespace().skip(1);
    let are_shorter = others.clone().next().is_some_and(|second| second.len() == 2);
    if !has_colons && !(is_zero && first.len() >= 3 && (are_shorter || lines().count() > 1)) {
        return decode_digits(text);
    }
    let mut bases = [16, 8, 10].into_iter().map(|base| Dump::read(text, base));
    let hexadecimal = bases.next().unwrap_or(Err(DumpError::NotPairs));
    match hexadecimal {
        Ok(octets) => Ok(octets),
        Err(DumpError::Words) => Err(DumpError::Words),
        // Octets that begin with zeros look like an offset at first.
        Err(error) => match bases.find_map(Result::ok) {
            Some(octets) => Ok(octets),
            None if has_colons || are_shorter => Err(error),
            None => decode_digits(text).map_err(|_| error),
        },
    }
}

/// Digits without offsets.
fn decode_digits(text: &str) -> Result<Vec<u8>, DumpError> {
    let mut digits = Zeroizing::new(String::with_capacity(text.len()));
    for word in text.split_whitespace() {
        digits.push_str(word.strip_prefix("0x").unwrap_or(word));
    }
    decode(&digits).filter(|octets| !octets.is_empty()).ok_or(DumpError::NotPairs)
}

/// The most octets of a dump with offsets.
const MAX_DUMPED: usize = 1 << 18;

/// The octets of a dump with offsets, up to some line.
struct Dump {
    octets: Zeroizing<Vec<u8>>,
    /// Where the last line begins.
    last: usize,
    /// Whether an asterisk stands for more lines like it.
    repeats: bool,
}

impl Dump {
    fn read(text: &str, base: u32) -> Result<Vec<u8>, DumpError> {
        let octets = Zeroizing::new(Vec::with_capacity(MAX_DUMPED));
        let mut dump = Self { octets, last: 0, repeats: false };
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).peekable();
        while let Some((text, line)) = lines.next() {
            let Some((offset, rest)) = offset(text, base) else {
                if text.trim() != "*" {
                    return Err(DumpError::Offset { line });
                }
                dump.repeats = true;
                continue;
            };
            dump.repeat_until(offset).ok_or(DumpError::Offset { line })?;
            // The offset of the next line tells octets from text beside them.
            let next = lines.peek().and_then(|(next, _)| self::offset(next, base));
            let most = next.map(|(next, _)| next.wrapping_sub(offset)).filter(|_| !rest.trim().is_empty());
            let left = dump.line(rest, most, text)?;
            // Only hexadecimal offsets come with a column of text that nothing marks.
            if base != 16 && !left.is_empty() {
                return Err(DumpError::Offset { line });
            }
        }
        // A copy, because the buffer is longer than what it has.
        Some(dump.octets.to_vec()).filter(|octets| !octets.is_empty()).ok_or(DumpError::NotPairs)
    }

    /// Repeats the last line up to this offset, if an asterisk stands for that. `None` if the offset does not follow.
    fn repeat_until(&mut self, offset: usize) -> Option<()> {
        if self.repeats && self.last < self.octets.len() && offset <= MAX_DUMPED {
            let line = Zeroizing::new(self.octets[self.last..].to_vec());
            while self.octets.len() < offset {
                self.octets.extend_from_slice(&line);
            }
        }
        self.repeats = false;
        self.last = self.octets.len();
        (self.octets.len() == offset).then_some(())
    }

    /// Reads the octets of a line, `most` of them if that is known, up to the column of text, and returns that.
    fn line<'t>(&mut self, rest: &'t str, most: Option<usize>, whole: &str) -> Result<&'t str, DumpError> {
        let rest = rest.split(['|', '>']).next().unwrap_or_default();
        let mut left = rest.trim_start();
        let mut read = 0;
        while !left.is_empty() && most.is_none_or(|most| read < most) {
            let end = left.find(char::is_whitespace).unwrap_or(left.len());
            let (word, behind) = left.split_at(end);
            if word.len() == 4 && offset_digits(whole) == 7 {
                return Err(DumpError::Words);
            }
            let mut octets = Zeroizing::new([0; MAX_WORD]);
            let octets = octets.get_mut(..word.len() / 2).filter(|octets| !octets.is_empty());
            let octets = octets.and_then(|octets| decode_into(word.as_bytes(), octets).map(|()| &*octets));
            let Some(octets) = octets else {
                // The column of text, unless there should be more octets.
                let is_text = most.is_none() && read > 0;
                return if is_text { Ok(left) } else { Err(DumpError::NotPairs) };
            };
            if self.octets.len() + octets.len() > MAX_DUMPED {
                return Err(DumpError::NotPairs);
            }
            self.octets.extend_from_slice(octets);
            read += octets.len();
            left = behind.trim_start();
            // Two blanks stand before the text; hexdump -C has them in the middle of the octets, too.
            let is_column = behind.len() - left.len() > 1 && read != HALF_LINE;
            if most.is_none() && is_column {
                return Ok(left);
            }
        }
        Ok(left)
    }
}

/// Octets after which a line may have a wider gap.
const HALF_LINE: usize = 8;
/// Octets of the longest word in a dump.
const MAX_WORD: usize = 32;

/// The offset that a line begins with, and the rest of the line.
fn offset(line: &str, base: u32) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let digits = first.strip_suffix(':').unwrap_or(first);
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    Some((usize::from_str_radix(digits, base).ok()?, rest))
}

/// How many digits the offset of a line has, if it has no colon: seven if hexdump or od wrote it.
fn offset_digits(line: &str) -> usize {
    line.split_whitespace().next().map_or(0, |first| if first.ends_with(':') { 0 } else { first.len() })
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
    fn dumps_are_read_with_and_without_blanks() {
        let expected = Ok(vec![0x45, 0xe0, 0, 0x4c]);
        for text in
            ["45e0004c", "45 e0 00\n4c\n", "0x45e0004c", "\t0x0000:  45e0 004c", "0000: 45e0\n0002: 004c"]
        {
            assert_eq!(decode_dump(text), expected, "{text}");
        }
        // Octets that begin with zeros are no offset.
        assert_eq!(decode_dump("0000 5e00 0101").map(|octets| octets.len()), Ok(6));
        assert_eq!(decode_dump("0000 5e00 0101\n4500 0040").map(|octets| octets.len()), Ok(10));
        assert_eq!(decode_dump("00 00 5e 00\n01 02").map(|octets| octets.len()), Ok(6));
        for text in ["", "45e", "no packet", "0000  45 e0\n0002  no"] {
            assert_eq!(decode_dump(text), Err(DumpError::NotPairs), "{text}");
        }
    }

    /// The octets 0x41 to 0x5a, and six more that look like digits in a column of text.
    const DUMPED: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ ab cd";

    #[test]
    fn dumps_of_common_tools_are_read() {
        let rows = [
            // tcpdump -x, -X
            "\t0x0000:  4142 4344 4546 4748 494a 4b4c 4d4e 4f50\n\t0x0010:  5152 5354 5556 5758 595a 2061 6220 6364\n",
            "\t0x0000:  4142 4344 4546 4748 494a 4b4c 4d4e 4f50  ABCDEFGHIJKLMNOP\n\
             \t0x0010:  5152 5354 5556 5758 595a 2061 6220 6364  QRSTUVWXYZ.ab.cd\n",
            // xxd
            "00000000: 4142 4344 4546 4748 494a 4b4c 4d4e 4f50  ABCDEFGHIJKLMNOP\n\
             00000010: 5152 5354 5556 5758 595a 2061 6220 6364  QRSTUVWXYZ ab cd\n",
            // hexdump -C
            "00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|\n\
             00000010  51 52 53 54 55 56 57 58  59 5a 20 61 62 20 63 64  |QRSTUVWXYZ ab cd|\n00000020\n",
            // Wireshark's hex dump, with and without text
            "0000  41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50 \n0010  51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64 ",
            "0000   41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50   ABCDEFGHIJKLMNOP\n\
             0010   51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64   QRSTUVWXYZ ab cd\n",
            // text2pcap
            "000000 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50 ab\n000010 51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64",
            // od -A x -t x1z, od -t x1 and od -A d -t x1
            "000000 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50  >ABCDEFGHIJKLMNOP<\n\
             000010 51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64  >QRSTUVWXYZ ab cd<\n000020\n",
            "0000000 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50\n\
             0000020 51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64\n0000040\n",
            "0000000 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f 50\n\
             0000016 51 52 53 54 55 56 57 58 59 5a 20 61 62 20 63 64\n0000032\n",
        ];
        for text in rows {
            assert_eq!(decode_dump(text).as_deref(), Ok(DUMPED), "{text}");
        }
        // An asterisk stands for lines like the one above, but not for gigabytes of them.
        let zeros = "00000000  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|\n*\n";
        assert_eq!(decode_dump(&format!("{zeros}00000040\n")), Ok(vec![0; 64]));
        assert_eq!(decode_dump(&format!("{zeros}f0000000\n")), Err(DumpError::Offset { line: 3 }));
    }

    #[test]
    fn what_is_wrong_with_a_dump_is_said() {
        let words = "0000000 4241 4443 4645 4847 4a49 4c4b 4e4d 504f\n0000010 5251\n";
        assert_eq!(decode_dump(words), Err(DumpError::Words));
        // A line is missing.
        let text = "0000  41 42 43 44\n0008  45 46 47 48\n";
        assert_eq!(decode_dump(text), Err(DumpError::Offset { line: 2 }));
        let text = "00000000: 4142 4344\n0000000c: 4546\n";
        assert_eq!(decode_dump(text), Err(DumpError::Offset { line: 2 }));
    }
}
