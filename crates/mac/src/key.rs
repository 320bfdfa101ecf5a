//! The key type of all MAC algorithms, and the MACs of many messages.

use core::convert::Infallible;
use core::fmt;

use wireseal_algorithms::MacAlgorithm;
use wireseal_kernels::cmac;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::hmac::ShaInstructions;
use zeroize::ZeroizeOnDrop;

#[cfg(feature = "aes-128-cmac")]
use crate::cmac::PortableCmacKey;
use crate::hmac::{ChainingValues, HmacKey};
#[cfg(feature = "kmac256")]
use crate::kmac::Kmac256Key;
use crate::output::{Mac, MacMismatch, Wiped, compare, wiped_on_drop};

/// The length of a KMAC256 output.
///
/// KMAC also authenticates the length (SP 800-185 §4.3), so a MAC of 16 octets is not the first half of one of 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputLength {
    /// 16 octets, 128 bits.
    Octets16,
    /// 32 octets, 256 bits.
    Octets32,
}

/// A key that computes and verifies the MACs of any number of messages.
///
/// Everything that depends only on the key is computed once: HMAC's two chaining values, the AES round keys and the CMAC subkey, or the
/// Keccak state after the key. A key takes at most 208 octets, is wiped on drop, and is not `Clone`; `Debug` shows its algorithm.
pub struct MacKey(pub(crate) State);

// The tag comes first, next to each variant's first field, so that a key touches no more cache lines than its algorithm needs.
#[repr(u8)]
#[allow(clippy::large_enum_variant, reason = "a heap is what this crate does without")]
pub(crate) enum State {
    // The instructions are detected when the key is created.
    #[cfg(feature = "hmac-sha1")]
    HmacSha1(Option<ShaInstructions>, HmacKey<[u32; 5]>),
    #[cfg(feature = "hmac-sha256")]
    HmacSha256(Option<ShaInstructions>, HmacKey<[u32; 8]>),
    #[cfg(feature = "aes-128-cmac")]
    Aes128Cmac(cmac::Key),
    #[cfg(feature = "aes-128-cmac")]
    PortableAes128Cmac(PortableCmacKey),
    #[cfg(feature = "kmac256")]
    Kmac256(OutputLength, Kmac256Key),
    /// Never constructed: without any algorithm there are no keys.
    #[allow(dead_code, reason = "without it, an enum of no algorithm would be none of `u8`")]
    None(Infallible),
}

// A TCP-AO connection holds two of these and must fit in 704 octets.
const _: () = assert!(size_of::<MacKey>() <= 208);

// A `MacKey` is wiped by its fields; this checks those from this crate.
const _: () = wiped_on_drop::<cmac::Key>();

impl ZeroizeOnDrop for MacKey {}

impl MacKey {
    /// A key of any length for HMAC-SHA-1 (RFC 2104). Its MACs have 20 octets; a key longer than 64 octets is hashed first.
    #[cfg(feature = "hmac-sha1")]
    #[must_use]
    pub fn hmac_sha1(key: &[u8]) -> Self {
        let sha = ShaInstructions::detect();
        Self(State::HmacSha1(sha, HmacKey::new(sha, key)))
    }

    /// A key of any length for HMAC-SHA-256 (RFC 2104). Its MACs have 32 octets; a key longer than 64 octets is hashed first.
    #[cfg(feature = "hmac-sha256")]
    #[must_use]
    pub fn hmac_sha256(key: &[u8]) -> Self {
        let sha = ShaInstructions::detect();
        Self(State::HmacSha256(sha, HmacKey::new(sha, key)))
    }

    /// A key for AES-128-CMAC (RFC 4493). Its MACs have 16 octets.
    #[cfg(feature = "aes-128-cmac")]
    #[must_use]
    pub fn aes_128_cmac(key: &[u8; 16]) -> Self {
        Self(match cmac::Key::new(key) {
            Some(key) => State::Aes128Cmac(key),
            None => State::PortableAes128Cmac(PortableCmacKey::new(key)),
        })
    }

    /// A key of any length for AES-CMAC-PRF-128 (RFC 4615), which is AES-128-CMAC: a key of any other length than 16 octets is replaced by
    /// its MAC under the all-zero key.
    #[cfg(feature = "aes-128-cmac")]
    #[must_use]
    pub fn aes_cmac_prf_128(key: &[u8]) -> Self {
        let mut octets = Wiped([0; 16]);
        prf_128_key(key, &mut octets.0);
        Self::aes_128_cmac(&octets.0)
    }

    /// A key of any length for KMAC256 (SP 800-185 §4), with its customization string and output length.
    #[cfg(feature = "kmac256")]
    #[must_use]
    pub fn kmac256(key: &[u8], customization: &[u8], output_length: OutputLength) -> Self {
        Self(State::Kmac256(output_length, Kmac256Key::new(key, customization)))
    }

    /// The algorithm of this key.
    #[must_use]
    pub fn algorithm(&self) -> MacAlgorithm {
        self.description().0
    }

    /// The implementation that computes the MAC of one message, for logs and measurements: the name of an instruction set, or "RustCrypto".
    /// It is chosen when the key is created. Batches use wider instructions if the processor has them.
    #[must_use]
    pub fn served_by(&self) -> &'static str {
        self.description().1.map_or("RustCrypto", InstructionSet::name)
    }

    /// The algorithm, and the instructions if there are any.
    fn description(&self) -> (MacAlgorithm, Option<InstructionSet>) {
        match &self.0 {
            #[cfg(feature = "hmac-sha1")]
            State::HmacSha1(sha, _) => (MacAlgorithm::HmacSha1, sha.map(ShaInstructions::path)),
            #[cfg(feature = "hmac-sha256")]
            State::HmacSha256(sha, _) => (MacAlgorithm::HmacSha256, sha.map(ShaInstructions::path)),
            #[cfg(feature = "aes-128-cmac")]
            State::Aes128Cmac(key) => (MacAlgorithm::Aes128Cmac, Some(key.path())),
            #[cfg(feature = "aes-128-cmac")]
            State::PortableAes128Cmac(_) => (MacAlgorithm::Aes128Cmac, None),
            #[cfg(feature = "kmac256")]
            State::Kmac256(..) => (MacAlgorithm::Kmac256, None),
            State::None(never) => match *never {},
        }
    }

    /// The MAC of the slices of `message`, taken as one message.
    #[inline]
    #[must_use]
    pub fn mac(&self, message: &[&[u8]]) -> Mac {
        match &self.0 {
            #[cfg(feature = "hmac-sha1")]
            State::HmacSha1(sha, key) => Mac::compute::<20>(|output| *output = key.mac(*sha, message)),
            #[cfg(feature = "hmac-sha256")]
            State::HmacSha256(sha, key) => Mac::compute::<32>(|output| *output = key.mac(*sha, message)),
            #[cfg(feature = "aes-128-cmac")]
            State::Aes128Cmac(key) => Mac::compute::<16>(|output| *output = key.mac(message)),
            #[cfg(feature = "aes-128-cmac")]
            State::PortableAes128Cmac(key) => Mac::compute::<16>(|output| key.mac(message, output)),
            #[cfg(feature = "kmac256")]
            State::Kmac256(length, key) => match length {
                OutputLength::Octets16 => Mac::compute::<16>(|output| key.mac(message, output)),
                OutputLength::Octets32 => Mac::compute::<32>(|output| key.mac(message, output)),
            },
            State::None(never) => match *never {},
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

/// One-shot MACs for keys that are used once, as in key derivation. Faster than building a [`MacKey`].
impl Mac {
    /// HMAC-SHA-1, as with [`MacKey::hmac_sha1`].
    #[cfg(feature = "hmac-sha1")]
    #[must_use]
    pub fn hmac_sha1(key: &[u8], message: &[&[u8]]) -> Self {
        let (sha, mut values) = (ShaInstructions::detect(), ChainingValues::<[u32; 5]>::INITIAL);
        values.absorb_key(sha, key);
        Self::compute::<20>(|output| *output = values.mac(sha, message))
    }

    /// HMAC-SHA-256, as with [`MacKey::hmac_sha256`].
    #[cfg(feature = "hmac-sha256")]
    #[must_use]
    pub fn hmac_sha256(key: &[u8], message: &[&[u8]]) -> Self {
        let (sha, mut values) = (ShaInstructions::detect(), ChainingValues::<[u32; 8]>::INITIAL);
        values.absorb_key(sha, key);
        Self::compute::<32>(|output| *output = values.mac(sha, message))
    }

    /// AES-CMAC-PRF-128, as with [`MacKey::aes_cmac_prf_128`].
    #[cfg(feature = "aes-128-cmac")]
    #[must_use]
    pub fn aes_cmac_prf_128(key: &[u8], message: &[&[u8]]) -> Self {
        let mut octets = Wiped([0; 16]);
        prf_128_key(key, &mut octets.0);
        Self::compute::<16>(|output| match &cmac::Key::new(&octets.0) {
            Some(key) => *output = key.mac(message),
            None => PortableCmacKey::new(&octets.0).mac(message, output),
        })
    }
}

/// Writes the AES key of AES-CMAC-PRF-128 (RFC 4615 §3).
#[cfg(feature = "aes-128-cmac")]
fn prf_128_key(key: &[u8], place: &mut [u8; 16]) {
    match (<&[u8; 16]>::try_from(key).ok(), cmac::Key::of_zeros()) {
        (Some(key), _) => *place = *key,
        (None, Some(zeros)) => *place = zeros.mac(&[key]),
        (None, None) => PortableCmacKey::new(&[0; 16]).mac(&[key], place),
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MacKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// Computes the MACs of many messages, each under its own key, side by side where that is faster than one by one.
///
/// `macs` gets the MAC of each job in order. If there are more jobs than places, the remaining jobs are ignored; places without a job are
/// unchanged. Keys may be of any algorithms.
///
/// AES-128-CMAC goes side by side, and so does HMAC with SHA-NI, with AVX-512 or on AArch64, in groups of messages. Each message of a group
/// has one slice, or two, where the first has the same length for all and consists of whole blocks: 16 octets for CMAC, 64 for HMAC.
/// Messages of similar lengths gain most. The jobs are iterated several times.
pub fn mac_batch<'a>(
    jobs: impl IntoIterator<Item = (&'a MacKey, &'a [&'a [u8]]), IntoIter: Clone>,
    macs: &mut [Mac],
) {
    let jobs = jobs.into_iter().take(macs.len());
    let count = jobs.clone().zip(&mut *macs).map(|(_, mac)| mac.clear()).count();
    let mut done = 0;
    // Computes the jobs of one algorithm that are faster side by side.
    macro_rules! side_by_side {
        ($state:pat => $key:expr, $mac_many:path) => {
            if done < count {
                let jobs = jobs.clone().enumerate().filter_map(|(number, (key, message))| match &key.0 {
                    $state => Some((number, $key, message)),
                    _ => None,
                });
                done += $mac_many(jobs, |number, mac| macs[number].set(mac));
            }
        };
    }
    #[cfg(feature = "aes-128-cmac")]
    side_by_side!(State::Aes128Cmac(key) => key, cmac::mac_many);
    #[cfg(feature = "hmac-sha1")]
    side_by_side!(State::HmacSha1(_, key) => key.chaining_values(), wireseal_kernels::sha1::hmac_many);
    #[cfg(feature = "hmac-sha256")]
    side_by_side!(State::HmacSha256(_, key) => key.chaining_values(), wireseal_kernels::sha256::hmac_many);
    if done < count {
        for ((key, message), mac) in jobs.zip(macs).filter(|(_, mac)| mac.is_empty()) {
            *mac = key.mac(message);
        }
    }
}
