//! Small scopes of what the CI stage `models` searches, and the faults that it must find.

use models::tcp_ao::{Operators, Scope};
use models::{FAULTS, quic};

/// Searches everything, which must be so many states at least.
fn search(operators: Operators, keys: u8, data: [u8; 2], in_flight: usize, least: usize) {
    let scope = models::Scope::TcpAo(Scope { operators, keys, data, in_flight, fault: None });
    let found = scope.search().found.unwrap_or_else(|counterexample| panic!("{scope}:\n{counterexample}"));
    println!("{scope}: {found:?}");
    assert!(found.states >= least, "{scope}: {found:?}");
}

#[test]
fn ao_22_no_interleaving_stops_a_prompt_rollover() {
    search(Operators::Prompt, 2, [1, 0], 2, 16_000);
    search(Operators::Prompt, 3, [1, 0], 2, 100_000);
}

#[test]
fn ao_22_no_interleaving_stops_a_careful_rollover() {
    search(Operators::Careful, 2, [1, 1], 1, 8_000);
    search(Operators::Careful, 3, [1, 0], 2, 19_000);
}

#[test]
fn ao_22_no_interleaving_of_arbitrary_key_changes_has_anything_wrong_accepted() {
    search(Operators::Free, 2, [1, 0], 1, 50_000);
}

#[test]
fn q_28_no_interleaving_of_key_updates_loses_a_packet_or_the_peer() {
    let scope = models::Scope::Quic(quic::Scope { packets: [2, 2], fault: None });
    let found = scope.search().found.unwrap_or_else(|counterexample| panic!("{scope}:\n{counterexample}"));
    assert!(found.states >= 4_000, "{found:?}");
}

/// If a search finds nothing because it searches nothing, it does not find these either.
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
        "not opened",
        "not opened",
    ];
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}");
    }
}
