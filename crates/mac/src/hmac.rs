//! HMAC (RFC 2104) from two chaining values.

use wireseal_kernels::hmac::ShaInstructions;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing, optimization_barrier};

use crate::output::Wiped;

/// The block length of SHA-1 and SHA-256 in octets (FIPS 180-4 §1).
pub(crate) const BLOCK: usize = 64;

/// The chaining values after the inner and the outer key block; wiped on drop.
pub(crate) struct ChainingValues<C: ChainingValue>(pub(crate) [C; 2]);

// Not `Zeroizing`, which wipes word by word.
impl<C: ChainingValue> Drop for ChainingValues<C> {
    #[inline]
    fn drop(&mut self) {
        self.0 = [C::INITIAL; 2];
        optimization_barrier(&self.0);
    }
}

impl<C: ChainingValue> ZeroizeOnDrop for ChainingValues<C> {}

impl<C: ChainingValue> ChainingValues<C> {
    /// Those before a key.
    pub(crate) const INITIAL: Self = Self([C::INITIAL; 2]);

    /// Processes the key blocks of a key of any length, with these instructions if there are any. In place: a copy of what was just written
    /// would cost more than a block.
    pub(crate) fn absorb_key(&mut self, sha: Option<ShaInstructions>, key: &[u8]) {
        if key.len() > BLOCK {
            return self.absorb_long_key(sha, key);
        }
        if let Some(sha) = sha {
            return C::absorb_key(sha, &mut self.0, key);
        }
        for (value, pad) in self.0.iter_mut().zip([0x36, 0x5c]) {
            let mut block = Wiped([pad; BLOCK]);
            block.0.iter_mut().zip(key).for_each(|(octet, key)| *octet ^= key);
            value.compress(core::slice::from_ref(&block.0));
        }
    }

    /// A key that is longer than a block is hashed first. A separate function, so that shorter keys need less stack.
    #[cold]
    #[inline(never)]
    fn absorb_long_key(&mut self, sha: Option<ShaInstructions>, key: &[u8]) {
        let mut hashed = Zeroizing::new(C::INITIAL);
        hashed.finish(0, &[key]);
        let mut short = Wiped([0; BLOCK]);
        hashed.write(&mut short.0);
        self.absorb_key(sha, &short.0);
    }

    /// The MAC of the slices of `message`, with these instructions if there are any.
    #[inline]
    pub(crate) fn mac(&self, sha: Option<ShaInstructions>, message: &[&[u8]]) -> C::Output {
        match sha {
            Some(sha) => C::hmac(sha, self.0.each_ref(), message),
            None => portable_mac(self.0.each_ref(), BLOCK as u64, message),
        }
    }
}

/// The chaining values, so that the key costs no compression per message.
// Aligned, so that SHA-256's two values fill one cache line and no load crosses two.
#[derive(ZeroizeOnDrop)]
#[repr(C, align(16))]
pub(crate) struct HmacKey<C: ChainingValue> {
    values: ChainingValues<C>,
    // Zeros up to the size of the other algorithms' keys. Without them a move would copy whatever was on the stack, possibly octets of this
    // very key, and nothing would wipe it.
    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    #[zeroize(skip)]
    _spare: C::Spare,
}

impl<C: ChainingValue> HmacKey<C> {
    pub(crate) fn new(sha: Option<ShaInstructions>, key: &[u8]) -> Self {
        let mut values = ChainingValues::INITIAL;
        values.absorb_key(sha, key);
        Self {
            // A copy: a move would leave `values` behind, unwiped.
            values: ChainingValues(values.0),
            #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
            _spare: C::SPARE,
        }
    }

    /// The MAC of the slices of `message`, with these instructions if there are any.
    #[inline]
    pub(crate) fn mac(&self, sha: Option<ShaInstructions>, message: &[&[u8]]) -> C::Output {
        self.values.mac(sha, message)
    }

    /// The inner and the outer chaining value.
    pub(crate) fn chaining_values(&self) -> [&C; 2] {
        self.values.0.each_ref()
    }
}

/// The MAC by RustCrypto's compression function, of a message after `before` octets in the inner chaining value.
// Not inlined, for the reason at `Kmac256Key::mac`.
#[inline(never)]
pub(crate) fn portable_mac<C: ChainingValue>(
    [inner, outer]: [&C; 2],
    before: u64,
    message: &[&[u8]],
) -> C::Output {
    let mut chaining_value = Zeroizing::new(*inner);
    chaining_value.finish(before, message);
    let mut block = Wiped([0; BLOCK]);
    chaining_value.write(&mut block.0);
    block.0[C::OUTPUT_LENGTH] = 0x80;
    write_length(&mut block.0, (BLOCK + C::OUTPUT_LENGTH) as u64);
    *chaining_value = *outer;
    chaining_value.compress(core::slice::from_ref(&block.0));
    let mut output = C::Output::default();
    chaining_value.write(output.as_mut());
    output
}

/// The state that SHA-1 or SHA-256 carries from block to block.
pub trait ChainingValue: Copy + Zeroize + AsRef<[u32]> {
    /// The value before the first block.
    const INITIAL: Self;

    /// The type of a hash value.
    type Output: Default + AsRef<[u8]> + AsMut<[u8]>;

    /// The length of a hash value in octets, as RustCrypto's traits write it.
    #[cfg(feature = "digest")]
    type Octets: digest::array::ArraySize;

    /// Padding up to the size of the largest algorithm's key.
    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    type Spare;
    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    const SPARE: Self::Spare;

    /// The length of a hash value in octets.
    const OUTPUT_LENGTH: usize = size_of::<Self>();

    /// HMAC by the processor's SHA instructions, from the inner and the outer chaining value.
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> Self::Output;

    /// Processes the key blocks of a key of at most 64 octets with the processor's SHA instructions.
    fn absorb_key(sha: ShaInstructions, values: &mut [Self; 2], key: &[u8]);

    /// Processes whole blocks with the processor's SHA instructions.
    #[cfg(feature = "digest")]
    fn absorb(&mut self, sha: ShaInstructions, blocks: &[[u8; BLOCK]]);

    /// HMAC by these instructions of a message of which all but `rest` has been absorbed: `before` octets, with those of the key block.
    #[cfg(feature = "digest")]
    fn hmac_rest(sha: ShaInstructions, keys: [&Self; 2], before: u64, rest: &[u8]) -> Self::Output;

    /// Processes whole blocks.
    fn compress(&mut self, blocks: &[[u8; BLOCK]]);

    /// Processes the rest of a message and its padding (FIPS 180-4 §5.1.1), after `before` octets.
    #[inline]
    fn finish(&mut self, before: u64, message: &[&[u8]]) {
        let mut last = whole_blocks(message, |blocks| self.compress(blocks));
        last.block.0[last.length] = 0x80;
        if last.length >= BLOCK - 8 {
            self.compress(core::slice::from_ref(&last.block.0));
            last.block.0 = [0; BLOCK];
        }
        write_length(&mut last.block.0, before + message.iter().map(|slice| slice.len() as u64).sum::<u64>());
        self.compress(core::slice::from_ref(&last.block.0));
    }

    /// Writes the hash value to the start of `output`.
    #[inline]
    fn write(&self, output: &mut [u8]) {
        for (octets, word) in output.chunks_exact_mut(4).zip(self.as_ref()) {
            octets.copy_from_slice(&word.to_be_bytes());
        }
    }
}

/// Writes the length of the message, in bits, to the end of the last block.
#[inline]
fn write_length(block: &mut [u8; BLOCK], octets: u64) {
    block[BLOCK - 8..].copy_from_slice(&(octets * 8).to_be_bytes());
}

/// The end of a message, after its whole blocks: fewer octets than a block, then zeros.
struct Remainder {
    block: Wiped<BLOCK>,
    length: usize,
}

/// Passes the whole blocks of `message` to `process` in order, in runs as long as the slices allow, and returns the rest.
#[inline]
fn whole_blocks(message: &[&[u8]], mut process: impl FnMut(&[[u8; BLOCK]])) -> Remainder {
    let mut block = Wiped([0; BLOCK]);
    let mut length = 0;
    for mut slice in message.iter().copied() {
        if length != 0 {
            let (head, rest) = slice.split_at(slice.len().min(BLOCK - length));
            block.0[length..length + head.len()].copy_from_slice(head);
            length += head.len();
            slice = rest;
            if length < BLOCK {
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

/// SHA-1, with the initial value of FIPS 180-4 §5.3.1.
#[cfg(feature = "hmac-sha1")]
impl ChainingValue for [u32; 5] {
    const INITIAL: Self = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

    type Output = [u8; 20];

    #[cfg(feature = "digest")]
    type Octets = digest::consts::U20;

    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    type Spare = [u8; 152];
    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    const SPARE: Self::Spare = [0; 152];

    #[inline]
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> [u8; 20] {
        wireseal_kernels::sha1::hmac(sha, keys, message)
    }

    #[inline]
    fn absorb_key(sha: ShaInstructions, values: &mut [Self; 2], key: &[u8]) {
        wireseal_kernels::sha1::absorb_key(sha, values, key);
    }

    #[cfg(feature = "digest")]
    #[inline]
    fn absorb(&mut self, sha: ShaInstructions, blocks: &[[u8; BLOCK]]) {
        wireseal_kernels::sha1::absorb(sha, self, blocks);
    }

    #[cfg(feature = "digest")]
    #[inline]
    fn hmac_rest(sha: ShaInstructions, keys: [&Self; 2], before: u64, rest: &[u8]) -> [u8; 20] {
        wireseal_kernels::sha1::finish(sha, keys, before, rest)
    }

    #[inline]
    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        sha1::block_api::compress(self, blocks);
    }
}

/// SHA-256, with the initial value of FIPS 180-4 §5.3.3.
#[cfg(feature = "hmac-sha256")]
impl ChainingValue for [u32; 8] {
    const INITIAL: Self =
        [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

    type Output = [u8; 32];

    #[cfg(feature = "digest")]
    type Octets = digest::consts::U32;

    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    type Spare = [u8; 128];
    #[cfg(any(feature = "aes-128-cmac", feature = "kmac256"))]
    const SPARE: Self::Spare = [0; 128];

    #[inline]
    fn hmac(sha: ShaInstructions, keys: [&Self; 2], message: &[&[u8]]) -> [u8; 32] {
        wireseal_kernels::sha256::hmac(sha, keys, message)
    }

    #[inline]
    fn absorb_key(sha: ShaInstructions, values: &mut [Self; 2], key: &[u8]) {
        wireseal_kernels::sha256::absorb_key(sha, values, key);
    }

    #[cfg(feature = "digest")]
    #[inline]
    fn absorb(&mut self, sha: ShaInstructions, blocks: &[[u8; BLOCK]]) {
        wireseal_kernels::sha256::absorb(sha, self, blocks);
    }

    #[cfg(feature = "digest")]
    #[inline]
    fn hmac_rest(sha: ShaInstructions, keys: [&Self; 2], before: u64, rest: &[u8]) -> [u8; 32] {
        wireseal_kernels::sha256::finish(sha, keys, before, rest)
    }

    #[inline]
    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        sha2::block_api::compress256(self, blocks);
    }
}
