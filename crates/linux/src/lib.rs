//! TCP-AO (RFC 5925) on Linux's own TCP sockets, Linux 6.7 or later: keys, counters, key rollover, and moving live connections. It
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
//! use wireseal_linux::{KeyId, KeyManager, MasterKey, Mkt, TcpAoAlgorithm, TcpAoListener, TcpAoStream};
//!
//! let secret = MasterKey::new(fs::read_to_string("/etc/bgpd/secret")?.trim().as_bytes())?;
//! let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, secret)?;
//! let peers = KeyManager::default();
//! peers.set_peer("192.0.2.0/24".parse()?, KeyChain::new("core", vec![Key::new(1, mkt)])?)?;
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
//! | accept and open connections whose keys follow key chains | [`TcpAoListener::bind`], [`TcpAoStream::connect`], both with a [`KeyManager`] |
//! | choose the local address or the VRF of a connection | [`TcpAoStream::connect_from`], [`TcpAoListener::from_socket`] |
//! | end sessions whose keys have expired | [`Attachment::state`], or with tokio `Attachment::expired` |
//! | install and remove key chains' keys on sockets of my own | [`KeyManager::attach`], then [`KeyManager::spawn`] or [`KeyManager::step_due`] |
//! | do that in an event loop (epoll, libevent, mio) | [`KeyManager::step_timer`] |
//! | change the keys of many peers at once, and see beforehand what that does | [`KeyManager::transaction`], [`Transaction::dry_run`], [`Transaction::commit`] |
//! | know which sockets have the new keys and which peers use them, or wait for it | [`KeyManager::progress`], [`KeyManager::wait_until`], or with tokio `KeyManager::reached` |
//! | go back to the keys from before | [`KeyManager::undo`] |
//! | decide what happens to a peer that does not follow | [`KeyManager::set_policy`] |
//! | serve peers of one listener with TCP-AO, TCP-MD5 and nothing at once | [`KeyManager::attach_mixed`] |
//! | keep a peer out that has lost its keys | [`KeyManager::block_peer`] |
//! | reset a connection, signed | [`TcpAoSocket::reset`] |
//! | do that on another program's sockets, without keeping them open | [`KeyManager::attach_accepted`], [`Attachment::let_go`], [`KeyManager::step_with`] |
//! | manage keys by hand | [`TcpAoSocket::add_key`], [`TcpAoSocket::set_rnext_key`], and after the peer has switched [`TcpAoSocket::delete_key`] |
//! | see the keys, which of them are in use, and the counters | [`TcpAoSocket::keys`], [`TcpAoSocket::info`], [`NetworkCounters::read`] |
//! | see the keys of an attached socket and their counters, without their secrets | [`Attachment::keys`] |
//! | see the keys on another program's socket, without their secrets | [`TcpAoSocket::seen_keys`] |
//! | know whether a device is in a VRF | [`vrf_of_device`] |
//! | migrate from TCP-MD5 to TCP-AO peer by peer | [`TcpAoSocket::set_md5_key`], [`TcpAoSocket::delete_md5_key`] on the listening socket |
//! | move a live connection to another process or host | [`TcpAoSocket::freeze`], [`Frozen::export`], [`Exported::to_octets`], [`restore`] |
//! | move one between the kernel and a TCP stack in userspace | the fields of [`Exported`]: [`TcpState`] for that stack, [`authentication`](Exported::authentication) for `wireseal_tcp_ao::Connection` |
//! | test what happens when sequence numbers wrap | [`choose_isn`] |
//! | look at the packets of an interface | [`PacketSocket`], with a [`PacketFilter`] |
//! | answer another program's system calls on its sockets | [`CallFilter::install`], [`CallListener::receive`] |
//!
//! If you manage keys by hand, put them on a socket before it listens or connects. A peer that connects to a listening socket before
//! that gets in unsigned, so do not use std's `TcpListener::bind`, which listens at once:
//!
//! ```no_run
//! use std::net::{SocketAddr, TcpListener};
//!
//! use socket2::{Domain, Socket, Type};
//! use wireseal_linux::{KeyId, MasterKey, Mkt, SocketKey, TcpAoAlgorithm, TcpAoSocket};
//!
//! let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(b"first-secret")?)?;
//! let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
//! socket.bind(&"0.0.0.0:179".parse::<SocketAddr>()?.into())?;
//! let ao = TcpAoSocket::new(&socket);
//! ao.add_key(&SocketKey::new("192.0.2.2/32".parse()?, &mkt))?;
//! // No other peer gets in.
//! ao.set_required(true)?;
//! socket.listen(16)?;
//! let (connection, peer) = TcpListener::from(socket).accept()?;
//! for key in TcpAoSocket::new(&connection).keys()? {
//!     println!("{peer}, {}: {} segments, in use: {}", key.name, key.good, key.is_current);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without TCP-AO in the kernel
//! Every call fails with [`Error::NotSupported`], and nothing is ever unsigned by default. A daemon that must serve a peer unsigned
//! says so in its configuration, peer by peer, and uses an ordinary socket for it. Or it runs TCP-AO in userspace, with
//! [`wireseal_tcp_ao::shim`] below a TCP stack of its own. Call [`probe`] before you configure the first peer.
//!
//! # Addresses
//! A key is for a network of peers, at any port. An IPv6 socket takes IPv4 networks for its IPv4 peers and returns them as such;
//! `::/0` does not include them, and only an IPv4 socket takes 0.0.0.0/0. A connected socket takes only keys for its peer. If no
//! key on a socket is for the peer, connecting fails with EKEYREJECTED.
//!
//! # What to know about Linux
//! * TCP-AO needs a kernel built with `CONFIG_TCP_AO` (Debian's are from 6.18 on). Tests run on 6.18 and 7.3.
//!
//!   | Linux | TCP-AO, [`Frozen::export`] | [`restore`] |
//!   |---|---|---|
//!   | before 6.7 | no | no |
//!   | 6.7 to 6.12.48, 6.13 to 6.16 | yes | no: it would crash the kernel, so [`Error::CannotRestore`] |
//!   | 6.12.49 and later 6.12, 6.17 and later | yes | yes |
//! * A connection that Linux accepts with TCP-AO has either timestamps or selective acknowledgments: the option space does not hold
//!   both beside AO.
//! * An accepted connection gets a copy of the listening socket's keys for its address. Later changes to the listening socket do not
//!   reach it.
//! * Linux 6.18 does not delete keys for a VRF; 7.3 does. On a socket that is bound to the VRF, use keys without a VRF.
//! * If a listening socket has a key for a network and one for an address within it, the KeyID decides, not the length of the prefix.
//! * Linux counts segments that it cannot verify, on the socket they were for and in the network namespace.
//!
//! # What is wiped
//! Secrets are wiped on drop, and so are the structs in which they go to the kernel and come back. Not wiped: copies that a move leaves
//! behind, see [`wireseal_tcp_ao`](wireseal_tcp_ao#what-is-wiped). A [`KeyManager`] keeps the key chains that it was given, because it
//! needs their secrets again at every rollover. It also keeps the chains from before the newest change of its peers, until the next change,
//! for [`KeyManager::undo`]; and the old chain of a peer with [`OnFailure::HoldOldKeys`], until the peer has moved on all its
//! sockets. The list from [`TcpAoSocket::keys`] holds copies of the kernel's secrets until you drop it. The kernel keeps its keys until they
//! are deleted or the socket is closed.
//!
//! # Features
//! * `tokio`: `TcpAoListener::bind_async`, `TcpAoStream::connect_async` and `accept`, which never block a task in the kernel;
//!   `Attachment::expired`, `KeyManager::reached`; and `KeyManager::run_reporting`, a background task that installs and removes keys on
//!   schedule.
//! * `tracing`: logs key changes, failures and refused segments.
//! * `toml`, `json`: key chains from files. `serde`: key chains as a part of other configuration files, [`PeerName`], [`Policy`], and the ids
//!   and counters of `wireseal-tcp-ao`.
//! * `simulation`: `SimulatedSocket`, the key manager on a socket of a simulated kernel, for the simulator in `models`. Programs do not need it.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg(target_os = "linux")]

mod bpf;
mod device;
mod errno;
mod error;
mod info;
mod kernel;
mod key;
mod listener;
mod log;
mod manager;
mod names;
mod packet_filter;
mod packet_socket;
mod repair;
mod seccomp;
mod socket;
mod stream;
mod sys;

pub use cidr::IpCidr;
pub use wireseal_algorithms::TcpAoAlgorithm;
pub use wireseal_keys as key_chain;
pub use wireseal_tcp_ao::{Counters, KeyId, MasterKey, Mkt, MktError, OptionCoverage};

#[cfg(fuzzing)]
#[doc(hidden)]
pub use device::device_of_answer;

pub use bpf::Instruction;
pub use device::vrf_of_device;
pub use error::{EinvalReason, Error, ExportedError};
pub use info::Info;
pub use kernel::{NetworkCounters, Support, probe};
pub use key::{InstalledKey, SeenKey, SocketKey, Successor};
pub use listener::TcpAoListener;
pub use manager::{
    Action, Attachment, Barrier, KeyManager, OnFailure, Origin, Peer, PendingSocket, PlannedSocket, Policy,
    PolicyAction, Progress, Refused, SocketKind, SocketReport, SocketState, StepReport, StepTimer,
    Transaction,
};
#[cfg(feature = "simulation")]
pub use manager::{Call, Calls, SimulatedSocket, SimulatedStep};
pub use names::{Generation, KeyName, PeerName, Remote};
pub use packet_filter::PacketFilter;
pub use packet_socket::{PacketSocket, PacketStatistics, ReceivedPacket};
pub use repair::{Exported, Frozen, TcpState, Window, WindowScale, choose_isn, restore};
pub use seccomp::{CallAction, CallAnswer, CallFilter, CallListener, CallNotification, CallRule};
pub use socket::TcpAoSocket;
pub use stream::{Local, TcpAoStream};

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
