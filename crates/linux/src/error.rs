//! What went wrong on a socket, whose fault it is, and what to do about it.

use std::fmt;
use std::io;
use std::net::IpAddr;

use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::KeyId;

use crate::key::KeyName;

/// What is said of a kernel without TCP-AO, by [`Error::NotSupported`] and by [`Support`](crate::Support).
pub(crate) const NO_TCP_AO: &str = "this kernel has no TCP-AO (it needs Linux 6.7 or later with CONFIG_TCP_AO); \
     use a userspace transport (wireseal-smoltcp or wireseal_tcp_ao::shim)";

/// Why a call on a socket failed. Unless it says otherwise the socket is as it was.
///
/// The crate's [front page](crate#errors) has them with their errno.
#[derive(Debug)]
pub enum Error {
    /// This kernel has no TCP-AO (ENOPROTOOPT).
    NotSupported,
    /// Linux has no such algorithm in any version; found out before the kernel was asked.
    AlgorithmNotInLinux(TcpAoAlgorithm),
    /// This kernel was built without the algorithm (ENOENT of `TCP_AO_ADD_KEY`).
    AlgorithmMissing(TcpAoAlgorithm),
    /// Another key of the socket, for some of the same peers, has one of these ids (EEXIST; RFC 5925 §3.1).
    IdInUse {
        /// The SendID that was asked for.
        send_id: KeyId,
        /// The RecvID that was asked for.
        recv_id: KeyId,
    },
    /// The socket has a TCP-MD5 key for some of the same peers (EKEYREJECTED).
    Md5KeyInTheWay,
    /// The socket has a TCP-AO key for some of the same peers, or requires TCP-AO (EKEYREJECTED for a TCP-MD5 key).
    AoKeyInTheWay,
    /// The MAC does not fit a SYN beside the other options (EMSGSIZE).
    MacTooLong {
        /// Octets of the MAC that was asked for.
        octets: usize,
    },
    /// The socket has no key with these ids (ENOENT).
    NoSuchKey {
        /// The SendID, unless only a RecvID was asked for.
        send_id: Option<KeyId>,
        /// The RecvID, unless only a SendID was asked for.
        recv_id: Option<KeyId>,
    },
    /// The socket has no TCP-MD5 key for these peers (ENOENT).
    NoSuchMd5Key(IpCidr),
    /// The key is current or rnext key, and no successor was named (EBUSY). The peer may have asked for it in the
    /// meantime. What successor was named [has taken over](crate::TcpAoSocket::delete_key) none the less.
    KeyInUse(KeyName),
    /// The connection was opened without TCP-AO, and it is too late now (EISCONN).
    Connected,
    /// The process lacks a capability (EPERM).
    NoPermission {
        /// What it is needed for.
        what: &'static str,
    },
    /// No memory for another key (ENOMEM, ENOBUFS).
    NoMemory,
    /// Linux cannot give 0.0.0.0/0 to an IPv6 socket; found out before the kernel was asked.
    AnyIpv4OnIpv6Socket,
    /// Linux takes no network at address zero but that of all addresses; found out before the kernel was asked.
    NetworkAtZero(IpCidr),
    /// An IPv4 socket has no IPv6 peers; found out before the kernel was asked.
    AnotherFamily(IpCidr),
    /// The descriptor is no TCP socket (MPTCP, which has no TCP-AO, included).
    NotATcpSocket,
    /// Only an established connection, with neither end closing, can be moved.
    NotEstablished,
    /// What was restored and where it was to go do not fit each other; see the reason.
    NotRestorable(&'static str),
    /// Another program put a key on the socket with an algorithm that Wireseal does not have.
    ForeignAlgorithm {
        /// The key.
        name: KeyName,
        /// The kernel's name of the algorithm.
        algorithm: String,
    },
    /// The kernel refused what was asked (EINVAL).
    Refused {
        /// The call.
        call: Call,
        /// The reason, found by looking at the socket afterwards.
        because: Refusal,
    },
    /// Anything else that the operating system says.
    Io(io::Error),
}

/// A call that the kernel can refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// `TCP_AO_ADD_KEY`
    AddKey,
    /// `TCP_AO_DEL_KEY`
    DeleteKey,
    /// `TCP_AO_GET_KEYS`
    Keys,
    /// `TCP_AO_INFO`, reading
    Info,
    /// `TCP_AO_INFO`, writing
    SetInfo,
    /// `TCP_MD5SIG_EXT` with a key
    SetMd5Key,
    /// `TCP_MD5SIG_EXT` without a key
    DeleteMd5Key,
    /// One of `TCP_REPAIR`'s
    Repair,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddKey => "TCP_AO_ADD_KEY",
            Self::DeleteKey => "TCP_AO_DEL_KEY",
            Self::Keys => "TCP_AO_GET_KEYS",
            Self::Info => "TCP_AO_INFO (reading)",
            Self::SetInfo => "TCP_AO_INFO (writing)",
            Self::SetMd5Key => "TCP_MD5SIG_EXT (adding)",
            Self::DeleteMd5Key => "TCP_MD5SIG_EXT (deleting)",
            Self::Repair => "TCP_REPAIR",
        })
    }
}

/// Why the kernel refused a call with EINVAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A listening socket has neither current nor rnext key.
    Listening,
    /// The socket is connected to a peer that the key is not for.
    AnotherPeer {
        /// The peers that the key is for.
        remote: IpCidr,
        /// The socket's.
        peer: IpAddr,
    },
    /// The index is no VRF device's, or the socket is connected and not bound to it.
    NotThisVrf(u32),
    /// None of the known reasons.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSupported => f.write_str(NO_TCP_AO),
            Self::AlgorithmNotInLinux(algorithm) => write!(
                f,
                "Linux has no {algorithm}; configure HMAC-SHA-1-96, AES-128-CMAC-96 or hmac(sha256), or use a \
                 userspace transport (wireseal-smoltcp or wireseal_tcp_ao::shim)"
            ),
            Self::AlgorithmMissing(algorithm) => write!(
                f,
                "this kernel was built without {algorithm}; configure another algorithm, or load or enable the kernel's"
            ),
            Self::IdInUse { send_id, recv_id } => write!(
                f,
                "SendID {send_id} or RecvID {recv_id} belongs to another key on the socket for the same peers; \
                 delete that key first, or choose other ids"
            ),
            Self::Md5KeyInTheWay => {
                f.write_str("the socket has a TCP-MD5 key for the same peers; delete it first (delete_md5_key)")
            }
            Self::AoKeyInTheWay => f.write_str(
                "the socket has a TCP-AO key for the same peers, or requires TCP-AO; delete the key or stop requiring \
                 TCP-AO first (delete_key, set_required)",
            ),
            Self::MacTooLong { octets } => {
                write!(f, "a MAC of {octets} octets does not fit a SYN's options; configure at most 16")
            }
            Self::NoSuchKey { send_id, recv_id } => {
                f.write_str("the socket has no key with")?;
                let ids = [("SendID", send_id), ("RecvID", recv_id)];
                let ids = ids.into_iter().filter_map(|(word, id)| Some((word, (*id)?)));
                for (index, (word, id)) in ids.enumerate() {
                    write!(f, "{} {word} {id}", if index == 0 { "" } else { " and" })?;
                }
                f.write_str("; add it first (add_key), or read what there is (keys)")
            }
            Self::NoSuchMd5Key(remote) => write!(
                f,
                "the socket has no TCP-MD5 key for {remote}; name the network and VRF that it was added with"
            ),
            Self::KeyInUse(name) => write!(
                f,
                "the {name} is current or rnext key; name its successor, or try again after the peer has switched"
            ),
            Self::Connected => f.write_str(
                "the connection was opened without TCP-AO, which cannot be added to it; put the keys on the socket \
                 before it connects, or on the listening socket",
            ),
            Self::NoPermission { what } => write!(
                f,
                "{what} needs CAP_NET_ADMIN over the network namespace; run with that capability (not on a listening \
                 socket)"
            ),
            Self::NoMemory => f.write_str(
                "the kernel has no memory for this on the socket; delete keys that are not needed, or raise \
                 net.core.optmem_max",
            ),
            Self::AnyIpv4OnIpv6Socket => f.write_str(
                "an IPv6 socket cannot have a key for 0.0.0.0/0; use an IPv4 socket, or name the peers' networks",
            ),
            Self::NetworkAtZero(remote) => write!(
                f,
                "Linux takes no key for {remote}; name a network that does not start at address zero, or all addresses"
            ),
            Self::AnotherFamily(remote) => {
                write!(f, "an IPv4 socket cannot have a key for {remote}; use an IPv6 socket")
            }
            Self::NotATcpSocket => f.write_str(
                "this is not a TCP socket over IPv4 or IPv6 (Multipath TCP has no TCP-AO); make it with IPPROTO_TCP",
            ),
            Self::NotEstablished => f.write_str(
                "only an established connection can be moved; wait for the handshake, and move it before either end \
                 closes",
            ),
            Self::NotRestorable(reason) => write!(f, "the connection cannot be restored: {reason}"),
            Self::ForeignAlgorithm { name, algorithm } => write!(
                f,
                "the {name} has the algorithm {algorithm}, which Wireseal does not have; delete it, or leave the \
                 socket to the program that added it"
            ),
            Self::Refused { call, because } => write!(f, "the kernel refused {call}: {because}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening => f.write_str(
                "a listening socket has neither current nor rnext key; choose them on the accepted socket",
            ),
            Self::AnotherPeer { remote, peer } => {
                write!(f, "the socket is connected to {peer}; a key for {remote} is of no use there")
            }
            Self::NotThisVrf(index) => write!(
                f,
                "interface {index} is no VRF device, or the socket is connected and not bound to it; bind it first"
            ),
            Self::Unknown => f.write_str("invalid argument (EINVAL); see the kernel's log"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
