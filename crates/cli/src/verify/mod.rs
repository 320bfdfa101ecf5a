//! Every segment's verdict, and the diagnosis of what failed.
//!
//! ```text
//! packet -> Verifier -> LiveConnection -> judge      the verdict: which key, which SNE, does the MAC verify
//!           finds the                  -> Diagnosis  for a failure: which change makes the MAC verify
//!           connection                 -> learn      ISNs, SNE, octets sent, whether it is closed
//! ```
//!
//! A good segment costs one table lookup and one MAC, and no allocation.

pub mod report;

mod connection;
mod diagnose;
mod direction;
mod ends;
mod hints;
mod judge;
mod key_table;
mod learn;
mod live;
mod observed;
mod options;
mod sequence;
mod verifier;
mod waiting;

pub use hints::{HintError, IsnHint, NatHint};
pub use options::VerifyOptions;
pub use verifier::{Judged, Verifier};
