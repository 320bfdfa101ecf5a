//! Why segments fail.
//!
//! A hypothesis is a key with a difference. It is tried on the segment itself and believed only if the MAC verifies under it.
//!
//! ```text
//! Diagnoser            one connection: takes each segment that failed
//!   Case               the segment, and what its MAC is compared with
//!   Search             the hypotheses in order; what explains one segment is tried on the next first
//!   Findings           what explained which segments, and what nothing explained
//!   words              sentences for an operator: findings, and what is evident without a MAC
//! ```

mod case;
mod checksum;
mod diagnoser;
mod findings;
mod hypothesis;
mod mss;
mod offload;
mod search;
mod secret;
mod words;

pub(super) use diagnoser::Diagnoser;
pub(super) use search::Search;
