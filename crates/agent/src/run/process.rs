//! Looking into the program's processes: their sockets, and what is in their memory when they call.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use cidr::IpInet;
use procfs::process::{FDTarget, Process, all_processes};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use wireseal_linux::PeerName;

use super::filter::TCP_MD5SIG_EXT;

/// `PIDFD_THREAD`, from Linux 6.9 on: the pidfd is that of a thread.
const PIDFD_THREAD: u32 = 0o200;

/// A pidfd of a thread or its process.
pub(super) struct Opened(OwnedFd);

impl Opened {
    /// Opens a thread, or its process where the kernel has no pidfds of threads.
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

pub(super) fn pid_of(process: &Process) -> Option<Pid> {
    Pid::from_raw(process.pid)
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

/// A thread of a process whose descriptors can be read, because those of a main thread that has ended cannot.
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

/// A process; its start time tells it from a later one with the same number.
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

    /// Adds the process of a thread that has called: it belongs to the program even if its parents have ended. If the thread no longer
    /// `waits` once its process was looked at, that may have been another one with the same number, and is not added.
    pub(super) fn add(&mut self, thread: i32, waits: impl FnOnce() -> bool) {
        let process = process_of(thread).and_then(|process| Process::new(process).ok());
        let seen = process.and_then(|process| Seen::now(&process));
        if waits() {
            self.known.extend(seen);
        }
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

    /// The sockets of all members: by inode, a process and one of its descriptors.
    pub(super) fn sockets(&mut self) -> io::Result<HashMap<u64, (i32, RawFd)>> {
        let mut sockets = HashMap::new();
        for process in self.members()? {
            let thread = with_descriptors(process);
            // It may have ended, or be another user's.
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

/// How many octets `connect` takes for an address, whatever the socket's state (`struct sockaddr_storage`).
pub(super) const ADDRESS_OCTETS: RangeInclusive<usize> = 2..=128;
/// Families of addresses, in the host's order of octets.
const AF_UNSPEC: u16 = 0;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// What `connect` is called with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Address {
    /// Connect to this address.
    Remote(SocketAddr),
    /// Dissolve the connection (AF_UNSPEC).
    Dissolve,
}

/// Reads the octets of `struct sockaddr`, with the kernel's errors.
pub(super) fn parse_address(octets: &[u8]) -> Result<Address, Errno> {
    let family = octets.first_chunk().map(|family| u16::from_ne_bytes(*family)).ok_or(Errno::INVAL)?;
    match family {
        AF_UNSPEC => Ok(Address::Dissolve),
        AF_INET => {
            let [_, _, high, low, a, b, c, d, ..] = *octets.first_chunk::<16>().ok_or(Errno::INVAL)?;
            let address = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
            Ok(Address::Remote(address.into()))
        }
        AF_INET6 => {
            // The scope may be missing (RFC 2133).
            if octets.len() < 24 {
                return Err(Errno::INVAL);
            }
            let mut whole = [0; 28];
            whole.iter_mut().zip(octets).for_each(|(whole, octet)| *whole = *octet);
            let number =
                |at: usize| u32::from_ne_bytes([whole[at], whole[at + 1], whole[at + 2], whole[at + 3]]);
            let mut address = [0; 16];
            address.copy_from_slice(&whole[8..24]);
            let (address, port) = (Ipv6Addr::from(address), u16::from_be_bytes([whole[2], whole[3]]));
            let address = SocketAddrV6::new(address, port, u32::from_be(number(4)), number(24));
            Ok(Address::Remote(address.into()))
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// Octets of `struct tcp_md5sig` (`linux/tcp.h`), and those of them before the secret.
pub(super) const MD5_KEY: u32 = 216;
pub(super) const BEFORE_MD5_SECRET: usize = 136;
/// `TCP_MD5SIG_FLAG_PREFIX` and `TCP_MD5SIG_FLAG_IFINDEX`.
const HAS_PREFIX: u8 = 1;
const HAS_VRF: u8 = 2;

/// The network that a TCP-MD5 key (RFC 2385) is for; `None` if the kernel refuses the key.
pub(super) fn md5_peer(octets: &[u8; BEFORE_MD5_SECRET], option: u32) -> Option<PeerName> {
    let [family @ .., _, _] = *octets.first_chunk::<4>()?;
    let address: IpAddr = match u16::from_ne_bytes(family) {
        AF_INET => <[u8; 4]>::try_from(&octets[4..8]).ok()?.into(),
        AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(&octets[8..24]).ok()?).to_canonical(),
        _ => return None,
    };
    let flags = if option == TCP_MD5SIG_EXT { octets[128] } else { 0 };
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = if flags & HAS_PREFIX == 0 { whole } else { octets[129] };
    let vrf = u32::from_ne_bytes(*octets.last_chunk()?);
    let remote = IpInet::new(address, length).ok()?.network();
    Some(PeerName { vrf: (flags & HAS_VRF != 0 && vrf != 0).then_some(vrf), ..PeerName::new(remote) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_have_the_number_of_a_killed_caller_is_not_added() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child_number = child.id().cast_signed();
        let mut family = Family { known: HashSet::new() };
        let mut members = |waits| {
            family.add(child_number, || waits);
            family.known.iter().map(|seen| seen.pid).collect::<Vec<_>>()
        };
        assert_eq!([members(false), members(true)], [vec![], vec![child_number]]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn address(family: u16, rest: &[u8]) -> Vec<u8> {
        [&family.to_ne_bytes()[..], rest].concat()
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let ipv4 = address(AF_INET, &[0, 179, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(parse_address(&ipv4), Ok(Address::Remote("192.0.2.1:179".parse().unwrap())));
        let mut ipv6 = address(AF_INET6, &[0, 179, 0, 0, 0, 0, 0xfe, 0x80]);
        ipv6.resize(23, 0);
        ipv6.push(1);
        assert_eq!(parse_address(&ipv6), Ok(Address::Remote("[fe80::1]:179".parse().unwrap())));
        ipv6.extend(7u32.to_ne_bytes());
        assert_eq!(parse_address(&ipv6), Ok(Address::Remote("[fe80::1%7]:179".parse().unwrap())));
        assert_eq!(parse_address(&address(AF_UNSPEC, &[])), Ok(Address::Dissolve));
    }

    #[test]
    fn what_is_too_short_or_of_another_family_is_refused() {
        for (family, least) in [(AF_INET, 16), (AF_INET6, 24)] {
            for length in 0..least {
                let mut octets = address(family, &[0; 32]);
                octets.truncate(length);
                assert_eq!(parse_address(&octets), Err(Errno::INVAL), "{family}, {length}");
            }
        }
        assert_eq!(parse_address(&address(1, b"/run/socket")), Err(Errno::AFNOSUPPORT));
    }

    const TCP_MD5SIG: u32 = 14;

    fn key(address: &[u8], flags: u8, length: u8, vrf: u32) -> [u8; BEFORE_MD5_SECRET] {
        let (family, at) = if address.len() == 4 { (AF_INET, 4) } else { (AF_INET6, 8) };
        let mut octets = [0; BEFORE_MD5_SECRET];
        octets[..2].copy_from_slice(&family.to_ne_bytes());
        octets[at..at + address.len()].copy_from_slice(address);
        (octets[128], octets[129]) = (flags, length);
        octets[132..].copy_from_slice(&vrf.to_ne_bytes());
        octets
    }

    #[test]
    fn whom_a_key_is_for_is_read_as_the_kernel_reads_it() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        let ipv6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for (octets, option, peer) in [
            (key(&[192, 0, 2, 1], 3, 24, 7), TCP_MD5SIG, Some("192.0.2.1")),
            (key(&[192, 0, 2, 1], 0, 24, 7), TCP_MD5SIG_EXT, Some("192.0.2.1")),
            (key(&[192, 0, 2, 1], HAS_PREFIX, 24, 0), TCP_MD5SIG_EXT, Some("192.0.2.0/24")),
            (key(&[192, 0, 2, 1], HAS_PREFIX, 33, 0), TCP_MD5SIG_EXT, None),
            (key(&mapped, 0, 0, 0), TCP_MD5SIG, Some("192.0.2.1")),
            (key(&mapped, HAS_PREFIX, 33, 0), TCP_MD5SIG_EXT, None),
            (key(&ipv6, HAS_PREFIX, 64, 0), TCP_MD5SIG_EXT, Some("2001:db8::/64")),
            ([0; BEFORE_MD5_SECRET], TCP_MD5SIG, None),
        ] {
            assert_eq!(md5_peer(&octets, option), peer.map(|peer| peer.parse().unwrap()), "{peer:?}");
        }
        let in_vrf = md5_peer(&key(&[192, 0, 2, 1], HAS_VRF, 0, 7), TCP_MD5SIG_EXT).unwrap();
        assert_eq!(in_vrf.vrf, Some(7));
    }
}
