//! Reads the slices of a message in whole blocks.

use crate::wiped::Wiped;

/// The end of a message behind its whole blocks: fewer octets than a block, then zeros.
pub(crate) struct Remainder<const N: usize> {
    pub(crate) block: Wiped<N>,
    pub(crate) length: usize,
}

/// Hands `process` the whole blocks of `message` in order, in runs as long as the slices allow, and returns the rest.
#[inline]
pub(crate) fn whole_blocks<const N: usize>(
    message: &[&[u8]],
    mut process: impl FnMut(&[[u8; N]]),
) -> Remainder<N> {
    let mut block = Wiped([0; N]);
    let mut length = 0;
    for mut slice in message.iter().copied() {
        if length != 0 {
            let (head, rest) = slice.split_at(slice.len().min(N - length));
            block.0[length..length + head.len()].copy_from_slice(head);
            length += head.len();
            slice = rest;
            if length < N {
                continue;
            }
            process(core::slice::from_ref(&block.0));
        }
        let (blocks, rest) = slice.as_chunks();
        if !blocks.is_empty() {
            process(blocks);
        }
        block.0[..rest.len()].copy_from_slice(rest);
        length = rest.len();
    }
    block.0[length..].fill(0);
    Remainder { block, length }
}
