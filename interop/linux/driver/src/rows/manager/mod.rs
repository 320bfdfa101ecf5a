//! What the crate for Linux does on top of the kernel's calls: key managers, errors, many keys, VRFs.

mod calls;
mod expiry;
mod managed;
mod rolling;
mod secrets;
mod vrf;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    [rolling::rows(), secrets::rows(), expiry::rows(), calls::rows(), vrf::rows()]
        .into_iter()
        .flatten()
        .collect()
}
