//! What a step came to, and why a manager refuses something.

use std::fmt;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::manager::situation::{Action, Origin, SocketKind};
use crate::{Error, KeyName};

/// What [`KeyManager::step`](crate::KeyManager::step) did and found.
#[derive(Debug)]
pub struct StepReport {
    /// One for each attached socket, in the order of attaching.
    pub sockets: Vec<SocketReport>,
    /// No key of the chain may be sent with now: no connection can be opened, and those there are should be shut down.
    pub expired: bool,
    /// When there will be something to do, as far as it is known now; earlier if a clock is set. `None` when the chain
    /// does not change any more.
    pub next_step: Option<Timestamp>,
}

impl StepReport {
    /// Whether some peer has not yet signed with the key that it was asked for.
    #[must_use]
    pub fn is_peer_behind(&self) -> bool {
        self.sockets.iter().any(|socket| socket.is_peer_behind)
    }
}

/// What a step did with one socket.
#[derive(Debug)]
pub struct SocketReport {
    /// The number of its [`Attachment`](crate::Attachment).
    pub attachment: u64,
    /// What the socket is; `None` for a connection that has ended, whose keys do not matter any more.
    pub kind: Option<SocketKind>,
    /// What was done, in this order.
    pub done: Vec<Action>,
    /// What could not be done and will be tried again in the next step; without an action, the socket's keys could not be
    /// read. The other keys of the socket are not held up by it.
    pub failed: Vec<(Option<Action>, Error)>,
    /// The peer has not yet signed with the key that it was asked for. It does so with the next segment it sends, if it
    /// has the key.
    pub is_peer_behind: bool,
    /// Keys whose time is over but which are the connection's last. Shut it down.
    pub overdue: Vec<KeyName>,
}

impl SocketReport {
    /// The keys that were deleted at the end of their time although the peer was still asking for them: its configuration
    /// or its clock is behind.
    pub fn taken_away(&self) -> impl Iterator<Item = KeyName> {
        self.done.iter().filter_map(|action| match action {
            Action::Delete { key, origin: Origin::Chain(_), is_current: true, .. } => Some(*key),
            _ => None,
        })
    }
}

/// Why a manager refuses a chain or a socket.
#[derive(Debug)]
pub enum ManagerError {
    /// Linux does not have the algorithm of a key of the chain. Nothing was done.
    AlgorithmNotInLinux {
        /// The key's key id.
        key_id: u64,
        /// Its algorithm.
        algorithm: TcpAoAlgorithm,
    },
    /// No key of the chain may be sent with now, so a connection has no business. The socket is untouched.
    NoKeyToSendWith {
        /// The name of the chain.
        chain: String,
        /// When the chain changes next, if it does.
        next_change: Option<Timestamp>,
    },
    /// The connection was opened without TCP-AO. Close it.
    Unsigned,
    /// The connection is not with one of the manager's peers. The socket is untouched.
    AnotherPeer {
        /// The manager's peers.
        remote: IpCidr,
        /// The peer.
        peer: IpAddr,
    },
    /// The socket is attached to this manager already, perhaps by another descriptor of it.
    AlreadyAttached,
    /// A call on the socket failed. It is not attached; what was done before has been left so that nothing gets through
    /// that should not.
    Socket {
        /// The key that was to be changed, when the call was about one.
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
                write!(f, "key chain {chain}: no key may be sent with now; ")?;
                match next_change {
                    Some(moment) => write!(f, "give it another key, or try again at {moment}"),
                    None => f.write_str("give it another key"),
                }
            }
            Self::Unsigned => f.write_str("the connection was opened without TCP-AO; close it"),
            Self::AnotherPeer { remote, peer } => {
                write!(f, "the socket is connected to {peer}, and the key chain is for {remote}")
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
