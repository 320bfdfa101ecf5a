//! Why a call failed, and what to do about it.

use std::net::{IpAddr, SocketAddr};
use std::{fmt, io};

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Problem, Timestamp};
use wireseal_tcp_ao::{KeyId, MktError, StateError};

use crate::{Generation, KeyName, PeerName};

/// How [`Error::NotSupported`] and [`NetworkCounters`](crate::NetworkCounters) describe a kernel without TCP-AO.
pub(crate) const NO_TCP_AO: &str = "this kernel has no TCP-AO (it needs Linux 6.7 or later with CONFIG_TCP_AO); \
     use TCP-AO in userspace (the program `wireseal gateway`, or a TCP stack of your own over Wireseal's shim)";

/// Why a call failed. Nothing has changed unless a variant or the call says otherwise. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This kernel has no TCP-AO (ENOPROTOOPT).
    #[error("{NO_TCP_AO}")]
    NotSupported,
    /// No Linux has the algorithm; the kernel was not asked.
    #[error(
        "{}Linux has no {algorithm}; configure HMAC-SHA-1-96, AES-128-CMAC-96 or hmac(sha256), or use TCP-AO in userspace \
         (the program `wireseal gateway`, or a TCP stack of your own over Wireseal's shim)",
        key_id.map(|id| format!("key {id}: ")).unwrap_or_default()
    )]
    AlgorithmNotInLinux {
        /// The algorithm.
        algorithm: TcpAoAlgorithm,
        /// The key id of the key in its chain, if it is in one.
        key_id: Option<u64>,
    },
    /// This kernel was built without the algorithm (ENOENT from `TCP_AO_ADD_KEY`).
    #[error("this kernel was built without {0}; configure another algorithm, or load or enable the kernel's")]
    AlgorithmMissing(TcpAoAlgorithm),
    /// Another key on the socket, for some of the same peers, has one of these ids (EEXIST; RFC 5925 §3.1).
    #[error(
        "SendID {send_id} or RecvID {recv_id} belongs to another key on the socket for the same peers; delete that \
         key first, or choose other ids"
    )]
    IdInUse {
        /// The SendID of the new key.
        send_id: KeyId,
        /// The RecvID of the new key.
        recv_id: KeyId,
    },
    /// The socket has a TCP-MD5 key for some of the same peers; or it has any TCP-MD5 key and is to require TCP-AO (EKEYREJECTED).
    #[error(
        "the socket has a TCP-MD5 key for the same peers, or requires TCP-AO of all peers while it has one; delete that key first, \
         or do not require TCP-AO"
    )]
    Md5KeyInTheWay,
    /// The socket has a TCP-AO key for some of the same peers, or requires TCP-AO (EKEYREJECTED for a TCP-MD5 key).
    #[error(
        "the socket has a TCP-AO key for the same peers, or requires TCP-AO; delete the key or stop requiring \
         TCP-AO first"
    )]
    AoKeyInTheWay,
    /// The MAC does not fit into a SYN beside the other options (EMSGSIZE).
    #[error("a MAC of {octets} octets does not fit into a SYN's options; configure at most 16")]
    MacTooLong {
        /// Octets of the MAC.
        octets: usize,
    },
    /// The socket has no key with these ids (ENOENT).
    #[error(fmt = no_such_key)]
    NoSuchKey {
        /// The SendID, if the call named one.
        send_id: Option<KeyId>,
        /// The RecvID, if the call named one.
        recv_id: Option<KeyId>,
    },
    /// The socket has no TCP-MD5 key for this network (ENOENT).
    #[error("the socket has no TCP-MD5 key for {0}; give the network and VRF that it was added with")]
    NoSuchMd5Key(IpCidr),
    /// The key is the current or rnext key and no successor was given (EBUSY). The peer may have asked for it in the meantime. A successor
    /// that was given [has taken over](crate::TcpAoSocket::delete_key) anyway.
    #[error(
        "the {0} is the current or rnext key; give another key as its successor, or try again after the peer has switched. The last key \
         of a connection stays until that is closed"
    )]
    KeyInUse(KeyName),
    /// Linux cannot delete the key, because it is for a VRF (ENOENT): `TCP_AO_DEL_KEY` of Linux 6.18 searches for every key among those
    /// without a VRF.
    #[error(
        "Linux does not delete the {0}, which stays in force; close the socket, and open another without that key (a socket that is \
         bound to the VRF needs no key for a VRF, and Linux deletes such keys)"
    )]
    KeyStays(KeyName),
    /// The connection was opened without TCP-AO, so it takes no keys (EISCONN).
    #[error(
        "the connection was opened without TCP-AO, which cannot be added to it; put the keys on the socket before \
         it connects, or on the listening socket"
    )]
    Connected,
    /// The process lacks a capability (EPERM).
    #[error(
        "{what} needs CAP_NET_ADMIN over the network namespace, and a socket that does not listen; if the process has that capability, \
         look for a policy that refuses the call (seccomp, BPF)"
    )]
    NoPermission {
        /// The action that needs it.
        what: &'static str,
    },
    /// No memory for another key (ENOMEM, ENOBUFS).
    #[error(
        "the kernel has no memory for this on the socket; delete keys that are not needed, or raise net.core.optmem_max; for the data of \
         a restored connection, free memory"
    )]
    NoMemory,
    /// No kernel accepts a key for this network on this socket; the kernel was not asked.
    #[error("Linux takes no key for {remote} on this socket; {advice}")]
    UnusableNetwork {
        /// The network.
        remote: IpCidr,
        /// What to use instead.
        advice: &'static str,
    },
    /// The descriptor is not a TCP socket. MPTCP sockets count as such: they have no TCP-AO.
    #[error(
        "this is not a TCP socket over IPv4 or IPv6 (Multipath TCP has no TCP-AO); make it with IPPROTO_TCP"
    )]
    NotATcpSocket,
    /// Only an established connection, with neither end closing, can be moved.
    #[error(
        "only an established connection can be moved; wait for the handshake, and move it before either end closes"
    )]
    NotEstablished,
    /// Restoring would crash this kernel; it was not asked. Linux 6.17 and later, and 6.12 from 6.12.49 on, restore connections.
    #[error(
        "Linux {kernel} crashes when a connection with TCP-AO is restored; restore it on Linux 6.17 or later, or on 6.12.49 or \
         a later 6.12"
    )]
    CannotRestore {
        /// The kernel's release.
        kernel: String,
    },
    /// The state contradicts itself or does not fit the socket, for this reason.
    #[error("the connection cannot be restored: {0}")]
    NotRestorable(&'static str),
    /// Another program put a key on the socket with an algorithm that Wireseal does not have.
    #[error(
        "the {name} has the algorithm {algorithm}, which Wireseal does not have; delete it, or leave the socket to \
         the program that added it"
    )]
    ForeignAlgorithm {
        /// The key.
        name: KeyName,
        /// The kernel's name of the algorithm.
        algorithm: String,
    },
    /// The kernel refused the call (EINVAL).
    #[error("the kernel refused {call}: {because}")]
    Refused {
        /// The socket option.
        call: &'static str,
        /// The reason, found by looking at the socket afterwards.
        because: EinvalReason,
    },
    /// A [`KeyManager`](crate::KeyManager) has another peer that the same connection could belong to, or that has the same address on another
    /// interface and the same listener, and a key of each has the same SendID or RecvID while both are valid (RFC 5925 §3.1).
    #[error(
        "peer {peer}, key {key_id} and peer {other}, key {other_key_id} have a SendID or RecvID in common, and a connection can \
         belong to either peer, or one listener serves both interfaces; choose other ids, or bind a listener to each interface"
    )]
    PeersClash {
        /// The peer to be set.
        peer: PeerName,
        /// The key id of its key.
        key_id: u64,
        /// The peer that the manager has.
        other: PeerName,
        /// The key id of that peer's key.
        other_key_id: u64,
    },
    /// The same peer is given twice, perhaps in two notations.
    #[error(
        "peer {0} is given twice; give each once, and peers with one link-local address on two links with their interfaces"
    )]
    PeerTwice(PeerName),
    /// A peer is to be [kept](crate::Transaction::keep_peer) that the manager does not have.
    #[error("the key manager has no peer {0} to keep; set it, or leave it out")]
    UnknownPeer(PeerName),
    /// A text names no peer.
    #[error(
        "{text:?} is no peer: {because}; write an address or a network, and after % the name or index of its interface if it is on one alone"
    )]
    NotAPeer {
        /// The text.
        text: String,
        /// Why not.
        because: String,
    },
    /// The peers were changed after the transaction began, so that what it was built on no longer holds. Begin another
    /// ([`KeyManager::transaction`](crate::KeyManager::transaction)).
    #[error(
        "the key manager's peers have changed: this change began at {began}, and {newest} is in force; begin the change anew"
    )]
    ChangedMeanwhile {
        /// The generation when the transaction began.
        began: Generation,
        /// The generation in force.
        newest: Generation,
    },
    /// Only the newest change of a manager's peers can be undone, and before the first change there is none.
    #[error("{generation} cannot be undone: only the newest change can, and {newest} is in force")]
    CannotUndo {
        /// The generation to be undone.
        generation: Generation,
        /// The generation in force.
        newest: Generation,
    },
    /// No key of the peer is valid for sending now.
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
    /// The peer reset the connection before it was attached. The connection no longer has an address, so nobody can tell whose it was, or
    /// whether the data in it was signed. Close it.
    #[error(
        "the connection ended before it was attached, and whose it was is not known; close it without reading from it"
    )]
    Ended,
    /// The manager has no peer with the connection's address, VRF and interface. Close the socket.
    #[error(
        "the key manager has no peer {0} in the socket's VRF and on its interface; set one, or close the socket"
    )]
    NoPeer(IpAddr),
    /// The handshake was signed with a key of another peer, whose network contains the connection's address. Close it.
    #[error("{address} has a key chain of its own, and called with the {key}; close the connection")]
    KeyOfAnotherPeer {
        /// The connection's address.
        address: IpAddr,
        /// The key.
        key: KeyName,
    },
    /// The handshake, or a segment since, was signed with a key that the peer's chain does not accept now: it has left the chain, its secret
    /// was replaced, or its lifetime is over. The connection has waited to be accepted since. Close it without reading from it; the peer can call again.
    #[error(
        "{address} called with the {key}, which its chain does not accept any more; close the connection"
    )]
    KeyNotAccepted {
        /// The connection's address.
        address: IpAddr,
        /// The key.
        key: KeyName,
    },
    /// The socket is attached to this manager already, perhaps through another descriptor.
    #[error("the socket is attached to this key manager already")]
    AlreadyAttached,
    /// The descriptor is not the attached socket's.
    #[error("this is not the socket that was attached; detach that one, and attach this one")]
    AnotherSocket,
    /// The manager has no descriptor of the socket: it was [let go](crate::Attachment::let_go).
    #[error("the key manager has let go of the socket; read its keys with a descriptor of your own")]
    LetGo,
    /// Changing this key failed while the socket was being attached. Earlier changes stay; they let nothing unsigned through.
    #[error("{key}: {error}")]
    Key {
        /// The key.
        key: KeyName,
        /// Why it failed. The message includes it, so it is not the error's source.
        error: Box<Error>,
    },
    /// A socket could not be opened, or accepted no connection.
    #[error("cannot {what} {address}: {error}")]
    Address {
        /// What was to be done: `listen on`, `accept on` or `connect to`.
        what: &'static str,
        /// The listener's address, or the peer's.
        address: SocketAddr,
        /// Why it failed. The message includes it, so it is not the error's source.
        error: io::Error,
    },
    /// A key or a key chain cannot be made.
    #[error(transparent)]
    Keys(#[from] wireseal_keys::Error),
    /// The octets are not an exported connection.
    #[error(transparent)]
    Exported(#[from] ExportedError),
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What is wrong with a key or a key chain, from code that makes them.
impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Keys(problem.into())
    }
}

/// What is wrong with a secret, an id or an algorithm, from code that makes MKTs.
impl From<MktError> for Error {
    fn from(error: MktError) -> Self {
        Self::Keys(error.into())
    }
}

impl Error {
    /// For `map_err`; `what` and `address` are those of [`Error::Address`].
    pub(crate) fn at(what: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |error| Self::Address { what, address, error }
    }
}

/// Why the kernel refused a call with EINVAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EinvalReason {
    /// A listening socket has neither current nor rnext key.
    #[error("a listening socket has neither current nor rnext key; choose them on the accepted socket")]
    Listening,
    /// The key is not for the peer that the socket is connected to.
    #[error("the socket is connected to {got}, and the key is for {expected}")]
    AnotherPeer {
        /// The peers that the key is for.
        expected: IpCidr,
        /// The socket's peer.
        got: IpAddr,
    },
    /// The index is not that of a VRF device, or the socket is connected and not bound to it.
    #[error(
        "interface {0} is not a VRF device, or the socket is connected and was not bound to it before; give the index of the VRF device \
         itself, and bind the socket before it connects"
    )]
    NotThisVrf(u32),
    /// None of the known reasons.
    #[error("invalid argument (EINVAL); see the kernel's log")]
    Unknown,
}

/// Why octets are not an [`Exported`](crate::Exported).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportedError {
    /// This version of the crate does not know the encoding of the octets.
    #[error("exported connection in the unknown form {0}")]
    Version(u8),
    /// The octets end inside the field.
    #[error("exported connection with {got} octets of {field} instead of {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// How many octets it has.
        expected: usize,
        /// How many octets are left for it.
        got: usize,
    },
    /// The field is a number of octets that is larger than this processor can address.
    #[error("exported connection with {got} for {field}, more than this processor can address")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// The number.
        got: u64,
    },
    /// An octet that should be 0 or 1 is neither.
    #[error("exported connection with {got} for {field}, which is 0 or 1")]
    Flag {
        /// The field.
        field: &'static str,
        /// The octet.
        got: u8,
    },
    /// The last field is not TCP-AO's state.
    #[error("exported connection with a bad authentication: {0}")]
    Authentication(#[from] StateError),
}

fn no_such_key(send_id: &Option<KeyId>, recv_id: &Option<KeyId>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the socket has no key with")?;
    match (send_id, recv_id) {
        (Some(send), Some(recv)) => write!(f, " SendID {send} and RecvID {recv}")?,
        (Some(send), None) => write!(f, " SendID {send}")?,
        (None, Some(recv)) => write!(f, " RecvID {recv}")?,
        (None, None) => f.write_str(" these ids")?,
    }
    f.write_str("; one to be deleted is gone already, and one to be used has to be added first")
}

#[cfg(test)]
mod tests {
    use wireseal_keys::{Key, KeyChain};
    use wireseal_tcp_ao::{MasterKey, Mkt};

    use super::*;

    /// As a daemon builds a chain: every mistake is this crate's error.
    fn built(secret: &[u8], send_id: u8, preferred: u64) -> Result<KeyChain, Error> {
        if secret.is_empty() {
            return Err(Problem::NoKeys.into());
        }
        let mkt = Mkt::new(KeyId(send_id), KeyId(1), TcpAoAlgorithm::HmacSha1, MasterKey::new(secret)?)?;
        Ok(KeyChain::new("core", vec![Key::new(1, mkt)])?.with_preferred(preferred)?)
    }

    #[test]
    fn what_is_wrong_with_keys_is_this_crates_error() {
        assert!(built(b"a secret", 1, 1).is_ok());
        for (chain, expected) in [
            (built(b"", 1, 1), "there are no keys"),
            (built(&[7; 81], 1, 1), "master key has 81 octets, at most 80 are possible"),
            (built(b"a secret", 1, 2), "key chain \"core\", preferred: no key of the chain has this key id"),
        ] {
            let error = chain.unwrap_err();
            assert!(matches!(error, Error::Keys(_)));
            assert_eq!(error.to_string(), expected);
        }
    }
}
