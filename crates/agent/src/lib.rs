//! TCP-AO (RFC 5925) for programs that do not have it. On a kernel with TCP-AO (Linux 6.7 and later), a supervisor starts the program
//! unchanged and puts keys on its sockets from outside. On any other, a gateway signs and verifies the program's packets. It is the library
//! below `wireseal run`, `gateway` and `status`.
//!
//! ```
//! use std::fs;
//!
//! use wireseal_agent::Source;
//! # #[cfg(any())]
//! use wireseal_agent::Supervisor;
//!
//! let folder = tempfile::tempdir()?;
//! let keys = folder.path().join("keys.toml");
//! fs::write(
//!     &keys,
//!     r#"
//!         [[key-chain]]
//!         name = "core"
//!         [[key-chain.key]]
//!         send-id = 100
//!         algorithm = "AES-128-CMAC-96"
//!         secret = "first-secret"
//!     "#,
//! )?;
//! let source = Source { keys: Some(keys), peers: vec!["192.0.2.2=core".parse()?], ..Source::default() };
//! assert_eq!(source.read()?.ports, [179]);
//! println!("{}", source.read()?); // What would be set on what.
//! # #[cfg(any())]
//! # {
//! let supervisor = Supervisor { source, ..Supervisor::default() }; // feature `run`
//! let exit_code = supervisor.run("/usr/sbin/bgpd".as_ref(), &[])?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | I want to | call |
//! |---|---|
//! | read key chains, peers and ports from the command line or a file | [`Source::read`] |
//! | show what would be set | `Config`'s `Display` |
//! | run a program with keys on its sockets | `Supervisor::run`, feature `run` |
//! | the same for a program that goes into the background | `run_in_background` |
//! | the same, and have it killed if the supervisor is | `stop_with` |
//! | sign and verify the packets of programs on any kernel | `Gateway::run`, feature `gateway` |
//! | know whether a gateway's rules are in place | `Gateway::check` |
//! | see what running instances do | `running` |
//! | serve metrics for Prometheus | `metrics` of `Supervisor` and `Gateway` |
//!
//! # How a supervisor works
//! A seccomp filter, which the program and its children inherit, stops each `connect` and `listen` and tells the supervisor. That takes a
//! duplicate of the socket, puts the peer's keys on it and makes the call itself, with the address that it has read. So no other thread
//! of the program can exchange the TCP socket or the address in between, and nothing is connected without its keys. The call returns what the
//! kernel says. The supervisor also looks at whom a TCP-MD5 key is for before the kernel takes it. Once a second it
//! carries the key chains out on all sockets of the program, which it finds in `/proc`; accepted connections too. Between these steps it
//! holds no descriptor of them. Those that the program has connected itself it knows from the call, and the peer's port decides on them.
//!
//! # What is wiped
//! The text of the files with keys is wiped once it has been read, and a chain's keys when the chain is replaced or the supervisor or
//! gateway ends. Until then the chains are in memory, because each rollover and each new socket needs their secrets. Not wiped: what
//! [`wireseal_tcp_ao`](wireseal_tcp_ao#what-is-wiped) names, and pieces of a file that is no regular one, such as a pipe, whose length is
//! not known beforehand. A process that is killed wipes nothing; its memory goes back to the kernel. A supervisor's memory is in no core dump,
//! and only root can read it.
//!
//! # Fail closed
//! * If a key cannot be set, `connect` and `listen` fail: with EKEYEXPIRED if the chain has no key to send with now, else with
//!   EKEYREJECTED. The log says why.
//! * If the supervisor ends, `connect`, `listen` and TCP-MD5 of the program fail with ENOSYS. Its sessions go on with the keys that they have.
//! * Refused in the program: Multipath TCP and SMC (EPROTONOSUPPORT, and programs fall back on TCP), io_uring (ENOSYS), data in a SYN
//!   (EOPNOTSUPP), TCP-AO keys of its own (ENOPROTOOPT), 32-bit system calls (ENOSYS), threads with descriptors of their own (EPERM; ENOSYS for
//!   `clone3`, and C libraries fall back on `clone`), and TCP-MD5 for the peers (ENOPROTOOPT) unless the configuration leaves it.
//!
//! # How `Gateway` works
//! Rules in nftables or iptables give the packets of the peers to the gateway, which puts them through the
//! [shim](wireseal_tcp_ao::shim), those that wait together, and back into the kernel. Where the kernel has noted a path MTU, packets to the
//! wire leave by a raw socket: what the kernel has noted for its TCP is smaller than the path's by the option, and packets that go
//! back are held against it.
//!
//! # Features
//! * `run`: supervising. It needs the C library libseccomp.
//! * `gateway`: packets. It needs nftables or iptables at run time.
//!
//! Either brings the log (`tracing`), the control socket and metrics.
#![cfg(target_os = "linux")]

#[cfg(any(feature = "gateway", feature = "run"))]
mod callers;
mod config;
mod describe;
mod error;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(any(feature = "gateway", feature = "run"))]
mod metrics;
#[cfg(feature = "run")]
mod run;
mod source;
#[cfg(any(feature = "gateway", feature = "run"))]
mod status;

pub use config::{Config, Md5};
pub use error::{ConfigError, PeerArgumentError};
#[cfg(feature = "gateway")]
#[doc(hidden)]
pub use gateway::PacketQueues;
#[cfg(feature = "gateway")]
pub use gateway::{Gateway, GatewayError, Holder};
#[cfg(any(feature = "gateway", feature = "run"))]
pub use metrics::{MetricsAddress, MetricsAddressError};
#[cfg(feature = "run")]
pub use run::{RunError, Supervisor, run_in_background, stop_with};
pub use source::{PeerArgument, Source};
#[cfg(any(feature = "gateway", feature = "run"))]
pub use status::{
    Command, Instances, KeyStatus, ListenerStatus, PeerStatus, RulesStatus, Segments, SessionStatus, Status,
    StatusError, network_namespace, running,
};

/// The README's code compiles.
#[cfg(all(doctest, feature = "run"))]
#[doc = include_str!("../README.md")]
struct Readme;
