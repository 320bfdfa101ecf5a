//! BIRD, on a kernel's TCP-AO, as the peer of Wireseal's BGP speaker: on its userspace stack, and on a kernel's sockets.

pub(super) mod bird;
pub(super) mod common;
mod kernel;
mod migration;
mod program;
mod userspace;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    vec![userspace::row(), kernel::row(), migration::row()]
}
