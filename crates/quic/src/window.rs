//! Duplicate detection.

/// A sliding window over the latest packet numbers, as in RFC 4303 §3.4.3.
///
/// [`ReceiveSpace`](crate::ReceiveSpace) has one, and asks it only about authentic packets.
#[derive(Clone, Debug)]
pub struct DuplicateWindow {
    /// One more than the largest number, or 0.
    pub(crate) end: u64,
    /// A number's bit is at the number modulo the span.
    pub(crate) bits: [u64; Self::WORDS],
}

impl DuplicateWindow {
    pub(crate) const WORDS: usize = 16;

    /// How many numbers back it remembers: 1024. Older numbers count as seen.
    pub const SPAN: u64 = 64 * Self::WORDS as u64;

    /// A window that has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { end: 0, bits: [0; Self::WORDS] }
    }

    /// Records `number`, at most 2^62-1, and returns whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        if number >= self.end {
            if number - self.end >= Self::SPAN {
                self.bits = [0; Self::WORDS];
            } else {
                for passed in self.end..=number {
                    let (word, bit) = Self::place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.end = number.saturating_add(1);
        } else if self.end - number > Self::SPAN {
            return false;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
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
