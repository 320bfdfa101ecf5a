//! Passing signals on: from the supervisor to the program, and to the supervisor from a process in front of it. That process waits until
//! the program is in the background, or kills the program if its supervisor ends.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, setsid, wait,
};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::Signals;

use super::process::{Family, pid_of};
use crate::error::Error;
use crate::instance::lock;

/// Signals that a supervisor passes on.
const FOR_THE_PROGRAM: [i32; 8] = [SIGALRM, SIGCONT, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
/// Signals that a terminal sends to the program as well.
const FROM_TERMINALS: [i32; 4] = [SIGCONT, SIGINT, SIGQUIT, SIGWINCH];

/// How often to look whether killed processes are gone.
const AGAIN: Duration = Duration::from_millis(10);

/// What signals have asked for.
#[derive(Clone, Default)]
pub(super) struct Asked {
    reload: Arc<AtomicBool>,
    /// Signals for the program.
    passed: Arc<Mutex<Vec<Signal>>>,
}

impl Asked {
    /// Whether SIGHUP came since the last call, so that the configuration must be read again.
    pub(super) fn wants_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// The signals that are to be passed on.
    pub(super) fn take_passed(&self) -> Vec<Signal> {
        std::mem::take(&mut *lock(&self.passed))
    }
}

/// Calls `act` for each of these signals, in a thread of its own.
fn handle(signals: &[i32], mut act: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || signals.forever().for_each(&mut act)).map(drop)
}

/// The signal to pass on, unless the terminal has sent it to the program as well.
fn passed(signal: i32) -> Option<Signal> {
    let has_it = FROM_TERMINALS.contains(&signal) && io::stdin().is_terminal();
    Signal::from_named_raw(signal).filter(|_| !has_it)
}

/// Collects signals from now on, and wakes the supervisor for each.
pub(super) fn pass_on(mut wake: UnixStream) -> io::Result<Asked> {
    let asked = Asked::default();
    let told = asked.clone();
    wake.set_nonblocking(true)?;
    handle(&[&FOR_THE_PROGRAM[..], &[SIGHUP, SIGCHLD]].concat(), move |signal| {
        match signal {
            SIGHUP => told.reload.store(true, Ordering::Relaxed),
            SIGCHLD => {}
            signal => lock(&told.passed).extend(passed(signal)),
        }
        // If the buffer is full, the supervisor is awake.
        let _ = wake.write(&[0]);
    })?;
    Ok(asked)
}

/// Passes all of a supervisor's signals on to it.
pub(super) fn pass_all_on(supervisor: Pid) -> io::Result<()> {
    handle(&[&FOR_THE_PROGRAM[..], &[SIGHUP]].concat(), move |signal| {
        if let Some(signal) = passed(signal) {
            pass(signal, supervisor);
        }
    })
}

/// Sends a signal to a process, which may have ended.
pub(super) fn pass(signal: Signal, pid: Pid) {
    let _ = kill_process(pid, signal);
}

/// The exit code of a process as a shell gives it: 128 and the signal's number if a signal ended it.
pub(super) fn exit_code(status: WaitStatus) -> u8 {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Runs a supervisor with [`Supervisor::in_background`](crate::Supervisor) until the program's first process has ended; the supervisor goes
/// on in the background. Returns that process's exit code, or the supervisor's if that ended first.
///
/// # Errors
/// [`Error::System`] if it cannot be started.
pub fn run_in_background(supervisor: &mut Command) -> Result<u8, Error> {
    let (mut own, other) = UnixStream::pair().map_err(Error::cannot("supervise"))?;
    supervisor.stdin(OwnedFd::from(other));
    let mut started = supervisor.spawn().map_err(Error::cannot("supervise"))?;
    // Closes the other end in this process; otherwise it would never see the supervisor go.
    supervisor.stdin(Stdio::null());
    pass_all_on(Pid::from_child(&started)).map_err(Error::cannot("supervise"))?;
    let mut code = [0];
    match own.read(&mut code) {
        Ok(1) => Ok(code[0]),
        _ => {
            let code = started.wait().map_err(Error::cannot("supervise"))?.code();
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
    }
}

/// The process behind standard input that waits for the exit code of the program's first process. This process leaves its terminal.
pub(super) fn caller_at_stdin() -> io::Result<UnixStream> {
    let caller = io::stdin().as_fd().try_clone_to_owned()?;
    // This fails if it already leads a session.
    let _ = setsid();
    Ok(caller.into())
}

/// Runs a supervisor, and kills what is left of its program when the supervisor is killed or fails. Returns its exit code. Passes all
/// signals on to it, SIGHUP too.
///
/// # Errors
/// [`Error::System`] if it cannot be started.
pub fn stop_with(supervisor: &mut Command) -> Result<u8, Error> {
    // Orphans of the supervisor become children of this process.
    set_child_subreaper(Some(getpid())).map_err(Error::cannot("supervise"))?;
    let started = supervisor.spawn().map_err(Error::cannot("supervise"))?;
    let child = Pid::from_child(&started);
    pass_all_on(child).map_err(Error::cannot("supervise"))?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                kill_all().map_err(Error::cannot("supervise"))?;
                return Ok(exit_code(status));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::cannot("supervise")(error)),
        }
    }
}

/// Kills all descendants of this process, and waits until none is left.
fn kill_all() -> io::Result<()> {
    let mut family = Family::of_this_process()?;
    let mut is_said = false;
    loop {
        for pid in family.descendants()?.iter().filter_map(pid_of) {
            if !is_said {
                tracing::error!("the supervisor has ended before the program: the program is killed");
            }
            is_said = true;
            pass(Signal::KILL, pid);
        }
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) | Err(Errno::INTR) => sleep(AGAIN),
            // No child is left.
            Err(_) => return Ok(()),
        }
    }
}
