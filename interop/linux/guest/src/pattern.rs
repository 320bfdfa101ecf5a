//! The octets that rows transfer: known to both ends, different at every place, and cheap on an emulated processor.

use crate::Amount;

/// Octets of one word of the pattern.
const WORD: usize = 8;

/// An endless sequence of octets, chosen by a seed, from some place on.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    position: u64,
}

impl Pattern {
    /// The sequence of this seed, from the octet number `position` on.
    #[must_use]
    pub const fn new(seed: u64, position: u64) -> Self {
        Self { seed, position }
    }

    /// The sequence that an amount is of.
    #[must_use]
    pub const fn of(amount: Amount) -> Self {
        Self::new(amount.seed, amount.from)
    }

    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Fills `octets` with the next octets, without going on.
    pub fn peek(&self, octets: &mut [u8]) {
        let skip = (self.position % WORD as u64) as usize;
        let mut word = self.position / WORD as u64;
        let (first, rest) = octets.split_at_mut(octets.len().min((WORD - skip) % WORD));
        if !first.is_empty() {
            first.copy_from_slice(&self.word(word)[skip..skip + first.len()]);
            word += 1;
        }
        for chunk in rest.chunks_mut(WORD) {
            chunk.copy_from_slice(&self.word(word)[..chunk.len()]);
            word += 1;
        }
    }

    /// Goes on by as many octets.
    pub const fn advance(&mut self, octets: usize) {
        self.position += octets as u64;
    }

    /// Compares what was received with the next octets, and goes on behind them.
    ///
    /// # Errors
    /// The number of the first octet that differs.
    pub fn check(&mut self, received: &[u8]) -> Result<(), u64> {
        let mut expected = vec![0; received.len()];
        self.peek(&mut expected);
        if let Some(place) =
            received.iter().zip(&expected).position(|(received, expected)| received != expected)
        {
            return Err(self.position + place as u64);
        }
        self.advance(received.len());
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
        let mut whole = [0; 61];
        Pattern::new(7, 3).peek(&mut whole);
        for cut in 0..whole.len() {
            let mut pattern = Pattern::new(7, 3);
            assert_eq!(pattern.check(&whole[..cut]), Ok(()));
            assert_eq!(pattern.check(&whole[cut..]), Ok(()));
        }
    }

    #[test]
    fn a_changed_octet_is_found() {
        let mut octets = [0; 40];
        Pattern::new(7, 100).peek(&mut octets);
        octets[33] ^= 1;
        assert_eq!(Pattern::new(7, 100).check(&octets), Err(133));
    }
}
