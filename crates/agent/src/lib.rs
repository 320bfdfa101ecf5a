//! TCP-AO (RFC 5925) for programs that do not have it. On a kernel with TCP-AO (Linux 6.7 and later), a supervisor starts the program
//! unchanged and puts keys on its sockets from outside. On any other, a gateway signs and verifies the program's packets. It is the library
//! below `wireseal run`, `gateway` and `status`.
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
//! assert_eq!(source.read()?.ports, [179]);
//! println!("{}", source.read()?); // Which keys each peer would have.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program with keys on its sockets:
//!
//! ```no_run
//! # fn run(source: wireseal_agent::Source) -> Result<(), wireseal_agent::Error> {
//! use wireseal_agent::Supervisor;
//!
//! let supervisor = Supervisor { source, ..Supervisor::default() };
//! let exit_code = supervisor.run("/usr/sbin/bgpd".as_ref(), &[])?;
//! # Ok(())
//! # }
//! ```
//!
//! Signed packets for all programs of this host:
//!
//! ```no_run
//! # fn run(source: wireseal_agent::Source) -> Result<(), wireseal_agent::Error> {
//! use wireseal_agent::Gateway;
//!
//! let state = Some("/var/lib/wireseal/sessions".into());
//! Gateway { state, ..Gateway::new(source) }.run()?; // Until SIGTERM.
//! # Ok(())
//! # }
//! ```
//!
//! | I want to | call |
//! |---|---|
//! | read key chains, peers and ports from the command line or a file | [`Source::read`] |
//! | show which keys each peer would have | `Config`'s `Display` |
//! | run a program with keys on its sockets | [`Supervisor::run`] |
//! | the same for a daemon that goes into the background | [`run_in_background`] |
//! | have the program killed if its supervisor is | [`stop_with`] |
//! | sign and verify the packets of all programs, on any kernel | [`Gateway::run`] |
//! | know whether a gateway's rules are in place | [`Gateway::check`] |
//! | see what running instances do | [`running`] |
//! | see what this host's kernel can do, and what protects its sessions | [`probe`] |
//! | serve metrics for Prometheus | `metrics` of `Supervisor` and `Gateway` |
//!
//! # How a supervisor works
//! A seccomp filter, which the program and its children inherit, stops each `connect` and `listen` and notifies the supervisor. The
//! supervisor duplicates the socket, sets the peer's keys on it, and makes the call itself with the address that it has read, so no other
//! thread of the program can exchange the socket or the address in between. The program gets the kernel's result. The supervisor also
//! checks whom a TCP-MD5 key is for before the kernel takes it. Once a second it installs and removes keys as the key chains say, on all
//! TCP sockets of the program, which it finds in `/proc`; in between it holds none of them open.
//!
//! There is such a filter on x86-64, AArch64 and 64-bit RISC-V. On other processors the program is not started.
//!
//! # What is wiped
//! The text of a key file is wiped once it has been read, and a chain's keys when the chain is replaced or the supervisor or gateway ends.
//! Until then the chains are in memory, because each rollover and each new socket needs their secrets. Not wiped: what
//! [`wireseal_tcp_ao`](wireseal_tcp_ao#what-is-wiped) names, and parts of a key file whose length is not known beforehand, such as a pipe.
//! A process that is killed wipes nothing; its memory goes back to the kernel. Core dumps leave it out, and only root can read it.
//! [`probe`] reads the keys of other programs' sockets without keeping a secret; the memory that the kernel writes them to is wiped.
//!
//! # Fail closed
//! * If a key cannot be set, `connect` and `listen` fail: with EKEYEXPIRED if the chain has no key to send with now, else with
//!   EKEYREJECTED. The log says why.
//! * If the supervisor ends, the program's `connect`, `listen` and TCP-MD5 fail with ENOSYS. Its sessions go on with the keys that they
//!   have.
//! * Refused in the program: Multipath TCP and SMC (EPROTONOSUPPORT, and programs fall back on TCP), io_uring (ENOSYS), data in a SYN
//!   (EOPNOTSUPP), TCP-AO keys of its own (ENOPROTOOPT), 32-bit system calls (ENOSYS), threads with descriptors of their own (EPERM; ENOSYS
//!   for `clone3`, and C libraries fall back on `clone`), and TCP-MD5 for the peers (ENOPROTOOPT) unless the configuration leaves it.
//!
//! # How `Gateway` works
//! Rules in nftables or iptables queue the peers' packets for the gateway, which passes them through the [shim](wireseal_tcp_ao::shim) in
//! batches and gives them back to the kernel. Where the kernel has noted a path MTU, signed packets leave by a raw socket instead: the
//! noted MTU leaves room for the option, and the kernel would apply it to the signed packet as well.
#![cfg(target_os = "linux")]

mod config;
mod error;
mod gateway;
mod instance;
mod metrics;
pub mod probe;
mod run;
mod source;
mod status;

pub use config::{Config, Md5};
pub use error::Error;
pub use gateway::Gateway;
pub use metrics::MetricsAddress;
pub use run::{Supervisor, run_in_background, stop_with};
pub use source::{PeerArgument, Source};
pub use status::{
    Command, Instances, KeyStatus, ListenerStatus, PeerStatus, RulesStatus, Segments, SessionStatus, Status,
    network_namespace, running,
};

/// Functions for the fuzz targets only.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::gateway::{queue_message, saved_sessions};
    pub use crate::metrics::{answer_to, formats};
    pub use crate::probe::listed_sockets;
}

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
