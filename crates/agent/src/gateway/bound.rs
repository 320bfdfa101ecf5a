//! Which packet queues of this network namespace are bound, and by whom.

use std::path::Path;
use std::{fmt, fs, io};

/// A packet queue that gets no packets. The kernel gives it to one process in a network namespace until that ends, however it ends, and
/// only to those who may change the rules. No other queue of a gateway can have this number, as the last they may begin with is 65,000.
pub(super) const LOCK: u16 = 65_179;

/// The process of a gateway, if it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder(pub Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |process| write!(f, " (process {process})"))
    }
}

/// Who has the lock.
pub(super) fn holder() -> Option<Holder> {
    bound().find(|(queue, _)| *queue == LOCK).map(|(_, port)| {
        // What is no process has its number from the kernel: another socket of that process was the first.
        Holder(Path::new("/proc").join(port.to_string()).exists().then_some(port))
    })
}

/// The packet queues of this network namespace that are bound, and the netlink sockets that they belong to.
fn bound() -> impl Iterator<Item = (u16, u32)> {
    let text = fs::read_to_string("/proc/self/net/netfilter/nfnetlink_queue").unwrap_or_default();
    let in_line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(in_line).collect::<Vec<_>>().into_iter()
}

/// Why a queue cannot be had, as far as the error does not say.
pub(super) fn advice(first: u16, last: u16, error: &io::Error) -> &'static str {
    let is_taken = || bound().any(|(queue, _)| (first..=last).contains(&queue));
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy if is_taken() => {
            " (another program has one of them: choose others with --queue)"
        }
        io::ErrorKind::PermissionDenied => " (it needs CAP_NET_ADMIN)",
        _ => "",
    }
}
