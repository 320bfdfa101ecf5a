//! A process whose threads stand still, one of which makes system calls for this process.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
#[cfg(target_arch = "x86_64")]
use nix::sys::signal::kill;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use procfs::process::Process;

use super::error::AttachError;

/// How long a thread may take to stop.
const LIMIT: Duration = Duration::from_secs(5);
/// How often it is looked at.
const CHECK: Duration = Duration::from_millis(1);
/// The code segment of 64-bit programs.
#[cfg(target_arch = "x86_64")]
const LONG_MODE: u64 = 0x33;

const fn trace(error: Errno) -> AttachError {
    AttachError::Trace { error }
}

/// A process whose threads stand still, until this is dropped.
pub(super) struct Stopped {
    threads: Vec<Thread>,
}

/// A thread, and a signal that was on its way to it.
struct Thread {
    id: Pid,
    signal: Option<Signal>,
}

impl Stopped {
    /// Stops all threads of a process.
    pub(super) fn all_threads(pid: i32) -> Result<Self, AttachError> {
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

/// A thread that makes system calls for this process, and has its registers back when this is dropped.
#[cfg(target_arch = "x86_64")]
pub(super) struct Borrowed {
    thread: Pid,
    registers: libc::user_regs_struct,
    place: u64,
    /// Signals that came meanwhile.
    signals: Vec<Signal>,
}

#[cfg(target_arch = "x86_64")]
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
        Ok(Borrowed { thread, registers, place, signals: Vec::new() })
    }
}

#[cfg(target_arch = "x86_64")]
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
                Some(signal) => self.signals.push(signal),
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

#[cfg(target_arch = "x86_64")]
impl Drop for Borrowed {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = ptrace::setregs(self.thread, self.registers);
        for signal in &self.signals {
            let _ = kill(self.thread, *signal);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) enum Borrowed {}

#[cfg(not(target_arch = "x86_64"))]
impl Stopped {
    pub(super) fn borrow(&self, _: u64) -> Result<Borrowed, AttachError> {
        Err(AttachError::Processor)
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Borrowed {
    pub(super) fn call(&mut self, _: i64, _: [u64; 6]) -> Result<u64, AttachError> {
        match *self {}
    }
}
