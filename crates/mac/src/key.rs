//! The key type that every MAC algorithm shares.

use core::fmt;

use wireseal_algorithms::MacAlgorithm;
use wireseal_kernels::cmac;
use zeroize::ZeroizeOnDrop;

use crate::cmac::PortableCmacKey;
use crate::hmac::HmacKey;
use crate::kmac::Kmac256Key;
use crate::output::{Mac, MacMismatch, compare};
use crate::wiped::Wiped;

/// How many octets a KMAC256 key gives; the length is part of what KMAC authenticates (SP 800-185, section 4.3), so a
/// MAC of 16 octets is not the first half of one of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputLength {
    /// 16 octets, 128 bits.
    Octets16,
    /// 32 octets, 256 bits.
    Octets32,
}

/// A key, prepared once, that computes and verifies the MACs of any number of messages.
///
/// What depends on the key alone is computed here, not per message: HMAC's two chaining values, the AES round keys and
/// the CMAC subkey, the Keccak state behind the key. It is wiped on drop, is not `Clone`, and shows its algorithm only
/// in `Debug`.
pub struct MacKey(pub(crate) State);

pub(crate) enum State {
    HmacSha1(HmacKey<[u32; 5]>),
    HmacSha256(HmacKey<[u32; 8]>),
    Aes128Cmac(cmac::Key),
    PortableAes128Cmac(PortableCmacKey),
    Kmac256(Kmac256Key, OutputLength),
}

// Four of these, with all else a TCP-AO connection keeps, have to fit in 1 KiB.
const _: () = assert!(size_of::<MacKey>() <= 208);

// The wipe of a `MacKey` is that of its parts; were the cipher built without its own, this would not compile.
const _: () = {
    const fn wiped_on_drop<T: ZeroizeOnDrop>() {}
    wiped_on_drop::<HmacKey<[u32; 5]>>();
    wiped_on_drop::<HmacKey<[u32; 8]>>();
    wiped_on_drop::<cmac::Key>();
    wiped_on_drop::<PortableCmacKey>();
    wiped_on_drop::<aes::Aes128Enc>();
    wiped_on_drop::<Wiped<16>>();
    wiped_on_drop::<Kmac256Key>();
};

impl ZeroizeOnDrop for MacKey {}

impl MacKey {
    /// A key for HMAC-SHA-1 (RFC 2104), of any length, for MACs of 20 octets; a key over 64 octets is hashed first.
    #[must_use]
    pub fn hmac_sha1(key: &[u8]) -> Self {
        Self(State::HmacSha1(HmacKey::new(key)))
    }

    /// A key for HMAC-SHA-256 (RFC 2104), of any length, for MACs of 32 octets; a key over 64 octets is hashed first.
    #[must_use]
    pub fn hmac_sha256(key: &[u8]) -> Self {
        Self(State::HmacSha256(HmacKey::new(key)))
    }

    /// A key for AES-128-CMAC (RFC 4493), for MACs of 16 octets.
    #[must_use]
    pub fn aes_128_cmac(key: &[u8; 16]) -> Self {
        Self(match cmac::Key::new(key) {
            Some(key) => State::Aes128Cmac(key),
            None => State::PortableAes128Cmac(PortableCmacKey::new(key)),
        })
    }

    /// A key for KMAC256 (SP 800-185, section 4), of any length, with its customization string and output length.
    #[must_use]
    pub fn kmac256(key: &[u8], customization: &[u8], output_length: OutputLength) -> Self {
        Self(State::Kmac256(Kmac256Key::new(key, customization), output_length))
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> MacAlgorithm {
        match &self.0 {
            State::HmacSha1(_) => MacAlgorithm::HmacSha1,
            State::HmacSha256(_) => MacAlgorithm::HmacSha256,
            State::Aes128Cmac(_) | State::PortableAes128Cmac(_) => MacAlgorithm::Aes128Cmac,
            State::Kmac256(..) => MacAlgorithm::Kmac256,
        }
    }

    /// The MAC over the slices of `message` in order, as over their concatenation.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> Mac {
        match &self.0 {
            State::HmacSha1(key) => Mac::compute::<20>(|output| *output = key.mac(message)),
            State::HmacSha256(key) => Mac::compute::<32>(|output| *output = key.mac(message)),
            State::Aes128Cmac(key) => Mac::compute::<16>(|output| *output = key.mac(message)),
            State::PortableAes128Cmac(key) => Mac::compute::<16>(|output| key.mac(message, output)),
            State::Kmac256(key, OutputLength::Octets16) => {
                Mac::compute::<16>(|output| key.mac(message, output))
            }
            State::Kmac256(key, OutputLength::Octets32) => {
                Mac::compute::<32>(|output| key.mac(message, output))
            }
        }
    }

    /// Verifies in constant time that `mac` is the MAC of the slices of `message` in order, or its leading octets.
    ///
    /// How short a truncated MAC may be is for the caller to say before; a single octet verifies here.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] when an octet differs, and when `mac` is empty or longer than the algorithm's output.
    #[inline]
    pub fn verify(&self, message: &[&[u8]], mac: &[u8]) -> Result<(), MacMismatch> {
        compare(self.mac(message).as_bytes(), mac)
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MacKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}
