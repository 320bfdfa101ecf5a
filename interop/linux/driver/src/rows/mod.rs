//! The rows: what each one does, what has to come of it, and its negative twin.

mod bgp;
mod closing;
mod kernels;
mod manager;
mod matrix;
mod moving;
mod refusals;
mod rollover;
mod session;
mod was_reset;
mod wrap;

use crate::row::Row;

/// All rows, in the table's order.
pub fn all() -> Vec<Row> {
    [
        matrix::rows(),
        rollover::rows(),
        refusals::rows(),
        closing::rows(),
        bgp::rows(),
        wrap::rows(),
        moving::rows(),
        manager::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
