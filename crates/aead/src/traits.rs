//! The traits of RustCrypto's crate `aead`.

use aead::array::Array;
use aead::consts::{U12, U16, U32};
use aead::inout::InOutBuf;
use aead::{AeadCore, AeadInOut, Key, KeyInit, KeySizeUser, TagPosition};
use wireseal_algorithms::AeadAlgorithm;
use zeroize::ZeroizeOnDrop;

use crate::key::AeadKey;

/// A nonce of 12 octets.
pub type Nonce<Length = U12> = Array<u8, Length>;

/// A tag of 16 octets.
pub type Tag<Length = U16> = Array<u8, Length>;

macro_rules! aeads {
    ($($(#[$doc:meta])* $name:ident, $key_length:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// Seals and opens the same messages as RustCrypto's type. If a message is not authentic, the text becomes zeros, where RustCrypto
        /// may leave the ciphertext. To try another key in place, keep a copy.
        #[derive(Clone, Debug)]
        pub struct $name(AeadKey);

        impl KeySizeUser for $name {
            type KeySize = $key_length;
        }

        impl KeyInit for $name {
            fn new(key: &Key<Self>) -> Self {
                Self(AeadKey::new(AeadAlgorithm::$name, key).expect("the type has the key's length"))
            }
        }

        impl AeadCore for $name {
            type NonceSize = U12;
            type TagSize = U16;
            const TAG_POSITION: TagPosition = TagPosition::Postfix;
        }

        impl AeadInOut for $name {
            fn encrypt_inout_detached(
                &self,
                nonce: &Nonce,
                associated_data: &[u8],
                buffer: InOutBuf<'_, '_, u8>,
            ) -> aead::Result<Tag> {
                // Before the copy, or an output would hold the text in the clear where this fails.
                self.0.check_length(buffer.len()).map_err(|_| aead::Error)?;
                let text = buffer.into_out_with_copied_in();
                self.0.seal_detached(&nonce.0, associated_data, text).map(Array).map_err(|_| aead::Error)
            }

            fn decrypt_inout_detached(
                &self,
                nonce: &Nonce,
                associated_data: &[u8],
                buffer: InOutBuf<'_, '_, u8>,
                tag: &Tag,
            ) -> aead::Result<()> {
                self.0.check_length(buffer.len()).map_err(|_| aead::Error)?;
                let text = buffer.into_out_with_copied_in();
                self.0.open_detached(&nonce.0, associated_data, text, &tag.0).map_err(|_| aead::Error)
            }
        }

        impl ZeroizeOnDrop for $name {}
    )*};
}

aeads! {
    /// AES-GCM with keys of 16 octets (SP 800-38D).
    Aes128Gcm, U16;
    /// AES-GCM with keys of 32 octets (SP 800-38D).
    Aes256Gcm, U32;
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305, U32;
    /// AES-CCM with keys and tags of 16 octets (RFC 3610, SP 800-38C): RustCrypto's `Ccm<Aes128, U16, U12>`.
    Aes128Ccm, U16;
}
