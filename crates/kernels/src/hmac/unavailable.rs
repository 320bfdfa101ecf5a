//! Processors without a path for HMAC: a token that cannot exist, and batches that are left to the caller.

use super::{Hash, Job, ShaInstructions};

impl ShaInstructions {
    pub(crate) fn hmac<H: Hash<WORDS>, const WORDS: usize>(
        self,
        _: [&[u32; WORDS]; 2],
        _: &[&[u8]],
    ) -> H::Mac {
        match self.0 {}
    }
}

pub(crate) fn hmac_many<'a, H: Hash<WORDS>, const WORDS: usize>(
    _: impl Iterator<Item = Job<'a, WORDS>>,
    _: impl FnMut(usize, [u32; WORDS]),
) -> usize {
    0
}
