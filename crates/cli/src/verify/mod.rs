//! Every segment's verdict, and the diagnosis of what failed.
//!
//! ```text
//! packet -> Verifier -> Queue, 16 segments -> MacBatch -> LiveConnection -> judge      the verdict: which key, which SNE, does the MAC verify
//!                                             their                   -> Diagnoser  for a failure: which change makes the MAC verify
//!                                             MACs                    -> learn      ISNs, SNE, octets sent, whether it is closed
//! ```
//!
//! A good segment costs two table lookups and one MAC, and no allocation.

pub mod report;

mod across;
mod connection;
mod connections;
mod diagnose;
mod direction;
mod drops;
mod ends;
mod intake;
mod judge;
mod key_table;
mod learn;
mod live;
mod options;
mod sent;
mod snapshot;
mod traffic_keys;
mod verifier;
mod whole;

pub use options::{HintError, IsnHint, NatHint, SearchLimits, VerifyOptions};
pub(crate) use options::{endpoint, isn};
pub use snapshot::Snapshot;
pub use verifier::{Verifier, VerifyEvent};
