//! Secrets that routers scramble with a fixed key, which anyone can undo: Junos's `$9$` and Cisco's type 7.

use std::slice;

use base16ct::{lower, mixed};
use zeroize::Zeroizing;

/// The start of a `$9$` secret.
pub(super) const JUNOS_NINE: &str = "$9$";

/// The characters of `$9$`, in the order of their values.
const ALPHABET: &[u8; 65] = b"QzF3n6/9CAtpu0OB1IREhcSyrleKvMW8LXx7N-dVbwsY2g4oaJZGUDjiHkq.mPf5T";
/// Where the four families of the alphabet end; a first character of an earlier family is followed by more filler.
const FAMILIES: [usize; 4] = [15, 35, 55, 65];
/// The weights of an octet's characters, for each octet in turn.
const WEIGHTS: [&[usize]; 7] =
    [&[1, 4, 32], &[1, 16, 32], &[1, 8, 32], &[1, 64], &[1, 32], &[1, 4, 16, 128], &[1, 32, 64]];

fn value(character: u8) -> Option<usize> {
    ALPHABET.iter().position(|known| *known == character)
}

/// How many characters of filler follow a first character with this value.
fn filler(first: usize) -> usize {
    3 - FAMILIES.iter().position(|end| first < *end).unwrap_or(3)
}

/// The octets of a `$9$` secret; `None` for anything else.
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
            // The value is the distance from the previous character, less one.
            let gap = (this + ALPHABET.len() - previous - 1) % ALPHABET.len();
            sum += gap * weight;
            previous = this;
        }
        // An octet is the sum modulo 256.
        octets.push(sum as u8);
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

/// The octets with which type 7 obscures a secret, from the index that its first two digits give.
const CISCO_KEY: &[u8; 53] = b"dsfd;kfoA,.iyewrkldJKDHSUBsgvca69834ncxv9873254k;fg87";

/// The octets of a type 7 secret; `None` for anything else.
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

/// A type 7 secret of these octets, always from the same index.
pub(super) fn to_cisco_seven(octets: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 + 2 * octets.len()));
    text.push_str("00");
    for (index, octet) in octets.iter().enumerate() {
        push_octet(&mut text, octet ^ CISCO_KEY[index % CISCO_KEY.len()]);
    }
    text.make_ascii_uppercase();
    text
}

/// The octets of pairs of hexadecimal digits, with a colon between all pairs or between none; `None` for anything else.
#[must_use]
pub fn hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut octets =
        Zeroizing::new(vec![0; if text.contains(':') { text.len() / 3 + 1 } else { text.len() / 2 }]);
    if text.contains(':') {
        let mut pairs = text.split(':');
        for (octet, pair) in octets.iter_mut().zip(&mut pairs) {
            decode_into(pair.as_bytes(), slice::from_mut(octet))?;
        }
        return pairs.next().is_none().then_some(octets);
    }
    decode_into(text.as_bytes(), &mut octets)?;
    Some(octets)
}

/// Appends an octet as two digits, in lower case.
pub(super) fn push_octet(text: &mut String, octet: u8) {
    let mut digits = Zeroizing::new([0; 2]);
    text.push_str(lower::encode_str(&[octet], &mut *digits).expect("an octet has two digits"));
}

/// Fills `octets` from exactly as many pairs of digits; `None`, with `octets` undefined, for anything else.
fn decode_into(digits: &[u8], octets: &mut [u8]) -> Option<()> {
    let length = octets.len();
    (mixed::decode(digits, octets).ok()?.len() == length).then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Both ends of a session between IOS XR and Junos, and the examples of juniper9-crypt.
    #[test]
    fn published_secrets_are_read() {
        assert_eq!(&**cisco_seven("011A08105E19091F").expect("type 7"), b"interop");
        assert_eq!(&**junos_nine("$9$.PT3REyv87CtMX-waJz36").expect("$9$"), b"interop");
        assert_eq!(&**junos_nine("$9$FNkC3/t1IcevLuOWx").expect("$9$"), b"hello");
        assert_eq!(&**junos_nine("$9$o1aGiPfz/Cuk.tO").expect("$9$"), b"hello");
        // Secrets that begin with the first character of each other family, as Crypt::Juniper's algorithm gives them.
        for text in ["$9$BQzIhrVb2JUHM8Zjqfn6Sre", "$9$7Q-b2.mTn9pJG6A0Irls24", "$9$ikmTOBErK8n/lMX-2gfTz"] {
            assert_eq!(&**junos_nine(text).expect("$9$"), b"interop");
        }
        assert_eq!(&**cisco_seven("0242114B0E143F015F5D1E161713").expect("type 7"), b"$uperP@ssword");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "$9$", "$9$!", "$9$Q", "$9$o1a", "$9$FNkC3/t1IcevLuOW", "$9$FNkC3/t1!cevLuOWx", "hello"]
        {
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
