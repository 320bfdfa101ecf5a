//! The receiver's state between packets: which numbers it has seen, and how many packets failed authentication.

/// One packet number space of the receiving end: the largest authentic number, and which of the latest numbers were seen.
#[derive(Debug)]
pub struct ReceiveSpace {
    pub(crate) largest: Option<u64>,
    window: Option<DuplicateWindow>,
}

impl ReceiveSpace {
    /// The window in packet numbers: duplicates are detected among this many of the latest. Older packets count as duplicates.
    pub const WINDOW: u64 = 64 * WORDS as u64;

    /// An empty space, which detects duplicates among the latest [`WINDOW`](Self::WINDOW) numbers.
    #[must_use]
    pub const fn new() -> Self {
        Self { largest: None, window: Some(DuplicateWindow { end: 0, bits: [0; WORDS] }) }
    }

    /// An empty space for stacks that detect duplicates themselves, for instance with the ranges they acknowledge.
    #[must_use]
    pub const fn without_window() -> Self {
        Self { largest: None, window: None }
    }

    /// The largest number of an authentic packet so far.
    #[must_use]
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Records an authentic packet. `false`, with nothing recorded, for a duplicate, or for a number too old to tell: "A receiver MUST
    /// discard a newly unprotected packet unless it is certain that it has not processed another packet with the same packet number from
    /// the same packet number space" (RFC 9000 §12.3).
    #[inline]
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let is_new = self.window.as_mut().is_none_or(|window| window.insert(number));
        if is_new {
            self.largest = self.largest.max(Some(number));
        }
        is_new
    }
}

impl Default for ReceiveSpace {
    fn default() -> Self {
        Self::new()
    }
}

const WORDS: usize = 16;

/// A sliding window over the latest packet numbers, as in RFC 4303 §3.4.3.
#[derive(Debug)]
struct DuplicateWindow {
    /// One more than the largest number, or 0.
    end: u64,
    /// A number's bit is at the number modulo the window.
    bits: [u64; WORDS],
}

impl DuplicateWindow {
    /// Records `number`, at most 2^62-1, and returns whether it is new.
    fn insert(&mut self, number: u64) -> bool {
        if number >= self.end {
            if number - self.end >= ReceiveSpace::WINDOW {
                self.bits = [0; WORDS];
            } else {
                for passed in self.end..=number {
                    let (word, bit) = Self::place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.end = number.saturating_add(1);
        } else if self.end - number > ReceiveSpace::WINDOW {
            return false;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    const fn place(number: u64) -> (usize, u64) {
        ((number % ReceiveSpace::WINDOW / 64) as usize, 1 << (number % 64))
    }
}

/// How many packets of a connection failed authentication, under all its keys together (RFC 9001 §6.6).
#[derive(Debug, Default)]
pub struct AuthenticationFailures {
    count: u64,
}

impl AuthenticationFailures {
    /// No failure so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: 0 }
    }

    /// A count that starts at `count`, such as just below the limit, to test what a stack does when it is reached.
    #[must_use]
    pub const fn from_count(count: u64) -> Self {
        Self { count }
    }

    /// The number of failures; it stops at `u64::MAX`.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Counts one more failure.
    pub(crate) fn add(&mut self) {
        self.count = self.count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::packet_number::MAX_PACKET_NUMBER;

    /// Model: every number ever seen. Numbers [`ReceiveSpace::WINDOW`] or more below the largest count as seen.
    #[derive(Default)]
    struct Seen(BTreeSet<u64>);

    impl Seen {
        fn insert(&mut self, number: u64) -> bool {
            let too_old = self.0.last().is_some_and(|largest| number + ReceiveSpace::WINDOW <= *largest);
            !too_old && self.0.insert(number)
        }
    }

    fn steps() -> impl Strategy<Value = Vec<i64>> {
        let span = ReceiveSpace::WINDOW as i64;
        let edges = std::vec![span - 1, span, span + 1, 64 * span, -span, 1 - span, 63, 64, 65];
        let step = prop_oneof![
            8 => -3..4_i64,
            4 => -100..100_i64,
            2 => -span - 3..=span + 3,
            1 => prop::sample::select(edges),
            1 => 0..1_i64 << 40,
        ];
        prop::collection::vec(step, 1..300)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn q_42_a_number_is_new_once(
            start in prop_oneof![0..3_u64, 0..=MAX_PACKET_NUMBER, Just(MAX_PACKET_NUMBER)],
            steps in steps(),
        ) {
            let (mut space, mut seen, mut number) = (ReceiveSpace::new(), Seen::default(), start);
            for step in steps {
                prop_assert_eq!(space.insert(number), seen.insert(number), "{}", number);
                prop_assert_eq!(space.largest(), seen.0.last().copied());
                number = number.saturating_add_signed(step).min(MAX_PACKET_NUMBER);
            }
        }
    }

    #[test]
    fn q_42_the_window_ends_where_it_says() {
        for largest in [ReceiveSpace::WINDOW, 5000, MAX_PACKET_NUMBER] {
            let mut space = ReceiveSpace::new();
            let oldest = largest - ReceiveSpace::WINDOW + 1;
            assert!(space.insert(largest));
            assert!(!space.insert(oldest - 1), "as old as the window is long");
            assert!((oldest..largest).all(|number| space.insert(number)));
            assert!(!(oldest - 1..=largest).any(|number| space.insert(number)));
        }
    }
}
