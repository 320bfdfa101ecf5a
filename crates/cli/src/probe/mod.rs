//! What `wireseal probe` says: [`Findings`] judge what [`wireseal_agent::probe`] has seen, [`steps`] are what to do about it, and
//! [`text`] and [`json`] write both.

mod advice;
mod findings;
mod json;
mod step;
mod text;

pub use advice::steps;
pub use findings::{Answer, Count, Findings, Group, Verdict};
pub use json::json;
pub use step::{Setting, Step, Way, is_roots_program};
pub use text::text;
