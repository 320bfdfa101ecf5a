//! A microcontroller that speaks TCP with TCP-AO and opens QUIC's first packet: what the two programs share.
//!
//! | module | what is in it |
//! |---|---|
//! | `board` | console and clock |
//! | `card` | the network card, as a smoltcp device |
//! | `keys` | TCP-AO under the stack, its keys and counters |
//! | `initial` | QUIC's Initial packets |
#![no_std]

pub mod board;
pub mod card;
#[cfg(feature = "quic")]
pub mod initial;
#[cfg(feature = "tcp-ao")]
pub mod keys;
