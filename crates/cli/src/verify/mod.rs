//! Every segment's verdict, and the diagnosis of what failed.
//!
//! ```text
//! Verifier            the live connections by their ends; hands out those that are over
//!   Connection        ISNs, which end a key was configured at, what each direction sent
//!     judge           a segment's verdict
//!     learn           what a segment changes in the connection
//!     Diagnosis       for a segment that failed: which change of the configuration makes it verify
//! ```
//!
//! A good segment costs one look into a table, one MAC, and no memory.

pub mod report;

mod connection;
mod diagnose;
mod direction;
mod hints;
mod judge;
mod key_table;
mod learn;
mod sequence;
mod verifier;

pub use hints::{HintError, IsnHint, NatHint};
pub use verifier::{Judged, Options, Verifier};
