//! Diagnoses in words for an operator: who does what, and what to change where.

pub(super) mod evident;
pub(super) mod explained;
pub(super) mod not_open;
mod sentence;
pub(super) mod unexplained;
