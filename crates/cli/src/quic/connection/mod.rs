//! One connection: what it has shown, which keys its packets take, and what became of them.

mod datagram;
mod found;
mod merged;
mod open;
mod state;

pub(super) use found::Arrival;
pub(super) use state::QuicConnection;
