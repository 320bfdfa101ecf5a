//! The two ends of a session: whether each accepts what the other signs, and when.

mod difference;
mod simulate;

pub use difference::Difference;
pub use simulate::{ConfiguredEnd, Outage, Reason, Side, outages};
