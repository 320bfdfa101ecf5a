//! The errors, grouped by what the caller does: drop the packet ([`HeaderError`]), drop it or close the connection ([`OpenError`]), fix the
//! call ([`SealError`]), or fix it or wait ([`KeyError`]). Token errors are in `token.rs`.

use core::fmt;
use core::time::Duration;

use wireseal_algorithms::AeadAlgorithm;

use crate::version::Version;

/// Why octets are not a packet that keys could open, or not a Retry packet that a client may act on. If they came from the network, the
/// peer is at fault: drop them. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A Retry packet, which has an integrity tag instead of protection: see [`Retry`](crate::Retry).
    #[error("a Retry packet is not protected by keys")]
    Retry,
    /// A Version Negotiation packet, which has no protection (RFC 9000 §17.2.1).
    #[error("a Version Negotiation packet is not protected")]
    VersionNegotiation,
    /// A version that this build does not support. A server may answer with a
    /// [Version Negotiation packet](crate::VersionNegotiation) (RFC 8999 §6).
    #[error(fmt = unknown_version)]
    UnknownVersion(
        /// The version field.
        u32,
    ),
    /// A connection ID of more than 20 octets (RFC 9000 §17.2).
    #[error("a connection ID has at most {maximum} octets, this one {got}")]
    ConnectionIdTooLong {
        /// The maximum: 20 octets.
        maximum: usize,
        /// The octets it has.
        got: usize,
    },
    /// The packet ends inside its header, or before the end that its Length field gives; or it is a Retry packet without a token.
    #[error("truncated packet: {got} octets of at least {needed}")]
    Truncated {
        /// The octets it needs at least.
        needed: usize,
        /// The octets it has.
        got: usize,
    },
    /// A coalesced packet whose destination connection ID differs from that of the first packet in its datagram (RFC 9000 §12.2).
    #[error("a coalesced packet has another destination connection ID than the first")]
    OtherDestination,
    /// Not a Retry packet.
    #[error("not a Retry packet")]
    NotRetry,
    /// A Retry packet of another version than the Initial packet.
    #[error("the Retry packet is of {got}, the Initial packet was of {expected}")]
    OtherVersion {
        /// The version of the Initial packet.
        expected: Version,
        /// The version of the Retry packet.
        got: Version,
    },
    /// A Retry packet whose integrity tag is wrong (RFC 9001 §5.8).
    #[error("the integrity tag of the Retry packet is wrong")]
    RetryTag,
    /// A Retry packet whose source connection ID is the one it should replace (RFC 9000 §17.2.5.1).
    #[error("the Retry packet does not change the connection ID")]
    SameConnectionId,
}

fn unknown_version(version: &u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "unknown QUIC version 0x{version:08x} (known:")?;
    for version in Version::ALL {
        write!(f, " 0x{:08x}", version.to_wire())?;
    }
    f.write_str(")")
}

/// Why a packet was not opened. No plaintext is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Too short for a header protection sample, or not for these keys: drop it (RFC 9001 §5.4.2 and §5.5). Nothing was changed,
    /// and it does not count as a forgery.
    #[error("the packet is too short, or not for these keys")]
    Undecryptable,
    /// Not authentic: forged, damaged, or protected by other keys, which cannot be told apart. Rely on nothing in the header.
    #[error("the packet is not authentic")]
    AuthenticationFailed,
    /// The peer set a reserved bit: PROTOCOL_VIOLATION (RFC 9000 §17.2 and §17.3.1).
    #[error("the peer set a reserved bit (PROTOCOL_VIOLATION)")]
    ReservedBits,
    /// A packet that was opened before, or is too old to tell: drop it (RFC 9000 §12.3).
    #[error("the packet is a duplicate")]
    Duplicate,
    /// The peer broke the order of key phases: KEY_UPDATE_ERROR. An authentic packet has old keys after new ones or new keys before old ones
    /// (RFC 9001 §6.4), or the Key Phase bit of another phase than its keys'; or it acknowledges a packet of a phase that it does not
    /// answer (RFC 9001 §6.2).
    #[error("the peer broke the order of key phases (KEY_UPDATE_ERROR)")]
    KeyUpdate,
    /// Too many packets failed authentication: AEAD_LIMIT_REACHED (RFC 9001 §6.6). Nothing is opened from now on.
    #[error("too many packets were not authentic (AEAD_LIMIT_REACHED)")]
    IntegrityLimit,
    /// The payload is empty, but a packet needs at least one frame: PROTOCOL_VIOLATION (RFC 9000 §12.4).
    #[error("the peer sent a packet without frames (PROTOCOL_VIOLATION)")]
    NoFrames,
}

impl OpenError {
    /// The transport error code to close the connection with (RFC 9000 §20.1). `None` means: drop the packet and go on.
    #[must_use]
    pub const fn transport_error(self) -> Option<u64> {
        match self {
            Self::Undecryptable | Self::AuthenticationFailed | Self::Duplicate => None,
            Self::ReservedBits | Self::NoFrames => Some(0x0a),
            Self::KeyUpdate => Some(0x0e),
            Self::IntegrityLimit => Some(0x0f),
        }
    }
}

/// Why a packet was not sealed, or a header, token or stateless reset not written. Nothing was written. Caller error, except for
/// [`NumbersExhausted`](Self::NumbersExhausted) and [`ConfidentialityLimit`](Self::ConfidentialityLimit), which are reached over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The buffer is too small. To seal, it must hold header, packet number and tag.
    #[error("the buffer has {got} octets, at least {needed} are needed")]
    BufferTooSmall {
        /// The octets needed; to seal, those without a payload.
        needed: usize,
        /// The octets of the buffer.
        got: usize,
    },
    /// The packet number would start at offset 0, where the first octet of the header is.
    #[error("the packet number starts at offset 0, inside the header")]
    NoHeader,
    /// Packet number and payload are too short for a header protection sample (RFC 9001 §5.4.2): add PADDING frames.
    #[error("packet number and payload have {got} octets together, header protection needs {needed}")]
    TooShortForSample {
        /// The octets that packet number and payload need together: 4.
        needed: usize,
        /// The octets they have.
        got: usize,
    },
    /// The peer could not decode a packet number of this length, because too many numbers are unacknowledged (RFC 9000 §17.1): send
    /// [`OneRtt::number_length`](crate::OneRtt::number_length) octets. If the peer needs more than 4, no packet can be sent until it
    /// acknowledges one.
    #[error("the peer needs {needed} octets of the packet number, not {got}")]
    NumberTooShort {
        /// The octets that the peer needs, above 4 if more than 2^31 numbers are unacknowledged.
        needed: usize,
        /// The octets of [`Outgoing::number_length`](crate::Outgoing::number_length).
        got: usize,
    },
    /// The payload is longer than 65,535 octets, more than any datagram carries.
    #[error("the payload has {got} octets, the maximum is {maximum}")]
    TooLong {
        /// The maximum.
        maximum: usize,
        /// The octets of the payload.
        got: usize,
    },
    /// A value is too large for its field: the payload for a Length field of four octets, the token for its length field, or the versions
    /// for a Version Negotiation packet.
    #[error("a payload, a token or a list of versions is too long for its field")]
    FieldTooLong,
    /// The header is of another packet type or version than the keys, or its Length field disagrees with `number_offset` or
    /// the length of the packet; or, where the caller numbers packets, it holds another number, or its key is of another AEAD.
    #[error("the header does not fit these keys, or not the length or the number of the packet")]
    OtherHeader,
    /// All packet numbers are used: close the connection (RFC 9000 §12.3).
    #[error("no packet number is left: the last is 2^62-1")]
    NumbersExhausted,
    /// The key has sealed as many packets as its AEAD allows (RFC 9001 §6.6): update it, or close the connection.
    #[error("the key has sealed as many packets as its AEAD allows")]
    ConfidentialityLimit,
    /// The payload is empty. The peer would treat a packet without frames as a PROTOCOL_VIOLATION (RFC 9000 §12.4): if there is nothing
    /// else to send, send PING or PADDING frames.
    #[error("the payload is empty, and a packet needs a frame")]
    NoFrames,
    /// The Version Negotiation packet would answer another one, or name no version (RFC 9000 §6.1).
    #[error("a Version Negotiation packet answers no other, and names a version")]
    NoAnswer,
    /// A Retry packet needs a token of at least one octet (RFC 9000 §17.2.5).
    #[error("a Retry packet needs a token")]
    NoToken,
    /// The key that seals tokens was [forgotten](crate::TokenKeys::seal).
    #[error("the key that seals tokens was forgotten")]
    NoTokenKey,
    /// The source connection ID of a Retry packet must differ from the destination of the packet it answers (RFC 9000
    /// §17.2.5.1).
    #[error("a Retry packet must change the connection ID")]
    SameConnectionId,
}

/// Why a key was not created or updated: octets of the wrong length, or an update that is not allowed, or not yet. Caller error; nothing
/// was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key or a traffic secret has the wrong length for its algorithm.
    #[error("key material for {algorithm} has {expected} octets, not {got}")]
    WrongLength {
        /// The AEAD of the cipher suite.
        algorithm: AeadAlgorithm,
        /// The octets needed.
        expected: usize,
        /// The octets given.
        got: usize,
    },
    /// The handshake is not confirmed (RFC 9001 §6.1).
    #[error("the handshake is not confirmed")]
    HandshakeNotConfirmed,
    /// No packet of the current phase has been acknowledged (RFC 9001 §6.1).
    #[error("no packet of this key phase has been acknowledged")]
    NotAcknowledged,
    /// The peer may still need its old keys (RFC 9001 §6.5).
    #[error("no key update before {from:?}, three probe timeouts after the last")]
    TooSoon {
        /// When the update becomes possible.
        from: Duration,
    },
}
