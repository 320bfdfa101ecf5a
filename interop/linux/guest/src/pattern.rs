//! The octets that rows transfer: known to both ends, different at every place, and cheap on an emulated processor.

use anyhow::{Result, ensure};

use crate::Amount;

/// Octets of one word of the pattern.
const WORD: usize = 8;

/// The octets of an [`Amount`], one after the other.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    position: u64,
    end: u64,
}

impl Pattern {
    #[must_use]
    pub const fn of(amount: Amount) -> Self {
        let Amount { octets, seed, from } = amount;
        Self { seed, position: from, end: from + octets }
    }

    /// How many octets are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        (self.end - self.position) as usize
    }

    /// Takes so many octets, or those that are left.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let octets = most.min(self.left());
        let skip = (self.position % WORD as u64) as usize;
        let mut taken = vec![0; (skip + octets).next_multiple_of(WORD)];
        for (number, word) in (self.position / WORD as u64..).zip(taken.chunks_exact_mut(WORD)) {
            word.copy_from_slice(&self.word(number));
        }
        taken.truncate(skip + octets);
        taken.drain(..skip);
        self.position += octets as u64;
        taken
    }

    /// Takes as many octets as were received.
    ///
    /// # Errors
    /// The octets differ; says which is the first.
    pub fn check(&mut self, received: &[u8]) -> Result<()> {
        let from = self.position;
        let expected = self.take(received.len());
        let differs = received.iter().zip(&expected).position(|(received, expected)| received != expected);
        ensure!(
            differs.is_none() && received.len() == expected.len(),
            "wrong octet {}",
            from + differs.unwrap_or(expected.len()) as u64
        );
        Ok(())
    }

    /// Two rounds of multiplication spread the word's number over all octets.
    const fn word(&self, number: u64) -> [u8; WORD] {
        let mut mixed = (self.seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let amount = Amount { octets: 61, seed: 7, from: 3 };
        let whole = Pattern::of(amount).take(100);
        assert_eq!(whole.len(), 61);
        for cut in 0..whole.len() {
            let mut pattern = Pattern::of(amount);
            pattern.check(&whole[..cut]).unwrap();
            pattern.check(&whole[cut..]).unwrap();
            assert!(pattern.check(&[0]).is_err());
        }
    }

    #[test]
    fn a_changed_octet_is_found() {
        let amount = Amount { octets: 40, seed: 7, from: 100 };
        let mut octets = Pattern::of(amount).take(40);
        octets[33] ^= 1;
        assert_eq!(Pattern::of(amount).check(&octets).unwrap_err().to_string(), "wrong octet 133");
    }
}
