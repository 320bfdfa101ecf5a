//! The kernels on every path of the machine.

use wireseal_kernels::cpu::{Path, switch};

/// Runs `check` with no path at all, and with each that this processor has, without those that are more than it.
pub fn each_alone(mut check: impl FnMut(Option<Path>)) {
    switch::all();
    let available = Path::ALL.into_iter().filter(|path| path.is_available());
    for path in available.map(Some).chain([None]) {
        path.map_or_else(|| switch::only(&[]), switch::up_to);
        check(path);
    }
    switch::all();
}

/// `octets` cut in pieces, each as long as the next octet of `lengths` says; the last piece is what is left.
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
