//! TCP-AO (RFC 5925, RFC 5926) without I/O: the option, traffic keys, connections, key rollover, and a shim that
//! adds TCP-AO to a stack without it. You supply packets and the time; it returns signed packets, or accepts or rejects.
//!
//! TCP-AO authenticates TCP segments; it does not encrypt them.
//!
//! # Which call do I need?
//!
//! | I have | I want | call |
//! |---|---|---|
//! | a TCP stack without TCP-AO that speaks IP packets | TCP-AO under it | [`shim::Shim::outbound`], [`shim::Shim::inbound`] |
//! | a TCP stack of my own | keys, SNEs and counters kept per connection | [`Connection::active`], [`MktSet::verify_syn`] and [`Connection::passive`], then [`Connection::verify`] and [`Connection::sign`] |
//! | segments of many connections at once, as from a router's network card | less time for each | [`verify_batch`], [`sign_batch`]; [`Connection::prefetch`] for the packets after these |
//! | a verified segment | what it changed | [`Verified`], [`Connection::highest_received`], [`Connection::newest_acknowledgment`] |
//! | ICMP errors about my connections | those of RFC 5925 §7.8 ignored | [`IcmpError::parse`], [`Connection::ignores_icmp`] |
//! | a stack that keeps all state itself | the pure functions | [`TrafficKey::derive`], [`append_ao`], [`sign_segment`], [`verify_segment`], [`SneTracker`] |
//! | segments to diagnose | what their MAC covers, field by field | [`Segment::mac_input`] |
//! | a header to build | the option in it | [`Connection::append_ao`], then [`Connection::sign`]; [`Connection::option_length`] says how much less data fits |
//! | a key to replace | no lost segment | [`Connection::add_key`], [`Connection::set_rnext_key`], [`Connection::remove_key`], or [`shim::Shim::set_mkts`] |
//! | a shim | counters of what it refuses, and events of connections and keys | [`shim::Shim::refused`], [`shim::Observer`] |
//! | a peer that is still being configured | sessions that work unprotected until then | [`shim::Shim::accept_mismatches`] |
//! | a live connection | to move it elsewhere | [`Connection::export`], [`Connection::import`]; [`shim::Shim::export`], [`shim::Shim::adopt`] |
//! | a file of key chains | the keys that are valid now | the crate `wireseal-keys` |
//! | several of these | one type for `?` | [`Error`] |
//!
//! # How a packet becomes a verdict
//!
//! ```text
//!  received packet                                            packet to send
//!    |                                                          |
//!  IpHeader::parse      addresses, where TCP starts           IpHeader::parse
//!  Segment              a view; nothing is copied             Segment
//!    |                                                          |
//!  Shim: the connection of this socket pair, or its peer      Shim: the connection; options rewritten to hold AO
//!    |                                                          |
//!  Connection::verify                                         Connection::sign
//!    find    KeyID -> MKT, AO option, SNE                       prepare  current key, AO option, SNE; ids written
//!    MAC     of SNE, pseudo-header, header, payload             MAC      of the same
//!    compare in constant time                                   finish   MAC written
//!    learn   ISNs, SNE, the key the peer asks for               |
//!    |                                                          |
//!  Verified, or a VerifyError; counted                        checksums
//!    |                                                          |
//!  Shim: option removed, checksums                            to the link
//!    |
//!  to the stack
//! ```
//!
//! [`MacInput`] is the only place that says what a MAC covers.
//!
//! # Example
//!
//! Both ends of a handshake, each with a [`Connection`] of its own:
//!
//! ```
//! use wireseal_tcp_ao::{
//!     Connection, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair, TcpAoAlgorithm,
//! };
//!
//! // A TCP header whose only option is AO, as a stack would build it.
//! fn header(connection: &Connection, sequence: u32, acknowledgment: u32, flags: u8) -> Vec<u8> {
//!     let pair = connection.pair();
//!     let mut tcp = Vec::new();
//!     tcp.extend(pair.local.port().to_be_bytes());
//!     tcp.extend(pair.remote.port().to_be_bytes());
//!     tcp.extend(sequence.to_be_bytes());
//!     tcp.extend(acknowledgment.to_be_bytes());
//!     tcp.extend([0, flags, 0xff, 0xff, 0, 0, 0, 0]);
//!     tcp.resize(60, 0);
//!     let options = connection.append_ao(&mut tcp[20..], 0).expect("there are 40 octets of room");
//!     tcp.truncate(20 + options);
//!     tcp[12] = (tcp.len() as u8 / 4) << 4;
//!     tcp
//! }
//!
//! let mkt = Mkt::new(KeyId(100), KeyId(100), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(b"first-secret")?)?;
//! let mkts = MktSet::from_mkts([mkt])?;
//! let pair = SocketPair {
//!     local: Endpoint::new([192, 0, 2, 1], 50_000),
//!     remote: Endpoint::new([192, 0, 2, 2], 179),
//! };
//! let (local, remote) = (pair.local.address(), pair.remote.address());
//!
//! // This end opens.
//! let mut active = Connection::active(pair, Isn(1000), &mkts)?;
//! let mut syn = header(&active, 1000, 0, 0x02);
//! active.sign(&mut syn)?;
//!
//! // The other end keeps no state for a SYN that has not verified.
//! let syn = Segment::from_tcp(local, remote, &syn)?;
//! let mut passive = Connection::passive(&mkts.verify_syn(syn)?);
//! let mut syn_ack = header(&passive, 5000, 1001, 0x12);
//! passive.sign(&mut syn_ack)?;
//!
//! active.verify(&Segment::from_tcp(remote, local, &syn_ack)?)?;
//! assert!(active.is_established());
//!
//! // An unsigned reset in the peer's name: drop it; it has been counted.
//! let mut reset = header(&passive, 5001, 0, 0x04);
//! reset.truncate(20);
//! reset[12] = 0x50;
//! assert!(active.verify(&Segment::from_tcp(remote, local, &reset)?).is_err());
//! assert_eq!(active.counters().required, 1);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # What is wiped
//!
//! Master keys, traffic keys and MACs are wiped on drop and when they are replaced. A connection wipes its
//! master keys when its handshake completes; [`Connection::add_key`], [`Connection::remove_key`] and [`Connection::replace_keys`] change
//! them in place. Tests read the memory of a process at each stage of a connection and of a shim's peer.
//!
//! Not wiped: copies that a move leaves behind, mostly on the stack, and what the compiler spills there. An [`Mkt`], a [`MktSet`] or a
//! [`Connection`] moves when it is returned or passed by value. Make it where it will stay, or on a thread that ends, and keep it in a
//! `Box` or in its slot of a table. Core dumps and swap may contain secrets; preventing that is up to the program.
//!
//! Nor are the gaps in the layout of a [`Connection`]. When it is made and when it moves, they take what lay on the stack, perhaps octets
//! of a master key, and nothing wipes them, neither the end of the handshake nor a drop. On x86-64 the largest is at its end: 48 octets
//! with room for three or four MKTs (a shim's connections have four), none with one or two. Until the handshake completes, there is another
//! of 51, 34 or 17 octets with room for one, two or three; with room for more than four there is one that grows with their number. An IPv4
//! address leaves 12 octets.
//!
//! # Features
//! The algorithms are on by default: `hmac-sha1`, `hmac-sha256`, `aes-128-cmac` and `kmac256`. With `default-features = false` only those that
//! you name are built in. [`Mkt::new`] refuses the others with an error that names the feature.
//!
//! All other features are off by default. Without them the crate needs neither std nor a heap; with them no heap.
//! * `std`: `shim::HashKey` from the system's random numbers.
//! * `serde`: ids, addresses, algorithms, parameters and counters. Secrets are never serialised. [`ConnectionState`] has a versioned
//!   encoding instead ([`ConnectionState::to_octets`]).
//! * `tracing`: an observer that logs the shim's events.
//! * `defmt`: `defmt::Format` for ids, errors, events, counters and segments, for firmware.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used)]
#![no_std]

#[cfg(feature = "std")]
extern crate std;

pub mod checksum;
pub mod ip;
pub mod option;
pub mod shim;

mod built_in;
mod connection;
mod counters;
mod error;
mod icmp;
mod kdf;
mod mac_input;
mod mkt;
mod segment;
mod tcp;
mod types;

pub use connection::{
    Connection, ConnectionState, HeardKeys, Verified, VerifiedSyn, sign_batch, verify_batch,
};
pub use counters::Counters;
pub use error::{Error, OptionError, ParseError, SignError, StateError, VerifyError};
pub use icmp::IcmpError;
pub use kdf::{KdfContext, TrafficKey, TrafficKeyOctets};
pub use mac_input::{FieldName, MacField, MacInput};
pub use mkt::{
    ConnectionIdentifier, MAX_MASTER_KEY_LENGTH, MKTS_PER_PEER, MasterKey, Mkt, MktError, MktParameters,
    MktSet, OptionCoverage, Peer, PeerError,
};
pub use option::{AoOption, append_ao};
pub use segment::{Segment, sign_segment, verify_segment};
pub use tcp::Flags;
pub use types::{Endpoint, Isn, KeyId, SeqNum, Sne, SneTracker, SocketPair, canonical_network};
pub use wireseal_algorithms::TcpAoAlgorithm;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
