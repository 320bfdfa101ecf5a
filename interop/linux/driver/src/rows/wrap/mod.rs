//! Sequence numbers that wrap in mid-transfer, so that the sequence number extension has to move on (RFC 5925 §6.2, RFC 9187).

mod first_octet;
mod kernels;
mod near_the_top;
mod second_turn;
mod userspace;

use super::session::families_and_ends;
use crate::net::Family;
use crate::row::Row;

pub fn rows() -> Vec<Row> {
    let opened_by_both = families_and_ends().map(|(family, opener)| userspace::row(family, opener));
    let rows = [kernels::row, first_octet::row, second_turn::row];
    opened_by_both.chain(rows.into_iter().flat_map(|row| Family::ALL.map(row))).collect()
}
