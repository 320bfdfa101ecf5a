//! The error.

use wireseal_algorithms::AeadAlgorithm;

/// Why a key was not created, or a message not sealed or opened. Caller error, except for [`Truncated`](Self::Truncated) and
/// [`NotAuthentic`](Self::NotAuthentic): those are the fault of whoever sent or damaged the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AeadError {
    /// The key has the wrong length for its algorithm.
    #[error("a key for {} has {expected} octets, not {got}", name(*.algorithm))]
    KeyLength {
        /// The algorithm.
        algorithm: AeadAlgorithm,
        /// The octets needed: [`AeadAlgorithm::key_length`].
        expected: usize,
        /// The octets given.
        got: usize,
    },
    /// The text is longer than the algorithm's counter reaches. Nothing was changed.
    #[error("a text for {} has at most {maximum} octets, not {got}", name(*.algorithm))]
    TooLong {
        /// The algorithm.
        algorithm: AeadAlgorithm,
        /// The maximum in octets: [`AeadAlgorithm::max_text_length`].
        maximum: u64,
        /// The octets of the text.
        got: usize,
    },
    /// The buffer to seal has no room for the tag. Nothing was changed.
    #[error("a buffer to seal ends with {needed} octets of room for the tag, and this one has only {got}")]
    NoRoomForTag {
        /// The octets of a tag.
        needed: usize,
        /// The octets of the buffer.
        got: usize,
    },
    /// The sample for the mask is not inside the sealed text and its tag. Nothing was changed.
    #[error("the sample ends {needed} octets after the start of the text, which has only {got} with its tag")]
    SampleOutside {
        /// Where the sample ends, in octets from the start of the text.
        needed: usize,
        /// The octets of the text and its tag.
        got: usize,
    },
    /// The message to open is shorter than a tag. Nothing was changed.
    #[error("a sealed message has a tag of {needed} octets, and this one only {got} octets")]
    Truncated {
        /// The octets of a tag.
        needed: usize,
        /// The octets of the message.
        got: usize,
    },
    /// Forged, damaged, or sealed with another key, nonce or associated data, which cannot be told apart. The text is zeros now, and the
    /// tag unchanged.
    #[error("the message is not authentic")]
    NotAuthentic,
}

/// The algorithm alone, where [`AeadAlgorithm::name`] is that of a cipher suite of TLS.
const fn name(algorithm: AeadAlgorithm) -> &'static str {
    match algorithm {
        AeadAlgorithm::Aes128Gcm => "AES-128-GCM",
        AeadAlgorithm::Aes256Gcm => "AES-256-GCM",
        AeadAlgorithm::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        AeadAlgorithm::Aes128Ccm => "AES-128-CCM",
    }
}
