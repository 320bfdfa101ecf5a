//! Errors of packets, segments and connection state. Errors of keys and peers are in `mkt.rs`.

use crate::mkt::{MktError, PeerError};
use crate::types::KeyId;

/// Why octets are not a TCP segment in an IP packet. Sender error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ParseError {
    /// The IP version field is neither 4 nor 6.
    #[error("IP version {0} is neither 4 nor 6")]
    IpVersion(u8),
    /// The packet ends inside its IP header or its extension headers.
    #[error("IP packet is cut off inside its header")]
    IpTooShort,
    /// A length field contradicts its header or the length of the packet.
    #[error("a length field of the IP header does not fit the packet")]
    IpLength,
    /// An IPv6 routing header with segments left, of a type whose final destination Wireseal cannot read.
    #[error("IPv6 routing header of type {0} hides the destination")]
    RoutingHeader(u8),
    /// More than one Home Address option; stacks may disagree about the source.
    #[error("IPv6 packet has more than one home address")]
    HomeAddresses,
    /// The packet carries a protocol other than TCP.
    #[error("IP packet carries protocol {protocol}, not TCP")]
    NotTcp {
        /// The IP protocol number.
        protocol: u8,
    },
    /// The packet is a fragment.
    #[error("IP packet is a fragment")]
    Fragment,
    /// The segment is shorter than a TCP header, or than its data offset says.
    #[error("TCP segment is cut off inside its header")]
    TcpTooShort,
    /// The segment is longer than an IPv4 packet can be: its length in the pseudo-header would wrap.
    #[error("TCP segment is longer than an IPv4 packet can be")]
    TcpTooLong,
    /// The data offset field is below 5.
    #[error("TCP data offset is below 5")]
    DataOffset,
}

/// Malformed TCP options in a header. Peer error in a received header, caller error in one to be signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum OptionError {
    /// An option's length field is below 2, or the option ends past the header.
    #[error("TCP option of kind {kind} at octet {offset} of the options has an impossible length")]
    BadLength {
        /// The kind of the option.
        kind: u8,
        /// Where it starts, in octets from the start of the options.
        offset: usize,
    },
    /// The AO option is shorter than 4 octets (RFC 5925 §2.2).
    #[error("AO option is shorter than 4 octets")]
    AoTooShort,
    /// More than one AO option (RFC 5925 §2.2).
    #[error("segment has more than one AO option")]
    TwoAoOptions,
    /// AO and TCP-MD5 in one segment (RFC 5925 §2.2).
    #[error("segment has both an AO and a TCP-MD5 option")]
    AoWithMd5,
}

/// Why verification failed. Drop the segment; only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VerifyError {
    /// The segment has no AO option.
    #[error("segment is unsigned")]
    Unsigned,
    /// The options are malformed, or break RFC 5925 §2.2.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// No MKT has this RecvID.
    #[error("no key has RecvID {0}")]
    UnknownKeyId(KeyId),
    /// The MAC in the option does not have the MKT's length; no MAC was computed.
    #[error("MAC has {got} octets, the key says {expected}")]
    MacLength {
        /// The MKT's length, in octets.
        expected: usize,
        /// The option's, in octets.
        got: usize,
    },
    /// The MAC is wrong: another key, another connection, or altered on the way.
    #[error("MAC does not verify under the key with RecvID {key_id}")]
    BadMac {
        /// The KeyID in the segment.
        key_id: KeyId,
    },
    /// Caller error: the segment belongs to another connection.
    #[error("segment belongs to another connection")]
    OtherConnection,
    /// The segment does not fit the connection's state: its ISNs are not the connection's, or it is a SYN and the connection is
    /// established.
    #[error("segment does not fit the connection's state")]
    State,
}

/// Why a segment could not be signed, or has no room for the option. Caller error; the segment is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SignError {
    /// The octets are not a TCP segment.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The header's options are malformed.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// The header has too little option space left for an AO option.
    #[error("AO option needs {needed} octets of option space, {free} were free")]
    NoRoom {
        /// Octets that the option and its padding need.
        needed: usize,
        /// Octets of the header's option space that were free.
        free: usize,
    },
    /// The header has no AO option to fill in; [`append_ao`](crate::Connection::append_ao) puts one there.
    #[error("header has no AO option to fill in")]
    NoOption,
    /// The AO option in the header has room for a MAC of another length than the MKT's.
    #[error("AO option has room for a MAC of {got} octets, the key says {expected}")]
    MacLength {
        /// The MKT's length, in octets.
        expected: usize,
        /// The option's, in octets.
        got: usize,
    },
    /// The segment belongs to another connection.
    #[error("segment belongs to another connection")]
    OtherConnection,
    /// The segment cannot be sent in the connection's present state.
    #[error("segment does not fit the connection's state")]
    State,
}

/// Why a connection's state could not be exported or imported. Caller error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum StateError {
    /// The handshake is not complete.
    #[error("connection is not established")]
    NotEstablished,
    /// No MKT has the current key's SendID.
    #[error("no key has the current key's SendID {0}")]
    CurrentKeyMissing(KeyId),
    /// No MKT has the rnext key's RecvID.
    #[error("no key has the rnext key's RecvID {0}")]
    RnextKeyMissing(KeyId),
    /// This version of the crate does not know the encoding of the octets.
    #[error("state of a connection in the unknown form {0}")]
    Version(u8),
    /// The number of octets is wrong.
    #[error("state of a connection in {got} octets instead of {expected}")]
    Length {
        /// Octets that the encoding has.
        expected: usize,
        /// Octets that were given.
        got: usize,
    },
}

/// Why a [`Shim`](crate::shim::Shim) refused a packet. Only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Refusal {
    /// Not an IP packet with a whole TCP segment, in either direction.
    #[error(transparent)]
    Malformed(#[from] ParseError),
    /// Received with a wrong TCP or IPv4 checksum, or an ICMP error with a wrong one. Not in [`Counters`](crate::Counters): a damaged
    /// segment says nothing reliable about keys.
    #[error("TCP, ICMP or IPv4 header checksum is wrong")]
    Checksum,
    /// Received and not authentic.
    #[error(transparent)]
    Verify(VerifyError),
    /// A verified SYN, counted good, for an open connection. It is a replay, or the peer has restarted. Nothing tells which, so the open
    /// connection stays.
    #[error("SYN for a connection that is open")]
    ConnectionExists,
    /// A segment of a protected connection whose handshake the shim has not seen.
    #[error("segment of a protected connection whose handshake was not seen")]
    NoConnection,
    /// Received, to or from a protected address, with a routing header that names a further destination, or with a Home Address option.
    #[error("routing header leads on, or home address, to or from a protected address")]
    SourceRouted,
    /// For a connection without a configured peer. [`Unmatched`](crate::shim::Unmatched) says which segments this is for.
    #[error("no peer is configured for the segment's connection")]
    NoPeer,
    /// The peer has no key now: none is configured, or its key chain has expired.
    #[error("the peer has no valid key at this time")]
    NoKey,
    /// The table of connections is full.
    #[error("the table of connections is full")]
    TableFull,
    /// A hard ICMP error about an established connection, or one that cannot be read and might be about one.
    #[error("ICMP error about a protected connection")]
    Icmp,
    /// The stack's segment could not be signed.
    #[error(transparent)]
    Sign(SignError),
    /// The options of the stack's segment leave no room for AO.
    #[error("{}", SignError::NoRoom { needed: *.needed, free: *.free })]
    NoRoom {
        /// Octets that the option and its padding need.
        needed: usize,
        /// Octets of the header's option space that were free.
        free: usize,
    },
    /// The stack's segment already has an AO or TCP-MD5 option.
    #[error("the stack's segment is signed already")]
    AlreadySigned,
    /// The signed packet would exceed the MTU, the longest IP packet, or the room that the caller left before the packet.
    #[error("signed packet is {excess} octets too long")]
    TooLong {
        /// Octets too many.
        excess: usize,
    },
}

impl Refusal {
    /// Whether the refusal shows that the ends' keys do not match yet. Such a packet passes while [mismatches are
    /// accepted](crate::shim::Shim::accept_mismatches). A stack that still signs with TCP-MD5 is a mismatch too.
    pub(crate) const fn is_mismatch(&self) -> bool {
        match self {
            Self::Verify(error) => !matches!(error, VerifyError::Options(_)),
            Self::Sign(error) => matches!(error, SignError::State),
            Self::NoConnection | Self::NoKey | Self::NoRoom { .. } | Self::AlreadySigned => true,
            _ => false,
        }
    }
}

/// Any error of this crate, for callers that handle all alike: `?` converts each into it.
///
/// No call returns it; each returns a narrower type that says what can happen. It prints as the error that it holds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A packet is not a TCP segment in an IP packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A header's options are malformed.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// A segment did not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A segment could not be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// An MKT cannot be used, or a connection's keys could not be changed.
    #[error(transparent)]
    Mkt(#[from] MktError),
    /// A connection's state could not be exported or imported.
    #[error(transparent)]
    State(#[from] StateError),
    /// Peers or their keys were refused.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A shim refused a packet.
    #[error(transparent)]
    Refusal(#[from] Refusal),
}
