//! The rows: what each one does, its expected outcome, and its negative twin.

mod attacks;
mod bgp;
mod bird;
mod closing;
mod daemon_keys;
mod firmware;
mod half_open;
mod kernels;
mod manager;
mod matrix;
mod moving;
mod outside;
mod refusals;
mod rollover;
mod session;
mod vrf;
mod wrap;

use crate::row::Row;

/// Rows that need only the kernel of one guest: each algorithm, both versions of IP, either end opening, a rollover, refusals, and a key
/// manager.
pub const SMOKE: [&str; 9] = [
    "keys-sha1-ipv4-kernel-opens",
    "keys-cmac-ipv6-userspace-opens",
    "keys-sha256-ipv6-kernel-opens",
    "rollover-ipv4-kernel-starts",
    "refusals-syn-ipv6-kernel-listens",
    "refusals-forged-ipv4-userspace-opens",
    "closing-reset-kernel",
    "reset-before-accept",
    "vrf",
];

/// All rows, in the table's order.
pub fn all() -> Vec<Row> {
    [
        matrix::rows(),
        rollover::rows(),
        refusals::syn(),
        refusals::md5(),
        attacks::forged(),
        attacks::icmp(),
        attacks::checksum(),
        closing::orderly(),
        closing::time_wait(),
        closing::closed_port(),
        half_open::rows(),
        bgp::rows(),
        outside::rows(),
        wrap::rows(),
        moving::rows(),
        manager::rolling(),
        manager::accepting(),
        manager::calls(),
        daemon_keys::rows(),
        vrf::rows(),
        firmware::sessions(),
        firmware::attacks(),
        firmware::quic(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{SMOKE, all};

    /// The longest description of a row in RESULTS.md, in characters.
    const SHORT: usize = 120;

    #[test]
    fn rows_have_names_of_their_own_and_short_descriptions() {
        let rows = all();
        let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        let long: Vec<&str> =
            rows.iter().map(|row| row.in_short()).filter(|what| what.len() > SHORT).collect();
        assert!(long.is_empty(), "{long:#?}");
        assert!(SMOKE.iter().all(|name| names.contains(name)));
    }
}
