//! Which packet numbers have been seen.

/// A sliding window over the latest packet numbers, in the manner of RFC 4303, section 3.4.3.
///
/// [`ReceiveSpace`](crate::ReceiveSpace) has one, asked only about packets that are authentic.
#[derive(Clone, Debug)]
pub struct DuplicateWindow {
    /// One more than the largest number, or 0.
    end: u64,
    /// The bit of a number is at the number modulo the span.
    bits: [u64; Self::WORDS],
}

impl DuplicateWindow {
    const WORDS: usize = 16;

    /// How many numbers back it remembers: 1024. Older ones count as seen.
    pub const SPAN: u64 = 64 * Self::WORDS as u64;

    /// A window that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { end: 0, bits: [0; Self::WORDS] }
    }

    /// Notes `number`, at most 2^62-1, and says whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        if number >= self.end {
            let ahead = number - self.end;
            if ahead >= Self::SPAN {
                self.bits = [0; Self::WORDS];
            } else {
                for passed in self.end..number {
                    let (word, bit) = Self::place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.end = number.saturating_add(1);
        } else if self.end - number > Self::SPAN {
            return false;
        } else {
            let (word, bit) = Self::place(number);
            let new = self.bits[word] & bit == 0;
            self.bits[word] |= bit;
            return new;
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
        true
    }

    const fn place(number: u64) -> (usize, u64) {
        ((number % Self::SPAN / 64) as usize, 1 << (number % 64))
    }
}

impl Default for DuplicateWindow {
    fn default() -> Self {
        Self::new()
    }
}
