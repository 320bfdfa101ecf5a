//! The rows: what each one does, what has to come of it, and its negative twin.

mod bgp;
mod closing;
mod firmware;
mod kernels;
mod manager;
mod matrix;
mod moving;
mod outside;
mod refusals;
mod rollover;
mod rtr;
mod session;
mod wait;
mod wrap;

use crate::row::Row;

/// All rows, in the table's order.
pub fn all() -> Vec<Row> {
    [
        matrix::rows(),
        rollover::rows(),
        refusals::syn::rows(),
        refusals::md5::rows(),
        refusals::attacks::rows(),
        refusals::icmp::rows(),
        refusals::checksum::rows(),
        closing::orderly::rows(),
        closing::time_wait::rows(),
        closing::closed_port::rows(),
        closing::half_open::rows(),
        bgp::rows(),
        outside::rows(),
        wrap::rows(),
        moving::rows(),
        manager::rolling::rows(),
        manager::secrets::rows(),
        manager::expiry::rows(),
        manager::calls::rows(),
        manager::peers::rows(),
        manager::vrf::rows(),
        rtr::rows(),
        firmware::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
