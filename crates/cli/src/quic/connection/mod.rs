//! One connection: what is known of it, its keys, and the result for each packet.

mod datagram;
mod found;
mod merged;
mod open;
mod state;

pub(super) use found::{Arrival, Opening};
pub(super) use state::QuicConnection;
