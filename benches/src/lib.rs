//! The operations that the benches and the scoreboard time, each with Wireseal and with other libraries.
//!
//! Each library's operation is a [`Contender`], a closure over a prepared key. Before contenders are returned, [`assert_agree`] has
//! compared the outputs of all libraries, once for each algorithm in a process.

pub mod aead;
mod contender;
pub mod mac;
pub mod packets;
pub mod quic;
pub mod shim;
pub mod tcp_ao;

pub use contender::{Contender, assert_agree};
