//! KMAC256 (SP 800-185 §4) on the Keccak permutation.

use keccak::{Keccak, State1600};
use sponge_cursor::SpongeCursor;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// Octets that KMAC256 absorbs between two permutations (SP 800-185 §4.3: 1088 bits).
const RATE: usize = 136;

/// The Keccak state after the function name, the customization string and the key. They are padded to whole blocks, so there is no
/// position to keep.
#[derive(ZeroizeOnDrop)]
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

    /// Fills `output`, at most 136 octets, with the MAC of the slices of `message`. The MAC depends on its length.
    #[inline]
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

/// A number in as few octets as possible, and how many they are in front or behind (SP 800-185 §2.3.1).
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
    use hex_literal::hex;

    use super::Kmac256Key;

    /// NIST's KMAC256 samples 4, 5 and 6 (KMAC_samples.pdf). Their 64 octets are longer than what a `MacKey` returns.
    #[test]
    fn nist_samples() {
        let key = core::array::from_fn::<u8, 32, _>(|i| 0x40 + i as u8);
        let data = core::array::from_fn::<u8, 200, _>(|i| i as u8);
        let samples: [(&[u8], &[u8], [u8; 64]); 3] = [
            (
                &data[..4],
                b"My Tagged Application",
                hex!(
                    "20c570c31346f703c9ac36c61c03cb64c3970d0cfc787e9b79599d273a68d2f7"
                    "f69d4cc3de9d104a351689f27cf6f5951f0103f33f4f24871024d9c27773a8dd"
                ),
            ),
            (
                &data,
                b"",
                hex!(
                    "75358cf39e41494e949707927cee0af20a3ff553904c86b08f21cc414bcfd691"
                    "589d27cf5e15369cbbff8b9a4c2eb17800855d0235ff635da82533ec6b759b69"
                ),
            ),
            (
                &data,
                b"My Tagged Application",
                hex!(
                    "b58618f71f92e1d56c1b8c55ddd7cd188b97b4ca4d99831eb2699a837da2e4d9"
                    "70fbacfde50033aea585f1a2708510c32d07880801bd182898fe476876fc8965"
                ),
            ),
        ];
        for (data, customization, expected) in samples {
            let mut output = [0; 64];
            Kmac256Key::new(&key, customization).mac(&[data], &mut output);
            assert_eq!(output, expected);
        }
    }
}
