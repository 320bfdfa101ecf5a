//! Smaller scopes than those of the CI stage `models`, and the faults that a search must find.

mod year;

use models::tcp_ao::{Operators, Scope, Spacing};
use models::{FAULTS, quic};

/// Searches everything, and requires at least `least` states.
fn search(operators: Operators, keys: u8, data: [u8; 2], in_flight: usize, least: usize) {
    search_all(Scope { operators, keys, data, in_flight, spacing: Spacing::Near, fault: None }, least);
}

fn search_all(scope: Scope, least: usize) {
    let scope = models::Scope::TcpAo(scope);
    let found = scope.search().found.unwrap_or_else(|counterexample| panic!("{scope}:\n{counterexample}"));
    println!("{scope}: {found:?}");
    assert!(found.states >= least, "{scope}: {found:?}");
}

#[test]
fn ao_22_no_interleaving_stops_a_prompt_rollover() {
    search(Operators::Prompt, 2, [1, 0], 2, 6_500);
    search(Operators::Prompt, 3, [1, 0], 2, 30_000);
}

#[test]
fn ao_22_no_interleaving_stops_a_careful_rollover() {
    search(Operators::Careful, 2, [1, 1], 1, 4_500);
    search(Operators::Careful, 3, [1, 0], 2, 9_000);
}

#[test]
fn ao_22_no_interleaving_of_arbitrary_key_changes_has_anything_wrong_accepted() {
    search(Operators::Free, 2, [1, 0], 1, 14_000);
}

/// Replays from 2^31 octets back, and from further back.
#[test]
fn ao_29_no_interleaving_takes_an_end_back_to_an_earlier_turn() {
    for (operators, data, least) in [(Operators::Prompt, [2, 0], 10_000), (Operators::Free, [3, 0], 10_000)] {
        let spacing = Spacing::Far;
        search_all(Scope { operators, keys: 2, data, in_flight: 2, spacing, fault: None }, least);
    }
}

#[test]
fn q_28_no_interleaving_of_key_updates_loses_a_packet_or_the_peer() {
    let scope = models::Scope::Quic(quic::Scope { packets: [2, 2], fault: None });
    let found = scope.search().found.unwrap_or_else(|counterexample| panic!("{scope}:\n{counterexample}"));
    assert!(found.states >= 4_000, "{found:?}");
}

/// A search that finds no faults because it searches nothing would miss these too.
#[test]
fn every_fault_put_back_is_found() {
    let last = |scope: models::Scope| {
        let counterexample = scope.search().found.expect_err("the fault is there");
        println!("{scope}:\n{counterexample}\n");
        counterexample.fault
    };
    let found = FAULTS.map(last);
    let expected = [
        "data never arrives",
        "data never arrives",
        "arrives again and again",
        "was moved before",
        "refused what the peer signed",
        "not opened",
        "not opened",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}
