//! How connections end: in order, by a reset, in TIME-WAIT, at a closed port, and with one end that has lost its memory.

mod closed_port;
mod ending;
mod half_open;
mod orderly;
mod time_wait;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [orderly::rows(), time_wait::rows(), closed_port::rows(), half_open::rows()]
        .into_iter()
        .flatten()
        .collect()
}
