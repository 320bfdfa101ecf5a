//! Looking into the program's processes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use procfs::process::{FDTarget, Process, all_processes};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD`, from Linux 6.9 on: the descriptor is that of a thread.
const PIDFD_THREAD: u32 = 0o200;

/// A process, or a thread with its own table of descriptors.
pub(super) struct Opened(OwnedFd);

impl Opened {
    /// The process of a thread.
    pub(super) fn of_thread(thread: i32) -> Result<Self, Errno> {
        let pid = Pid::from_raw(thread).ok_or(Errno::SRCH)?;
        let of_thread = pidfd_open(pid, PidfdFlags::from_bits_retain(PIDFD_THREAD));
        let opened = of_thread.or_else(|_| pidfd_open(pid, PidfdFlags::empty())).or_else(|error| {
            let process = Process::new(thread).and_then(|process| process.status());
            let process = process.ok().and_then(|status| Pid::from_raw(status.tgid)).ok_or(error)?;
            pidfd_open(process, PidfdFlags::empty())
        });
        opened.map(Self)
    }

    /// A duplicate of one of its descriptors.
    pub(super) fn duplicate(&self, descriptor: RawFd) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty())
    }
}

/// Octets of a thread's memory.
pub(super) fn memory(thread: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let process = Process::new(thread).map_err(io::Error::other)?;
    let memory = process.mem().map_err(io::Error::other)?;
    let mut octets = vec![0; length];
    memory.read_exact_at(&mut octets, address)?;
    Ok(octets)
}

/// The sockets of all descendants of this process: for each inode number a process and a descriptor.
pub(super) fn sockets() -> io::Result<HashMap<u64, (i32, RawFd)>> {
    let mut sockets = HashMap::new();
    for process in descendants()? {
        // It may have ended, or belong to somebody else.
        let Ok(descriptors) = process.fd() else { continue };
        for descriptor in descriptors.flatten() {
            if let FDTarget::Socket(inode) = descriptor.target {
                sockets.entry(inode).or_insert((process.pid, descriptor.fd));
            }
        }
    }
    Ok(sockets)
}

fn descendants() -> io::Result<Vec<Process>> {
    let all = all_processes().map_err(io::Error::other)?.flatten();
    let mut others: Vec<_> = all.filter_map(|process| Some((process.stat().ok()?.ppid, process))).collect();
    let mut family = HashSet::from([std::process::id().cast_signed()]);
    let mut found = Vec::new();
    loop {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(parent, _)| family.contains(parent));
        if children.is_empty() {
            return Ok(found);
        }
        family.extend(children.iter().map(|(_, process)| process.pid));
        found.extend(children.into_iter().map(|(_, process)| process));
        others = rest;
    }
}
