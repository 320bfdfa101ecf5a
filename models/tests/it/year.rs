//! A few small years, and the faults that show within one; the CI stage `models` simulates more, and finds all faults.

use models::year::{Fault, run};

#[test]
fn all_invariants_hold_in_three_years() {
    // In the last one, a gateway that restarted without its state hears a replayed SYN, and then its stack closes the old connection.
    for seed in [2, 5, 30_052] {
        let summary = run(seed, None).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(summary.accepted > 10_000 && summary.attacks > 1_000 && summary.opened > 1, "{summary:?}");
        assert!(summary.replays < summary.attacks && summary.accepted < summary.sent + summary.attacks);
    }
}

#[test]
fn the_same_seed_gives_the_same_year() {
    let failures = [(); 2].map(|()| run(1, Some(Fault::PassesUnsigned)).expect_err("the fault is there"));
    assert!(!failures[0].recent.is_empty());
    let [one, other] = failures.map(|failure| failure.to_string());
    assert_eq!(one, other);
}

#[test]
fn faults_are_found_within_a_year() {
    let expected = [
        (1, Fault::DeletesKeyInUse, "refuses what its peer has sent"),
        (1, Fault::RetransmitsWithNewestSne, "refuses what its peer has sent"),
        (1, Fault::PassesUnsigned, "is sent unsigned"),
        (1, Fault::ExpiredKeysStay, "are not valid"),
        (2, Fault::ClockSetBackDeletesKeys, "refuses what its peer has sent"),
        (13, Fault::DeafToRetransmissions, "which a new acknowledgment asks for"),
    ];
    for (seed, fault, what) in expected {
        let failure = run(seed, Some(fault)).expect_err("the fault is there");
        assert!(failure.what.contains(what), "{fault:?}: {failure}");
    }
}
