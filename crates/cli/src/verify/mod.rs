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

mod agreement;
mod connection;
mod diagnose;
mod direction;
mod ends;
mod handshake;
mod hints;
mod judge;
mod key_table;
mod learn;
mod live;
mod mac_batch;
mod observed;
mod options;
mod queue;
mod sequence;
mod verifier;
mod waiting;

pub use hints::{HintError, IsnHint, NatHint};
pub(crate) use hints::{endpoint, isn};
pub use options::{SearchLimits, VerifyOptions};
pub use verifier::{Verifier, VerifyEvent};
