//! Why a call on a socket failed, and what to do about it.

use std::fmt;
use std::io;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::KeyId;

use crate::key_name::KeyName;

/// How [`Error::NotSupported`] and [`NetworkCounters`](crate::NetworkCounters) describe a kernel without TCP-AO.
pub(crate) const NO_TCP_AO: &str = "this kernel has no TCP-AO (it needs Linux 6.7 or later with CONFIG_TCP_AO); \
     use a userspace transport (wireseal-smoltcp, wireseal_tcp_ao::shim, or the program `wireseal gateway`)";

/// Why a call on a socket failed. The socket is unchanged unless a variant says otherwise.
///
/// The [front page](crate#errors) lists them with their errno and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This kernel has no TCP-AO (ENOPROTOOPT).
    #[error("{NO_TCP_AO}")]
    NotSupported,
    /// No Linux has the algorithm; the kernel was not asked.
    #[error(
        "Linux has no {0}; configure HMAC-SHA-1-96, AES-128-CMAC-96 or hmac(sha256), or use a userspace transport \
         (wireseal-smoltcp, wireseal_tcp_ao::shim, or the program `wireseal gateway`)"
    )]
    AlgorithmNotInLinux(TcpAoAlgorithm),
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
    /// The socket has a TCP-MD5 key for some of the same peers, or has any and is to require TCP-AO (EKEYREJECTED).
    #[error(
        "the socket has a TCP-MD5 key for the same peers, or requires TCP-AO of all peers while it has one; delete that key first \
         (delete_md5_key), or do not require TCP-AO (set_required)"
    )]
    Md5KeyInTheWay,
    /// The socket has a TCP-AO key for some of the same peers, or requires TCP-AO (EKEYREJECTED for a TCP-MD5 key).
    #[error(
        "the socket has a TCP-AO key for the same peers, or requires TCP-AO; delete the key or stop requiring \
         TCP-AO first (delete_key, set_required)"
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
        /// The SendID, if it was looked for.
        send_id: Option<KeyId>,
        /// The RecvID, if it was looked for.
        recv_id: Option<KeyId>,
    },
    /// The socket has no TCP-MD5 key for this network (ENOENT).
    #[error("the socket has no TCP-MD5 key for {0}; give the network and VRF that it was added with")]
    NoSuchMd5Key(IpCidr),
    /// The key is the current or rnext key and no successor was given (EBUSY). The peer may have asked for it in the
    /// meantime. A successor that was given [has taken over](crate::TcpAoSocket::delete_key) all the same.
    #[error(
        "the {0} is the current or rnext key; give another key as its successor, or try again after the peer has switched. The last key \
         of a connection stays until that is closed"
    )]
    KeyInUse(KeyName),
    /// Linux cannot delete the key, because it is for a VRF (ENOENT): `TCP_AO_DEL_KEY` of Linux 6.18 looks for every key among those
    /// without a VRF.
    #[error(
        "Linux does not delete the {0}, which stays in force; close the socket, and open another without that key (a socket that is \
         bound to the VRF needs no key for a VRF, and Linux deletes such keys)"
    )]
    KeyStays(KeyName),
    /// The connection was opened without TCP-AO; keys come too late (EISCONN).
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
        /// What needs it.
        what: &'static str,
    },
    /// No memory for another key (ENOMEM, ENOBUFS).
    #[error(
        "the kernel has no memory for this on the socket; delete keys that are not needed, or raise net.core.optmem_max; for the data of \
         a restored connection, free memory"
    )]
    NoMemory,
    /// No kernel takes a key for this network on this socket; the kernel was not asked.
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
    /// This kernel would crash; it was not asked. Linux 6.17 and later, and 6.12 from 6.12.49 on, restore connections.
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
    /// Any other error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why the kernel refused a call with EINVAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
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

fn no_such_key(send_id: &Option<KeyId>, recv_id: &Option<KeyId>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("the socket has no key with")?;
    match (send_id, recv_id) {
        (Some(send), Some(recv)) => write!(f, " SendID {send} and RecvID {recv}")?,
        (Some(send), None) => write!(f, " SendID {send}")?,
        (None, Some(recv)) => write!(f, " RecvID {recv}")?,
        (None, None) => f.write_str(" these ids")?,
    }
    f.write_str("; one to be deleted is gone already, and one to be used has to be added first (add_key); keys lists them")
}
