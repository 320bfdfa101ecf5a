//! Every QUIC packet of a capture, opened.
//!
//! [`Observer`] takes the packets of a capture and a [`KeyLogFile`]. It finds the connections, opens their packets, and hands
//! out a [`ConnectionReport`] for each connection that is over.
//!
//! | part | what it knows |
//! |---|---|
//! | `observer`, `routes` | which datagram belongs to which connection: by connection ID, or by addresses |
//! | `connection` | what one connection has shown, and the packets that wait for its handshake |
//! | `end` | the keys and packet numbers of one sender |
//! | `packet`, `one_rtt` | how packets are opened, and through key updates |
//! | `frames`, `handshake`, `transport_parameters` | the few contents that decide how later packets are opened |
//! | [`Printer`] | text for people, JSON for programs |

mod connection;
mod end;
mod frames;
mod handshake;
mod key_log;
mod observer;
mod one_rtt;
mod packet;
mod printer;
pub mod report;
mod routes;
mod text;
mod transport_parameters;

pub use key_log::KeyLogFile;
pub use observer::Observer;
pub use printer::Printer;
pub use report::{ConnectionReport, Totals};
