//! Why a manager refuses something.

use std::io;
use std::net::{IpAddr, SocketAddr};

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Timestamp;

use crate::{Error, KeyName, PeerName};

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
    /// The peer overlaps with another one of the manager, and a key of each has the same SendID or RecvID while both are valid.
    /// A connection could not tell them apart, and Linux does not take both (RFC 5925 §3.1).
    #[error(
        "peer {peer}, key {key_id} and peer {other}, key {other_key_id} have a SendID or RecvID in common, and a connection can \
         belong to either peer; choose other ids"
    )]
    IdInUse {
        /// The peer to be set.
        peer: PeerName,
        /// The key id of its key.
        key_id: u64,
        /// The peer that the manager has.
        other: PeerName,
        /// The key id of that one's key.
        other_key_id: u64,
    },
    /// The same peer is given twice, perhaps in two forms. A link-local address on two interfaces is the same peer, too: see
    /// [`PeerName`].
    #[error(
        "peer {0} is given twice; give each once, and peers with the same link-local address to a key manager for each interface"
    )]
    PeerTwice(PeerName),
    /// No key of the peer is valid for sending now, so the socket was not attached.
    #[error(
        "peer {peer}, key chain {chain}: no key is valid for sending now, so the socket was not attached; give it another \
         key{}",
        next_change.map(|moment| format!(", or try again at {moment}")).unwrap_or_default()
    )]
    NoKeyToSendWith {
        /// The peer.
        peer: PeerName,
        /// The name of its chain.
        chain: String,
        /// When the chain changes next, if it does.
        next_change: Option<Timestamp>,
    },
    /// The connection was opened without TCP-AO. Close it.
    #[error("the connection was opened without TCP-AO; close it")]
    Unsigned,
    /// The connection ended before it was attached: its peer has reset it. It has no address any more, so nobody can tell whose it was,
    /// or whether the data in it was signed. Close it.
    #[error(
        "the connection ended before it was attached, and whose it was is not known; close it without reading from it"
    )]
    Ended,
    /// The manager has no peer with the connection's address and VRF. Close the socket.
    #[error("the key manager has no peer {0} in the socket's VRF; set one (set_peer), or close the socket")]
    NoPeer(IpAddr),
    /// The handshake was signed with a key of another peer, whose network contains the connection's address. Close it.
    #[error("{address} has a key chain of its own, and called with the {key}; close the connection")]
    KeyOfAnotherPeer {
        /// The connection's address.
        address: IpAddr,
        /// The key.
        key: KeyName,
    },
    /// The socket is attached to this manager already, perhaps through another descriptor.
    #[error("the socket is attached to this key manager already")]
    AlreadyAttached,
    /// The descriptor is not that of the socket that was attached.
    #[error("this is not the socket that was attached; detach that one, and attach this one")]
    AnotherSocket,
    /// A call on the socket failed, so it was not attached. Earlier changes stay; they let nothing unsigned through.
    #[error("{}{error}", key.map(|key| format!("{key}: ")).unwrap_or_default())]
    Socket {
        /// The key to be changed, if the call was about one.
        key: Option<KeyName>,
        /// Why it failed. It is in the message, and so not the error's source.
        error: Error,
    },
    /// A socket could not be opened, or accepted no connection.
    #[error("cannot {what} {address}: {error}")]
    Io {
        /// What was to be done: `listen on`, `accept on` or `connect to`.
        what: &'static str,
        /// The listener's address, or the peer's.
        address: SocketAddr,
        /// Why it failed. It is in the message, and so not the error's source.
        error: io::Error,
    },
}

impl ManagerError {
    pub(crate) fn listening(address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what: "listen on", address, error }
    }

    pub(crate) fn accepting(address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what: "accept on", address, error }
    }

    pub(crate) fn connecting(address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what: "connect to", address, error }
    }
}

impl From<Error> for ManagerError {
    fn from(error: Error) -> Self {
        Self::Socket { key: None, error }
    }
}
