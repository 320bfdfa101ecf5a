//! KMAC256 (SP 800-185 §4) on the Keccak permutation.

use keccak::{Keccak, State1600};
use sponge_cursor::SpongeCursor;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Octets that KMAC256 absorbs between two permutations (SP 800-185 §4.3: 1088 bits).
pub(crate) const RATE: usize = 136;

/// The Keccak state after the function name, the customization string and the key. They are padded to whole blocks, so no position needs to
/// be stored.
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Kmac256Key(Zeroizing<State1600>);

impl Kmac256Key {
    pub(crate) fn new(key: &[u8], customization: &[u8]) -> Self {
        let mut state = Self(Zeroizing::new([0; 25]));
        Keccak::new().with_f1600(|f1600| {
            state.absorb_padded(f1600, &[b"KMAC", customization]);
            state.absorb_padded(f1600, &[key]);
        });
        state
    }

    /// Absorbs `bytepad(encode_string(s1) || encode_string(s2) ..., 136)` (SP 800-185 §2.3.2 and §2.3.3).
    fn absorb_padded(&mut self, f1600: fn(&mut State1600), strings: &[&[u8]]) {
        let mut cursor = SpongeCursor::<RATE>::default();
        cursor.absorb_u64_le(&mut self.0, f1600, Encoded::left(RATE as u64).as_bytes());
        for string in strings {
            cursor.absorb_u64_le(&mut self.0, f1600, Encoded::left(bits(string.len())).as_bytes());
            cursor.absorb_u64_le(&mut self.0, f1600, string);
        }
        if cursor.pos() != 0 {
            f1600(&mut self.0);
        }
    }

    /// Absorbs blocks of a message that comes in parts: [`Self::mac`] then computes the MAC of what follows them.
    #[cfg(feature = "digest")]
    pub(crate) fn absorb(&mut self, blocks: &[u8]) {
        Keccak::new().with_f1600(|f1600| {
            SpongeCursor::<RATE>::default().absorb_u64_le(&mut self.0, f1600, blocks);
        });
    }

    /// Fills `output`, at most 136 octets, with the MAC of the slices of `message`. The MAC depends on its length.
    // Not inlined: `MacKey::mac` would have to save its registers, whichever MAC it computes.
    #[inline(never)]
    pub(crate) fn mac(&self, message: &[&[u8]], output: &mut [u8]) {
        let mut state = self.0.clone();
        Keccak::new().with_f1600(|f1600| {
            let mut cursor = SpongeCursor::<RATE>::default();
            for slice in message {
                cursor.absorb_u64_le(&mut state, f1600, slice);
            }
            cursor.absorb_u64_le(&mut state, f1600, Encoded::right(bits(output.len())).as_bytes());
            let position = cursor.pos();
            state[position / 8] ^= 0x04 << (8 * (position % 8));
            state[RATE / 8 - 1] ^= 0x80 << 56;
            f1600(&mut state);
        });
        for (octets, lane) in output.chunks_mut(8).zip(state.iter()) {
            octets.copy_from_slice(&lane.to_le_bytes()[..octets.len()]);
        }
    }
}

const fn bits(octets: usize) -> u64 {
    octets as u64 * 8
}

/// A number in as few octets as possible, with the count of octets before or after them (SP 800-185 §2.3.1).
struct Encoded {
    octets: [u8; 10],
    start: usize,
    end: usize,
}

impl Encoded {
    const fn left(number: u64) -> Self {
        let mut encoded = Self::right(number);
        encoded.octets[encoded.start - 1] = encoded.octets[9];
        encoded.start -= 1;
        encoded.end = 9;
        encoded
    }

    const fn right(number: u64) -> Self {
        let big_endian = number.to_be_bytes();
        let skipped = if number == 0 { 7 } else { number.leading_zeros() as usize / 8 };
        let mut octets = [0; 10];
        let mut i = 0;
        while i < 8 {
            octets[i + 1] = big_endian[i];
            i += 1;
        }
        octets[9] = 8 - skipped as u8;
        Self { octets, start: 1 + skipped, end: 10 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.octets[self.start..self.end]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Kmac256Key;

    /// NIST's KMAC256 samples 4, 5 and 6 (KMAC_samples.pdf). Their 64 octets are longer than the MACs of a `MacKey`.
    #[test]
    fn nist_samples() {
        let file = include_str!("../tests/data/vectors/kmac256.json");
        let file: Value = serde_json::from_str(file).expect("JSON");
        let octets =
            |hex: &Value| base16ct::mixed::decode_vec(hex.as_str().expect("a text")).expect("hexadecimal");
        let cases = file["cases"].as_array().expect("cases");
        assert_eq!(cases.len(), 3);
        for case in cases {
            let [key, customization] = ["key", "customization"].map(|field| octets(&case[field]));
            let mut output = [0; 64];
            Kmac256Key::new(&key, &customization).mac(&[&octets(&case["message"])], &mut output);
            assert_eq!(output[..], octets(&case["mac"]));
        }
    }
}
