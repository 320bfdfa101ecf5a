//! The errors that several files return.

use core::fmt;

use wireseal_algorithms::AeadAlgorithm;

use crate::version::Version;

/// Why octets are not a packet that keys could open, or not part of one. The peer's fault if they came from the network;
/// nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderError {
    /// A Retry packet, which has an integrity tag instead of protection: see [`Retry`](crate::Retry).
    Retry,
    /// A Version Negotiation packet, which has no protection (RFC 9000 §17.2.1).
    VersionNegotiation,
    /// A version that this build does not support. A server may answer with a Version Negotiation packet (RFC 8999 §6), which
    /// is not protected and not made here.
    UnknownVersion(
        /// The version field.
        u32,
    ),
    /// A connection ID of more than 20 octets (RFC 9000 §17.2). A packet that has one must be dropped.
    ConnectionIdTooLong {
        /// The maximum: 20 octets.
        expected: usize,
        /// The octets it has.
        got: usize,
    },
    /// The packet ends inside its header, or before the end that its Length field gives.
    Truncated {
        /// The octets it needs at least.
        expected: usize,
        /// The octets it has.
        got: usize,
    },
    /// A coalesced packet for another connection ID than the first of its datagram (RFC 9000 §12.2).
    OtherDestination,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry => f.write_str("a Retry packet is not protected by keys"),
            Self::VersionNegotiation => f.write_str("a Version Negotiation packet is not protected"),
            Self::UnknownVersion(version) => {
                write!(f, "unknown QUIC version 0x{version:08x} (known:")?;
                for version in Version::ALL {
                    write!(f, " 0x{:08x}", version.to_wire())?;
                }
                f.write_str(")")
            }
            Self::ConnectionIdTooLong { expected, got } => {
                write!(f, "a connection ID has at most {expected} octets, this one {got}")
            }
            Self::Truncated { expected, got } => {
                write!(f, "truncated packet: {got} octets of at least {expected}")
            }
            Self::OtherDestination => {
                f.write_str("a coalesced packet has another destination connection ID than the first")
            }
        }
    }
}

impl core::error::Error for HeaderError {}

/// Why a header, a Retry packet, a token or a stateless reset was not written. Caller error; nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncodeError {
    /// The buffer is too small.
    BufferTooSmall {
        /// The octets needed.
        expected: usize,
        /// The octets of the buffer.
        got: usize,
    },
    /// The payload does not fit a Length field of four octets, or the token its own length field.
    PayloadTooLong,
    /// A Retry packet needs a token of at least one octet (RFC 9000 §17.2.5).
    NoToken,
    /// The source connection ID of a Retry packet must differ from the destination of the packet it answers (RFC 9000
    /// §17.2.5.1).
    SameConnectionId,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { expected, got } => {
                write!(f, "the buffer has {got} octets, {expected} are needed")
            }
            Self::PayloadTooLong => f.write_str("the payload or the token is too long for its length field"),
            Self::NoToken => f.write_str("a Retry packet needs a token"),
            Self::SameConnectionId => f.write_str("a Retry packet must change the connection ID"),
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why a packet was not sealed; nothing was written. Caller error, except for the two limits, which are reached over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SealError {
    /// The buffer has no room for header, packet number and tag.
    BufferTooSmall {
        /// The octets needed for an empty payload.
        expected: usize,
        /// The octets of the buffer.
        got: usize,
    },
    /// The packet number is said to start at offset 0, which is the first octet of the header.
    NoHeader,
    /// Packet number and payload are too short for a header protection sample (RFC 9001 §5.4.2): add PADDING frames, or send a
    /// longer packet number.
    TooShortForSample {
        /// The octets that packet number and payload need together: 4.
        expected: usize,
        /// The octets they have.
        got: usize,
    },
    /// The payload is longer than 65,535 octets, more than any datagram carries.
    TooLong {
        /// The maximum.
        expected: usize,
        /// The octets of the payload.
        got: usize,
    },
    /// The header is of another packet type or version than the keys, or its Length field disagrees with `number_offset` or
    /// the length of the packet.
    OtherHeader,
    /// All packet numbers are used: close the connection (RFC 9000 §12.3).
    NumbersExhausted,
    /// The key has sealed as many packets as its AEAD allows (RFC 9001 §6.6): update it, or close the connection.
    ConfidentialityLimit,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferTooSmall { expected, got } => {
                write!(f, "the buffer has {got} octets; header, packet number and tag need {expected}")
            }
            Self::NoHeader => f.write_str("the packet number starts at offset 0, inside the header"),
            Self::TooShortForSample { expected, got } => write!(
                f,
                "packet number and payload have {got} octets together, header protection needs {expected}"
            ),
            Self::TooLong { expected, got } => {
                write!(f, "the payload has {got} octets, the maximum is {expected}")
            }
            Self::OtherHeader => {
                f.write_str("the header does not fit these keys, or not the length of the packet")
            }
            Self::NumbersExhausted => f.write_str("no packet number is left: the last is 2^62-1"),
            Self::ConfidentialityLimit => {
                f.write_str("the key has sealed as many packets as its AEAD allows")
            }
        }
    }
}

impl core::error::Error for SealError {}

/// A key or a traffic secret has the wrong length for its algorithm. Caller error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WrongKeyLength {
    /// The AEAD of the cipher suite.
    pub algorithm: AeadAlgorithm,
    /// The octets needed.
    pub expected: usize,
    /// The octets given.
    pub got: usize,
}

impl fmt::Display for WrongKeyLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, expected, got } = self;
        write!(f, "key material for {algorithm} has {expected} octets, not {got}")
    }
}

impl core::error::Error for WrongKeyLength {}
