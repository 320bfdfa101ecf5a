//! Which packet queues of this network namespace are bound, and by whom.

use std::ops::RangeInclusive;
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

/// How many packets the kernel has dropped since these queues were bound, because there was no room for them.
pub(super) fn lost(queues: RangeInclusive<u16>) -> u64 {
    let of_queue = |numbers: Vec<u64>| match numbers[..] {
        [queue, _port, _waiting, _form, _octets, by_full_queue, by_full_socket, ..] => {
            let is_own = u16::try_from(queue).is_ok_and(|queue| queues.contains(&queue));
            is_own.then_some(by_full_queue + by_full_socket)
        }
        _ => None,
    };
    lines().filter_map(of_queue).sum()
}

/// The packet queues of this network namespace that are bound, and the netlink sockets that they belong to.
fn bound() -> impl Iterator<Item = (u16, u32)> {
    lines().filter_map(|numbers| match numbers[..] {
        [queue, port, ..] => Some((queue.try_into().ok()?, port.try_into().ok()?)),
        _ => None,
    })
}

/// What the kernel says of each packet queue of this network namespace that is bound, the queue's number first.
fn lines() -> impl Iterator<Item = Vec<u64>> {
    let text = fs::read_to_string("/proc/self/net/netfilter/nfnetlink_queue").unwrap_or_default();
    let in_line = |line: &str| line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    text.lines().map(in_line).collect::<Vec<_>>().into_iter()
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
