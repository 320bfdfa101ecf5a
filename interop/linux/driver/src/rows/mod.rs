//! The rows: what each one does, its expected outcome, and its negative twin.

mod attacks;
mod bgp;
mod bird;
mod c_daemon;
mod choice;
mod closing;
mod daemon_keys;
mod echo;
mod firmware;
mod half_open;
mod kernels;
mod lwip;
mod manager;
mod matrix;
mod md5;
mod moving;
mod opening;
mod options;
mod outside;
mod refusals;
mod resets;
mod restrictions;
mod rollover;
mod router_peer;
mod session;
mod vrf;
mod wrap;

use crate::row::Row;

/// Rows that need only the kernel of one guest: each algorithm, both versions of IP, either end opening and both at once, a rollover, refusals,
/// keys of idle sockets, and a key manager.
pub const SMOKE: [&str; 11] = [
    "keys-sha1-ipv4-kernel-opens",
    "keys-cmac-ipv6-userspace-opens",
    "keys-sha256-ipv6-kernel-opens",
    "rollover-ipv4-kernel-starts",
    "refusals-syn-ipv6-kernel-listens",
    "refusals-forged-ipv4-userspace-opens",
    "closing-reset-kernel",
    "opening-simultaneous-ipv6",
    "keys-of-idle-sockets",
    "reset-before-accept",
    "vrf",
];

/// All rows, in the table's order.
pub fn all() -> Vec<Row> {
    [
        matrix::rows(),
        rollover::rows(),
        choice::rows(),
        refusals::syn(),
        refusals::md5(),
        md5::rows(),
        attacks::forged(),
        attacks::icmp(),
        attacks::checksum(),
        closing::orderly(),
        closing::time_wait(),
        closing::closed_port(),
        half_open::rows(),
        resets::rows(),
        opening::rows(),
        router_peer::rows(),
        outside::rows(),
        wrap::rows(),
        moving::rows(),
        manager::rolling(),
        manager::accepting(),
        manager::calls(),
        daemon_keys::rows(),
        c_daemon::rows(),
        options::rows(),
        restrictions::rows(),
        vrf::rows(),
        firmware::sessions(),
        firmware::attacks(),
        firmware::quic(),
        lwip::rows(),
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
