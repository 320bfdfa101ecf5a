//! One type for all errors of this crate.

use crate::connection::StateError;
use crate::error::{KeyError, ParseError, SignError, VerifyError};
use crate::ip::IpParseError;
#[cfg(feature = "key-chain")]
use crate::key_chain::{KeyChainError, ParseTimestampError, Problem};
use crate::mkt::MktError;
use crate::option::{NoRoom, OptionError};
use crate::peer::PeerError;
use crate::shim::Refusal;

/// Any error of this crate, for callers that handle all of them alike: `?` turns each into this one.
///
/// No call returns it; each returns the narrower type, which says what can happen. It prints as the error that it holds.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A packet is not a TCP segment in an IP packet.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A header's options are malformed.
    #[error(transparent)]
    Options(#[from] OptionError),
    /// A header has no room for the option.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A segment did not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A segment could not be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// An MKT cannot be used.
    #[error(transparent)]
    Mkt(#[from] MktError),
    /// A connection's keys could not be changed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A connection's state could not be exported or imported.
    #[error(transparent)]
    State(#[from] StateError),
    /// Peers or their keys were refused.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A shim refused a packet.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// A key chain cannot be used (feature `key-chain`).
    #[cfg(feature = "key-chain")]
    #[error(transparent)]
    KeyChain(#[from] KeyChainError),
    /// Part of a key chain cannot be used (feature `key-chain`).
    #[cfg(feature = "key-chain")]
    #[error(transparent)]
    Problem(#[from] Problem),
    /// A date and time cannot be read (feature `key-chain`).
    #[cfg(feature = "key-chain")]
    #[error(transparent)]
    Timestamp(#[from] ParseTimestampError),
}

impl From<IpParseError> for Error {
    fn from(error: IpParseError) -> Self {
        Self::Parse(error.into())
    }
}
