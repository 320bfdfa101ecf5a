//! AES-GCM for packets (SP 800-38D, RFC 5116), in place, with QUIC's header mask.

mod crypt;
mod ghash;

use core::fmt;

pub use crypt::TAG_LENGTH;
use crypt::{Mask, Packet};
use ghash::{Key, POWERS};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::aes::vector::ROUND_KEYS;
use crate::aes::{AesMaskKey, Engine};
use crate::cpu::InstructionSet;

const BODY_LENGTH: &str = "a body is a text, not above GCM's limit, and room for 16 octets of tag";
const SAMPLE: &str = "the sample is not in the body";

/// An AES-GCM key of 16 or 32 octets, for nonces of 12 octets and tags of 16.
///
/// It takes 512 octets, needs no heap, and is wiped on drop. Using a nonce twice breaks it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct GcmKey {
    blocks: Key,
    #[zeroize(skip)]
    kernel: &'static Kernel,
    #[zeroize(skip)]
    engine: Engine,
}

/// [`crypt`] and [`ghash`] compiled for one path and one number of rounds.
///
/// The functions are unsafe to call: the processor must have the path's instructions, and the mask must have been made for the packet.
struct Kernel {
    seal: unsafe fn(&Key, Packet<'_>, Option<Mask<'_>>) -> [u8; 16],
    open: unsafe fn(&Key, Packet<'_>) -> bool,
    powers: unsafe fn(u128, &mut [u128; POWERS]),
}

impl GcmKey {
    /// A key, or `None` if `key` has neither 16 nor 32 octets or this processor has no instructions for AES-GCM.
    #[must_use]
    pub fn new(key: &[u8]) -> Option<Self> {
        let engine = Engine::detect()?;
        // Zeroizing, because it is copied into the key below.
        let mut blocks = Zeroizing::new([0; POWERS + ROUND_KEYS]);
        let (powers, round_keys) = blocks.split_first_chunk_mut()?;
        let round_keys = round_keys.first_chunk_mut()?;
        let rounds = engine.expand(key, round_keys)?;
        let h = Zeroizing::new(engine.encrypt(round_keys, rounds, &[0; 16]));
        let h = Zeroizing::new(u128::from_be_bytes(*h));
        let kernel = &kernels(engine)[rounds as usize];
        // SAFETY: the engine proves its path.
        unsafe { (kernel.powers)(*h, powers) };
        Some(Self { blocks: *blocks, kernel, engine })
    }

    /// The instructions it uses: the best for AES-GCM that the processor had when the key was created.
    #[must_use]
    pub fn path(&self) -> InstructionSet {
        self.engine.path()
    }

    /// Encrypts a text in place, and writes its tag after it.
    ///
    /// `body` is the text, followed by 16 octets of room for the tag. With `mask`, returns QUIC's header mask (RFC 9001 §5.4.3): the 16
    /// octets of the finished `body` from that offset on, encrypted with the mask key. Without it, returns zeros.
    ///
    /// # Panics
    ///
    /// If `body` has no room for the tag or more text than GCM's limit of 2^32 - 2 blocks, or if fewer than 16 octets follow the
    /// sample's offset. Nothing is sealed then.
    #[inline]
    pub fn seal(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        body: &mut [u8],
        mask: Option<(&AesMaskKey, usize)>,
    ) -> [u8; 16] {
        let packet = Packet::new(nonce, aad, body).expect(BODY_LENGTH);
        let mask = mask.map(|(key, sample)| Mask::new(key, sample, &packet).expect(SAMPLE));
        // SAFETY: the engine proves the kernel's path, and the mask was made for this packet.
        unsafe { (self.kernel.seal)(&self.blocks, packet, mask) }
    }

    /// Encrypts a text in place, and returns its tag.
    ///
    /// # Panics
    ///
    /// If the text is longer than GCM's limit of 2^32 - 2 blocks.
    #[inline]
    #[must_use]
    pub fn seal_detached(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_LENGTH] {
        let mut tag = [0; TAG_LENGTH];
        let packet = Packet::detached(nonce, aad, text, &mut tag).expect(BODY_LENGTH);
        // SAFETY: the engine proves the kernel's path, and there is no mask.
        unsafe { (self.kernel.seal)(&self.blocks, packet, None) };
        tag
    }

    /// Decrypts a text in place, and returns whether it is authentic.
    ///
    /// `body` is the text, followed by its tag of 16 octets, which is unchanged. If it is not authentic, or too short for a tag, the text
    /// becomes zeros.
    #[inline]
    #[must_use]
    pub fn open(&self, nonce: &[u8; 12], aad: &[u8], body: &mut [u8]) -> bool {
        match body.split_last_chunk_mut() {
            Some((text, tag)) => self.open_detached(nonce, aad, text, tag),
            None => {
                wipe(body);
                false
            }
        }
    }

    /// Decrypts a text in place, and returns whether it is authentic. If it is not, or longer than GCM's limit of 2^32 - 2 blocks, the text
    /// becomes zeros.
    #[inline]
    #[must_use]
    pub fn open_detached(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_LENGTH],
    ) -> bool {
        let mut tag = *tag;
        let is_authentic = Packet::detached(nonce, aad, text, &mut tag).is_some_and(|packet| {
            // SAFETY: the engine proves the kernel's path.
            unsafe { (self.kernel.open)(&self.blocks, packet) }
        });
        if !is_authentic {
            // The text may be empty.
            leak!("GCM: refused text", tag[0]);
            wipe(text);
        }
        is_authentic
    }
}

#[cold]
fn wipe(text: &mut [u8]) {
    text.fill(0);
}

/// Omits the key.
impl fmt::Debug for GcmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcmKey").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The kernels of an engine's path, for keys of 10 and of 14 rounds.
fn kernels(engine: Engine) -> &'static [Kernel; 2] {
    match engine {
        #[cfg(target_arch = "x86_64")]
        Engine::AesNi(_) => &aes_ni::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Engine::AesNiAvx(_) => &aes_ni_avx::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Engine::Vaes256(_) => &vaes256::KERNELS,
        #[cfg(target_arch = "x86_64")]
        Engine::Vaes512(_) => &vaes512::KERNELS,
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        Engine::Aarch64Aes(_) => &aarch64::KERNELS,
    }
}

/// A module with a path's kernels for one register type, compiled with the path's target features.
macro_rules! path {
    ($path:ident: $register:path, $token:ident, $features:literal) => {
        mod $path {
            use super::{Kernel, Key, Mask, POWERS, Packet, crypt, ghash};
            use crate::cpu::$token;

            pub(super) static KERNELS: [Kernel; 2] = [
                Kernel { seal: seal::<10>, open: open::<10>, powers },
                Kernel { seal: seal::<14>, open: open::<14>, powers },
            ];

            #[target_feature(enable = $features)]
            unsafe fn seal<const ROUNDS: usize>(
                key: &Key,
                packet: Packet<'_>,
                mask: Option<Mask<'_>>,
            ) -> [u8; 16] {
                // SAFETY: the caller of a kernel guarantees that the processor has the path.
                let token = unsafe { $token::proven() };
                // SAFETY: the caller of a kernel guarantees that the mask was made for the packet.
                unsafe { crypt::seal::<$register, ROUNDS>(token, key, packet, mask) }
            }

            #[target_feature(enable = $features)]
            unsafe fn open<const ROUNDS: usize>(key: &Key, packet: Packet<'_>) -> bool {
                // SAFETY: the caller of a kernel guarantees that the processor has the path.
                crypt::open::<$register, ROUNDS>(unsafe { $token::proven() }, key, packet)
            }

            #[target_feature(enable = $features)]
            unsafe fn powers(h: u128, all: &mut [u128; POWERS]) {
                // SAFETY: the caller of a kernel guarantees that the processor has the path.
                ghash::powers::<$register>(unsafe { $token::proven() }, h, all);
            }
        }
    };
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
path!(aarch64: crate::aes::aarch64::V128, Aarch64Aes, "neon,aes");
#[cfg(target_arch = "x86_64")]
path!(aes_ni: crate::aes::x86_64::V128, AesNi, "aes,pclmulqdq,ssse3,sse4.1");
#[cfg(target_arch = "x86_64")]
path!(aes_ni_avx: crate::aes::x86_64::V128, AesNi, "aes,pclmulqdq,avx");
#[cfg(target_arch = "x86_64")]
path!(vaes256: crate::aes::x86_64::V256, Vaes256, "aes,pclmulqdq,avx2,vaes,vpclmulqdq");
#[cfg(target_arch = "x86_64")]
path!(
    vaes512: crate::aes::x86_64::V512,
    Vaes512,
    "aes,pclmulqdq,avx2,vaes,vpclmulqdq,avx512f,avx512bw,avx512dq,avx512vl"
);
