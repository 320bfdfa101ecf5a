//! TCP-AO without I/O.
#![no_std]

#[cfg(feature = "key-chain")]
extern crate alloc;

pub mod checksum;
pub mod ip;
#[cfg(feature = "key-chain")]
pub mod key_chain;
pub mod option;
pub mod shim;

mod authenticate;
mod connection;
mod counters;
mod icmp;
mod kdf;
mod mkt;
mod peer;
mod segment;
mod sne;
mod types;

pub use authenticate::{SignError, VerifyError, segment_mac, sign_segment, verify_segment};
pub use connection::{Connection, ConnectionState, KeyError, StateError, Verified, VerifiedSyn};
pub use counters::Counters;
pub use icmp::IcmpError;
pub use kdf::{KdfContext, MAX_TRAFFIC_KEY_LENGTH, TrafficKey, TrafficKeyOctets};
pub use mkt::{MAX_MASTER_KEY_LENGTH, MasterKey, Mkt, MktError, MktParameters, MktSet, OptionCoverage};
pub use option::{AoOption, NoRoom, OptionError, append_ao};
pub use peer::{ConnectionIdentifier, MKTS_PER_PEER, Peer, PeerError, check_peers};
pub use segment::{Flags, ParseError, Segment};
pub use sne::SneTracker;
pub use types::{Endpoint, Isn, KeyId, SeqNum, Sne, SocketPair};
