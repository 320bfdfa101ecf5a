//! What can be wrong with a segment, and with a change of keys.

use crate::ip::IpParseError;
use crate::option::OptionError;
use crate::types::KeyId;

/// Why a packet is not a TCP segment in an IP packet. The sender's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ParseError {
    /// The IP header or its extension headers.
    #[error(transparent)]
    Ip(#[from] IpParseError),
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
    /// The segment is longer than an IPv4 packet can be, so that the length in the pseudo-header would wrap.
    #[error("TCP segment is longer than an IPv4 packet can be")]
    TcpTooLong,
    /// The data offset field is below 5.
    #[error("TCP data offset is below 5")]
    DataOffset,
}

/// Why verification failed. Drop the segment; only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
    /// The segment cannot come in the connection's present state: its ISNs are not the connection's, or it is a SYN and the
    /// connection is established.
    #[error("segment does not fit the connection's state")]
    State,
}

/// Why a segment could not be signed. Caller error; the segment is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SignError {
    /// The octets are not a TCP segment.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The header's options are malformed.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// The header has no AO option to fill in; [`append_ao`](crate::Connection::append_ao) puts one there.
    #[error("header has no AO option to fill in")]
    NoOption,
    /// The header's AO option has room for a MAC of another length than the MKT's.
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

/// Why a connection's keys could not be changed. Caller error; they are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum KeyError {
    /// A connection needs at least one key.
    #[error("there is no key for the connection")]
    NoKey,
    /// The connection has no MKT with this SendID.
    #[error("the connection has no key with SendID {0}")]
    UnknownSendId(KeyId),
    /// The connection has no MKT with this RecvID.
    #[error("the connection has no key with RecvID {0}")]
    UnknownRecvId(KeyId),
    /// The MKT is the current or the rnext key and no replacement was named.
    #[error("the key with SendID {0} is in use and no replacement was named")]
    InUse(KeyId),
    /// The MKT is the connection's last.
    #[error("the key with SendID {0} is the connection's last")]
    Last(KeyId),
}
