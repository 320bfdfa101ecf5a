//! What can be wrong with a segment, and with a change of keys.

use core::fmt;

use crate::ip::IpParseError;
use crate::option::OptionError;
use crate::types::KeyId;

/// Why a packet is not a TCP segment in an IP packet. The sender's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// The IP header or its extension headers.
    Ip(IpParseError),
    /// The packet carries a protocol other than TCP.
    NotTcp {
        /// The IP protocol number.
        protocol: u8,
    },
    /// The packet is a fragment.
    Fragment,
    /// The segment is shorter than a TCP header, or than its data offset says.
    TcpTooShort,
    /// The segment is longer than an IPv4 packet can be, so that the length in the pseudo-header would wrap.
    TcpTooLong,
    /// The data offset field is below 5.
    DataOffset,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(error) => error.fmt(f),
            Self::NotTcp { protocol } => write!(f, "IP packet carries protocol {protocol}, not TCP"),
            Self::Fragment => f.write_str("IP packet is a fragment"),
            Self::TcpTooShort => f.write_str("TCP segment is cut off inside its header"),
            Self::TcpTooLong => f.write_str("TCP segment is longer than an IPv4 packet can be"),
            Self::DataOffset => f.write_str("TCP data offset is below 5"),
        }
    }
}

impl core::error::Error for ParseError {}

impl From<IpParseError> for ParseError {
    fn from(error: IpParseError) -> Self {
        Self::Ip(error)
    }
}

/// Why verification failed. Drop the segment; only counters changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerifyError {
    /// The segment has no AO option.
    Unsigned,
    /// The options are malformed, or break RFC 5925 §2.2.
    Options(OptionError),
    /// No MKT has this RecvID.
    UnknownKeyId(KeyId),
    /// The MAC in the option does not have the MKT's length; no MAC was computed.
    MacLength {
        /// The MKT's length, in octets.
        expected: usize,
        /// The option's, in octets.
        got: usize,
    },
    /// The MAC is wrong: another key, another connection, or altered on the way.
    BadMac {
        /// The KeyID in the segment.
        key_id: KeyId,
    },
    /// Caller error: the segment belongs to another connection.
    OtherConnection,
    /// The segment cannot come in the connection's present state: its ISNs are not the connection's, or it is a SYN and the
    /// connection is established.
    State,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("segment is unsigned"),
            Self::Options(error) => error.fmt(f),
            Self::UnknownKeyId(id) => write!(f, "no key has RecvID {id}"),
            Self::MacLength { expected, got } => write!(f, "MAC has {got} octets, the key says {expected}"),
            Self::BadMac { key_id } => write!(f, "MAC does not verify under the key with RecvID {key_id}"),
            Self::OtherConnection => f.write_str("segment belongs to another connection"),
            Self::State => f.write_str("segment does not fit the connection's state"),
        }
    }
}

impl core::error::Error for VerifyError {}

impl From<OptionError> for VerifyError {
    fn from(error: OptionError) -> Self {
        Self::Options(error)
    }
}

/// Why a segment could not be signed. Caller error; the segment is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignError {
    /// The octets are not a TCP segment.
    Parse(ParseError),
    /// The header's options are malformed.
    Options(OptionError),
    /// The header has no AO option to fill in; [`append_ao`](crate::append_ao) puts one there.
    NoOption,
    /// The header's AO option has room for a MAC of another length than the MKT's.
    MacLength {
        /// The MKT's length, in octets.
        expected: usize,
        /// The option's, in octets.
        got: usize,
    },
    /// The segment belongs to another connection.
    OtherConnection,
    /// The segment cannot be sent in the connection's present state.
    State,
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::NoOption => f.write_str("header has no AO option to fill in"),
            Self::MacLength { expected, got } => {
                write!(f, "AO option has room for a MAC of {got} octets, the key says {expected}")
            }
            Self::OtherConnection => f.write_str("segment belongs to another connection"),
            Self::State => f.write_str("segment does not fit the connection's state"),
        }
    }
}

impl core::error::Error for SignError {}

impl From<ParseError> for SignError {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl From<OptionError> for SignError {
    fn from(error: OptionError) -> Self {
        Self::Options(error)
    }
}

/// Why a connection's keys could not be changed. Caller error; they are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// A connection needs at least one key.
    NoKey,
    /// The connection has no MKT with this SendID.
    UnknownSendId(KeyId),
    /// The connection has no MKT with this RecvID.
    UnknownRecvId(KeyId),
    /// The MKT is the current or the rnext key and no replacement was named.
    InUse(KeyId),
    /// The MKT is the connection's last.
    Last(KeyId),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("there is no key for the connection"),
            Self::UnknownSendId(id) => write!(f, "the connection has no key with SendID {id}"),
            Self::UnknownRecvId(id) => write!(f, "the connection has no key with RecvID {id}"),
            Self::InUse(id) => write!(f, "the key with SendID {id} is in use and no replacement was named"),
            Self::Last(id) => write!(f, "the key with SendID {id} is the connection's last"),
        }
    }
}

impl core::error::Error for KeyError {}
