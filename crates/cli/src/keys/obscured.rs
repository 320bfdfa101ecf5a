//! Secrets that routers scramble with a fixed key, which anyone can undo: Junos's `$9$` and Cisco's type 7.

use zeroize::Zeroizing;

/// What a `$9$` secret begins with.
pub(super) const JUNOS_NINE: &str = "$9$";

/// The characters of `$9$`, in the order that gives them their values.
const ALPHABET: &[u8; 65] = b"QzF3n6/9CAtpu0OB1IREhcSyrleKvMW8LXx7N-dVbwsY2g4oaJZGUDjiHkq.mPf5T";
/// Where the four families of the alphabet end; one of an earlier family has more filler after it.
const FAMILIES: [usize; 4] = [15, 35, 55, 65];
/// What a character is worth, by its place within an octet, for one octet after the other.
const WEIGHTS: [&[usize]; 7] =
    [&[1, 4, 32], &[1, 16, 32], &[1, 8, 32], &[1, 64], &[1, 32], &[1, 4, 16, 128], &[1, 32, 64]];

fn value(character: u8) -> Option<usize> {
    ALPHABET.iter().position(|known| *known == character)
}

/// Characters of filler after a first character of this value.
fn filler(first: usize) -> usize {
    3 - FAMILIES.iter().position(|end| first < *end).unwrap_or(3)
}

/// The octets of a `$9$` secret; `None` for what is none.
pub(super) fn junos_nine(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let characters = text.strip_prefix(JUNOS_NINE)?.as_bytes();
    let mut previous = value(*characters.first()?)?;
    let mut rest = characters.get(1 + filler(previous)..)?;
    let mut octets = Zeroizing::new(Vec::with_capacity(rest.len()));
    while !rest.is_empty() {
        let weights = WEIGHTS[octets.len() % WEIGHTS.len()];
        let (group, after) = rest.split_at_checked(weights.len())?;
        let mut sum = 0;
        for (character, weight) in group.iter().zip(weights) {
            let this = value(*character)?;
            // Each character says how far it is behind the one before it, less one.
            let gap = (this + ALPHABET.len() - previous - 1) % ALPHABET.len();
            sum += gap * weight;
            previous = this;
        }
        octets.push((sum % 256) as u8);
        rest = after;
    }
    Some(octets)
}

/// A `$9$` secret of these octets, always with the same filler.
pub(super) fn to_junos_nine(octets: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(JUNOS_NINE.len() + 4 + 4 * octets.len()));
    text.push_str(JUNOS_NINE);
    let mut previous = 0;
    (0..=filler(previous)).for_each(|_| text.push(char::from(ALPHABET[previous])));
    for (index, octet) in octets.iter().enumerate() {
        let mut left = usize::from(*octet);
        let mut gaps = [0; 4];
        let weights = WEIGHTS[index % WEIGHTS.len()];
        for (gap, weight) in gaps.iter_mut().zip(weights).rev() {
            (*gap, left) = (left / weight, left % weight);
        }
        for gap in &gaps[..weights.len()] {
            previous = (previous + gap + 1) % ALPHABET.len();
            text.push(char::from(ALPHABET[previous]));
        }
    }
    text
}

/// What type 7 adds to a secret, from the place that its first two digits name.
const CISCO_KEY: &[u8; 53] = b"dsfd;kfoA,.iyewrkldJKDHSUBsgvca69834ncxv9873254k;fg87";

/// The octets of a type 7 secret; `None` for what is none.
pub(super) fn cisco_seven(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let (start, digits) = text.split_at_checked(2)?;
    let decimal = start.bytes().all(|digit| digit.is_ascii_digit());
    let start: usize = start.parse().ok().filter(|_| decimal)?;
    let mut octets = hexadecimal(digits)?;
    for (index, octet) in octets.iter_mut().enumerate() {
        *octet ^= CISCO_KEY[(start + index) % CISCO_KEY.len()];
    }
    Some(octets)
}

/// A type 7 secret of these octets, always from the same place.
pub(super) fn to_cisco_seven(octets: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 + 2 * octets.len()));
    text.push_str("00");
    for (index, octet) in octets.iter().enumerate() {
        push_octet(&mut text, octet ^ CISCO_KEY[index % CISCO_KEY.len()]);
    }
    text
}

/// Writes an octet as two digits.
pub(super) fn push_octet(text: &mut String, octet: u8) {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0').to_ascii_uppercase();
    text.push(digit(octet >> 4));
    text.push(digit(octet & 15));
}

/// The octets of pairs of hexadecimal digits, with a colon between every two pairs or without any.
pub(super) fn hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let width = if text.contains(':') { 3 } else { 2 };
    let mut octets = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    let mut pairs = text.as_bytes().chunks(width).peekable();
    while let Some(pair) = pairs.next() {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let (high, low) = (digit(*pair.first()?)?, digit(*pair.get(1)?)?);
        octets.push((high * 16 + low) as u8);
        let is_last = pairs.peek().is_none();
        match pair.get(2) {
            Some(b':') if !is_last => {}
            None if is_last || width == 2 => {}
            _ => return None,
        }
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The two ends of one session between IOS XR and Junos, and what is published with juniper9-crypt.
    #[test]
    fn published_secrets_are_read() {
        assert_eq!(&**cisco_seven("011A08105E19091F").expect("type 7"), b"interop");
        assert_eq!(&**junos_nine("$9$.PT3REyv87CtMX-waJz36").expect("$9$"), b"interop");
        assert_eq!(&**junos_nine("$9$FNkC3/t1IcevLuOWx").expect("$9$"), b"hello");
        assert_eq!(&**junos_nine("$9$o1aGiPfz/Cuk.tO").expect("$9$"), b"hello");
        assert_eq!(&**cisco_seven("0242114B0E143F015F5D1E161713").expect("type 7"), b"$uperP@ssword");
    }

    #[test]
    fn what_is_no_scrambled_secret_is_refused() {
        for text in ["", "$9$", "$9$Q", "$9$o1a", "$9$FNkC3/t1IcevLuOW", "$9$FNkC3/t1!cevLuOWx", "hello"] {
            assert_eq!(junos_nine(text), None, "{text}");
        }
        for text in ["", "0", "0x11", "+111", "01é", "011", "011g", "zz11"] {
            assert_eq!(cisco_seven(text), None, "{text}");
        }
        for text in ["1", "1:", "11:", ":11", "11:1", "11:1:11", "11::11", "1122:33", "é1"] {
            assert_eq!(hexadecimal(text), None, "{text}");
        }
        assert_eq!(hexadecimal("0a:fF").as_deref().map(Vec::as_slice), Some(&[10, 255][..]));
    }

    proptest! {
        #[test]
        fn what_is_scrambled_is_read_again(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(&*junos_nine(&to_junos_nine(&octets)).expect("$9$"), &octets);
            prop_assert_eq!(&*cisco_seven(&to_cisco_seven(&octets)).expect("type 7"), &octets);
        }
    }
}
