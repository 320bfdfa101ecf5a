//! TCP-AO (RFC 5925) for programs that do not have it. On a kernel with TCP-AO (Linux 6.7 and later), a supervisor starts the program
//! unchanged and puts keys on its sockets from outside. On any other, a gateway signs and verifies the program's packets. It is the
//! library below `wireseal run` and `wireseal gateway`.
//!
//! ```
//! use std::fs;
//!
//! use wireseal_agent::Source;
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
//! let config = source.read()?;
//! assert_eq!(config.ports, [179]);
//! println!("{config}"); // What would be set on what.
//! # #[cfg(any())]
//! let exit_code = wireseal_agent::run("/usr/sbin/bgpd".as_ref(), &[], &source)?; // feature `run`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | I want to | call |
//! |---|---|
//! | read key chains, peers and ports from the command line or a file | [`Source::read`] |
//! | show what would be set | `Config`'s `Display` |
//! | run a program with keys on its sockets | `run`, feature `run` |
//! | sign and verify the packets of programs on any kernel | `Gateway::run`, feature `gateway` |
//!
//! # How `run` works
//! A seccomp filter, which the program and its children inherit, stops each `connect` and `listen` and tells the supervisor. That takes a
//! duplicate of the socket, puts the peer's keys on it and makes the call itself, with the address that it has read. So no other thread
//! of the program can exchange socket or address in between, and nothing is connected without its keys. Once a second it carries the
//! key chains out on all sockets of the program, which it finds in `/proc`; accepted connections too. Between these steps it holds no
//! descriptor of them.
//!
//! # Fail closed
//! * If a key cannot be set, `connect` and `listen` fail: with EKEYEXPIRED if the chain has no key to send with now, else with
//!   EKEYREJECTED. The log says why.
//! * If the supervisor ends, `connect` and `listen` of the program fail with ENOSYS. Its sessions go on with the keys that they have.
//! * Refused in the program: Multipath TCP and SMC (EPROTONOSUPPORT, and programs fall back on TCP), io_uring (ENOSYS), data in a SYN
//!   (EOPNOTSUPP), TCP-AO keys of its own (ENOPROTOOPT), 32-bit system calls (ENOSYS), and TCP-MD5 (ENOPROTOOPT) unless the configuration
//!   leaves it.
//!
//! # How `Gateway` works
//! Rules in nftables or iptables give the packets of the peers to the gateway, which puts them through the
//! [shim](wireseal_tcp_ao::shim). Packets to programs go back into the kernel. Packets to the wire leave by a raw socket: the path MTU that the
//! kernel notes for its TCP is smaller than the path's by the option, and packets that go back are held against it.
//!
//! # Features
//! * `run`: supervising. It needs the C library libseccomp.
//! * `gateway`: packets. It needs nftables or iptables at run time.
#![cfg(target_os = "linux")]

mod config;
mod describe;
mod error;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "observed")]
mod metrics;
#[cfg(feature = "run")]
mod run;
mod source;
#[cfg(feature = "observed")]
mod status;

pub use config::{Config, Md5};
pub use error::{ConfigError, PeerArgumentError};
#[cfg(feature = "gateway")]
#[doc(hidden)]
pub use gateway::PacketQueues;
#[cfg(feature = "gateway")]
pub use gateway::{Gateway, GatewayError};
#[cfg(feature = "observed")]
pub use metrics::{MetricsAddress, MetricsAddressError};
#[cfg(feature = "run")]
pub use run::{AttachError, RunError, Supervisor, run_in_background, stop_with};
pub use source::{PeerArgument, Source};
#[cfg(feature = "observed")]
pub use status::{
    Command, KeyStatus, ListenerStatus, PeerStatus, Segments, SessionStatus, Status, StatusError, running,
};
