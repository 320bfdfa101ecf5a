//! The manager without a kernel that has TCP-AO.

pub(super) mod kernel_model;
mod pair;
mod peers;
mod plan;
mod steps;
