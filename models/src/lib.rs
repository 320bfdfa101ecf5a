//! Every interleaving of two small ends, searched with the real code: TCP-AO's key roll-over on `wireseal_tcp_ao::Connection`, and QUIC's
//! key update on `wireseal_quic::OneRtt`. docs/dev/models.md says what is modelled and what was found.
//!
//! `cargo run --release -p wireseal-models` searches the [scopes](COMPLETE) of the CI stage `models`; the tests search smaller ones.
//!
//! [`explore`] is a breadth-first search with a shortest counterexample, and [`ends`] runs the real code once for each state of an end
//! and each event.

pub mod ends;
pub mod explore;
pub mod quic;
mod scopes;
pub mod tcp_ao;

pub use scopes::{COMPLETE, FAULTS, Outcome, Scope};
