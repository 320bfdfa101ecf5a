//! What can happen to a pair.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::model::{DEFINITIONS, Definition, Side};

/// An operation at one end. The latency of a packet comes last.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A segment with a payload of this length.
    Send(Side, usize, u64),
    /// A segment this far ahead; now and then the sequence number wraps.
    Jump(Side, u32, u64),
    /// A segment this far back, signed again.
    Retransmit(Side, u32, u64),
    /// A segment without AO option, arriving at once.
    Unsigned(Side, u8),
    Drop(Index),
    Duplicate(Index, u64),
    FlipBit(Index, Index),
    AddKey(Side, Definition),
    RemoveKey(Side, Definition, Option<Definition>),
    SetRnextKey(Side, Definition),
    SetCurrentKey(Side, Definition),
    ReplaceKeys(Side, Vec<Definition>),
    /// The connection goes on in another place, with its MKTs in another order.
    Move(Side),
    /// Both ends forget the connection, and the left one opens another.
    Reset((u32, u32)),
    /// Time goes by, and what is due arrives.
    Advance(u64),
}

fn side() -> impl Strategy<Value = Side> {
    select(vec![Side::Left, Side::Right])
}

fn definition() -> impl Strategy<Value = Definition> {
    select(DEFINITIONS.to_vec())
}

fn latency() -> impl Strategy<Value = u64> {
    prop_oneof![5 => 1..20u64, 1 => 1..2000u64]
}

/// Sets of MKTs without collisions.
fn definitions() -> impl Strategy<Value = Vec<Definition>> {
    let set = |numbers: &[usize]| numbers.iter().map(|number| DEFINITIONS[*number]).collect::<Vec<_>>();
    select(vec![set(&[0, 1]), set(&[1, 0, 3]), set(&[4, 2]), set(&[5, 1]), set(&[2]), set(&[3, 4, 2])])
}

/// Steps around the distance at which numbers ahead and behind are equally near, and around the half of it, which two steps make up.
fn edge() -> impl Strategy<Value = u32> {
    let near = |number: u32| [number - 1, number, number + 1];
    select([near(1 << 30), near(1 << 31)].concat())
}

/// ISNs near the wrap more often than not.
pub(crate) fn isns() -> impl Strategy<Value = (u32, u32)> {
    let isn = || prop_oneof![any::<u32>(), 0xffff_ff00..=u32::MAX, Just(u32::MAX), 0..10u32];
    (isn(), isn())
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let operation = prop_oneof![
        12 => (side(), 0..200usize, latency()).prop_map(|(from, length, latency)| Send(from, length, latency)),
        6 => (side(), prop_oneof![2 => 1..0x4000_0000u32, 1 => edge()], latency()).prop_map(|(from, by, latency)| Jump(from, by, latency)),
        4 => (side(), prop_oneof![0..3000u32, 0..=0x8000_0000u32, edge()], latency())
            .prop_map(|(from, back, latency)| Retransmit(from, back, latency)),
        1 => (side(), select(vec![0x10u8, 0x04, 0x14, 0x02, 0x12, 0x11]))
            .prop_map(|(to, flags)| Unsigned(to, flags)),
        1 => any::<Index>().prop_map(Drop),
        3 => (any::<Index>(), latency()).prop_map(|(which, latency)| Duplicate(which, latency)),
        3 => (any::<Index>(), any::<Index>()).prop_map(|(which, bit)| FlipBit(which, bit)),
        2 => (side(), definition()).prop_map(|(at, definition)| AddKey(at, definition)),
        2 => (side(), definition(), prop::option::of(definition()))
            .prop_map(|(at, definition, replacement)| RemoveKey(at, definition, replacement)),
        4 => (side(), definition()).prop_map(|(at, definition)| SetRnextKey(at, definition)),
        1 => (side(), definition()).prop_map(|(at, definition)| SetCurrentKey(at, definition)),
        1 => (side(), definitions()).prop_map(|(at, definitions)| ReplaceKeys(at, definitions)),
        2 => side().prop_map(Move),
        1 => isns().prop_map(Reset),
        12 => (1..50u64).prop_map(Advance),
    ];
    vec(operation, 1..120)
}
