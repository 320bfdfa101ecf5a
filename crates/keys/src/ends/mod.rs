//! The two ends of a session: whether each accepts what the other signs, and when.

mod difference;
mod plan;
mod propose;
mod roll;
mod simulate;

pub use difference::Difference;
pub use plan::{Action, Plan, PlannedEnd, PlannedKey, Span, Step, TcpAoAlgorithmName};
pub use propose::{Today, Wish};
pub use roll::Gap;
pub use simulate::{ConfiguredEnd, Outage, Reason, Side, outages};
