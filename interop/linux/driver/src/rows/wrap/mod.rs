//! Sequence numbers that wrap in mid-transfer, so that the sequence number extension has to move on (RFC 5925 §6.2, RFC 9187).

mod first_octet;
mod kernels;
mod near_the_top;
mod second_turn;
mod userspace;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [userspace::rows(), kernels::rows(), first_octet::rows(), second_turn::rows()]
        .into_iter()
        .flatten()
        .collect()
}
