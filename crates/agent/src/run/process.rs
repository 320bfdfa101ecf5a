//! Looking into the program's processes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use procfs::process::{FDTarget, Process, all_processes};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

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
            let process = Pid::from_raw(process_of(thread).ok_or(error)?).ok_or(error)?;
            pidfd_open(process, PidfdFlags::empty())
        });
        opened.map(Self)
    }

    /// A duplicate of one of its descriptors.
    pub(super) fn duplicate(&self, descriptor: RawFd) -> Result<OwnedFd, Errno> {
        pidfd_getfd(&self.0, descriptor, PidfdGetfdFlags::empty())
    }
}

/// The process that a thread belongs to.
fn process_of(thread: i32) -> Option<i32> {
    Process::new(thread).and_then(|thread| thread.status()).map(|status| status.tgid).ok()
}

/// Octets of a thread's memory.
pub(super) fn memory(thread: i32, address: u64, length: usize) -> io::Result<Vec<u8>> {
    let process = Process::new(thread).map_err(io::Error::other)?;
    let memory = process.mem().map_err(io::Error::other)?;
    let mut octets = vec![0; length];
    memory.read_exact_at(&mut octets, address)?;
    Ok(octets)
}

/// A process whose descriptors can be read: if its first thread has ended, another in its place.
fn with_descriptors(process: Process) -> Option<Process> {
    if process.stat().ok()?.state != 'Z' {
        return Some(process);
    }
    let others = process.tasks().ok()?.flatten().filter(|task| task.tid != process.pid);
    others
        .filter_map(|task| {
            Process::new_with_root(format!("/proc/{}/task/{}", process.pid, task.tid).into()).ok()
        })
        .next()
}

/// A process that was seen, told from a later one with the same number by when it started.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Seen {
    pid: i32,
    started: u64,
}

impl Seen {
    fn now(process: &Process) -> Option<Self> {
        Some(Self { pid: process.pid, started: process.stat().ok()?.starttime })
    }
}

/// The processes of the program: this process, those that called, and all descendants of them.
#[derive(Debug)]
pub(super) struct Family {
    known: HashSet<Seen>,
}

impl Family {
    /// The descendants of this process, which is no member itself.
    pub(super) fn of_this_process() -> io::Result<Self> {
        let own = Process::myself().ok().and_then(|process| Seen::now(&process));
        let own = own.ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self { known: HashSet::from([own]) })
    }

    /// A thread has called, so its process is a member, even if those between have ended.
    pub(super) fn add(&mut self, thread: i32) {
        let process = process_of(thread).and_then(|process| Process::new(process).ok());
        self.known.extend(process.and_then(|process| Seen::now(&process)));
    }

    /// All descendants of the known processes, without these.
    pub(super) fn descendants(&mut self) -> io::Result<Vec<Process>> {
        let all = all_processes().map_err(io::Error::other)?.flatten();
        let all: Vec<_> = all.filter_map(|process| Some((process.stat().ok()?, process))).collect();
        let is_alive =
            |seen: &Seen| all.iter().any(|(stat, _)| (stat.pid, stat.starttime) == (seen.pid, seen.started));
        self.known.retain(is_alive);
        let mut family: HashSet<i32> = self.known.iter().map(|seen| seen.pid).collect();
        let mut others: Vec<_> = all.into_iter().map(|(stat, process)| (stat.ppid, process)).collect();
        let mut found = Vec::new();
        loop {
            let (children, rest): (Vec<_>, Vec<_>) = others
                .into_iter()
                .partition(|(parent, process)| family.contains(parent) && !family.contains(&process.pid));
            if children.is_empty() {
                return Ok(found);
            }
            family.extend(children.iter().map(|(_, process)| process.pid));
            found.extend(children.into_iter().map(|(_, process)| process));
            others = rest;
        }
    }

    /// All members, without this process itself.
    pub(super) fn members(&mut self) -> io::Result<Vec<Process>> {
        let mut members = self.descendants()?;
        let own = getpid().as_raw_nonzero().get();
        let known = self.known.iter().filter(|seen| seen.pid != own);
        members.extend(known.filter_map(|seen| Process::new(seen.pid).ok()));
        Ok(members)
    }

    /// The sockets of all members: for each inode number a process and a descriptor.
    pub(super) fn sockets(&mut self) -> io::Result<HashMap<u64, (i32, RawFd)>> {
        let mut sockets = HashMap::new();
        for process in self.members()? {
            let thread = with_descriptors(process);
            // It may have ended, or belong to somebody else.
            let Some(descriptors) = thread.as_ref().and_then(|thread| thread.fd().ok()) else { continue };
            for descriptor in descriptors.flatten() {
                if let FDTarget::Socket(inode) = descriptor.target {
                    let pid = thread.as_ref().map_or(0, |thread| thread.pid);
                    sockets.entry(inode).or_insert((pid, descriptor.fd));
                }
            }
        }
        Ok(sockets)
    }
}
