//! Putting the filter on a program that runs already: its threads are stopped, and one of them is made to install it, as a debugger calls
//! functions of a program.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::fs::{MemfdFlags, memfd_create};

use self::borrowed::Borrowed;
use super::error::{AttachError, RunError};
use super::filter;
use super::process::{Family, Opened};
use crate::config::Md5;

/// How long a thread may take to stop.
const LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked at.
const CHECK: Duration = Duration::from_millis(1);
/// The instruction of a system call.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// The code segment of 64-bit programs.
const LONG_MODE: u64 = 0x33;
/// Octets of `struct sock_filter`, one instruction of a filter, and of `struct sock_fprog`, which names all of them.
const INSTRUCTION: usize = 8;
const PROGRAM: usize = 16;

/// Installs the filter in all processes of a program; returns the descriptors on which their calls are announced.
pub(super) fn into_all(family: &mut Family, md5: Md5) -> Result<Vec<OwnedFd>, RunError> {
    let first = family.first();
    let made = filter_octets(md5).map_err(|reason| RunError::Attach { pid: first, reason })?;
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
fn filter_octets(md5: Md5) -> Result<Vec<u8>, AttachError> {
    let file =
        memfd_create("filter", MemfdFlags::CLOEXEC).map_err(|error| AttachError::System(error.into()))?;
    filter::rules(md5).and_then(|filter| filter.export_bpf(&file)).map_err(AttachError::MakeFilter)?;
    let (mut file, mut octets) = (File::from(file), Vec::new());
    file.rewind().and_then(|()| file.read_to_end(&mut octets)).map_err(AttachError::System)?;
    Ok(octets)
}

fn into(pid: i32, filter: &[u8]) -> Result<OwnedFd, AttachError> {
    let stopped = Stopped::all_threads(pid)?;
    let process = Process::new(pid).map_err(|_| AttachError::HasEnded)?;
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

const fn trace(error: Errno) -> AttachError {
    AttachError::Trace { error }
}

/// A process whose threads stand still, until this is dropped.
struct Stopped {
    threads: Vec<Thread>,
}

/// A thread, and a signal that was on its way to it.
struct Thread {
    id: Pid,
    signal: Option<Signal>,
}

impl Stopped {
    fn all_threads(pid: i32) -> Result<Self, AttachError> {
        let mut stopped = Self { threads: Vec::new() };
        // Threads that run may start others.
        loop {
            let tasks =
                Process::new(pid).and_then(|process| process.tasks()).map_err(|_| AttachError::HasEnded)?;
            let before = stopped.threads.len();
            for task in tasks.flatten() {
                let id = Pid::from_raw(task.tid);
                let is_over = task.stat().map_or(true, |stat| matches!(stat.state, 'Z' | 'X'));
                if is_over || stopped.threads.iter().any(|thread| thread.id == id) {
                    continue;
                }
                match ptrace::seize(id, Options::empty()) {
                    Ok(()) => stopped.threads.push(Thread { id, signal: None }),
                    Err(Errno::ESRCH) => continue,
                    Err(error) => return Err(trace(error)),
                }
                ptrace::interrupt(id).map_err(trace)?;
                let signal = wait_for(id)?;
                if let Some(thread) = stopped.threads.last_mut() {
                    thread.signal = signal;
                }
            }
            if stopped.threads.len() == before {
                return if before == 0 { Err(AttachError::HasEnded) } else { Ok(stopped) };
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for Thread { id, signal } in &self.threads {
            // It may have been killed.
            let _ = ptrace::detach(*id, *signal);
        }
    }
}

/// Waits until a thread has stopped; returns the signal that it is about to get, if that is what stopped it.
fn wait_for(thread: Pid) -> Result<Option<Signal>, AttachError> {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::PtraceEvent(..)) => return Ok(None),
            Ok(WaitStatus::Stopped(_, signal)) => return Ok(Some(signal)),
            Ok(WaitStatus::StillAlive) => std::thread::sleep(CHECK),
            Ok(_) | Err(Errno::ECHILD) => return Err(AttachError::HasEnded),
            Err(error) => return Err(trace(error)),
        }
    }
    Err(AttachError::DoesNotStop(LIMIT.as_secs()))
}

#[cfg(target_arch = "x86_64")]
mod borrowed {
    use super::*;

    /// A thread that makes system calls for this process, and has its registers back when this is dropped.
    pub(super) struct Borrowed {
        thread: Pid,
        registers: libc::user_regs_struct,
        place: u64,
    }

    impl Stopped {
        /// Borrows a thread, to make system calls from this place.
        pub(super) fn borrow(&self, place: u64) -> Result<Borrowed, AttachError> {
            // One without a signal on its way if there is one; the signal would still come.
            let thread = self.threads.iter().min_by_key(|thread| thread.signal.is_some());
            let thread = thread.ok_or(AttachError::HasEnded)?.id;
            let registers = ptrace::getregs(thread).map_err(trace)?;
            if registers.cs != LONG_MODE {
                return Err(AttachError::Processor);
            }
            Ok(Borrowed { thread, registers, place })
        }
    }

    impl Borrowed {
        /// Makes a system call; an error of the kernel is [`AttachError::Trace`].
        pub(super) fn call(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, AttachError> {
            let [rdi, rsi, rdx, r10, r8, r9] = arguments;
            let (rip, rax) = (self.place, number as u64);
            // Without a system call that might have to be made again, whatever the thread was in.
            let orig_rax = u64::MAX;
            let called =
                libc::user_regs_struct { rip, rax, orig_rax, rdi, rsi, rdx, r10, r8, r9, ..self.registers };
            ptrace::setregs(self.thread, called).map_err(trace)?;
            loop {
                ptrace::step(self.thread, None).map_err(trace)?;
                match wait_for(self.thread)? {
                    Some(Signal::SIGTRAP) => break,
                    // It comes again once the thread runs.
                    Some(signal) => kill(self.thread, signal).map_err(trace)?,
                    None => {}
                }
            }
            let result = ptrace::getregs(self.thread).map_err(trace)?.rax;
            match result.cast_signed() {
                error @ -4095..0 => Err(trace(Errno::from_raw(-error as i32))),
                _ => Ok(result),
            }
        }
    }

    impl Drop for Borrowed {
        fn drop(&mut self) {
            // It may have been killed.
            let _ = ptrace::setregs(self.thread, self.registers);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod borrowed {
    use super::*;

    pub(super) enum Borrowed {}

    impl Stopped {
        pub(super) fn borrow(&self, _: u64) -> Result<Borrowed, AttachError> {
            Err(AttachError::Processor)
        }
    }

    impl Borrowed {
        pub(super) fn call(&mut self, _: i64, _: [u64; 6]) -> Result<u64, AttachError> {
            match *self {}
        }
    }
}
