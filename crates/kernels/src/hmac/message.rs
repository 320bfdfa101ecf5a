//! Shared by all paths: a message block by block, and constants.

use zeroize::optimization_barrier;

/// The block length of SHA-1 and SHA-256 in octets (FIPS 180-4 §1).
pub(crate) const BLOCK: usize = 64;

/// The round constants of SHA-256 (FIPS 180-4 §4.2.2).
pub(crate) static K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// The end of a message, after its whole blocks. Octets copied from several slices are wiped on drop.
pub(super) struct Rest<'a> {
    /// The octets read so far of a block that spans slices.
    buffer: [u8; BLOCK],
    filled: usize,
    /// The last slice, unless its octets are part of a block that spans slices.
    slice: &'a [u8],
    /// The octets of the whole message.
    pub(super) length: usize,
}

impl<'a> Rest<'a> {
    #[inline]
    pub(super) fn new() -> Self {
        Self { buffer: [0; BLOCK], filled: 0, slice: &[], length: 0 }
    }

    /// Passes all whole blocks of a message to `take`. Inlined, so that `take` is compiled for the caller's target features.
    #[inline(always)]
    pub(super) fn behind_blocks(&mut self, message: &[&'a [u8]], mut take: impl FnMut(&[[u8; BLOCK]])) {
        for slice in message {
            let mut slice = *slice;
            if slice.is_empty() {
                continue;
            }
            self.length += slice.len();
            let (_, left) = self.slice.as_chunks::<BLOCK>();
            if !left.is_empty() {
                leak!("HMAC: block in two slices", left[0]);
                self.fill(left);
            }
            self.slice = &[];
            if self.filled > 0 {
                slice = self.fill(slice);
                if self.filled < BLOCK {
                    continue;
                }
                take(core::slice::from_ref(&self.buffer));
                self.filled = 0;
            }
            take(slice.as_chunks().0);
            self.slice = slice;
        }
    }

    /// A slice that ends the message. Only the octets after its whole blocks are still to be processed.
    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        // `filled` is never larger, but the compiler does not know that.
        if self.filled > 0 { self.buffer.get(..self.filled).unwrap_or(&self.buffer) } else { self.slice }
    }

    /// Copies as many octets of a slice as there is room for, and returns the others.
    fn fill<'b>(&mut self, slice: &'b [u8]) -> &'b [u8] {
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let (taken, others) = slice.split_at(slice.len().min(room.len()));
        room[..taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        others
    }
}

impl Drop for Rest<'_> {
    #[inline]
    fn drop(&mut self) {
        self.buffer = [0; BLOCK];
        optimization_barrier(&self.buffer);
    }
}
