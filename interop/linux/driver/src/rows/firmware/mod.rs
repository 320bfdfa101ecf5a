//! The microcontroller of examples/firmware: its sessions with the first guest's kernel, what an attacker sends it, and a QUIC packet.

mod attacks;
mod quic;
mod session;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [session::rows(), attacks::rows(), quic::rows()].into_iter().flatten().collect()
}
