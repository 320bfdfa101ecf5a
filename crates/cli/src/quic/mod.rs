//! Every QUIC packet of a capture, opened.
//!
//! [`Observer`] is given the UDP datagrams of a capture and a [`KeyLog`]. It finds the connections, opens their packets, and
//! hands out a [`ConnectionReport`] of each connection that is over.
//!
//! | part | what it knows |
//! |---|---|
//! | `observer` | which datagram belongs to which connection |
//! | `connection` | what one connection has shown of itself, and the packets that have to wait for its handshake |
//! | `end` | the keys and packet numbers of one sender |
//! | `one_rtt` | key phases |
//! | `routes` | connection IDs and addresses |
//! | `frames`, `handshake`, `transport_parameters` | the little of the contents that decides how what follows is opened |
//! | [`Printer`] | text for people, JSON for programs |

mod connection;
mod end;
mod frames;
mod handshake;
mod json;
mod key_log;
mod observer;
mod one_rtt;
mod print;
pub mod report;
mod routes;
mod text;
mod transport_parameters;

pub use key_log::KeyLog;
pub use observer::Observer;
pub use print::{Format, Printer};
pub use report::{ConnectionReport, Standing, Totals};
