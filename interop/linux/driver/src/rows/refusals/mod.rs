//! What must not get through: SYNs of any key but the listener's, and on an established session forged and replayed segments and
//! ICMP errors.

mod attacks;
mod checksum;
mod icmp;
mod md5;
mod syn;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [syn::rows(), md5::rows(), attacks::rows(), icmp::rows(), checksum::rows()]
        .into_iter()
        .flatten()
        .collect()
}
