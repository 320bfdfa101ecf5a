//! The manager without a kernel that has TCP-AO.

mod kernel_model;
mod pair;
mod peers;
mod plan;
mod steps;
