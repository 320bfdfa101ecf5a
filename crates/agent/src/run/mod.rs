//! Supervising a program.

mod addresses;
mod calls;
mod error;
mod filter;
mod process;
mod program;
mod signals;
mod sockets;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, WaitStatus, set_child_subreaper, wait};
use wireseal_linux::probe;

use self::calls::Calls;
use self::sockets::Sockets;
use crate::{Config, Source};

pub use self::error::RunError;

/// How often the key chains are carried out and new sockets are looked for.
const TICK: Duration = Duration::from_secs(1);

/// Runs a program with keys on its sockets until it and all of its children have ended. Returns its exit code; 128 and the signal's number if
/// a signal ended it.
///
/// On SIGHUP the configuration is read again; if it cannot be used, the one before stays, and the log says why. Other signals are passed on
/// to the program. The process must not have started children before, as it waits for any.
///
/// # Errors
/// [`RunError`]; the program has not been started then. [`RunError::exit_code`] is what a shell would return.
pub fn run(program: &OsStr, arguments: &[OsString], source: &Source) -> Result<u8, RunError> {
    let config = source.read()?;
    config.check_for_kernel()?;
    let support = probe().map_err(RunError::Probe)?;
    if !support.tcp_ao {
        return Err(RunError::NoTcpAo { kernel: support.kernel });
    }
    supervise(program, arguments, source, config)
}

/// The same on any kernel.
fn supervise(
    program: &OsStr,
    arguments: &[OsString],
    source: &Source,
    config: Config,
) -> Result<u8, RunError> {
    let program = program::find(program)?;
    // Before the signals can be passed on, so that those for this process do not get lost.
    let (wake, woken) = UnixStream::pair().map_err(RunError::System)?;
    woken.set_nonblocking(true).map_err(RunError::System)?;
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| RunError::System(error.into()))?;
    let md5 = config.md5;
    let sockets = Sockets::new(config)?;
    let (child, notifications) = filter::spawn(&program, arguments, md5)?;
    let signals = signals::pass_on(child, wake).map_err(RunError::System)?;
    tracing::info!(program = %program.display(), pid = child.as_raw_nonzero(), "started");
    let mut calls = Calls::new(notifications, sockets);
    let mut status = None;
    let mut next = Instant::now();
    loop {
        let wait = next.saturating_duration_since(Instant::now());
        let has_ended = !wait_for(&mut calls, &woken, wait).map_err(RunError::System)?;
        reap(child, &mut status);
        if has_ended {
            break;
        }
        if signals.wants_reload() {
            reload(source, &mut calls.sockets);
            next = Instant::now();
        }
        if next <= Instant::now() {
            calls.tick();
            next = Instant::now() + TICK;
        }
    }
    while status.is_none() {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, ended))) if pid == child => status = Some(ended),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(RunError::System(error.into())),
        }
    }
    Ok(status.map_or(1, exit_code))
}

/// Waits for a call of the program or a signal, and answers calls. Returns false once nobody is left who could make one.
fn wait_for(calls: &mut Calls, woken: &UnixStream, wait: Duration) -> io::Result<bool> {
    let mut events =
        [PollFd::from_borrowed_fd(calls.notifications(), PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
    let limit = Timespec::try_from(wait).ok();
    match poll(&mut events, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let [call, signal] = events.map(|event| event.revents());
    if !signal.is_empty() {
        // What it says is in the signals' state; a full buffer is read in several rounds.
        let _ = (&*woken).read(&mut [0; 64]);
    }
    if call.contains(PollFlags::IN) {
        calls.answer_next();
    }
    Ok(!call.contains(PollFlags::HUP) || call.contains(PollFlags::IN))
}

/// Collects children that have ended, and orphans of the program; they come to this process.
fn reap(child: Pid, status: &mut Option<WaitStatus>) {
    while let Ok(Some((pid, ended))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            *status = Some(ended);
        }
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn reload(source: &Source, sockets: &mut Sockets) {
    let result = source.read().map_err(RunError::from).and_then(|config| sockets.change(config));
    match result {
        Ok(()) => tracing::info!("the configuration was read again"),
        Err(error) => tracing::error!(%error, "the configuration stays as it was"),
    }
}
