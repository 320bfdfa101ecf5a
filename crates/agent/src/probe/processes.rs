//! Which processes have the sockets, and what is known of each (`/proc`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::FromBufRead;
use procfs::process::{Process as Entry, Status};
use rustix::fs::{CWD, Mode, OFlags, RawDir, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::host::Process;

/// More parents than a process has.
const MOST_PARENTS: usize = 256;
/// Octets of a command line that has the subcommand: the path of the program is before it.
const LONGEST_LINE: u64 = 8 << 10;

/// What `/proc` has about a process.
pub(super) fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The numbers of all processes that `/proc` shows, in order.
pub(super) fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<_> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// The processes that have a socket, each with one of its descriptors.
pub(super) type Holders = HashMap<u64, Vec<(u32, RawFd)>>;

/// Who has these sockets, by their inode numbers; and how many processes would not show their descriptors.
pub(super) fn holders(pids: &[u32], sockets: &HashSet<u64>) -> (Holders, usize) {
    let (mut holders, mut hidden) = (Holders::new(), 0);
    // Without a socket to look for, nobody is looked at.
    for pid in pids.iter().filter(|_| !sockets.is_empty()) {
        let looked = descriptors(*pid, |descriptor, inode| {
            if sockets.contains(&inode) {
                let holders = holders.entry(inode).or_default();
                if holders.last().is_none_or(|(last, _)| last != pid) {
                    holders.push((*pid, descriptor));
                }
            }
        });
        // With any other error it has ended.
        hidden += usize::from(matches!(looked, Err(Errno::ACCESS | Errno::PERM)));
    }
    (holders, hidden)
}

/// Shows all descriptors of a process that are sockets, with their inode numbers.
fn descriptors(pid: u32, mut show: impl FnMut(RawFd, u64)) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder(pid).join("fd"), flags, Mode::empty())?;
    let (mut entries, mut target) = (Vec::with_capacity(32 << 10), Vec::new());
    let mut entries = RawDir::new(&folder, entries.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let Some(descriptor) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // It may have been closed.
        let Ok(link) = readlinkat(&folder, entry.file_name(), std::mem::take(&mut target)) else { continue };
        let inode = link.to_str().ok().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
        if let Some(inode) = inode.and_then(|inode| inode.parse().ok()) {
            show(descriptor, inode);
        }
        target = link.into_bytes();
    }
    Ok(())
}

/// A duplicate of a process's descriptor, which must be this socket.
///
/// # Errors
/// ESRCH and EBADF if the process has ended or closed it; EPERM if this process may not trace it.
pub(super) fn duplicate(pid: u32, descriptor: RawFd, inode: u64) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let socket = pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty())?;
    // The process may have another file there by now, or another process the number.
    if fstat(&socket)?.st_ino == inode { Ok(socket) } else { Err(Errno::BADF) }
}

/// What is known of the processes, each looked at once.
#[derive(Default)]
pub(super) struct Known {
    processes: HashMap<u32, Option<Process>>,
    parents: HashMap<u32, Option<u32>>,
}

impl Known {
    /// The process of this number; `None` if it has ended.
    pub(super) fn process(&mut self, pid: u32) -> Option<Process> {
        if !self.processes.contains_key(&pid) {
            let process = self.look(pid);
            self.processes.insert(pid, process);
        }
        self.processes[&pid].clone()
    }

    fn look(&mut self, pid: u32) -> Option<Process> {
        let (entry, folder) = (Entry::new(i32::try_from(pid).ok()?).ok()?, folder(pid));
        let status = status(pid)?;
        let root = |path: &Path| fs::metadata(path).map(|root| (root.dev(), root.ino())).ok();
        let other_root =
            root(&folder.join("root")).zip(root(Path::new("/"))).is_some_and(|(its, own)| its != own);
        Some(Process {
            pid,
            name: name(pid)?,
            executable: fs::read_link(folder.join("exe")).ok(),
            user: Some(status.euid),
            is_in_container: other_root || status.nspid.is_some_and(|numbers| numbers.len() > 1),
            is_under_run: self
                .parents(pid)
                .into_iter()
                .any(|parent| subcommand(parent).as_deref() == Some("run")),
            unit: entry.cgroups().ok().and_then(|groups| {
                groups
                    .into_iter()
                    .filter(|group| is_systemds(group.hierarchy, &group.controllers))
                    .find_map(|group| unit(&group.pathname))
            }),
        })
    }

    /// The parents of a process, up to the first.
    pub(super) fn parents(&mut self, pid: u32) -> Vec<u32> {
        let mut parents = Vec::new();
        let mut next = pid;
        while parents.len() < MOST_PARENTS
            && let Some(parent) = *self.parents.entry(next).or_insert_with(|| parent(next))
        {
            parents.push(parent);
            next = parent;
        }
        parents
    }

    /// Of the processes that share a socket, the daemon first: the parent of the others, and not the systemd that has opened it for the
    /// daemon.
    pub(super) fn daemon_first(&mut self, holders: &mut [(u32, RawFd)]) {
        if holders.len() < 2 {
            return;
        }
        let all: HashSet<u32> = holders.iter().map(|(pid, _)| *pid).collect();
        let is_systemd: HashSet<u32> =
            all.iter().copied().filter(|pid| name(*pid).as_deref() == Some("systemd")).collect();
        holders.sort_by_cached_key(|(pid, _)| {
            let is_child =
                self.parents(*pid).iter().any(|parent| all.contains(parent) && !is_systemd.contains(parent));
            (is_systemd.contains(pid), is_child, *pid)
        });
    }
}

fn status(pid: u32) -> Option<Status> {
    // Its name may be anything, and procfs reads text alone.
    let status = fs::read(folder(pid).join("status")).ok()?;
    Status::from_buf_read(String::from_utf8_lossy(&status).as_bytes()).ok()
}

/// The number that a process has in its own PID namespace, if it is root in the user namespace of this process. A local user can have a
/// process of any name, and be root in a user namespace of his own.
pub(super) fn roots_own_number(pid: u32) -> Option<u32> {
    let user_namespace = |process: &Path| fs::metadata(process.join("ns/user")).map(|found| found.ino()).ok();
    if user_namespace(&folder(pid))? != user_namespace(Path::new("/proc/self"))? {
        return None;
    }
    let status = status(pid)?;
    let is_roots = status.ruid == 0 && status.euid == 0;
    let number =
        status.nspid.as_deref().and_then(<[_]>::last).map_or(Some(pid), |own| (*own).try_into().ok());
    number.filter(|_| is_roots)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = Entry::new(i32::try_from(pid).ok()?).and_then(|entry| entry.stat()).ok()?;
    u32::try_from(stat.ppid).ok().filter(|parent| *parent != 0)
}

/// A process's name (`comm`); `None` if it has ended.
pub(super) fn name(pid: u32) -> Option<String> {
    let name = fs::read(folder(pid).join("comm")).ok()?;
    Some(String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned())
}

/// The subcommand of a `wireseal`; `None` of any other process.
pub(super) fn subcommand(pid: u32) -> Option<String> {
    if !name(pid)?.starts_with("wireseal") {
        return None;
    }
    let mut line = Vec::new();
    File::open(folder(pid).join("cmdline")).ok()?.take(LONGEST_LINE).read_to_end(&mut line).ok()?;
    let word = line.split(|octet| *octet == 0).nth(1)?;
    Some(String::from_utf8_lossy(word).into_owned())
}

/// Whether a hierarchy of control groups is systemd's: version 2, or the one of version 1 without controllers.
fn is_systemds(hierarchy: u32, controllers: &[String]) -> bool {
    hierarchy == 0 || controllers.iter().any(|controller| controller == "name=systemd")
}

/// The service in the path of a control group; `None` if it is a user's own, which `systemctl` does not show.
fn unit(path: &str) -> Option<String> {
    let mut parts = path.split('/');
    if parts.clone().any(|part| part == "user.slice") {
        return None;
    }
    parts.rfind(|part| part.ends_with(".service")).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_service_of_the_system() {
        for (path, expected) in [
            ("/system.slice/frr.service", Some("frr.service")),
            ("/system.slice/frr.service/payload", Some("frr.service")),
            ("/system.slice/system-bird.slice/bird@core.service", Some("bird@core.service")),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/gobgpd.service", None),
            ("/user.slice/user-0.slice/session-3.scope", None),
            ("/system.slice/docker-4f1c.scope", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(unit(path).as_deref(), expected, "{path}");
        }
        assert!(is_systemds(0, &[]) && is_systemds(1, &["name=systemd".to_owned()]));
        assert!(!is_systemds(4, &["memory".to_owned()]));
    }

    #[test]
    fn a_process_is_roots_in_this_user_namespace_alone() {
        let own = std::process::id();
        if !rustix::process::geteuid().is_root() {
            return assert_eq!(roots_own_number(own), None);
        }
        assert_eq!(roots_own_number(own), Some(own));
        for words in [
            &["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"][..],
            &["setpriv", "--ruid=65534", "--clear-groups", "sleep", "60"],
            &["unshare", "--user", "--map-root-user", "sleep", "60"],
        ] {
            let mut other = std::process::Command::new(words[0]).args(&words[1..]).spawn().unwrap();
            while name(other.id()).is_none_or(|name| name != "sleep") {
                std::thread::yield_now();
            }
            assert_eq!(roots_own_number(other.id()), None, "{words:?}");
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }

    #[test]
    fn a_process_that_has_ended_is_none() {
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let pid = ended.id();
        ended.wait().unwrap();
        let mut known = Known::default();
        assert_eq!((known.process(pid), known.parents(pid), name(pid)), (None, Vec::new(), None));
        assert_eq!(duplicate(pid, 0, 1).unwrap_err(), Errno::SRCH);
        assert_eq!(holders(&[pid], &HashSet::from([1])), (Holders::new(), 0));
        // Another file is not taken for the socket.
        assert_eq!(duplicate(std::process::id(), 0, u64::MAX).unwrap_err(), Errno::BADF);
        let own = std::process::id();
        assert_eq!(known.process(own).unwrap().pid, own);
        assert!(!known.parents(own).contains(&own));
    }
}
