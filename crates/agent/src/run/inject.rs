//! Putting the filter on a program that runs already: its threads are stopped, and one of them is made to install it, as a debugger calls
//! functions of a program.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use procfs::process::{FDTarget, MMPermissions, MMapPath, Process};
use rustix::fs::{MemfdFlags, memfd_create};

use super::error::{AttachError, RunError};
use super::filter;
use super::process::{Family, Opened};
use super::traced::{Borrowed, Stopped};

/// The instruction of a system call.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Octets of `struct sock_filter`, one instruction of a filter, and of `struct sock_fprog`, which names all of them.
const INSTRUCTION: usize = 8;
const PROGRAM: usize = 16;

/// Installs the filter in all processes of a program; returns the descriptors on which their calls are announced.
pub(super) fn into_all(family: &mut Family) -> Result<Vec<OwnedFd>, RunError> {
    let first = family.first();
    let made = filter_octets().map_err(|reason| RunError::Attach { pid: first, reason })?;
    let mut announced = Vec::new();
    let mut done = Vec::new();
    loop {
        let members = family.members().map_err(RunError::System)?;
        let new: Vec<i32> =
            members.iter().map(|process| process.pid).filter(|pid| !done.contains(pid)).collect();
        if new.is_empty() {
            return Ok(announced);
        }
        let is_first_round = done.is_empty();
        for pid in new {
            done.push(pid);
            match into(pid, &made) {
                Ok(descriptor) => announced.push(descriptor),
                Err(AttachError::HasEnded) if pid != first => {}
                // It was started meanwhile, by a process that has the filter already, and so it has it as well.
                Err(AttachError::Filter { error: Errno::EBUSY }) if !is_first_round => {}
                Err(reason) if announced.is_empty() => return Err(RunError::Attach { pid, reason }),
                Err(reason) => return Err(RunError::PartlyAttached { pid, reason }),
            }
        }
    }
}

/// The filter's instructions.
fn filter_octets() -> Result<Vec<u8>, AttachError> {
    let file =
        memfd_create("filter", MemfdFlags::CLOEXEC).map_err(|error| AttachError::System(error.into()))?;
    filter::rules().and_then(|filter| filter.export_bpf(&file)).map_err(AttachError::MakeFilter)?;
    let (mut file, mut octets) = (File::from(file), Vec::new());
    file.rewind().and_then(|()| file.read_to_end(&mut octets)).map_err(AttachError::System)?;
    Ok(octets)
}

fn into(pid: i32, filter: &[u8]) -> Result<OwnedFd, AttachError> {
    let stopped = Stopped::all_threads(pid)?;
    let process = Process::new(pid).map_err(|_| AttachError::HasEnded)?;
    let is_ring =
        |target: &FDTarget| matches!(target, FDTarget::AnonInode(name) if name.contains("io_uring"));
    if process.fd().is_ok_and(|mut open| open.any(|open| open.is_ok_and(|open| is_ring(&open.target)))) {
        return Err(AttachError::IoUring);
    }
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
    let memory = memory.map_err(AttachError::System)?;
    let mut borrowed = stopped.borrow(system_call(&process, &memory)?)?;
    let length = (PROGRAM + filter.len()) as u64;
    // Not on a stack: it might be a small one.
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let address = borrowed.call(libc::SYS_mmap, [0, length, protection, anonymous, u64::MAX, 0])?;
    let installed = install(&mut borrowed, pid, &memory, address, filter);
    let unmapped = borrowed.call(libc::SYS_munmap, [address, length, 0, 0, 0, 0]);
    installed.and_then(|installed| unmapped.map(|_| installed))
}

/// Installs a filter by way of memory at this address, and takes the descriptor on which calls are announced.
fn install(
    borrowed: &mut Borrowed,
    pid: i32,
    memory: &File,
    address: u64,
    filter: &[u8],
) -> Result<OwnedFd, AttachError> {
    let mut octets = vec![0; PROGRAM];
    octets[..2].copy_from_slice(&((filter.len() / INSTRUCTION) as u16).to_ne_bytes());
    octets[8..].copy_from_slice(&(address + PROGRAM as u64).to_ne_bytes());
    octets.extend_from_slice(filter);
    memory.write_all_at(&octets, address).map_err(AttachError::System)?;
    borrowed.call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0])?;
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC
        | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH
        | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    let descriptor =
        borrowed.call(libc::SYS_seccomp, [mode, flags, address, 0, 0, 0]).map_err(|error| match error {
            AttachError::Trace { error } => AttachError::Filter { error },
            error => error,
        })?;
    let taken = Opened::of_thread(pid).and_then(|process| process.duplicate(descriptor as i32));
    // The program must not keep it: its calls would wait for ever once the supervisor is gone.
    borrowed.call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
    taken.map_err(|error| AttachError::System(error.into()))
}

/// Where a system call can be made: the vDSO has one, for when it cannot tell the time itself.
fn system_call(process: &Process, memory: &File) -> Result<u64, AttachError> {
    let maps = process.maps().map_err(|_| AttachError::HasEnded)?;
    let vdso =
        maps.iter().find(|map| map.pathname == MMapPath::Vdso && map.perms.contains(MMPermissions::EXECUTE));
    let (start, end) = vdso.ok_or(AttachError::NoSystemCall)?.address;
    let mut octets = vec![0; (end - start) as usize];
    memory.read_exact_at(&mut octets, start).map_err(AttachError::System)?;
    let place = octets.windows(SYSCALL.len()).position(|octets| octets == SYSCALL);
    place.map(|place| start + place as u64).ok_or(AttachError::NoSystemCall)
}
