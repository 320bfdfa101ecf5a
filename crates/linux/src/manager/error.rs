//! Why a manager refuses something.

use std::fmt;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::{Error, KeyName};

/// Why a manager refuses a chain or a socket. Nothing has changed unless a variant says otherwise.
#[derive(Debug)]
pub enum ManagerError {
    /// Linux does not have the algorithm of a key of the chain.
    AlgorithmNotInLinux {
        /// The key's key id.
        key_id: u64,
        /// Its algorithm.
        algorithm: TcpAoAlgorithm,
    },
    /// No key is valid for sending now, so the socket was not attached.
    NoKeyToSendWith {
        /// The name of the chain.
        chain: String,
        /// When the chain changes next, if it does.
        next_change: Option<Timestamp>,
    },
    /// The connection was opened without TCP-AO. Close it.
    Unsigned,
    /// The connection is not with one of the manager's peers.
    AnotherPeer {
        /// The manager's peers.
        expected: IpCidr,
        /// The connection's peer.
        got: IpAddr,
    },
    /// The socket is attached to this manager already, perhaps through another descriptor.
    AlreadyAttached,
    /// A call on the socket failed, so it was not attached. Earlier changes stay; they let nothing unsigned through.
    Socket {
        /// The key to be changed, if the call was about one.
        key: Option<KeyName>,
        /// Why it failed.
        error: Error,
    },
}

impl From<Error> for ManagerError {
    fn from(error: Error) -> Self {
        Self::Socket { key: None, error }
    }
}

impl fmt::Display for ManagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlgorithmNotInLinux { key_id, algorithm } => {
                write!(f, "key {key_id}: {}", Error::AlgorithmNotInLinux(*algorithm))
            }
            Self::NoKeyToSendWith { chain, next_change } => {
                write!(
                    f,
                    "key chain {chain}: no key is valid for sending now, so the socket was not attached; "
                )?;
                match next_change {
                    Some(moment) => write!(f, "give it another key, or try again at {moment}"),
                    None => f.write_str("give it another key"),
                }
            }
            Self::Unsigned => f.write_str("the connection was opened without TCP-AO; close it"),
            Self::AnotherPeer { expected, got } => {
                write!(f, "the socket is connected to {got}, and the key chain is for {expected}")
            }
            Self::AlreadyAttached => f.write_str("the socket is attached to this key manager already"),
            Self::Socket { key: Some(key), error } => write!(f, "{key}: {error}"),
            Self::Socket { key: None, error } => error.fmt(f),
        }
    }
}

impl std::error::Error for ManagerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { error, .. } => Some(error),
            _ => None,
        }
    }
}
