//! Runs kernels on every path that the machine has.

use wireseal_kernels::cpu::{InstructionSet, switch};

/// Runs `check` with each path that this processor has, those that build on it turned off, and with no path at all.
pub fn each_alone(mut check: impl FnMut(Option<InstructionSet>)) {
    switch::all();
    let available = InstructionSet::ALL.into_iter().filter(|path| path.is_available());
    for path in available.map(Some).chain([None]) {
        path.map_or_else(|| switch::only(&[]), switch::up_to);
        check(path);
    }
    switch::all();
}

/// Cuts `octets` into pieces of the given lengths, and a last one of what is left.
pub fn pieces<'a>(mut octets: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        let piece;
        (piece, octets) = octets.split_at(octets.len().min(usize::from(*length)));
        pieces.push(piece);
    }
    pieces.push(octets);
    pieces
}
