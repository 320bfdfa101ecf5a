//! TCP-AO (RFC 5925) on Linux's own TCP sockets, from Linux 6.7: keys, counters, key rollover, and moving live connections. It
//! works on any socket that has a descriptor: std's, socket2's, tokio's.
//!
//! # Example
//!
//! Peers with key chains, on sockets whose keys are managed:
//!
//! ```no_run
//! use std::fs;
//!
//! use wireseal_linux::key_chain::{Key, KeyChain};
//! use wireseal_linux::{KeyId, KeyManager, MasterKey, Mkt, PeerName, TcpAoAlgorithm, TcpAoListener, TcpAoStream};
//!
//! let secret = MasterKey::new(fs::read_to_string("/etc/bgpd/secret")?.trim().as_bytes())?;
//! let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, secret)?;
//! let peers = KeyManager::default();
//! peers.set_peer(PeerName::new("192.0.2.0/24".parse()?), KeyChain::new("core", vec![Key::new(1, mkt)])?)?;
//!
//! let listener = TcpAoListener::bind("0.0.0.0:179".parse()?, &peers)?;
//! let (from_peer, peer) = listener.accept()?;
//! let to_peer = TcpAoStream::connect("192.0.2.7:179".parse()?, &peers)?;
//! println!("{peer}: {:?}", from_peer.attachment().state());
//! # drop(to_peer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which call do I need?
//!
//! | I want to | call |
//! |---|---|
//! | know whether this kernel has TCP-AO, and with which algorithms | [`probe`] |
//! | accept and open connections whose keys follow key chains | [`TcpAoListener::bind`], [`TcpAoStream::connect`], both over a [`KeyManager`] |
//! | choose the local address or the VRF of a connection | [`TcpAoStream::connect_from`], [`TcpAoListener::from_socket`] |
//! | end sessions whose keys are over | [`Attachment::state`], or with tokio `Attachment::expired` |
//! | protect a listening socket | before it listens, [`TcpAoSocket::add_key`] for each peer, and [`TcpAoSocket::set_required`] to refuse all others |
//! | protect a connection | [`TcpAoSocket::add_key`] on the socket before it connects |
//! | install and remove key chains' keys on schedule, for one peer or thousands | [`KeyManager`] |
//! | do that by hand | [`TcpAoSocket::add_key`], [`TcpAoSocket::set_rnext_key`], and after the peer has switched [`TcpAoSocket::delete_key`] |
//! | see the keys, which are in use, and the counters | [`TcpAoSocket::keys`], [`TcpAoSocket::info`], [`NetworkCounters::read`] |
//! | migrate from TCP-MD5 to TCP-AO peer by peer | [`TcpAoSocket::set_md5_key`], [`TcpAoSocket::delete_md5_key`] on the listening socket |
//! | move a live connection to another process or host | [`TcpAoSocket::freeze`], [`Frozen::export`], [`Exported::to_octets`], [`restore`] |
//!
//! # Keys by hand
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
//! // The listening side: this peer must sign, and no other gets in. Put keys on the socket before it listens, because a peer that
//! // connects earlier gets in unsigned. std's `TcpListener::bind` is too early.
//! let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
//! socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
//! let ao = TcpAoSocket::new(&socket);
//! ao.add_key(&SocketKey::new("192.0.2.2/32".parse()?, &mkt))?;
//! ao.set_required(true)?;
//! socket.listen(16)?;
//! let (connection, peer) = TcpListener::from(socket).accept()?;
//! println!("{peer}: {:?}", TcpAoSocket::new(&connection).info()?);
//!
//! // The connecting side: put keys on the socket before it connects.
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
//! # Without TCP-AO in the kernel
//! Every call fails with [`Error::NotSupported`], and nothing is ever unsigned by default. A daemon that has to go on with such a
//! peer says so in its configuration, peer by peer, and uses an ordinary socket for it; or it runs TCP-AO in userspace, with
//! [`wireseal_tcp_ao::shim`] below a TCP stack of its own. [`probe`] tells before the first peer is configured.
//!
//! # Addresses
//! A key is for a network of peers, at any port. For its IPv4 peers an IPv6 socket takes IPv4 networks and returns them as such;
//! `::/0` does not include them, and only an IPv4 socket takes 0.0.0.0/0. A connected socket takes keys for its peer only. If no
//! key on a socket is for the peer, connecting fails with EKEYREJECTED.
//!
//! # Errors
//! Each message says what to do. [`AnyError`] is for callers that want one type for all: `?` turns every error here into it.
//!
//! | error | errno | what happened | what to do |
//! |---|---|---|---|
//! | [`Error::NotSupported`] | ENOPROTOOPT | the kernel has no TCP-AO | a userspace transport: `wireseal-smoltcp` or [`wireseal_tcp_ao::shim`] |
//! | [`Error::AlgorithmNotInLinux`] | before the call | no Linux has the algorithm | another algorithm, or a userspace transport |
//! | [`Error::AlgorithmMissing`] | ENOENT | this kernel lacks the algorithm | another algorithm or kernel |
//! | [`Error::IdInUse`] | EEXIST | SendID or RecvID belong to another key for the peer | delete that key first, or choose other ids |
//! | [`Error::Md5KeyInTheWay`] | EKEYREJECTED | the socket has a TCP-MD5 key for the peer, or for another and is to require TCP-AO | delete it first |
//! | [`Error::AoKeyInTheWay`] | EKEYREJECTED | the socket has a TCP-AO key for the peer | delete it first |
//! | [`Error::MacTooLong`] | EMSGSIZE | the MAC does not fit into a SYN | at most 16 octets |
//! | [`Error::NoSuchKey`] | ENOENT | no key has the id | to use it, add it first; to delete it, nothing: it is gone |
//! | [`Error::KeyStays`] | ENOENT | Linux 6.18 deletes no key for a VRF | close the socket; bind it to the VRF, with keys for any |
//! | [`Error::NoSuchMd5Key`] | ENOENT | no TCP-MD5 key is for the network | give the network as it was added |
//! | [`Error::KeyInUse`] | EBUSY | the key is the current or rnext key | give a successor, or wait for the peer |
//! | [`Error::Connected`] | EISCONN | the connection was opened without TCP-AO | add keys before it connects |
//! | [`Error::NoPermission`] | EPERM | a capability is missing | CAP_NET_ADMIN |
//! | [`Error::NoMemory`] | ENOMEM, ENOBUFS | too many keys for the socket | fewer keys, or a larger `net.core.optmem_max` |
//! | [`Error::UnusableNetwork`] | before the call | no kernel takes the network on this socket | another network, or a socket of the other family |
//! | [`Error::NotATcpSocket`] | ENOPROTOOPT, EOPNOTSUPP, ENOTSOCK | UDP, Unix, MPTCP, a file | a TCP socket |
//! | [`Error::CannotRestore`] | before the call | this kernel would crash | Linux 6.17 or later, or 6.12.49 or a later 6.12 |
//! | [`Error::NotEstablished`], [`Error::NotRestorable`] | before the call | the connection cannot be moved | see the message |
//! | [`Error::ForeignAlgorithm`] | none | another program's key | leave the socket to it, or delete the key |
//! | [`Error::Refused`] | EINVAL | this socket cannot do that | see its [`EinvalReason`] |
//! | [`Error::Io`] | any other | see the errno | |
//!
//! # What to know about Linux
//! * Kernels differ, if built with `CONFIG_TCP_AO` (Debian's are from 6.18 on). Tests run on 6.18 and 7.3.
//!
//!   | Linux | TCP-AO, [`Frozen::export`] | [`restore`] |
//!   |---|---|---|
//!   | before 6.7 | no | no |
//!   | 6.7 to 6.12.48, 6.13 to 6.16 | yes | no: it would crash the kernel, so [`Error::CannotRestore`] |
//!   | 6.12.49 and later 6.12, 6.17 and later | yes | yes |
//! * A connection that Linux accepts with TCP-AO has either timestamps or selective acknowledgments: the options do not hold both
//!   beside AO.
//! * `TCP_AO_INFO` always writes all of its flags. [`TcpAoSocket`] reads them first, so that it changes only what you ask for.
//! * A connection gets a copy of the listening socket's keys for its address when it is accepted. Later changes to the listening
//!   socket do not reach it.
//! * Linux 6.18 does not delete keys for a VRF, 7.3 does. Keys on a socket that is bound to the VRF need not be for one.
//! * If keys for a network and for an address within it are on a listening socket, the KeyID decides between them, not the length
//!   of the prefix.
//! * Linux counts segments that it cannot verify on the socket they were for, and in the network namespace.
//!
//! # What is wiped
//! Secrets are wiped on drop, and so are the structs in which they go to the kernel and come back. Not wiped: what moving a value leaves
//! behind, as [`wireseal_tcp_ao`](wireseal_tcp_ao#what-is-wiped) says. A [`KeyManager`] keeps the key chains that it was given, because it
//! needs their secrets again at every rollover; [`TcpAoSocket::keys`] copies secrets from the kernel for as long as you keep its list.
//! The kernel keeps its keys until they are deleted, or the socket is closed.
//!
//! # Features
//! * `tokio`: an asynchronous form of each call that can wait in the kernel: [`TcpAoListener::bind_async`], `accept`,
//!   [`TcpAoStream::connect_async`], [`KeyManager::attach_async`]; [`Attachment::expired`]; and [`KeyManager::run_reporting`], a
//!   background task that installs and removes keys on schedule.
//! * `tracing`: logs what the background does and which segments it sees refused.
//! * `toml`, `json`: key chains from files. `serde`: key chains as a part of other configuration files, [`PeerName`], and the ids and
//!   counters of `wireseal-tcp-ao`.
#![cfg(target_os = "linux")]

mod any_error;
mod convert;
mod errno;
mod error;
mod info;
mod key;
mod key_name;
mod log;
mod manager;
mod md5;
mod net;
mod netstat;
mod network;
mod peer_name;
mod probe;
mod repair;
mod socket;
mod sys;

pub use cidr::IpCidr;
pub use wireseal_algorithms::TcpAoAlgorithm;
pub use wireseal_keys as key_chain;
pub use wireseal_tcp_ao::{Counters, KeyId, MasterKey, Mkt, MktError, OptionCoverage};

pub use any_error::AnyError;
pub use error::{EinvalReason, Error};
pub use info::Info;
pub use key::{InstalledKey, SocketKey, Successor};
pub use key_name::KeyName;
pub use manager::{
    Action, Attachment, KeyManager, ManagerError, Origin, PeerState, Refused, SocketKind, SocketReport,
    SocketState, StepReport,
};
pub use net::{Local, TcpAoListener, TcpAoStream};
pub use netstat::NetworkCounters;
pub use peer_name::PeerName;
pub use probe::{Support, probe};
pub use repair::{Exported, ExportedError, Frozen, TcpState, Window, WindowScale, choose_isn, restore};
pub use socket::TcpAoSocket;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
