//! The two ends of a session: when each accepts what the other signs, how their configurations differ, and how they change to a new key.

mod compare;
mod difference;
mod meet;
mod pair;
mod plan;
mod propose;
mod roll;
mod simulate;

pub use compare::{Disagreement, compare};
pub use difference::Difference;
pub use meet::{Meeting, MetBy, meet};
pub use pair::{Pair, Relation, pairs};
pub use plan::{Action, Plan, PlannedEnd, PlannedKey, Span, Step, TcpAoAlgorithmName};
pub use propose::{Today, Wish};
pub use roll::Gap;
pub use simulate::{ConfiguredEnd, Outage, Reason, Side, outages};
