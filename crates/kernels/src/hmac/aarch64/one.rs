//! One message.

use super::super::padding::{BLOCK, Buffer};
use super::super::{ShaInstructions, in_network_order};
use super::{Aarch64Hash, block, finish};

impl ShaInstructions {
    /// The HMAC of the slices of `message`; `keys` are the chaining values after the inner and the outer key block.
    #[inline]
    pub(crate) fn hmac<H: Aarch64Hash<WORDS>, const WORDS: usize, const OCTETS: usize>(
        self,
        keys: [&[u32; WORDS]; 2],
        message: &[&[u8]],
    ) -> [u8; OCTETS] {
        // SAFETY: the token proves the path.
        in_network_order(unsafe { hmac::<H, WORDS>(keys, message) })
    }
}

#[target_feature(enable = "neon,sha2")]
fn hmac<H: Aarch64Hash<WORDS>, const WORDS: usize>(
    [inner, outer]: [&[u32; WORDS]; 2],
    message: &[&[u8]],
) -> [u32; WORDS] {
    // SAFETY: this function is compiled for all that the hash needs.
    let mut state = unsafe { [H::state(inner)] };
    let mut take = |octets: &[u8; BLOCK]| {
        // SAFETY: as above.
        unsafe { H::compress(&mut state, [block(octets)]) }
    };
    let mut buffer = Buffer::new();
    let mut length = BLOCK;
    // The octets behind the last whole block: the end of the last slice, or the buffer if they span slices.
    let mut rest: &[u8] = &[];
    for slice in message {
        let mut slice = *slice;
        if slice.is_empty() {
            continue;
        }
        length += slice.len();
        if !rest.is_empty() {
            leak!("HMAC: block in two slices", *inner);
            buffer.take(rest);
            rest = &[];
        }
        if buffer.length > 0 {
            slice = buffer.take(slice);
            if buffer.length < BLOCK {
                continue;
            }
            take(&buffer.octets);
            buffer.length = 0;
        }
        let (blocks, left) = slice.as_chunks();
        blocks.iter().for_each(&mut take);
        rest = left;
    }
    if buffer.length > 0 {
        rest = &buffer.octets[..buffer.length];
    }
    let [mac] = finish::<H, WORDS, 1>(state, [(rest, length)], [outer]);
    mac
}
