//! Runs kernels on every path of this processor.

use wireseal_kernels::cpu::{InstructionSet, switch};

/// Runs `check` with no path at all, and with each path that this processor has, with those that build on it turned off.
pub fn each_alone(mut check: impl FnMut(Option<InstructionSet>)) {
    switch::all();
    let available = InstructionSet::ALL.into_iter().filter(|path| path.is_available());
    for path in available.map(Some).chain([None]) {
        path.map_or_else(|| switch::only(&[]), switch::up_to);
        check(path);
    }
    switch::all();
}

/// Cuts `octets` into pieces of the given lengths, and a last piece with the rest.
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

/// Messages of a batch.
#[derive(Debug)]
pub struct Messages<'a> {
    /// Unsliced; some repeat, so that there are more messages than lanes.
    pub whole: Vec<&'a [u8]>,
    /// In slices of any length.
    pub sliced: Vec<Vec<&'a [u8]>>,
    /// With whole blocks in the first slice: only such messages are computed side by side.
    pub in_two: Vec<Vec<&'a [u8]>>,
}

impl<'a> Messages<'a> {
    /// `count` messages for a MAC with blocks of `block` octets.
    pub fn cut(octets: &'a [u8], cuts: &[u8; 8], count: usize, block: u8) -> Self {
        let whole: Vec<&[u8]> = pieces(octets, cuts).into_iter().cycle().take(count).collect();
        let cut = |cuts: &[u8]| whole.iter().map(|message| pieces(message, cuts)).collect();
        let (sliced, in_two) = (cut(&cuts[..2]), cut(&[cuts[0] / block * block]));
        Self { whole, sliced, in_two }
    }

    /// A key for each message.
    pub fn keys<const N: usize>(&self, key: &[u8; N]) -> Vec<[u8; N]> {
        (0..self.whole.len()).map(|number| key.map(|octet| octet ^ number as u8)).collect()
    }
}
