//! What can happen to a pair.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::Side;

/// An operation at one end. The latency of a packet comes last.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Packets with payloads of these lengths, each with its own latency.
    Send(Side, Vec<(usize, u64)>),
    Skip(Side, u64),
    Drop(Index),
    Duplicate(Index, u64),
    FlipBit(Index, Index),
    FlipPhase(Index),
    Update(Side),
    UpdateBoth,
    ConfirmHandshake(Side),
    Expire(Side),
    /// Time passes, and what is due arrives.
    Advance(u64),
}

fn side() -> impl Strategy<Value = Side> {
    select(Side::BOTH.to_vec())
}

/// Mostly short; now and then longer than old keys live.
fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..30_u64, 2 => 1..120_u64, 1 => 1..2000_u64]
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let operation = prop_oneof![
        18 => (side(), 0..100_usize, latency())
            .prop_map(|(from, length, latency)| Send(from, vec![(length, latency)])),
        4 => (side(), vec((0..100_usize, latency()), 0..24)).prop_map(|(from, packets)| Send(from, packets)),
        1 => (side(), prop_oneof![1..10_u64, 1..3000_u64]).prop_map(|(from, count)| Skip(from, count)),
        1 => any::<Index>().prop_map(Drop),
        3 => (any::<Index>(), latency()).prop_map(|(which, latency)| Duplicate(which, latency)),
        2 => (any::<Index>(), any::<Index>()).prop_map(|(which, bit)| FlipBit(which, bit)),
        2 => any::<Index>().prop_map(FlipPhase),
        5 => side().prop_map(Update),
        2 => Just(UpdateBoth),
        1 => side().prop_map(ConfirmHandshake),
        1 => side().prop_map(Expire),
        12 => (1..60_u64).prop_map(Advance),
    ];
    vec(operation, 1..150)
}
