//! RustCrypto's traits for messages that come in parts of any size.
//!
//! RustCrypto's buffer collects the octets of a block that several parts share, and its macro makes each type from a core, which
//! processes blocks as a [`MacKey`](crate::MacKey) does.

use core::fmt;

use digest::array::Array;
use digest::block_api::{BlockSizeUser, Buffer, BufferKindUser, Eager, FixedOutputCore, Lazy, UpdateCore};
use digest::common::KeySizeUser;
use digest::consts::{U16, U32, U64, U136};
use digest::{InvalidLength, Key, KeyInit, MacMarker, Output, OutputSizeUser, Reset};
use wireseal_kernels::cmac;
use wireseal_kernels::hmac::ShaInstructions;
use zeroize::{ZeroizeOnDrop, optimization_barrier};

#[cfg(feature = "aes-128-cmac")]
use crate::cmac::PortableCmacKey;
use crate::hmac::{BLOCK, ChainingValue, ChainingValues, portable_mac};
#[cfg(feature = "kmac256")]
use crate::kmac::Kmac256Key;
use crate::output::{Wiped, wiped_on_drop};

/// Defines a type that buffers the octets for its core.
macro_rules! mac {
    ($(#[$attribute:meta])* $name:ident($core:ty)) => {
        digest::buffer_fixed!(
            $(#[$attribute])*
            #[derive(Clone)]
            pub struct $name($core);
            impl: ResetMacTraits KeyInit;
        );

        // The macro implements this only for crates with a feature `zeroize`.
        const _: () = {
            wiped_on_drop::<$core>();
            wiped_on_drop::<Buffer<$core>>();
        };

        impl ZeroizeOnDrop for $name {}
    };
}

/// The sizes of a core: of a block, a key and a MAC. A buffer is lazy if the last block is processed differently.
macro_rules! sizes {
    ($core:ty $(, $value:ident)?: $buffer:ident, $block:ty, $key:ty, $output:ty) => {
        impl$(<$value: ChainingValue>)? BlockSizeUser for $core {
            type BlockSize = $block;
        }

        impl$(<$value: ChainingValue>)? BufferKindUser for $core {
            type BufferKind = $buffer;
        }

        impl$(<$value: ChainingValue>)? KeySizeUser for $core {
            type KeySize = $key;
        }

        impl$(<$value: ChainingValue>)? OutputSizeUser for $core {
            type OutputSize = $output;
        }

        impl$(<$value: ChainingValue>)? MacMarker for $core {}

        impl$(<$value: ChainingValue>)? ZeroizeOnDrop for $core {}

        impl$(<$value: ChainingValue>)? fmt::Debug for $core {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($core), " { .. }"))
            }
        }
    };
}

#[cfg(feature = "hmac-sha1")]
mac! {
    /// HMAC-SHA-1 (RFC 2104) of a message in parts, by RustCrypto's traits: takes the place of `hmac::Hmac<sha1::Sha1>` and its
    /// `HmacReset`. Keys have any length; MACs have 20 octets.
    HmacSha1(HmacCore<[u32; 5]>)
}

#[cfg(feature = "hmac-sha256")]
mac! {
    /// HMAC-SHA-256 (RFC 2104) of a message in parts, by RustCrypto's traits: takes the place of `hmac::Hmac<sha2::Sha256>` and its
    /// `HmacReset`. Keys have any length; MACs have 32 octets.
    HmacSha256(HmacCore<[u32; 8]>)
}

#[cfg(feature = "aes-128-cmac")]
mac! {
    /// AES-128-CMAC (RFC 4493) of a message in parts, by RustCrypto's traits: takes the place of `cmac::Cmac<aes::Aes128>`. Keys and MACs
    /// have 16 octets.
    Aes128Cmac(CmacCore)
}

#[cfg(feature = "kmac256")]
mac! {
    /// KMAC256 (SP 800-185 §4) of a message in parts, by RustCrypto's traits. Keys have any length, also none; MACs have 64 octets, as in
    /// NIST's samples. A shorter MAC is another one, not its first octets: [`MacKey::kmac256`](crate::MacKey::kmac256) has those of 16 and 32.
    Kmac256(KmacCore)
}

/// HMAC after whole blocks.
#[derive(Clone)]
pub struct HmacCore<C: ChainingValue> {
    sha: Option<ShaInstructions>,
    value: C,
    /// The octets in `value`, with those of the key block.
    octets: u64,
    /// The chaining values after the key blocks.
    inner: C,
    outer: C,
}

// Not `Zeroizing`, which copies and wipes word by word.
impl<C: ChainingValue> Drop for HmacCore<C> {
    #[inline]
    fn drop(&mut self) {
        (self.value, self.inner, self.outer) = (C::INITIAL, C::INITIAL, C::INITIAL);
        optimization_barrier(self);
    }
}

sizes!(HmacCore<C>, C: Eager, U64, U64, C::Octets);

impl<C: ChainingValue> KeyInit for HmacCore<C> {
    fn new(key: &Key<Self>) -> Self {
        Self::with_key(key)
    }

    fn new_from_slice(key: &[u8]) -> Result<Self, InvalidLength> {
        Ok(Self::with_key(key))
    }
}

impl<C: ChainingValue> HmacCore<C> {
    fn with_key(key: &[u8]) -> Self {
        let sha = ShaInstructions::detect();
        let mut values = ChainingValues::<C>::INITIAL;
        values.absorb_key(sha, key);
        let [inner, outer] = values.0;
        Self { sha, value: inner, octets: BLOCK as u64, inner, outer }
    }
}

impl<C: ChainingValue> UpdateCore for HmacCore<C> {
    #[inline]
    fn update_blocks(&mut self, blocks: &[Array<u8, U64>]) {
        let octets = Array::slice_as_flattened(blocks);
        self.octets += octets.len() as u64;
        let (blocks, _) = octets.as_chunks();
        match self.sha {
            Some(sha) => self.value.absorb(sha, blocks),
            None => self.value.compress(blocks),
        }
    }
}

impl<C: ChainingValue> FixedOutputCore for HmacCore<C> {
    #[inline]
    fn finalize_fixed_core(&mut self, buffer: &mut Buffer<Self>, out: &mut Output<Self>) {
        let keys = [&self.value, &self.outer];
        let mac = match self.sha {
            Some(sha) => C::hmac_rest(sha, keys, self.octets, buffer.get_data()),
            None => portable_mac(keys, self.octets, &[buffer.get_data()]),
        };
        out.copy_from_slice(mac.as_ref());
    }
}

impl<C: ChainingValue> Reset for HmacCore<C> {
    fn reset(&mut self) {
        self.value = self.inner;
        self.octets = BLOCK as u64;
    }
}

/// CMAC after whole blocks, but for the last one.
#[cfg(feature = "aes-128-cmac")]
#[derive(Clone)]
pub struct CmacCore {
    key: CmacKey,
    value: Wiped<16>,
}

#[cfg(feature = "aes-128-cmac")]
#[derive(Clone)]
enum CmacKey {
    Kernel(cmac::Key),
    Portable(PortableCmacKey),
}

#[cfg(feature = "aes-128-cmac")]
const _: () = {
    wiped_on_drop::<cmac::Key>();
    wiped_on_drop::<PortableCmacKey>();
    wiped_on_drop::<Wiped<16>>();
};

#[cfg(feature = "aes-128-cmac")]
sizes!(CmacCore: Lazy, U16, U16, U16);

#[cfg(feature = "aes-128-cmac")]
impl KeyInit for CmacCore {
    fn new(key: &Key<Self>) -> Self {
        let key = key.into();
        let key =
            cmac::Key::new(key).map_or_else(|| CmacKey::Portable(PortableCmacKey::new(key)), CmacKey::Kernel);
        Self { key, value: Wiped([0; 16]) }
    }
}

#[cfg(feature = "aes-128-cmac")]
impl UpdateCore for CmacCore {
    #[inline]
    fn update_blocks(&mut self, blocks: &[Array<u8, U16>]) {
        let (blocks, _) = Array::slice_as_flattened(blocks).as_chunks();
        match &self.key {
            CmacKey::Kernel(key) => key.absorb(&mut self.value.0, blocks),
            CmacKey::Portable(key) => key.absorb(&mut self.value.0, blocks),
        }
    }
}

#[cfg(feature = "aes-128-cmac")]
impl FixedOutputCore for CmacCore {
    #[inline]
    fn finalize_fixed_core(&mut self, buffer: &mut Buffer<Self>, out: &mut Output<Self>) {
        let out: &mut [u8; 16] = out.into();
        match &self.key {
            CmacKey::Kernel(key) => *out = key.finish(&self.value.0, buffer.get_data()),
            CmacKey::Portable(key) => key.finish(&self.value.0, buffer.get_data(), out),
        }
    }
}

#[cfg(feature = "aes-128-cmac")]
impl Reset for CmacCore {
    fn reset(&mut self) {
        self.value = Wiped([0; 16]);
    }
}

/// KMAC256 after whole blocks.
#[cfg(feature = "kmac256")]
#[derive(Clone)]
pub struct KmacCore {
    key: Kmac256Key,
    state: Kmac256Key,
}

#[cfg(feature = "kmac256")]
const _: () = wiped_on_drop::<Kmac256Key>();

// The key's length is KMAC256's security strength; `new_from_slice` takes any other, too.
#[cfg(feature = "kmac256")]
sizes!(KmacCore: Eager, U136, U32, U64);

#[cfg(feature = "kmac256")]
impl Kmac256 {
    /// A key of any length with a customization string (SP 800-185 §4.2).
    #[must_use]
    pub fn new_customized(key: &[u8], customization: &[u8]) -> Self {
        Self { core: KmacCore::with_key(key, customization), buffer: Buffer::<KmacCore>::default() }
    }
}

#[cfg(feature = "kmac256")]
impl KmacCore {
    fn with_key(key: &[u8], customization: &[u8]) -> Self {
        let key = Kmac256Key::new(key, customization);
        Self { state: key.clone(), key }
    }
}

#[cfg(feature = "kmac256")]
impl KeyInit for KmacCore {
    fn new(key: &Key<Self>) -> Self {
        Self::with_key(key, b"")
    }

    fn new_from_slice(key: &[u8]) -> Result<Self, InvalidLength> {
        Ok(Self::with_key(key, b""))
    }
}

#[cfg(feature = "kmac256")]
impl UpdateCore for KmacCore {
    #[inline]
    fn update_blocks(&mut self, blocks: &[Array<u8, U136>]) {
        self.state.absorb(Array::slice_as_flattened(blocks));
    }
}

#[cfg(feature = "kmac256")]
impl FixedOutputCore for KmacCore {
    #[inline]
    fn finalize_fixed_core(&mut self, buffer: &mut Buffer<Self>, out: &mut Output<Self>) {
        self.state.mac(&[buffer.get_data()], out);
    }
}

#[cfg(feature = "kmac256")]
impl Reset for KmacCore {
    fn reset(&mut self) {
        self.state = self.key.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test can hash messages of these lengths, so the two implementations are compared with the length given.
    #[cfg(all(feature = "hmac-sha1", feature = "hmac-sha256"))]
    #[test]
    fn lengths_of_more_than_32_bits() {
        fn check<C: ChainingValue>() {
            let Some(sha) = ShaInstructions::detect() else { return };
            for before in [1 << 29, 1 << 32, (1 << 40) + 64, (1 << 60) + 128] {
                let value = C::INITIAL;
                let keys = [&value; 2];
                let mac = C::hmac_rest(sha, keys, before, b"rest");
                assert_eq!(mac.as_ref(), portable_mac(keys, before, &[b"rest"]).as_ref());
                assert_ne!(mac.as_ref(), C::hmac_rest(sha, keys, before + 64, b"rest").as_ref());
            }
        }
        check::<[u32; 5]>();
        check::<[u32; 8]>();
    }
}
