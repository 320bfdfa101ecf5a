//! TCP-AO (RFC 5925) on Linux's own TCP sockets, of Linux 6.7 and later: keys, counters, rolling keys over, and moving live
//! connections. It works on any socket that has a descriptor: std's, socket2's, tokio's.
//!
//! # Which call do I need?
//!
//! | I want to | call |
//! |---|---|
//! | know whether this kernel has TCP-AO, and with which algorithms | [`probe`] |
//! | protect a listening socket | before it listens, [`TcpAoSocket::add_key`] for each peer, and [`TcpAoSocket::set_required`] to refuse all others |
//! | protect a connection | [`TcpAoSocket::add_key`] on the socket before it connects |
//! | have a key chain's lifetimes carried out | [`KeyManager`] |
//! | do that by hand | [`TcpAoSocket::add_key`], [`TcpAoSocket::set_rnext_key`], and when the peer has switched [`TcpAoSocket::delete_key`] |
//! | see keys, what is in use, and what was counted | [`TcpAoSocket::keys`], [`TcpAoSocket::info`], [`NetworkCounters::read`] |
//! | move from TCP-MD5 to TCP-AO peer by peer | [`TcpAoSocket::set_md5_key`], [`TcpAoSocket::delete_md5_key`] on the listening socket |
//! | move a live connection to another process or host | [`TcpAoSocket::freeze`], [`Frozen::export`], [`Frozen::abandon`], [`restore`] |
//!
//! # Example
//!
//! ```no_run
//! use std::net::{SocketAddr, TcpListener, TcpStream};
//!
//! use socket2::{Domain, Socket, Type};
//! use wireseal_algorithms::TcpAoAlgorithm;
//! use wireseal_linux::{SocketKey, TcpAoSocket};
//! use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};
//!
//! let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(b"first-secret")?)?;
//!
//! // The listening side: this peer must sign, and nobody else gets in. Keys go on the socket before it listens, since whoever
//! // connects in between is let in unsigned; std's `TcpListener::bind` leaves no time for that.
//! let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
//! socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
//! let ao = TcpAoSocket::new(&socket);
//! ao.add_key(&SocketKey::new("192.0.2.2/32".parse()?, &mkt))?;
//! ao.set_required(true)?;
//! socket.listen(16)?;
//! let (connection, peer) = TcpListener::from(socket).accept()?;
//! println!("{peer}: {:?}", TcpAoSocket::new(&connection).info()?);
//!
//! // The connecting side: keys go on the socket before it connects.
//! let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
//! TcpAoSocket::new(&socket).add_key(&SocketKey::new("192.0.2.1/32".parse()?, &mkt))?;
//! socket.connect(&"192.0.2.1:179".parse::<SocketAddr>()?.into())?;
//! let connection = TcpStream::from(socket);
//! for key in TcpAoSocket::new(&connection).keys()? {
//!     println!("{}: {} segments, in use: {}", key.name, key.good, key.is_current);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Addresses
//! A key is for a network of peers, at any port. An IPv6 socket takes IPv4 networks for the IPv4 peers it serves, and gives
//! them back as IPv4 networks; `::/0` does not include them, and 0.0.0.0/0 only an IPv4 socket can have. A connected socket
//! takes keys for its peer only. If none of its keys is for the peer, connecting fails with EKEYREJECTED.
//!
//! # Errors
//! Each says in its message what to do.
//!
//! | error | errno | what happened | what to do |
//! |---|---|---|---|
//! | [`Error::NotSupported`] | ENOPROTOOPT | the kernel has no TCP-AO | a userspace transport: `wireseal-smoltcp` or [`wireseal_tcp_ao::shim`] |
//! | [`Error::AlgorithmNotInLinux`] | before the call | no Linux has the algorithm | another algorithm, or a userspace transport |
//! | [`Error::AlgorithmMissing`] | ENOENT | this kernel lacks the algorithm | another algorithm, or another kernel |
//! | [`Error::IdInUse`] | EEXIST | SendID or RecvID belong to another key for the peer | delete that one first, or other ids |
//! | [`Error::Md5KeyInTheWay`] | EKEYREJECTED | a TCP-MD5 key is there for the peer | delete it first |
//! | [`Error::AoKeyInTheWay`] | EKEYREJECTED | the same the other way round | delete the TCP-AO key first |
//! | [`Error::MacTooLong`] | EMSGSIZE | the MAC does not fit a SYN | at most 16 octets |
//! | [`Error::NoSuchKey`] | ENOENT | no key has the id | add it first |
//! | [`Error::NoSuchMd5Key`] | ENOENT | no TCP-MD5 key is for the network | name it as it was added |
//! | [`Error::KeyInUse`] | EBUSY | the key is current or rnext key | name a successor, or wait for the peer |
//! | [`Error::Connected`] | EISCONN | the connection was opened without TCP-AO | add keys before it connects |
//! | [`Error::NoPermission`] | EPERM | a capability is missing | CAP_NET_ADMIN |
//! | [`Error::NoMemory`] | ENOMEM, ENOBUFS | too many keys for the socket | fewer keys, or a larger `net.core.optmem_max` |
//! | [`Error::AnyIpv4OnIpv6Socket`], [`Error::NetworkAtZero`], [`Error::AnotherFamily`] | before the call | no kernel takes the network | another network, or a socket of the other family |
//! | [`Error::NotATcpSocket`] | ENOPROTOOPT, EOPNOTSUPP, ENOTSOCK | UDP, Unix, MPTCP, a file | a TCP socket |
//! | [`Error::NotEstablished`], [`Error::NotRestorable`] | before the call | the connection cannot be moved | see the message |
//! | [`Error::ForeignAlgorithm`] | none | another program's key | leave the socket to it, or delete the key |
//! | [`Error::Refused`] | EINVAL | what was asked is impossible on this socket | see its [`Refusal`] |
//! | [`Error::Io`] | any other | the operating system says so | |
//!
//! # Linux's ways
//! * A connection that Linux accepts with TCP-AO has either timestamps or selective acknowledgments, not both: they would
//!   not fit the options together with AO.
//! * `TCP_AO_INFO` writes all of its flags. [`TcpAoSocket`] reads before it writes, so that one change is one change.
//! * A listening socket's keys are copied to a connection as it is accepted. A key that is changed on the listening socket
//!   later does not change on the connection.
//! * Linux counts segments it cannot verify on the socket that would have taken them, and over the network namespace.
//!
//! # Features
//! * `tokio`: a task that runs a [`KeyManager`], and [`Managed`] sockets of tokio's.
#![cfg(target_os = "linux")]

mod address;
mod compose;
mod errno;
mod error;
mod info;
mod key;
mod layout;
mod manager;
mod md5;
mod netstat;
mod probe;
mod repair;
mod socket;
mod sys;

pub use error::{Call, Error, Refusal};
pub use info::Info;
pub use key::{InstalledKey, KeyName, SocketKey, Successor};
pub use manager::{Attachment, KeyManager, Managed, ManagerError, SocketReport, StepReport, plan};
pub use netstat::NetworkCounters;
pub use probe::{Support, probe};
pub use repair::{Exported, Frozen, TcpState, Window, WindowScale, choose_isn, restore};
pub use socket::TcpAoSocket;
