//! BIRD, on a kernel's TCP-AO, as the peer of Wireseal's BGP speaker: on its userspace stack, and on a kernel's sockets.

mod bird;
pub(super) mod common;
mod gateway;
mod host;
mod kernel;
mod migration;
mod program;
mod supervised;
mod userspace;
mod wait;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![userspace::row(), host::row(), kernel::row(), migration::row()];
    rows.extend(supervised::rows());
    rows.extend(gateway::rows());
    rows
}
