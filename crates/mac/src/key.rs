//! The key type of all MAC algorithms.

use core::fmt;

use wireseal_algorithms::MacAlgorithm;
use wireseal_kernels::cmac;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::hmac::ShaInstructions;
use zeroize::ZeroizeOnDrop;

use crate::cmac::PortableCmacKey;
use crate::hmac::HmacKey;
use crate::kmac::Kmac256Key;
use crate::output::{Mac, MacMismatch, compare};
use crate::wiped::Wiped;

/// The length of a KMAC256 output.
///
/// KMAC authenticates the length as well (SP 800-185 §4.3), so a MAC of 16 octets is not the first half of one of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputLength {
    /// 16 octets, 128 bits.
    Octets16,
    /// 32 octets, 256 bits.
    Octets32,
}

/// A key that computes and verifies the MACs of any number of messages.
///
/// What depends on the key alone is computed once: HMAC's two chaining values, the AES round keys and the CMAC subkey, or the
/// Keccak state after the key. A key takes at most 208 octets, is wiped on drop, and is not `Clone`; `Debug` shows its algorithm.
pub struct MacKey(pub(crate) State);

// The variant comes first, beside what every key has first: a key takes no more cache lines than its algorithm needs.
#[repr(u8)]
pub(crate) enum State {
    // The instructions are detected when the key is made.
    HmacSha1(Option<ShaInstructions>, HmacKey<[u32; 5]>),
    HmacSha256(Option<ShaInstructions>, HmacKey<[u32; 8]>),
    Aes128Cmac(cmac::Key),
    PortableAes128Cmac(PortableCmacKey),
    Kmac256(OutputLength, Kmac256Key),
}

// Two of these and the rest of a TCP-AO connection have to fit in 704 octets.
const _: () = assert!(size_of::<MacKey>() <= 208);

// Its parts wipe a `MacKey`. If the cipher were built without that, this would not compile.
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
    /// A key of any length for HMAC-SHA-1 (RFC 2104). Its MACs have 20 octets; a key longer than 64 octets is hashed first.
    #[must_use]
    pub fn hmac_sha1(key: &[u8]) -> Self {
        Self(State::HmacSha1(ShaInstructions::detect(), HmacKey::new(key)))
    }

    /// A key of any length for HMAC-SHA-256 (RFC 2104). Its MACs have 32 octets; a key longer than 64 octets is hashed first.
    #[must_use]
    pub fn hmac_sha256(key: &[u8]) -> Self {
        Self(State::HmacSha256(ShaInstructions::detect(), HmacKey::new(key)))
    }

    /// A key for AES-128-CMAC (RFC 4493). Its MACs have 16 octets.
    #[must_use]
    pub fn aes_128_cmac(key: &[u8; 16]) -> Self {
        Self(match cmac::Key::new(key) {
            Some(key) => State::Aes128Cmac(key),
            None => State::PortableAes128Cmac(PortableCmacKey::new(key)),
        })
    }

    /// A key of any length for KMAC256 (SP 800-185 §4), with its customization string and output length.
    #[must_use]
    pub fn kmac256(key: &[u8], customization: &[u8], output_length: OutputLength) -> Self {
        Self(State::Kmac256(output_length, Kmac256Key::new(key, customization)))
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> MacAlgorithm {
        match &self.0 {
            State::HmacSha1(..) => MacAlgorithm::HmacSha1,
            State::HmacSha256(..) => MacAlgorithm::HmacSha256,
            State::Aes128Cmac(_) | State::PortableAes128Cmac(_) => MacAlgorithm::Aes128Cmac,
            State::Kmac256(..) => MacAlgorithm::Kmac256,
        }
    }

    /// What computes the MAC of a message, for logs and measurements: the processor's instructions, or "RustCrypto". Decided when the key is
    /// made. Batches use wider instructions where the processor has them.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        let path = match &self.0 {
            State::HmacSha1(sha, _) | State::HmacSha256(sha, _) => sha.map(ShaInstructions::path),
            State::Aes128Cmac(key) => Some(key.path()),
            State::PortableAes128Cmac(_) | State::Kmac256(..) => None,
        };
        path.map_or("RustCrypto", InstructionSet::name)
    }

    /// The MAC of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> Mac {
        match &self.0 {
            State::HmacSha1(sha, key) => Mac::compute::<20>(|output| *output = key.mac(*sha, message)),
            State::HmacSha256(sha, key) => Mac::compute::<32>(|output| *output = key.mac(*sha, message)),
            State::Aes128Cmac(key) => Mac::compute::<16>(|output| *output = key.mac(message)),
            State::PortableAes128Cmac(key) => Mac::compute::<16>(|output| key.mac(message, output)),
            State::Kmac256(OutputLength::Octets16, key) => {
                Mac::compute::<16>(|output| key.mac(message, output))
            }
            State::Kmac256(OutputLength::Octets32, key) => {
                Mac::compute::<32>(|output| key.mac(message, output))
            }
        }
    }

    /// Verifies in constant time that `mac` is the MAC of the slices of `message`, or its leading octets.
    ///
    /// Check the length of a truncated MAC first: a single octet can verify here.
    ///
    /// # Errors
    ///
    /// [`MacMismatch`] if an octet differs, or `mac` is empty or longer than the algorithm's output.
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
