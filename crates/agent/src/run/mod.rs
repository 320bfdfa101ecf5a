//! Supervising a program.

mod addresses;
mod answer;
mod background;
mod calls;
mod connects;
mod error;
mod filter;
mod guard;
mod md5;
mod process;
mod program;
mod protected;
mod signals;
mod socket;
mod sockets;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};
use wireseal_keys::Timestamp;
use wireseal_linux::probe;

use self::background::Caller;
use self::calls::Calls;
use self::process::Family;
use self::sockets::Sockets;
use crate::callers::raise_descriptor_limit;
use crate::config::Config;
use crate::metrics::{self, MetricsAddress, Served};
use crate::source::{Source, keep_memory_private};
use crate::status::{Announced, Command, Status, StatusSource, announce, network_namespace};

pub use self::background::run_in_background;
pub use self::error::RunError;
pub use self::guard::stop_with;

/// How often the key chains are carried out and new sockets are looked for.
const TICK: Duration = Duration::from_secs(1);

/// Puts keys on the sockets of a program from outside.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    /// The peers and their keys.
    pub source: Source,
    /// Where metrics for Prometheus are served.
    pub metrics: Option<MetricsAddress>,
    /// Whether this process was started by [`run_in_background`]. The program then has no standard input.
    pub in_background: bool,
}

impl Supervisor {
    /// Runs a program with keys on its sockets until it and all of its children have ended. Returns its exit code; 128 and the signal's
    /// number if a signal ended it.
    ///
    /// On SIGHUP the configuration is read again; if it cannot be used, the one before stays, and the log says why. Other signals are
    /// passed on to the program. The process must not have started children before, as it waits for any. Its limit of open files is raised
    /// as far as it may be, but not the program's.
    ///
    /// # Errors
    /// [`RunError`]; the program has not been started then. [`RunError::exit_code`] is what a shell would return.
    pub fn run(&self, program: &OsStr, arguments: &[OsString]) -> Result<u8, RunError> {
        let config = self.read()?;
        check_kernel()?;
        self.supervise(program, arguments, config)
    }

    fn read(&self) -> Result<Config, RunError> {
        keep_memory_private().map_err(RunError::System)?;
        let config = self.source.read()?;
        config.check_for_kernel()?;
        Ok(config)
    }

    /// [`run`](Self::run) on any kernel.
    fn supervise(&self, program: &OsStr, arguments: &[OsString], config: Config) -> Result<u8, RunError> {
        let program = program::find(program)?;
        let mut caller = match self.in_background {
            true => Caller::at_stdin().map_err(RunError::System)?,
            false => Caller::NONE,
        };
        // Before the signals can be passed on, so that those for this process do not get lost.
        let (wake, woken) = wake_up_call()?;
        set_child_subreaper(Some(getpid())).map_err(|error| RunError::System(error.into()))?;
        let family = Family::of_this_process().map_err(RunError::System)?;
        let sockets = Sockets::new(config)?;
        let published = self.publish(program.display().to_string())?;
        let (child, notifications) = filter::spawn(&program, arguments, !self.in_background)?;
        // The program keeps the limit that it would have without a supervisor.
        raise_descriptor_limit();
        let signals = signals::pass_on(wake).map_err(RunError::System)?;
        tracing::info!(program = %program.display(), pid = child.as_raw_nonzero(), "started");
        let mut calls = Calls::new(notifications, sockets, family);
        let (mut status, mut next) = (None, Instant::now());
        loop {
            let is_over = wait_for(&mut calls, &woken, next.saturating_duration_since(Instant::now()));
            let is_over = is_over.map_err(RunError::System)?;
            reap(child, &mut status);
            if let Some(status) = status {
                caller.tell(exit_code(status));
            }
            for signal in signals.take_passed() {
                match status {
                    None => pass(signal, child),
                    // Once the first process has ended, its children are the program.
                    Some(_) => calls.members().iter().filter_map(pid_of).for_each(|pid| pass(signal, pid)),
                }
            }
            if is_over {
                break;
            }
            if signals.wants_reload() {
                self.reload(&mut calls.sockets);
                next = Instant::now();
            }
            if next <= Instant::now() {
                calls.tick();
                published.set(&calls.sockets);
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

    fn reload(&self, sockets: &mut Sockets) {
        match self.read().and_then(|config| sockets.change(config)) {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(error) => tracing::error!(%error, "the configuration stays as it was"),
        }
    }

    /// Serves status and metrics from now on.
    fn publish(&self, program: String) -> Result<Published, RunError> {
        let status = Status {
            command: Command::Run,
            pid: std::process::id(),
            since: Timestamp::now(),
            network_namespace: network_namespace(),
            program: Some(program),
            peers: Vec::new(),
            listeners: Vec::new(),
            rules: None,
        };
        let status = Arc::new(Mutex::new(status));
        let shown = Arc::clone(&status);
        let source: StatusSource = Arc::new(move || connects::lock(&shown).clone());
        let served = self.metrics.as_ref().map(|address| {
            let served = metrics::serve(address, Arc::clone(&source));
            served.map_err(|error| RunError::Metrics { address: address.clone(), error })
        });
        Ok(Published { status, _served: served.transpose()?, _announced: announce(Command::Run, source) })
    }
}

/// The status as it was at the last tick, for whoever asks.
struct Published {
    status: Arc<Mutex<Status>>,
    _served: Option<Served>,
    _announced: Option<Announced>,
}

impl Published {
    fn set(&self, sockets: &Sockets) {
        let mut status = connects::lock(&self.status);
        (status.peers, status.listeners) = sockets.status(status.since);
    }
}

fn check_kernel() -> Result<(), RunError> {
    let support = probe().map_err(RunError::Probe);
    if support.as_ref().is_ok_and(|support| support.tcp_ao) {
        return Ok(());
    }
    // The filter of another supervisor refuses what is tried.
    if filter::is_supervised() {
        return Err(RunError::Supervised);
    }
    Err(RunError::NoTcpAo { kernel: support?.kernel })
}

/// What a thread wakes the supervisor by, and what the supervisor sees.
fn wake_up_call() -> Result<(UnixStream, UnixStream), RunError> {
    let pair = UnixStream::pair().and_then(|(wake, woken)| {
        woken.set_nonblocking(true)?;
        Ok((wake, woken))
    });
    pair.map_err(RunError::System)
}

/// Waits for a call of the program or a signal, and answers a call. Returns whether nobody is left who could make one.
fn wait_for(calls: &mut Calls, woken: &UnixStream, wait: Duration) -> io::Result<bool> {
    let notifications = calls.notifications();
    let mut events = [PollFd::new(&*notifications, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
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
        return Ok(false);
    }
    Ok(call.contains(PollFlags::HUP))
}

/// Passes a signal on.
fn pass(signal: Signal, pid: Pid) {
    // It may have ended.
    let _ = kill_process(pid, signal);
}

fn pid_of(process: &procfs::process::Process) -> Option<Pid> {
    Pid::from_raw(process.pid)
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
