//! The libraries that ciphers come from.

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs", feature = "rustcrypto")))]
compile_error!("the feature `ring`, `aws-lc-rs` or `rustcrypto` is needed");

/// The library that AES-GCM, ChaCha20-Poly1305 and masks come from. AES-128-CCM is always RustCrypto's.
// Non-exhaustive because a feature that another crate turns on adds a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Wireseal's own routines, if the processor has the instructions: AES-GCM, also with a mask in one pass, ChaCha20-Poly1305, and masks
    /// (feature `kernels`). If it lacks them, the key comes from the next of [`Backend::ALL`].
    #[cfg(feature = "kernels")]
    Kernels,
    /// ring, faster than RustCrypto, with assembly for x86-64 and AArch64; feature `ring`.
    #[cfg(feature = "ring")]
    Ring,
    /// aws-lc-rs, for programs that link it anyway; feature `aws-lc-rs`. Its keys are on the heap.
    #[cfg(feature = "aws-lc-rs")]
    AwsLc,
    /// RustCrypto, in Rust alone, for any target; feature `rustcrypto`.
    #[cfg(feature = "rustcrypto")]
    RustCrypto,
}

impl Backend {
    /// The backends of this build, the active one first.
    pub const ALL: &[Self] = &[
        #[cfg(feature = "kernels")]
        Self::Kernels,
        #[cfg(feature = "ring")]
        Self::Ring,
        #[cfg(feature = "aws-lc-rs")]
        Self::AwsLc,
        #[cfg(feature = "rustcrypto")]
        Self::RustCrypto,
    ];

    /// The backend for keys that the kernels have no routine for.
    #[cfg(feature = "kernels")]
    pub(crate) const BEHIND_KERNELS: Self = Self::ALL[1];

    /// The default for new keys: the first of [`Backend::ALL`].
    #[must_use]
    pub const fn active() -> Self {
        Self::ALL[0]
    }

    /// The library's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "kernels")]
            Self::Kernels => "Wireseal",
            #[cfg(feature = "ring")]
            Self::Ring => "ring",
            #[cfg(feature = "aws-lc-rs")]
            Self::AwsLc => "aws-lc-rs",
            #[cfg(feature = "rustcrypto")]
            Self::RustCrypto => "RustCrypto",
        }
    }
}
