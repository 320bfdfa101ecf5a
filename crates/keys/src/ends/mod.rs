//! The two ends of a session: whether each accepts what the other signs, when, and what they have configured differently.

mod compare;
mod difference;
mod meet;
mod pair;
mod simulate;

pub use compare::{Disagreement, compare};
pub use difference::Difference;
pub use meet::{Meeting, MetBy, meet};
pub use pair::{Pair, Relation, pairs};
pub use simulate::{ConfiguredEnd, Outage, Reason, Side, outages};
