//! The window over packet numbers that have been seen, against a set of all of them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wireseal_quic::{DuplicateWindow, MAX_PACKET_NUMBER};

/// Everything ever seen, and the rule: what lies [`DuplicateWindow::SPAN`] or more behind the largest counts as seen.
#[derive(Default)]
struct Seen(BTreeSet<u64>);

impl Seen {
    fn insert(&mut self, number: u64) -> bool {
        let too_old = self.0.last().is_some_and(|largest| number + DuplicateWindow::SPAN <= *largest);
        !too_old && self.0.insert(number)
    }
}

fn steps() -> impl Strategy<Value = Vec<i64>> {
    let span = DuplicateWindow::SPAN as i64;
    let step = prop_oneof![
        8 => -3..4_i64,
        4 => -100..100_i64,
        2 => -span - 3..=span + 3,
        1 => prop::sample::select(vec![span - 1, span, span + 1, 64 * span, -span, 1 - span, 63, 64, 65]),
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
        let (mut window, mut seen, mut number) = (DuplicateWindow::new(), Seen::default(), start);
        for step in steps {
            prop_assert_eq!(window.insert(number), seen.insert(number), "{}", number);
            number = number.saturating_add_signed(step).min(MAX_PACKET_NUMBER);
        }
    }
}

#[test]
fn q_42_the_window_ends_where_it_says() {
    for largest in [DuplicateWindow::SPAN, 5000, MAX_PACKET_NUMBER] {
        let mut window = DuplicateWindow::new();
        assert!(window.insert(largest));
        assert!(!window.insert(largest - DuplicateWindow::SPAN), "as old as the window is long");
        assert!(window.insert(largest - DuplicateWindow::SPAN + 1), "the oldest in the window");
        for number in largest - DuplicateWindow::SPAN + 2..largest {
            assert!(window.insert(number));
        }
        for number in largest - DuplicateWindow::SPAN..=largest {
            assert!(!window.insert(number));
        }
    }
}
