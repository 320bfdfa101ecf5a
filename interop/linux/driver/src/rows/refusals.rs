//! What must not get through: SYNs of any other key than the listener's, and on an established session whatever somebody
//! forges, replays or claims to be an ICMP error.

mod forged;
mod icmp;
mod syn;

pub use self::forged::{has_reset_kernel, has_reset_userspace};
use super::Row;

pub fn rows() -> Vec<Row> {
    [syn::rows(), forged::rows(), icmp::rows()].into_iter().flatten().collect()
}
