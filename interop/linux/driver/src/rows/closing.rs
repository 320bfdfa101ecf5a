//! How connections end: in order, by a reset, in TIME-WAIT, at a closed port, and with one end that has lost its memory.

mod half_open;
mod nobody;
mod orderly;
mod time_wait;

use super::Row;

pub fn rows() -> Vec<Row> {
    [orderly::rows(), time_wait::rows(), nobody::rows(), half_open::rows()].into_iter().flatten().collect()
}
