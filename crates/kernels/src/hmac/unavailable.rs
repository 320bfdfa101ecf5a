//! Processors without a path for HMAC: a token that cannot exist, and batches that are left to the caller.

use super::{Job, ShaInstructions};

impl ShaInstructions {
    pub(crate) fn hmac<H, const WORDS: usize, const OCTETS: usize>(
        self,
        _: [&[u32; WORDS]; 2],
        _: &[&[u8]],
    ) -> [u8; OCTETS] {
        match self.0 {}
    }
}

pub(crate) fn hmac_many<'a, H, const WORDS: usize, const OCTETS: usize>(
    _: impl Iterator<Item = Job<'a, WORDS>>,
    _: impl FnMut(usize, &[u8; OCTETS]),
) -> usize {
    0
}
