//! Why a manager refuses something.

use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::{Error, KeyName};

/// Why a manager refuses a chain or a socket. Nothing has changed unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Linux does not have the algorithm of a key of the chain.
    #[error("key {key_id}: {}", Error::AlgorithmNotInLinux(*algorithm))]
    AlgorithmNotInLinux {
        /// The key's key id.
        key_id: u64,
        /// Its algorithm.
        algorithm: TcpAoAlgorithm,
    },
    /// No key is valid for sending now, so the socket was not attached.
    #[error(
        "key chain {chain}: no key is valid for sending now, so the socket was not attached; give it another key{}",
        next_change.map(|moment| format!(", or try again at {moment}")).unwrap_or_default()
    )]
    NoKeyToSendWith {
        /// The name of the chain.
        chain: String,
        /// When the chain changes next, if it does.
        next_change: Option<Timestamp>,
    },
    /// The connection was opened without TCP-AO. Close it.
    #[error("the connection was opened without TCP-AO; close it")]
    Unsigned,
    /// The connection is not with one of the manager's peers.
    #[error("the socket is connected to {got}, and the key chain is for {expected}")]
    AnotherPeer {
        /// The manager's peers.
        expected: IpCidr,
        /// The connection's peer.
        got: IpAddr,
    },
    /// The socket is attached to this manager already, perhaps through another descriptor.
    #[error("the socket is attached to this key manager already")]
    AlreadyAttached,
    /// A call on the socket failed, so it was not attached. Earlier changes stay; they let nothing unsigned through.
    #[error("{}{error}", key.map(|key| format!("{key}: ")).unwrap_or_default())]
    Socket {
        /// The key to be changed, if the call was about one.
        key: Option<KeyName>,
        /// Why it failed.
        #[source]
        error: Error,
    },
}

impl From<Error> for ManagerError {
    fn from(error: Error) -> Self {
        Self::Socket { key: None, error }
    }
}
